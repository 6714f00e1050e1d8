/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.h: the middle of the star. One thread moves packets from TUN to TUN, through the model of the sender's link up
 * and that of the receiver's link down.
 *
 * What the model decides is planned time: a packet enters the link down when it was due to leave the link up, however
 * late this process comes to see to it. So lateness shows only where a packet leaves for a host, never adds up, and is
 * measured there.
 */
#ifndef LAB_SWITCH_H
#define LAB_SWITCH_H

#include "lateness.h"
#include "plan.h"

struct lab_switch;

struct switch_link_counts {
	struct link_stats stats;
	uint64_t bytes;	  /* that came out, of IP packets */
	uint64_t marked;  /* those of stats.marked that said they understand marks */
	uint64_t refused; /* by the host's kernel */
	uint64_t late_p50_ns;
	uint64_t late_p99_ns;
	uint64_t late_max_ns;
	uint64_t wait_p50_ns; /* at the entrance, behind other packets */
	uint64_t wait_p99_ns;
	uint64_t wait_max_ns;
};

struct switch_counts {
	struct switch_link_counts links[LAB_HOSTS_MAX][LAB_DIRECTIONS];
	struct link_stats paths[LAB_PATHS_MAX];
	uint64_t misaddressed; /* to no host of the lab */
	uint64_t malformed;
	uint64_t starved; /* there was no memory for them */
	uint64_t late_p50_ns;
	uint64_t late_p99_ns;
	uint64_t late_max_ns;
};

/* `tuns`: a descriptor a host, with virtio headers, not blocking. -errno; the text of it goes to error. */
int switch_open(const struct lab_plan *plan, const int *tuns, char error[LAB_ERROR_SIZE],
		struct lab_switch **out);

/* From now on the plan's events count. */
void switch_start(struct lab_switch *sw);

/*
 * Does what is due, then sleeps until more is, until a packet comes, `control` is readable, or `latest_ns` (by
 * switch_now_ns(); UINT64_MAX: never) has come. True if control is readable or its writer has gone.
 */
bool switch_turn(struct lab_switch *sw, const int control[2], uint64_t latest_ns);

uint64_t switch_now_ns(void);

void switch_counts(const struct lab_switch *sw, struct switch_counts *out);

/* -errno if the capture or the samples could not be written in full. */
int switch_close(struct lab_switch *sw);

#endif
