/* SPDX-License-Identifier: BSD-3-Clause */
/* What a test saw: the calls of every callback, and which counters moved. */
#include "pair.h"

#include <string.h>

static void on_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	struct seen_send *seen = arg;

	seen->granted++;
	seen->capacity = capacity;
}

static void on_drained(struct gw_send *send, void *arg, uint64_t now)
{
	((struct seen_send *)arg)->drained++;
}

static void on_nack(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	((struct seen_send *)arg)->nacks++;
}

static void on_send_control(struct gw_send *send, void *arg, const void *data, size_t length,
			    uint64_t now)
{
	struct seen_send *seen = arg;

	seen->controls++;
	memcpy(seen->control, data, length);
	seen->control_length = length;
}

static void on_send_timer(struct gw_send *send, void *arg, uint64_t now)
{
	((struct seen_send *)arg)->timers++;
}

static void on_result(struct gw_send *send, void *arg, const struct gw_result *result, uint64_t now)
{
	struct seen_send *seen = arg;

	seen->results++;
	seen->missing = result->missing;
}

static void on_done(struct gw_send *send, void *arg, int status, uint64_t now)
{
	struct seen_send *seen = arg;

	seen->done++;
	seen->status = status;
}

static void on_announced(struct gw_recv *recv, void *arg, uint64_t now)
{
	((struct seen_recv *)arg)->announced++;
}

static void on_progress(struct gw_recv *recv, void *arg, uint64_t now)
{
	((struct seen_recv *)arg)->progress++;
}

static void on_recv_control(struct gw_recv *recv, void *arg, const void *data, size_t length,
			    uint64_t now)
{
	struct seen_recv *seen = arg;

	seen->controls++;
	memcpy(seen->control, data, length);
	seen->control_length = length;
}

static void on_recv_timer(struct gw_recv *recv, void *arg, uint64_t now)
{
	((struct seen_recv *)arg)->timers++;
}

static void on_released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	struct seen_recv *seen = arg;

	seen->released++;
	seen->status = status;
}

const struct gw_send_handler seen_send_handler = { .granted = on_granted,
						   .drained = on_drained,
						   .nack = on_nack,
						   .control = on_send_control,
						   .timer = on_send_timer,
						   .result = on_result,
						   .done = on_done };

const struct gw_recv_handler seen_recv_handler = { .announced = on_announced,
						   .progress = on_progress,
						   .control = on_recv_control,
						   .timer = on_recv_timer,
						   .released = on_released };

uint64_t counter(const struct gw_context *ctx, const char *name)
{
	uint64_t value;

	assert_int_equal(gw_counter_read(ctx, (unsigned)gw_counter_find(name), &value), 0);
	return value;
}

struct tally tally(const struct gw_context *ctx)
{
	struct tally now = { { 0 } };

	assert_true(gw_counter_count() <= TALLY_MAX);
	for (unsigned i = 0; i < gw_counter_count(); i++)
		assert_int_equal(gw_counter_read(ctx, i, &now.values[i]), 0);
	return now;
}

void tally_await(struct gw_context *ctx, const struct tally *before, const char *name)
{
	uint64_t limit = gw_now_ns(ctx) + PAIR_PATIENCE_NS;
	int i = gw_counter_find(name);

	assert_true(i >= 0);
	while (counter(ctx, name) == before->values[i]) {
		if (gw_now_ns(ctx) > limit)
			fail_msg("%s never went up", name);
		gw_wait(ctx, PAIR_IDLE_NS);
	}
}

static bool tells_arrival(const char *name)
{
	return !strncmp(name, "drop_", 5) || !strcmp(name, "landed_packets") ||
	       !strcmp(name, "duplicate_packets") || !strcmp(name, "late_packets") ||
	       !strcmp(name, "rx_data_packets") || !strcmp(name, "rx_forwarded_packets");
}

void tally_assert(const struct gw_context *ctx, const struct tally *before, const char *name,
		  uint64_t by)
{
	struct tally now = tally(ctx);

	for (unsigned i = 0; i < gw_counter_count(); i++) {
		uint64_t want = name && !strcmp(gw_counter_name(i), name) ? by : 0;

		if (tells_arrival(gw_counter_name(i)) && now.values[i] - before->values[i] != want)
			fail_msg("%s went up by %llu and not by %llu; expected was %s",
				 gw_counter_name(i),
				 (unsigned long long)(now.values[i] - before->values[i]),
				 (unsigned long long)want, name ? name : "nothing");
	}
}
