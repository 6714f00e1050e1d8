/* SPDX-License-Identifier: BSD-3-Clause */
/* Two simulated hosts and a channel; see two.h. */
#include "two.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "message/state.h"

#define MARGIN	    64
#define MARGIN_BYTE 0xa5

static void gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	struct two *two = arg;
	int end = two->channel[1] == channel;

	(void)now;
	two->gone[end]++;
	two->gone_status[end] = status;
	if (two->close_when_gone) {
		gw_channel_close(channel);
		two->channel[end] = NULL;
	}
}

static const struct gw_channel_handler handler = { .gone = gone };

void two_open(struct two *two, const struct two_attr *attr)
{
	struct sim_attr sim = { .seed = attr->seed + 1,
				.payload = attr->payload ? attr->payload : TWO_PAYLOAD,
				.path_payload = attr->path_payload,
				.rungs = { 512, TWO_FLOOR },
				.start_ns = S };
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2, .edge = attr->link };
	struct gw_context_attr ctx = { .max_qps = attr->max_qps ? attr->max_qps : 8,
				       .max_sends = 2048,
				       .max_recvs = attr->max_recvs ? attr->max_recvs : 2048 };

	memset(two, 0, sizeof(*two));
	for (uint32_t i = 0; attr->lanes && i < attr->host.lanes; i++)
		shape.lane[i] = attr->lanes[i];
	shape.uneven = attr->lanes != NULL;
	assert_int_equal(world_open(&two->world, &sim, &shape, &attr->host, &ctx), 0);
	two->world.wake_ns = attr->wake_ns;
	for (int end = 0; end < 2; end++) {
		struct gw_channel_attr channel = attr->channel[end];

		channel.handler = &handler;
		channel.arg = two;
		assert_int_equal(
			gw_channel_create(two->world.hosts[end].ctx, &channel, &two->channel[end]),
			0);
		assert_int_equal(gw_channel_info(two->channel[end], &two->info[end]), 0);
	}
	for (int end = 0; end < 2 - attr->late; end++)
		two_connect(two, end);
}

void two_connect(struct two *two, int end)
{
	assert_int_equal(gw_channel_connect(two->channel[end], &two->info[!end]), 0);
	world_touch(&two->world, (uint32_t)end);
}

static void check_pools(const struct gw_context *ctx)
{
	assert_int_equal(pool_used(&ctx->sends), 0);
	assert_int_equal(pool_used(&ctx->recvs), 0);
	assert_int_equal(pool_used(&ctx->puts), 0);
	assert_int_equal(pool_used(&ctx->grants), 0);
	assert_int_equal(pool_used(&ctx->qps), 0);
	assert_int_equal(pool_used(&ctx->mrs), 0);
}

void two_close(struct two *two)
{
	static const char *const lies[] = { "drop_claim", "drop_token", "drop_shape",
					    "drop_control_malformed", "drop_offset" };

	for (int end = 0; end < 2; end++)
		for (size_t i = 0; two->world.hosts[end].ctx && i < sizeof(lies) / sizeof(lies[0]);
		     i++)
			if (two_counter(two, end, lies[i])) {
				print_error("end %d counts %s, and nobody lied\n", end, lies[i]);
				fail();
			}
	for (int end = 0; end < 2; end++) {
		struct gw_context *ctx = two->world.hosts[end].ctx;

		if (!ctx)
			continue;
		if (two->channel[end])
			assert_int_equal(gw_channel_close(two->channel[end]), 0);
		gw_progress(ctx);
		check_pools(ctx);
	}
	world_close(&two->world);
}

uint64_t two_now(const struct two *two)
{
	return sim_now_ns(two->world.sim);
}

bool two_step(struct two *two, uint64_t limit_ns)
{
	return world_step(&two->world, limit_ns);
}

void two_run(struct two *two, uint64_t ns)
{
	uint64_t limit = two_now(two) + ns;

	while (two_step(two, limit))
		;
}

uint64_t two_counter(const struct two *two, int end, const char *name)
{
	uint64_t value = 0;

	assert_int_equal(
		gw_counter_read(two->world.hosts[end].ctx, (unsigned)gw_counter_find(name), &value),
		0);
	return value;
}

static void ended(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct act *act = arg;

	assert_ptr_equal(op, act->op);
	act->ended++;
	act->result = *result;
	act->at = two_now(act->two);
	if (act->then)
		act->then(act);
}

void act_post(struct two *two, int end, bool receiving, uint64_t length, uint64_t seed,
	      const struct gw_op_attr *extra, struct act *act)
{
	struct gw_op_attr attr = extra ? *extra : (struct gw_op_attr){ 0 };
	struct gw_context *ctx = two->world.hosts[end].ctx;
	void (*then)(struct act *) = act->then;
	struct rng rng;

	*act = (struct act){ .two = two, .end = end, .length = length, .then = then };
	act->memory = malloc(length + 2 * MARGIN);
	assert_non_null(act->memory);
	memset(act->memory, MARGIN_BYTE, length + 2 * MARGIN);
	act->addr = act->memory + MARGIN;
	if (!receiving) {
		rng_seed(&rng, seed);
		rng_fill(&rng, act->addr, length);
	}
	assert_int_equal(gw_mr_register(ctx, act->addr, length ? length : 1, &act->mr), 0);
	attr.addr = act->addr;
	attr.length = length;
	attr.mr = act->mr;
	attr.done = ended;
	attr.arg = act;
	assert_int_equal(
		(receiving ? gw_channel_recv : gw_channel_send)(two->channel[end], &attr, &act->op),
		0);
	world_touch(&two->world, (uint32_t)end);
}

void act_send(struct two *two, int end, uint64_t length, uint64_t seed, struct act *act)
{
	act_post(two, end, false, length, seed, NULL, act);
}

void act_recv(struct two *two, int end, uint64_t capacity, struct act *act)
{
	act_post(two, end, true, capacity, 0, NULL, act);
}

void act_free(struct act *act)
{
	for (int i = 0; i < MARGIN; i++) {
		assert_int_equal(act->memory[i], MARGIN_BYTE);
		assert_int_equal(act->memory[MARGIN + act->length + (uint64_t)i], MARGIN_BYTE);
	}
	if (act->mr && act->two->world.hosts[act->end].ctx)
		assert_int_equal(gw_mr_deregister(act->mr), 0);
	free(act->memory);
	act->memory = NULL;
}

void act_check(struct act *act, int status)
{
	struct gw_op_result result;

	if (act->ended != 1 || act->result.status != status)
		print_error("ended %u times, status %d, expected %d\n", act->ended,
			    act->result.status, status);
	assert_int_equal(act->ended, 1);
	assert_int_equal(act->result.status, status);
	assert_int_equal(gw_op_test(act->op, &result), 1);
	assert_int_equal(result.status, status);
	assert_int_equal(gw_op_close(act->op), 0);
	act_free(act);
}

void act_check_bytes(struct act *act, uint64_t length, uint64_t seed)
{
	uint8_t *expected = malloc(length + 1);
	struct rng rng;

	assert_int_equal(act->ended, 1);
	assert_int_equal(act->result.length, length);
	assert_int_equal(act->result.moved, length);
	assert_non_null(expected);
	rng_seed(&rng, seed);
	rng_fill(&rng, expected, length);
	assert_memory_equal(act->addr, expected, length);
	for (uint64_t i = length; i < act->length; i++)
		assert_int_equal(act->addr[i], MARGIN_BYTE);
	free(expected);
	act_check(act, 0);
}
