/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends print the same object except for `role`: figures are named after client and server. */
#include <string.h>

#include "print.h"
#include "scheme.h"
#include "tools/session.h"

#define GB  1e9
#define PPB 1e9

static void set_integer(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void set_real(json_t *object, const char *name, double value)
{
	json_object_set_new(object, name, json_real(value));
}

json_t *perf_json_plan(const struct perf_plan *plan, bool client)
{
	json_t *object = json_object();

	json_object_set_new(object, "role", json_string(client ? "client" : "server"));
	json_object_set_new(object, "test", json_string(perf_test_name(plan->test)));
	json_object_set_new(object, "scheme", json_string(plan->scheme->name));
	json_object_set_new(object, "channel", json_boolean(plan->channel));
	json_object_set_new(object, "congestion", json_string(perf_plan_congestion(plan)));
	json_object_set_new(object, "rate_cap_bps",
			    plan->rate_bps ? json_integer((json_int_t)plan->rate_bps)
					   : json_null());
	json_object_set_new(object, "exact", json_boolean(plan->scheme->exact));
	set_integer(object, "qps", plan->qps);
	set_integer(object, "threads", plan->threads);
	set_integer(object, "lanes", plan->lanes);
	set_integer(object, "traffic_class", plan->traffic_class);
	json_object_set_new(object, "both", json_boolean(plan->both));
	json_object_set_new(object, "reverse", json_boolean(plan->reverse));
	json_object_set_new(object, "verify", json_boolean(plan->verify));
	json_object_set_new(object, "poll", json_boolean(plan->poll));
	json_object_set_new(object, "count",
			    plan->count ? json_integer((json_int_t)plan->count) : json_null());
	json_object_set_new(object, "duration_seconds",
			    plan->duration_ns ? json_real(session_seconds(plan->duration_ns))
					      : json_null());
	return object;
}

static json_t *fairness(const struct perf_result *result)
{
	json_t *object = json_object();

	set_real(object, "jain_index", (double)result->jain_ppb / PPB);
	set_real(object, "min_share", (double)result->least_ppb / PPB);
	set_real(object, "max_share", (double)result->most_ppb / PPB);
	return object;
}

static void set_us(json_t *object, const char *name, bool known, uint64_t ns)
{
	json_object_set_new(object, name, known ? json_real((double)ns / 1000) : json_null());
}

static json_t *times(const struct perf_result *result)
{
	json_t *object = json_object();

	set_integer(object, "samples", result->samples);
	set_us(object, "mean_us", result->samples, result->mean_ns);
	set_us(object, "min_us", result->samples, result->min_ns);
	set_us(object, "median_us", result->samples, result->median_ns);
	set_us(object, "p99_us", result->samples >= PERF_SAMPLES_P99, result->p99_ns);
	set_us(object, "p99_9_us", result->samples >= PERF_SAMPLES_P999, result->p999_ns);
	set_us(object, "max_us", result->samples, result->max_ns);
	return object;
}

static json_t *direction(const struct perf_plan *plan, bool to_server,
			 const struct perf_result *sender, const struct perf_result *receiver)
{
	double seconds = session_seconds(receiver->window_ns);
	json_t *object = json_object();

	json_object_set_new(object, "from", json_string(to_server ? "client" : "server"));
	json_object_set_new(object, "to", json_string(to_server ? "server" : "client"));
	set_integer(object, "bytes", receiver->bytes);
	set_integer(object, "messages", receiver->messages);
	set_real(object, "seconds", seconds);
	set_real(object, "goodput_gbps",
		 seconds > 0 ? (double)receiver->bytes * 8 / seconds / GB : 0);
	set_real(object, "messages_per_second",
		 seconds > 0 ? (double)receiver->messages / seconds : 0);
	set_integer(object, "missing_bytes", receiver->missing_bytes);
	set_integer(object, "missing_packets", receiver->missing_packets);
	set_integer(object, "messages_with_holes", receiver->holed_messages);
	if (plan->qps > 1)
		json_object_set_new(object, "fairness", fairness(receiver));
	if (plan->test == PERF_BANDWIDTH)
		json_object_set_new(object, "message_time", times(sender));
	return object;
}

/* What each thread of an end moved. */
static json_t *shares(const struct perf_result *result)
{
	double seconds = session_seconds(result->elapsed_ns);
	json_t *array = json_array();

	for (uint32_t i = 0; i < result->threads; i++) {
		const struct perf_share *share = &result->shares[i];
		json_t *object = json_object();

		set_integer(object, "bytes", share->bytes);
		set_integer(object, "messages", share->messages);
		set_real(object, "goodput_gbps",
			 seconds > 0 ? (double)share->bytes * 8 / seconds / GB : 0);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *one_end(const struct perf_result *result, uint64_t bytes)
{
	static const char drop_prefix[] = "drop_";
	const size_t prefix_length = sizeof(drop_prefix) - 1;
	double user = session_seconds(result->cpu_user_ns);
	double system = session_seconds(result->cpu_system_ns);
	json_t *object = json_object(), *dropped = json_object(), *counters = json_object();

	set_real(object, "seconds", session_seconds(result->elapsed_ns));
	set_real(object, "cpu_user_seconds", user);
	set_real(object, "cpu_system_seconds", system);
	json_object_set_new(object, "cpu_seconds_per_gb",
			    bytes ? json_real((user + system) / ((double)bytes / GB))
				  : json_null());
	set_us(object, "rtt_us", result->rtt_ns, result->rtt_ns);
	set_integer(object, "packets_sent", perf_result_counter(result, "sent_packets"));
	set_integer(object, "packets_retransmitted",
		    perf_result_counter(result, "retransmitted_packets"));
	for (uint32_t i = 0; i < result->counter_count; i++) {
		const struct perf_counter *counter = &result->counters[i];

		set_integer(counters, counter->name, counter->value);
		if (strncmp(counter->name, drop_prefix, prefix_length) == 0)
			set_integer(dropped, counter->name + prefix_length, counter->value);
	}
	if (result->threads > 1)
		json_object_set_new(object, "threads", shares(result));
	json_object_set_new(object, "dropped", dropped);
	json_object_set_new(object, "counters", counters);
	return object;
}

json_t *perf_json_row(const struct perf_plan *plan, bool client,
		      const struct perf_measurement *what)
{
	const struct perf_result *at_client = client ? &what->here : &what->there;
	const struct perf_result *at_server = client ? &what->there : &what->here;
	uint64_t bytes = at_client->bytes + at_server->bytes;
	json_t *object = json_object(), *directions = json_array();
	uint64_t area = perf_plan_area(plan, plan->depth);

	set_integer(object, "size_bytes", plan->size);
	set_integer(object, "depth", plan->depth);
	set_integer(object, "working_set_bytes", area);
	if (!plan->reverse)
		json_array_append_new(directions, direction(plan, true, at_client, at_server));
	if (plan->reverse || plan->both || plan->test == PERF_LATENCY)
		json_array_append_new(directions, direction(plan, false, at_server, at_client));
	json_object_set_new(object, "directions", directions);
	if (plan->test == PERF_LATENCY) {
		json_t *half = times(at_client);

		set_integer(half, "lost_pings", at_client->lost_pings);
		json_object_set_new(object, "half_round_trip", half);
	}
	json_object_set_new(object, "client", one_end(at_client, bytes));
	json_object_set_new(object, "server", one_end(at_server, bytes));
	return object;
}
