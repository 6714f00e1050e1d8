/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a file transfer tell each other, as bytes. Pure functions.
 *
 * Over TCP, before anything else, each a header and a body:
 *	sender -> receiver	hello	size, block, mode, queue pair
 *	receiver -> sender	accept	queue pair
 *			     or	refuse	a sentence
 * Over Godwit, after the blocks of the file:
 *	sender -> receiver	trailer	size, crc32
 *	receiver -> sender	verdict	status, crc32, a sentence
 *
 * Numbers are big-endian. The header comes first and never changes, so that versions can tell each
 * other apart.
 */
#ifndef TOOLS_FILE_PROTOCOL_H
#define TOOLS_FILE_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include <godwit/message.h>

#define PROTOCOL_VERSION 1

enum {
	PROTOCOL_HEADER = 16,
	PROTOCOL_HELLO = 144,
	PROTOCOL_ACCEPT = 128,
	PROTOCOL_TRAILER = 32,
	PROTOCOL_VERDICT = 256, /* at most; the sentence may be shorter */
	PROTOCOL_TEXT = 240,	/* the longest sentence, without its final zero */
	PROTOCOL_BODY_MAX = 512,
};

enum protocol_kind {
	PROTOCOL_KIND_HELLO = 1,
	PROTOCOL_KIND_ACCEPT = 2,
	PROTOCOL_KIND_REFUSE = 3,
	/* of `godwit perf`: control.h */
	PROTOCOL_KIND_PERF_PLAN = 16,
	PROTOCOL_KIND_PERF_QP = 17,
	PROTOCOL_KIND_PERF_READY = 18,
	PROTOCOL_KIND_PERF_GO = 19,
	PROTOCOL_KIND_PERF_COUNTER = 20,
	PROTOCOL_KIND_PERF_RESULT = 21,
	PROTOCOL_KIND_PERF_END = 22,
	PROTOCOL_KIND_PERF_SENT = 23,
	/* of `godwit qualify`: qualify/records.h */
	PROTOCOL_KIND_QUALIFY_HELLO = 32,
	PROTOCOL_KIND_QUALIFY_TEXT = 33,
	PROTOCOL_KIND_QUALIFY_READY = 34,
	PROTOCOL_KIND_QUALIFY_CASE = 35,
	PROTOCOL_KIND_QUALIFY_QP = 36,
	PROTOCOL_KIND_QUALIFY_RESULT = 37,
	PROTOCOL_KIND_QUALIFY_END = 38,
};

struct protocol_header {
	uint16_t version;
	uint16_t kind;
	uint32_t length; /* of the body */
};

struct protocol_hello {
	uint64_t size;
	uint32_t block;
	uint32_t mode; /* the permission bits */
	struct gw_qp_info qp;
};

struct protocol_trailer {
	uint64_t size;
	uint32_t crc32;
};

struct protocol_verdict {
	int32_t status; /* 0: the file is in its place. Else it is not, and `text` says why. */
	uint32_t crc32;
	char text[PROTOCOL_TEXT + 1];
};

void protocol_encode_header(const struct protocol_header *header, uint8_t out[PROTOCOL_HEADER]);
void protocol_encode_hello(const struct protocol_hello *hello, uint8_t out[PROTOCOL_HELLO]);
void protocol_encode_trailer(const struct protocol_trailer *trailer, uint8_t out[PROTOCOL_TRAILER]);
/* Returns the length. */
size_t protocol_encode_verdict(const struct protocol_verdict *verdict,
			       uint8_t out[PROTOCOL_VERDICT]);

/*
 * -EPROTO  not such a record
 * A header of another version is decoded, for its reader to say so.
 */
int protocol_decode_header(const uint8_t in[PROTOCOL_HEADER], struct protocol_header *out);
int protocol_decode_hello(const uint8_t *in, size_t length, struct protocol_hello *out);
int protocol_decode_trailer(const uint8_t *in, size_t length, struct protocol_trailer *out);
int protocol_decode_verdict(const uint8_t *in, size_t length, struct protocol_verdict *out);

#endif
