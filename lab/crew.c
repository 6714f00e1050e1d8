/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A command that fails leaves the others alone unless the plan says otherwise. Ending early goes in two steps: SIGTERM
 * to the commands, and SIGKILL to those that are left after a while.
 */
#include "crew.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

#define MASTER_PORT    "29500" /* what launchers of PyTorch use */
#define GRACE_NS       UINT64_C(2000000000)
#define NOT_FOUND      127 /* as shells say it */
#define BY_SIGNAL      128
#define FIRST_PROCESS  1 /* of a process namespace */
#define SWITCH_NICE    (-10)
#define TIMER_SLACK_NS 1UL

struct crew {
	const struct lab_plan *plan;
	const struct crew_pipes *pipes;
	struct lab_result *result;
	struct lab_switch *sw;
	struct host hosts[LAB_HOSTS_MAX];
	pid_t pids[LAB_HOSTS_MAX];
	unsigned running;
	int signals;
	uint64_t kill_at_ns; /* UINT64_MAX: nobody was asked to end */
};

static void set_environment(const struct lab_plan *plan, unsigned index)
{
	char name[32], value[32];

	snprintf(value, sizeof(value), "%u", index);
	setenv("RANK", value, 1);
	snprintf(value, sizeof(value), "%u", plan->hosts);
	setenv("WORLD_SIZE", value, 1);
	setenv("MASTER_PORT", MASTER_PORT, 1);
	for (unsigned i = 0; i < plan->hosts; i++) {
		host_address(i, value);
		snprintf(name, sizeof(name), "GODWIT_HOST_%u", i);
		setenv(name, value, 1);
		if (i == 0)
			setenv("MASTER_ADDR", value, 1);
	}
}

static void run_command(const struct crew *crew, unsigned index) __attribute__((noreturn));

static void run_command(const struct crew *crew, unsigned index)
{
	char **command = crew->plan->command;
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	/* A session of its own: a terminal's signals go to the lab, which passes them on. */
	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, &crew->pipes->files);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(crew->pipes->output[index][0], STDOUT_FILENO) < 0 ||
	    dup2(crew->pipes->output[index][1], STDERR_FILENO) < 0)
		_exit(NOT_FOUND);
	if (setns(crew->hosts[index].network, CLONE_NEWNET)) {
		fprintf(stderr, "godwit lab: cannot enter the namespace: %s\n", strerror(errno));
		_exit(NOT_FOUND);
	}
	set_environment(crew->plan, index);
	execvp(command[0], command);
	fprintf(stderr, "godwit lab: cannot run %s: %s\n", command[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_FOUND - 1);
}

static int start_commands(struct crew *crew)
{
	fflush(NULL);
	for (unsigned i = 0; i < crew->plan->hosts; i++) {
		crew->pids[i] = fork();
		if (crew->pids[i] == 0)
			run_command(crew, i);
		if (crew->pids[i] < 0) {
			snprintf(crew->result->error, LAB_ERROR_SIZE,
				 "cannot start the command of host %u: %s", i, strerror(errno));
			return -errno;
		}
		crew->running++;
	}
	/* Only the commands hold these now: the starter sees their end of file. */
	for (unsigned i = 0; i < crew->plan->hosts; i++) {
		close(crew->pipes->output[i][0]);
		close(crew->pipes->output[i][1]);
	}
	return 0;
}

static int open_hosts(struct crew *crew)
{
	int tuns[LAB_HOSTS_MAX], rc;

	for (unsigned i = 0; i < crew->plan->hosts; i++) {
		rc = host_open(crew->plan, i, &crew->hosts[i], crew->result->error);
		if (rc)
			return rc;
		tuns[i] = crew->hosts[i].tun;
	}
	return switch_open(crew->plan, tuns, crew->result->error, &crew->sw);
}

/*
 * Each running command and what it started in its session; strays go with this process's namespace. Never kill(-1):
 * were this process not the first of a namespace of its own, that would reach the whole machine.
 */
static void signal_commands(const struct crew *crew, int number)
{
	for (unsigned i = 0; i < crew->plan->hosts; i++) {
		pid_t pid = crew->pids[i];

		if (pid <= FIRST_PROCESS || crew->result->status[i] != CREW_RUNNING)
			continue;
		/* One that has only just been forked has no session yet. */
		if (kill(-pid, number))
			kill(pid, number);
	}
}

static void end_early(struct crew *crew)
{
	if (crew->kill_at_ns != UINT64_MAX)
		return;
	signal_commands(crew, SIGTERM);
	crew->kill_at_ns = switch_now_ns() + GRACE_NS;
}

static void note_end(struct crew *crew, unsigned host, int status)
{
	int code = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);

	crew->result->status[host] = code;
	crew->running--;
	if (code == 0)
		return;
	if (crew->result->first_failed == CREW_RUNNING)
		crew->result->first_failed = (int)host;
	if (crew->plan->kill_on_failure)
		end_early(crew);
}

static void reap(struct crew *crew)
{
	pid_t pid;
	int status;

	/* Orphans of the commands end here too, and are nobody's. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < crew->plan->hosts; i++) {
			if (crew->pids[i] == pid)
				note_end(crew, i, status);
		}
	}
}

static void read_signals(struct crew *crew)
{
	struct signalfd_siginfo info;

	while (read(crew->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(crew);
		else
			end_early(crew);
	}
}

static bool starter_is_gone(const struct crew *crew)
{
	char byte;

	return read(crew->pipes->lifeline, &byte, 1) == 0;
}

static void work(struct crew *crew)
{
	const int control[2] = { crew->signals, crew->pipes->lifeline };

	while (crew->running) {
		if (switch_turn(crew->sw, control, crew->kill_at_ns)) {
			if (starter_is_gone(crew))
				_exit(EXIT_FAILURE);
			read_signals(crew);
		}
		if (crew->kill_at_ns <= switch_now_ns()) {
			signal_commands(crew, SIGKILL);
			crew->kill_at_ns = UINT64_MAX - 1;
		}
	}
}

static int take_signals(struct crew *crew)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_SETMASK, &set, NULL);
	crew->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return crew->signals < 0 ? -errno : 0;
}

/* A switch that waits behind the hosts' own work is late. Where neither is allowed, so be it. */
static void be_prompt(void)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	/* On a single processor the hosts would never run beside a busy switch. */
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1 && sched_setscheduler(0, SCHED_RR, &lowest) == 0)
		return;
	setpriority(PRIO_PROCESS, 0, SWITCH_NICE);
}

void crew_run(const struct lab_plan *plan, const struct crew_pipes *pipes,
	      struct lab_result *result)
{
	static struct crew crew;
	uint64_t start_ns;
	int rc;

	crew = (struct crew){
		.plan = plan, .pipes = pipes, .result = result, .kill_at_ns = UINT64_MAX
	};
	if (getpid() != FIRST_PROCESS) {
		snprintf(result->error, LAB_ERROR_SIZE, "it has no process namespace of its own");
		_exit(EXIT_FAILURE);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	if (take_signals(&crew)) {
		snprintf(result->error, LAB_ERROR_SIZE, "cannot take signals: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	if (open_hosts(&crew) || start_commands(&crew))
		_exit(EXIT_FAILURE);
	be_prompt();
	start_ns = switch_now_ns();
	switch_start(crew.sw);
	work(&crew);
	result->elapsed_ns = switch_now_ns() - start_ns;
	switch_counts(crew.sw, &result->counts);
	for (unsigned i = 0; i < plan->hosts; i++)
		result->overruns[i] = host_overruns(&crew.hosts[i]);
	rc = switch_close(crew.sw);
	if (rc)
		snprintf(result->error, LAB_ERROR_SIZE, "cannot write all of what was recorded: %s",
			 strerror(-rc));
	result->finished = true;
	_exit(EXIT_SUCCESS);
}
