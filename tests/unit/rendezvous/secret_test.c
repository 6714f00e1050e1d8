/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets: the same at both ends, different, at one end only; and files that are none. */
#include "duo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/connection.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
#define OTHER  "ff112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

static void needs_openssl(struct duo *duo)
{
	struct gw_rendezvous_attr attr = { .flags = GW_RENDEZVOUS_ANY_PORT };
	struct gw_rendezvous_listener *listener;
	int rc;

	attr.secret_file = duo_file(duo, "probe", SECRET, 0600);
	rc = gw_rendezvous_listen(&attr, &listener);
	if (rc == -ENOTSUP) {
		assert_non_null(strstr(gw_rendezvous_error(), "built without OpenSSL"));
		duo_close(duo);
		skip();
	}
	assert_int_equal(rc, 0);
	gw_rendezvous_listener_close(listener);
}

static void same_secret(void **state)
{
	uint8_t big[GW_RENDEZVOUS_MESSAGE_MAX];
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	duo.listening.secret_file = duo_file(&duo, "one", SECRET "\n", 0600);
	duo_listen(&duo);
	duo.connecting.secret_file = duo_file(&duo, "two", SECRET, 0400);
	duo_meet(&duo, "first words");
	assert_non_null(duo.server);
	assert_int_equal(duo.ignored, 0);
	/* The listener is not needed any more. */
	gw_rendezvous_listener_close(duo.listener);
	duo.listener = NULL;
	memset(big, 0xa5, sizeof(big));
	assert_int_equal(gw_rendezvous_try_send(duo.server, 99, big, sizeof(big)), 0);
	assert_int_equal(gw_rendezvous_try_send(duo.server, 100, "x", 1), 0);
	duo_expect(&duo, duo.client, 99, big, sizeof(big));
	duo_expect(&duo, duo.client, 100, "x", 1);
	assert_int_equal(gw_rendezvous_try_send(duo.client, 98, big, sizeof(big)), 0);
	duo_expect(&duo, duo.server, 98, big, sizeof(big));
	duo_close(&duo);
}

static struct gw_rendezvous_keys keys_of(struct gw_rendezvous *r, const char *context)
{
	struct gw_rendezvous_keys keys;

	assert_int_equal(gw_rendezvous_keys(r, context, strlen(context), &keys), 0);
	return keys;
}

static void meet_with_secret(struct duo *duo)
{
	duo_prepare(duo);
	needs_openssl(duo);
	duo->listening.secret_file = duo_file(duo, "one", SECRET, 0600);
	duo_listen(duo);
	duo->connecting.secret_file = duo_file(duo, "two", SECRET, 0600);
	duo_meet(duo, "x");
	assert_non_null(duo->server);
}

/* What one end sends with, the other receives with; directions, contexts and meetings have keys of their own. */
static void keys(void **state)
{
	struct gw_rendezvous_keys ours, theirs, others;
	struct duo duo, again;

	(void)state;
	meet_with_secret(&duo);
	ours = keys_of(duo.client, "queue pair 1");
	theirs = keys_of(duo.server, "queue pair 1");
	assert_memory_equal(ours.tx, theirs.rx, GW_RENDEZVOUS_KEY_BYTES);
	assert_memory_equal(ours.rx, theirs.tx, GW_RENDEZVOUS_KEY_BYTES);
	assert_memory_not_equal(ours.tx, ours.rx, GW_RENDEZVOUS_KEY_BYTES);
	others = keys_of(duo.client, "queue pair 1");
	assert_memory_equal(&ours, &others, sizeof(ours));
	others = keys_of(duo.client, "queue pair 2");
	assert_memory_not_equal(ours.tx, others.tx, GW_RENDEZVOUS_KEY_BYTES);
	assert_memory_not_equal(ours.rx, others.rx, GW_RENDEZVOUS_KEY_BYTES);
	meet_with_secret(&again);
	others = keys_of(again.client, "queue pair 1");
	assert_memory_not_equal(ours.tx, others.tx, GW_RENDEZVOUS_KEY_BYTES);
	assert_int_equal(gw_rendezvous_keys(duo.client, NULL, 0, &others), 0);
	assert_int_equal(gw_rendezvous_keys(duo.client, NULL, 1, &others), -EINVAL);
	assert_int_equal(gw_rendezvous_keys(NULL, NULL, 0, &others), -EINVAL);
	duo_close(&duo);
	duo_close(&again);
}

static void no_keys_without_a_secret(void **state)
{
	struct gw_rendezvous_keys none;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	duo_meet(&duo, "x");
	assert_non_null(duo.server);
	assert_int_equal(gw_rendezvous_keys(duo.client, NULL, 0, &none), -ENOTCONN);
	assert_int_equal(gw_rendezvous_keys(duo.server, NULL, 0, &none), -ENOTCONN);
	duo_close(&duo);
}

/* Without a rendezvous: from the secret and two descriptions, by the formula of docs/wire.md. */
static void keys_of_descriptions(void **state)
{
	/* made with Python's hmac and hashlib */
	static const uint8_t expected[] = { 0x06, 0xb1, 0x08, 0x01, 0x54, 0xc7, 0xf0, 0xee,
					    0x5c, 0x8f, 0xd6, 0xba, 0x60, 0xe3, 0xb9, 0x27,
					    0xea, 0xf8, 0x45, 0x9f, 0x8b, 0xfa, 0x6c, 0x17,
					    0x81, 0x87, 0x4d, 0xa3, 0x9b, 0x17, 0xba, 0xd9 };
	struct gw_rendezvous_keys ours, theirs, others;
	struct duo duo;
	const char *file;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	file = duo_file(&duo, "one", SECRET "\n", 0600);
	assert_int_equal(gw_rendezvous_secret_keys(file, "mine", 4, "the other's", 11, &ours), 0);
	assert_int_equal(gw_rendezvous_secret_keys(file, "the other's", 11, "mine", 4, &theirs), 0);
	assert_memory_equal(ours.tx, expected, sizeof(expected));
	assert_memory_equal(ours.tx, theirs.rx, GW_RENDEZVOUS_KEY_BYTES);
	assert_memory_equal(ours.rx, theirs.tx, GW_RENDEZVOUS_KEY_BYTES);
	assert_memory_not_equal(ours.tx, ours.rx, GW_RENDEZVOUS_KEY_BYTES);
	assert_int_equal(gw_rendezvous_secret_keys(file, "minf", 4, "the other's", 11, &others), 0);
	assert_memory_not_equal(ours.tx, others.tx, GW_RENDEZVOUS_KEY_BYTES);
	assert_memory_not_equal(ours.rx, others.rx, GW_RENDEZVOUS_KEY_BYTES);
	/* One's own description came back. */
	assert_int_equal(gw_rendezvous_secret_keys(file, "mine", 4, "mine", 4, &others), -EINVAL);
	assert_int_equal(gw_rendezvous_secret_keys(file, "mine", 4, "", 0, &others), -EINVAL);
	assert_int_equal(gw_rendezvous_secret_keys(NULL, "mine", 4, "x", 1, &others), -EINVAL);
	file = duo_file(&duo, "two", OTHER, 0600);
	assert_int_equal(gw_rendezvous_secret_keys(file, "mine", 4, "the other's", 11, &others), 0);
	assert_memory_not_equal(ours.tx, others.tx, GW_RENDEZVOUS_KEY_BYTES);
	file = duo_file(&duo, "three", OTHER, 0640);
	assert_int_equal(gw_rendezvous_secret_keys(file, "mine", 4, "x", 1, &others), -EACCES);
	duo_close(&duo);
}

/* A refusal of the application travels under the secret, too. */
static void refused_with_secret(void **state)
{
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	duo.listening.secret_file = duo_file(&duo, "one", SECRET, 0600);
	duo.listening.peer_service = "somebody else";
	duo_listen(&duo);
	duo.connecting.secret_file = duo_file(&duo, "two", SECRET, 0600);
	duo_meet(&duo, "x");
	assert_null(duo.server);
	assert_int_equal(duo.client_error, -ECONNREFUSED);
	assert_non_null(strstr(duo.client_why, "`test client`"));
	duo_close(&duo);
}

static void expect_parted(struct duo *duo, int error, const char *client, const char *listener)
{
	duo_listen(duo);
	duo_meet(duo, "x");
	assert_null(duo->server);
	print_message("client: %s; listener: %s\n", duo->client_why, duo->ignored_why);
	assert_int_equal(duo->client_error, error);
	assert_non_null(strstr(duo->client_why, client));
	assert_int_equal(duo->ignored, 1);
	assert_non_null(strstr(duo->ignored_why, listener));
	duo_close(duo);
}

static void different_secrets(void **state)
{
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	duo.listening.secret_file = duo_file(&duo, "one", SECRET, 0600);
	duo.connecting.secret_file = duo_file(&duo, "two", OTHER, 0600);
	expect_parted(&duo, -EACCES, "does not hold this end's secret",
		      "does not hold this end's secret");
}

static void secret_at_the_listener_only(void **state)
{
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	duo.listening.secret_file = duo_file(&duo, "one", SECRET, 0600);
	expect_parted(&duo, -ECONNREFUSED, "a secret is needed here and the caller has none",
		      "it has no secret, and this end has one");
}

static void secret_at_the_connector_only(void **state)
{
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	duo.connecting.secret_file = duo_file(&duo, "two", SECRET, 0600);
	expect_parted(&duo, -ECONNREFUSED, "the caller has a secret and this end has none",
		      "it has a secret, and this end has none");
}

/* Somebody on the path answers in plain text: an end with a secret believes a refusal, and nothing else. */
static void plain_answer(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t length = sizeof(at);
	struct frame_hello hello = { .service = "test server", .library = "x" };
	struct frame_header header = { FRAME_VERSION, FRAME_KIND_WELCOME, FRAME_HELLO };
	struct gw_rendezvous_message message;
	uint8_t bytes[FRAME_HEADER + FRAME_HELLO];
	struct gw_rendezvous *r;
	struct duo duo;
	int fd, peer;

	(void)state;
	duo_prepare(&duo);
	needs_openssl(&duo);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	duo.connecting.port = ntohs(at.sin_port);
	duo.connecting.secret_file = duo_file(&duo, "one", SECRET, 0600);
	assert_int_equal(gw_rendezvous_start(&duo.connecting, &r), 0);
	while (gw_rendezvous_try_recv(r, &message) == -EAGAIN && r->state == CONNECTING)
		;
	peer = accept(fd, NULL, NULL);
	frame_encode_header(&header, bytes);
	frame_encode_hello(&hello, bytes + FRAME_HEADER);
	assert_int_equal(send(peer, bytes, sizeof(bytes), 0), sizeof(bytes));
	/* A message behind the welcome must not be taken either. */
	header = (struct frame_header){ FRAME_VERSION, 16, 0 };
	frame_encode_header(&header, bytes);
	assert_int_equal(send(peer, bytes, FRAME_HEADER, 0), FRAME_HEADER);
	assert_int_equal(gw_rendezvous_recv(r, &message), -EACCES);
	assert_non_null(strstr(gw_rendezvous_error(), "has no secret, and this end has one"));
	gw_rendezvous_close(r);
	close(peer);
	close(fd);
	duo_close(&duo);
}

static void not_a_secret_file(void **state)
{
	static const struct {
		const char *text;
		unsigned mode;
		int error;
		const char *why;
	} cases[] = {
		{ SECRET, 0644, -EACCES, "chmod 600" },
		{ SECRET, 0620, -EACCES, "chmod 600" },
		{ "", 0600, -EINVAL, "64 to 128 hexadecimal digits" },
		{ "0011", 0600, -EINVAL, "godwit secret" },
		{ SECRET "0", 0600, -EINVAL, "hexadecimal" },
		{ "x0" SECRET, 0600, -EINVAL, "hexadecimal" },
		{ SECRET SECRET "00", 0600, -EINVAL, "hexadecimal" },
	};
	struct gw_rendezvous_listener *listener;
	struct gw_rendezvous *r;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		duo.listening.secret_file = duo.connecting.secret_file =
			duo_file(&duo, "bad", cases[i].text, cases[i].mode);
		assert_int_equal(gw_rendezvous_listen(&duo.listening, &listener), cases[i].error);
		assert_non_null(strstr(gw_rendezvous_error(), cases[i].why));
		assert_int_equal(gw_rendezvous_start(&duo.connecting, &r), cases[i].error);
	}
	duo.listening.secret_file = "/nonexistent/secret";
	assert_int_equal(gw_rendezvous_listen(&duo.listening, &listener), -ENOENT);
	duo.listening.secret_file = duo.directory;
	assert_int_equal(gw_rendezvous_listen(&duo.listening, &listener), -EINVAL);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_secret),
		cmocka_unit_test(keys),
		cmocka_unit_test(no_keys_without_a_secret),
		cmocka_unit_test(keys_of_descriptions),
		cmocka_unit_test(refused_with_secret),
		cmocka_unit_test(different_secrets),
		cmocka_unit_test(secret_at_the_listener_only),
		cmocka_unit_test(secret_at_the_connector_only),
		cmocka_unit_test(plain_answer),
		cmocka_unit_test(not_a_secret_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
