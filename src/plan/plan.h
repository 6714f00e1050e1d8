/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h: how long a message will take under each reliability scheme, before it is sent.
 *
 * The model is that of SDR-RDMA (units sent one after another, each lost or not, repaired a delay later, the message over
 * when the last one is in) with what that leaves out: losses in bursts, packets with headers, the time coding takes,
 * room for reports, tail losses, repairs that keep fresh packets waiting, and schemes that repair as ours do.
 *
 * Two ways to an answer. The closed form takes microseconds and is meant to be asked for every message; it is exact for
 * independent losses as long as a message is sent within one repair delay, and close otherwise. Sampling plays the same
 * process packet by packet from a seed and says how sure it is; it needs no approximation.
 *
 * Pure functions: no I/O, no clock; sampling allocates, the rest does not. Times are doubles in nanoseconds, from the
 * first byte leaving to the sender knowing that all arrived.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_scheme {
	PLAN_SR_RTO,  /* Selective Repeat; each packet is repeated when its timer ends */
	PLAN_SR_NACK, /* Selective Repeat as here: holes are named as soon as they are provable */
	PLAN_MDS,     /* any k of k + m (Reed-Solomon) */
	PLAN_XOR,     /* m rows, one loss each */
	PLAN_SCHEMES
};

struct plan_params {
	enum plan_scheme scheme;
	unsigned k; /* the codes only, as all below */
	unsigned m;
	unsigned interleave; /* groups sent packet by packet in turn; 0 is 1 */
};

struct plan_path {
	uint64_t rtt_ns;
	uint64_t rate_bps; /* of the wire */
	double loss;	   /* mean, of a packet; below PLAN_LOSS_MAX */
	double burst;	   /* packets lost in a row, on average; up to 1: independent losses */
	uint32_t payload;  /* bytes of data in a packet */
	uint32_t overhead; /* bytes that a packet costs on the wire beside them */
	uint32_t
		chunk; /* packets that count as one, lost if any of them is; 1 here, 16 in SDR-RDMA */
	uint32_t slack; /* packets behind a hole before it is provable */
	uint64_t
		patience_ns; /* until a code asks again, and announcements and results are repeated */
	uint64_t
		answer_ns; /* what an answer takes at most, as Selective Repeat has it; less than patience */
	/* Announcements, requests and results are told twice, this far apart, and Selective Repeat asks so early; 0: not. */
	uint64_t early_ns;
	uint64_t result_wait_ns; /* what a result waits for company before it leaves */
	double control_loss;	 /* of announcements, requests, questions and results */
	double rto_rtts;	 /* the timer of PLAN_SR_RTO */
	double report_share;	 /* of the rate, kept free for the reports of the other direction */
	double rs_bytes_a_second; /* data bytes times parity rows that are coded; 0: coding takes no time */
	double xor_bytes_a_second; /* data bytes */
	/*
	 * What a group does that lost too much. Ours: ask for as many symbols as are missing, as soon as that is provable.
	 * SDR-RDMA: wait for everything, then this many round trips, then send such groups again by PLAN_SR_RTO.
	 */
	bool fallback;
	double fallback_rtts;
};

#define PLAN_LOSS_MAX	 0.9
#define PLAN_SAMPLES_MAX 1000000

/* A path with our own defaults for everything that is not named here. */
void plan_path_init(struct plan_path *path, uint64_t rtt_ns, uint64_t rate_bps, double loss);

/* What reports take of the rate when packets have this many bytes on the wire. */
double plan_report_share(uint32_t packet_bytes);

/* The path of SDR-RDMA's figures: chunks of 64 KiB with this loss, nothing else on the wire, coding for free. */
void plan_path_paper(struct plan_path *path, uint64_t rtt_ns, uint64_t rate_bps, double loss);

/* Whether a prediction can be made: -EINVAL where a figure makes no sense. */
int plan_check(const struct plan_params *params, const struct plan_path *path, uint64_t size);

struct plan_estimate {
	double ns;
	double low_ns; /* 95 % confidence; equal to ns in a closed form */
	double high_ns;
};

struct plan_result {
	struct plan_estimate mean;
	struct plan_estimate p50;
	struct plan_estimate p99;
	struct plan_estimate p999;
	unsigned samples;     /* 0: closed form */
	bool exact;	      /* a closed form whose mean approximates nothing but single packets */
	double ideal_ns;      /* without loss and without parity: what a slowdown is measured by */
	double sent_share;    /* units sent before any repair, against units of data */
	double repair_chance; /* that a message needs any repair */
};

/* With samples = 0 the closed form, else so many runs from the seed. -EINVAL, -ENOMEM. */
int plan_predict(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		 uint64_t seed, unsigned samples, struct plan_result *out);

enum plan_goal { PLAN_MEAN, PLAN_P50, PLAN_P99, PLAN_P999 };

const struct plan_estimate *plan_figure(const struct plan_result *result, enum plan_goal goal);

/* The i-th choice of scheme and parameters that is worth looking at on this path, or false behind the last. */
bool plan_candidate(const struct plan_path *path, uint64_t size, unsigned i,
		    struct plan_params *out);

#define PLAN_REASON_SIZE 384

struct plan_choice {
	struct plan_params params;
	struct plan_result result;
	struct plan_result repeat; /* what PLAN_SR_NACK would do */
	char reason[PLAN_REASON_SIZE];
};

/*
 * The scheme for a message, by closed forms, among the exact ones that this library has: not PLAN_SR_RTO. Of two that differ by less than one per cent the one
 * that sends less is taken. -EINVAL.
 */
int plan_choose(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		struct plan_choice *out);

/* Why these, in a sentence: fills *out, whoever chose. -EINVAL. */
int plan_justify(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		 const struct plan_params *params, struct plan_choice *out);

/* Enough groups in turn that an average burst takes half of what each can mend; a power of two. */
unsigned plan_interleave(const struct plan_path *path, uint64_t size, unsigned k, double mendable);

/* What a scheme has to choose from. */
struct plan_limits {
	bool repeat; /* PLAN_SR_NACK is among it */
	unsigned k;  /* of a code; 0: powers of two up to k_max */
	unsigned k_max;
	unsigned m;	     /* likewise; 0: up to half of k */
	unsigned interleave; /* at least, where there are so many groups */
	bool (*fits)(void *arg, unsigned k, unsigned m); /* null: all do */
	void *arg;
};

/*
 * The choice for a scheme: PLAN_SR_NACK or PLAN_MDS, by closed forms, without a word. *params holds what was chosen before
 * (PLAN_SCHEMES: nothing was), and stays as it is unless another is better by some per cent. -EINVAL, also when there is
 * nothing to choose from.
 */
int plan_pick(const struct plan_path *path, uint64_t size, enum plan_goal goal,
	      const struct plan_limits *limits, struct plan_params *params);

/* What a message that ends at a deadline, whole or not, can expect. The clock starts with the first byte. */
struct plan_bounded {
	double once;	 /* share of the data delivered if nothing is repaired */
	double repaired; /* the same if holes are named and repeated until the deadline */
	double whole;	 /* chance that all of it is there, repaired */
};

int plan_bounded(const struct plan_path *path, uint64_t size, uint64_t deadline_ns,
		 struct plan_bounded *out);

/* "sr-nack", "mds(32,8)", "mds(32,8)x4" when interleaved. Returns buffer. */
#define PLAN_NAME_SIZE 32
const char *plan_name(const struct plan_params *params, char buffer[PLAN_NAME_SIZE]);

#endif
