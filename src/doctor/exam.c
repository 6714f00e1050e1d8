/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the checks: finds what each concerns, and gives findings the check's words. */
#include "cluster.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const struct check_group *const groups[] = {
	&checks_devices,   &checks_ports,	&checks_gids,	      &checks_addresses,
	&checks_limits,	   &checks_qos,		&checks_congestion,   &checks_loss,
	&checks_physical,  &checks_pcie,	&checks_gpudirect,    &checks_plugins,
	&checks_nccl,	   &checks_routes,	&checks_buffers,      &checks_log,
	&checks_tuning,	   &checks_job_network, &checks_job_failures, &checks_job_agreement,
	&checks_job_ranks, &checks_hosts,	&checks_mesh,
};

const struct check *check_at(size_t index)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (index < groups[i]->count)
			return &groups[i]->checks[index];
		index -= groups[i]->count;
	}
	return NULL;
}

const struct check *check_find(check_list *at, const char *id, size_t length)
{
	const struct check *check;

	for (size_t i = 0; (check = at(i)); i++) {
		if (strlen(check->id) == length && memcmp(check->id, id, length) == 0)
			return check;
	}
	return NULL;
}

/* Returns whether comma-separated names contain a check; -EINVAL if one of them is no check of the list. */
static int named_in(check_list *at, const char *names, const struct check *check)
{
	bool is = false;

	for (const char *name = names; name && *name;) {
		size_t length = strcspn(name, ",");
		const struct check *named = check_find(at, name, length);

		if (length && !named)
			return -EINVAL;
		is |= named && named == check;
		name += length + (name[length] == ',');
	}
	return is;
}

int check_wanted(check_list *at, const char *only, const char *skip, const struct check *check)
{
	int in_only = named_in(at, only, check), in_skip = named_in(at, skip, check);

	if (in_only < 0 || in_skip < 0)
		return -EINVAL;
	return (!only || in_only) && !in_skip;
}

const char *say(struct exam *exam, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = scratch_vprint(&exam->diagnosis->scratch, format, args);
	va_end(args);
	return text;
}

const char *netdev_name(const struct port *port)
{
	return port->netdev ? port->netdev->name : "";
}

static const char *object_of(struct exam *exam, const struct subject *subject)
{
	if (subject->port)
		return say(exam, "%s", subject->port->name);
	return subject->device ? say(exam, "%s", subject->device->name) : "";
}

/* What a path under /.godwit stands for, in words of people: the call or the command that asks the same. */
static const struct {
	const char *prefix;
	/* %s: what follows the prefix, up to the next slash */
	const char *words;
} questions[] = {
	{ "/.godwit/addresses", "getifaddrs()" },
	{ "/.godwit/clock", "adjtimex()" },
	{ "/.godwit/environ", "environment" },
	{ "/.godwit/ethtool/", "ethtool (-S, -a, -g) %s" },
	{ "/.godwit/job/limits", "/proc/PID/limits" },
	{ "/.godwit/job/", "/proc/PID: %s" },
	{ "/.godwit/kmsg", "/dev/kmsg" },
	{ "/.godwit/library/", "dlopen() of %s" },
	{ "/.godwit/limits", "getrlimit() of this process" },
	{ "/.godwit/netlink/dcb/", "netlink, as dcb pfc show dev %s" },
	{ "/.godwit/netlink/rdma/", "netlink, as rdma %s" },
	{ "/.godwit/netlink/route/", "netlink, as ip route get %s" },
	{ "/.godwit/netlink/rules", "netlink, as ip rule" },
	{ "/.godwit/space/", "statvfs(/%s)" },
	{ "/.godwit/verbs/devices", "ibv_get_device_list()" },
	{ "/.godwit/verbs/dmabuf/", "ibv_reg_dmabuf_mr() on %s" },
	{ "/.godwit/verbs/port/", "ibv_query_port() of %s" },
	{ "/.godwit/access/", "access(/%s)" },
};

static const char *place(struct exam *exam, const char *path)
{
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		size_t length = strlen(questions[i].prefix);
		const char *hole = strstr(questions[i].words, "%s"), *rest = path + length;
		size_t shown;

		if (strncmp(path, questions[i].prefix, length) != 0)
			continue;
		if (!hole)
			return questions[i].words;
		/* A path is shown whole; of a name, what comes before the next slash. */
		shown = hole > questions[i].words && hole[-1] == '/' ? strlen(rest)
								     : strcspn(rest, "/");
		return say(exam, "%.*s%.*s%s", (int)(hole - questions[i].words), questions[i].words,
			   (int)shown, rest, hole + 2);
	}
	return say(exam, "%s", path);
}

/* Puts the subject's names in the place of INTERFACE, DEVICE and PCI_ADDRESS, so that a command can be copied. */
static const char *fill_in(struct exam *exam, const struct subject *subject, const char *text)
{
	const struct {
		const char *word;
		const char *name;
	} words[] = {
		{ "INTERFACE", subject->port ? netdev_name(subject->port) : "" },
		{ "PCI_ADDRESS",
		  subject->device && subject->device->pci ? subject->device->pci : "" },
		{ "DEVICE", subject->device ? subject->device->name : "" },
	};

	struct builder filled = { 0 };
	const char *result;

	/* Once through the text: a name may contain such a word itself. */
	while (*text) {
		size_t i = 0, count = sizeof(words) / sizeof(words[0]);

		while (i < count && (!words[i].name[0] ||
				     strncmp(text, words[i].word, strlen(words[i].word)) != 0))
			i++;
		if (i < count) {
			builder_add(&filled, words[i].name, strlen(words[i].name));
			text += strlen(words[i].word);
		} else {
			builder_add(&filled, text++, 1);
		}
	}
	result = say(exam, "%s", filled.text ? filled.text : "");
	builder_free(&filled);
	return result;
}

struct finding *check_finding(const struct check *check, struct diagnosis *diagnosis)
{
	struct finding *finding = diagnosis_finding(diagnosis);

	finding->check = check->id;
	finding->severity = check->severity;
	finding->impact = check->impact;
	finding->title = check->title;
	finding->healthy = check->healthy;
	finding->why = check->why;
	finding->fix = check->fix;
	return finding;
}

struct finding *found(struct exam *exam, const struct subject *subject, const char *where,
		      const char *value, ...)
{
	struct finding *finding = check_finding(exam->check, exam->diagnosis);
	va_list args;

	va_start(args, value);
	finding->value = scratch_vprint(&exam->diagnosis->scratch, value, args);
	va_end(args);
	finding->fix = fill_in(exam, subject, finding->fix);
	finding->where = place(exam, where);
	finding->object = object_of(exam, subject);
	return finding;
}

void unseen_why(struct exam *exam, const struct subject *subject, const char *where,
		const char *why)
{
	struct unknown *unknown = diagnosis_unknown(exam->diagnosis);

	unknown->check = exam->check->id;
	unknown->object = object_of(exam, subject);
	unknown->where = place(exam, where);
	unknown->why = say(exam, "%s", why);
}

void unseen(struct exam *exam, const struct subject *subject, const struct fact *fact)
{
	unseen_why(exam, subject, fact->path, fact_why(fact->state, fact->error));
}

bool seen(struct exam *exam, const struct subject *subject, const struct fact *fact,
	  bool absent_matters)
{
	if (fact->state == FACT_KNOWN)
		return true;
	if ((fact->state != FACT_ABSENT && fact->state != FACT_NOT_APPLICABLE) || absent_matters)
		unseen(exam, subject, fact);
	return false;
}

static bool any_nccl_variable(const struct nccl *nccl)
{
	for (size_t i = 0; i < nccl->count; i++) {
		if (strncmp(nccl->variables[i].name, "NCCL_", 5) == 0)
			return true;
	}
	return false;
}

static bool host_gates_open(const struct exam *exam, unsigned gates)
{
	const struct model *model = exam->model;

	if ((gates & GATE_RDMA) && !model->device_count)
		return false;
	if ((gates & GATE_GPU) && !model->gpu_count)
		return false;
	if ((gates & GATE_JOB) &&
	    reader_read(model->reader, "/.godwit/job/devices")->state != FACT_KNOWN)
		return false;
	return !(gates & GATE_NCCL) || model->device_count || any_nccl_variable(&exam->nccl);
}

static bool device_gates_open(const struct device *device, unsigned gates)
{
	if ((gates & GATE_MLX5) && device->driver != DRIVER_MLX5)
		return false;
	if ((gates & GATE_HARDWARE) && device->soft)
		return false;
	return !(gates & GATE_PHYSICAL) || !device->vf;
}

static bool port_gates_open(const struct exam *exam, const struct port *port, unsigned gates)
{
	if ((gates & GATE_ROCE) && port->link_layer != LINK_ETHERNET)
		return false;
	if ((gates & GATE_INFINIBAND) && port->link_layer != LINK_INFINIBAND)
		return false;
	if ((gates & GATE_ACTIVE) && !port->active)
		return false;
	return !(gates & GATE_USED) || nccl_takes_port(&exam->nccl, port);
}

/* Calls a check for all that it concerns. Returns whether it concerned anything. */
static bool run_check(struct exam *exam)
{
	const struct check *check = exam->check;
	const struct model *model = exam->model;
	bool ran = false;

	if (check->scope < SCOPE_JOB && !host_gates_open(exam, check->gates))
		return false;
	if (check->scope == SCOPE_HOST || check->scope >= SCOPE_JOB) {
		check->run(exam, &(struct subject){ 0 });
		return true;
	}
	for (size_t i = 0; i < model->device_count; i++) {
		const struct device *device = &model->devices[i];

		if (!device_gates_open(device, check->gates))
			continue;
		if (check->scope == SCOPE_DEVICE) {
			check->run(exam, &(struct subject){ .device = device });
			ran = true;
			continue;
		}
		for (size_t j = 0; j < device->port_count; j++) {
			if (!port_gates_open(exam, &device->ports[j], check->gates))
				continue;
			check->run(exam, &(struct subject){ device, &device->ports[j] });
			ran = true;
		}
	}
	return ran;
}

/* Whether a check is about what is examined: a host, logs or a cluster. */
static bool concerns(const struct exam *exam, const struct check *check)
{
	if (exam->job || exam->cluster)
		return check->scope == (exam->job ? SCOPE_JOB : SCOPE_CLUSTER);
	return check->scope < SCOPE_JOB;
}

int exam_attr_check(const struct exam_attr *attr)
{
	return check_wanted(check_at, attr->only, attr->skip, NULL) < 0 ? -EINVAL : 0;
}

int exam_perform(struct exam *exam, const struct exam_attr *attr)
{
	const struct check *check;

	if (exam_attr_check(attr) != 0)
		return -EINVAL;
	for (size_t i = 0; (check = check_at(i)); i++) {
		if (!concerns(exam, check) ||
		    !check_wanted(check_at, attr->only, attr->skip, check))
			continue;
		exam->check = check;
		if (run_check(exam))
			exam->diagnosis->checks_run++;
		else
			exam->diagnosis->checks_skipped++;
	}
	diagnosis_sort(exam->diagnosis);
	return 0;
}

int exam_run(struct reader *reader, const struct exam_attr *attr, struct diagnosis *diagnosis)
{
	struct exam exam = { .diagnosis = diagnosis, .intent = attr->intent };

	exam.model = model_load(reader);
	nccl_load(exam.model, &exam.nccl);
	if (attr->interval_ms || !reader_live(reader))
		model_sample(exam.model, attr->interval_ms);
	diagnosis->host = say(&exam, "%s", exam.model->host);
	diagnosis->interval_ms = exam.model->interval_ms;
	/* Read always: a capture is to have it. */
	host_facts(&exam, attr->facts);
	return exam_perform(&exam, attr);
}
