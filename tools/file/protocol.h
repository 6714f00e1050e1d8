/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a file transfer tell each other, as bytes. Pure functions.
 *
 * At the rendezvous, one message each; the receiver may also refuse there:
 *	sender -> receiver	hello	size, block, mode, lanes, scheme, channel
 *	receiver -> sender	accept	channel
 * The sender chooses scheme and lanes for both: the receiver has at least as many lanes, so that what it reports can avoid
 * a path that fails.
 *
 * Over Godwit, after the blocks of the file, which may be of any length but the trailer's:
 *	sender -> receiver	trailer	size, crc32
 *	receiver -> sender	verdict	status, crc32, a sentence
 *
 * Numbers are big-endian.
 */
#ifndef TOOLS_FILE_PROTOCOL_H
#define TOOLS_FILE_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include <godwit/channel.h>
#include <godwit/rendezvous.h>

enum {
	PROTOCOL_HELLO = 344,
	PROTOCOL_ACCEPT = 320,
	PROTOCOL_TRAILER = 32,
	/* at most: the sentence may be shorter */
	PROTOCOL_VERDICT = 256,
	/* the longest sentence, without its final zero */
	PROTOCOL_TEXT = 240,
};

struct scheme;

enum protocol_kind { PROTOCOL_KIND_HELLO = GW_RENDEZVOUS_KIND_MIN, PROTOCOL_KIND_ACCEPT };

struct protocol_hello {
	uint64_t size;
	uint32_t block;
	/* permission bits */
	uint32_t mode;
	/* source ports that data leaves by: 1 to LANES_MAX */
	uint32_t lanes;
	const struct scheme *scheme;
	struct gw_channel_info channel;
};

struct protocol_trailer {
	uint64_t size;
	uint32_t crc32;
};

struct protocol_verdict {
	/* 0: the file is in its place; else it is not, and `text` says why */
	int32_t status;
	uint32_t crc32;
	char text[PROTOCOL_TEXT + 1];
};

void protocol_encode_hello(const struct protocol_hello *hello, uint8_t out[PROTOCOL_HELLO]);
void protocol_encode_trailer(const struct protocol_trailer *trailer, uint8_t out[PROTOCOL_TRAILER]);
/* Returns the length. */
size_t protocol_encode_verdict(const struct protocol_verdict *verdict,
			       uint8_t out[PROTOCOL_VERDICT]);

/* The size in a hello whose sender reads a pipe. */
#define PROTOCOL_SIZE_UNKNOWN UINT64_MAX

/* Messages that carry a file of this size, the trailer included, at most. No block has the trailer's length: a sender cuts
 * such a block in two, so that a message of that length is the trailer. */
uint64_t protocol_messages(uint64_t size, uint32_t block);

/* -EPROTO: not such a record. */
int protocol_decode_hello(const uint8_t *in, size_t length, struct protocol_hello *out);
int protocol_decode_trailer(const uint8_t *in, size_t length, struct protocol_trailer *out);
int protocol_decode_verdict(const uint8_t *in, size_t length, struct protocol_verdict *out);

#endif
