/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h: what a lab is to be: hosts around one switch, a link up and a link down for each, and what happens when.
 *
 * A way from host to host is one link up and one down. The round trip is spread over all four links of a there and
 * back. Loss, duplication, reordering and jitter are given for a whole way and act on its link down: a way then shows
 * just the numbers that were asked for, and the receivers of a multicast lose independently. Rate, queue and marking
 * belong to every link. --link says otherwise for a single one. Between up and down there may be several paths.
 */
#ifndef LAB_PLAN_H
#define LAB_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/link.h"

#define LAB_HOSTS_MAX	250
#define LAB_EVENTS_MAX	256
#define LAB_PATHS_MAX	16
#define LAB_MTU_MIN	1280 /* the least that IPv6 asks of a link */
#define LAB_MTU_MAX	65535
#define LAB_MTU_DEFAULT 1500
#define LAB_ERROR_SIZE	256

enum lab_direction { LAB_UP, LAB_DOWN, LAB_DIRECTIONS };

struct lab_link_plan {
	struct link_attr attr;
	double mean_loss;
	double burst; /* mean length of a burst in packets; up to 1: independent */
	bool queue_given;
};

enum lab_change { LAB_LINK_DOWN, LAB_LINK_UP, LAB_LINK_RATE, LAB_LINK_LOSS };

struct lab_event {
	uint64_t at_ns; /* after the commands were started */
	bool of_path;	/* rather than of hosts */
	unsigned first; /* from first to last */
	unsigned last;
	enum lab_change change;
	uint64_t rate_bps;
	double loss;
};

struct lab_plan {
	unsigned hosts;
	uint32_t mtu;
	uint64_t seed;
	uint64_t rtt_ns;
	struct lab_link_plan
		every; /* as asked for a way; delay and queue are worked out by plan_links() */
	struct lab_link_plan links[LAB_HOSTS_MAX][LAB_DIRECTIONS];
	struct lab_event events[LAB_EVENTS_MAX]; /* by time */
	unsigned event_count;
	unsigned path_count;
	struct lab_link_plan paths[LAB_PATHS_MAX]; /* only their losses count */
	bool no_offload;
	bool kill_on_failure;
	bool json;
	const char *capture; /* NULL: none */
	const char *samples; /* NULL: none */
	uint64_t sample_interval_ns;
	char **command; /* ends in NULL */
};

/* Plan of two hosts, joined by wires without limits. */
void plan_init(struct lab_plan *plan);

/* One `key=value` of a link. What is wrong is written to error as a clause, and -EINVAL comes back; so below. */
int plan_set(struct lab_link_plan *link, const char *key, const char *value,
	     char error[LAB_ERROR_SIZE]);

/* Gives every link its share of what holds for all. Once, after `hosts`, `rtt_ns` and `every` are known. */
void plan_links(struct lab_plan *plan);

/* HOST:up|down:key=value,... with HOST a number or "all"; after plan_links(). */
int plan_override(struct lab_plan *plan, const char *text, char error[LAB_ERROR_SIZE]);

/* PATH:key=value,... with loss and burst for keys. */
int plan_path(struct lab_plan *plan, const char *text, char error[LAB_ERROR_SIZE]);

/* TIME:FILE; `text` must outlive the plan. */
int plan_samples(struct lab_plan *plan, const char *text, char error[LAB_ERROR_SIZE]);

/* TIME:HOST:down|up|rate=R|loss=P, or pathN for HOST; a path has no rate. */
int plan_event(struct lab_plan *plan, const char *text, char error[LAB_ERROR_SIZE]);

/* Gives each link without a queue of its own one bandwidth-delay product, at least 64 KiB. Last. */
void plan_queues(struct lab_plan *plan);

/* Sets the mean loss, in bursts if the link has such. */
void plan_loss(struct lab_link_plan *link, double mean);

#endif
