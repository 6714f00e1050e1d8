/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exam.h: a check, and what it works with.
 *
 * A check is a row of a table: a stable word, its weight, what it concerns, its words for people and a short function. The
 * runner calls the function for the host, for each device or for each port, as `scope` says, and only where every gate is
 * open. The function reads facts and adds findings with found(), or says with unseen() what it could not read.
 */
#ifndef DOCTOR_EXAM_H
#define DOCTOR_EXAM_H

#include <stdbool.h>
#include <stddef.h>

#include "model.h"
#include "nccl.h"
#include "diagnosis.h"

enum scope {
	SCOPE_HOST,
	SCOPE_DEVICE,
	SCOPE_PORT,
	/* logs of a job: job.h */
	SCOPE_JOB,
	/* several hosts: cluster.h */
	SCOPE_CLUSTER
};

/* Conditions on what a check concerns. */
enum gate {
	GATE_NONE = 0,
	/* some RDMA device is there */
	GATE_RDMA = 1 << 0,
	/* Ethernet port (RoCE) */
	GATE_ROCE = 1 << 1,
	GATE_INFINIBAND = 1 << 2,
	/* GPU is there */
	GATE_GPU = 1 << 3,
	GATE_MLX5 = 1 << 4,
	/* port is active */
	GATE_ACTIVE = 1 << 5,
	/* device is hardware, not rxe or siw */
	GATE_HARDWARE = 1 << 6,
	/* physical function: a virtual one does not show or decide this */
	GATE_PHYSICAL = 1 << 7,
	/* an examined job: --pid */
	GATE_JOB = 1 << 8,
	/* port that NCCL takes */
	GATE_USED = 1 << 9,
	/* RDMA device, or variables of NCCL that were set */
	GATE_NCCL = 1 << 10,
};

/* Lossless: PFC was meant to be there. Unknown: not said. */
enum intent { INTENT_UNKNOWN, INTENT_LOSSLESS, INTENT_LOSSY };

struct exam;

/* What a check looks at in one call: null where its scope is wider. */
struct subject {
	const struct device *device;
	const struct port *port;
};

struct check {
	/* stable word: --only, --skip, --explain and the JSON use it */
	const char *id;
	enum severity severity;
	/* 1 to 100: rank among findings of one severity */
	unsigned impact;
	enum scope scope;
	unsigned gates;
	const char *title;
	const char *healthy;
	const char *why;
	/* command, or what to do where none exists; INTERFACE, DEVICE and PCI_ADDRESS stand for the subject's */
	const char *fix;
	/* how it goes wrong and how to see it, for --explain */
	const char *explain;
	void (*run)(struct exam *exam, const struct subject *subject);
};

struct exam {
	struct model *model;
	struct nccl nccl;
	struct diagnosis *diagnosis;
	enum intent intent;
	/* logs of a job, or hosts of a cluster, that are examined instead of a host; null */
	struct joblog *job;
	struct cluster *cluster;
	/* the check that runs */
	const struct check *check;
};

struct exam_attr {
	enum intent intent;
	/* time between two samples of the counters; 0: one sample */
	unsigned interval_ms;
	/* comma-separated checks; null: all, none */
	const char *only;
	const char *skip;
	/* filled with what hosts are compared by; null: not wanted */
	struct host_facts *facts;
};

/* Examines the source and fills *diagnosis, which is empty. Returns 0, or -EINVAL: no check of a name in only or skip. */
int exam_run(struct reader *reader, const struct exam_attr *attr, struct diagnosis *diagnosis);

/* Returns 0, or -EINVAL: no check of a name in only or skip. */
int exam_attr_check(const struct exam_attr *attr);

/* Runs the checks that concern what *exam has, and puts the findings in order. Returns as exam_run(). */
int exam_perform(struct exam *exam, const struct exam_attr *attr);

/* A list of checks by position. Returns null behind the last. */
typedef const struct check *check_list(size_t index);

/* The checks of a host, of logs and of a cluster, in groups. Those of a pair of hosts are pair_check_at(). */
check_list check_at;

/* Returns the check of a list with this id, or null. */
const struct check *check_find(check_list *at, const char *id, size_t length);

/* Returns whether a check is to run: named in `only`, which may be null, and not in `skip`. -EINVAL: a name in them is no check of
 * the list. */
int check_wanted(check_list *at, const char *only, const char *skip, const struct check *check);

/* Adds a finding with the words of a check. Object, place and value are the caller's to fill in. */
struct finding *check_finding(const struct check *check, struct diagnosis *diagnosis);

/* Adds a finding of the running check about the subject, with the check's words. `where` is a path. */
struct finding *found(struct exam *exam, const struct subject *subject, const char *where,
		      const char *value, ...) __attribute__((format(printf, 4, 5)));

/* Says that the running check could not read a fact. */
void unseen(struct exam *exam, const struct subject *subject, const struct fact *fact);
/* The same where a sentence says it better. */
void unseen_why(struct exam *exam, const struct subject *subject, const char *where,
		const char *why);

/* Returns whether the fact is known; if not, says so (of what is not there, or what a driver does not have, only if
 * `absent_matters`). */
bool seen(struct exam *exam, const struct subject *subject, const struct fact *fact,
	  bool absent_matters);

/* Returns a text that lives as long as the diagnosis. */
const char *say(struct exam *exam, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The port's interface by name, or "". */
const char *netdev_name(const struct port *port);

struct check_group {
	const struct check *checks;
	size_t count;
};

#define CHECK_GROUP(checks)                                                                        \
	{                                                                                          \
		(checks), sizeof(checks) / sizeof((checks)[0])                                     \
	}

/* One for each file of checks. */
extern const struct check_group checks_devices, checks_ports, checks_gids, checks_addresses,
	checks_limits, checks_qos, checks_congestion, checks_loss, checks_physical, checks_pcie,
	checks_gpudirect, checks_plugins, checks_nccl, checks_routes, checks_buffers, checks_log,
	checks_tuning, checks_job_network, checks_job_failures, checks_job_agreement,
	checks_job_ranks, checks_hosts, checks_mesh;

#endif
