/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h: several hosts of a job together: captures of them, logs of the job, results of `godwit mesh`.
 *
 * Each host is examined as if it were alone. Beyond that, what should be alike on all hosts is kept as a few facts a host
 * (host_facts.c), and compared: the value that most hosts have is taken for the right one. The memory of a capture is given
 * back once its facts are taken, so that a thousand captures fit.
 */
#ifndef DOCTOR_CLUSTER_H
#define DOCTOR_CLUSTER_H

#include "exam.h"
#include "joblog.h"
#include "mesh.h"

/* Facts of a kind are compared by one check. */
enum host_aspect {
	ASPECT_KERNEL,
	ASPECT_DRIVER,
	ASPECT_FIRMWARE,
	ASPECT_PORTS,
	ASPECT_MTU,
	ASPECT_GID,
	ASPECT_TC,
	ASPECT_PFC,
	ASPECT_PLUGIN,
	ASPECT_VARIABLE,
	ASPECT_ROUTES,
	ASPECT_GPU,
	ASPECTS
};

struct host_fact {
	enum host_aspect aspect;
	/* "MTU of the RDMA interfaces", "NCCL_IB_TC" */
	const char *name;
	const char *value;
	/* where it was read */
	const char *where;
};

#define HOST_FACTS_MAX 128u

/* Facts of one host; their texts are in the scratch. */
struct host_facts {
	struct scratch *scratch;
	struct host_fact fact[HOST_FACTS_MAX];
	unsigned count;
};

/* Reads what hosts are compared by, so that a capture has it; keeps it if `out` is not null. */
void host_facts(struct exam *exam, struct host_facts *out);
void host_facts_add(struct host_facts *out, enum host_aspect aspect, const char *name,
		    const char *value, const char *where);

struct cluster_host {
	const char *name;
	/* the capture */
	const char *file;
	struct host_facts facts;
	/* addresses of the host, "10.0.0.1 10.0.1.1 " */
	const char *addresses;
};

#define CLUSTER_HOSTS_MAX 16384u

/* Findings of one check on several hosts. */
struct cluster_finding {
	struct finding finding;
	struct builder hosts;
	const char *last_host;
	unsigned count;
};

struct cluster {
	struct scratch scratch;
	struct cluster_host **hosts;
	size_t host_count;
	struct cluster_finding *findings;
	size_t finding_count;
	size_t finding_room;
	/* unknowns of all hosts */
	size_t unknown_count;
	struct joblog log;
	bool logs;
	struct mesh mesh;
	bool meshed;
	/* files that are neither capture nor log nor result */
	const char *strange;
	unsigned strange_count;
};

/* Reads all files of a directory. Returns 0 or -errno. */
int cluster_load(struct cluster *cluster, const char *directory, const struct exam_attr *attr);

/* Adds a host from an open source, which is examined and closed. Returns as exam_run(). */
int cluster_add_host(struct cluster *cluster, const char *file, struct reader *reader,
		     const struct exam_attr *attr);

/* Examines it and fills *diagnosis, which is empty. Returns 0, or -EINVAL as exam_run(). */
int cluster_run(struct cluster *cluster, const struct exam_attr *attr, struct diagnosis *diagnosis);

void cluster_free(struct cluster *cluster);

#endif
