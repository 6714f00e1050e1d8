/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes frames. Everything here reads bytes of a stranger. */
#include "frame.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum { MAGIC = 8, SERVICE_AT = 4, LIBRARY_AT = SERVICE_AT + FRAME_SERVICE };

_Static_assert(LIBRARY_AT + FRAME_LIBRARY == FRAME_HELLO, "the hello has no gap");

/* The line break shows up a path that changes line ends. */
static const uint8_t magic[MAGIC] = { FRAME_FIRST_BYTE, 'o', 'd', 'w', 'i', 't', '\r', '\n' };

static bool printable(uint8_t c)
{
	return c >= 0x20 && c < 0x7f;
}

void frame_encode_header(const struct frame_header *header, uint8_t out[FRAME_HEADER])
{
	memcpy(out, magic, MAGIC);
	put_be16(out + 8, header->version);
	put_be16(out + 10, header->kind);
	put_be32(out + 12, header->length);
}

void frame_encode_hello(const struct frame_hello *hello, uint8_t out[FRAME_HELLO])
{
	memset(out, 0, FRAME_HELLO);
	put_be32(out, hello->service_version);
	memcpy(out + SERVICE_AT, hello->service, strnlen(hello->service, FRAME_SERVICE - 1));
	memcpy(out + LIBRARY_AT, hello->library, strnlen(hello->library, FRAME_LIBRARY - 1));
}

int frame_decode(const uint8_t *in, size_t length, struct frame_header *out)
{
	/* A stranger shows itself with its first bytes: it need not send a whole header. */
	if (memcmp(in, magic, length < MAGIC ? length : MAGIC) != 0)
		return -EPROTO;
	if (length < FRAME_HEADER)
		return 0;
	*out = (struct frame_header){
		.version = get_be16(in + 8),
		.kind = get_be16(in + 10),
		.length = get_be32(in + 12),
	};
	if (out->version != FRAME_VERSION)
		return -EPROTONOSUPPORT;
	if (out->length > GW_RENDEZVOUS_MESSAGE_MAX)
		return -EPROTO;
	return length - FRAME_HEADER >= out->length;
}

/* Copies a text that fills its field with zeros to the end. */
static int get_text(const uint8_t *in, size_t size, char *out)
{
	size_t length = strnlen((const char *)in, size);

	if (length == size)
		return -EPROTO;
	for (size_t i = 0; i < size; i++) {
		if (i < length ? !printable(in[i]) : in[i] != 0)
			return -EPROTO;
	}
	memcpy(out, in, size);
	return 0;
}

int frame_decode_hello(const uint8_t *in, size_t length, struct frame_hello *out)
{
	struct frame_hello hello;

	if (length != FRAME_HELLO || get_text(in + SERVICE_AT, FRAME_SERVICE, hello.service) ||
	    get_text(in + LIBRARY_AT, FRAME_LIBRARY, hello.library))
		return -EPROTO;
	hello.service_version = get_be32(in);
	*out = hello;
	return 0;
}

void frame_decode_refusal(const uint8_t *in, size_t length, char *out)
{
	if (length > FRAME_TEXT)
		length = FRAME_TEXT;
	for (size_t i = 0; i < length; i++)
		out[i] = in[i] >= 0x20 && in[i] != 0x7f ? (char)in[i] : '?';
	out[length] = '\0';
}
