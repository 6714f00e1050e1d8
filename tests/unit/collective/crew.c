/* SPDX-License-Identifier: BSD-3-Clause */
#include "crew.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Letters carry their number within those from one rank to another, and a pattern. */
struct stream {
	uint32_t next[CREW_RANKS];
};

static struct member *self;
static struct stream *streams;
/* how long a turn sleeps: many processes must not keep the machine busy with looking at shared memory */
static int turn_ms;

uint64_t crew_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

void crew_sleep_ms(unsigned ms)
{
	struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000 * MS) };

	nanosleep(&time, NULL);
}

/* A port that was free a moment ago, and that no connection gets meanwhile: below those that the system gives to them. */
static uint16_t free_port(void)
{
	static unsigned tried;

	for (;;) {
		struct sockaddr_in address = { .sin_family = AF_INET };
		uint16_t port = (uint16_t)(20000 + ((unsigned)getpid() * 31 + tried++) % 12000);
		int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

		address.sin_port = htons(port);
		rc = bind(fd, (struct sockaddr *)&address, sizeof(address));
		close(fd);
		if (rc == 0)
			return port;
	}
}

static void *shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

void crew_prepare(struct crew *crew, uint32_t size)
{
	*crew = (struct crew){ .port = free_port(),
			       .size = size,
			       .meet_ns = 20000 * MS,
			       .peer_timeout_ns = 10000 * MS,
			       .members = shared((CREW_RANKS + 1) * sizeof(struct member)),
			       .stage = shared(sizeof(uint32_t)) };
}

void crew_free(struct crew *crew)
{
	munmap(crew->members, (CREW_RANKS + 1) * sizeof(struct member));
	munmap((void *)crew->stage, sizeof(uint32_t));
}

/* ---- in a process ----------------------------------------------------------------------------------------------- */

void crew_complain(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: process %d waits in vain for %s\n", file, line, getpid(),
		condition);
	_exit(1);
}

static void letter(void *arg, uint32_t from, const void *data, size_t length)
{
	uint32_t number = 0;

	self->letters++;
	if (from < 16)
		self->letters_from[from]++;
	if (length >= sizeof(number))
		memcpy(&number, data, sizeof(number));
	if (number != streams->next[from]++)
		self->wrong++;
	for (size_t i = sizeof(number); i < length; i++) {
		if (((const uint8_t *)data)[i] != (uint8_t)(number + i)) {
			self->wrong++;
			break;
		}
	}
}

static void lost(void *arg, uint32_t rank, const char *why)
{
	snprintf(self->lost_why, sizeof(self->lost_why), "%s", why);
	self->lost_ns = crew_now();
	self->lost = rank;
	self->losses++;
}

static void left(void *arg, uint32_t rank)
{
	self->leavings++;
	self->left = rank;
}

static const struct mail_handler handler = { .letter = letter, .lost = lost, .left = left };

int crew_turn(struct mail *mail)
{
	struct pollfd fd = { .fd = mail->ops->fd(mail), .events = POLLIN };

	poll(&fd, 1, turn_ms);
	return mail->ops->progress(mail, crew_now());
}

int crew_send(struct mail *mail, uint32_t to, uint32_t number, size_t length)
{
	uint8_t data[MAIL_MAX + 1];

	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(number + i);
	memcpy(data, &number, sizeof(number));
	return mail->ops->send(mail, to, data, length);
}

static void run(struct crew *crew, uint32_t slot, uint32_t rank, uint32_t size, const char *secret,
		crew_fn *fn)
{
	struct hub_attr attr = { .rank = rank,
				 .size = size,
				 .root = "127.0.0.1",
				 .port = crew->port,
				 .secret_file = secret,
				 .meet_ns = crew->meet_ns,
				 .peer_timeout_ns = crew->peer_timeout_ns };
	struct mail *mail = NULL;

	self = &crew->members[slot];
	streams = calloc(1, sizeof(*streams));
	turn_ms = size > 64 ? 500 : 10;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self->rc = hub_open(&attr, &handler, NULL, self->why, &mail);
	self->open = true;
	if (self->rc == 0 && fn)
		fn(crew, rank, mail);
	if (self->rc == 0)
		mail->ops->close(mail);
	free(streams);
}

/* ---- in the test ------------------------------------------------------------------------------------------------ */

void crew_start_as(struct crew *crew, uint32_t slot, uint32_t rank, uint32_t size,
		   const char *secret_file, crew_fn *fn)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		run(crew, slot, rank, size, secret_file, fn);
		_exit(0);
	}
	crew->members[slot].pid = pid;
}

void crew_start(struct crew *crew, uint32_t rank, crew_fn *fn)
{
	crew_start_as(crew, rank, rank, crew->size, crew->secret_file, fn);
}

void crew_join(struct crew *crew, uint32_t slot, int signal)
{
	int status;

	assert_int_equal(waitpid(crew->members[slot].pid, &status, 0), crew->members[slot].pid);
	if (signal) {
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), signal);
	} else {
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}
