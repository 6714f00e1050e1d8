/* SPDX-License-Identifier: BSD-3-Clause */
/* cases.h: the bottlenecks and the company that controllers are tried in; shared by the tests and by ccsim. */
#ifndef CONGESTION_CASES_H
#define CONGESTION_CASES_H

#include "loop.h"

struct loop_case {
	const char *name;
	const char *cc;
	uint64_t rate_bps; /* 0: 1 Gbit/s */
	uint64_t rtt_ns;   /* 0: 25 ms */
	double buffer;	   /* bandwidth-delay products; 0: one */
	double mark;	   /* where marking begins, likewise; 0: never */
	double loss;
	bool bursts; /* the loss comes in runs of 8 packets in the mean */
	unsigned own, cubic, bbr;
	uint64_t apart_ns; /* between the starts of our own */
	uint64_t others_at_ns;
	uint64_t step_at_ns[LOOP_STEPS], step_bps[LOOP_STEPS];
	uint64_t noise_ns;
	uint64_t jitter_ns;
	uint64_t from_ns, to_ns;
	uint64_t on_ns, off_ns;
	uint32_t packet_bytes;
};

extern const struct loop_case cases[];
extern const unsigned case_count;

/* NULL if there is none. */
const struct loop_case *case_find(const char *name);

/* `cc` NULL: the case's own. */
void case_run(const struct loop_case *one, const char *cc, uint64_t seed, bool trace,
	      struct loop_result *out);

void case_header(void);
void case_print(const struct loop_case *one, const struct loop_result *result);

/* The mean share of our own flows, and of the others, over what would be fair. */
double case_own(const struct loop_case *one, const struct loop_result *result);
double case_others(const struct loop_case *one, const struct loop_result *result);

#endif
