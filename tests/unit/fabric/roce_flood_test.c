/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that come faster than they are read. The test program's own recvmmsg() and recvmsg() always have one more; what
 * an endpoint does in one turn comes to an end all the same.
 */
#include "../message/pair.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric/open.h"
#include "fabric/roce/endpoint.h"

/* Reads that a turn may take: more than any needs, fewer than anybody would wait for. */
#define READS_MAX 1000

static struct {
	bool flows;
	unsigned reads;
	/* Datagrams that the last read asked for. */
	unsigned asked;
} flood;

static int one_more(void)
{
	assert_true(++flood.reads < READS_MAX);
	return 1;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
	flood.asked = count;
	if (!flood.flows)
		return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, timeout);
	messages[0].msg_len = 0;
	messages[0].msg_hdr.msg_controllen = 0;
	return one_more();
}

/* A message that nobody can have handed on: too short. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	flood.asked = 1;
	if (!flood.flows)
		return syscall(SYS_recvmsg, fd, message, flags);
	message->msg_controllen = 0;
	return one_more();
}

static struct fabric *open_shared(void)
{
	struct fabric *fabric;

	flood.flows = false;
	flood.reads = 0;
	/* A port of its own choice is shared with nobody; a fixed one may be. */
	assert_int_equal(fabric_open("roce:127.0.0.78@47910", NULL, &fabric), 0);
	return fabric;
}

static void poll_ends(void **state)
{
	struct fabric_event events[FABRIC_EVENTS];
	struct fabric *fabric = open_shared();

	(void)state;
	flood.flows = true;
	for (int i = 0; i < 20; i++) {
		flood.reads = 0;
		assert_int_equal(fabric->ops->poll(fabric, events), 0);
		assert_in_range(flood.reads, 1, 40);
	}
	flood.flows = false;
	fabric->ops->close(fabric);
}

/* Polls once, with a datagram there or not; returns how many it asked for. */
static unsigned asked(struct fabric *fabric, bool one_is_there)
{
	struct fabric_event events[FABRIC_EVENTS];

	flood.flows = one_is_there;
	assert_int_equal(fabric->ops->poll(fabric, events), 0);
	flood.flows = false;
	return flood.asked;
}

/* To look for a second datagram takes the kernel a while: whoever gets one at a time asks for one. */
static void lone_datagrams_are_asked_for_singly(void **state)
{
	struct pollfd fds[FABRIC_FDS] = { 0 };
	struct fabric *fabric;

	(void)state;
	flood.reads = 0;
	assert_int_equal(fabric_open("roce:127.0.0.1@0", NULL, &fabric), 0);
	asked(fabric, false);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(asked(fabric, true), 1);
		assert_int_equal(asked(fabric, false), 1);
	}
	/* Asleep in between. */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(asked(fabric, true), 1);
		fabric->ops->watched(fabric, fds);
	}
	assert_int_equal(asked(fabric, true), 1);
	assert_int_equal(asked(fabric, true), 1);
	assert_int_equal(asked(fabric, true), RX_BATCH);
	assert_int_equal(asked(fabric, true), 1);
	fabric->ops->close(fabric);
}

/* What ran over the socket is counted once, however many datagrams tell of it. */
static void overruns_count_once(void **state)
{
	struct fabric_event events[FABRIC_EVENTS];
	struct fabric *fabric = open_shared();
	struct roce_endpoint *endpoint = endpoint_of(fabric);
	uint32_t memory[SK_MEMINFO_VARS] = { 0 };
	socklen_t length = sizeof(memory);
	int out = socket(AF_INET, SOCK_DGRAM, 0), small = 4096;
	uint8_t junk[512] = { 0 };

	(void)state;
	assert_true(out >= 0);
	assert_int_equal(setsockopt(endpoint->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	for (int round = 0; round < 5; round++) {
		/* One burst that runs over, then single ones that repeat the number. */
		for (int i = 0; i < (round ? 1 : 200); i++)
			sendto(out, junk, sizeof(junk), 0, &endpoint->local.any,
			       endpoint->local_length);
		for (int i = 0; i < 10; i++)
			fabric->ops->poll(fabric, events);
	}
	assert_int_equal(getsockopt(endpoint->fd, SOL_SOCKET, SO_MEMINFO, memory, &length), 0);
	assert_in_range(memory[SK_MEMINFO_DROPS], 100, 200);
	assert_int_equal(fabric->counters[FABRIC_DROP_OVERRUN], memory[SK_MEMINFO_DROPS]);
	assert_true(fabric->emptied);
	close(out);
	fabric->ops->close(fabric);
}

static void close_ends(void **state)
{
	struct fabric *fabric = open_shared();

	(void)state;
	flood.flows = true;
	fabric->ops->close(fabric);
	assert_in_range(flood.reads, 1, 100);
}

static void open_ends(void **state)
{
	struct fabric *fabric = open_shared();
	struct fabric *other;

	(void)state;
	flood.flows = true;
	assert_int_equal(fabric_open("roce:127.0.0.78@47910", NULL, &other), 0);
	flood.flows = false;
	other->ops->close(other);
	fabric->ops->close(fabric);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_ends),  cmocka_unit_test(lone_datagrams_are_asked_for_singly),
		cmocka_unit_test(close_ends), cmocka_unit_test(overruns_count_once),
		cmocka_unit_test(open_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
