/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrinking.h: two ends on a path that can shrink, with hooks that lose control or data and keep what was said. The sizes do not
 * divide each other, so that packets of two sizes overlap.
 */
#ifndef TESTS_MESSAGE_SHRINKING_H
#define TESTS_MESSAGE_SHRINKING_H

#include "../reliability/duo.h"

#include "message/state.h"

#define FLOOR	 700u
#define SHRUNK	 1000u
#define LENGTH	 300001u
#define LIMIT	 (20 * S)
#define DATAGRAM 8192

struct said {
	struct control_message message;
	uint8_t bytes[DATAGRAM];
	size_t length;
};

/* What the hooks lose, and the last control message of each type that each end sent. */
struct tap {
	/* One bit for each type of control, for each end. */
	uint32_t types[2];
	bool data;
	/* One past the highest data packet that was sent. */
	uint32_t sent;
	struct said last[2][CONTROL_DATA + 1];
};
extern struct tap tap;

struct duo_attr path(void);
void carry(struct duo *duo, uint64_t length);

/* Opens the path. A message has passed, and the largest packets are in use. */
void open_tapped(struct duo *duo, const struct duo_attr *attr);

/* Says once more what an end said before. */
void say(struct duo *duo, int end, const struct said *said);

/* Writes a request for smaller grants that end 0 did not make; returns its length. */
size_t forge_cut(const struct duo *duo, uint32_t msn, uint8_t *bytes);

/* Has end 1 grant a message in packets of this size. */
void say_grant(struct duo *duo, uint32_t msn, uint32_t payload);

/* Size of the packets that a send was granted; 0: not granted. */
uint32_t payload_of(const struct gw_send *send);

#endif
