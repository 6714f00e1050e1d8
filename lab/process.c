/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c: gives a command its session, its standard streams, its namespaces and its environment, then executes it. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "identity.h"
#include "steering.h"

/* The port that PyTorch's launchers use. */
#define MASTER_PORT "29500"
/* Exit statuses as in shells: no such command, and a command that cannot be executed. */
#define NOT_FOUND      127
#define NOT_EXECUTABLE 126

static void set_number(const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

static void set_environment(const struct lab_config *config, unsigned index)
{
	char name[32], value[HOST_ADDRESS_SIZE];

	set_number("RANK", index);
	set_number("WORLD_SIZE", config->hosts);
	/* As torchrun sets them: each host runs one command. */
	set_number("LOCAL_RANK", 0);
	set_number("LOCAL_WORLD_SIZE", 1);
	setenv("MASTER_PORT", MASTER_PORT, 1);
	for (unsigned i = 0; i < config->hosts; i++) {
		host_address(i, value);
		snprintf(name, sizeof(name), "GODWIT_HOST_%u", i);
		setenv(name, value, 1);
		if (i == 0)
			setenv("MASTER_ADDR", value, 1);
	}
	/* Some login programs and container runtimes set it to the machine's name. */
	identity_name(index, name);
	setenv("HOSTNAME", name, 1);
}

/* The standard streams of a host's shell are the lab's own, except that with --json only the report goes to standard output. */
static int keep_streams(const struct lab_config *config)
{
	return config->json && dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -errno : 0;
}

static int open_streams(const int output[2])
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output[0], STDOUT_FILENO) < 0 ||
	    dup2(output[1], STDERR_FILENO) < 0)
		return -errno;
	return 0;
}

/* Says what failed, on the command's standard error. */
static void complain(const char *what, const char *why)
{
	fprintf(stderr, "godwit lab: %s: %s\n", what, why);
}

/* True for the first host that has a command. */
static bool is_first(const struct lab_config *config, unsigned index)
{
	unsigned first = 0;

	while (!config->commands[first])
		first++;
	return index == first;
}

static int enter_host(const struct lab_config *config, const struct host *host, unsigned index)
{
	char error[LAB_ERROR_SIZE] = "";

	if (setns(host->network, CLONE_NEWNET)) {
		complain("cannot enter the namespace", strerror(errno));
		return -EPERM;
	}
	/* The network works without it. It fails on all hosts or on none, so that one of them says so. */
	if (identity_take(config, index, error) == 0)
		steering_start(config->hosts);
	else if (is_first(config, index))
		complain("warning: programs may take all hosts for one machine", error);
	return 0;
}

void process_run(const struct lab_config *config, const struct supervisor_pipes *pipes,
		 const struct host *host, unsigned index)
{
	char **command = config->commands[index];
	bool shell = (int)index == config->shell;
	sigset_t none;

	/* A terminal's signals go to the shell if there is one, else to the lab, which forwards them to these sessions. */
	if (shell)
		terminal_take(&pipes->terminal);
	else
		setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, &pipes->files);
	if (shell ? keep_streams(config) : open_streams(pipes->output[index]))
		_exit(NOT_FOUND);
	if (enter_host(config, host, index))
		_exit(NOT_FOUND);
	set_environment(config, index);
	execvp(command[0], command);
	fprintf(stderr, "godwit lab: cannot run %s: %s\n", command[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}
