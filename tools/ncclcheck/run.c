/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/command.h"
#include "remote.h"

/* A worker that hangs in a call cannot end itself: it is killed so much later; and when the other one has failed. */
#define GRACE_NS      UINT64_C(5000000000)
#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS     UINT64_C(1000000)
#define LINE_MAX_TEXT 2048
/* Oldest version that is looked for, so that it can be named. */
#define VERSION_FIRST 4

struct rank {
	pid_t pid;
	/* read end of its pipe; -1 when it has ended */
	int fd;
	int status;
	bool killed, passed;
	/* when it failed or ended */
	uint64_t ended_ns;
	char step[256];
	char note[512];
	char fail[1024];
	char skip[1024];
	char said[512];
	char buffer[LINE_MAX_TEXT];
	size_t used;
};

int run_versions(const struct run *run, uint32_t *out, char *why, size_t size)
{
	struct {
		uint32_t versions;
		char why[512];
	} answer = { 0, "loading it ended the process" };
	int pipes[2], status;
	pid_t child;

	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child == 0) {
		void *library = dlopen(run->plugin, RTLD_NOW | RTLD_LOCAL);

		snprintf(answer.why, sizeof(answer.why), "%s", library ? "" : dlerror());
		for (unsigned i = VERSION_FIRST; library && i < 32; i++) {
			char symbol[32];

			snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%u", i);
			if (dlsym(library, symbol))
				answer.versions |= 1u << i;
		}
		(void)!write(pipes[1], &answer, sizeof(answer));
		_exit(0);
	}
	close(pipes[1]);
	if (child > 0) {
		(void)!read(pipes[0], &answer, sizeof(answer));
		waitpid(child, &status, 0);
	}
	close(pipes[0]);
	snprintf(why, size, "%s", answer.why);
	*out = answer.versions;
	return answer.why[0] ? -ENOEXEC : 0;
}

static pid_t start(const struct run *run, const struct check_case *c, int version, int rank,
		   int link, int result)
{
	char text[9][16];
	pid_t child;

	snprintf(text[0], sizeof(text[0]), "%d", version);
	snprintf(text[1], sizeof(text[1]), "%d", rank);
	snprintf(text[2], sizeof(text[2]), "%d", link);
	snprintf(text[3], sizeof(text[3]), "%d", result);
	snprintf(text[4], sizeof(text[4]), "%u", run->timeout_s + c->extra_s);
	snprintf(text[5], sizeof(text[5]), "%d", run->dev);
	snprintf(text[6], sizeof(text[6]), "%u", run->connections);
	snprintf(text[7], sizeof(text[7]), "%u", run->channels);
	snprintf(text[8], sizeof(text[8]), "%u", run->silence_s);
	child = fork();
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	if (link >= 0)
		fcntl(link, F_SETFD, 0);
	fcntl(result, F_SETFD, 0);
	execl("/proc/self/exe", "godwit", "ncclcheck", "worker", run->plugin, c->name, text[0],
	      text[1], text[2], text[3], text[4], text[5], text[6], text[7], text[8],
	      run->verbose ? "1" : "0", (char *)NULL);
	_exit(EXIT_FAILED);
}

static void take_metric(struct run_outcome *out, const char *text)
{
	char name[64];
	double value;

	if (sscanf(text, "%63s %lf", name, &value) == 2)
		json_object_set_new(out->metrics, name, json_real(value));
}

static void take_line(struct rank *rank, struct run_outcome *out, char *line)
{
	char *text = strchr(line, ' ');

	if (!text)
		return;
	*text++ = '\0';
	if (!strcmp(line, "step"))
		snprintf(rank->step, sizeof(rank->step), "%s", text);
	else if (!strcmp(line, "note"))
		snprintf(rank->note, sizeof(rank->note), "%s", text);
	else if (!strcmp(line, "said"))
		snprintf(rank->said, sizeof(rank->said), "%s", text);
	else if (!strcmp(line, "skip"))
		snprintf(rank->skip, sizeof(rank->skip), "%s", text);
	else if (!strcmp(line, "fail") && !rank->fail[0]) {
		snprintf(rank->fail, sizeof(rank->fail), "%s", text);
		rank->ended_ns = net_now_ns();
	}
	if (!strcmp(line, "peer") && !rank->fail[0])
		snprintf(rank->fail, sizeof(rank->fail), "the other rank says: %s", text);
	else if (!strcmp(line, "pass"))
		rank->passed = true;
	else if (!strcmp(line, "metric"))
		take_metric(out, text);
}

/* Reads what a rank tells. False when it has closed its pipe. */
static bool take(struct rank *rank, struct run_outcome *out)
{
	ssize_t n =
		read(rank->fd, rank->buffer + rank->used, sizeof(rank->buffer) - 1 - rank->used);
	char *line = rank->buffer, *end;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if (n == 0)
		return false;
	rank->used += (size_t)n;
	rank->buffer[rank->used] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		take_line(rank, out, line);
		line = end + 1;
	}
	rank->used -= (size_t)(line - rank->buffer);
	memmove(rank->buffer, line, rank->used);
	if (rank->used == sizeof(rank->buffer) - 1)
		rank->used = 0;
	return true;
}

static void finish(struct rank *rank)
{
	if (!rank->ended_ns)
		rank->ended_ns = net_now_ns();
	close(rank->fd);
	rank->fd = -1;
	/* Also what it forked. */
	kill(-rank->pid, SIGKILL);
	waitpid(rank->pid, &rank->status, 0);
}

/* Reads from all ranks until all have ended or the time is over. */
static void watch(struct rank *ranks, int count, uint64_t deadline_ns, struct run_outcome *out)
{
	uint64_t limit_ns = deadline_ns;
	bool failed = false;

	for (;;) {
		struct pollfd fds[2];
		bool open = false;

		for (int i = 0; i < count; i++) {
			fds[i] = (struct pollfd){ .fd = ranks[i].fd, .events = POLLIN };
			open |= ranks[i].fd >= 0;
		}
		if (!open)
			return;
		if (net_now_ns() >= deadline_ns) {
			for (int i = 0; i < count; i++) {
				if (ranks[i].fd < 0)
					continue;
				/* If its own time is over, too, it hangs in a call. */
				ranks[i].killed = net_now_ns() >= limit_ns;
				finish(&ranks[i]);
			}
			return;
		}
		poll(fds, (nfds_t)count, 100);
		for (int i = 0; i < count; i++) {
			if (ranks[i].fd >= 0 && fds[i].revents && !take(&ranks[i], out))
				finish(&ranks[i]);
			/* Nothing that the other one does now decides the case. It may be in a call for minutes. */
			if (ranks[i].fail[0] && !failed) {
				failed = true;
				if (net_now_ns() + GRACE_NS < deadline_ns)
					deadline_ns = net_now_ns() + GRACE_NS;
			}
		}
	}
}

/* What one rank has to say about the outcome. True if it decides it. */
static bool judge_rank(const struct rank *rank, const struct check_case *c, int number, bool skips,
		       struct run_outcome *out)
{
	char who[16] = "";

	if (c->ranks > 1)
		snprintf(who, sizeof(who), "rank %d: ", number);
	if (skips && rank->skip[0]) {
		out->verdict = RUN_SKIP;
		snprintf(out->text, sizeof(out->text), "%s", rank->skip);
		return true;
	}
	if (skips || rank->passed || rank->skip[0] || (number == 1 && c->flags & CASE_DEADLY))
		return false;
	out->verdict = RUN_FAIL;
	if (rank->fail[0])
		snprintf(out->text, sizeof(out->text), "%s%s", who, rank->fail);
	else if (rank->killed)
		snprintf(out->text, sizeof(out->text), "%shangs: %s", who, rank->step);
	else
		snprintf(out->text, sizeof(out->text), "%sthe process ended (status %#x): %s", who,
			 (unsigned)rank->status, rank->step);
	if (rank->said[0]) {
		size_t used = strlen(out->text);

		snprintf(out->text + used, sizeof(out->text) - used, "; the plugin said: %s",
			 rank->said);
	}
	return true;
}

/* A rank that says only that the other one ended, or that its plugin found it gone, knows less than the other. */
static bool is_echo(const struct rank *rank)
{
	return strstr(rank->fail, "the other process ended") ||
	       strstr(rank->fail, "remote error") ||
	       !strncmp(rank->fail, "the other rank says", 19);
}

/* The rank that failed first is the one to quote: the other's errors follow from that. */
static bool second_first(const struct rank *ranks, const struct check_case *c)
{
	if (c->flags & CASE_DEADLY || ranks[1].passed)
		return false;
	/* One that hangs in a call is the cause, although the other's time is over first. */
	if (ranks[0].killed || ranks[1].killed)
		return !ranks[0].killed;
	if (is_echo(&ranks[0]) != is_echo(&ranks[1]))
		return is_echo(&ranks[0]);
	return ranks[1].ended_ns < ranks[0].ended_ns;
}

static void judge(const struct rank *ranks, const struct check_case *c, int count,
		  struct run_outcome *out)
{
	bool swap = count == 2 && second_first(ranks, c);

	for (int skips = 1; skips >= 0; skips--) {
		for (int i = 0; i < count; i++) {
			int number = swap ? !i : i;

			if (judge_rank(&ranks[number], c, number, skips, out))
				return;
		}
	}
	out->verdict = RUN_PASS;
	for (int i = count - 1; i >= 0; i--) {
		if (ranks[i].note[0])
			snprintf(out->text, sizeof(out->text), "%s", ranks[i].note);
	}
}

/* Starts the ranks that run here, `first` and up, and waits for them. */
static void run_here(const struct run *run, const struct check_case *c, const int version[2],
		     int first, int count, const int link[2], struct run_outcome *out)
{
	struct rank ranks[2] = { { .fd = -1 }, { .fd = -1 } };
	uint64_t begin = net_now_ns();

	out->metrics = json_object();
	for (int i = 0; i < count; i++) {
		int pipes[2];

		if (pipe2(pipes, O_CLOEXEC)) {
			snprintf(ranks[i].fail, sizeof(ranks[i].fail), "no pipe: %s",
				 strerror(errno));
			continue;
		}
		ranks[i].pid = start(run, c, version[first + i], first + i, link[i], pipes[1]);
		close(pipes[1]);
		ranks[i].fd = pipes[0];
		if (link[i] >= 0)
			close(link[i]);
	}
	watch(ranks, count, begin + (run->timeout_s + c->extra_s) * NS_PER_SECOND + GRACE_NS, out);
	out->seconds = (double)(net_now_ns() - begin) / (double)NS_PER_SECOND;
	judge(ranks, c, count, out);
}

void run_case(const struct run *run, const struct check_case *c, int version, int other,
	      struct run_outcome *out)
{
	int link[2] = { -1, -1 }, versions[2] = { version, other };
	struct remote_order order = { .version = other,
				      .timeout_s = run->timeout_s,
				      .connections = run->connections,
				      .channels = run->channels,
				      .dev = run->dev };

	memset(out, 0, sizeof(*out));
	if (c->ranks == 1) {
		run_here(run, c, versions, 0, 1, link, out);
		return;
	}
	if (!run->peer) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link)) {
			out->verdict = RUN_FAIL;
			snprintf(out->text, sizeof(out->text), "no socket: %s", strerror(errno));
			return;
		}
		run_here(run, c, versions, 0, 2, link, out);
		return;
	}
	snprintf(order.name, sizeof(order.name), "%s", c->name);
	link[0] = remote_connect(run->peer, run->port, &order);
	if (link[0] < 0) {
		out->verdict = RUN_FAIL;
		snprintf(out->text, sizeof(out->text), "cannot reach %s: %s", run->peer,
			 strerror(-link[0]));
		return;
	}
	run_here(run, c, versions, 0, 1, link, out);
}

int run_serve(const struct run *run, const char *bind)
{
	int listener = remote_listen(bind, run->port);

	if (listener < 0)
		return listener;
	for (;;) {
		struct remote_order order;
		const struct check_case *c;
		struct run_outcome outcome = { 0 };
		struct run here = *run;
		int link[2] = { remote_accept(listener, &order), -1 }, versions[2];

		if (link[0] == -ESHUTDOWN)
			break;
		c = link[0] >= 0 ? case_find(order.name) : NULL;
		if (!c) {
			if (link[0] >= 0)
				close(link[0]);
			continue;
		}
		here.timeout_s = order.timeout_s;
		here.connections = order.connections;
		here.channels = order.channels;
		here.dev = order.dev;
		versions[0] = versions[1] = order.version;
		run_here(&here, c, versions, 1, 1, link, &outcome);
		if (outcome.verdict == RUN_FAIL && !(c->flags & CASE_DEADLY))
			fprintf(stderr, "%s: %s\n", c->name, outcome.text);
		json_decref(outcome.metrics);
	}
	close(listener);
	return 0;
}

void run_dismiss(const struct run *run)
{
	struct remote_order order = { .version = 0 };
	int fd;

	if (!run->peer)
		return;
	fd = remote_connect(run->peer, run->port, &order);
	if (fd >= 0)
		close(fd);
}
