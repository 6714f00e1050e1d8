/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * duo.h: two simulated hosts and a connected queue pair between them, for tests.
 *
 * Data goes from end 0 to end 1, over link 0; what end 1 has to say comes back over link 1. Beside what the links do to
 * packets a test may lose single ones: every control datagram and every data packet is shown to its hooks first. Time is
 * virtual, so that a test can say when a thing must have happened and not only that it did.
 */
#ifndef TESTS_UNIT_RELIABILITY_DUO_H
#define TESTS_UNIT_RELIABILITY_DUO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <godwit/scheme.h>

#include "sim/world.h"
#include "wire/control.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define DUO_PAYLOAD 4096u
#define DUO_WIRE    (DUO_PAYLOAD + 64) /* of a full data packet, as the simulator counts */

struct duo;

/* Each returns true when the thing is to be lost. */
typedef bool duo_control_hook(struct duo *duo, int end, const struct control_message *message,
			      const void *bytes);
typedef bool duo_data_hook(struct duo *duo, uint32_t packet, bool again);

/* What becomes of a datagram or data packet that the hooks above let pass. */
enum duo_fate {
	DUO_DELIVERED,
	DUO_LOST,
	DUO_TWICE,
	/* Sent after the next datagram or packet of the same end, whenever that leaves. */
	DUO_SWAPPED,
};
typedef enum duo_fate duo_fate_hook(struct duo *duo, int end, bool control, size_t length);

struct duo_held;

struct duo {
	struct world world;
	struct gw_context *ctx[2];
	struct gw_qp *qp[2];
	struct gw_mr *mr[2];
	uint8_t *memory[2];
	size_t memory_bytes;
	duo_control_hook *lose_control;
	duo_data_hook *lose_data;
	duo_fate_hook *fate;
	/* Swapped datagram or packet of each end that waits for the next one; null: none. */
	struct duo_held *held[2];
	/* The bytes of the data packet that is shown. */
	const uint8_t *writing;
	void (*each_step)(struct duo *duo);
	void *arg;
	/* Of transfers; null: Selective Repeat. */
	const struct gw_scheme *scheme;
	/* Of each end's. */
	const void *options[2];
	/* By the links. */
	uint64_t data_lost;
	unsigned gone[2];
	int gone_status[2];
	uint64_t gone_at[2];
	/* The simulator's, with the hooks before them. */
	struct fabric_ops ops;
	const struct fabric_ops *real;
};

/* Zero is the default everywhere. */
struct duo_attr {
	/* Both ways. */
	struct link_attr link;
	struct sim_host_attr host;
	/* What befalls packets on each of host.lanes; null: nothing. */
	const struct link_attr *lanes;
	struct gw_qp_attr qp;
	/* As in struct sim_attr. */
	uint32_t path_payload;
	uint32_t rungs[FABRIC_RUNGS];
	uint64_t seed;
	/* Of each end; 1 MB. */
	size_t memory_bytes;
	/* As in struct gw_context_attr. */
	uint64_t bitmap_bytes;
	/* The clock at the beginning; a second. */
	uint64_t start_ns;
};

void duo_open(struct duo *duo, const struct duo_attr *attr);
/* Also asserts that neither end was told anything that an honest peer cannot say. */
void duo_close(struct duo *duo);

uint64_t duo_now(const struct duo *duo);
/* Lets so much time pass. */
void duo_run(struct duo *duo, uint64_t ns);
/* To the next moment at which something happens; false when that is after `limit_ns`. */
bool duo_step(struct duo *duo, uint64_t limit_ns);

#define duo_until(duo, ns, condition)                                                              \
	do {                                                                                       \
		uint64_t duo_limit_ = duo_now(duo) + (ns);                                         \
		while (!(condition))                                                               \
			if (!duo_step(duo, duo_limit_)) {                                          \
				print_error("%s:%d: never came true: %s\n", __FILE__, __LINE__,    \
					    #condition);                                           \
				fail();                                                            \
			}                                                                          \
	} while (0)

struct link *duo_link(struct duo *duo, int from);
uint64_t duo_counter(const struct duo *duo, int end, const char *name);
struct gw_estimate duo_estimate(const struct duo *duo, int end);
/* Sends what is held back for a swap, at either end. */
void duo_release(struct duo *duo);
/* Past the hooks. */
void duo_say(struct duo *duo, int end, const void *bytes, size_t length);

/* Without a scheme: a receive at end 1 that nobody completes, a stream from end 0, and its first packets. */
struct gw_recv *duo_recv(struct duo *duo, uint64_t length);
struct gw_send *duo_stream(struct duo *duo, uint64_t length);
void duo_put(struct duo *duo, struct gw_send *stream, uint32_t packets);

/* A message under a scheme, from the start of one memory to the start of the other. */
struct duo_transfer {
	struct duo *duo;
	struct gw_send *send;
	struct gw_recv *recv;
	uint64_t length;
	/* Times the end was told. */
	unsigned sent, received;
	int sent_status, received_status;
	uint64_t sent_at, received_at;
};

void duo_start(struct duo *duo, uint64_t length, struct duo_transfer *transfer);
/* Waits for both ends, lets things settle, and asserts that each was told once, that all is well and every byte is
 * there. */
void duo_finish(struct duo_transfer *transfer, uint64_t ns);

#endif
