/* SPDX-License-Identifier: BSD-3-Clause */
/* A view as a table, as JSON; a sample as Prometheus reads it. "?" is what is not known, "-" what a port does not have. */
#include <string.h>
#include <time.h>

#include "watch.h"

#define QUEUES_SHOWN 8u
#define CELL	     16

/* 12345 as "12k", or with one digit more as "12.3k". */
static void scale(double value, bool finer, char out[CELL])
{
	static const char units[] = " kMGT";
	unsigned unit = 0;
	bool tenths;

	while (value >= 999.5 && unit < 4) {
		value /= 1000;
		unit++;
	}
	tenths = value < (finer ? 99.95 : 9.95) && (unit || (value > 0 && value < 9.95));
	snprintf(out, CELL, tenths ? "%.1f" : "%.0f", value);
	if (unit)
		snprintf(out + strlen(out), CELL - strlen(out), "%c", units[unit]);
}

static void cell(const struct watch_value *value, int width, FILE *out)
{
	char text[CELL];

	if (!value->has) {
		fprintf(out, " %*s", width, "-");
	} else if (!value->known) {
		fprintf(out, " %*s", width, "?");
	} else {
		scale(value->value, width > 5, text);
		fprintf(out, " %*s%s", width - value->least, text, value->least ? "+" : "");
	}
}

static void share(const struct watch_value *value, uint64_t rate_bps, FILE *out)
{
	if (value->known && rate_bps)
		fprintf(out, " %3.0f", 100 * value->value / (double)rate_bps);
	else
		fprintf(out, " %3s", value->has ? "?" : "-");
}

/* Packets of both directions. */
static struct watch_value packets(const struct watch_row *row)
{
	const struct watch_value *rx = &row->values[WATCH_RX_PACKETS];
	const struct watch_value *tx = &row->values[WATCH_TX_PACKETS];

	return (struct watch_value){ .has = rx->has || tx->has,
				     .known = rx->known && tx->known,
				     .value = rx->value + tx->value };
}

static void print_safe(const char *text, FILE *out)
{
	for (; *text; text++)
		fputc(*text < ' ' || *text > '~' ? '?' : *text, out);
}

static void print_row(const struct watch_row *row, bool colour, FILE *out)
{
	const struct watch_value both = packets(row);
	struct watch_value paused = row->values[WATCH_PAUSED];
	char rate[CELL] = "?", name[13];

	snprintf(name, sizeof(name), "%s", row->name);
	if (row->rate_bps)
		scale((double)row->rate_bps, false, rate);
	if (colour && row->reason[0])
		fputs(row->gone || strcmp(row->reason, "down") == 0 ? "\033[31m" : "\033[33m", out);
	print_safe(name, out);
	fprintf(out, "%*s %4s", (int)(12 - strlen(name)), "", rate);
	cell(&row->values[WATCH_RX], 6, out);
	share(&row->values[WATCH_RX], row->rate_bps, out);
	cell(&row->values[WATCH_TX], 6, out);
	share(&row->values[WATCH_TX], row->rate_bps, out);
	cell(&both, 5, out);
	cell(&row->values[WATCH_LOST], 4, out);
	cell(&row->values[WATCH_RETRANSMITTED], 4, out);
	cell(&row->values[WATCH_CNP], 4, out);
	cell(&row->values[WATCH_ECN], 4, out);
	paused.value *= 100;
	cell(&paused, 3, out);
	if (row->reason[0])
		fprintf(out, " %s%s", row->reason, colour ? "\033[0m" : "");
	fputc('\n', out);
}

static void print_queues(const struct watch_sample *sample, FILE *out)
{
	if (sample->queues_unknown)
		fprintf(out, "\nqueue pairs: not visible, %s\n", sample->queues_unknown);
	if (!sample->queue_count)
		return;
	fputs("\nqueue pairs\n", out);
	for (size_t i = 0; i < sample->queue_count && i < QUEUES_SHOWN; i++) {
		const struct watch_queues *queues = &sample->queues[i];

		fprintf(out, "  %-12s %5u  ", queues->device, queues->count);
		print_safe(queues->process[0] ? queues->process : "?", out);
		if (queues->pid)
			fprintf(out, " (%u)", queues->pid);
		fputc('\n', out);
	}
	if (sample->queue_count > QUEUES_SHOWN)
		fprintf(out, "  and of %zu more processes\n", sample->queue_count - QUEUES_SHOWN);
}

void watch_print(const struct watch_view *view, bool colour, FILE *out)
{
	const struct watch_sample *sample = view->sample;
	time_t seconds = (time_t)(sample->time_ns / 1000000000);
	struct tm local;
	char clock[32] = "";
	bool rdma = false;

	if (localtime_r(&seconds, &local))
		strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &local);
	for (size_t i = 0; i < view->row_count; i++)
		rdma |= view->rows[i].kind == WATCH_RDMA;
	print_safe(sample->host, out);
	fprintf(out, "  %s", clock);
	if (view->seconds > 0)
		fprintf(out, "  over %.1f s", view->seconds);
	fprintf(out, "%s\n\n", rdma ? "" : "  no RDMA device");
	if (!view->row_count) {
		fputs("no port: --all shows loopback and virtual interfaces, too\n", out);
		return;
	}
	fputs("port         line in b/s   % out b/s   % pkt/s lost retr  cnp  ecn  p%\n", out);
	for (size_t i = 0; i < view->row_count; i++)
		print_row(&view->rows[i], colour, out);
	print_queues(sample, out);
}

/* A string of any bytes. */
static json_t *text(const char *bytes)
{
	char copy[256];
	size_t i;

	for (i = 0; i < sizeof(copy) - 1 && bytes[i]; i++)
		copy[i] = bytes[i] < ' ' || bytes[i] > '~' ? '?' : bytes[i];
	copy[i] = '\0';
	return json_string(copy);
}

static json_t *row_json(const struct watch_row *row)
{
	json_t *object =
		json_pack("{s:o, s:s, s:o, s:o, s:o, s:s}", "port", text(row->name), "kind",
			  row->kind == WATCH_RDMA ? "rdma" : "ethernet", "netdev",
			  text(row->netdev), "state", text(row->state), "rate_bps",
			  row->rate_bps ? json_integer((json_int_t)row->rate_bps) : json_null(),
			  "trouble", row->reason);
	json_t *least = json_array();

	for (unsigned i = 0; i < WATCH_METRICS; i++) {
		const struct watch_value *value = &row->values[i];
		const char *name = watch_metric_name((enum watch_metric)i);

		if (value->known && value->least)
			json_array_append_new(least, json_string(name));
		if (value->has)
			json_object_set_new(object, name,
					    value->known ? json_real(value->value) : json_null());
	}
	json_object_set_new(object, "at_least", least);
	return object;
}

static json_t *queues_json(const struct watch_sample *sample)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sample->queue_count; i++) {
		const struct watch_queues *queues = &sample->queues[i];

		json_array_append_new(list, json_pack("{s:o, s:I, s:o, s:I}", "device",
						      text(queues->device), "pid",
						      (json_int_t)queues->pid, "process",
						      text(queues->process), "queue_pairs",
						      (json_int_t)queues->count));
	}
	return list;
}

json_t *watch_json(const struct watch_view *view)
{
	const struct watch_sample *sample = view->sample;
	json_t *rows = json_array();

	for (size_t i = 0; i < view->row_count; i++)
		json_array_append_new(rows, row_json(&view->rows[i]));
	return json_pack("{s:i, s:o, s:I, s:o, s:o, s:o}", "schema", WATCH_SCHEMA, "host",
			 text(sample->host), "time_ns", (json_int_t)sample->time_ns, "seconds",
			 view->seconds > 0 ? json_real(view->seconds) : json_null(), "ports", rows,
			 "processes", sample->queues_unknown ? json_null() : queues_json(sample));
}
