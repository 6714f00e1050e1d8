/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *	hello	 0 size 8 | 8 block 4 | 12 mode 4 | 16 lanes 1 | 17 scheme 1 | 18 zero 6 | 24 channel 320
 *	trailer	 0 magic 8 | 8 size 8 | 16 crc32 4 | 20 zero 12
 *	verdict	 0 magic 8 | 8 status 4 | 12 crc32 4 | 16 text
 */
#include "protocol.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "tools/options.h"
#include "tools/scheme.h"
#include "tools/session.h"

enum { MAGIC = 8, VERDICT_TEXT = 16, HELLO_CHANNEL = 24 };

_Static_assert(HELLO_CHANNEL + sizeof(struct gw_channel_info) == PROTOCOL_HELLO, "a hello");
_Static_assert(sizeof(struct gw_channel_info) == PROTOCOL_ACCEPT, "an answer");

static const uint8_t trailer_magic[MAGIC] = { 'G', 'w', 'T', 'r', 'a', 'i', 'l', 0 };
static const uint8_t verdict_magic[MAGIC] = { 'G', 'w', 'V', 'e', 'r', 'd', 'c', 't' };

void protocol_encode_hello(const struct protocol_hello *hello, uint8_t out[PROTOCOL_HELLO])
{
	memset(out, 0, PROTOCOL_HELLO);
	put_be64(out, hello->size);
	put_be32(out + 8, hello->block);
	put_be32(out + 12, hello->mode);
	out[16] = (uint8_t)hello->lanes;
	out[17] = hello->scheme->library->id;
	memcpy(out + HELLO_CHANNEL, hello->channel.bytes, sizeof(hello->channel.bytes));
}

int protocol_decode_hello(const uint8_t *in, size_t length, struct protocol_hello *out)
{
	struct protocol_hello hello;

	if (length != PROTOCOL_HELLO)
		return -EPROTO;
	hello.size = get_be64(in);
	hello.block = get_be32(in + 8);
	hello.mode = get_be32(in + 12);
	hello.lanes = in[16];
	hello.scheme = scheme_by_id(in[17]);
	if ((hello.size > INT64_MAX && hello.size != PROTOCOL_SIZE_UNKNOWN) ||
	    hello.block < BLOCK_MIN || hello.block > BLOCK_MAX || hello.lanes < 1 ||
	    hello.lanes > LANES_MAX || !hello.scheme)
		return -EPROTO;
	memcpy(hello.channel.bytes, in + HELLO_CHANNEL, sizeof(hello.channel.bytes));
	*out = hello;
	return 0;
}

uint64_t protocol_messages(uint64_t size, uint32_t block)
{
	if (size == PROTOCOL_SIZE_UNKNOWN)
		return UINT64_MAX;
	return session_blocks(size, block) + 1 + (size % block == PROTOCOL_TRAILER);
}

void protocol_encode_trailer(const struct protocol_trailer *trailer, uint8_t out[PROTOCOL_TRAILER])
{
	memset(out, 0, PROTOCOL_TRAILER);
	memcpy(out, trailer_magic, MAGIC);
	put_be64(out + 8, trailer->size);
	put_be32(out + 16, trailer->crc32);
}

int protocol_decode_trailer(const uint8_t *in, size_t length, struct protocol_trailer *out)
{
	if (length != PROTOCOL_TRAILER || memcmp(in, trailer_magic, MAGIC) != 0)
		return -EPROTO;
	out->size = get_be64(in + 8);
	out->crc32 = get_be32(in + 16);
	return 0;
}

size_t protocol_encode_verdict(const struct protocol_verdict *verdict,
			       uint8_t out[PROTOCOL_VERDICT])
{
	size_t length = strnlen(verdict->text, PROTOCOL_TEXT);

	memcpy(out, verdict_magic, MAGIC);
	put_be32(out + 8, (uint32_t)verdict->status);
	put_be32(out + 12, verdict->crc32);
	memcpy(out + VERDICT_TEXT, verdict->text, length);
	return VERDICT_TEXT + length;
}

int protocol_decode_verdict(const uint8_t *in, size_t length, struct protocol_verdict *out)
{
	if (length < VERDICT_TEXT || length > PROTOCOL_VERDICT ||
	    memcmp(in, verdict_magic, MAGIC) != 0)
		return -EPROTO;
	out->status = (int32_t)get_be32(in + 8);
	out->crc32 = get_be32(in + 12);
	memcpy(out->text, in + VERDICT_TEXT, length - VERDICT_TEXT);
	out->text[length - VERDICT_TEXT] = '\0';
	return 0;
}
