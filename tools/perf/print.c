/* SPDX-License-Identifier: BSD-3-Clause */
/* A table: one line for each size and direction, and further lines for what is not zero. */
#include "print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheme.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/text.h"

#define GB  1e9
#define PPB 1e9

void perf_print_head(const struct perf_plan *plan, const char *peer, bool icrc)
{
	bool latency = plan->test == PERF_LATENCY;

	printf("%s with %s: scheme %s, %u %s%s, %u thread%s, %u lane%s, %s, ICRC %s%s%s\n",
	       latency ? "latency (half a round trip, in microseconds)" : "bandwidth", peer,
	       plan->scheme->name, plan->qps, plan->channel ? "channel" : "queue pair",
	       plan->qps == 1 ? "" : "s", plan->threads, plan->threads == 1 ? "" : "s", plan->lanes,
	       plan->lanes == 1 ? "" : "s", plan->poll ? "polling" : "sleeping",
	       icrc ? "on" : "off",
	       plan->both      ? ", both directions"
	       : plan->reverse ? ", the server sends"
			       : "",
	       plan->verify ? ", verified" : "");
	if (latency)
		printf("%11s %9s %9s %9s %9s %9s %9s %6s %15s\n", "size", "samples", "min",
		       "median", "p99", "p99.9", "max", "lost", "CPU s, both");
	else
		printf("%11s %8s %5s %10s %9s %11s %9s %9s %15s %9s\n", "size", "", "depth",
		       "messages", "Gbit/s", "messages/s", "repeated", "missing", "CPU s/GB, both",
		       "RTT us");
	output_flush();
}

static double cpu_seconds(const struct perf_result *result)
{
	return session_seconds(result->cpu_user_ns + result->cpu_system_ns);
}

static void print_direction(const struct perf_plan *plan, const char *way,
			    const struct perf_result *sender, const struct perf_result *receiver,
			    const struct perf_measurement *what)
{
	double seconds = session_seconds(receiver->window_ns);
	double gb = (double)(what->here.bytes + what->there.bytes) / GB;
	char size[TEXT_SIZE], cpu[TEXT_SIZE] = "-";

	if (gb > 0)
		snprintf(cpu, sizeof(cpu), "%.3f %.3f", cpu_seconds(&what->here) / gb,
			 cpu_seconds(&what->there) / gb);
	printf("%11s %8s %5u %10" PRIu64 " %9.3f %11.0f %9" PRIu64 " %9" PRIu64 " %15s %9.1f\n",
	       text_bytes(plan->size, size), way, plan->depth, receiver->messages,
	       seconds > 0 ? (double)receiver->bytes * 8 / seconds / GB : 0,
	       seconds > 0 ? (double)receiver->messages / seconds : 0,
	       perf_result_counter(sender, "retransmitted_packets"), receiver->missing_packets, cpu,
	       (double)sender->rtt_ns / 1000);
	if (receiver->missing_packets)
		printf("%20s %" PRIu64 " bytes missing, in %" PRIu64 " messages\n", "",
		       receiver->missing_bytes, receiver->holed_messages);
	if (plan->qps > 1)
		printf("%20s Jain's index %.4f, shares from %.3f to %.3f of the mean\n", "",
		       (double)receiver->jain_ppb / PPB, (double)receiver->least_ppb / PPB,
		       (double)receiver->most_ppb / PPB);
}

static const char *text_us(bool known, uint64_t ns, char buffer[TEXT_SIZE])
{
	snprintf(buffer, TEXT_SIZE, "%.2f", (double)ns / 1000);
	return known ? buffer : "-";
}

static void print_latency(const struct perf_plan *plan, const struct perf_result *client,
			  const struct perf_measurement *what)
{
	bool any = client->samples;
	char size[TEXT_SIZE], min[TEXT_SIZE], median[TEXT_SIZE], p99[TEXT_SIZE], p999[TEXT_SIZE],
		max[TEXT_SIZE], cpu[TEXT_SIZE];

	snprintf(cpu, sizeof(cpu), "%.3f %.3f", cpu_seconds(&what->here),
		 cpu_seconds(&what->there));
	printf("%11s %9" PRIu64 " %9s %9s %9s %9s %9s %6" PRIu64 " %15s\n",
	       text_bytes(plan->size, size), client->samples, text_us(any, client->min_ns, min),
	       text_us(any, client->median_ns, median),
	       text_us(client->samples >= PERF_SAMPLES_P99, client->p99_ns, p99),
	       text_us(client->samples >= PERF_SAMPLES_P999, client->p999_ns, p999),
	       text_us(any, client->max_ns, max), client->lost_pings, cpu);
}

static void print_drops(const char *where, const struct perf_result *result)
{
	const char *between = "";

	for (uint32_t i = 0; i < result->counter_count; i++) {
		const struct perf_counter *counter = &result->counters[i];

		if (strncmp(counter->name, "drop_", 5) != 0)
			continue;
		if (between[0] == '\0')
			printf("%20s dropped %s: ", "", where);
		printf("%s%s %" PRIu64, between, counter->name + 5, counter->value);
		between = ", ";
	}
	if (between[0] != '\0')
		putchar('\n');
}

void perf_print_row(const struct perf_plan *plan, bool client, const struct perf_measurement *what)
{
	if (plan->test == PERF_LATENCY) {
		print_latency(plan, client ? &what->here : &what->there, what);
	} else {
		if (client != plan->reverse || plan->both)
			print_direction(plan, "sent", &what->here, &what->there, what);
		if (client == plan->reverse || plan->both)
			print_direction(plan, "received", &what->there, &what->here, what);
	}
	print_drops("here", &what->here);
	print_drops("there", &what->there);
	output_flush();
}
