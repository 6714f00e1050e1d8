/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that are not what a listener waits for: each costs one place for a while, and nobody else anything. */
#include "duo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/frame.h"

static size_t frame(uint8_t *out, uint16_t version, uint16_t kind, uint32_t length,
		    const char *service)
{
	struct frame_header header = { version, kind, length };
	struct frame_hello hello = { .library = "x" };

	frame_encode_header(&header, out);
	snprintf(hello.service, sizeof(hello.service), "%s", service);
	frame_encode_hello(&hello, out + FRAME_HEADER);
	return FRAME_HEADER + FRAME_HELLO;
}

/* More idle connections than there are places, and one that is right: it does not wait for them. */
static void idle_crowd(void **state)
{
	int strangers[80];
	uint64_t began;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo.listening.timeout_ns = 1000 * MS;
	duo_listen(&duo);
	for (int i = 0; i < 80; i++) {
		strangers[i] = duo_stranger(&duo, "", 0);
		duo_serve(&duo, 1000, MS);
	}
	assert_int_equal(duo.ignored, 80 - 64);
	began = duo_now();
	duo_meet(&duo, "here I am");
	assert_non_null(duo.server);
	assert_true(duo_now() - began < 500 * MS);
	/* All of them are gone after the listener's timeout. */
	duo_serve(&duo, 80, 5000 * MS);
	assert_int_equal(duo.ignored, 80);
	assert_true(duo_now() - began < 3000 * MS);
	assert_string_equal(duo.ignored_why, "it did not say who it is");
	for (int i = 0; i < 80; i++)
		close(strangers[i]);
	duo_close(&duo);
}

/* One that sends a byte now and then is not heard for ever. */
static void slow_drip(void **state)
{
	uint8_t bytes[FRAME_HEADER + FRAME_HELLO];
	uint64_t began = duo_now();
	struct duo duo;
	int stranger;

	(void)state;
	frame(bytes, FRAME_VERSION, FRAME_KIND_HELLO, FRAME_HELLO, "test client");
	duo_prepare(&duo);
	duo.listening.timeout_ns = 1000 * MS;
	duo_listen(&duo);
	stranger = duo_stranger(&duo, bytes, 1);
	for (int i = 1; i < 60 && !duo.ignored; i++) {
		duo_serve(&duo, 1, 100 * MS);
		send(stranger, bytes + i, 1, MSG_NOSIGNAL);
	}
	assert_int_equal(duo.ignored, 1);
	assert_in_range(duo_now() - began, 2500 * MS, 4500 * MS);
	close(stranger);
	duo_close(&duo);
}

static void nonsense(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	uint8_t bytes[8][FRAME_HEADER + FRAME_HELLO];
	size_t length[8];
	unsigned count = 0;
	struct duo duo;
	int fd[8];

	(void)state;
	memcpy(bytes[count], http, sizeof(http));
	length[count++] = sizeof(http);
	length[count] = frame(bytes[count], FRAME_VERSION, FRAME_KIND_HELLO, 0xffffffff, "x");
	count++;
	length[count] = frame(bytes[count], FRAME_VERSION, FRAME_KIND_WELCOME, FRAME_HELLO, "x");
	count++;
	length[count] = frame(bytes[count], FRAME_VERSION, FRAME_KIND_HELLO, FRAME_HELLO - 1, "x");
	count++;
	length[count] = frame(bytes[count], FRAME_VERSION, 77, FRAME_HELLO, "test client");
	count++;
	length[count] = frame(bytes[count], FRAME_VERSION, FRAME_KIND_HELLO, FRAME_HELLO, "a\nb");
	count++;
	length[count] = frame(bytes[count], FRAME_VERSION, FRAME_KIND_REFUSE, 4, "test client");
	count++;
	duo_prepare(&duo);
	duo_listen(&duo);
	for (unsigned i = 0; i < count; i++) {
		fd[i] = duo_stranger(&duo, bytes[i], length[i]);
		duo_serve(&duo, i + 1, 500 * MS);
		assert_int_equal(duo.ignored, i + 1);
	}
	assert_non_null(strstr(duo.ignored_why, "refused"));
	duo_meet(&duo, "unharmed");
	assert_non_null(duo.server);
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
	duo_close(&duo);
}

/* A right hello and no message after it: it is awaited for the timeout, and others are served meanwhile. */
static void hello_and_nothing(void **state)
{
	uint8_t bytes[FRAME_HEADER + FRAME_HELLO];
	struct duo duo;
	int stranger;

	(void)state;
	frame(bytes, FRAME_VERSION, FRAME_KIND_HELLO, FRAME_HELLO, "test client");
	duo_prepare(&duo);
	duo.listening.timeout_ns = 1500 * MS;
	duo_listen(&duo);
	stranger = duo_stranger(&duo, bytes, sizeof(bytes));
	duo_serve(&duo, 1, 1200 * MS);
	assert_int_equal(duo.ignored, 0);
	duo_meet(&duo, "next");
	assert_non_null(duo.server);
	duo_serve(&duo, 1, 2000 * MS);
	assert_int_equal(duo.ignored, 1);
	assert_string_equal(duo.ignored_why, "its first message did not come");
	close(stranger);
	duo_close(&duo);
}

/* Another version of the frame is answered in one sentence that names both. */
static void another_version(void **state)
{
	uint8_t bytes[FRAME_HEADER + FRAME_HELLO], answer[512];
	struct frame_header header;
	struct duo duo;
	ssize_t n;
	int stranger;

	(void)state;
	frame(bytes, 9, FRAME_KIND_HELLO, FRAME_HELLO, "test client");
	duo_prepare(&duo);
	duo_listen(&duo);
	stranger = duo_stranger(&duo, bytes, sizeof(bytes));
	duo_serve(&duo, 1, 500 * MS);
	assert_int_equal(duo.ignored, 1);
	assert_non_null(strstr(duo.ignored_why, "version 9"));
	n = recv(stranger, answer, sizeof(answer) - 1, 0);
	assert_true(n > FRAME_HEADER);
	assert_int_equal(frame_decode(answer, (size_t)n, &header), 1);
	assert_int_equal(header.kind, FRAME_KIND_REFUSE);
	answer[n] = '\0';
	assert_non_null(strstr((char *)answer + FRAME_HEADER, "version 9"));
	assert_non_null(strstr((char *)answer + FRAME_HEADER, "this end version 2"));
	close(stranger);
	duo_close(&duo);
}

/* One that is turned away is told why by the listener, which serves others meanwhile, also if it does not hang up. */
static void refused_without_waiting(void **state)
{
	uint8_t bytes[FRAME_HEADER + FRAME_HELLO], more[FRAME_HEADER], answer[512];
	struct frame_header header = { FRAME_VERSION, 16, 0 };
	struct gw_rendezvous *stranger[3];
	uint64_t began;
	struct duo duo;
	int fd[3];

	(void)state;
	frame(bytes, FRAME_VERSION, FRAME_KIND_HELLO, FRAME_HELLO, "test client");
	frame_encode_header(&header, more);
	duo_prepare(&duo);
	duo_listen(&duo);
	began = duo_now();
	for (int i = 0; i < 3; i++) {
		fd[i] = duo_stranger(&duo, bytes, sizeof(bytes));
		assert_int_equal(send(fd[i], more, sizeof(more), 0), sizeof(more));
		assert_int_equal(gw_rendezvous_accept(duo.listener, 1000 * MS, &stranger[i]), 0);
		gw_rendezvous_listener_refuse(duo.listener, stranger[i], "not you");
	}
	duo_meet(&duo, "me");
	assert_non_null(duo.server);
	assert_true(duo_now() - began < 400 * MS);
	/* Behind the welcome. */
	assert_int_equal(recv(fd[0], answer, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_int_equal(recv(fd[0], answer, FRAME_HEADER + 7, MSG_WAITALL), FRAME_HEADER + 7);
	assert_int_equal(frame_decode(answer, FRAME_HEADER + 7, &header), 1);
	assert_int_equal(header.kind, FRAME_KIND_REFUSE);
	assert_memory_equal(answer + FRAME_HEADER, "not you", 7);
	/* The others are hung up on in the end. */
	duo_serve(&duo, 1, 700 * MS);
	assert_int_equal(recv(fd[2], answer, sizeof(answer), MSG_DONTWAIT),
			 sizeof(bytes) + FRAME_HEADER + 7);
	assert_int_equal(recv(fd[2], answer, sizeof(answer), MSG_DONTWAIT), 0);
	send(fd[2], "x", 1, MSG_NOSIGNAL);
	assert_int_equal(send(fd[2], "x", 1, MSG_NOSIGNAL), -1);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	gw_rendezvous_listener_refuse(duo.listener, NULL, "nobody");
	duo_close(&duo);
}

static void only_from(void **state)
{
	struct gw_rendezvous_listener *none;
	struct duo duo;
	char byte;
	int fd;

	(void)state;
	duo_prepare(&duo);
	duo.listening.from = "10.0.0.0/8,127.0.0.2";
	duo_listen(&duo);
	fd = duo_stranger(&duo, "x", 1);
	duo_serve(&duo, 1, 1000 * MS);
	assert_int_equal(duo.ignored, 1);
	assert_string_equal(duo.ignored_why, "nobody may connect from there");
	assert_string_equal(duo.ignored_address, "127.0.0.1");
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	duo.connecting.bind = "127.0.0.2";
	duo_meet(&duo, "from the right place");
	assert_non_null(duo.server);
	duo.listening.from = "127.0.0.1/33";
	assert_int_equal(gw_rendezvous_listen(&duo.listening, &none), -EINVAL);
	assert_non_null(strstr(gw_rendezvous_error(), "127.0.0.1/33"));
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_crowd),	   cmocka_unit_test(slow_drip),
		cmocka_unit_test(nonsense),	   cmocka_unit_test(hello_and_nothing),
		cmocka_unit_test(another_version), cmocka_unit_test(refused_without_waiting),
		cmocka_unit_test(only_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
