/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command is a table of subcommands. This file finds the one that was named and knows nothing
 * else about any of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <godwit/godwit.h>

#include "command.h"
#include "overview.h"

static const struct command *const commands[] = {
	&command_coll,	    &command_doctor, &command_lab,  &command_mesh,
	&command_ncclcheck, &command_perf,   &command_plan, &command_qualify,
	&command_recv,	    &command_secret, &command_send, &command_watch,
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static void print_usage(FILE *out)
{
	fputs("usage: godwit\n"
	      "       godwit COMMAND [ARGUMENT ...]\n"
	      "       godwit help [COMMAND]\n"
	      "       godwit --version\n"
	      "\n"
	      "Moves data over unreliable RDMA (RoCEv2, in user space).\n"
	      "\n"
	      "commands:\n",
	      out);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
}

/* What was asked for on stdout may have met a full disk or a closed pipe. */
static int finish_output(void)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("godwit: cannot write to standard output");
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

static int unknown(const char *name)
{
	fprintf(stderr, "godwit: unknown command \"%s\"; `godwit help` lists them\n", name);
	return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_usage(stdout);
		return finish_output();
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	fputs(command->usage, stdout);
	return finish_output();
}

/*
 * Opens a standard descriptor that is closed, the wrong way round, so that its use fails with EBADF. A socket would get its
 * number otherwise, and data would go there.
 */
static void fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	}
}

int main(int argc, char **argv)
{
	const struct command *command;

	fill_standard_descriptors();

	/* A closed pipe or connection is an error to report where it is met, not a way to die. */
	signal(SIGPIPE, SIG_IGN);

	if (argc < 2)
		return overview_print(stdout) == 0 ? finish_output() : EXIT_FAILED;
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("godwit %s\n", gw_version());
		return finish_output();
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "-h") == 0)
		return help(argc - 1, argv + 1);
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(command->usage, stdout);
			return finish_output();
		}
	}
	return command->run(argc - 1, argv + 1);
}
