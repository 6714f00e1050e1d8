/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text from the command line or from a peer may hold anything: control characters become '?' so that
 * one line stays one line, and what is not UTF-8 becomes '?' in JSON.
 */
#include "report.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "output.h"
#include "session.h"

static void make_one_line(char *text)
{
	for (; *text; text++) {
		if (iscntrl((unsigned char)*text))
			*text = '?';
	}
}

int report_fail(struct report *report, int error, const char *format, ...)
{
	va_list args;

	if (report->error[0] != '\0')
		return error;
	va_start(args, format);
	vsnprintf(report->error, sizeof(report->error), format, args);
	va_end(args);
	make_one_line(report->error);
	return error;
}

int report_usage(struct report *report, const char *format, ...)
{
	va_list args;
	size_t used;

	va_start(args, format);
	vsnprintf(report->error, sizeof(report->error), format, args);
	va_end(args);
	make_one_line(report->error);
	used = strlen(report->error);
	snprintf(report->error + used, sizeof(report->error) - used, "; see `godwit help %s`",
		 report->command);
	report->usage = true;
	return -EINVAL;
}

void report_warn(const struct report *report, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	make_one_line(line);
	fprintf(stderr, "godwit %s: warning: %s\n", report->command, line);
}

static void sample_counters(struct report *report, const struct gw_context *ctx)
{
	static const char drop_prefix[] = "drop_";
	const size_t prefix_length = sizeof(drop_prefix) - 1;

	json_decref(report->dropped);
	json_decref(report->counters);
	report->dropped = json_object();
	report->counters = json_object();
	for (unsigned i = 0; i < gw_counter_count(); i++) {
		const char *name = gw_counter_name(i);
		uint64_t value;

		if (gw_counter_read(ctx, i, &value))
			continue;
		json_object_set_new(report->counters, name, json_integer((json_int_t)value));
		if (strncmp(name, drop_prefix, prefix_length) == 0)
			json_object_set_new(report->dropped, name + prefix_length,
					    json_integer((json_int_t)value));
	}
}

static uint64_t counter(const struct report *report, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(report->counters, name));
}

void report_sample(struct report *report, const struct gw_context *ctx,
		   const struct gw_channel *channel, const char *packets)
{
	struct gw_channel_stats stats;

	if (ctx) {
		sample_counters(report, ctx);
		report->icrc = session_icrc(ctx);
		report->packets = counter(report, packets);
		report->retransmitted = counter(report, "retransmitted_packets");
	}
	if (!channel || gw_channel_status(channel) || gw_channel_stats(channel, &stats))
		return;
	report->rtt_ns = stats.rtt_ns;
	report->loss = stats.loss;
}

json_t *report_text(const char *text)
{
	json_t *string = json_string(text);
	char plain[512];

	if (string)
		return string;
	snprintf(plain, sizeof(plain), "%s", text);
	for (char *c = plain; *c; c++) {
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	}
	return json_string(plain);
}

static double goodput_bps(const struct report *report)
{
	return report->seconds > 0 ? (double)report->bytes * 8 / report->seconds : 0;
}

static void describe_file(const struct report *report, json_t *object)
{
	char crc32[9];

	json_object_set_new(object, "bytes", json_integer((json_int_t)report->bytes));
	json_object_set_new(object, "seconds", json_real(report->seconds));
	json_object_set_new(object, "goodput_bps", json_real(goodput_bps(report)));
	if (report->have_crc32) {
		snprintf(crc32, sizeof(crc32), "%08x", report->crc32);
		json_object_set_new(object, "crc32", json_string(crc32));
	}
	if (report->scheme)
		json_object_set_new(object, "scheme", json_string(report->scheme));
	if (report->counters) {
		json_object_set_new(object, "packets", json_integer((json_int_t)report->packets));
		json_object_set_new(object, "retransmitted",
				    json_integer((json_int_t)report->retransmitted));
		json_object_set_new(object, "rtt_us", json_real((double)report->rtt_ns / 1000));
		json_object_set_new(object, "loss", json_real(report->loss));
		json_object_set_new(object, "icrc", json_boolean(report->icrc));
		json_object_set_new(object, "lanes", json_integer(report->lanes));
		json_object_set_new(object, "traffic_class", json_integer(report->traffic_class));
		json_object_set(object, "dropped", report->dropped);
		json_object_set(object, "counters", report->counters);
	}
}

static void print_json(const struct report *report, FILE *out)
{
	json_t *object = json_object();

	json_object_set_new(object, "ok", json_boolean(report->error[0] == '\0'));
	if (report->error[0] != '\0')
		json_object_set_new(object, "error", report_text(report->error));
	json_object_set_new(object, "command", report_text(report->command));
	if (report->file)
		json_object_set_new(object, "file", report_text(report->file));
	if (report->peer[0] != '\0')
		json_object_set_new(object, "peer", report_text(report->peer));
	if (report->body)
		json_object_update(object, report->body);
	else
		describe_file(report, object);
	json_dumpf(object, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
	fputc('\n', out);
	json_decref(object);
}

int report_finish(struct report *report)
{
	FILE *out = report->stdout_is_data ? stderr : stdout;
	int error, status = EXIT_DONE;

	if (report->error[0] != '\0') {
		fprintf(stderr, "godwit %s: %s\n", report->command, report->error);
		status = report->usage	  ? EXIT_USAGE
			 : report->signal ? EXIT_BY_SIGNAL + report->signal
					  : EXIT_FAILED;
	}
	make_one_line(report->outcome);
	if (report->json)
		print_json(report, out);
	else if (status == EXIT_DONE && !report->quiet && report->outcome[0] != '\0')
		fprintf(out, "%s\n", report->outcome);
	/* The transfer may have succeeded, but whoever reads the result would never know. */
	error = output_flush();
	if (error && status == EXIT_DONE) {
		fprintf(stderr, "godwit %s: cannot write the result to standard output: %s\n",
			report->command, strerror(-error));
		status = EXIT_FAILED;
	}
	json_decref(report->dropped);
	json_decref(report->counters);
	json_decref(report->body);
	return status;
}
