/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl.h: what NCCL will do on this host, replayed from its rules (those of NCCL 2.30): which variables it sees, which ports
 * it takes, which GID of each, which interface it meets its peers on.
 */
#ifndef DOCTOR_NCCL_H
#define DOCTOR_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/* A variable as NCCL sees it. */
struct variable {
	const char *name;
	const char *value;
	/* "environment", or the file that set it */
	const char *where;
};

struct nccl {
	const struct model *model;
	/* environment first, then the file of NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf: the first one counts */
	struct variable *variables;
	size_t count;
	/* why the environment is unknown; its state is FACT_KNOWN otherwise */
	const struct fact *environ;
};

void nccl_load(const struct model *model, struct nccl *out);

/* Returns null if the variable is not set. */
const struct variable *nccl_variable(const struct nccl *nccl, const char *name);
/* Returns its value, or null if it is not set or empty. */
const char *nccl_text(const struct nccl *nccl, const char *name);
/* Returns its number as NCCL reads it, or the default. */
int64_t nccl_number(const struct nccl *nccl, const char *name, int64_t otherwise);

/* One name of a list such as NCCL_IB_HCA. */
struct nccl_name {
	char prefix[64];
	/* -1: any */
	int port;
};

#define NCCL_NAMES_MAX 32

struct nccl_list {
	/* ^: all but these */
	bool inverted;
	/* =: the whole name, not a prefix */
	bool exact;
	unsigned count;
	struct nccl_name names[NCCL_NAMES_MAX];
};

void nccl_list_read(const char *text, struct nccl_list *out);
/* Returns whether NCCL takes an object of this name; port -1: it has none. An empty list takes everything. */
bool nccl_list_takes(const struct nccl_list *list, const char *name, int port);

/* Returns whether NCCL takes a port: active, of a known link layer, and NCCL_IB_HCA agrees. */
bool nccl_takes_port(const struct nccl *nccl, const struct port *port);

enum gid_reason {
	/* the variable names it */
	GID_PINNED,
	/* it matched family, range and version */
	GID_MATCHED,
	/* nothing matched: index 0 is kept without a word */
	GID_FALLBACK,
	/* InfiniBand: index 0, or the one with a routable FLID */
	GID_INFINIBAND,
};

struct gid_choice {
	unsigned index;
	enum gid_reason reason;
	/* the entry, or null if the index is empty */
	const struct gid *gid;
	/* entries whose version could not be read: NCCL passes over them */
	unsigned unreadable;
};

/* Replays NCCL's choice of a GID for a port. */
void nccl_choose_gid(const struct nccl *nccl, const struct port *port, struct gid_choice *out);

/* Returns the address over which NCCL meets its peers, or null: none. *listed says whether NCCL_SOCKET_IFNAME chose it. */
const struct address *nccl_bootstrap(const struct nccl *nccl, bool *listed);

#endif
