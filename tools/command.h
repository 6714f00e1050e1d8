/* SPDX-License-Identifier: BSD-3-Clause */
/* A subcommand of `godwit`: one entry of the table in main.c, one file each. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

/* Exit statuses; an interrupted command adds the signal's number to EXIT_BY_SIGNAL, as shells do. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BY_SIGNAL = 128 };

struct command {
	const char *name;
	const char *summary; /* one line, for the list of commands */
	const char *usage;   /* several, for `godwit help NAME` */
	/* argv[0] is the subcommand's own name. Returns the exit status. */
	int (*run)(int argc, char **argv);
};

extern const struct command command_coll;
extern const struct command command_doctor;
extern const struct command command_lab;
extern const struct command command_mesh;
extern const struct command command_ncclcheck;
extern const struct command command_perf;
extern const struct command command_plan;
extern const struct command command_qualify;
extern const struct command command_recv;
extern const struct command command_secret;
extern const struct command command_send;
extern const struct command command_watch;

#endif
