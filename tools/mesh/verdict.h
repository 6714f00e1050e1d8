/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verdict.h: what is wrong with a mesh, in sentences.
 *
 * Everything is compared with the other hosts of the same mesh, by medians, so that no rate or delay has to be known in
 * advance, and a fault is named once, at the largest thing that explains it: the network, groups of hosts that reach each other
 * slowly, a host, and then a pair.
 */
#ifndef TOOLS_MESH_VERDICT_H
#define TOOLS_MESH_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "matrix.h"

/* Share of the expected rate below which something is slow. */
#define VERDICT_SLOW 0.75
/* Share of its rate alone below which a pair is slow while all hosts send. */
#define VERDICT_TOGETHER 0.5
/* Share of lost packets that is worth a finding, and how many packets at the least. */
#define VERDICT_LOSS 0.001
#define VERDICT_LOST 3

enum finding_kind {
	/* nothing of a pair or a host gets through */
	FINDING_DEAD,
	/* hosts fall into groups, and pairs from group to group are slow */
	FINDING_GROUPS,
	/* a host, or several alike, is slow in both directions */
	FINDING_SLOW_HOST,
	/* a host, or several alike, is slow in one direction */
	FINDING_ASYMMETRIC_HOST,
	FINDING_SLOW_PAIR,
	/* one direction of a pair is slow */
	FINDING_ASYMMETRIC_PAIR,
	/* one source port of several is slow */
	FINDING_SLOW_PATH,
	/* packets are lost: by the whole network, by what a host sends or receives, between a pair */
	FINDING_LOSS,
	FINDING_HOST_LOSS,
	FINDING_PAIR_LOSS,
	/* pairs are slow while all hosts send */
	FINDING_TOGETHER,
	FINDING_LATENCY,
};

struct finding {
	enum finding_kind kind;
	/* hosts that send and that receive; -1: not one, or all */
	int from, to;
	/* what was measured and what was expected, in bit/s, a share or us; NAN: none */
	double measured, expected;
	/* a sentence; freed with the list */
	char *text;
};

struct verdict {
	struct finding *findings;
	unsigned count;
	unsigned room;
};

/* Examines the matrix. Returns 0 or -ENOMEM. */
int verdict_reach(const struct matrix *matrix, struct verdict *out);
void verdict_close(struct verdict *verdict);

const char *finding_name(enum finding_kind kind);

/* ---- for the parts of it ------------------------------------------------------------------------------------------ */

/* Adds a finding. -ENOMEM. */
int verdict_add(struct verdict *verdict, struct finding finding, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "a", "a and b", "a, b and c", up to eight and then "and 12 more". Truncated to fit. Returns `text`. */
const char *verdict_names(const struct matrix *matrix, const unsigned *hosts, unsigned count,
			  char *text, size_t size);

/* Rates of pairs alone. */
int verdict_rates(const struct matrix *matrix, struct verdict *verdict);
/* Rates while all hosts send, against those alone; rates of source ports. */
int verdict_together(const struct matrix *matrix, struct verdict *verdict);
int verdict_paths(const struct matrix *matrix, struct verdict *verdict);
int verdict_losses(const struct matrix *matrix, struct verdict *verdict);
int verdict_latencies(const struct matrix *matrix, struct verdict *verdict);

#endif
