/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * two.h: two simulated hosts and a channel between them, for tests. Each operation has memory of its own, with a margin
 * around a receive that nobody may touch, and is counted as it ends.
 */
#ifndef TESTS_UNIT_CHANNEL_TWO_H
#define TESTS_UNIT_CHANNEL_TWO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <godwit/channel.h>

#include "sim/world.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define TWO_PAYLOAD 1024u
/* Bytes that every path carries. */
#define TWO_FLOOR 256u

/* Zero is the default everywhere. */
struct two_attr {
	struct link_attr link;
	struct sim_host_attr host;
	/* What befalls packets on each of host.lanes; null: nothing. */
	const struct link_attr *lanes;
	struct gw_channel_attr channel[2];
	uint64_t seed;
	/* As in struct sim_attr. */
	uint32_t payload;
	uint32_t path_payload;
	/* Of each context. */
	uint32_t max_qps;
	uint32_t max_recvs;
	/* As in struct world. */
	uint64_t wake_ns;
	/* End 1 is connected by two_connect(). */
	bool late;
};

struct two {
	struct world world;
	struct gw_channel *channel[2];
	unsigned gone[2];
	int gone_status[2];
	bool close_when_gone;
	struct gw_channel_info info[2];
};

/* An operation of a test. */
struct act {
	struct two *two;
	int end;
	struct gw_op *op;
	uint8_t *memory;
	uint8_t *addr;
	uint64_t length;
	struct gw_mr *mr;
	unsigned ended;
	struct gw_op_result result;
	/* It ended. */
	uint64_t at;
	void (*then)(struct act *act);
};

void two_open(struct two *two, const struct two_attr *attr);
void two_connect(struct two *two, int end);
/* Also asserts that both contexts' pools are as they were. */
void two_close(struct two *two);
uint64_t two_now(const struct two *two);
void two_run(struct two *two, uint64_t ns);
bool two_step(struct two *two, uint64_t limit_ns);
uint64_t two_counter(const struct two *two, int end, const char *name);

#define two_until(two, ns, condition)                                                              \
	do {                                                                                       \
		uint64_t two_limit_ = two_now(two) + (ns);                                         \
		while (!(condition))                                                               \
			if (!two_step(two, two_limit_)) {                                          \
				print_error("%s:%d: never came true: %s\n", __FILE__, __LINE__,    \
					    #condition);                                           \
				fail();                                                            \
			}                                                                          \
	} while (0)

/* Posts one; `seed` fills a send. The extra attributes may be null. */
void act_send(struct two *two, int end, uint64_t length, uint64_t seed, struct act *act);
void act_recv(struct two *two, int end, uint64_t capacity, struct act *act);
void act_post(struct two *two, int end, bool receiving, uint64_t length, uint64_t seed,
	      const struct gw_op_attr *extra, struct act *act);
/* Asserts the end, the bytes and the margins, closes the handle and frees the memory. */
void act_check(struct act *act, int status);
void act_check_bytes(struct act *act, uint64_t length, uint64_t seed);
void act_free(struct act *act);

#endif
