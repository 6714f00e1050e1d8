/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD in `nccl-gid`: files of /sys/class/infiniband are those of $FAKE_SYS. Reading one whose contents are "EINVAL"
 * fails so, as the kernel has it for the type of an unused GID.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband/"

/* Descriptor whose next read fails. */
static int refused = -1;

static int open_file(const char *which, const char *path, int flags, mode_t mode)
{
	int (*real)(const char *, int, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, which);
	const char *root = getenv("FAKE_SYS");
	char moved[512], word[7] = "";
	int fd;

	if (!root || !path || strncmp(path, CLASS, sizeof(CLASS) - 1) != 0)
		return real(path, flags, mode);
	snprintf(moved, sizeof(moved), "%s/%s", root, path + sizeof(CLASS) - 1);
	fd = real(moved, flags, mode);
	if (fd >= 0 && pread(fd, word, 6, 0) == 6 && strcmp(word, "EINVAL") == 0)
		refused = fd;
	return fd;
}

static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return open_file("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return open_file("open64", path, flags, mode);
}

ssize_t read(int fd, void *out, size_t size)
{
	static ssize_t (*real)(int, void *, size_t);

	if (!real)
		real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	if (fd >= 0 && fd == refused) {
		refused = -1;
		errno = EINVAL;
		return -1;
	}
	return real(fd, out, size);
}
