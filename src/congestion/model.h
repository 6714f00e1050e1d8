/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: a model of the path, computed from reports: delivery rate, round-trip time and loss of each round.
 *
 * A round lasts one round trip and covers a few reports. A single report is too little to judge by: it may be late, or
 * cover the time of two. The rate of the path is what arrived in a round, and what it lost by chance, divided by the
 * round's duration. The queue is the minimum round-trip time in the round less the minimum ever measured.
 *
 * What a path delays packets by at random (jitter.h) is no queue and is subtracted.
 */
#ifndef CONGESTION_MODEL_H
#define CONGESTION_MODEL_H

#include "congestion/cc.h"
#include "congestion/chance.h"
#include "congestion/jitter.h"
#include "congestion/recent.h"

/* Share of the window that is used while `draining`. */
#define MODEL_PROBE_DEPTH 0.7

struct model {
	/* minimum round-trip time, 0 if not measured yet, and when it was last measured */
	double least_ns;
	uint64_t least_at;
	/* lesser of the latest two round-trip times: a single one may be long because a host was busy */
	double rtt_ns;
	struct jitter jitter;
	/* what the path loses by chance */
	struct chance chance;

	/* The last complete round: */
	/* rate at which packets arrived, in bytes per ns */
	double arriving;
	/* rate that the path took, losses by chance included, in bytes per ns, and that of the round before */
	double delivered;
	double before;
	/* queueing delay */
	double queue_ns;
	/* packets sent whose loss was counted, and the share lost of those that were counted last */
	double sent;
	double loss;
	/* share of delivered packets that were marked */
	double marked;

	/* maximum rate in the previous 8 rounds and in the current up to 8, and how many these are */
	double peak[2];
	unsigned peak_rounds;
	/* maximum rate of the last 15 to 30 s */
	struct recent past;

	/* the minimum round-trip time was measured anew, for larger packets, and may include a queue */
	bool unsure;
	/* The probe for the minimum round-trip time: under way, in its first round, in which less is sent, since when, and the minimum
	 * measured in it */
	bool probing, draining;
	uint64_t probe_at;
	double probe_least_ns;

	/* The current round: when it began, minimum round-trip time (0: none), number of round-trip times, and totals */
	uint64_t round_at;
	double round_least_ns;
	unsigned samples;
	uint64_t bytes, packets, counted, lost, ce;
	/* the window was not used; a congestion notification came; the window was not used in the last complete round */
	bool unused, noticed, idle;
};

/* `ceiling` is the loss from which on congestion is suspected. */
void model_init(struct model *model, double ceiling, uint64_t now_ns);

/* Adds a report; returns true if it ended a round. `window` is what the sender was allowed, in bytes. */
bool model_report(struct model *model, const struct cc_report *report, double window,
		  uint64_t now_ns);

/* Notes that packets arrived at this rate, in bytes per ns, during part of a round in which the path was busy. */
void model_saw(struct model *model, double rate);

/* Returns the mean round-trip time without a queue: the minimum and half of the jitter. */
double model_trip(const struct model *m);
/* Returns the queueing delay at the latest report, less all that jitter may explain. */
double model_queue_now(const struct model *model);

/* Notes that an unknown number of packets of this round were marked. */
void model_cnp(struct model *model);

/*
 * Called after a round. If the minimum round-trip time was not measured for five seconds and 25 round trips, or since packets became
 * larger, sets `probing` for two round trips, and `draining` for the first of them, in which the sender sends less so that the queue
 * drains. Flows that share a queue see it drain together, so that their probes fall together. If the minimum is older than 30 s, the path has become longer, and the time measured in the
 * probe replaces it; after 120 s while others fill the queue (`crowded`), when that time likely includes a queue.
 */
void model_probe(struct model *model, bool crowded, uint64_t now_ns);

/* Returns the rate in bytes per ns, the larger of the last two rounds: a host that stalls moves packets of one
 * round into the next. */
double model_rate(const struct model *model);

/* Return the maximum rate, in bytes per ns, of the last 8 to 16 rounds and of the last 15 to 30 s. */
double model_peak(const struct model *model);
double model_past(const struct model *model);

#endif
