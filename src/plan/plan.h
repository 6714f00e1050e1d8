/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h: predicts how long a message takes under each reliability scheme.
 *
 * The model is that of SDR-RDMA: units (packets, or chunks of packets) leave one after another, each is lost or not, lost
 * ones are retransmitted after a delay, and the message is complete when the last unit has arrived. Added to that are
 * bursts of losses, packet headers, the time that coding takes, bandwidth for reports, losses at the end of a message,
 * retransmissions that delay new packets, and the repair rules of our own schemes.
 *
 * There are two ways to compute a prediction. The closed form takes microseconds, so that it can be used for every
 * message; it is exact for independent losses if a message is sent within one repair delay, and an approximation
 * otherwise. Sampling simulates the same process packet by packet from a seed and states its confidence interval.
 *
 * Pure functions: no I/O, no clock. Sampling allocates memory, the rest does not. Times are doubles in nanoseconds, from
 * the first byte leaving the sender until the sender knows that everything arrived.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_scheme {
	/* Selective Repeat with one timer for each packet, as other transports have it */
	PLAN_SR_RTO,
	/* Selective Repeat of this library: the receiver requests a packet as soon as it is known to be lost */
	PLAN_SR_NACK,
	/* groups of k data and m parity packets, any k of which suffice (Reed-Solomon) */
	PLAN_MDS,
	/* groups of k data packets in m rows with one parity packet each; a row survives one loss */
	PLAN_XOR,
	PLAN_SCHEMES
};

/* A scheme and its code. The codes alone use k, m and interleave. */
struct plan_params {
	enum plan_scheme scheme;
	/* data packets in a group */
	unsigned k;
	/* parity packets in a group */
	unsigned m;
	/* groups whose packets are sent in turn, so that a burst spreads over them; 0 means 1 */
	unsigned interleave;
};

/* A path, and how the protocol behaves on it. plan_path_init() fills in this library's behaviour. */
struct plan_path {
	/* round-trip time without a queue */
	uint64_t rtt_ns;
	/* bandwidth, headers included */
	uint64_t rate_bps;
	/* share of packets that are lost; below PLAN_LOSS_MAX */
	double loss;
	/* mean number of packets lost in a row; up to 1: losses are independent */
	double burst;
	/* bytes of data in a packet */
	uint32_t payload;
	/* bytes of headers, trailers and gap for each packet */
	uint32_t overhead;
	/* packets in a unit, which is lost if any of them is; 1 here, 16 in SDR-RDMA */
	uint32_t chunk;
	/* packets that must land behind a hole before it counts as lost */
	uint32_t slack;
	/* wait before a code requests again, and before an announcement or a result is repeated */
	uint64_t patience_ns;
	/* wait before Selective Repeat requests again; less than patience_ns */
	uint64_t answer_ns;
	/* On long paths announcements, requests and results are sent twice, this far apart; 0: not on this path. */
	uint64_t early_ns;
	/* on long paths: wait of a sender of Selective Repeat after its last packet before it asks what is missing */
	uint64_t ask_ns;
	/* time a result waits for others that share its datagram */
	uint64_t result_wait_ns;
	/* time by which every repair is later where packets are late by a random time: holes are named later, and repeats are late, too */
	uint64_t jitter_ns;
	/* share of announcements, requests, tail probes and results that are lost */
	double control_loss;
	/* retransmission timeout of PLAN_SR_RTO, in round-trip times */
	double rto_rtts;
	/* share of the bandwidth that reports of the opposite direction use */
	double report_share;
	/* Reed-Solomon speed: bytes of data times rows of parity per second; 0: coding takes no time */
	double rs_bytes_a_second;
	/* XOR speed: bytes of data per second; 0: coding takes no time */
	double xor_bytes_a_second;
	/*
	 * What happens to a group that lost more than its parity can repair. False: the receiver requests as many further
	 * parity packets as are missing, as soon as that is known. True (SDR-RDMA): after the whole message and
	 * fallback_rtts round trips, such groups are sent again under PLAN_SR_RTO.
	 */
	bool fallback;
	double fallback_rtts;
};

#define PLAN_LOSS_MAX	 0.9
#define PLAN_SAMPLES_MAX 1000000
/* Most groups to interleave. */
#define PLAN_INTERLEAVE_MAX 256u
/* Fewest data packets in a group that plan_pick() chooses; a scheme allocates memory for it. */
#define PLAN_K_LEAST 8u

/* Describes a path with the defaults of this library for everything that is not an argument. */
void plan_path_init(struct plan_path *path, uint64_t rtt_ns, uint64_t rate_bps, double loss);

/* Returns the share of the bandwidth that reports use if packets have this many bytes on the wire. */
double plan_report_share(uint32_t packet_bytes);

/* Describes the path of the SDR-RDMA paper's figures: chunks of 64 KiB with this loss, no overhead, coding in no time. */
void plan_path_paper(struct plan_path *path, uint64_t rtt_ns, uint64_t rate_bps, double loss);

/* Returns 0 if a prediction can be made, -EINVAL if an argument is out of range. */
int plan_check(const struct plan_params *params, const struct plan_path *path, uint64_t size);

/* A predicted time. low_ns to high_ns is the 95 % confidence interval of a sample; all three are equal in a closed form. */
struct plan_estimate {
	double ns;
	double low_ns;
	double high_ns;
};

struct plan_result {
	struct plan_estimate mean;
	struct plan_estimate p50;
	struct plan_estimate p99;
	struct plan_estimate p999;
	/* messages simulated; 0: closed form */
	unsigned samples;
	/* the closed form's mean involves no approximation beyond counting in whole packets */
	bool exact;
	/* time without loss and without parity, the reference for a slowdown */
	double ideal_ns;
	/* units sent before any repair, divided by units of data: 1 without parity */
	double sent_share;
	/* probability that a message needs a repair */
	double repair_chance;
};

/* Predicts by the closed form (samples = 0) or from that many simulated messages. Returns 0, -EINVAL or -ENOMEM. */
int plan_predict(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		 uint64_t seed, unsigned samples, struct plan_result *out);

enum plan_goal { PLAN_MEAN, PLAN_P50, PLAN_P99, PLAN_P999 };

/* Returns the member of a result that a goal names. */
const struct plan_estimate *plan_figure(const struct plan_result *result, enum plan_goal goal);

/* Sets *out to the i-th scheme and code worth comparing on this path; returns false after the last. */
bool plan_candidate(const struct plan_path *path, uint64_t size, unsigned i,
		    struct plan_params *out);

#define PLAN_REASON_SIZE 384

struct plan_choice {
	struct plan_params params;
	/* prediction for params */
	struct plan_result result;
	/* prediction for PLAN_SR_NACK, for comparison */
	struct plan_result repeat;
	/* a sentence for people */
	char reason[PLAN_REASON_SIZE];
};

/*
 * Chooses the scheme for a message by closed forms, among the candidates except PLAN_SR_RTO, which this library does not
 * have. Of two that differ by less than 1 % it takes the one that sends less. Returns 0 or -EINVAL.
 */
int plan_choose(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		struct plan_choice *out);

/* Fills *out, with its reason, for params that the caller chose. Returns 0 or -EINVAL. */
int plan_justify(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		 const struct plan_params *params, struct plan_choice *out);

/* Returns how many groups to interleave, a power of two: enough that a burst of mean length takes at most half of the
 * `mendable` losses that each group survives. */
unsigned plan_interleave(const struct plan_path *path, uint64_t size, unsigned k, double mendable);

/* The choices that plan_pick() compares. */
struct plan_limits {
	/* PLAN_SR_NACK is one of them */
	bool repeat;
	/* data packets in a group; 0: powers of two up to k_max */
	unsigned k;
	unsigned k_max;
	/* parity packets in a group; 0: from 1 to k, in steps of a third or a half */
	unsigned m;
	/* messages in flight, this one included: where they fill the path, what is sent counts, and not a round trip; 0: 1 */
	double open;
	/* least number of groups to interleave, if the message has that many */
	unsigned interleave;
	/* returns whether the caller's memory suffices for a code; null: always */
	bool (*fits)(void *arg, unsigned k, unsigned m);
	void *arg;
};

/*
 * Chooses between PLAN_SR_NACK and PLAN_MDS for a scheme, by closed forms. *params holds the previous choice (scheme
 * PLAN_SCHEMES: none) and changes only if another one is better by some per cent. Returns 0, or -EINVAL, also when the
 * limits leave nothing to choose from.
 */
int plan_pick(const struct plan_path *path, uint64_t size, enum plan_goal goal,
	      const struct plan_limits *limits, struct plan_params *params);

/* A message that ends at a deadline, complete or not. */
struct plan_bounded {
	/* share of the data that arrives if nothing is retransmitted */
	double once;
	/* the same if losses are retransmitted until the deadline */
	double repaired;
	/* probability that everything arrives, with retransmission */
	double whole;
};

/* Predicts what arrives within deadline_ns of the first byte leaving. Returns 0 or -EINVAL. */
int plan_bounded(const struct plan_path *path, uint64_t size, uint64_t deadline_ns,
		 struct plan_bounded *out);

/* Writes "sr-nack", "mds(32,8)", or "mds(32,8)x4" if 4 groups are interleaved. Returns buffer. */
#define PLAN_NAME_SIZE 32
const char *plan_name(const struct plan_params *params, char buffer[PLAN_NAME_SIZE]);

#endif
