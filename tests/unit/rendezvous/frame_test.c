/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames and hellos: what was encoded is decoded, and everything else is refused as early as it shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "rendezvous/frame.h"

static void header_there_and_back(void **state)
{
	struct frame_header in = { FRAME_VERSION, 77, 5 }, out;
	uint8_t bytes[FRAME_HEADER + 5] = { 0 };

	(void)state;
	frame_encode_header(&in, bytes);
	for (size_t have = 0; have < sizeof(bytes); have++)
		assert_int_equal(frame_decode(bytes, have, &out), 0);
	assert_int_equal(frame_decode(bytes, sizeof(bytes), &out), 1);
	assert_int_equal(out.kind, 77);
	assert_int_equal(out.length, 5);
}

static void not_a_frame(void **state)
{
	struct frame_header header = { FRAME_VERSION, 77, GW_RENDEZVOUS_MESSAGE_MAX + 1 }, out;
	uint8_t bytes[FRAME_HEADER];

	(void)state;
	assert_int_equal(frame_decode((const uint8_t *)"S", 1, &out), -EPROTO);
	assert_int_equal(frame_decode((const uint8_t *)"GET", 3, &out), -EPROTO);
	frame_encode_header(&header, bytes);
	assert_int_equal(frame_decode(bytes, sizeof(bytes), &out), -EPROTO);
	header.length = 0;
	header.version = FRAME_VERSION + 1;
	frame_encode_header(&header, bytes);
	assert_int_equal(frame_decode(bytes, sizeof(bytes), &out), -EPROTONOSUPPORT);
	assert_int_equal(out.version, FRAME_VERSION + 1);
}

static void hello_there_and_back(void **state)
{
	struct frame_hello in = { .service_version = 0x01020304 }, out;
	uint8_t bytes[FRAME_HELLO];

	(void)state;
	memset(in.service, 'x', sizeof(in.service) - 1);
	memcpy(in.library, "0.1.0", 6);
	frame_encode_hello(&in, bytes);
	assert_int_equal(frame_decode_hello(bytes, sizeof(bytes), &out), 0);
	assert_int_equal(out.service_version, in.service_version);
	assert_string_equal(out.service, in.service);
	assert_string_equal(out.library, "0.1.0");
}

static void not_a_hello(void **state)
{
	struct frame_hello in = { .service = "a", .library = "b" }, out;
	uint8_t good[FRAME_HELLO], bytes[FRAME_HELLO];

	(void)state;
	frame_encode_hello(&in, good);
	assert_int_equal(frame_decode_hello(good, FRAME_HELLO - 1, &out), -EPROTO);
	memcpy(bytes, good, sizeof(bytes));
	bytes[4] = '\n';
	assert_int_equal(frame_decode_hello(bytes, sizeof(bytes), &out), -EPROTO);
	/* Something behind the final zero. */
	memcpy(bytes, good, sizeof(bytes));
	bytes[7] = 'c';
	assert_int_equal(frame_decode_hello(bytes, sizeof(bytes), &out), -EPROTO);
	/* No final zero. */
	memcpy(bytes, good, sizeof(bytes));
	memset(bytes + 4, 'c', FRAME_SERVICE);
	assert_int_equal(frame_decode_hello(bytes, sizeof(bytes), &out), -EPROTO);
	memcpy(bytes, good, sizeof(bytes));
	memset(bytes + 4 + FRAME_SERVICE, 'c', FRAME_LIBRARY);
	assert_int_equal(frame_decode_hello(bytes, sizeof(bytes), &out), -EPROTO);
}

static void refusal_is_one_printable_line(void **state)
{
	uint8_t long_text[FRAME_TEXT + 100];
	char out[FRAME_TEXT + 1];

	(void)state;
	frame_decode_refusal((const uint8_t *)"no\n\x1b[2Jroom", 10, out);
	assert_string_equal(out, "no??[2Jroo");
	memset(long_text, 'x', sizeof(long_text));
	frame_decode_refusal(long_text, sizeof(long_text), out);
	assert_int_equal(strlen(out), FRAME_TEXT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_there_and_back),	 cmocka_unit_test(not_a_frame),
		cmocka_unit_test(hello_there_and_back),		 cmocka_unit_test(not_a_hello),
		cmocka_unit_test(refusal_is_one_printable_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
