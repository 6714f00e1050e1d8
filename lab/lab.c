/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The starter: it forks the crew into fresh namespaces, then only copies output and passes signals on. It shares three
 * things with the crew: a page of results, the pipes of the commands, and a lifeline, a pipe to which nobody writes and
 * whose end says that the starter is gone.
 */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"
#include "output.h"

struct starter {
	const struct lab_plan *plan;
	struct crew_pipes pipes;
	int lifeline; /* the end that is held */
	int signals;
	pid_t crew;
	bool crew_ended;
	int crew_status;
	int signal;
	struct output *outputs; /* two a host */
	unsigned open_outputs;
	struct pollfd *polls; /* outputs, then signals */
};

static void read_one_signal(struct starter *starter, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo == SIGCHLD) {
		if (waitpid(starter->crew, &starter->crew_status, WNOHANG) == starter->crew)
			starter->crew_ended = true;
		return;
	}
	if (starter->crew_ended || starter->crew <= 1)
		return;
	kill(starter->crew, starter->signal ? SIGKILL : SIGTERM);
	starter->signal = (int)info->ssi_signo;
}

static void watch(struct starter *starter)
{
	unsigned count = starter->plan->hosts * 2;
	struct signalfd_siginfo info;

	while (!starter->crew_ended || starter->open_outputs) {
		for (unsigned i = 0; i < count; i++)
			starter->polls[i] =
				(struct pollfd){ .fd = starter->outputs[i].fd, .events = POLLIN };
		starter->polls[count] = (struct pollfd){ .fd = starter->signals, .events = POLLIN };
		if (poll(starter->polls, count + 1, -1) < 0 && errno != EINTR)
			return;
		for (unsigned i = 0; i < count; i++) {
			if (!starter->polls[i].revents)
				continue;
			output_read(&starter->outputs[i]);
			if (starter->outputs[i].fd < 0)
				starter->open_outputs--;
		}
		while (read(starter->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
			read_one_signal(starter, &info);
	}
}

static int take_signals(struct starter *starter)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	/* One that was ignored from the start, as under nohup, never arrives and stays so. */
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	starter->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return starter->signals < 0 ? -errno : 0;
}

/* `ends`: read, write. */
static int open_pipe(int ends[2])
{
	return pipe2(ends, O_CLOEXEC) ? -errno : 0;
}

static int open_outputs(struct starter *starter)
{
	const struct lab_plan *plan = starter->plan;

	starter->outputs = calloc(plan->hosts * 2, sizeof(*starter->outputs));
	starter->polls = calloc(plan->hosts * 2 + 1, sizeof(*starter->polls));
	if (!starter->outputs || !starter->polls)
		return -ENOMEM;
	for (unsigned i = 0; i < plan->hosts * 2; i++) {
		/* With --json standard output is for the report alone. */
		FILE *to = i % 2 || plan->json ? stderr : stdout;
		int ends[2], rc = open_pipe(ends);

		if (rc)
			return rc;
		output_init(&starter->outputs[i], ends[0], i / 2, to);
		starter->pipes.output[i / 2][i % 2] = ends[1];
		starter->open_outputs++;
	}
	return 0;
}

/* A large lab needs six descriptors a host, more than the usual limit. */
static void allow_files(struct starter *starter)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &starter->pipes.files))
		return;
	most = starter->pipes.files;
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
}

static int open_starter(struct starter *starter)
{
	int ends[2], rc = take_signals(starter);

	if (rc)
		return rc;
	allow_files(starter);
	rc = open_pipe(ends);
	if (rc)
		return rc;
	starter->pipes.lifeline = ends[0];
	starter->lifeline = ends[1];
	/* The crew looks at it whenever anything happens, and must not wait. */
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK))
		return -errno;
	return open_outputs(starter);
}

static int start_crew(struct starter *starter, struct lab_result *result)
{
	fflush(NULL);
	starter->crew = fork();
	if (starter->crew < 0)
		return -errno;
	if (starter->crew == 0) {
		/* A group of its own: what a terminal interrupts is the starter. */
		setpgid(0, 0);
		close(starter->lifeline);
		crew_run(starter->plan, &starter->pipes, result);
	}
	for (unsigned i = 0; i < starter->plan->hosts * 2; i++)
		close(starter->pipes.output[i / 2][i % 2]);
	return 0;
}

/* Why the lab itself failed, if it did. */
static int judge(const struct starter *starter, const struct lab_result *result,
		 char error[LAB_ERROR_SIZE])
{
	if (result->error[0]) {
		memcpy(error, result->error, LAB_ERROR_SIZE);
		return -EIO;
	}
	if (result->finished || starter->signal)
		return 0;
	if (WIFSIGNALED(starter->crew_status))
		snprintf(error, LAB_ERROR_SIZE, "the switch was killed by signal %d",
			 WTERMSIG(starter->crew_status));
	else
		snprintf(error, LAB_ERROR_SIZE, "the switch ended with status %d",
			 WEXITSTATUS(starter->crew_status));
	return -ECHILD;
}

int lab_run(const struct lab_plan *plan, struct lab_outcome *out, char error[LAB_ERROR_SIZE])
{
	struct starter *starter = calloc(1, sizeof(*starter));
	struct lab_result *result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (result == MAP_FAILED || !starter) {
		snprintf(error, LAB_ERROR_SIZE, "no memory");
		if (result != MAP_FAILED)
			munmap(result, sizeof(*result));
		free(starter);
		return -ENOMEM;
	}
	result->first_failed = CREW_RUNNING;
	for (unsigned i = 0; i < plan->hosts; i++)
		result->status[i] = CREW_RUNNING;
	starter->plan = plan;
	rc = host_prepare(error);
	if (!rc) {
		rc = open_starter(starter);
		if (!rc)
			rc = start_crew(starter, result);
		if (rc)
			snprintf(error, LAB_ERROR_SIZE, "cannot start: %s", strerror(-rc));
	}
	if (!rc) {
		watch(starter);
		rc = judge(starter, result, error);
	}
	if (rc)
		munmap(result, sizeof(*result));
	else
		*out = (struct lab_outcome){ .signal = starter->signal, .result = result };
	free(starter->outputs);
	free(starter->polls);
	free(starter);
	return rc;
}

void lab_forget(struct lab_outcome *outcome)
{
	munmap(outcome->result, sizeof(*outcome->result));
}
