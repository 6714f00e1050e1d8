/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.h: what travels in a pack. A pack is a message on the small queue pair: records one after another, each a
 * header of 16 bytes, big-endian, and for DATA the bytes of a small send:
 *
 *	u32 seq | u8 kind | u8 flags (bit 0: crc) | u16 status (an errno), or label of DATA | u32 length | u32 crc
 *
 * Each names an operation by its number. DATA, CRC, ENDED and ASK come from the sender of that operation, REFUSED and
 * TAKEN from its receiver, so that the two directions' numbers are never confused. Pure functions.
 */
#ifndef CHANNEL_RECORD_H
#define CHANNEL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_kind {
	RECORD_DATA = 1, /* a small send */
	RECORD_CRC,	 /* of a large send */
	RECORD_ENDED,	 /* this send will not come (whole), because of `status` */
	RECORD_ASK,	 /* no buffer for this large send has been granted: will there be one? */
	RECORD_REFUSED,	 /* the receive did not take it, because of `status` */
	RECORD_TAKEN,	 /* the receive has it, though others of its pack wait for theirs */
};

#define RECORD_HEADER	 16
#define RECORD_CRC_GIVEN 1u

struct record {
	uint32_t seq;
	uint8_t kind;
	uint8_t flags;
	/* not of DATA */
	uint16_t status;
	/* of DATA */
	uint16_t label;
	/* bytes of data that follow; with ASK, bytes of the message, none of which follow */
	uint32_t length;
	uint32_t crc;
	const uint8_t *data;
};

/* Writes header and data, for which there must be room; returns their length. */
size_t record_put(uint8_t *out, const struct record *record);

/*
 * Takes the next one from a pack and moves *offset past it. 1, 0 at the end, or -EBADMSG when it does not fit what is
 * left, is of no known kind, or says that it failed and not why.
 */
int record_next(const uint8_t *pack, size_t size, size_t *offset, struct record *out);

#endif
