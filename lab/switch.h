/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.h: the switch. One thread moves packets from TUN to TUN, through the models of the sender's uplink and of the
 * receiver's downlink.
 *
 * Times are those of the model: a packet enters the downlink when it was due to leave the uplink, even if this process
 * handles it later. So lateness occurs only where a packet is written to a host, does not add up, and is measured there.
 */
#ifndef LAB_SWITCH_H
#define LAB_SWITCH_H

#include "lateness.h"
#include "config.h"

struct lab_switch;

struct switch_link_counts {
	struct link_stats stats;
	/* as in struct lab_link */
	uint64_t bytes;
	uint64_t marked;
	uint64_t refused;
	uint64_t oversize;
	/* how late packets were written to the host: median, 99th percentile, maximum */
	uint64_t late_p50_ns;
	uint64_t late_p99_ns;
	uint64_t late_max_ns;
	/* how long packets waited behind others before the link */
	uint64_t wait_p50_ns;
	uint64_t wait_p99_ns;
	uint64_t wait_max_ns;
};

struct switch_counts {
	struct switch_link_counts links[LAB_HOSTS_MAX][LAB_DIRECTIONS];
	struct link_stats paths[LAB_PATHS_MAX];
	/* packets dropped: to no host, malformed, and for lack of memory */
	uint64_t misaddressed;
	uint64_t malformed;
	uint64_t starved;
	/* lateness over all links */
	uint64_t late_p50_ns;
	uint64_t late_p99_ns;
	uint64_t late_max_ns;
};

/* Creates the switch. tuns[] has each host's descriptor: non-blocking, with virtio headers. Returns 0, or -errno with the
 * reason in error. */
int switch_open(const struct lab_config *config, const int *tuns, char error[LAB_ERROR_SIZE],
		struct lab_switch **out);

/* Starts the clock of config->events and of the samples. */
void switch_start(struct lab_switch *sw);

/*
 * Handles everything that is due, then sleeps until something else is, a packet arrives, a descriptor in control[] is
 * readable, or it is `latest_ns` (by clock_now_ns(); UINT64_MAX: never). Returns true if a descriptor in control[] is
 * readable or was closed by its writer.
 */
bool switch_turn(struct lab_switch *sw, const int control[2], uint64_t latest_ns);

void switch_counts(const struct lab_switch *sw, struct switch_counts *out);

/* Frees the switch. Returns 0, or -errno if the capture or the samples could not be written. */
int switch_close(struct lab_switch *sw);

#endif
