/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends that belong together, ends that do not, and the sentences that say so. */
#include "duo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void messages_both_ways(void **state)
{
	uint8_t big[GW_RENDEZVOUS_MESSAGE_MAX + 1] = { 1, 2, 3 };
	struct gw_rendezvous_message message;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	duo_meet(&duo, "a description");
	assert_non_null(duo.server);
	assert_string_equal(gw_rendezvous_local(duo.client), "127.0.0.1");
	assert_string_equal(gw_rendezvous_local(duo.server), "127.0.0.1");
	assert_string_equal(gw_rendezvous_remote(duo.server), "127.0.0.1");
	assert_string_equal(gw_rendezvous_peer_version(duo.server), gw_version());
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(gw_rendezvous_try_send(duo.server, 16 + i, big, i), 0);
		duo_expect(&duo, duo.client, 16 + i, big, i);
	}
	assert_string_equal(gw_rendezvous_peer_version(duo.client), gw_version());
	assert_int_equal(gw_rendezvous_try_send(duo.client, 65535, big, sizeof(big) - 1), 0);
	duo_expect(&duo, duo.server, 65535, big, sizeof(big) - 1);
	assert_int_equal(gw_rendezvous_try_send(duo.client, 16, big, sizeof(big)), -EMSGSIZE);
	assert_int_equal(gw_rendezvous_try_send(duo.client, 3, big, 1), -EINVAL);
	assert_int_equal(gw_rendezvous_try_send(duo.client, 65536, big, 1), -EINVAL);
	/* The last words of an end that closes are received before its close is. */
	assert_int_equal(gw_rendezvous_send(duo.client, 40, "bye", 3), 0);
	gw_rendezvous_close(duo.client);
	duo.client = NULL;
	assert_int_equal(gw_rendezvous_recv(duo.server, &message), 0);
	assert_int_equal(message.kind, 40);
	assert_int_equal(gw_rendezvous_recv(duo.server, &message), -ECONNRESET);
	assert_int_equal(gw_rendezvous_recv(duo.server, &message), -ECONNRESET);
	assert_non_null(strstr(gw_rendezvous_error(), "closed the connection"));
	duo_close(&duo);
}

/* A queue that the other end does not read fills up and says so, and nothing is lost. */
static void full_queue(void **state)
{
	uint8_t big[GW_RENDEZVOUS_MESSAGE_MAX] = { 0 };
	uint32_t sent = 0;
	struct duo duo;
	int rc;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	duo_meet(&duo, "x");
	while ((rc = gw_rendezvous_try_send(duo.client, 16 + sent % 1000, big, sizeof(big))) == 0)
		sent++;
	assert_int_equal(rc, -EAGAIN);
	assert_true(sent > 4);
	for (uint32_t i = 0; i < sent; i++)
		duo_expect(&duo, duo.server, 16 + i % 1000, big, sizeof(big));
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
	assert_string_equal(duo->ignored_address, "127.0.0.1");
	duo_close(duo);
}

static void wrong_peer(void **state)
{
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo.connecting.service = "godwit perf";
	expect_parted(&duo, -ECONNREFUSED,
		      "`test server` waits here for `test client`, and the caller is `godwit perf`",
		      "it is `godwit perf`, not `test client`");
	/* A listener that takes this client, and is not what the client looks for. */
	duo_prepare(&duo);
	duo.listening.service = "godwit recv";
	duo_listen(&duo);
	duo_meet(&duo, "x");
	if (duo.client)
		assert_int_equal(gw_rendezvous_step(duo.client), -EPROTO);
	assert_non_null(strstr(duo.client ? gw_rendezvous_error() : duo.client_why,
			       "is `godwit recv`, not `test server`"));
	duo_close(&duo);
}

static void wrong_version(void **state)
{
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo.listening.service_version = 3;
	duo.connecting.service_version = 7;
	expect_parted(&duo, -ECONNREFUSED, "version 7", "version 7");
	duo_prepare(&duo);
	duo.listening.service_version = 3;
	duo.connecting.service_version = 7;
	expect_parted(&duo, -ECONNREFUSED, "this end version 3", "this end version 3");
}

static void refused_by_the_application(void **state)
{
	struct gw_rendezvous_message message;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	duo_meet(&duo, "x");
	/* Bytes that nobody reads must not take the sentence away. */
	assert_int_equal(gw_rendezvous_try_send(duo.client, 16, "unread", 6), 0);
	gw_rendezvous_refuse(duo.server, "no space here");
	duo.server = NULL;
	assert_int_equal(gw_rendezvous_recv(duo.client, &message), -ECONNREFUSED);
	assert_non_null(strstr(gw_rendezvous_error(), "refused: no space here"));
	duo_close(&duo);
}

/* The other end neither reads nor hangs up: refusing it takes no longer than the attribute allows, and half a second. */
static void refusing_is_bounded(void **state)
{
	static const uint64_t timeouts_ns[] = { 50 * MS, 10000 * MS };
	static const uint64_t most_ns[] = { 400 * MS, 1500 * MS };
	struct duo duo;
	uint64_t began;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		duo_prepare(&duo);
		duo.listening.timeout_ns = timeouts_ns[i];
		duo_listen(&duo);
		duo_meet(&duo, "x");
		assert_non_null(duo.server);
		began = duo_now();
		gw_rendezvous_refuse(duo.server, "not now");
		assert_true(duo_now() - began < most_ns[i]);
		duo.server = NULL;
		duo_close(&duo);
	}
}

/* A port that nobody listens on, and one that is listened on by somebody who says nothing. */
static void nobody_and_silence(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t length = sizeof(at);
	struct gw_rendezvous_message message;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct gw_rendezvous *r;
	char name[64];
	uint64_t began;
	struct duo duo;

	(void)state;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	duo_prepare(&duo);
	duo.connecting.port = ntohs(at.sin_port);
	duo.connecting.timeout_ns = 300 * MS;
	duo.connecting.retry_ns = 100 * MS;
	snprintf(name, sizeof(name), "127.0.0.1:%u", duo.connecting.port);
	began = duo_now();
	assert_int_equal(gw_rendezvous_connect(&duo.connecting, &r), -ECONNREFUSED);
	assert_true(duo_now() - began >= 100 * MS);
	assert_non_null(strstr(gw_rendezvous_error(), name));
	assert_non_null(strstr(gw_rendezvous_error(), "is `test server` running there?"));

	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(gw_rendezvous_connect(&duo.connecting, &r), 0);
	began = duo_now();
	assert_int_equal(gw_rendezvous_recv(r, &message), -ETIMEDOUT);
	assert_true(duo_now() - began < 2000 * MS);
	snprintf(name, sizeof(name), "no answer from 127.0.0.1:%u within 0.3 s",
		 duo.connecting.port);
	assert_non_null(strstr(gw_rendezvous_error(), name));
	assert_non_null(
		strstr(gw_rendezvous_error(), "is `test server` running there, is the port open?"));
	gw_rendezvous_close(r);
	close(fd);
	duo_close(&duo);
}

static void silent_later(void **state)
{
	struct gw_rendezvous_message message;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo.connecting.timeout_ns = 200 * MS;
	duo_listen(&duo);
	duo_meet(&duo, "x");
	assert_int_equal(gw_rendezvous_try_send(duo.server, 16, "y", 1), 0);
	duo_expect(&duo, duo.client, 16, "y", 1);
	assert_int_equal(gw_rendezvous_recv(duo.client, &message), -ETIMEDOUT);
	assert_non_null(strstr(gw_rendezvous_error(), "was silent for 0.2 s"));
	/* The connection is as good as before. */
	assert_int_equal(gw_rendezvous_try_send(duo.server, 17, "z", 1), 0);
	duo_expect(&duo, duo.client, 17, "z", 1);
	duo_close(&duo);
}

static void *connect_and_exchange(void *arg)
{
	struct duo *duo = arg;
	char theirs[16] = "";

	duo->client_error = gw_rendezvous_connect(&duo->connecting, &duo->client);
	if (duo->client_error == 0)
		duo->client_error =
			gw_rendezvous_exchange(duo->client, "client", 6, theirs, sizeof(theirs));
	if (duo->client_error == 6 && memcmp(theirs, "server", 6) != 0)
		duo->client_error = -EBADMSG;
	return NULL;
}

static void blocking_exchange(void **state)
{
	char theirs[16] = "";
	pthread_t thread;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	assert_int_equal(pthread_create(&thread, NULL, connect_and_exchange, &duo), 0);
	assert_int_equal(gw_rendezvous_accept(duo.listener, UINT64_MAX, &duo.server), 0);
	assert_int_equal(gw_rendezvous_exchange(duo.server, "server", 6, theirs, 5), -EMSGSIZE);
	assert_non_null(strstr(gw_rendezvous_error(), "6 bytes where 5 were expected"));
	pthread_join(thread, NULL);
	assert_int_equal(duo.client_error, 6);
	duo_close(&duo);
}

static void interrupted(void **state)
{
	int wake[2];
	struct duo duo;

	(void)state;
	assert_int_equal(pipe(wake), 0);
	duo_prepare(&duo);
	duo.listening.interrupt_fd = wake[0];
	duo_listen(&duo);
	assert_int_equal(gw_rendezvous_accept(duo.listener, 50 * MS, &duo.server), -ETIMEDOUT);
	assert_int_equal(write(wake[1], "", 1), 1);
	assert_int_equal(gw_rendezvous_accept(duo.listener, UINT64_MAX, &duo.server), -EINTR);
	close(wake[0]);
	close(wake[1]);
	duo_close(&duo);
}

/* A descriptor that is not readable while there is nothing to do: a caller that polls it does not spin. */
static void quiet_when_idle(void **state)
{
	struct pollfd fds[3] = { 0 };
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	duo_meet(&duo, "x");
	gw_rendezvous_step(duo.client);
	gw_rendezvous_step(duo.server);
	gw_rendezvous_step(duo.client);
	fds[0].fd = gw_rendezvous_fd(duo.client);
	fds[1].fd = gw_rendezvous_fd(duo.server);
	fds[2].fd = gw_rendezvous_listener_fd(duo.listener);
	for (int i = 0; i < 3; i++)
		fds[i].events = POLLIN;
	assert_int_equal(poll(fds, 3, 20), 0);
	duo_close(&duo);
}

static void bad_attributes(void **state)
{
	struct gw_rendezvous_listener *listener;
	struct gw_rendezvous_attr attr;
	struct gw_rendezvous *r;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	assert_int_equal(gw_rendezvous_start(NULL, &r), -EINVAL);
	assert_int_equal(gw_rendezvous_start(&duo.listening, &r), -EINVAL);
	assert_int_equal(gw_rendezvous_listen(&duo.connecting, &listener), -EINVAL);
	attr = duo.connecting;
	attr.reserved[1] = 1;
	assert_int_equal(gw_rendezvous_start(&attr, &r), -EINVAL);
	attr = duo.connecting;
	attr.reserved16 = 1;
	assert_int_equal(gw_rendezvous_start(&attr, &r), -EINVAL);
	attr = duo.connecting;
	attr.flags = 2;
	assert_int_equal(gw_rendezvous_start(&attr, &r), -EINVAL);
	attr = duo.connecting;
	attr.service = "a name that is longer than any service has";
	assert_int_equal(gw_rendezvous_start(&attr, &r), -EINVAL);
	attr.service = "line\nbreak";
	assert_int_equal(gw_rendezvous_start(&attr, &r), -EINVAL);
	attr = duo.connecting;
	attr.host = "no.such.host.invalid";
	assert_int_equal(gw_rendezvous_start(&attr, &r), -ENOENT);
	attr = duo.connecting;
	attr.bind = "192.0.2.1";
	assert_int_equal(gw_rendezvous_connect(&attr, &r), -EADDRNOTAVAIL);
	attr = duo.listening;
	attr.bind = "192.0.2.1";
	assert_int_equal(gw_rendezvous_listen(&attr, &listener), -EADDRNOTAVAIL);
	duo_close(&duo);
}

static void port_in_use(void **state)
{
	struct gw_rendezvous_attr attr = { 0 };
	struct gw_rendezvous_listener *second;
	struct duo duo;

	(void)state;
	duo_prepare(&duo);
	duo_listen(&duo);
	attr.port = gw_rendezvous_listener_port(duo.listener);
	assert_int_equal(gw_rendezvous_listen(&attr, &second), -EADDRINUSE);
	assert_non_null(strstr(gw_rendezvous_error(), "is in use by another program"));
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_both_ways),
		cmocka_unit_test(full_queue),
		cmocka_unit_test(wrong_peer),
		cmocka_unit_test(wrong_version),
		cmocka_unit_test(refused_by_the_application),
		cmocka_unit_test(refusing_is_bounded),
		cmocka_unit_test(nobody_and_silence),
		cmocka_unit_test(silent_later),
		cmocka_unit_test(blocking_exchange),
		cmocka_unit_test(interrupted),
		cmocka_unit_test(quiet_when_idle),
		cmocka_unit_test(bad_attributes),
		cmocka_unit_test(port_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
