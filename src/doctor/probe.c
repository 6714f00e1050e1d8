/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to the C library and the kernel that take one call each; the larger groups have files of their own. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#define CAP_IPC_LOCK_BIT 14
/* Far more than a kernel keeps: a bound for a log that grows while it is read. */
#define KMSG_RECORDS 262144

static unsigned prefix_length(const struct sockaddr *mask)
{
	unsigned bits = 0;
	const uint8_t *bytes;
	size_t size;

	if (!mask)
		return 0;
	if (mask->sa_family == AF_INET) {
		bytes = (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr;
		size = 4;
	} else {
		bytes = (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
		size = 16;
	}
	for (size_t i = 0; i < size; i++)
		bits += (unsigned)__builtin_popcount(bytes[i]);
	return bits;
}

static int ask_addresses(const char *rest, long pid, struct builder *out)
{
	struct ifaddrs *list, *a;

	if (getifaddrs(&list) != 0)
		return -errno;
	for (a = list; a; a = a->ifa_next) {
		char text[INET6_ADDRSTRLEN];
		const void *bytes;

		if (!a->ifa_addr ||
		    (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6))
			continue;
		bytes = a->ifa_addr->sa_family == AF_INET
				? (void *)&((struct sockaddr_in *)a->ifa_addr)->sin_addr
				: (void *)&((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;
		if (!inet_ntop(a->ifa_addr->sa_family, bytes, text, sizeof(text)))
			continue;
		builder_print(out, "%s %s/%u%s%s%s\n", a->ifa_name, text,
			      prefix_length(a->ifa_netmask), a->ifa_flags & IFF_UP ? " up" : "",
			      a->ifa_flags & IFF_RUNNING ? " running" : "",
			      a->ifa_flags & IFF_LOOPBACK ? " loopback" : "");
	}
	freeifaddrs(list);
	return 0;
}

static void add_limit(struct builder *out, const char *name, rlim_t value)
{
	if (value == RLIM_INFINITY)
		builder_print(out, "%s unlimited\n", name);
	else
		builder_print(out, "%s %llu\n", name, (unsigned long long)value);
}

/* The effective capabilities of this process, from its status file. */
static bool may_lock(void)
{
	unsigned long long effective = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "CapEff: %llx", &effective) == 1)
			break;
	}
	if (file)
		fclose(file);
	return effective >> CAP_IPC_LOCK_BIT & 1;
}

static int ask_limits(const char *rest, long pid, struct builder *out)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		add_limit(out, "memlock", limit.rlim_cur);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		add_limit(out, "nofile", limit.rlim_cur);
		add_limit(out, "nofile_hard", limit.rlim_max);
	}
	builder_print(out, "ipc_lock %d\nuid %u\n", may_lock(), (unsigned)geteuid());
	return 0;
}

static int ask_access(const char *rest, long pid, struct builder *out)
{
	char path[512];

	snprintf(path, sizeof(path), "/%s", rest);
	if (access(path, F_OK) != 0)
		return -errno;
	builder_print(out, "%s%s\n", access(path, R_OK) == 0 ? "r" : "-",
		      access(path, W_OK) == 0 ? "w" : "-");
	return 0;
}

static int ask_space(const char *rest, long pid, struct builder *out)
{
	struct statvfs status;
	char path[512];

	snprintf(path, sizeof(path), "/%s", rest);
	if (statvfs(path, &status) != 0)
		return -errno;
	builder_print(out, "total %llu\nfree %llu\n",
		      (unsigned long long)status.f_blocks * status.f_frsize,
		      (unsigned long long)status.f_bavail * status.f_frsize);
	return 0;
}

static int ask_clock(const char *rest, long pid, struct builder *out)
{
	struct timex state = { 0 };
	int rc = adjtimex(&state);

	if (rc < 0)
		return -errno;
	builder_print(out, "synchronized %d\nmax_error_us %ld\n",
		      rc != TIME_ERROR && !(state.status & STA_UNSYNC), state.maxerror);
	return 0;
}

static int ask_hostname(const char *rest, long pid, struct builder *out)
{
	char name[256] = "";

	if (gethostname(name, sizeof(name) - 1) != 0)
		return -errno;
	builder_print(out, "%s\n", name);
	return 0;
}

/* Each read() returns one record: "level,number,time,flags;text". Only warnings and worse, and NVIDIA's Xid, are kept. */
static int ask_kmsg(const char *rest, long pid, struct builder *out)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char record[8192];

	if (fd < 0)
		return -errno;
	for (unsigned i = 0; i < KMSG_RECORDS; i++) {
		ssize_t n = read(fd, record, sizeof(record) - 1);
		const char *text;

		if (n < 0 && errno == EPIPE)
			continue;
		if (n <= 0)
			break;
		record[n] = '\0';
		text = strchr(record, ';');
		if (!text || ((atoi(record) & 7) > 4 && !strstr(text, "Xid") &&
			      !strstr(text, "mlx5") && !strstr(text, "Link")))
			continue;
		builder_add(out, text + 1, strcspn(text + 1, "\n"));
		builder_add(out, "\n", 1);
	}
	close(fd);
	return 0;
}

/* Variables that a check may read. Others, which may be secrets, are neither shown nor captured. */
static const char *const wanted[] = {
	"NCCL_",
	"RCCL_",
	"UCX_",
	"FI_",
	"OFI_NCCL_",
	"GODWIT_",
	"LD_LIBRARY_PATH=",
	"HOME=",
	"CUDA_VISIBLE_DEVICES=",
	"WORLD_SIZE=",
	"RANK=",
	"MASTER_ADDR=",
	"container=",
	"KUBERNETES_SERVICE_HOST=",
};

static bool is_wanted(const char *variable)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (strncmp(variable, wanted[i], strlen(wanted[i])) == 0)
			return !strstr(variable, "SECRET") && !strstr(variable, "TOKEN");
	}
	return false;
}

static void add_variable(struct builder *out, const char *variable)
{
	if (!is_wanted(variable) || strchr(variable, '\n'))
		return;
	builder_add(out, variable, strlen(variable));
	builder_add(out, "\n", 1);
}

static int ask_environ_of(long pid, struct builder *out)
{
	char path[64], chunk[4096];
	struct builder all = { 0 };
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		builder_add(&all, chunk, (size_t)n);
	close(fd);
	for (size_t at = 0; at < all.length; at += strlen(all.text + at) + 1)
		add_variable(out, all.text + at);
	builder_free(&all);
	return n < 0 ? -EIO : 0;
}

static int ask_environ(const char *rest, long pid, struct builder *out)
{
	if (pid)
		return ask_environ_of(pid, out);
	for (char **variable = environ; *variable; variable++)
		add_variable(out, *variable);
	return 0;
}

static const struct {
	const char *name;
	int (*ask)(const char *rest, long pid, struct builder *out);
} questions[] = {
	{ "access/", ask_access },  { "addresses", ask_addresses }, { "clock", ask_clock },
	{ "environ", ask_environ }, { "ethtool/", probe_ethtool },  { "hostname", ask_hostname },
	{ "job/", probe_job },	    { "kmsg", ask_kmsg },	    { "library/", probe_library },
	{ "limits", ask_limits },   { "netlink/", probe_netlink },  { "space/", ask_space },
	{ "verbs/", probe_verbs },
};

int probe_ask(const char *path, long pid, struct builder *out)
{
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		size_t length = strlen(questions[i].name);
		bool group = questions[i].name[length - 1] == '/';

		if (strncmp(path, questions[i].name, length) == 0 &&
		    (group || path[length] == '\0'))
			return questions[i].ask(path + length, pid, out);
	}
	return -ENOENT;
}
