/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hub_record.h: what the ends of a hub say, as bytes. Pure functions; numbers are big-endian.
 *
 *	record	0 kind 2 | 2 length 2 | 4 number 4 | 8 data
 *
 * A message of the rendezvous has one record or more. "up" is from a rank to rank 0, "down" from rank 0 to a rank.
 */
#ifndef COLLECTIVE_HUB_RECORD_H
#define COLLECTIVE_HUB_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum {
	/* version of this protocol */
	HUB_VERSION = 2,
	HUB_HEADER = 8,
	/* bytes of the data of HUB_JOIN before the settings, and of these at most */
	HUB_JOIN_BYTES = 12,
	HUB_SETTINGS = 96,
	HUB_JOIN_MAX = HUB_HEADER + HUB_JOIN_BYTES + HUB_SETTINGS,
	/* bytes of data, at most */
	HUB_DATA_MAX = 2048,
};

enum hub_record_kind {
	/* up, first: rank | version 4, ranks 4, process 4, settings */
	HUB_JOIN = 1,
	/* down, first: milliseconds for which rank 0 waits for others | process 4 */
	HUB_JOINED,
	/* down: a rank | its address and those of the next ranks, each with a final zero */
	HUB_ADDRESSES,
	/* down: longest round-trip time between rank 0 and another, in us, or 0. All ranks have come. */
	HUB_START,
	/* down: errno | sentence. The meeting has failed. */
	HUB_FAIL,
	/* up: addressee, or MAIL_ALL; down: sender | the letter */
	HUB_LETTER,
	/* down: a rank that is lost | sentence */
	HUB_LOST,
	/* both, last: the sender closes its mail */
	HUB_GOODBYE,
	/* both: number of bytes of records that were read */
	HUB_CREDIT,
	/* down: a rank that has closed its mail */
	HUB_LEFT,
	HUB_KINDS
};

struct hub_record {
	uint16_t kind;
	/* bytes at `data` */
	uint16_t length;
	uint32_t number;
	const uint8_t *data;
};

/* What a rank says when it comes. */
struct hub_record_join {
	uint32_t rank;
	uint32_t version;
	/* number of ranks */
	uint32_t size;
	/* process id */
	uint32_t process;
	/* what all ranks need to have alike, for people to read: one printable line */
	char settings[HUB_SETTINGS + 1];
};

void hub_record_put32(uint8_t *out, uint32_t value);
uint32_t hub_record_get32(const uint8_t *in);

/* Writes a record of HUB_HEADER + length bytes. Returns their number. */
size_t hub_record_encode(const struct hub_record *record, uint8_t *out);

/* Reads the record at the start of `length` bytes; *out points into them. Returns its bytes, or -EPROTO. */
int hub_record_decode(const uint8_t *in, size_t length, struct hub_record *out);

/* Returns the record's bytes. */
size_t hub_record_encode_join(const struct hub_record_join *join, uint8_t out[HUB_JOIN_MAX]);

/* -EPROTO: something else. */
int hub_record_decode_join(const uint8_t *in, size_t length, struct hub_record_join *out);

/* Copies text of another process, as one printable line that ends with a zero. */
void hub_record_text(const struct hub_record *record, char *out, size_t size);

#endif
