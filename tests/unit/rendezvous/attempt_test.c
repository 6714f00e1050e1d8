/* SPDX-License-Identifier: BSD-3-Clause */
/* Which address of a host is taken, where it has two and the listener is only being started. */
#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <godwit/rendezvous.h>

/* The host's addresses, in order. */
static const char *const addresses[] = { "127.0.0.2", "127.0.0.1" };
#define COUNT 2
#define NEVER UINT_MAX

static uint16_t port;
static int listeners[COUNT] = { -1, -1 };
/* attempts after which each begins to listen */
static unsigned starts[COUNT];
static unsigned attempts;

/* ---- what stands in for the resolver and the kernel ------------------------------------------------------------- */

static struct sockaddr_in address(unsigned i)
{
	struct sockaddr_in out = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, addresses[i], &out.sin_addr);
	return out;
}

struct found {
	struct addrinfo info;
	struct sockaddr_in at;
};

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	struct found *found = calloc(COUNT, sizeof(*found));

	(void)name;
	(void)service;
	assert_non_null(found);
	for (unsigned i = 0; i < COUNT; i++) {
		found[i].at = address(i);
		found[i].info =
			(struct addrinfo){ .ai_family = AF_INET,
					   .ai_socktype = hints->ai_socktype,
					   .ai_addr = (struct sockaddr *)&found[i].at,
					   .ai_addrlen = sizeof(found[i].at),
					   .ai_next = i + 1 < COUNT ? &found[i + 1].info : NULL };
	}
	*out = &found[0].info;
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	free(list);
}

static void start_listening(unsigned i)
{
	struct sockaddr_in at = address(i);
	socklen_t length = sizeof(at);

	listeners[i] = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(listeners[i] >= 0);
	assert_int_equal(bind(listeners[i], (struct sockaddr *)&at, length), 0);
	assert_int_equal(listen(listeners[i], 4), 0);
	assert_int_equal(getsockname(listeners[i], (struct sockaddr *)&at, &length), 0);
	port = ntohs(at.sin_port);
}

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (listeners[i] < 0 && attempts >= starts[i])
			start_listening(i);
	attempts++;
	return (int)syscall(SYS_connect, fd, to, length);
}

/* ---- the cases ---------------------------------------------------------------------------------------------------- */

/* A port that is free at both addresses now. */
static uint16_t free_port(void)
{
	uint16_t found;

	port = 0;
	start_listening(0);
	start_listening(1);
	found = port;
	for (unsigned i = 0; i < COUNT; i++) {
		close(listeners[i]);
		listeners[i] = -1;
	}
	return found;
}

/* Asserts by which address it connects, if each listens after so many attempts. */
static void assert_taken(unsigned first, unsigned second, unsigned expected)
{
	struct gw_rendezvous_attr attr = { .host = "both", .service = "test" };
	struct timespec pause = { .tv_nsec = 1000000 };
	struct gw_rendezvous *r;

	attr.port = port = free_port();
	starts[0] = first;
	starts[1] = second;
	attempts = 0;
	assert_int_equal(gw_rendezvous_start(&attr, &r), 0);
	for (int i = 0; i < 5000 && !gw_rendezvous_remote(r)[0]; i++) {
		nanosleep(&pause, NULL);
		assert_true(gw_rendezvous_step(r) >= 0);
	}
	assert_non_null(strstr(gw_rendezvous_remote(r), addresses[expected]));
	gw_rendezvous_close(r);
	for (unsigned i = 0; i < COUNT; i++) {
		if (listeners[i] >= 0)
			close(listeners[i]);
		listeners[i] = -1;
	}
}

static void the_first_address_is_taken(void **state)
{
	(void)state;
	assert_taken(0, 0, 0);
	assert_int_equal(attempts, 1);
}

static void the_first_address_is_waited_for(void **state)
{
	(void)state;
	assert_taken(2, 2, 0);
	assert_int_equal(attempts, 3);
}

/* The first address refused before the listener was there, the second accepts after it: others have come by the first one. */
static void a_listener_that_starts_in_between_is_met_by_the_first_address(void **state)
{
	(void)state;
	assert_taken(1, 1, 0);
	assert_int_equal(attempts, 3);
}

static void an_address_without_a_listener_is_asked_twice(void **state)
{
	(void)state;
	assert_taken(NEVER, 0, 1);
	assert_int_equal(attempts, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_address_is_taken),
		cmocka_unit_test(the_first_address_is_waited_for),
		cmocka_unit_test(a_listener_that_starts_in_between_is_met_by_the_first_address),
		cmocka_unit_test(an_address_without_a_listener_is_asked_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
