/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *	hello	 0 size 8 | 8 block 4 | 12 mode 4 | 16 queue pair 128
 *	trailer	 0 magic 8 | 8 size 8 | 16 crc32 4 | 20 zero 12
 *	verdict	 0 magic 8 | 8 status 4 | 12 crc32 4 | 16 text
 */
#include "protocol.h"

#include <errno.h>
#include <string.h>

#include "tools/bytes.h"
#include "tools/options.h"

enum { MAGIC = 8, VERDICT_TEXT = 16 };

static const uint8_t trailer_magic[MAGIC] = { 'G', 'w', 'T', 'r', 'a', 'i', 'l', 0 };
static const uint8_t verdict_magic[MAGIC] = { 'G', 'w', 'V', 'e', 'r', 'd', 'c', 't' };

void protocol_encode_hello(const struct protocol_hello *hello, uint8_t out[PROTOCOL_HELLO])
{
	put64(out, hello->size);
	put32(out + 8, hello->block);
	put32(out + 12, hello->mode);
	memcpy(out + 16, hello->qp.bytes, sizeof(hello->qp.bytes));
}

int protocol_decode_hello(const uint8_t *in, size_t length, struct protocol_hello *out)
{
	struct protocol_hello hello;

	if (length != PROTOCOL_HELLO)
		return -EPROTO;
	hello.size = get64(in);
	hello.block = get32(in + 8);
	hello.mode = get32(in + 12);
	if (hello.size > INT64_MAX || hello.block < BLOCK_MIN || hello.block > BLOCK_MAX)
		return -EPROTO;
	memcpy(hello.qp.bytes, in + 16, sizeof(hello.qp.bytes));
	*out = hello;
	return 0;
}

void protocol_encode_trailer(const struct protocol_trailer *trailer, uint8_t out[PROTOCOL_TRAILER])
{
	memset(out, 0, PROTOCOL_TRAILER);
	memcpy(out, trailer_magic, MAGIC);
	put64(out + 8, trailer->size);
	put32(out + 16, trailer->crc32);
}

int protocol_decode_trailer(const uint8_t *in, size_t length, struct protocol_trailer *out)
{
	if (length != PROTOCOL_TRAILER || memcmp(in, trailer_magic, MAGIC) != 0)
		return -EPROTO;
	out->size = get64(in + 8);
	out->crc32 = get32(in + 16);
	return 0;
}

size_t protocol_encode_verdict(const struct protocol_verdict *verdict,
			       uint8_t out[PROTOCOL_VERDICT])
{
	size_t length = strnlen(verdict->text, PROTOCOL_TEXT);

	memcpy(out, verdict_magic, MAGIC);
	put32(out + 8, (uint32_t)verdict->status);
	put32(out + 12, verdict->crc32);
	memcpy(out + VERDICT_TEXT, verdict->text, length);
	return VERDICT_TEXT + length;
}

int protocol_decode_verdict(const uint8_t *in, size_t length, struct protocol_verdict *out)
{
	if (length < VERDICT_TEXT || length > PROTOCOL_VERDICT ||
	    memcmp(in, verdict_magic, MAGIC) != 0)
		return -EPROTO;
	out->status = (int32_t)get32(in + 8);
	out->crc32 = get32(in + 12);
	memcpy(out->text, in + VERDICT_TEXT, length - VERDICT_TEXT);
	out->text[length - VERDICT_TEXT] = '\0';
	return 0;
}
