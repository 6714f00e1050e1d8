/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: what reports tell about a path: how much it delivers, how long it takes, what it loses, round by round.
 *
 * A round is one round trip. Reports come a few times in each, and any one of them is too little to judge by: it may be
 * late, or hold two of its kind. The delivery rate is what arrived in a round over the time it took; the queue is the
 * round's least round trip over the least ever seen.
 */
#ifndef CONGESTION_MODEL_H
#define CONGESTION_MODEL_H

#include "congestion/cc.h"
#include "congestion/recent.h"

#define MODEL_PROBE_DEPTH 0.7 /* of the window, while the path is probed */

struct model {
	double least_ns; /* round trip; 0: nothing measured yet */
	uint64_t least_at;
	double last_ns; /* the latest */
	double rtt_ns; /* the lesser of the last two: one alone may be long because a host was busy */
	/* the last whole round */
	double delivered; /* bytes per ns */
	double before;	  /* the same of the round before it */
	double queue_ns;
	double loss;   /* share of the packets */
	double marked; /* share of those that arrived */
	bool idle;     /* the window was not used */
	/* the delivery rate's maximum, before and since: of the last 8 to 16 rounds, of the last 15 to 30 s */
	double peak[2];
	unsigned peak_rounds;
	struct recent past;
	/* a look at the bare path */
	bool probing;
	uint64_t probe_at;
	double probe_least_ns;
	/* this round */
	uint64_t round_at;
	double round_least_ns;
	uint64_t bytes, packets, lost, ce;
	bool unused, noticed;
};

void model_init(struct model *model, uint64_t now_ns);

/* True when a round has ended with this report. `window` is what the sender had to use. */
bool model_report(struct model *model, const struct cc_report *report, double window,
		  uint64_t now_ns);

/* Some packets of this round were marked; it is not known how many. */
void model_cnp(struct model *model);

/*
 * After a round: `probing` is set every few seconds in which the least round trip was not seen, for two round trips, in
 * which the sender sends less so that the queue drains. Flows that share a queue see it drain together, and so come to
 * do this together. What was found replaces the least when that is half a minute old: the path became longer. While
 * others fill the queue (`crowded`) it takes two minutes, for then it is likely a queue.
 */
void model_probe(struct model *model, bool crowded, uint64_t now_ns);

/* What the path delivers, by the last two rounds: a host that stalls delays all of one, and brings it in the next. */
double model_rate(const struct model *model);

/* The most that was delivered of late, and before others came, in bytes per ns. */
double model_peak(const struct model *model);
double model_past(const struct model *model);

#endif
