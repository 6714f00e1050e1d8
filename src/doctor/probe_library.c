/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads a shared library as NCCL would and says what came of it: the path, the interfaces it exports, or the loader's own
 * words. A library runs code when it is loaded, so that this happens in a child that has a few seconds.
 */
#include "probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD_TIMEOUT_MS 5000

static void look_up(void *library, FILE *out, const char *format, int from, int to)
{
	char symbol[64];

	for (int version = to; version >= from; version--) {
		snprintf(symbol, sizeof(symbol), format, version);
		if (dlsym(library, symbol))
			fprintf(out, "symbol %s\n", symbol);
	}
}

/* Runs in the child and writes the answer. */
static void load(const char *name, FILE *out)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const struct link_map *map;

	if (!library) {
		fprintf(out, "error %s\n", dlerror());
		return;
	}
	if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
		fprintf(out, "loaded %s\n", map->l_name);
	/* The versions of the interface, newest first; NCCL takes the first that it knows. */
	look_up(library, out, "ncclNetPlugin_v%d", 4, 12);
	look_up(library, out, "ncclCollNetPlugin_v%d", 4, 12);
	/* What NCCL looks for in libmlx5 and libibverbs. */
	if (dlvsym(library, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25"))
		fprintf(out, "symbol mlx5dv_reg_dmabuf_mr\n");
	if (dlsym(library, "ibv_is_fork_initialized"))
		fprintf(out, "symbol ibv_is_fork_initialized\n");
	if (dlsym(library, "ibv_reg_dmabuf_mr"))
		fprintf(out, "symbol ibv_reg_dmabuf_mr\n");
}

static void run_child(const char *name, int fd)
{
	FILE *out = fdopen(fd, "w");
	int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!out)
		_exit(1);
	if (quiet >= 0) {
		dup2(quiet, STDOUT_FILENO);
		dup2(quiet, STDERR_FILENO);
	}
	load(name, out);
	fflush(out);
	/* No destructors of what was loaded. */
	_exit(0);
}

int probe_library(const char *rest, long pid, struct builder *out)
{
	int ends[2], status = 0, rc = 0;
	char chunk[1024], name[1024];
	ssize_t n = 1;
	pid_t child;

	/* With a slash in it, it is a path from the root. */
	snprintf(name, sizeof(name), "%s%s", strchr(rest, '/') ? "/" : "", rest);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	child = fork();
	if (child < 0) {
		close(ends[0]);
		close(ends[1]);
		return -EAGAIN;
	}
	if (child == 0)
		run_child(name, ends[1]);
	close(ends[1]);
	while (n > 0) {
		struct pollfd wait_for = { .fd = ends[0], .events = POLLIN };

		if (poll(&wait_for, 1, LOAD_TIMEOUT_MS) <= 0) {
			builder_print(out, "error loading did not end within %d s\n",
				      LOAD_TIMEOUT_MS / 1000);
			break;
		}
		n = read(ends[0], chunk, sizeof(chunk));
		if (n > 0)
			builder_add(out, chunk, (size_t)n);
	}
	close(ends[0]);
	kill(child, SIGKILL);
	if (waitpid(child, &status, 0) == child && out->length == 0)
		builder_print(out, "error loading ended the process with signal %d\n",
			      WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return rc;
}
