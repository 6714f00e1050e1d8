/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch's clockwork. A turn sees to what is due, sleeps, and reads. Time goes forward in every link because what
 * is due is seen to in order of time before anything new, stamped later, is read.
 */
#include "switch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "star.h"

#define NS_A_SECOND UINT64_C(1000000000)

/* A sleep may end this much too late; the rest is spent looking at the clock. */
#define SPIN_NS 60000

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_A_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t switch_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Half of the memory: the hosts live on this machine too. */
static uint64_t memory_limit(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static int open_wires(struct lab_switch *sw)
{
	unsigned count = sw->plan->hosts * LAB_DIRECTIONS;
	struct rng seeds;
	int rc = heap_reserve(&sw->due, count);

	if (rc)
		return rc;
	sw->wires = calloc(count, sizeof(*sw->wires));
	if (!sw->wires)
		return -ENOMEM;
	rng_seed(&seeds, sw->plan->seed);
	for (unsigned i = 0; i < count; i++) {
		struct wire *wire = &sw->wires[i];

		wire->host = i / LAB_DIRECTIONS;
		wire->direction = i % LAB_DIRECTIONS;
		link_init(&wire->link, &sw->plan->links[wire->host][wire->direction].attr,
			  rng_u64(&seeds));
		delay_init(&wire->delay);
	}
	return paths_open(&sw->paths, sw->plan, &seeds);
}

/* What is written while it runs, as the plan asks. */
static int open_records(struct lab_switch *sw, char error[LAB_ERROR_SIZE])
{
	const struct lab_plan *plan = sw->plan;
	const char *path = plan->capture;
	int rc = path ? capture_open(path, &sw->capture) : 0;

	if (!rc && plan->samples) {
		path = plan->samples;
		rc = samples_open(path, plan->sample_interval_ns, &sw->samples);
	}
	if (rc)
		snprintf(error, LAB_ERROR_SIZE, "cannot write %s: %s", path, strerror(-rc));
	return rc;
}

int switch_open(const struct lab_plan *plan, const int *tuns, char error[LAB_ERROR_SIZE],
		struct lab_switch **out)
{
	struct lab_switch *sw = calloc(1, sizeof(*sw));
	int rc;

	if (!sw) {
		snprintf(error, LAB_ERROR_SIZE, "no memory for the switch");
		return -ENOMEM;
	}
	sw->plan = plan;
	heap_init(&sw->due);
	store_init(&sw->store, plan->mtu, memory_limit());
	sw->wall_offset_ns = clock_ns(CLOCK_REALTIME) - switch_now_ns();
	for (unsigned i = 0; i < plan->hosts; i++)
		sw->polls[i] = (struct pollfd){ .fd = tuns[i], .events = POLLIN };
	rc = open_wires(sw);
	sw->spare = store_buffer(&sw->store, PACKET_SIZE_MAX);
	if (rc || !sw->spare) {
		snprintf(error, LAB_ERROR_SIZE, "no memory for the switch");
		switch_close(sw);
		return -ENOMEM;
	}
	rc = open_records(sw, error);
	if (rc) {
		switch_close(sw);
		return rc;
	}
	*out = sw;
	return 0;
}

int switch_close(struct lab_switch *sw)
{
	int rc = capture_close(sw->capture), other = samples_close(sw->samples);

	for (unsigned i = 0; sw->wires && i < sw->plan->hosts * LAB_DIRECTIONS; i++)
		delay_destroy(&sw->wires[i].delay);
	free(sw->wires);
	paths_close(&sw->paths);
	heap_destroy(&sw->due);
	store_destroy(&sw->store);
	free(sw);
	return rc ? rc : other;
}

void switch_start(struct lab_switch *sw)
{
	sw->start_ns = switch_now_ns();
}

/* `planned`: what the link was to be, for the length of its bursts. */
static void apply_event(const struct lab_event *event, struct lab_link_plan planned,
			struct link *link)
{
	switch (event->change) {
	case LAB_LINK_DOWN:
	case LAB_LINK_UP:
		link->down = event->change == LAB_LINK_DOWN;
		break;
	case LAB_LINK_RATE:
		link->attr.rate_bps = event->rate_bps;
		break;
	case LAB_LINK_LOSS:
		plan_loss(&planned, event->loss);
		link->attr.loss = planned.attr.loss;
		link->attr.burst_enter = planned.attr.burst_enter;
		link->attr.burst_leave = planned.attr.burst_leave;
		link->attr.burst_loss = planned.attr.burst_loss;
		break;
	}
}

static void apply_to_host(struct lab_switch *sw, const struct lab_event *event, unsigned host)
{
	const struct lab_link_plan *planned = sw->plan->links[host];

	if (event->change != LAB_LINK_LOSS)
		apply_event(event, planned[LAB_UP], &wire_of(sw, host, LAB_UP)->link);
	apply_event(event, planned[LAB_DOWN], &wire_of(sw, host, LAB_DOWN)->link);
}

/* When the next change of the plan is due. */
static uint64_t event_ns(const struct lab_switch *sw)
{
	if (!sw->start_ns || sw->next_event == sw->plan->event_count)
		return UINT64_MAX;
	return sw->start_ns + sw->plan->events[sw->next_event].at_ns;
}

static void apply_events(struct lab_switch *sw, uint64_t now_ns)
{
	for (; event_ns(sw) <= now_ns; sw->next_event++) {
		const struct lab_event *event = &sw->plan->events[sw->next_event];

		if (event->of_path) {
			apply_event(event, sw->plan->paths[event->first],
				    &sw->paths.links[event->first]);
			continue;
		}
		for (unsigned host = event->first; host <= event->last; host++)
			apply_to_host(sw, event, host);
	}
}

static uint64_t sample_ns(const struct lab_switch *sw)
{
	return sw->start_ns && sw->samples ? sw->start_ns + samples_next_ns(sw->samples)
					   : UINT64_MAX;
}

/* Changes and samples, those that are due, and then the packets. */
static void do_what_is_due(struct lab_switch *sw, uint64_t now_ns)
{
	apply_events(sw, now_ns);
	while (sample_ns(sw) <= now_ns)
		samples_take(sw->samples, sw->wires, sw->plan->hosts * LAB_DIRECTIONS,
			     sw->start_ns);
	forward_due(sw, now_ns);
}

static uint64_t next_due_ns(const struct lab_switch *sw, uint64_t latest_ns)
{
	const struct heap_node *node = heap_min(&sw->due);
	uint64_t next = event_ns(sw), sample = sample_ns(sw);

	if (latest_ns < next)
		next = latest_ns;
	if (sample < next)
		next = sample;
	return node && node->key < next ? node->key : next;
}

bool switch_turn(struct lab_switch *sw, const int control[2], uint64_t latest_ns)
{
	unsigned hosts = sw->plan->hosts;
	uint64_t now_ns = switch_now_ns(), next, wait_ns;
	struct timespec timeout;

	do_what_is_due(sw, now_ns);
	next = next_due_ns(sw, latest_ns);
	now_ns = switch_now_ns();
	wait_ns = next > now_ns + SPIN_NS ? next - now_ns - SPIN_NS : 0;
	timeout.tv_sec = (time_t)(wait_ns / NS_A_SECOND);
	timeout.tv_nsec = (long)(wait_ns % NS_A_SECOND);
	for (unsigned i = 0; i < STAR_CONTROLS; i++)
		sw->polls[hosts + i] = (struct pollfd){ .fd = control[i], .events = POLLIN };
	if (ppoll(sw->polls, hosts + STAR_CONTROLS, next == UINT64_MAX ? NULL : &timeout, NULL) <=
	    0)
		return false;
	/* Times must go forward in every link: first what became due during the sleep. */
	now_ns = switch_now_ns();
	do_what_is_due(sw, now_ns);
	for (unsigned i = 0; i < hosts; i++) {
		if (sw->polls[i].revents & POLLIN)
			forward_read(sw, i);
	}
	return sw->polls[hosts].revents || sw->polls[hosts + 1].revents;
}

void switch_counts(const struct lab_switch *sw, struct switch_counts *out)
{
	struct lateness *all = calloc(1, sizeof(*all));

	out->misaddressed = sw->misaddressed;
	out->malformed = sw->malformed;
	out->starved = sw->starved;
	for (unsigned i = 0; i < LAB_PATHS_MAX; i++)
		out->paths[i] = sw->paths.links[i].stats;
	for (unsigned i = 0; i < sw->plan->hosts * LAB_DIRECTIONS; i++) {
		const struct wire *wire = &sw->wires[i];

		out->links[wire->host][wire->direction] = (struct switch_link_counts){
			.stats = wire->link.stats,
			.bytes = wire->bytes,
			.marked = wire->marked,
			.refused = wire->refused,
			.late_p50_ns = lateness_quantile_ns(&wire->lateness, 0.50),
			.late_p99_ns = lateness_quantile_ns(&wire->lateness, 0.99),
			.late_max_ns = wire->lateness.max_ns,
			.wait_p50_ns = lateness_quantile_ns(&wire->waiting, 0.50),
			.wait_p99_ns = lateness_quantile_ns(&wire->waiting, 0.99),
			.wait_max_ns = wire->waiting.max_ns,
		};
		if (all)
			lateness_merge(all, &wire->lateness);
	}
	if (all) {
		out->late_p50_ns = lateness_quantile_ns(all, 0.50);
		out->late_p99_ns = lateness_quantile_ns(all, 0.99);
		out->late_max_ns = all->max_ns;
	}
	free(all);
}
