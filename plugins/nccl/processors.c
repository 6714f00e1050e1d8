/* SPDX-License-Identifier: BSD-3-Clause */
#include "processors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_CHARS 4096

/* Reads a number and moves `text` behind it. */
static bool number(const char **text, long *out)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*out = strtol(*text, &end, 10);
	*text = end;
	return *out < CPU_SETSIZE;
}

bool processors_read(const char *list, cpu_set_t *out)
{
	long first, last;

	CPU_ZERO(out);
	do {
		if (!number(&list, &first))
			return false;
		last = first;
		if (*list == '-' && (list++, !number(&list, &last)))
			return false;
		if (last < first)
			return false;
		for (; first <= last; first++)
			CPU_SET((size_t)first, out);
	} while (*list == ',' && list++);
	return !*list || !strcmp(list, "\n");
}

static bool read_file(const char *path, cpu_set_t *out)
{
	char line[LIST_CHARS];
	FILE *file = fopen(path, "re");
	bool good = file && fgets(line, sizeof(line), file);

	if (file)
		fclose(file);
	return good && processors_read(line, out);
}

/* A device of a bus above PCI, such as virtio, has no such file; the PCI function that it sits on does. */
bool processors_near(const char *directory, cpu_set_t *out)
{
	char path[PATH_MAX];

	if (!directory[0])
		return false;
	snprintf(path, sizeof(path), "%s/local_cpulist", directory);
	if (read_file(path, out))
		return true;
	snprintf(path, sizeof(path), "%s/../local_cpulist", directory);
	return read_file(path, out);
}
