/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * erasure_state.h: what the two ends of the erasure scheme share: the memory a transfer is given, and what they say.
 *
 * A transfer's state lives here and not in the request: two requests work on it, and it outlives whichever ends first.
 */
#ifndef RELIABILITY_ERASURE_STATE_H
#define RELIABILITY_ERASURE_STATE_H

#include <stdbool.h>

#include <godwit/erasure.h>

#include "coding/reed_solomon.h"
#include "constants/protocol.h"
#include "reliability/erasure_layout.h"
#include "plan/plan.h"

#define ERASURE_SCHEME_ID 2
#define AUTO_SCHEME_ID	  4

/* The sender says that it has sent everything. */
#define ERASURE_TAIL_PROBE 1
/* The receiver asks for parity: this byte, its round, and entries of a group, its first row, and how many. Rows are named
 * and not counted, so that a request heard twice is the same request. Under XOR it is data symbols of the group that an
 * entry names: the first of them, and how many. */
#define ERASURE_REPAIR	     2
#define ERASURE_REPAIR_HEAD  5u
#define ERASURE_REPAIR_ENTRY 6u

/* The first word of the announcement's geometry: k, m, rows and code, a byte each; zero is Selective Repeat. Rows are 0 under
 * XOR: there are no more than m, and an end that knows no codes takes that for a group it cannot decode. */
#define ERASURE_GEOMETRY_M    8
#define ERASURE_GEOMETRY_ROWS 16
#define ERASURE_GEOMETRY_CODE 24

#define ERASURE_ROWS_LIMIT 254u /* a byte counts them, and says one more */

struct erasure_sending {
	/* The data's request; null: no transfer. */
	struct gw_send *data;
	struct gw_send *parity;
	/* The stripe to be encoded next. */
	uint32_t stripe;
	/* The last round that was answered. */
	uint32_t round;
	/* Tail probes in a row without an answer. */
	uint32_t silent;
	/* Status with which the data ended. */
	int status;
	bool asked;
	/* The layout is known. */
	bool cut;
	/* Parity of packets as large as these can be made. */
	bool codes;
	/* Parity may be put. */
	bool open;
	/* Puts of data wait to be sent. */
	bool data_waiting;
	/* Puts of parity wait to be sent. */
	bool parity_waiting;
	/* The data has ended. */
	bool ended;
	/* Under gw_auto: Selective Repeat was chosen, and the parity message is empty. */
	bool repeats;
};

struct erasure_receiving {
	struct gw_recv *data;
	struct gw_recv *parity;
	/* Stripes below this are whole. */
	uint32_t stripe;
	/* Parity packets below this were sent, or never will be, in the first pass. */
	uint32_t passed;
	/* Stripes below this will not mend by themselves. */
	uint32_t provable;
	/* Packets landed when last looked at. */
	uint32_t landed;
	uint32_t round;
	/* Rounds in a row that brought nothing. */
	uint32_t quiet;
	/* Entries that a request may have. */
	uint32_t entries_max;
	int status;
	/* Time at which something was last asked for, in ns. */
	uint64_t asked_ns;
	bool cut;
	/* Both ends code alike. */
	bool codes;
	/* Packets became smaller under way: nothing is decoded. */
	bool recut;
	bool tail;
	bool ended;
	/* As at the sender, which announced it. */
	bool repeats;
};

/* What was chosen for messages of about one size, and on what sort of path. */
struct erasure_choice {
	struct plan_params params;
	double rtt_ns;
	double rate_bps;
	double loss;
	double burst;
	double overtaken_ns;
	double open;
	/* Time up to which the questions that may be asked are used up, in ns. */
	uint64_t spent;
	bool made;
	/* Selective Repeat was among what there was to choose from. */
	bool repeat;
};
#define ERASURE_CHOICES 32 /* by the number of packets, in powers of two */

/* What all members of a struct gw_erasure share. */
struct erasure_shared {
	struct gw_mr *mr;
	struct rs *rs;
	/* Memory for parity, and rows asked for, of all members. */
	uint8_t *scratch;
	size_t scratch_bytes;
	uint8_t *next_row;
	struct erasure_choice choices[ERASURE_CHOICES];
	/* Messages that are open, this one included; rises slowly. */
	double open;
	/* Index of the latest choice. */
	uint32_t latest;
	/* Path and message size that the latest choice was made for. */
	struct plan_path path;
	uint64_t path_size;
};

struct gw_erasure {
	struct erasure_shared *shared;
	uint8_t *scratch;
	uint64_t scratch_bytes;
	/* Longest parity message of the current transfer, in bytes: the memory, or less if the queue pair's immediate cannot
	 * count as many of the smallest packets. The receiver posts this, and the sender announces no more than its own. */
	uint64_t parity_most;
	struct gw_erasure_attr attr;
	/* Largest k and m of the coder. */
	uint32_t k_max;
	uint32_t m_max;
	/* Layout of the message that is sent; m = 0: Selective Repeat. */
	struct erasure_layout layout;
	struct erasure_sending sending;
	struct erasure_receiving receiving;
	uint32_t groups_max;
	/* Of each group: the first row that was not asked for; rows + 1 when it is whole. Under XOR m until it asked, then 0. */
	uint8_t *next_row;
};

static inline uint64_t erasure_backed_off(uint64_t patience_ns, uint32_t times)
{
	return patience_ns << (times < BACKOFF_LIMIT ? times : BACKOFF_LIMIT);
}

/* The memory of a transfer, at either end: its options, which its caller keeps. */
static inline struct gw_erasure *erasure_of_send(struct gw_send *send)
{
	const struct gw_transfer *transfer = gw_send_state(send);

	return (struct gw_erasure *)(uintptr_t)transfer->options;
}

static inline struct gw_erasure *erasure_of_recv(struct gw_recv *recv)
{
	const struct gw_transfer *transfer = gw_recv_state(recv);

	return (struct gw_erasure *)(uintptr_t)transfer->options;
}

/* Whether the transfer goes on that this memory was last given to. A handle may have been closed before its end, without
 * a word, and be another's by now. */
static inline bool erasure_sends(const struct gw_erasure *e)
{
	const struct gw_transfer *transfer =
		e->sending.data ? gw_send_state(e->sending.data) : NULL;

	return transfer && transfer->options == e;
}

static inline bool erasure_receives(const struct gw_erasure *e)
{
	const struct gw_transfer *transfer =
		e->receiving.data ? gw_recv_state(e->receiving.data) : NULL;

	return transfer && transfer->options == e;
}

/* erasure.c, for the tables of both schemes: checks, and sets e->layout as far as it does not depend on the packets. */
int erasure_prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, bool repeat,
		    uint32_t geometry[2]);

/* erasure_choose.c: the scheme and code for a message of this length. `repeat`: it may be Selective Repeat. */
void erasure_pick(struct gw_erasure *e, struct gw_qp *qp, uint64_t length, bool repeat,
		  struct plan_params *params);
/* k, m, rows and depth of a message, in e->layout. */
void erasure_choose(struct gw_erasure *e, struct gw_qp *qp, uint64_t length, bool repeat);

/* erasure_mend.c: rebuilds what can be rebuilt of a group. Returns how many packets it lacks; under XOR wanted[] names the
 * data symbols. */
uint32_t erasure_mend(struct gw_erasure *e, uint32_t group, uint8_t wanted[RS_SYMBOLS_MAX]);

/* erasure_send.c, for the table */
void erasure_send_begin(struct gw_send *send, uint64_t now);
void erasure_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now);
void erasure_drained(struct gw_send *send, void *arg, uint64_t now);
void erasure_repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now);
void erasure_repair(struct gw_send *send, void *arg, const void *data, size_t length, uint64_t now);
void erasure_send_timer(struct gw_send *send, void *arg, uint64_t now);
void erasure_result(struct gw_send *send, void *arg, const struct gw_result *result, uint64_t now);
void erasure_sent(struct gw_send *send, void *arg, int status, uint64_t now);
void erasure_recut(struct gw_send *send, void *arg, uint64_t now);

/* erasure_recv.c, likewise */
void erasure_recv_begin(struct gw_recv *recv, uint64_t now);
void erasure_look(struct gw_recv *recv, void *arg, uint64_t now);
void erasure_asked(struct gw_recv *recv, void *arg, const void *data, size_t length, uint64_t now);
void erasure_recv_timer(struct gw_recv *recv, void *arg, uint64_t now);
void erasure_received(struct gw_recv *recv, void *arg, int status, uint64_t now);
void erasure_recv_recut(struct gw_recv *recv, void *arg, uint64_t now);

/* clang-format off */
#define ERASURE_SEND_HANDLER { \
	.granted = erasure_granted, \
	.drained = erasure_drained, \
	.nack = erasure_repeat, \
	.control = erasure_repair, \
	.timer = erasure_send_timer, \
	.result = erasure_result, \
	.done = erasure_sent, \
	.recut = erasure_recut, \
}
/* `when_announced` is the scheme's own. */
#define ERASURE_RECV_HANDLER(when_announced) { \
	.announced = when_announced, \
	.progress = erasure_look, \
	.control = erasure_asked, \
	.timer = erasure_recv_timer, \
	.released = erasure_received, \
	.recut = erasure_recv_recut, \
}
/* clang-format on */

#endif
