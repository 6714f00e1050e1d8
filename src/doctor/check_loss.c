/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss: what the fabric drops, what the NIC drops, what pauses cost. A counter that rose between the two samples is
 * happening now; one that is high over its lifetime happened once, and is told with its share of all packets.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exam.h"
#include "plan/plan.h"

/* Lifetime shares below this are what reboots and cable pulls leave behind. */
#define SHARE_TO_TELL 1e-6
/* Packets below which a share of an interval means nothing. */
#define PACKETS_LEAST 1000u
#define PAUSE_SHARE   0.01
#define BUSY_SHARE    0.9
/* What the planner is told of the path: within a datacenter, and a bucket of gradients. */
#define ASSUMED_RTT_NS	 UINT64_C(20000)
#define ASSUMED_BYTES	 (UINT64_C(4) << 20)
#define ASSUMED_RATE_BPS UINT64_C(100000000000)

/* A sum of counters, over the interval and over their lifetime. */
struct sum {
	uint64_t delta;
	uint64_t lifetime;
	bool delta_known;
	bool known;
	/* name of the one that contributed most */
	const struct counter *most;
};

static void add(struct sum *sum, const struct counter *counter)
{
	uint64_t value, delta;

	if (!counter_value(counter, &value))
		return;
	sum->known = true;
	sum->lifetime += value;
	if (counter_delta(counter, &delta)) {
		sum->delta_known = true;
		sum->delta += delta;
	}
	if (!sum->most || value > sum->most->first)
		sum->most = counter;
}

static struct sum sum_of(const struct counters *counters, const char *const *names)
{
	struct sum sum = { 0 };

	for (; *names; names++)
		add(&sum, counters_find(counters, *names));
	return sum;
}

/* Packets that the port sent or got: the first name that is there, for drivers differ. */
static struct sum packets(const struct port *port, bool sent)
{
	static const char *const names[2][5] = {
		{ "port_rcv_packets", "rx_pkts", "rcvd_pkts", "ip4InPkts", NULL },
		{ "port_xmit_packets", "tx_pkts", "sent_pkts", "ip4OutPkts", NULL },
	};
	struct sum sum = { 0 };

	for (const char *const *name = names[sent]; *name && !sum.known; name++)
		add(&sum, counters_find(&port->counters, *name));
	return sum;
}

/* A counter of the port that is saturated hides what happens. */
static void tell_lost_counters(struct exam *exam, const struct subject *subject,
			       const char *const *names)
{
	bool any = false;

	for (; *names; names++) {
		const struct counter *counter = counters_find(&subject->port->counters, *names);

		if (!counter)
			continue;
		any = true;
		if (counter->state != FACT_KNOWN)
			unseen_why(exam, subject, counter->path,
				   fact_why(counter->state, counter->error));
	}
	if (!any)
		unseen_why(exam, subject, say(exam, "%s/hw_counters", subject->port->path),
			   "the driver has no such counter");
}

/* Says what reliability a fabric with this loss wants. */
static void plan_for(struct exam *exam, const struct port *port, double loss)
{
	struct plan_choice choice;
	struct plan_path path;
	char name[PLAN_NAME_SIZE];

	if (loss > PLAN_LOSS_MAX / 2)
		loss = PLAN_LOSS_MAX / 2;
	plan_path_init(&path, ASSUMED_RTT_NS, port->rate_bps ? port->rate_bps : ASSUMED_RATE_BPS,
		       loss);
	if (plan_choose(&path, ASSUMED_BYTES, PLAN_P99, &choice) != 0)
		return;
	diagnosis_note(
		exam->diagnosis, "planner", say(exam, "%s", port->name),
		say(exam,
		    "at a loss of %.1e, for 4 MiB at 20 us round trip: %s; try godwit plan --rtt T --rate %.0fG --loss %.1e --size 4M",
		    loss, plan_name(&choice.params, name),
		    (double)(port->rate_bps ? port->rate_bps : ASSUMED_RATE_BPS) / 1e9, loss));
}

/* Bytes that the port sent or got between the samples; the InfiniBand counters count words of four. */
static bool bytes_moved(const struct port *port, bool sent, uint64_t *out)
{
	static const struct {
		const char *name[2];
		unsigned unit;
	} kinds[] = {
		{ { "port_rcv_data", "port_xmit_data" }, 4 },
		{ { "rx_bytes", "tx_bytes" }, 1 },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t delta;

		if (counter_delta(counters_find(&port->counters, kinds[i].name[sent]), &delta)) {
			*out = delta * kinds[i].unit;
			return true;
		}
	}
	return false;
}

static void link_busy(struct exam *exam, const struct subject *subject)
{
	static const char *const ways[] = { "in", "out" };
	const struct port *port = subject->port;
	double share[2] = { 0 }, rate[2] = { 0 };

	if (!exam->model->interval_ms || !port->rate_bps)
		return;
	for (unsigned way = 0; way < 2; way++) {
		uint64_t bytes;

		if (!bytes_moved(port, way, &bytes))
			return;
		rate[way] = (double)bytes * 8 * 1000 / exam->model->interval_ms;
		share[way] = rate[way] / (double)port->rate_bps;
	}
	diagnosis_note(exam->diagnosis, "traffic", say(exam, "%s", port->name),
		       say(exam, "%.1f Gbit/s out (%.0f %% of the line rate), %.1f in (%.0f %%)",
			   rate[1] / 1e9, share[1] * 100, rate[0] / 1e9, share[0] * 100));
	for (unsigned way = 0; way < 2; way++) {
		if (share[way] >= BUSY_SHARE)
			found(exam, subject, say(exam, "%s/counters", port->path),
			      "%.0f Gbit/s %s, %.0f %% of the line rate", rate[way] / 1e9,
			      ways[way], share[way] * 100);
	}
}

static void retransmissions(struct exam *exam, const struct subject *subject)
{
	/* Proofs of loss at the sender (its peer asked again, or nothing came back), each counted once for a loss. */
	static const char *const proofs[] = { "packet_seq_err",	     "local_ack_timeout_err",
					      "implied_nak_seq_err", "roce_adp_retrans",
					      "to_retransmits",	     "seq_err_naks_rcvd",
					      "rcvd_seq_err",	     "completer_retry_err",
					      "RetransSegs",	     NULL };
	struct sum lost = sum_of(&subject->port->counters, proofs);
	struct sum sent = packets(subject->port, true);
	struct finding *finding;
	double share;

	if (!lost.known) {
		tell_lost_counters(exam, subject, proofs);
		return;
	}
	if (lost.delta_known && lost.delta) {
		double a_second = (double)lost.delta * 1000 / exam->model->interval_ms;

		share = sent.delta_known && sent.delta >= PACKETS_LEAST
				? (double)lost.delta / (double)sent.delta
				: 0;
		found(exam, subject, lost.most->path, "%.0f a second%s", a_second,
		      share > 0 ? say(exam, ", %.1e of the packets sent", share) : "");
		if (share > 0)
			plan_for(exam, subject->port, share);
		return;
	}
	share = sent.known && sent.lifetime >= PACKETS_LEAST
			? (double)lost.lifetime / (double)sent.lifetime
			: 0;
	if (share < SHARE_TO_TELL)
		return;
	finding = found(exam, subject, lost.most->path,
			"%.1e of all packets sent since the counters began", share);
	finding->severity = SEVERITY_WARNING;
	finding->title = "packets were lost";
	plan_for(exam, subject->port, share);
}

static void out_of_sequence(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "out_of_sequence", "out_of_seq_request",
					     "oos_drop_count", NULL };
	static const char *const proofs[] = { "packet_seq_err", "local_ack_timeout_err", NULL };
	struct sum disorder = sum_of(&subject->port->counters, names);
	struct sum lost = sum_of(&subject->port->counters, proofs);

	/* Alone it is what adaptive routing does. */
	if (disorder.delta_known && disorder.delta && lost.delta_known && lost.delta)
		found(exam, subject, disorder.most->path, "%.0f a second, with retransmissions",
		      (double)disorder.delta * 1000 / exam->model->interval_ms);
}

static void retries_exhausted(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "req_transport_retries_exceeded", "max_retry_exceeded",
					     "retry_exceeded_err", NULL };
	struct sum sum = sum_of(&subject->port->counters, names);
	struct finding *finding;

	if (!sum.known || !sum.lifetime)
		return;
	finding = found(exam, subject, sum.most->path, "%llu%s", (unsigned long long)sum.lifetime,
			sum.delta ? ", and rising" : " since the counters began");
	if (!sum.delta)
		finding->severity = SEVERITY_WARNING;
}

static void receiver_not_ready(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "rnr_nak_retry_err", "out_of_buffer",
					     "rx_out_of_buffer",  "rnr_naks_rcvd",
					     "rcvd_rnr_err",	  NULL };
	struct sum sum = sum_of(&subject->port->counters, names);

	if (sum.delta_known && sum.delta)
		found(exam, subject, sum.most->path, "%.0f a second",
		      (double)sum.delta * 1000 / exam->model->interval_ms);
}

/* Counters of the interface whose name begins with `start` and ends with `end`. */
static struct sum sum_like(const struct counters *counters, const char *start, const char *end)
{
	struct sum sum = { 0 };

	for (size_t i = 0; i < counters->count; i++) {
		const char *name = counters->counter[i].name;
		size_t length = strlen(name), tail = strlen(end);

		if (strncmp(name, start, strlen(start)) == 0 && length >= tail &&
		    strcmp(name + length - tail, end) == 0)
			add(&sum, &counters->counter[i]);
	}
	return sum;
}

static void nic_drops(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "rx_discards_phy", "outbound_pci_buffer_overflow",
					     "rx_roce_discards", NULL };
	const struct netdev *netdev = subject->port->netdev;
	struct sum sum = { 0 };

	if (!netdev || !seen(exam, subject, netdev->counters_fact, false))
		return;
	sum = sum_of(&netdev->counters, names);
	for (unsigned priority = 0; priority < 8 && !sum.delta; priority++) {
		char start[16];

		snprintf(start, sizeof(start), "rx_prio%u_", priority);
		sum = sum_like(&netdev->counters, start, "discards");
		if (!sum.delta)
			sum = sum_like(&netdev->counters, start, "buf_discard");
	}
	if (!sum.delta)
		sum = sum_of(&netdev->counters, names);
	if (sum.delta_known && sum.delta)
		found(exam, subject, sum.most->path, "%s: %.0f a second", sum.most->name,
		      (double)sum.delta * 1000 / exam->model->interval_ms);
}

static void pause_storm(struct exam *exam, const struct subject *subject)
{
	const struct netdev *netdev = subject->port->netdev;
	struct finding *finding;
	struct sum sum;

	if (!netdev || !seen(exam, subject, netdev->counters_fact, false))
		return;
	sum = sum_like(&netdev->counters, "tx_pause_storm_", "_events");
	if (!sum.known || !sum.lifetime)
		return;
	finding = found(exam, subject, sum.most->path, "%llu events%s",
			(unsigned long long)sum.lifetime, sum.delta ? ", and rising" : "");
	if (sum.delta)
		finding->severity = SEVERITY_ERROR;
}

static void pause_time(struct exam *exam, const struct subject *subject)
{
	const struct netdev *netdev = subject->port->netdev;

	if (!netdev || !exam->model->interval_ms ||
	    !seen(exam, subject, netdev->counters_fact, false))
		return;
	for (unsigned priority = 0; priority < 8; priority++) {
		const struct counter *counter;
		char name[40];
		uint64_t us;
		double share;

		snprintf(name, sizeof(name), "rx_prio%u_pause_duration", priority);
		counter = counters_find(&netdev->counters, name);
		if (!counter_delta(counter, &us))
			continue;
		share = (double)us / 1000 / exam->model->interval_ms;
		if (share >= PAUSE_SHARE)
			found(exam, subject, counter->path,
			      "priority %u stood still for %.0f %% of the time", priority,
			      share * 100);
	}
}

static const struct check checks[] = {
	{
		.id = "link-busy",
		.severity = SEVERITY_INFO,
		.impact = 38,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ACTIVE | GATE_HARDWARE,
		.title = "the link is full",
		.healthy = "below 90 % of the line rate, or a job that is meant to fill it",
		.why = "More bandwidth here needs another rail, less data (compression, fewer bytes in each gradient) or another placement of ranks.",
		.fix = "compare the ports of all hosts: a link that is full while others are idle is a matter of placement or of ECMP",
		.explain =
			"Bytes of port_xmit_data and port_rcv_data (or the driver's own) between the two samples. Without --verbose the first ports are told as remarks.",
		.run = link_busy,
	},
	{
		.id = "retransmissions",
		.severity = SEVERITY_ERROR,
		.impact = 87,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ACTIVE,
		.title = "packets are being lost",
		.healthy = "0",
		.why = "Each loss makes RoCE send a whole window again, or wait for a timer of seconds: a loss of 1e-4 can halve the bandwidth.",
		.fix = "find where: drops at this NIC (nic-drops), at the switch (its discard counters), or errors of the cable (bit-errors)",
		.explain =
			"Counts what proves a loss: sequence errors told by the peer, acknowledgement timeouts, retransmissions (mlx5: packet_seq_err, local_ack_timeout_err, roce_adp_retrans; bnxt_re: to_retransmits, seq_err_naks_rcvd; rxe: rcvd_seq_err). out_of_sequence alone is no proof: adaptive routing reorders. The measured share goes to Godwit's planner, which names the scheme that this loss wants.",
		.run = retransmissions,
	},
	{
		.id = "out-of-sequence",
		.severity = SEVERITY_WARNING,
		.impact = 42,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ACTIVE,
		.title = "packets arrive out of sequence and are sent again",
		.healthy = "0, or adaptive routing without retransmissions",
		.why = "A receiver that takes disorder for loss asks for packets that are on their way.",
		.fix = "with adaptive routing: enable out-of-order reception on the NICs, or switch it off for this traffic",
		.explain = "out_of_sequence counts packets that came before their predecessor.",
		.run = out_of_sequence,
	},
	{
		.id = "retries-exhausted",
		.severity = SEVERITY_ERROR,
		.impact = 93,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA,
		.title = "queue pairs gave up",
		.healthy = "0",
		.why = "This is NCCL's \"error 12\": the peer did not answer seven times in a row, and the job is over.",
		.fix = "look at the peer and the path first (port-state, link-flaps); raise NCCL_IB_TIMEOUT only when they are sound",
		.explain =
			"A queue pair repeats NCCL_IB_RETRY_CNT (7) times, each after 4.096 us * 2^NCCL_IB_TIMEOUT (20: 4.3 s).",
		.run = retries_exhausted,
	},
	{
		.id = "receiver-not-ready",
		.severity = SEVERITY_WARNING,
		.impact = 43,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ACTIVE,
		.title = "receivers have no buffer posted",
		.healthy = "0",
		.why = "The sender waits and repeats; with few retries the connection ends.",
		.fix = "post more receives (UCX_RC_RX_QUEUE_LEN; NCCL: none, look for a stalled rank)",
		.explain =
			"RNR: receiver not ready. out_of_buffer counts what this host lacked, rnr_nak_retry_err what its peers lacked.",
		.run = receiver_not_ready,
	},
	{
		.id = "nic-drops",
		.severity = SEVERITY_WARNING,
		.impact = 70,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_ACTIVE,
		.title = "the NIC drops packets that arrived",
		.healthy = "0",
		.why = "The host takes data slower than the link brings it: memory, PCIe, or a buffer that PFC does not protect.",
		.fix = "check pcie-link, pcie-stall and iommu; for lossless traffic: tc-chain and the buffer size (mlnx_qos --buffer_size)",
		.explain =
			"rx_discards_phy, rx_prioN_discards, rx_prioN_buf_discard, outbound_pci_buffer_overflow of ethtool -S.",
		.run = nic_drops,
	},
	{
		.id = "pause-storm",
		.severity = SEVERITY_WARNING,
		.impact = 78,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE,
		.title = "the NIC sent pauses for so long that its watchdog spoke",
		.healthy = "0",
		.why = "A host that does not take its data stops the switch, then the switch's other ports: the whole rail stands.",
		.fix = "find what stops this host (a hung GPU or process); enable the switch's PFC watchdog",
		.explain =
			"tx_pause_storm_warning_events and tx_pause_storm_error_events of ethtool -S.",
		.run = pause_storm,
	},
	{
		.id = "pause-time",
		.severity = SEVERITY_WARNING,
		.impact = 68,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_ACTIVE,
		.title = "the switch pauses this sender",
		.healthy = "below 1 % of the time",
		.why = "Time in which a priority may not send is bandwidth lost; it also delays everything behind it.",
		.fix = "find the slow receiver or the oversubscribed link; check dcqcn, so that senders slow down before they are stopped",
		.explain =
			"rx_prioN_pause_duration counts microseconds. Its change over the interval is told as a share.",
		.run = pause_time,
	},
};

const struct check_group checks_loss = CHECK_GROUP(checks);
