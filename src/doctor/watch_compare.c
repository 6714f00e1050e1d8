/* SPDX-License-Identifier: BSD-3-Clause */
/* From two samples to rates. Each metric is a sum of the counters that a driver may have for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch_sources.h"

#define NS_PER_S 1e9

const char *watch_metric_name(enum watch_metric metric)
{
	static const char *const names[] = { "rx_bps",	   "tx_bps",	 "rx_packets",
					     "tx_packets", "lost",	 "retransmitted",
					     "cnp",	   "ecn_marked", "paused" };

	return names[metric];
}

/* Adds the change of one counter, if the port has it. */
static void add_counter(const struct watch_port *before, const struct watch_port *now,
			const char *name, struct watch_value *out)
{
	const struct counter *new = watch_counter(now, name);
	const struct counter *old = before ? watch_counter(before, name) : NULL;
	struct counter both;
	uint64_t delta;

	if (!new)
		return;
	out->has = true;
	both = *new;
	if (old && old->state == FACT_KNOWN) {
		both.first = old->first;
		both.second = new->first;
		both.has_second = true;
		both.saturated = old->saturated || new->saturated;
	}
	if (counter_delta(&both, &delta)) {
		out->known = true;
		out->value += (double)delta;
	} else {
		out->least = true;
	}
}

static void sum_up(const struct watch_port *before, const struct watch_port *now, double seconds,
		   struct watch_value values[WATCH_METRICS])
{
	for (size_t i = 0; i < watch_source_count; i++) {
		const struct watch_source *source = &watch_sources[i];
		struct watch_value *value = &values[source->metric];

		if (value->has || !watch_source_has(source, now))
			continue;
		for (size_t j = 0; j < WATCH_SOURCE_NAMES && source->names[j]; j++)
			add_counter(before, now, source->names[j], value);
		/* "At least 0" says nothing. */
		if (value->least && value->value <= 0)
			value->known = false;
		value->value = value->known ? value->value * source->unit / seconds : 0;
	}
}

/* The priority that was paused longest. */
static void pause_time(const struct watch_port *before, const struct watch_port *now,
		       double seconds, struct watch_value *out)
{
	char name[48];

	for (unsigned i = 0; i <= WATCH_PRIORITIES; i++) {
		struct watch_value value = { 0 };

		add_counter(before, now, watch_pause_name(i, name), &value);
		out->has |= value.has;
		out->known |= value.known;
		out->least |= value.least;
		value.value = value.known ? value.value / 1e6 / seconds : 0;
		if (value.value > out->value)
			out->value = value.value < 1 ? value.value : 1;
	}
	if (out->least && out->value <= 0)
		out->known = false;
}

static const struct watch_port *find(const struct watch_sample *sample, const char *name)
{
	for (size_t i = 0; sample && i < sample->port_count; i++) {
		if (strcmp(sample->ports[i].name, name) == 0)
			return &sample->ports[i];
	}
	return NULL;
}

/* What hurts most comes first; how busy a port is decides among those without trouble. */
static void judge(struct watch_row *row, bool up)
{
	static const struct {
		enum watch_metric metric;
		double weight;
		const char *reason;
	} pains[] = {
		{ WATCH_RETRANSMITTED, 1e6, "retransmit" },
		{ WATCH_LOST, 1e5, "loss" },
		{ WATCH_PAUSED, 1e6, "pause" },
		{ WATCH_CNP, 1e2, "congestion" },
		{ WATCH_ECN, 1e2, "congestion" },
	};
	double worst = 0;

	row->reason = "";
	if (row->gone || !up) {
		/* An Ethernet port without a cable is normal, an RDMA port that is down is not. */
		row->trouble = row->gone ? 2e15 : row->kind == WATCH_RDMA ? 1e12 : -1;
		row->reason = row->gone ? "gone" : "down";
	}
	for (size_t i = 0; i < sizeof(pains) / sizeof(pains[0]); i++) {
		const struct watch_value *value = &row->values[pains[i].metric];
		double pain = value->known ? value->value * pains[i].weight : 0;

		row->trouble += pain;
		if (pain > worst && !row->gone && up) {
			worst = pain;
			row->reason = pains[i].reason;
		}
	}
	if (row->rate_bps)
		row->trouble += (row->values[WATCH_RX].value + row->values[WATCH_TX].value) /
				(double)row->rate_bps;
}

static void copy_port(struct watch_row *row, const struct watch_port *port)
{
	row->name = port->name;
	row->kind = port->kind;
	row->netdev = port->netdev;
	row->state = port->state;
	row->rate_bps = port->rate_bps;
	row->gone = port->gone;
}

static int by_trouble(const void *a, const void *b)
{
	const struct watch_row *one = a, *two = b;

	if (one->trouble < two->trouble || one->trouble > two->trouble)
		return one->trouble > two->trouble ? -1 : 1;
	if (one->kind != two->kind)
		return one->kind < two->kind ? -1 : 1;
	return strverscmp(one->name, two->name);
}

void watch_compare(const struct watch_sample *before, const struct watch_sample *now,
		   struct watch_view *out)
{
	*out = (struct watch_view){ .sample = now };
	if (before && now->time_ns > before->time_ns)
		out->seconds = (double)(now->time_ns - before->time_ns) / NS_PER_S;
	out->rows = scratch_alloc(&out->scratch, (now->port_count + 1) * sizeof(out->rows[0]));
	for (size_t i = 0; i < now->port_count; i++) {
		struct watch_row *row = &out->rows[out->row_count++];
		const struct watch_port *port = &now->ports[i];
		const struct watch_port *old = out->seconds > 0 ? find(before, port->name) : NULL;

		copy_port(row, port);
		sum_up(old, port, out->seconds, row->values);
		pause_time(old, port, out->seconds, &row->values[WATCH_PAUSED]);
		judge(row, port->up);
	}
	if (out->row_count)
		qsort(out->rows, out->row_count, sizeof(out->rows[0]), by_trouble);
}

void watch_view_free(struct watch_view *view)
{
	scratch_free(&view->scratch);
	*view = (struct watch_view){ 0 };
}
