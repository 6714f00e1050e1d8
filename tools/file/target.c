/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * O_TMPFILE gives a file without a name, which even SIGKILL cannot leave behind. linkat() names it,
 * but never over an existing file; then it gets a temporary name first and is renamed. Where the
 * file system has no O_TMPFILE the temporary name is there from the start.
 */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/entropy.h"
#include "protocol.h"
#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/text.h"

#define NAME_ATTEMPTS 100

/* A fresh ".NAME.godwit-XXXXXXXX" beside the final name. */
static int make_temporary_name(const struct target *target, char out[PATH_MAX])
{
	char copy[PATH_MAX];
	uint32_t random;
	int length, rc;

	rc = entropy_fill(&random, sizeof(random));
	if (rc)
		return rc;
	snprintf(copy, sizeof(copy), "%s", target->path);
	/* The name is cut so that the whole fits in NAME_MAX. */
	length = snprintf(out, PATH_MAX, "%s/.%.200s.godwit-%08x", target->directory,
			  basename(copy), random);
	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void note_temporary(struct target *target, const char name[PATH_MAX])
{
	memcpy(target->temporary, name, PATH_MAX);
	interrupt_doom(target->temporary);
}

static int explain_open(struct report *report, const struct target *target, int error)
{
	const char *dir = target->directory;

	switch (error) {
	case -ENOENT:
		return report_fail(report, error,
				   access(dir, F_OK) ? "cannot write %s: there is no directory %s"
						     : "cannot write %s: %s takes no new files",
				   target->path, dir);
	case -ENOTDIR:
		return report_fail(report, error, "cannot write %s: %s is not a directory",
				   target->path, dir);
	case -EACCES:
	case -EPERM:
		return report_fail(report, error, "cannot write %s: no permission to write in %s",
				   target->path, dir);
	case -EROFS:
		return report_fail(report, error,
				   "cannot write %s: %s is on a read-only file system",
				   target->path, dir);
	default:
		return report_fail(report, error, "cannot write %s: %s", target->path,
				   strerror(-error));
	}
}

static int open_nameless(const char *directory)
{
	int fd;

	/* Naming it goes through /proc. Without that, better know now. */
	if (access("/proc/self/fd", X_OK))
		return -EOPNOTSUPP;
	fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static int open_named(struct target *target)
{
	char name[PATH_MAX];
	int fd, rc;

	for (int i = 0; i < NAME_ATTEMPTS; i++) {
		rc = make_temporary_name(target, name);
		if (rc)
			return rc;
		fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0) {
			note_temporary(target, name);
			return fd;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int open_stream(struct target *target, struct report *report)
{
	struct stat st;

	target->path = "standard output";
	target->stream = true;
	if (fstat(STDOUT_FILENO, &st))
		return report_fail(report, -errno, "cannot write standard output: %s",
				   strerror(errno));
	target->pipe = S_ISFIFO(st.st_mode);
	target->socket = S_ISSOCK(st.st_mode);
	target->fd = STDOUT_FILENO;
	return 0;
}

int target_open(struct target *target, struct report *report, const char *path)
{
	char copy[PATH_MAX];
	struct stat there;
	size_t length = strlen(path);
	int fd;

	*target = (struct target){ .path = path, .fd = -1 };
	if (strcmp(path, "-") == 0)
		return open_stream(target, report);
	if (length >= sizeof(copy))
		return report_fail(report, -ENAMETOOLONG, "the name of the file is too long");
	memcpy(copy, path, length + 1);
	snprintf(target->directory, sizeof(target->directory), "%s", dirname(copy));
	if (stat(path, &there) == 0) {
		if (S_ISDIR(there.st_mode))
			return report_fail(report, -EISDIR,
					   "%s is a directory; name the file to write", path);
		if (!S_ISREG(there.st_mode))
			return report_fail(
				report, -EINVAL,
				"%s exists and is not a regular file; it would be replaced", path);
	} else if (path[length - 1] == '/') {
		return report_fail(report, -EISDIR, "%s is the name of a directory", path);
	} else if (errno == ENAMETOOLONG) {
		return report_fail(report, -errno, "cannot write %s: %s", path, strerror(errno));
	}

	fd = open_nameless(target->directory);
	/* Old kernels answer EISDIR where O_TMPFILE means nothing to them. */
	if (fd == -EOPNOTSUPP || fd == -EISDIR || fd == -EINVAL)
		fd = open_named(target);
	if (fd < 0)
		return explain_open(report, target, fd);
	target->fd = fd;
	return 0;
}

bool target_fits(const struct target *target, uint64_t size, char why[TARGET_WHY])
{
	char needs[TEXT_SIZE], has[TEXT_SIZE];
	struct statvfs fs;
	uint64_t available;

	if (target->stream || fstatvfs(target->fd, &fs))
		return true;
	available = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (size <= available)
		return true;
	snprintf(why, TARGET_WHY, "no space for %.200s: needs %s, %.200s has %s free", target->path,
		 text_bytes(size, needs), target->directory, text_bytes(available, has));
	return false;
}

/* A pipe with any room takes PIPE_BUF bytes without blocking; more would block until all are read. */
static ssize_t write_some(const struct target *target, const uint8_t *bytes, uint64_t length)
{
	struct pollfd fd = { .fd = target->fd, .events = POLLOUT };

	if (target->socket)
		return send(target->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (target->pipe && poll(&fd, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	if (target->pipe && length > PIPE_BUF)
		length = PIPE_BUF;
	return write(target->fd, bytes, length);
}

int64_t target_write(struct target *target, const void *data, uint64_t length, uint64_t offset)
{
	const uint8_t *bytes = data;
	uint64_t done = 0;

	while (done < length) {
		ssize_t n = target->stream ? write_some(target, bytes + done, length - done)
					   : pwrite(target->fd, bytes + done, length - done,
						    (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return (int64_t)done;
}

void target_wait(const struct target *target, int milliseconds)
{
	struct pollfd fd = { .fd = target->fd, .events = POLLOUT };

	poll(&fd, 1, milliseconds);
}

/* Gives the nameless file a temporary name of its own. */
static int name_temporarily(struct target *target, const char *self)
{
	char name[PATH_MAX];
	int rc;

	for (int i = 0; i < NAME_ATTEMPTS; i++) {
		rc = make_temporary_name(target, name);
		if (rc)
			return rc;
		if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
			note_temporary(target, name);
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int give_name(struct target *target)
{
	char self[32];
	int rc;

	if (target->temporary[0] == '\0') {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", target->fd);
		if (linkat(AT_FDCWD, self, AT_FDCWD, target->path, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
		rc = name_temporarily(target, self);
		if (rc)
			return rc;
	}
	if (rename(target->temporary, target->path))
		return -errno;
	interrupt_doom(NULL);
	target->temporary[0] = '\0';
	return 0;
}

static void sync_directory(const struct target *target)
{
	int fd = open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* The file is complete and named: a directory that cannot be synced is no reason to fail. */
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

static void *commit(void *arg)
{
	struct target *target = arg;
	int rc;

	rc = fsync(target->fd) ? -errno : 0;
	/* Some network file systems cannot sync; that they say so is all there is to know. */
	if (rc == -EINVAL)
		rc = 0;
	if (rc == 0 && interrupt_signal())
		rc = -EINTR;
	if (rc == 0)
		rc = give_name(target);
	if (rc == 0)
		sync_directory(target);
	atomic_store(&target->commit_status, rc);
	return NULL;
}

int target_commit_start(struct target *target, uint32_t mode)
{
	sigset_t all, before;
	mode_t mask = umask(0);
	int rc;

	umask(mask);
	if (target->stream)
		return 0;
	/* A file system without permissions keeps its own. */
	if (fchmod(target->fd, (mode_t)(mode & 0777) & ~mask) && errno != EPERM &&
	    errno != EOPNOTSUPP)
		return -errno;
	atomic_store(&target->commit_status, -EINPROGRESS);
	/* Signals are for the thread that can tell the peer. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&target->committer, NULL, commit, target);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return -rc;
	target->committing = true;
	return 0;
}

int target_commit_status(struct target *target)
{
	int status = atomic_load(&target->commit_status);

	if (status != -EINPROGRESS && target->committing) {
		pthread_join(target->committer, NULL);
		target->committing = false;
	}
	return status;
}

void target_close(struct target *target)
{
	if (target->committing)
		pthread_join(target->committer, NULL);
	target->committing = false;
	if (target->temporary[0] != '\0')
		unlink(target->temporary);
	interrupt_doom(NULL);
	target->temporary[0] = '\0';
	if (target->fd >= 0 && !target->stream)
		close(target->fd);
	target->fd = -1;
}
