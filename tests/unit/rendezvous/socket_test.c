/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel is asked for where many packets are lost. */
#include "rendezvous/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cmocka.h>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

static int option(int fd, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	return getsockopt(fd, IPPROTO_TCP, name, &value, &length) ? -1 : value;
}

/* A lost segment is repeated every second at least, and for as long as the kernel does it by itself. */
static void check(int fd)
{
	assert_int_equal(option(fd, TCP_NODELAY), 1);
	assert_int_equal(option(fd, TCP_THIN_LINEAR_TIMEOUTS), 1);
	/* An older kernel has no such option, and gives up when it pleases. */
	if (option(fd, TCP_RTO_MAX_MS) < 0)
		return;
	assert_int_equal(option(fd, TCP_RTO_MAX_MS), 1000);
	assert_true(option(fd, TCP_USER_TIMEOUT) >= 600000);
}

static void repeats_soon(void **state)
{
	struct addrinfo *to;
	uint16_t port = 0;
	int listener, connected, accepted;

	(void)state;
	assert_int_equal(socket_listen("127.0.0.1", 0, &listener, &port), 0);
	assert_int_equal(socket_resolve("127.0.0.1", port, false, AF_INET, &to), 0);
	assert_int_equal(socket_connect(to, NULL, &connected), 0);
	freeaddrinfo(to);
	while ((accepted = accept(listener, NULL, NULL)) < 0)
		usleep(1000);
	check(connected);
	check(accepted);
	close(accepted);
	close(connected);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repeats_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
