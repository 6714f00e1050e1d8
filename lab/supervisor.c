/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * supervisor.c: starts the hosts and their commands, runs the switch until all commands have ended, and collects their
 * statuses. A command that fails does not end the others unless --kill-on-failure is set. To end early it sends SIGTERM to
 * the commands, and SIGKILL to those that still run after GRACE_NS.
 */
#include "supervisor.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "host.h"
#include "process.h"

#define GRACE_NS UINT64_C(2000000000)
/* Exit status as in shells: this much above the number of the signal that ended a command. */
#define BY_SIGNAL 128
/* Process number of the first process in a namespace. */
#define FIRST_PROCESS  1
#define SWITCH_NICE    (-10)
#define TIMER_SLACK_NS 1UL

struct supervisor {
	const struct lab_config *config;
	const struct supervisor_pipes *pipes;
	struct lab_result *result;
	struct lab_switch *sw;
	struct host hosts[LAB_HOSTS_MAX];
	/* process of each host's command */
	pid_t pids[LAB_HOSTS_MAX];
	/* commands that have not ended */
	unsigned running;
	/* signalfd */
	int signals;
	/* when to send SIGKILL; UINT64_MAX: SIGTERM was not sent */
	uint64_t kill_at_ns;
};

static int start_commands(struct supervisor *supervisor)
{
	fflush(NULL);
	for (unsigned i = 0; i < supervisor->config->hosts; i++) {
		if (!supervisor->config->commands[i])
			continue;
		supervisor->pids[i] = fork();
		if (supervisor->pids[i] == 0)
			process_run(supervisor->config, supervisor->pipes, &supervisor->hosts[i],
				    i);
		if (supervisor->pids[i] < 0) {
			snprintf(supervisor->result->error, LAB_ERROR_SIZE,
				 "cannot start the command of host %u: %s", i, strerror(errno));
			return -errno;
		}
		supervisor->running++;
	}
	/* Now only the commands have these open, so that the starter sees end of file when they end. */
	for (unsigned i = 0; i < supervisor->config->hosts; i++) {
		close(supervisor->pipes->output[i][0]);
		close(supervisor->pipes->output[i][1]);
	}
	return 0;
}

static int open_hosts(struct supervisor *supervisor)
{
	int tuns[LAB_HOSTS_MAX], rc;

	for (unsigned i = 0; i < supervisor->config->hosts; i++) {
		rc = host_open(supervisor->config, i, &supervisor->hosts[i],
			       supervisor->result->error);
		if (rc)
			return rc;
		tuns[i] = supervisor->hosts[i].tun;
	}
	return switch_open(supervisor->config, tuns, supervisor->result->error, &supervisor->sw);
}

/*
 * Sends a signal to each running command and to its session. Processes that left the session end with the namespace. Never
 * uses kill(-1): if this process were not the first of a namespace, that would reach the whole machine.
 */
static void signal_commands(const struct supervisor *supervisor, int number)
{
	for (unsigned i = 0; i < supervisor->config->hosts; i++) {
		pid_t pid = supervisor->pids[i];

		if (pid <= FIRST_PROCESS || supervisor->result->status[i] != LAB_RUNNING)
			continue;
		/* A process that was just forked may not have its session yet. */
		if (kill(-pid, number))
			kill(pid, number);
		/* Interactive shells ignore SIGTERM; a hangup they pass on to their jobs. */
		if ((int)i == supervisor->config->shell && number == SIGTERM)
			kill(pid, SIGHUP);
	}
}

static void end_early(struct supervisor *supervisor)
{
	if (supervisor->kill_at_ns != UINT64_MAX)
		return;
	signal_commands(supervisor, SIGTERM);
	supervisor->kill_at_ns = clock_now_ns() + GRACE_NS;
}

static void note_end(struct supervisor *supervisor, unsigned host, int status)
{
	int code = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);

	supervisor->result->status[host] = code;
	supervisor->running--;
	/* What fails because the lab ends it did not fail by itself. */
	if (code && supervisor->kill_at_ns == UINT64_MAX &&
	    supervisor->result->first_failed == LAB_RUNNING)
		supervisor->result->first_failed = (int)host;
	if ((int)host == supervisor->config->shell || (code && supervisor->config->kill_on_failure))
		end_early(supervisor);
}

static void reap(struct supervisor *supervisor)
{
	pid_t pid;
	int status;

	/* Orphans of the commands are reaped here too, and ignored. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < supervisor->config->hosts; i++) {
			if (supervisor->pids[i] == pid)
				note_end(supervisor, i, status);
		}
	}
}

static void read_signals(struct supervisor *supervisor)
{
	struct signalfd_siginfo info;

	while (read(supervisor->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(supervisor);
		else
			end_early(supervisor);
	}
}

static bool starter_is_gone(const struct supervisor *supervisor)
{
	char byte;

	return read(supervisor->pipes->lifeline, &byte, 1) == 0;
}

static void work(struct supervisor *supervisor)
{
	const int control[2] = { supervisor->signals, supervisor->pipes->lifeline };

	while (supervisor->running) {
		if (switch_turn(supervisor->sw, control, supervisor->kill_at_ns)) {
			if (starter_is_gone(supervisor))
				_exit(EXIT_FAILURE);
			read_signals(supervisor);
		}
		if (supervisor->kill_at_ns <= clock_now_ns()) {
			signal_commands(supervisor, SIGKILL);
			supervisor->kill_at_ns = UINT64_MAX - 1;
		}
	}
}

static int take_signals(struct supervisor *supervisor)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_SETMASK, &set, NULL);
	supervisor->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return supervisor->signals < 0 ? -errno : 0;
}

/* Raises the priority of the switch, so that packets do not wait for the hosts' processes. Does nothing if not permitted. */
static void be_prompt(void)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	/* Not with real-time priority on a single processor: a busy switch would keep the hosts from running. */
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1 && sched_setscheduler(0, SCHED_RR, &lowest) == 0)
		return;
	setpriority(PRIO_PROCESS, 0, SWITCH_NICE);
}

void supervisor_run(const struct lab_config *config, const struct supervisor_pipes *pipes,
		    struct lab_result *result)
{
	static struct supervisor supervisor;
	uint64_t start_ns;
	int rc;

	supervisor = (struct supervisor){
		.config = config, .pipes = pipes, .result = result, .kill_at_ns = UINT64_MAX
	};
	if (getpid() != FIRST_PROCESS) {
		snprintf(result->error, LAB_ERROR_SIZE,
			 "the switch is not the first process of a process namespace");
		_exit(EXIT_FAILURE);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	if (take_signals(&supervisor)) {
		snprintf(result->error, LAB_ERROR_SIZE, "cannot receive signals: %s",
			 strerror(errno));
		_exit(EXIT_FAILURE);
	}
	if (open_hosts(&supervisor) || start_commands(&supervisor))
		_exit(EXIT_FAILURE);
	be_prompt();
	start_ns = clock_now_ns();
	switch_start(supervisor.sw);
	work(&supervisor);
	result->elapsed_ns = clock_now_ns() - start_ns;
	switch_counts(supervisor.sw, &result->counts);
	for (unsigned i = 0; i < config->hosts; i++)
		result->overruns[i] = host_overruns(&supervisor.hosts[i]);
	rc = switch_close(supervisor.sw);
	if (rc)
		snprintf(result->error, LAB_ERROR_SIZE,
			 "cannot write the capture or the samples: %s", strerror(-rc));
	result->finished = true;
	_exit(EXIT_SUCCESS);
}
