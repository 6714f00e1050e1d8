/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rendezvous sends, as bytes. Pure functions; numbers are big-endian.
 *
 *	frame	 0 magic 8 | 8 version 2 | 10 kind 2 | 12 length 4 | 16 body
 *	hello	 0 service version 4 | 4 service 32 | 36 library version 28
 *	welcome	 the same, of the listening end
 *	refuse	 a sentence, without a final zero
 *
 * The frame's header never changes, so that versions can tell each other apart.
 */
#ifndef GODWIT_RENDEZVOUS_FRAME_H
#define GODWIT_RENDEZVOUS_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <godwit/rendezvous.h>

#define FRAME_VERSION 2u

enum {
	FRAME_HEADER = 16,
	FRAME_HELLO = 64,
	FRAME_TEXT = 240,
	FRAME_SERVICE = GW_RENDEZVOUS_SERVICE_MAX + 1,
	FRAME_LIBRARY = 28,
	FRAME_MAX = FRAME_HEADER + GW_RENDEZVOUS_MESSAGE_MAX,
};

/* First byte of every frame; a TLS handshake begins with another. */
#define FRAME_FIRST_BYTE 'G'

enum frame_kind {
	FRAME_KIND_HELLO = 1,
	FRAME_KIND_WELCOME = 2,
	FRAME_KIND_REFUSE = 3,
	FRAME_KIND_DESCRIPTION = GW_RENDEZVOUS_DESCRIPTION,
};

struct frame_header {
	uint16_t version;
	uint16_t kind;
	/* bytes in the body */
	uint32_t length;
};

struct frame_hello {
	uint32_t service_version;
	char service[FRAME_SERVICE];
	char library[FRAME_LIBRARY];
};

void frame_encode_header(const struct frame_header *header, uint8_t out[FRAME_HEADER]);
void frame_encode_hello(const struct frame_hello *hello, uint8_t out[FRAME_HELLO]);

/*
 * Looks at the `length` bytes that have come so far.
 * 1                 *out is set, and the whole body is there
 * 0                 more bytes are needed
 * -EPROTO           not a frame, or one whose body is longer than a message may be
 * -EPROTONOSUPPORT  a frame of another version, which *out tells
 */
int frame_decode(const uint8_t *in, size_t length, struct frame_header *out);

/* -EPROTO: not a hello. The texts in *out are printable and end with a zero. */
int frame_decode_hello(const uint8_t *in, size_t length, struct frame_hello *out);

/* A refusal's sentence, as one printable line. `out` has room for FRAME_TEXT + 1. */
void frame_decode_refusal(const uint8_t *in, size_t length, char *out);

#endif
