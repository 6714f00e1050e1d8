/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel over sockets on loopback that lose packets: the same promises where time is real. Also what misuse gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/channel.h>

#include "base/rng.h"

#define COUNT  40
#define LARGE  300000u
#define WAIT   UINT64_C(20000000000)
#define SECOND UINT64_C(1000000000)

struct ends {
	struct gw_context *ctx[2];
	struct gw_channel *channel[2];
	struct gw_mr *mr[2];
	uint8_t *memory[2];
	size_t bytes;
};

static void ends_open(struct ends *ends, double drop, size_t bytes)
{
	struct gw_channel_info info[2];

	ends->bytes = bytes;
	for (int i = 0; i < 2; i++) {
		struct gw_faults faults = { .drop = drop, .seed = (uint64_t)i + 1 };
		struct gw_context_attr attr = { .fabric = "roce:127.0.0.1@0",
						.max_qps = 8,
						.faults = drop > 0 ? &faults : NULL };

		assert_int_equal(gw_context_open(&attr, &ends->ctx[i]), 0);
		ends->memory[i] = calloc(1, bytes);
		assert_non_null(ends->memory[i]);
		assert_int_equal(gw_mr_register(ends->ctx[i], ends->memory[i], bytes, &ends->mr[i]),
				 0);
		assert_int_equal(gw_channel_create(ends->ctx[i], NULL, &ends->channel[i]), 0);
		assert_int_equal(gw_channel_info(ends->channel[i], &info[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(gw_channel_connect(ends->channel[i], &info[!i]), 0);
}

static void ends_close(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		gw_channel_close(ends->channel[i]);
		assert_int_equal(gw_mr_deregister(ends->mr[i]), 0);
		gw_context_close(ends->ctx[i]);
		free(ends->memory[i]);
	}
}

/* Both ends in one thread: each gets its turns. */
static void wait_for(struct ends *ends, struct gw_op *op)
{
	uint64_t start = gw_now_ns(ends->ctx[0]);

	while (!gw_op_test(op, NULL)) {
		gw_wait(ends->ctx[0], 100000);
		gw_wait(ends->ctx[1], 100000);
		assert_true(gw_now_ns(ends->ctx[0]) - start < WAIT);
	}
}

static void lossy_sockets(void **state)
{
	struct gw_op *sends[COUNT], *recvs[COUNT];
	uint64_t at = 0;
	struct ends ends;
	struct rng rng;

	(void)state;
	ends_open(&ends, 0.02, (size_t)COUNT * LARGE);
	rng_seed(&rng, 1);
	rng_fill(&rng, ends.memory[0], ends.bytes);
	for (int i = 0; i < COUNT; i++, at += LARGE) {
		struct gw_op_attr attr = { .addr = ends.memory[1] + at,
					   .length = LARGE,
					   .mr = ends.mr[1] };

		assert_int_equal(gw_channel_recv(ends.channel[1], &attr, &recvs[i]), 0);
		attr.addr = ends.memory[0] + at;
		attr.length = i % 3 ? LARGE - (uint64_t)i : (uint64_t)i * 10;
		attr.mr = ends.mr[0];
		assert_int_equal(gw_channel_send(ends.channel[0], &attr, &sends[i]), 0);
	}
	at = 0;
	for (int i = 0; i < COUNT; i++, at += LARGE) {
		uint64_t length = i % 3 ? LARGE - (uint64_t)i : (uint64_t)i * 10;
		struct gw_op_result result;

		wait_for(&ends, recvs[i]);
		wait_for(&ends, sends[i]);
		assert_int_equal(gw_op_test(recvs[i], &result), 1);
		assert_int_equal(result.status, 0);
		assert_int_equal(result.length, length);
		assert_memory_equal(ends.memory[0] + at, ends.memory[1] + at, length);
		assert_int_equal(gw_op_test(sends[i], &result), 1);
		assert_int_equal(result.status, 0);
		assert_int_equal(gw_op_close(recvs[i]), 0);
		assert_int_equal(gw_op_close(sends[i]), 0);
		assert_int_equal(gw_op_test(sends[i], NULL), -ESTALE);
	}
	ends_close(&ends);
}

/* The peer leaves when it has everything, and what it has not got ends with a line that names it. */
static void named_in_the_end(void **state)
{
	struct gw_op *send[2], *recv;
	struct gw_op_result result;
	struct ends ends;
	char text[512];

	(void)state;
	ends_open(&ends, 0, LARGE);
	for (int i = 0; i < 2; i++) {
		struct gw_op_attr attr = { .addr = ends.memory[0], .length = 100 };

		assert_int_equal(gw_channel_send(ends.channel[0], &attr, &send[i]), 0);
		attr.addr = ends.memory[1];
		if (!i)
			assert_int_equal(gw_channel_recv(ends.channel[1], &attr, &recv), 0);
	}
	assert_int_equal(gw_op_wait(send[1], 1000), -ETIMEDOUT);
	wait_for(&ends, recv);
	gw_channel_close(ends.channel[1]);
	assert_int_equal(gw_channel_create(ends.ctx[1], NULL, &ends.channel[1]), 0);
	assert_int_equal(gw_op_wait(send[1], SECOND), 0);
	assert_int_equal(gw_op_test(send[1], &result), 1);
	assert_int_equal(result.status, -ECONNRESET);
	assert_true(gw_channel_explain(ends.channel[0], text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "127.0.0.1@"));
	assert_non_null(strstr(text, "100 of 100 bytes not confirmed"));
	assert_int_equal(gw_channel_explain(ends.channel[0], text, 10), 9);
	ends_close(&ends);
}

static void misuse(void **state)
{
	struct gw_channel_attr bad[] = {
		{ .congestion = "wishful" },
		{ .flags = 1u << 31 },
		{ .operations = 65537 },
		{ .slots = 3 },
		{ .packs = 3 },
		{ .packs = 1000 },
		{ .pack_bytes = 64 },
		{ .small_bytes = 16369, .pack_bytes = 16384 },
		{ .reserved = { 1 } },
	};
	struct gw_op_attr attr = { .length = 10 };
	struct gw_channel_info info;
	struct gw_channel *channel;
	struct gw_op *op = NULL;
	struct ends ends;

	(void)state;
	ends_open(&ends, 0, LARGE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(gw_channel_create(ends.ctx[0], &bad[i], &channel), -EINVAL);
	assert_int_equal(gw_channel_create(NULL, NULL, &channel), -EINVAL);
	assert_int_equal(gw_channel_send(ends.channel[0], &attr, &op), -EINVAL); /* no memory */
	attr.addr = ends.memory[0];
	attr.length = LARGE;
	assert_int_equal(gw_channel_send(ends.channel[0], &attr, &op),
			 -EINVAL); /* not registered */
	attr.length = 10;
	attr.reserved[0] = 1;
	assert_int_equal(gw_channel_recv(ends.channel[0], &attr, &op), -EINVAL);
	assert_null(op);
	assert_int_equal(gw_op_test(NULL, NULL), -EINVAL);
	assert_int_equal(gw_op_cancel(NULL), -EINVAL);
	assert_int_equal(gw_op_close(NULL), -EINVAL);
	assert_int_equal(gw_channel_info(ends.channel[0], &info), 0);
	assert_int_equal(gw_channel_connect(ends.channel[1], &info), -EISCONN);
	assert_int_equal(gw_channel_create(ends.ctx[0], NULL, &channel), 0);
	attr = (struct gw_op_attr){ .addr = ends.memory[0], .length = 10 };
	assert_int_equal(gw_channel_send(channel, &attr, &op), -ENOTCONN);
	assert_int_equal(gw_channel_status(channel), -ENOTCONN);
	info.bytes[5]++;
	assert_int_equal(gw_channel_connect(channel, &info), -EPROTONOSUPPORT);
	info.bytes[0] ^= 1;
	assert_int_equal(gw_channel_connect(channel, &info), -EINVAL);
	assert_int_equal(gw_channel_close(channel), 0);
	ends_close(&ends);
}

static void no_log(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lossy_sockets),
		cmocka_unit_test(named_in_the_end),
		cmocka_unit_test(misuse),
	};

	gw_log_set(GW_LOG_ERROR, no_log, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
