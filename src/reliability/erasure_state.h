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
#include "erasure_layout.h"

#define ERASURE_SCHEME_ID 2

/* The sender says that it has sent everything. */
#define ERASURE_TAIL_PROBE 1
/* The receiver asks for parity: this byte, its round, and entries of a group, its first row, and how many. Rows are named
 * and not counted, so that a request heard twice is the same request. */
#define ERASURE_REPAIR	     2
#define ERASURE_REPAIR_HEAD  5u
#define ERASURE_REPAIR_ENTRY 6u

#define ERASURE_BACKOFF_LIMIT 6

/* The head of a request's own memory. */
struct erasure_request {
	struct gw_transfer transfer;
	struct gw_erasure *erasure;
};

struct erasure_sending {
	struct gw_send *data; /* null: no transfer */
	struct gw_send *parity;
	uint32_t stripe; /* the next to be encoded */
	uint32_t round;	 /* the last one answered */
	uint32_t silent; /* tail probes in a row without an answer */
	int status;	 /* of the data's end */
	bool asked;
	bool cut;	     /* the layout is known */
	bool open;	     /* parity may be put */
	bool data_waiting;   /* puts wait to be sent */
	bool parity_waiting; /* likewise */
	bool ended;	     /* the data's */
};

struct erasure_receiving {
	struct gw_recv *data;
	struct gw_recv *parity;
	uint32_t stripe; /* all below are whole */
	uint32_t
		passed; /* parity packets below this were sent, or never will be, in the first pass */
	uint32_t provable; /* stripes below this will not mend by themselves */
	uint32_t landed;   /* when last looked at */
	uint32_t round;
	uint32_t quiet; /* rounds in a row that brought nothing */
	int status;
	uint64_t asked_ns; /* when something was last asked for */
	bool cut;
	bool codes; /* both ends code alike */
	bool tail;
	bool ended;
};

struct gw_erasure {
	struct gw_mr *mr;
	struct rs *rs;
	uint8_t *scratch;
	uint64_t scratch_bytes;
	struct gw_erasure_attr attr;
	struct erasure_layout layout;
	struct erasure_sending sending;
	struct erasure_receiving receiving;
	uint32_t groups_max;
	uint8_t *
		next_row; /* of each group: the first that was not asked for; rows + 1 when it is whole */
};

static inline uint64_t erasure_backed_off(uint64_t patience_ns, uint32_t times)
{
	return patience_ns << (times < ERASURE_BACKOFF_LIMIT ? times : ERASURE_BACKOFF_LIMIT);
}

/* erasure_send.c, for the table */
void erasure_send_begin(struct gw_send *send, uint64_t now);
void erasure_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now);
void erasure_drained(struct gw_send *send, void *arg, uint64_t now);
void erasure_repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now);
void erasure_repair(struct gw_send *send, void *arg, const void *data, size_t length, uint64_t now);
void erasure_send_timer(struct gw_send *send, void *arg, uint64_t now);
void erasure_result(struct gw_send *send, void *arg, const struct gw_result *result, uint64_t now);
void erasure_sent(struct gw_send *send, void *arg, int status, uint64_t now);

/* erasure_recv.c, likewise */
void erasure_recv_begin(struct gw_recv *recv, uint64_t now);
void erasure_look(struct gw_recv *recv, void *arg, uint64_t now);
void erasure_asked(struct gw_recv *recv, void *arg, const void *data, size_t length, uint64_t now);
void erasure_recv_timer(struct gw_recv *recv, void *arg, uint64_t now);
void erasure_received(struct gw_recv *recv, void *arg, int status, uint64_t now);

#endif
