/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lab.c: the starter. It forks the supervisor into new namespaces, then copies output and forwards signals. The two
 * processes share the memory of the results, the commands' output pipes, and a lifeline: a pipe that nobody writes to,
 * whose end of file tells the supervisor that the starter has ended.
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
	const struct lab_config *config;
	struct supervisor_pipes pipes;
	/* write end of the lifeline */
	int lifeline;
	/* signalfd */
	int signals;
	pid_t supervisor;
	bool supervisor_ended;
	/* its status, as from waitpid() */
	int supervisor_status;
	/* latest signal that was forwarded; 0: none */
	int signal;
	/* standard output and error of each host's command */
	struct output *outputs;
	/* outputs that have not reached end of file */
	unsigned open_outputs;
	/* the outputs, then `signals` */
	struct pollfd *polls;
};

static void read_one_signal(struct starter *starter, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo == SIGCHLD) {
		if (waitpid(starter->supervisor, &starter->supervisor_status, WNOHANG) ==
		    starter->supervisor)
			starter->supervisor_ended = true;
		return;
	}
	if (starter->supervisor_ended || starter->supervisor <= 1)
		return;
	kill(starter->supervisor, starter->signal ? SIGKILL : SIGTERM);
	starter->signal = (int)info->ssi_signo;
}

static void watch(struct starter *starter)
{
	unsigned count = starter->config->hosts * 2;
	struct signalfd_siginfo info;

	while (!starter->supervisor_ended || starter->open_outputs) {
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
	/* A signal that was ignored at the start, as under nohup, stays ignored. */
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	starter->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return starter->signals < 0 ? -errno : 0;
}

/* Sets ends[0] to the read end and ends[1] to the write end. */
static int open_pipe(int ends[2])
{
	return pipe2(ends, O_CLOEXEC) ? -errno : 0;
}

static int open_outputs(struct starter *starter)
{
	const struct lab_config *config = starter->config;

	starter->outputs = calloc(config->hosts * 2, sizeof(*starter->outputs));
	starter->polls = calloc(config->hosts * 2 + 1, sizeof(*starter->polls));
	if (!starter->outputs || !starter->polls)
		return -ENOMEM;
	for (unsigned i = 0; i < config->hosts * 2; i++) {
		/* With --json only the report goes to standard output. */
		FILE *to = i % 2 || config->json ? stderr : stdout;
		int ends[2], rc = open_pipe(ends);

		if (rc)
			return rc;
		output_init(&starter->outputs[i], ends[0], i / 2, to);
		starter->pipes.output[i / 2][i % 2] = ends[1];
		starter->open_outputs++;
	}
	return 0;
}

/* Raises the limit on open files: a lab needs six for each host. */
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
	if (starter->config->shell >= 0)
		terminal_lend(&starter->pipes.terminal);
	rc = open_pipe(ends);
	if (rc)
		return rc;
	starter->pipes.lifeline = ends[0];
	starter->lifeline = ends[1];
	/* The supervisor reads it after every event, and must not block. */
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK))
		return -errno;
	return open_outputs(starter);
}

static int start_supervisor(struct starter *starter, struct lab_result *result)
{
	fflush(NULL);
	starter->supervisor = fork();
	if (starter->supervisor < 0)
		return -errno;
	if (starter->supervisor == 0) {
		/* In a process group of its own, so that a terminal interrupts the starter alone. */
		setpgid(0, 0);
		close(starter->lifeline);
		supervisor_run(starter->config, &starter->pipes, result);
	}
	for (unsigned i = 0; i < starter->config->hosts * 2; i++)
		close(starter->pipes.output[i / 2][i % 2]);
	return 0;
}

/* Returns 0, or -errno and the reason if the lab itself failed. */
static int judge(const struct starter *starter, const struct lab_result *result,
		 char error[LAB_ERROR_SIZE])
{
	if (result->error[0]) {
		memcpy(error, result->error, LAB_ERROR_SIZE);
		return -EIO;
	}
	if (result->finished || starter->signal)
		return 0;
	if (WIFSIGNALED(starter->supervisor_status))
		snprintf(error, LAB_ERROR_SIZE, "the switch was killed by signal %d",
			 WTERMSIG(starter->supervisor_status));
	else
		snprintf(error, LAB_ERROR_SIZE, "the switch ended with status %d",
			 WEXITSTATUS(starter->supervisor_status));
	return -ECHILD;
}

int lab_run(const struct lab_config *config, struct lab_outcome *out, char error[LAB_ERROR_SIZE])
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
	result->first_failed = LAB_RUNNING;
	for (unsigned i = 0; i < config->hosts; i++)
		result->status[i] = LAB_RUNNING;
	starter->config = config;
	rc = host_prepare(error);
	if (!rc) {
		rc = open_starter(starter);
		if (!rc)
			rc = start_supervisor(starter, result);
		if (rc)
			snprintf(error, LAB_ERROR_SIZE, "cannot start: %s", strerror(-rc));
	}
	if (!rc) {
		watch(starter);
		terminal_return(&starter->pipes.terminal);
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
