/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.c: the event loop of the switch. A turn handles what is due, sleeps, and reads packets. Everything that is due is
 * handled in the order of time before new packets are read, so that time does not go back in any link.
 */
#include "switch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "switch_state.h"

#define NS_A_SECOND UINT64_C(1000000000)

/* A sleep may end this much too late, so it ends this much early, and the rest is spent polling. With slack it ends late. */
#define SPIN_NS 60000

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_A_SECOND + (uint64_t)now.tv_nsec;
}

/* Half of the machine's memory: the hosts' processes need some too. */
static uint64_t memory_limit(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static int open_links(struct lab_switch *sw)
{
	unsigned count = sw->config->hosts * LAB_DIRECTIONS;
	struct rng seeds;
	int rc = heap_reserve(&sw->due, count);

	if (rc)
		return rc;
	sw->links = calloc(count, sizeof(*sw->links));
	if (!sw->links)
		return -ENOMEM;
	rng_seed(&seeds, sw->config->seed);
	for (unsigned i = 0; i < count; i++) {
		struct lab_link *link = &sw->links[i];

		link->host = i / LAB_DIRECTIONS;
		link->direction = i % LAB_DIRECTIONS;
		link_init(&link->model, &sw->config->links[link->host][link->direction].attr,
			  rng_u64(&seeds));
		delay_init(&link->delay);
	}
	return paths_open(&sw->paths, sw->config, &seeds);
}

/* Opens the capture and the samples, if configured. */
static int open_records(struct lab_switch *sw, char error[LAB_ERROR_SIZE])
{
	const struct lab_config *config = sw->config;
	const char *path = config->capture;
	int rc = path ? capture_open(path, &sw->capture) : 0;

	if (!rc && config->samples) {
		path = config->samples;
		rc = samples_open(path, config->sample_interval_ns, &sw->samples);
	}
	if (rc)
		snprintf(error, LAB_ERROR_SIZE, "cannot write %s: %s", path, strerror(-rc));
	return rc;
}

int switch_open(const struct lab_config *config, const int *tuns, char error[LAB_ERROR_SIZE],
		struct lab_switch **out)
{
	struct lab_switch *sw = calloc(1, sizeof(*sw));
	int rc;

	if (!sw) {
		snprintf(error, LAB_ERROR_SIZE, "no memory for the switch");
		return -ENOMEM;
	}
	sw->config = config;
	heap_init(&sw->due);
	store_init(&sw->store, config->mtu, memory_limit());
	sw->wall_offset_ns = wall_ns() - clock_now_ns();
	for (unsigned i = 0; i < config->hosts; i++)
		sw->polls[i] = (struct pollfd){ .fd = tuns[i], .events = POLLIN };
	rc = open_links(sw);
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

	for (unsigned i = 0; sw->links && i < sw->config->hosts * LAB_DIRECTIONS; i++)
		delay_destroy(&sw->links[i].delay);
	free(sw->links);
	paths_close(&sw->paths);
	heap_destroy(&sw->due);
	store_destroy(&sw->store);
	free(sw);
	return rc ? rc : other;
}

void switch_start(struct lab_switch *sw)
{
	sw->start_ns = clock_now_ns();
}

/* Changes a link. `planned` is its configuration, which has the length of bursts. */
static void apply_event(const struct lab_event *event, struct lab_link_config planned,
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
		config_loss(&planned, event->loss);
		link->attr.loss = planned.attr.loss;
		link->attr.burst_enter = planned.attr.burst_enter;
		link->attr.burst_leave = planned.attr.burst_leave;
		link->attr.burst_loss = planned.attr.burst_loss;
		break;
	}
}

static void apply_to_host(struct lab_switch *sw, const struct lab_event *event, unsigned host)
{
	const struct lab_link_config *planned = sw->config->links[host];

	if (event->change != LAB_LINK_LOSS)
		apply_event(event, planned[LAB_UP], &link_of(sw, host, LAB_UP)->model);
	apply_event(event, planned[LAB_DOWN], &link_of(sw, host, LAB_DOWN)->model);
}

/* Returns when the next change is due. */
static uint64_t event_ns(const struct lab_switch *sw)
{
	if (!sw->start_ns || sw->next_event == sw->config->event_count)
		return UINT64_MAX;
	return sw->start_ns + sw->config->events[sw->next_event].at_ns;
}

static void apply_events(struct lab_switch *sw, uint64_t now_ns)
{
	for (; event_ns(sw) <= now_ns; sw->next_event++) {
		const struct lab_event *event = &sw->config->events[sw->next_event];

		if (event->of_path) {
			apply_event(event, sw->config->paths[event->first],
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

/* Handles changes and samples that are due, then packets. */
static void do_what_is_due(struct lab_switch *sw, uint64_t now_ns)
{
	apply_events(sw, now_ns);
	while (sample_ns(sw) <= now_ns)
		samples_take(sw->samples, sw->links, sw->config->hosts * LAB_DIRECTIONS,
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
	unsigned hosts = sw->config->hosts;
	uint64_t now_ns = clock_now_ns(), slack_ns = sw->config->slack_ns, next, wait_ns;
	struct timespec timeout;

	do_what_is_due(sw, now_ns);
	next = next_due_ns(sw, latest_ns);
	now_ns = clock_now_ns();
	if (slack_ns)
		wait_ns = next > now_ns ? next - now_ns + slack_ns : 0;
	else
		wait_ns = next > now_ns + SPIN_NS ? next - now_ns - SPIN_NS : 0;
	timeout.tv_sec = (time_t)(wait_ns / NS_A_SECOND);
	timeout.tv_nsec = (long)(wait_ns % NS_A_SECOND);
	for (unsigned i = 0; i < SWITCH_CONTROLS; i++)
		sw->polls[hosts + i] = (struct pollfd){ .fd = control[i], .events = POLLIN };
	if (ppoll(sw->polls, hosts + SWITCH_CONTROLS, next == UINT64_MAX ? NULL : &timeout, NULL) <=
	    0)
		return false;
	/* What became due during the sleep comes before packets that are read now. */
	now_ns = clock_now_ns();
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
	for (unsigned i = 0; i < sw->config->hosts * LAB_DIRECTIONS; i++) {
		const struct lab_link *link = &sw->links[i];

		out->links[link->host][link->direction] = (struct switch_link_counts){
			.stats = link->model.stats,
			.bytes = link->bytes,
			.marked = link->marked,
			.refused = link->refused,
			.oversize = link->oversize,
			.late_p50_ns = lateness_quantile_ns(&link->lateness, 0.50),
			.late_p99_ns = lateness_quantile_ns(&link->lateness, 0.99),
			.late_max_ns = link->lateness.max_ns,
			.wait_p50_ns = lateness_quantile_ns(&link->waiting, 0.50),
			.wait_p99_ns = lateness_quantile_ns(&link->waiting, 0.99),
			.wait_max_ns = link->waiting.max_ns,
		};
		if (all)
			lateness_merge(all, &link->lateness);
	}
	if (all) {
		out->late_p50_ns = lateness_quantile_ns(all, 0.50);
		out->late_p99_ns = lateness_quantile_ns(all, 0.99);
		out->late_max_ns = all->max_ns;
	}
	free(all);
}
