/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe is polled before it is read, and not switched to non-blocking reads: that would hold for others who share it, too. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol.h"
#include "tools/report.h"
#include "tools/text.h"

/* What a file gets that was never one: the receiver's umask decides. */
#define STREAM_MODE 0666

static int explain(const struct source *source, struct report *report, int error)
{
	return report_fail(report, error, "cannot read %s: %s", source->name, strerror(-error));
}

int source_open(struct source *source, struct report *report, const char *path)
{
	struct stat st;

	*source = (struct source){ .name = path, .fd = -1, .size = PROTOCOL_SIZE_UNKNOWN };
	if (strcmp(path, "-") == 0) {
		source->name = "standard input";
		source->stream = true;
		source->mode = STREAM_MODE;
		source->fd = STDIN_FILENO;
		return 0;
	}
	/* O_NONBLOCK: opening a pipe without a writer would block. */
	source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (source->fd < 0 || fstat(source->fd, &st))
		return explain(source, report, -errno);
	if (S_ISDIR(st.st_mode))
		return report_fail(report, -EISDIR, "%s is a directory; only a file can be sent",
				   path);
	if (!S_ISREG(st.st_mode))
		return report_fail(report, -EINVAL,
				   "%s is not a regular file; `godwit send -` sends standard input",
				   path);
	posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	source->size = (uint64_t)st.st_size;
	source->mode = st.st_mode & 0777;
	source->ended = source->size == 0;
	return 0;
}

ssize_t source_read(struct source *source, struct report *report, uint8_t *out, size_t room)
{
	struct pollfd fd = { .fd = source->fd, .events = POLLIN };
	char share[2 * TEXT_SIZE];
	ssize_t n;

	if (source->ended || (source->stream && poll(&fd, 1, 0) == 0))
		return 0;
	if (room > source->size - source->read)
		room = source->size - source->read;
	n = read(source->fd, out, room);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0)
		return explain(source, report, -errno);
	if (n == 0 && !source->stream)
		return report_fail(report, -EIO, "%s shrank while it was being sent: %s are left",
				   source->name, text_share(source->read, source->size, share));
	source->crc32 = crc32_gzip_refl(source->crc32, out, (size_t)n);
	source->read += (uint64_t)n;
	source->ended = n == 0 || source->read == source->size;
	return n;
}

void source_wait(const struct source *source, int milliseconds)
{
	struct pollfd fd = { .fd = source->fd, .events = POLLIN };

	poll(&fd, 1, milliseconds);
}

void source_close(struct source *source)
{
	if (source->fd >= 0 && !source->stream)
		close(source->fd);
	source->fd = -1;
}
