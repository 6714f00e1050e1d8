/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a running process uses: the libraries it has mapped, the RDMA devices and GPUs it has open, its limits. Only with
 * --pid; of the process's other files and mappings nothing is shown.
 */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int libraries(long pid, struct builder *out)
{
	static const char *const wanted[] = { "nccl",	 "rccl",    "ibverbs",	 "rdmacm",
					      "libmlx5", "libcuda", "libfabric", "godwit" };
	char path[64], line[1024], last[1024] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		char *name = strchr(line, '/');
		bool found = false;

		if (!name || strcmp(name, last) == 0)
			continue;
		snprintf(last, sizeof(last), "%s", name);
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
			found |= strstr(name, wanted[i]) != NULL;
		if (found)
			builder_print(out, "%s", name);
	}
	fclose(file);
	return 0;
}

static int devices(long pid, struct builder *out)
{
	char path[320], target[256];
	const struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
	directory = opendir(path);
	if (!directory)
		return -errno;
	while ((entry = readdir(directory))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%ld/fd/%s", pid, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, "/dev/infiniband/", 16) == 0 ||
		    strncmp(target, "/dev/nvidia", 11) == 0)
			builder_print(out, "%s\n", target);
	}
	closedir(directory);
	return 0;
}

/* In the words of the probe "limits", from the kernel's table of the process. */
static int limits(long pid, struct builder *out)
{
	static const struct {
		const char *theirs;
		const char *ours;
	} rows[] = { { "Max locked memory", "memlock" }, { "Max open files", "nofile" } };
	char path[64], line[256], soft[32];
	unsigned long long effective;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/limits", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			size_t length = strlen(rows[i].theirs);

			if (strncmp(line, rows[i].theirs, length) == 0 &&
			    sscanf(line + length, "%31s", soft) == 1)
				builder_print(out, "%s %s\n", rows[i].ours, soft);
		}
	}
	fclose(file);
	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "CapEff: %llx", &effective) == 1)
			builder_print(out, "ipc_lock %d\n", (int)(effective >> 14 & 1));
	}
	if (file)
		fclose(file);
	return 0;
}

int probe_job(const char *rest, long pid, struct builder *out)
{
	if (!pid)
		return -ENOENT;
	if (strcmp(rest, "pid") == 0) {
		builder_print(out, "%ld\n", pid);
		return 0;
	}
	if (strcmp(rest, "libraries") == 0)
		return libraries(pid, out);
	if (strcmp(rest, "devices") == 0)
		return devices(pid, out);
	return strcmp(rest, "limits") == 0 ? limits(pid, out) : -ENOENT;
}
