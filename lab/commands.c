/* SPDX-License-Identifier: BSD-3-Clause */
/* commands.c: reads the commands one after the other, assigns hosts to them, and then compares their number with --hosts. */
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

#define DEFAULT_SHELL "/bin/sh"

struct reader {
	struct lab_config *config;
	/* next word to read */
	char **words;
	/* next host without a command */
	unsigned next;
};

/* Returns the command of the user's shell. It decides by itself whether to be interactive. */
static char **shell(void)
{
	static char fallback[] = DEFAULT_SHELL;
	static char *words[2];
	char *user = getenv("SHELL");

	words[0] = user && *user ? user : fallback;
	return words;
}

/* Gives the next host, the shell's left out, a command. Returns 0, or -EINVAL with the reason in error. */
static int assign(struct reader *reader, char **command, char error[LAB_ERROR_SIZE])
{
	struct lab_config *config = reader->config;
	unsigned hosts = config->hosts_given ? config->hosts : LAB_HOSTS_MAX;

	if ((int)reader->next == config->shell)
		reader->next++;
	if (reader->next >= hosts)
		return config_fail(error, "\"%s\" would run on host %u, but there are %u hosts",
				   command[0], reader->next, hosts);
	config->commands[reader->next++] = command;
	return 0;
}

/* Reads -n COUNT, if it is there. */
static int read_count(struct reader *reader, unsigned *count, char error[LAB_ERROR_SIZE])
{
	uint64_t value;

	if (!reader->words[0] || strcmp(reader->words[0], "-n") != 0)
		return 0;
	if (!reader->words[1] || units_count(reader->words[1], 1, LAB_HOSTS_MAX, &value))
		return config_fail(error, "-n needs a number of hosts from 1 to %d", LAB_HOSTS_MAX);
	*count = (unsigned)value;
	reader->words += 2;
	return 0;
}

/* Reads one command and the separator behind it. *more says whether there was one. */
static int read_command(struct reader *reader, unsigned *count, bool *more, char ***out,
			char error[LAB_ERROR_SIZE])
{
	if (read_count(reader, count, error))
		return -EINVAL;
	if (reader->words[0] && strcmp(reader->words[0], "--") == 0)
		reader->words++;
	*out = reader->words;
	while (reader->words[0] && strcmp(reader->words[0], COMMANDS_SEPARATOR) != 0)
		reader->words++;
	if (reader->words == *out)
		return config_fail(error,
				   "a command is missing before or behind \"" COMMANDS_SEPARATOR
				   "\", which separates commands");
	*more = reader->words[0] != NULL;
	if (*more)
		*reader->words++ = NULL;
	return 0;
}

/* Reads all commands. *rest is the last one if it has no -n, else NULL. */
static int read_all(struct reader *reader, unsigned count, char ***rest, char error[LAB_ERROR_SIZE])
{
	bool more = true;
	char **command;

	*rest = NULL;
	while (more) {
		if (read_command(reader, &count, &more, &command, error))
			return -EINVAL;
		if (!count && !more)
			*rest = command;
		for (unsigned i = 0; i < (count ? count : 1); i++) {
			if (assign(reader, command, error))
				return -EINVAL;
		}
		count = 0;
	}
	return 0;
}

/* Returns the hosts that the commands and the shell need; if `open`, at least the default. */
static unsigned hosts_needed(const struct reader *reader, bool open)
{
	const struct lab_config *config = reader->config;
	unsigned needed = reader->next;

	if ((int)needed <= config->shell)
		needed = (unsigned)config->shell + 1;
	return open && needed < config->hosts ? config->hosts : needed;
}

int commands_read(struct lab_config *config, unsigned count, char **words,
		  char error[LAB_ERROR_SIZE])
{
	struct reader reader = { .config = config, .words = words };
	char **rest = NULL;
	int rc = words[0] || count ? read_all(&reader, count, &rest, error) : 0;

	if (rc)
		return rc;
	if (!config->hosts_given)
		config->hosts = hosts_needed(&reader, rest || !words[0]);
	if (config->shell >= (int)config->hosts)
		return config_fail(error, "--shell: host %d is not one of 0 to %u", config->shell,
				   config->hosts - 1);
	while (rest && reader.next + ((int)reader.next == config->shell) < config->hosts)
		assign(&reader, rest, error);
	for (unsigned i = 0; words[0] && i < config->hosts; i++) {
		if (!config->commands[i] && (int)i != config->shell)
			return config_fail(error, "host %u has no command", i);
	}
	if (config->shell >= 0)
		config->commands[config->shell] = shell();
	return 0;
}
