/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h: two contexts over loopback and a connected queue pair between them, for tests.
 *
 * Both ends live in one thread, so that a test decides who moves and when: pair_step() moves both, gw_progress() one.
 * Whatever has to come about is waited for with pair_until(), which fails the test after PAIR_PATIENCE_NS: long enough
 * for a busy machine, short enough to be a failure and not a time-out.
 */
#ifndef TESTS_UNIT_MESSAGE_PAIR_H
#define TESTS_UNIT_MESSAGE_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <godwit/scheme.h>

#include "fabric/fabric.h"
#include "wire/control.h"

#define PAIR_MEMORY	 (1u << 22)
#define PAIR_PATIENCE_NS UINT64_C(8000000000)
#define PAIR_IDLE_NS	 UINT64_C(100000)

struct pair {
	struct gw_context *ctx[2];
	struct gw_qp *qp[2];
	struct gw_mr *mr[2];
	uint8_t *memory[2]; /* PAIR_MEMORY bytes each */
	unsigned gone[2];   /* calls of the handler */
	int gone_status[2];
	struct pair_filter *filter[2];
};

/* Zero is the default everywhere. */
struct pair_attr {
	const char *address; /* "127.0.0.1" */
	struct gw_context_attr context;
	struct gw_qp_attr qp;
	const struct gw_faults *faults;
	bool strangers; /* each end has to prove its address; else it is known to be the other's */
	uint32_t first_msn; /* of both directions, if not 0: where the numbers start */
};

void pair_open(struct pair *pair, const struct pair_attr *attr);
/* Only the contexts and their memory. */
void pair_open_contexts(struct pair *pair, const struct pair_attr *attr);
void pair_connect(struct pair *pair);
/* Also asserts that neither end was told anything that an honest peer cannot say. */
void pair_close(struct pair *pair);

void pair_step(struct pair *pair);
uint64_t pair_deadline(const struct pair *pair);
void pair_late(const struct pair *pair, uint64_t deadline, const char *what, const char *file,
	       int line);

#define pair_until(pair, condition)                                                                \
	do {                                                                                       \
		uint64_t pair_limit_ = pair_deadline(pair);                                        \
		while (!(condition)) {                                                             \
			pair_late(pair, pair_limit_, #condition, __FILE__, __LINE__);              \
			pair_step(pair);                                                           \
		}                                                                                  \
	} while (0)

/* For some milliseconds: what should not happen gets its chance. */
void pair_idle(struct pair *pair, unsigned milliseconds);

/* ---- what the callbacks said ----------------------------------------------------------------------------------- */

struct seen_send {
	unsigned granted, drained, nacks, controls, timers, results, done;
	uint64_t capacity;
	uint32_t missing;
	int status;
	uint8_t control[GW_CONTROL_MAX];
	size_t control_length;
};

struct seen_recv {
	unsigned announced, progress, controls, timers, released;
	int status;
	uint8_t control[GW_CONTROL_MAX];
	size_t control_length;
};

extern const struct gw_send_handler seen_send_handler;
extern const struct gw_recv_handler seen_recv_handler;

/* Requests from and into the end's own memory. `seen` may be null. */
struct gw_recv *pair_recv(struct pair *pair, int end, uint64_t offset, uint64_t length,
			  struct seen_recv *seen);
struct gw_send *pair_send(struct pair *pair, int end, uint64_t offset, uint64_t length,
			  struct seen_send *seen);
struct gw_send *pair_stream(struct pair *pair, int end, uint64_t length, struct seen_send *seen);

/* Puts packets [first, first + count) of a message that lies at `base` of the end's memory, stepping while -EAGAIN. */
void pair_put(struct pair *pair, int end, struct gw_send *stream, uint64_t base, uint64_t length,
	      uint32_t first, uint32_t count);

struct gw_estimate pair_estimate(const struct pair *pair, int end);
struct gw_recv_status pair_status(const struct gw_recv *recv);

void fill_pattern(uint8_t *bytes, size_t length, uint64_t seed);

/* ---- counters -------------------------------------------------------------------------------------------------- */

#define TALLY_MAX 96
struct tally {
	uint64_t values[TALLY_MAX];
};

uint64_t counter(const struct gw_context *ctx, const char *name);
struct tally tally(const struct gw_context *ctx);
/* Moves this end alone until the counter has gone up. */
void tally_await(struct gw_context *ctx, const struct tally *before, const char *name);
/* Of all counters of thrown-away, landed and late packets exactly `name` (or none, if null) went up, by `by`. */
void tally_assert(const struct gw_context *ctx, const struct tally *before, const char *name,
		  uint64_t by);

/* ---- lost control ---------------------------------------------------------------------------------------------- */

/* Every control datagram that the end sends is shown to `keep` first; what it refuses is lost. Null ends it. */
typedef bool pair_filter_fn(void *arg, const struct control_message *message);
void pair_filter_control(struct pair *pair, int end, pair_filter_fn *keep, void *arg);

#endif
