/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One sample in Prometheus's text format. Each counter keeps its own line, with its name as a label: a sum of several would
 * look like a reset whenever one of them wraps. What is not known has no line.
 */
#include "watch_sources.h"

static const struct {
	const char *name;
	const char *help;
} metrics[] = {
	[WATCH_RX] = { "godwit_port_receive_bytes_total", "Bytes received" },
	[WATCH_TX] = { "godwit_port_transmit_bytes_total", "Bytes sent" },
	[WATCH_RX_PACKETS] = { "godwit_port_receive_packets_total", "Packets received" },
	[WATCH_TX_PACKETS] = { "godwit_port_transmit_packets_total", "Packets sent" },
	[WATCH_LOST] = { "godwit_port_lost_packets_total", "Packets dropped at this port" },
	[WATCH_RETRANSMITTED] = { "godwit_port_retransmissions_total",
				  "Retransmissions, and what asks for them" },
	[WATCH_CNP] = { "godwit_port_cnp_total", "Congestion notification packets" },
	[WATCH_ECN] = { "godwit_port_ecn_marked_packets_total",
			"Packets that arrived with a mark of congestion" },
	[WATCH_PAUSED] = { "godwit_port_pause_seconds_total",
			   "Time for which the port was told to pause" },
};

static void label(const char *name, const char *value, bool first, FILE *out)
{
	fprintf(out, "%s%s=\"", first ? "" : ",", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		fputc(*value < ' ' || *value > '~' ? '?' : *value, out);
	}
	fputc('"', out);
}

static void heading(const char *name, const char *help, const char *type, FILE *out)
{
	fprintf(out, "# HELP %s %s.\n# TYPE %s %s\n", name, help, name, type);
}

static void begin(const char *name, const struct watch_port *port, FILE *out)
{
	fprintf(out, "%s{", name);
	label("port", port->name, true, out);
	label("kind", port->kind == WATCH_RDMA ? "rdma" : "ethernet", false, out);
}

static void counter_line(enum watch_metric metric, const struct watch_port *port, const char *name,
			 unsigned unit, FILE *out)
{
	const struct counter *counter = watch_counter(port, name);

	if (!counter || counter->state != FACT_KNOWN || counter->saturated)
		return;
	begin(metrics[metric].name, port, out);
	label("counter", name + (name[0] == '@'), false, out);
	if (metric == WATCH_PAUSED)
		fprintf(out, "} %.6f\n", (double)counter->first / 1e6);
	else
		fprintf(out, "} %llu\n", (unsigned long long)counter->first * unit);
}

static void metric_lines(enum watch_metric metric, const struct watch_port *port, FILE *out)
{
	bool bytes = metric == WATCH_RX || metric == WATCH_TX;
	char name[48];

	for (size_t i = 0; i < watch_source_count; i++) {
		const struct watch_source *source = &watch_sources[i];

		if (source->metric != metric || !watch_source_has(source, port))
			continue;
		for (size_t j = 0; j < WATCH_SOURCE_NAMES && source->names[j]; j++)
			counter_line(metric, port, source->names[j], bytes ? source->unit / 8 : 1,
				     out);
		return;
	}
	for (unsigned i = 0; metric == WATCH_PAUSED && i <= WATCH_PRIORITIES; i++)
		counter_line(metric, port, watch_pause_name(i, name), 1, out);
}

/* Counters that have stopped are told apart from those that do not count. */
static void saturated_lines(const struct watch_sample *sample, FILE *out)
{
	static const char name[] = "godwit_port_counter_saturated";

	heading(name, "The counter has stopped at its largest value", "gauge", out);
	for (size_t i = 0; i < sample->port_count; i++) {
		const struct watch_port *port = &sample->ports[i];

		for (size_t j = 0; j < port->counters.count; j++) {
			if (!port->counters.counter[j].saturated)
				continue;
			begin(name, port, out);
			label("counter", port->counters.counter[j].name, false, out);
			fputs("} 1\n", out);
		}
	}
}

static void queue_lines(const struct watch_sample *sample, FILE *out)
{
	heading("godwit_queue_pairs", "Queue pairs of a process", "gauge", out);
	for (size_t i = 0; i < sample->queue_count; i++) {
		char pid[16];

		snprintf(pid, sizeof(pid), "%u", sample->queues[i].pid);
		fputs("godwit_queue_pairs{", out);
		label("device", sample->queues[i].device, true, out);
		label("pid", pid, false, out);
		label("process", sample->queues[i].process, false, out);
		fprintf(out, "} %u\n", sample->queues[i].count);
	}
}

void watch_prometheus(const struct watch_sample *sample, FILE *out)
{
	heading("godwit_port_up", "The port is active", "gauge", out);
	for (size_t i = 0; i < sample->port_count; i++) {
		begin("godwit_port_up", &sample->ports[i], out);
		label("netdev", sample->ports[i].netdev, false, out);
		fprintf(out, "} %d\n", sample->ports[i].up && !sample->ports[i].gone);
	}
	heading("godwit_port_line_rate_bits_per_second", "Line rate", "gauge", out);
	for (size_t i = 0; i < sample->port_count; i++) {
		if (!sample->ports[i].rate_bps)
			continue;
		begin("godwit_port_line_rate_bits_per_second", &sample->ports[i], out);
		fprintf(out, "} %llu\n", (unsigned long long)sample->ports[i].rate_bps);
	}
	for (unsigned m = 0; m < WATCH_METRICS; m++) {
		heading(metrics[m].name, metrics[m].help, "counter", out);
		for (size_t i = 0; i < sample->port_count; i++)
			metric_lines((enum watch_metric)m, &sample->ports[i], out);
	}
	saturated_lines(sample, out);
	if (!sample->queues_unknown)
		queue_lines(sample, out);
}
