/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several contexts of one process on one address and port. Everybody reaches everybody, also after some have gone and the
 * kernel's order of sockets no longer is the order of classes; and who is refused.
 */
#include "crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/open.h"
#include "fabric/roce/endpoint.h"
#include "fabric/roce/share.h"
#include "message/state.h"

#define TWO_CHECKS_NS UINT64_C(500000000)

static void contexts_come_and_go(void **state)
{
	uint16_t port = crowd_port();

	(void)state;
	for (unsigned i = 0; i < CROWD - 1; i++)
		crowd_join(i, port);
	for (unsigned i = 0; i < CROWD - 1; i++)
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(crowd_class(i), crowd_class(j));
	crowd_all_to_all();
	assert_int_equal(crowd_total("rx_forwarded_packets"), 0);

	/* The last two sockets move into the gaps; at most one of them can be where the kernel looks for it. */
	crowd_leave(1);
	crowd_leave(2);
	crowd_all_to_all();
	assert_true(crowd_total("rx_forwarded_packets") > 0);

	/* One more, whose place among the sockets is the number of somebody else's class. */
	crowd_join(CROWD - 1, port);
	for (unsigned i = 0; i < CROWD - 1; i++)
		if (crowd[i].ctx)
			assert_int_not_equal(crowd_class(i), crowd_class(CROWD - 1));
	crowd_all_to_all();
	crowd_join(1, port);
	crowd_all_to_all();
	for (unsigned i = 0; i < CROWD; i++)
		crowd_leave(i);
}

/* A socket that moved is found again without the help of the process that gets its packets meanwhile: 5 moves to place 1,
 * and 6 joins at place 5 and sleeps. */
static void sleepers_starve_nobody(void **state)
{
	uint16_t port = crowd_port();

	(void)state;
	for (unsigned i = 0; i < CROWD - 1; i++)
		crowd_join(i, port);
	crowd_leave(1);
	crowd_join(CROWD - 1, port);
	assert_int_not_equal(crowd_class(CROWD - 1), crowd_class(5));
	crowd_asleep[CROWD - 1] = true;
	for (unsigned i = 0; i < 3; i++) {
		fill_pattern(crowd[2].memory, CROWD_LENGTH, i);
		crowd_carry(&crowd[2], crowd[2].qps[5], &crowd[5], crowd[5].qps[2]);
		crowd_carry(&crowd[5], crowd[5].qps[2], &crowd[2], crowd[2].qps[5]);
	}
	assert_true(counter(crowd[5].ctx, "rx_steered") >= 1);
	assert_int_equal(counter(crowd[2].ctx, "rx_steered"), 0);
	memset(crowd_asleep, 0, sizeof(crowd_asleep));

	/* One that joins later leaves the table alone. */
	crowd_all_to_all();
	crowd_join(1, port);
	for (uint64_t until = gw_now_ns(crowd[5].ctx) + TWO_CHECKS_NS;
	     gw_now_ns(crowd[5].ctx) < until;)
		gw_progress(crowd[5].ctx);
	crowd_all_to_all();
	assert_int_equal(counter(crowd[5].ctx, "rx_steered"), 1);
	for (unsigned i = 0; i < CROWD; i++)
		crowd_leave(i);
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

static void port_of_a_stranger(void **state)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(address);
	struct gw_context *ctx = NULL;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	assert_int_equal(crowd_context(ntohs(address.sin_port), &ctx), -EADDRINUSE);
	assert_null(ctx);
	close(fd);
	assert_int_equal(crowd_context(ntohs(address.sin_port), &ctx), 0);
	assert_int_equal(gw_context_close(ctx), 0);
}

static void keep_line(void *arg, enum gw_log_level level, const char *line)
{
	if (level == GW_LOG_ERROR)
		snprintf(arg, 200, "%s", line);
}

static void one_too_many(void **state)
{
	struct fabric *all[CLASSES], *extra = NULL;
	uint16_t port = crowd_port();
	char line[200] = "", name[64];

	(void)state;
	snprintf(name, sizeof(name), "roce:127.0.0.1@%u", port);
	for (unsigned i = 0; i < CLASSES; i++)
		assert_int_equal(fabric_open(name, NULL, &all[i]), 0);
	gw_log_set(GW_LOG_WARN, keep_line, line);
	assert_int_equal(fabric_open(name, NULL, &extra), -EADDRINUSE);
	gw_log_set(GW_LOG_WARN, NULL, NULL);
	assert_null(extra);
	assert_non_null(strstr(line, "64 processes"));
	all[17]->ops->close(all[17]);
	assert_int_equal(fabric_open(name, NULL, &all[17]), 0);
	for (unsigned i = 0; i < CLASSES; i++)
		all[i]->ops->close(all[i]);
}

/* The class of a process's place may be another's: any of the others will do. */
static void any_class_will_do(void **state)
{
	enum { TAKEN = CLASSES - 1 };
	struct fabric *fabric;
	uint16_t port = crowd_port();
	int fds[TAKEN];
	char name[64];

	(void)state;
	for (unsigned missing = 0; missing < CLASSES; missing += 21) {
		for (unsigned i = 0; i < TAKEN; i++) {
			struct sockaddr_un taken = { .sun_family = AF_UNIX };
			int length = snprintf(taken.sun_path + 1, sizeof(taken.sun_path) - 1,
					      "godwit/127.0.0.1/%u/%u", port, i + (i >= missing));

			fds[i] = socket(AF_UNIX, SOCK_DGRAM, 0);
			assert_int_equal(bind(fds[i], (struct sockaddr *)&taken,
					      (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
							  1 + (size_t)length)),
					 0);
		}
		snprintf(name, sizeof(name), "roce:127.0.0.1@%u", port);
		assert_int_equal(fabric_open(name, NULL, &fabric), 0);
		assert_int_equal(endpoint_of(fabric)->class, missing);
		fabric->ops->close(fabric);
		for (unsigned i = 0; i < TAKEN; i++)
			close(fds[i]);
	}
}

/* Where the socket of class 5 is, as a process that shares the port would say it. */
static void say_place(uint16_t port, uint32_t class, uint32_t place)
{
	struct {
		union socket_address from;
		uint32_t class, place, answer;
	} notice = { .class = 5, .place = place, .answer = 1 };
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
			      "godwit/127.0.0.1/%u/%u", port, class);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	notice.from.any.sa_family = AF_UNSPEC;
	sendto(fd, &notice, sizeof(notice), 0, (struct sockaddr *)&name,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length));
	close(fd);
}

static void poll_often(struct fabric *fabric)
{
	struct fabric_event events[FABRIC_EVENTS];

	for (int i = 0; i < 1000; i++)
		fabric->ops->poll(fabric, events);
}

/* Another user cannot hand on packets, nor say where sockets are. */
static void another_user_is_not_heeded(void **state)
{
	uint16_t port = crowd_port();
	struct fabric *fabric;
	const uint8_t *places;
	uint32_t class;
	char name[64];
	pid_t child;

	(void)state;
	if (geteuid())
		skip();
	snprintf(name, sizeof(name), "roce:127.0.0.1@%u", port);
	assert_int_equal(fabric_open(name, NULL, &fabric), 0);
	places = endpoint_of(fabric)->share->places;
	class = endpoint_of(fabric)->class;
	child = fork();
	if (!child) {
		if (!setgid(65534) && !setuid(65534))
			say_place(port, class, 9);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	poll_often(fabric);
	assert_int_equal(places[5], 5);
	say_place(port, class, 9);
	poll_often(fabric);
	assert_int_equal(places[5], 9);
	fabric->ops->close(fabric);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts_come_and_go),
		cmocka_unit_test(sleepers_starve_nobody),
		cmocka_unit_test(port_of_a_stranger),
		cmocka_unit_test(one_too_many),
		cmocka_unit_test(any_class_will_do),
		cmocka_unit_test(another_user_is_not_heeded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
