/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several contexts and several processes on one address and port. Everybody reaches everybody, also after some have
 * gone and the kernel's order of sockets no longer is the order of classes. Transfers run under Selective Repeat: what
 * is handed on goes through short queues and may be lost like any packet.
 */
#include "../message/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/open.h"
#include "fabric/roce/endpoint.h"
#include "message/state.h"
#include "wire/bytes.h"

#define LENGTH	      30001u
#define ROOM	      (2 * LENGTH)
#define CROWD	      7
#define CHILDREN      3
#define TWO_CHECKS_NS UINT64_C(500000000)
#define CHILD_LIFE_S  25 /* longer than any wait of the parent's */

static uint16_t free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	close(fd);
	return ntohs(address.sin_port);
}

static int open_context(uint16_t port, struct gw_context **out)
{
	struct gw_context_attr attr = { .max_qps = 64, .max_sends = 64, .max_recvs = 64 };
	char fabric[64];

	snprintf(fabric, sizeof(fabric), "roce:127.0.0.1@%u", port);
	attr.fabric = fabric;
	return gw_context_open(&attr, out);
}

/* ---- contexts of one process ----------------------------------------------------------------------------------- */

struct member {
	struct gw_context *ctx; /* null: not there */
	struct gw_mr *mr;
	uint8_t memory[ROOM];
	struct gw_qp *qps[CROWD]; /* to each of the others */
};

static struct member crowd[CROWD];

static void join(unsigned i, uint16_t port)
{
	struct member *new = &crowd[i];

	memset(new, 0, sizeof(*new));
	assert_int_equal(open_context(port, &new->ctx), 0);
	assert_int_equal(gw_mr_register(new->ctx, new->memory, ROOM, &new->mr), 0);
	for (unsigned j = 0; j < CROWD; j++) {
		struct gw_qp_info info[2];

		if (j == i || !crowd[j].ctx)
			continue;
		assert_int_equal(gw_qp_create(new->ctx, NULL, &new->qps[j]), 0);
		assert_int_equal(gw_qp_create(crowd[j].ctx, NULL, &crowd[j].qps[i]), 0);
		assert_int_equal(gw_qp_info(new->qps[j], &info[0]), 0);
		assert_int_equal(gw_qp_info(crowd[j].qps[i], &info[1]), 0);
		assert_int_equal(gw_qp_connect(new->qps[j], &info[1]), 0);
		assert_int_equal(gw_qp_connect(crowd[j].qps[i], &info[0]), 0);
	}
}

static void leave(unsigned i)
{
	if (crowd[i].ctx)
		assert_int_equal(gw_context_close(crowd[i].ctx), 0);
	crowd[i].ctx = NULL;
}

static void count_end(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	assert_int_equal(result->status, 0);
	++*(unsigned *)arg;
}

static bool asleep[CROWD];

static void carry(struct member *from, struct gw_qp *out, struct member *to, struct gw_qp *in)
{
	unsigned ended = 0;
	struct gw_transfer_attr send_attr = { .addr = from->memory,
					      .length = LENGTH,
					      .mr = from->mr,
					      .done = count_end,
					      .arg = &ended };
	struct gw_transfer_attr recv_attr = { .addr = to->memory + LENGTH,
					      .length = LENGTH,
					      .mr = to->mr,
					      .done = count_end,
					      .arg = &ended };
	uint64_t limit = gw_now_ns(from->ctx) + PAIR_PATIENCE_NS;
	struct gw_send *send;
	struct gw_recv *recv;

	memset(to->memory + LENGTH, 0, LENGTH);
	assert_int_equal(gw_transfer_recv(in, &gw_selective_repeat, &recv_attr, &recv), 0);
	assert_int_equal(gw_transfer_send(out, &gw_selective_repeat, &send_attr, &send), 0);
	while (ended < 2) {
		assert_true(gw_now_ns(from->ctx) < limit);
		for (unsigned i = 0; i < CROWD; i++)
			if (crowd[i].ctx && !asleep[i])
				gw_progress(crowd[i].ctx);
	}
	assert_memory_equal(to->memory + LENGTH, from->memory, LENGTH);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(gw_recv_close(recv), 0);
}

static void all_to_all(void)
{
	for (unsigned i = 0; i < CROWD; i++)
		for (unsigned j = 0; j < CROWD; j++) {
			if (i == j || !crowd[i].ctx || !crowd[j].ctx)
				continue;
			fill_pattern(crowd[i].memory, LENGTH, i * CROWD + j);
			carry(&crowd[i], crowd[i].qps[j], &crowd[j], crowd[j].qps[i]);
		}
}

static uint64_t total(const char *name)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CROWD; i++)
		sum += crowd[i].ctx ? counter(crowd[i].ctx, name) : 0;
	return sum;
}

static uint32_t class_of(unsigned i)
{
	return endpoint_of(crowd[i].ctx->fabric)->class;
}

static void contexts_come_and_go(void **state)
{
	uint16_t port = free_port();

	(void)state;
	for (unsigned i = 0; i < CROWD - 1; i++)
		join(i, port);
	for (unsigned i = 0; i < CROWD - 1; i++)
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(class_of(i), class_of(j));
	all_to_all();
	assert_int_equal(total("rx_forwarded_packets"), 0);

	/* The last two sockets move into the gaps; at most one of them can be where the kernel looks for it. */
	leave(1);
	leave(2);
	all_to_all();
	assert_true(total("rx_forwarded_packets") > 0);

	/* One more, whose place among the sockets is the number of somebody else's class. */
	join(CROWD - 1, port);
	for (unsigned i = 0; i < CROWD - 1; i++)
		if (crowd[i].ctx)
			assert_int_not_equal(class_of(i), class_of(CROWD - 1));
	all_to_all();
	join(1, port);
	all_to_all();
	for (unsigned i = 0; i < CROWD; i++)
		leave(i);
}

/* A socket that moved is found again without the help of the process that gets its packets meanwhile: 5 moves to place 1,
 * and 6 joins at place 5 and sleeps. */
static void sleepers_starve_nobody(void **state)
{
	uint16_t port = free_port();

	(void)state;
	for (unsigned i = 0; i < CROWD - 1; i++)
		join(i, port);
	leave(1);
	join(CROWD - 1, port);
	assert_int_not_equal(class_of(CROWD - 1), class_of(5));
	asleep[CROWD - 1] = true;
	for (unsigned i = 0; i < 3; i++) {
		fill_pattern(crowd[2].memory, LENGTH, i);
		carry(&crowd[2], crowd[2].qps[5], &crowd[5], crowd[5].qps[2]);
		carry(&crowd[5], crowd[5].qps[2], &crowd[2], crowd[2].qps[5]);
	}
	assert_true(counter(crowd[5].ctx, "rx_steered") >= 1);
	assert_int_equal(counter(crowd[2].ctx, "rx_steered"), 0);
	memset(asleep, 0, sizeof(asleep));

	/* One that joins later leaves the table alone. */
	all_to_all();
	join(1, port);
	for (uint64_t until = gw_now_ns(crowd[5].ctx) + TWO_CHECKS_NS;
	     gw_now_ns(crowd[5].ctx) < until;)
		gw_progress(crowd[5].ctx);
	all_to_all();
	assert_int_equal(counter(crowd[5].ctx, "rx_steered"), 1);
	for (unsigned i = 0; i < CROWD; i++)
		leave(i);
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

struct child {
	pid_t pid;
	int fd;
	struct gw_qp *qp;
};

struct echo {
	struct gw_qp *qp;
	struct gw_mr *mr;
	struct gw_send *send;
	struct gw_recv *recv;
	uint8_t memory[LENGTH];
};

static void must(bool fine)
{
	if (!fine)
		_exit(1);
}

static void echo_listen(struct echo *echo);

static void echoed(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct echo *echo = arg;

	must(!result->status);
	gw_send_close(echo->send);
	echo_listen(echo);
}

static void echo_answer(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct echo *echo = arg;
	struct gw_transfer_attr attr = {
		.addr = echo->memory, .length = LENGTH, .mr = echo->mr, .done = echoed, .arg = echo
	};

	must(!result->status);
	gw_recv_close(echo->recv);
	must(!gw_transfer_send(echo->qp, &gw_selective_repeat, &attr, &echo->send));
}

static void echo_listen(struct echo *echo)
{
	struct gw_transfer_attr attr = { .addr = echo->memory,
					 .length = LENGTH,
					 .mr = echo->mr,
					 .done = echo_answer,
					 .arg = echo };

	must(!gw_transfer_recv(echo->qp, &gw_selective_repeat, &attr, &echo->recv));
}

/* Opens when told to, sends back what it gets, ends when the socket is shut down. */
static void child_main(int fd, uint16_t port)
{
	static struct echo echo;
	struct gw_context *ctx;
	struct gw_qp_info info;
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(CHILD_LIFE_S);
	must(read(fd, &go, 1) == 1);
	must(!open_context(port, &ctx));
	must(!gw_mr_register(ctx, echo.memory, LENGTH, &echo.mr));
	must(!gw_qp_create(ctx, NULL, &echo.qp));
	must(!gw_qp_info(echo.qp, &info));
	must(write(fd, &info, sizeof(info)) == sizeof(info));
	must(recv(fd, &info, sizeof(info), MSG_WAITALL) == sizeof(info));
	must(!gw_qp_connect(echo.qp, &info));
	echo_listen(&echo);
	must(write(fd, &go, 1) == 1);
	for (;;) {
		struct pollfd closed = { .fd = fd, .events = POLLIN };

		must(gw_wait(ctx, 1000000) >= 0);
		if (poll(&closed, 1, 0) > 0)
			_exit(0);
	}
}

static void start(struct child *child, uint16_t port)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (!child->pid) {
		close(fds[0]);
		child_main(fds[1], port);
	}
	close(fds[1]);
	child->fd = fds[0];
}

static void meet(struct child *child, struct gw_context *ctx)
{
	struct gw_qp_info info;
	char go = 'g';

	assert_int_equal(write(child->fd, &go, 1), 1);
	assert_int_equal(recv(child->fd, &info, sizeof(info), MSG_WAITALL), sizeof(info));
	assert_int_equal(gw_qp_create(ctx, NULL, &child->qp), 0);
	assert_int_equal(gw_qp_connect(child->qp, &info), 0);
	assert_int_equal(gw_qp_info(child->qp, &info), 0);
	assert_int_equal(write(child->fd, &info, sizeof(info)), sizeof(info));
	assert_int_equal(read(child->fd, &go, 1), 1);
}

static void ask(struct child *child, struct member *self, uint64_t seed)
{
	fill_pattern(self->memory, LENGTH, seed);
	carry(self, child->qp, self, child->qp);
}

/* Shut down and not only closed: children that were started later hold the same socket. */
static int exit_status(struct child *child)
{
	int status;

	shutdown(child->fd, SHUT_RDWR);
	close(child->fd);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	return status;
}

static void processes_come_and_go(void **state)
{
	struct child children[CHILDREN];
	struct member *self = &crowd[0];
	uint16_t port = free_port();

	(void)state;
	memset(crowd, 0, sizeof(crowd));
	/* Before any socket is open, so that none is inherited. */
	for (unsigned i = 0; i < CHILDREN; i++)
		start(&children[i], port);
	assert_int_equal(open_context(port, &self->ctx), 0);
	assert_int_equal(gw_mr_register(self->ctx, self->memory, ROOM, &self->mr), 0);
	for (unsigned i = 0; i < CHILDREN; i++)
		meet(&children[i], self->ctx);
	for (unsigned i = 0; i < CHILDREN; i++)
		ask(&children[i], self, i);

	/* One in the middle dies without a word; the last socket takes its place. */
	assert_int_equal(kill(children[1].pid, SIGKILL), 0);
	assert_true(WIFSIGNALED(exit_status(&children[1])));
	for (unsigned round = 0; round < 3; round++) {
		ask(&children[0], self, 10 + round);
		ask(&children[2], self, 20 + round);
	}
	/* And one ends as it should. */
	assert_int_equal(exit_status(&children[0]), 0);
	for (unsigned round = 0; round < 3; round++)
		ask(&children[2], self, 30 + round);
	assert_int_equal(exit_status(&children[2]), 0);
	assert_int_equal(gw_context_close(self->ctx), 0);
	self->ctx = NULL;
}

/* ---- joining under traffic ------------------------------------------------------------------------------------- */

#define JOINS	    20
#define FLOOD_BURST 8
#define FLOOD_US    50

/* Told a class, sends packets for it until killed. */
static pid_t start_flood(uint16_t port, int *out)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	uint8_t packet[64] = { 0 };
	uint8_t class;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid) {
		close(fds[0]);
		*out = fds[1];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(CHILD_LIFE_S);
	must(read(fds[0], &class, 1) == 1);
	put_be24(packet + 5, (uint32_t) class << CLASS_SHIFT);
	for (int fd = socket(AF_INET, SOCK_DGRAM, 0);; usleep(FLOOD_US))
		for (int i = 0; i < FLOOD_BURST; i++)
			sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to));
}

/* A joining process is where the kernel looks for somebody whose socket has moved: it has to hand packets on before it
 * has a class of its own, and must get one all the same. */
static void joins_where_others_are_looked_for(void **state)
{
	uint16_t port = free_port();
	uint8_t class;
	pid_t flood;
	int fd;

	(void)state;
	memset(crowd, 0, sizeof(crowd));
	flood = start_flood(port, &fd); /* before any socket is open, so that none is inherited */
	for (unsigned i = 0; i < 4; i++)
		join(i, port);
	/* The last moves into the gap, and the next to join gets its place. */
	leave(1);
	class = (uint8_t)class_of(3);
	assert_int_equal(write(fd, &class, 1), 1);
	for (int i = 0; i < JOINS; i++) {
		struct gw_context *ctx = NULL;

		assert_int_equal(open_context(port, &ctx), 0);
		assert_int_not_equal(endpoint_of(ctx->fabric)->class, class);
		assert_int_equal(gw_context_close(ctx), 0);
	}
	join(1, port);
	assert_int_not_equal(class_of(1), class);
	carry(&crowd[0], crowd[0].qps[3], &crowd[3], crowd[3].qps[0]);
	assert_true(counter(crowd[1].ctx, "rx_forwarded_packets") > 0);
	assert_int_equal(kill(flood, SIGKILL), 0);
	assert_int_equal(waitpid(flood, NULL, 0), flood);
	close(fd);
	all_to_all();
	for (unsigned i = 0; i < CROWD; i++)
		leave(i);
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
	assert_int_equal(open_context(ntohs(address.sin_port), &ctx), -EADDRINUSE);
	assert_null(ctx);
	close(fd);
	assert_int_equal(open_context(ntohs(address.sin_port), &ctx), 0);
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
	uint16_t port = free_port();
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts_come_and_go),
		cmocka_unit_test(sleepers_starve_nobody),
		cmocka_unit_test(processes_come_and_go),
		cmocka_unit_test(joins_where_others_are_looked_for),
		cmocka_unit_test(port_of_a_stranger),
		cmocka_unit_test(one_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
