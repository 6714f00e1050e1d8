/* SPDX-License-Identifier: BSD-3-Clause */
/* Several processes on one address and port: they come, go and die, also while packets pour in for one of them. */
#include "crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/roce/endpoint.h"
#include "message/state.h"
#include "base/bytes.h"

#define CHILDREN     3
#define CHILD_LIFE_S 25 /* longer than any wait of the parent's */

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
	uint8_t memory[CROWD_LENGTH];
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
	struct gw_transfer_attr attr = { .addr = echo->memory,
					 .length = CROWD_LENGTH,
					 .mr = echo->mr,
					 .done = echoed,
					 .arg = echo };

	must(!result->status);
	gw_recv_close(echo->recv);
	must(!gw_transfer_send(echo->qp, &gw_selective_repeat, &attr, &echo->send));
}

static void echo_listen(struct echo *echo)
{
	struct gw_transfer_attr attr = { .addr = echo->memory,
					 .length = CROWD_LENGTH,
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
	must(!crowd_context(port, &ctx));
	must(!gw_mr_register(ctx, echo.memory, CROWD_LENGTH, &echo.mr));
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
	fill_pattern(self->memory, CROWD_LENGTH, seed);
	crowd_carry(self, child->qp, self, child->qp);
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
	uint16_t port = crowd_port();

	(void)state;
	memset(crowd, 0, sizeof(crowd));
	/* Before any socket is open, so that none is inherited. */
	for (unsigned i = 0; i < CHILDREN; i++)
		start(&children[i], port);
	assert_int_equal(crowd_context(port, &self->ctx), 0);
	assert_int_equal(gw_mr_register(self->ctx, self->memory, CROWD_ROOM, &self->mr), 0);
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
#define JOINS_MOST  5000
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
	uint16_t port = crowd_port();
	uint64_t forwarded = 0;
	uint8_t class;
	pid_t flood;
	int fd;

	(void)state;
	memset(crowd, 0, sizeof(crowd));
	flood = start_flood(port, &fd); /* before any socket is open, so that none is inherited */
	for (unsigned i = 0; i < 4; i++)
		crowd_join(i, port);
	/* The last moves into the gap, and the next to join gets its place. */
	crowd_leave(1);
	class = (uint8_t)crowd_class(3);
	assert_int_equal(write(fd, &class, 1), 1);
	/* The flood waits for a processor, too. And when the last one is there it tells the kernel where it is, after which nobody else gets its
	 * packets. */
	for (int i = 0; i < JOINS || (!forwarded && i < JOINS_MOST); i++) {
		struct gw_context *ctx = NULL;

		assert_int_equal(crowd_context(port, &ctx), 0);
		assert_int_not_equal(endpoint_of(ctx->fabric)->class, class);
		gw_wait(ctx, 1000000);
		forwarded += counter(ctx, "rx_forwarded_packets");
		assert_int_equal(gw_context_close(ctx), 0);
	}
	assert_true(forwarded > 0);
	crowd_join(1, port);
	assert_int_not_equal(crowd_class(1), class);
	crowd_carry(&crowd[0], crowd[0].qps[3], &crowd[3], crowd[3].qps[0]);
	assert_int_equal(kill(flood, SIGKILL), 0);
	assert_int_equal(waitpid(flood, NULL, 0), flood);
	close(fd);
	crowd_all_to_all();
	for (unsigned i = 0; i < CROWD; i++)
		crowd_leave(i);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_come_and_go),
		cmocka_unit_test(joins_where_others_are_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
