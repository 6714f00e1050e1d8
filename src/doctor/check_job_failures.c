/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks on a job's logs: what failed, where first, and what such a failure means. */
#include <stdlib.h>
#include <string.h>

#include "job.h"

/* Statuses of completions, as verbs number them. */
static const struct {
	long status;
	const char *name;
	const char *meaning;
	const char *check;
} statuses[] = {
	{ 1, "IBV_WC_LOC_LEN_ERR", "a message did not fit the buffer posted for it",
	  "the same NCCL and plugin on both ends; ranks that call collectives with different sizes" },
	{ 4, "IBV_WC_LOC_PROT_ERR", "the NIC may not access the local memory",
	  "memory freed or unregistered while in use; nvidia_peermem and driver of one version; IOMMU" },
	{ 5, "IBV_WC_WR_FLUSH_ERR", "the queue pair was in error already: a consequence",
	  "the first error of this connection, on this rank or on its peer" },
	{ 9, "IBV_WC_REM_INV_REQ_ERR", "the peer's NIC rejected the request",
	  "NCCL, firmware and path MTU of both ends" },
	{ 10, "IBV_WC_REM_ACCESS_ERR", "the peer's NIC may not access that memory",
	  "the peer's process: it freed its buffer, or died; GPUDirect on the peer" },
	{ 11, "IBV_WC_REM_OP_ERR", "the peer could not complete the operation",
	  "the peer's NIC and PCIe: kernel log, AER" },
	{ 12, "IBV_WC_RETRY_EXC_ERR",
	  "no acknowledgement came after all retries: packets do not arrive, or the peer is gone",
	  "link and route between the two GIDs (ping -I, ibv_rc_pingpong -g), the same MTU on host and switch, the GID index, PFC and loss counters; then the peer's own log: it may have died first" },
	{ 13, "IBV_WC_RNR_RETRY_EXC_ERR", "the receiver had no buffer posted for too long",
	  "a peer that is stuck, on a debugger or out of memory" },
	{ 19, "IBV_WC_FATAL_ERR", "the device failed",
	  "kernel log of that host; the NIC's firmware" },
	{ 21, "IBV_WC_GENERAL_ERR", "an error without a better name", "kernel log of that host" },
};

static size_t status_row(long status)
{
	size_t count = sizeof(statuses) / sizeof(statuses[0]), i = 0;

	while (i < count && statuses[i].status != status)
		i++;
	return i < count ? i : count - 1;
}

static const char *owner(struct exam *exam, const struct joblog_event *event)
{
	if (event->process != JOBLOG_NONE)
		return joblog_process_name(&exam->diagnosis->scratch, exam->job, event->process);
	return event->rank >= 0 ? say(exam, "rank %ld", event->rank) : "";
}

/* The peer of an event, with its host if one of the processes has that address. */
static const char *peer_of(struct exam *exam, const struct joblog_event *event)
{
	const char *host = joblog_host_of(exam->job, event->peer);

	return host ? say(exam, "%s (%s)", event->peer, host) : event->peer;
}

/* Whether one event came before another: by the time in their lines if both have one. */
static bool before(const struct joblog_event *one, const struct joblog_event *two)
{
	return !two || (one->when[0] && two->when[0] && strcmp(one->when, two->when) < 0);
}

static const char *at_time(struct exam *exam, const struct joblog_event *event)
{
	return event->when[0] ? say(exam, " at %s", event->when) : "";
}

/* Events of one kind and number, as one finding. */
struct batch {
	const struct joblog_event *first;
	unsigned long count;
	unsigned ranks;
};

static bool gather(const struct joblog *log, enum joblog_kind kind, long number, bool any_number,
		   struct batch *out)
{
	*out = (struct batch){ 0 };
	for (uint32_t i = 0; i < log->event_count; i++) {
		const struct joblog_event *event = &log->events[i];

		if (event->kind != kind || (!any_number && event->number != number))
			continue;
		out->count += event->count;
		out->ranks++;
		if (before(event, out->first))
			out->first = event;
	}
	return out->first != NULL;
}

static void check_completion(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	/* A bit for each row and number that was told. */
	uint64_t told = 0;

	for (uint32_t i = 0; i < log->event_count; i++) {
		long status = log->events[i].number;
		size_t row = status_row(status);
		struct batch batch;
		struct finding *finding;
		const struct joblog_event *first;

		if (log->events[i].kind != EVENT_COMPLETION || status < 0 || status > 63 ||
		    (told & (UINT64_C(1) << status)))
			continue;
		told |= UINT64_C(1) << status;
		gather(log, EVENT_COMPLETION, status, false, &batch);
		first = batch.first;
		finding = job_found(exam, owner(exam, first), &first->place,
				    "status %ld (%s)%s%s%s%s%s%s; %lu time%s%s", status,
				    statuses[row].name, first->text[0] ? ", " : "", first->text,
				    first->peer[0] ? ", peer " : "", peer_of(exam, first),
				    first->device[0] ? ", NIC " : "", first->device, batch.count,
				    batch.count == 1 ? "" : "s, first", at_time(exam, first));
		finding->title = say(exam, "RDMA completion error: %s", statuses[row].meaning);
		finding->fix = say(exam, "check: %s", statuses[row].check);
		finding->brief = say(exam, "%s got completion error %ld (%s)%s%s",
				     owner(exam, first), status, statuses[row].name,
				     first->peer[0] ? " towards " : "", peer_of(exam, first));
		/* Flushed requests follow from another error. */
		if (status == 5)
			finding->impact = 10;
	}
}

static void check_async(struct exam *exam, const struct subject *subject)
{
	static const char *const harmless[] = { "client reregistration", "port active", "SM change",
						"last WQE reached", "communication established" };

	for (uint32_t i = 0; i < exam->job->event_count; i++) {
		const struct joblog_event *event = &exam->job->events[i];
		struct finding *finding;

		if (event->kind != EVENT_ASYNC)
			continue;
		finding =
			job_found(exam, owner(exam, event), &event->place, "%s%s%s, %lu time%s%s",
				  event->device, event->device[0] ? ": " : "", event->text,
				  event->count, event->count == 1 ? "" : "s", at_time(exam, event));
		finding->brief = say(exam, "%s on %s reported \"%s\"", event->device,
				     owner(exam, event), event->text);
		if (!event->number)
			finding->severity = SEVERITY_WARNING;
		for (size_t j = 0; j < sizeof(harmless) / sizeof(harmless[0]); j++) {
			if (strcasestr(event->text, harmless[j]) && !event->number)
				finding->severity = SEVERITY_INFO;
		}
	}
}

static void check_verbs(struct exam *exam, const struct subject *subject)
{
	for (uint32_t i = 0; i < exam->job->event_count; i++) {
		const struct joblog_event *event = &exam->job->events[i];
		struct finding *finding;

		if (event->kind != EVENT_VERBS)
			continue;
		finding = job_found(exam, owner(exam, event), &event->place, "%s", event->text);
		if (strstr(event->text, "ibv_reg_mr") && strstr(event->text, "allocate memory"))
			finding->fix =
				"ulimit -l unlimited; --ulimit memlock=-1 for a container; godwit doctor --only memlock";
		else if (strstr(event->text, "ibv_modify_qp"))
			finding->fix =
				"the GID of both ends must be reachable: NCCL_IB_GID_INDEX unset, an address on the RoCE interface, one VLAN and MTU; godwit doctor --only gid-choice,mtu";
		else if (strstr(event->text, "Unable to open") || strstr(event->text, "ibv_open"))
			finding->fix =
				"--device=/dev/infiniband for the container; godwit doctor --only uverbs-access";
	}
}

static void check_socket(struct exam *exam, const struct subject *subject)
{
	struct batch closed, failed;
	struct finding *finding;

	if (gather(exam->job, EVENT_SOCKET, 1, false, &failed)) {
		finding = job_found(
			exam, owner(exam, failed.first), &failed.first->place, "%s%s%s; %lu time%s",
			failed.first->text, failed.first->peer[0] ? ", peer " : "",
			peer_of(exam, failed.first), failed.count, failed.count == 1 ? "" : "s");
		finding->title = "a TCP connection between ranks failed";
		finding->impact = 75;
		finding->fix =
			"the address must be reachable from that host (ip route get ADDRESS; firewall: NCCL takes any port); NCCL_SOCKET_IFNAME names the interface";
		finding->brief =
			say(exam, "%s cannot reach %s by TCP (%s)", owner(exam, failed.first),
			    failed.first->peer[0] ? peer_of(exam, failed.first) : "a peer",
			    failed.first->text);
	}
	if (!gather(exam->job, EVENT_SOCKET, 0, false, &closed))
		return;
	finding = job_found(exam, owner(exam, closed.first), &closed.first->place,
			    "connection closed by %s%s; %lu time%s on %u rank%s",
			    closed.first->peer[0] ? peer_of(exam, closed.first) : "the peer",
			    at_time(exam, closed.first), closed.count, closed.count == 1 ? "" : "s",
			    closed.ranks, closed.ranks == 1 ? "" : "s");
	finding->brief = say(exam, "a peer of %s ended or was killed", owner(exam, closed.first));
}

static void check_retry(struct exam *exam, const struct subject *subject)
{
	struct batch batch;

	if (gather(exam->job, EVENT_RETRY, 0, true, &batch))
		job_found(exam, owner(exam, batch.first), &batch.first->place,
			  "%s%s%s; %lu line%s on %u rank%s", batch.first->text,
			  batch.first->peer[0] ? ", peer " : "", peer_of(exam, batch.first),
			  batch.count, batch.count == 1 ? "" : "s", batch.ranks,
			  batch.ranks == 1 ? "" : "s");
}

/* Kinds of which each text is a finding of its own, without more to say. */
static void tell_each(struct exam *exam, enum joblog_kind kind)
{
	for (uint32_t i = 0; i < exam->job->event_count; i++) {
		const struct joblog_event *event = &exam->job->events[i];
		struct finding *finding;

		if (event->kind != kind)
			continue;
		finding = job_found(exam, owner(exam, event), &event->place, "%s%s", event->text,
				    at_time(exam, event));
		finding->brief =
			say(exam, "%s: %s", owner(exam, event)[0] ? owner(exam, event) : "a rank",
			    event->text);
	}
}

static void check_shm(struct exam *exam, const struct subject *subject)
{
	tell_each(exam, EVENT_SHM);
}

static void check_duplicate_gpu(struct exam *exam, const struct subject *subject)
{
	struct batch batch;

	if (gather(exam->job, EVENT_DUPLICATE_GPU, 0, true, &batch))
		job_found(exam, owner(exam, batch.first), &batch.first->place, "%s",
			  batch.first->text);
}

static void check_cuda(struct exam *exam, const struct subject *subject)
{
	tell_each(exam, EVENT_CUDA);
}

static void check_value(struct exam *exam, const struct subject *subject)
{
	tell_each(exam, EVENT_VALUE);
}

static void check_warnings(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	unsigned told = 0;

	for (uint32_t i = 0; i < log->event_count && told < 5; i++) {
		const struct joblog_event *event = &log->events[i];
		unsigned long count = 0, ranks = 0;
		bool earlier = false;

		if (event->kind != EVENT_WARNING)
			continue;
		for (uint32_t j = 0; j < log->event_count; j++) {
			if (log->events[j].kind != EVENT_WARNING ||
			    log->events[j].text != event->text)
				continue;
			earlier |= j < i;
			count += log->events[j].count;
			ranks++;
		}
		if (earlier)
			continue;
		told++;
		job_found(exam, owner(exam, event), &event->place, "%s (%lu on %lu rank%s)",
			  event->text, count, ranks, ranks == 1 ? "" : "s");
	}
}

static const char *signal_words(long status)
{
	switch (-status) {
	case 6:
		return "aborted itself (SIGABRT)";
	case 9:
		return "was killed (SIGKILL): most often out of memory";
	case 11:
		return "crashed (SIGSEGV)";
	case 15:
		return "was told to end (SIGTERM)";
	default:
		return "was ended by a signal";
	}
}

static void check_death(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const struct joblog_event *worst = NULL;
	struct finding *finding;
	unsigned count = 0;
	const char *name, *words;

	for (uint32_t i = 0; i < log->event_count; i++) {
		const struct joblog_event *event = &log->events[i];

		if (event->kind != EVENT_DEATH || event->number == 0)
			continue;
		count++;
		/* The launcher ends the others by SIGTERM; an abort is the watchdog's doing most often. */
		if (!worst || event->root > worst->root ||
		    (event->root == worst->root && (worst->number == -15 || worst->number == -6) &&
		     event->number != -15 && event->number != -6))
			worst = event;
	}
	if (!worst || (worst->number == -15 && !worst->root))
		return;
	name = worst->rank >= 0 ? say(exam, "rank %ld", worst->rank) : say(exam, "%s", worst->text);
	words = worst->number < 0 ? signal_words(worst->number)
				  : say(exam, "ended with exit status %ld", worst->number);
	finding = job_found(exam, name, &worst->place, "%s; %u process%s in all", words, count,
			    count == 1 ? "" : "es");
	finding->brief = say(exam, "%s %s", name, words);
	/* The watchdog's abort is a symptom. */
	if (worst->number == -6)
		finding->impact = 30;
}

static const struct check checks[] = {
	{ "log-death", SEVERITY_ERROR, 99, SCOPE_JOB, GATE_NONE, "a rank died", "all ranks live",
	  "The other ranks wait for it in their next collective until a watchdog ends them: their errors are its consequences.",
	  "the rank's own log, and on its host: dmesg -T | grep -iE 'out of memory|killed process|Xid'",
	  "torchrun and srun report how each process ended. SIGKILL without a user is the kernel's or Slurm's memory limit; SIGABRT is PyTorch's watchdog.",
	  check_death },
	{ "log-cuda", SEVERITY_ERROR, 98, SCOPE_JOB, GATE_NONE, "a CUDA call failed",
	  "no CUDA error", "The rank stops, and the others wait for it.",
	  "godwit doctor --only xid on its host; out of memory: a smaller batch",
	  "Xid errors, a GPU that fell off the bus, memory that ran out, a kernel of the model that reads outside its arrays.",
	  check_cuda },
	{ "log-completion", SEVERITY_ERROR, 92, SCOPE_JOB, GATE_NONE, "RDMA completion error",
	  "no completion with an error",
	  "NCCL gives the communicator up: the job ends or hangs until the watchdog ends it.",
	  "see the meaning of the status",
	  "12 (retry exceeded): packets do not arrive, with NCCL's defaults for about 30 s. 5 (flushed): follows from another error. 10 (remote access), 4 (local protection): memory that is gone. 13 (receiver not ready).",
	  check_completion },
	{ "log-async", SEVERITY_ERROR, 91, SCOPE_JOB, GATE_NONE, "an RDMA device reported an event",
	  "none",
	  "A port that went down or a GID that changed breaks the connections of all ranks on that host.",
	  "godwit doctor --only link-flaps,kernel-hardware on that host; its kernel log at that time",
	  "Port error and port active: the link flapped. GID table changed: an address went and came, and NCCL keeps the old index. Device fatal: firmware.",
	  check_async },
	{ "log-verbs", SEVERITY_ERROR, 89, SCOPE_JOB, GATE_NONE, "a call of libibverbs failed",
	  "none", "NCCL cannot set its connections up.", "godwit doctor on that host",
	  "ibv_reg_mr: memlock. ibv_modify_qp with a timeout or an invalid argument: a GID that cannot reach the peer. ibv_open_device: rights on /dev/infiniband. ibv_create_qp: too many queue pairs.",
	  check_verbs },
	{ "log-tcp", SEVERITY_ERROR, 35, SCOPE_JOB, GATE_NONE, "a peer closed its connection",
	  "connections last as long as the job", "A peer that ended takes its neighbours with it.",
	  "look for the rank that ended first: its log has the reason",
	  "A closed connection is a consequence, most often. Refused or timed out: a firewall, an interface that peers cannot reach, a peer that is not there yet.",
	  check_socket },
	{ "log-retry", SEVERITY_WARNING, 40, SCOPE_JOB, GATE_NONE, "connections needed retries",
	  "connections at the first try",
	  "Initialization takes longer; with a peer that never answers it never ends.",
	  "godwit doctor PEER between the two hosts; ip route get ADDRESS; firewall",
	  "Connection refused: the peer does not listen yet, or its port is filtered with a reset. Timed out: filtered without one, or no route.",
	  check_retry },
	{ "log-shm", SEVERITY_ERROR, 86, SCOPE_JOB, GATE_NONE, "shared memory could not be used",
	  "/dev/shm of a GiB or more", "Ranks of one host cannot connect.",
	  "df -h /dev/shm; --shm-size=16g or --ipc=host for a container",
	  "Containers have 64 MiB of /dev/shm unless told otherwise.", check_shm },
	{ "log-duplicate-gpu", SEVERITY_ERROR, 94, SCOPE_JOB, GATE_NONE, "two ranks use one GPU",
	  "one GPU for each rank", "NCCL refuses to start.",
	  "torch.cuda.set_device(LOCAL_RANK) before the first collective; CUDA_VISIBLE_DEVICES",
	  "A launcher that gives all ranks of a host the same CUDA_VISIBLE_DEVICES, or a script that forgets to choose.",
	  check_duplicate_gpu },
	{ "log-value", SEVERITY_WARNING, 45, SCOPE_JOB, GATE_NONE,
	  "NCCL rejects the value of a variable", "values that NCCL understands",
	  "NCCL goes on with its default.", "correct it in the job's environment or in nccl.conf",
	  "A word where a number is expected, or a typing error.", check_value },
	{ "log-warnings", SEVERITY_WARNING, 20, SCOPE_JOB, GATE_NONE, "NCCL warns", "no warning",
	  "NCCL warns rarely without a reason.", "read the lines around the place named above",
	  "Every line NCCL WARN that no other check explains, with numbers left out.",
	  check_warnings },
};

const struct check_group checks_job_failures = CHECK_GROUP(checks);
