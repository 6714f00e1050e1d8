/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An end is one line of text in a file that appears by rename, so a reader finds all of it or none.
 */
#include "meet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_INTERVAL_NS 2000000
#define POLL_ROUNDS	 10000

static bool failed;

static void print_line(const char *verdict, const char *format, va_list arguments)
{
	printf("%-4s ", verdict);
	vprintf(format, arguments);
	putchar('\n');
	fflush(stdout);
}

uint32_t meet_option(int argc, char **argv, int first, const char *name, uint32_t otherwise)
{
	size_t length = strlen(name);

	for (int i = first; i < argc; i++)
		if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
			return (uint32_t)strtoul(argv[i] + length + 1, NULL, 10);
	return otherwise;
}

void report(bool ok, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(ok ? "ok" : "FAIL", format, arguments);
	va_end(arguments);
	failed |= !ok;
}

int report_status(void)
{
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

void report_fatal(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line("FAIL", format, arguments);
	va_end(arguments);
	exit(EXIT_FAILURE);
}

void meet_publish(const char *dir, const char *name, const struct meet_end *end)
{
	char path[512], temporary[520];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	file = fopen(temporary, "w");
	if (!file)
		report_fatal("cannot write %s: %s", temporary, strerror(errno));
	fprintf(file, "%s %" PRIx64 " %x %x %x %x %x\n", end->address, end->va, end->rkey,
		end->uc_qpn, end->uc_psn, end->ud_qpn, end->qkey);
	if (fclose(file) != 0 || rename(temporary, path) != 0)
		report_fatal("cannot write %s: %s", path, strerror(errno));
}

void meet_await(const char *dir, const char *name, struct meet_end *out)
{
	const struct timespec interval = { .tv_nsec = POLL_INTERVAL_NS };
	struct meet_end end;
	char path[512];
	FILE *file = NULL;
	int fields;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (int i = 0; i < POLL_ROUNDS; i++) {
		file = fopen(path, "r");
		if (file)
			break;
		nanosleep(&interval, NULL);
	}
	if (!file)
		report_fatal("the other side did not leave %s", path);
	fields = fscanf(file, "%63s %" SCNx64 " %x %x %x %x %x", end.address, &end.va, &end.rkey,
			&end.uc_qpn, &end.uc_psn, &end.ud_qpn, &end.qkey);
	fclose(file);
	if (fields != 7)
		report_fatal("cannot read %s", path);
	*out = end;
}

void meet_leave(const char *dir, const char *name, const char *what, const void *bytes, size_t size)
{
	char hidden[512], path[512];
	FILE *file;

	snprintf(hidden, sizeof(hidden), "%s/.%s.%s", dir, name, what);
	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, what);
	file = fopen(hidden, "wb");
	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) || rename(hidden, path))
		report_fatal("cannot write %s: %s", path, strerror(errno));
}

bool meet_find(const char *dir, const char *name, const char *what, void *bytes, size_t size)
{
	char path[512];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, what);
	file = fopen(path, "rb");
	if (!file)
		return false;
	good = fread(bytes, 1, size, file) == size;
	fclose(file);
	return good;
}
