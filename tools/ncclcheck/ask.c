/* SPDX-License-Identifier: BSD-3-Clause */
#include "ask.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugins/nccl/ask.h"

int ask_process(pid_t process)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 5 };
	char answer[4096];
	int length, rc = 0, fd;
	ssize_t n, total = 0;

	if (kill(process, 0) && errno == ESRCH)
		return -ESRCH;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, ASK_SOCKET,
			  (int)process);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length))) {
		rc = -errno;
		close(fd);
		return rc;
	}
	while ((n = read(fd, answer, sizeof(answer))) > 0) {
		fwrite(answer, 1, (size_t)n, stdout);
		total += n;
	}
	if (n < 0)
		rc = errno == EAGAIN ? -ETIMEDOUT : -errno;
	else if (!total)
		rc = -EACCES;
	close(fd);
	return rc;
}
