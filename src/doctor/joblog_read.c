/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of logs, cut into lines: from a descriptor in pieces, so that a log may be of any length. A carriage return ends a
 * line, too (progress bars); colours and zero bytes are taken out; of a very long line the beginning is looked at.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "joblog.h"

#define PIECE_BYTES   65536u
#define DIRECTORY_MAX 4u

/* A line that is being put together. */
struct assembly {
	struct joblog_stream stream;
	char line[JOBLOG_LINE_MAX];
	size_t length;
	bool cut;
	/* inside a terminal's control sequence: 1 after the escape, 2 behind its bracket */
	unsigned escape;
};

/* A second header in a line: two processes wrote at once. Where it begins follows from a process that is known. */
static const char *second_header(struct joblog *log, const struct joblog_line *line,
				 struct joblog_line *second)
{
	if (!joblog_line_parse(line->text, second))
		return NULL;
	second->launcher_rank = -1;
	for (size_t i = 0; i < second->host_length; i++) {
		const char *host = second->host + i;
		size_t length = second->host_length - i;
		uint64_t key = joblog_hash((uint64_t)second->pid, host, length);

		if (joblog_get(&log->process_index, key) == JOBLOG_NONE)
			continue;
		second->host = host;
		second->host_length = length;
		return host;
	}
	return NULL;
}

static void take_nccl(struct joblog_stream *stream, struct joblog_line *line, char *text)
{
	struct joblog_line second;
	const char *cut = second_header(stream->log, line, &second);
	char kept = '\0';
	char *at = NULL;

	if (cut) {
		at = text + (cut - text);
		kept = *at;
		*at = '\0';
	}
	joblog_nccl(stream, line, text);
	if (!cut)
		return;
	*at = kept;
	/* No third: the rest of such a line is rare enough. */
	joblog_nccl(stream, &second, at);
}

static void take_line(struct assembly *a)
{
	struct joblog_line line;

	if (a->length) {
		a->line[a->length] = '\0';
		a->stream.log->lines++;
		a->stream.log->cut_lines += a->cut;
		if (joblog_line_parse(a->line, &line)) {
			a->stream.log->nccl_lines++;
			take_nccl(&a->stream, &line, a->line);
		} else if (joblog_torch(&a->stream, a->line)) {
			a->stream.log->torch_lines++;
		} else if (strncmp(a->line, "NCCL version ", 13) == 0) {
			/* 2.18 to 2.22 print it without saying who they are. */
			a->stream.log->version = joblog_text(a->stream.log, a->line + 13,
							     strcspn(a->line + 13, " "));
		}
	}
	a->length = 0;
	a->cut = false;
	a->escape = 0;
}

/* Returns whether a byte belongs to a terminal's control sequence. */
static bool in_escape(struct assembly *a, char c)
{
	if (a->escape == 0) {
		a->escape = c == '\033';
		return a->escape;
	}
	if (a->escape == 1) {
		a->escape = c == '[' ? 2 : 0;
		return true;
	}
	if (c >= '@' && c <= '~')
		a->escape = 0;
	return true;
}

static void take_bytes(struct assembly *a, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char c = bytes[i];

		if (c == '\n' || c == '\r') {
			take_line(a);
			a->stream.line += c == '\n';
		} else if (in_escape(a, c)) {
			continue;
		} else if (a->length < sizeof(a->line) - 1) {
			a->line[a->length++] = c ? c : '?';
		} else {
			a->cut = true;
		}
	}
}

static struct assembly *begin(struct joblog *log, const char *name)
{
	struct assembly *a = scratch_alloc(&log->scratch, sizeof(*a));

	a->stream = (struct joblog_stream){ .log = log,
					    .file = joblog_text(log, name, strlen(name)),
					    .line = 1,
					    .report_rank = -1 };
	log->files++;
	return a;
}

void joblog_read_bytes(struct joblog *log, const char *name, const char *bytes, size_t length)
{
	struct assembly *a = begin(log, name);

	take_bytes(a, bytes, length);
	take_line(a);
}

int joblog_read_fd(struct joblog *log, const char *name, int fd)
{
	struct assembly *a = begin(log, name);
	char *piece = malloc(PIECE_BYTES);
	ssize_t got = 0;
	int rc = 0;

	if (!piece)
		return -ENOMEM;
	for (;;) {
		got = read(fd, piece, PIECE_BYTES);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		take_bytes(a, piece, (size_t)got);
	}
	if (got < 0)
		rc = -errno;
	take_line(a);
	free(piece);
	return rc;
}

static int read_entry(struct joblog *log, int parent, const char *name, const char *shown,
		      unsigned depth);

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int read_directory(struct joblog *log, int fd, const char *shown, unsigned depth)
{
	struct dirent **entries = NULL;
	int count = scandirat(fd, ".", &entries, NULL, by_name);

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (name[0] != '.' && log->files < JOBLOG_FILES_MAX) {
			const char *path = scratch_print(&log->scratch, "%s%s%s", shown,
							 shown[0] ? "/" : "", name);

			int failed = read_entry(log, fd, name, path, depth + 1);

			if (failed && !log->unreadable)
				log->unreadable = scratch_print(&log->scratch, "%s (%s)", path,
								strerror(-failed));
		}
		free(entries[i]);
	}
	free(entries);
	return 0;
}

static int read_entry(struct joblog *log, int parent, const char *name, const char *shown,
		      unsigned depth)
{
	/* A pipe that a caller names is read; one that lies in a directory must not make us wait. */
	int fd = openat(parent, name, O_RDONLY | O_CLOEXEC | (depth ? O_NONBLOCK : 0)), rc = 0;
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0) {
		rc = -errno;
	} else if (S_ISDIR(status.st_mode)) {
		if (depth < DIRECTORY_MAX)
			rc = read_directory(log, fd, depth ? shown : "", depth);
	} else if (depth == 0 || S_ISREG(status.st_mode)) {
		rc = joblog_read_fd(log, shown, fd);
	}
	close(fd);
	return rc;
}

int joblog_read(struct joblog *log, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (strcmp(path, "-") == 0)
		return joblog_read_fd(log, "-", STDIN_FILENO);
	return read_entry(log, AT_FDCWD, path, slash && slash[1] ? slash + 1 : path, 0);
}

/* Communicator in which a process has this rank, the largest one; JOBLOG_NONE if there is none. */
static uint32_t communicator_by_rank(const struct joblog *log, const struct joblog_pair *pair)
{
	const struct joblog_process *process = &log->processes[pair->process];
	uint32_t best = JOBLOG_NONE;

	for (unsigned i = 0; i < process->recent_count; i++) {
		const struct joblog_member *member = &log->members[process->recent[i]];
		const struct joblog_communicator *communicator =
			&log->communicators[member->communicator];

		if ((member->rank != pair->from && member->rank != pair->to) ||
		    pair->from >= communicator->ranks || pair->to >= communicator->ranks)
			continue;
		if (best == JOBLOG_NONE || communicator->ranks > log->communicators[best].ranks)
			best = member->communicator;
	}
	return best;
}

/* NCCL 2.18 names a communicator only when all its connections are made: they were kept without one until now. */
static void place_pairs(struct joblog *log)
{
	for (uint32_t i = 0; i < log->pair_count; i++) {
		const struct joblog_pair old = log->pairs[i];
		uint32_t communicator = old.communicator == JOBLOG_NONE
						? communicator_by_rank(log, &old)
						: JOBLOG_NONE;
		struct joblog_pair *pair;

		if (communicator == JOBLOG_NONE)
			continue;
		pair = joblog_pair(log, communicator, old.process, old.from, old.to);
		if (!pair)
			continue;
		/* The other end's word may be there already. */
		if (!pair->transport) {
			pair->transport = old.transport;
			pair->place = old.place;
		}
		pair->channels += old.channels;
		pair->devices |= old.devices;
		log->pairs[i].transport = NULL;
	}
	for (uint32_t i = 0; i < log->pair_count;) {
		if (log->pairs[i].transport)
			i++;
		else
			log->pairs[i] = log->pairs[--log->pair_count];
	}
}

/*
 * More processes than ranks: the job ran several times, and GPUs have had several processes; or there is no communicator with
 * all ranks in these logs, only groups.
 */
static void count_runs(struct joblog *log)
{
	struct joblog_index seen = { 0 };
	long ranks = 0;

	for (uint32_t i = 0; i < log->communicator_count; i++) {
		if (log->communicators[i].ranks > ranks)
			ranks = log->communicators[i].ranks;
	}
	if (!ranks || (long)log->process_count <= ranks)
		return;
	for (uint32_t i = 0; i < log->process_count; i++) {
		const struct joblog_process *process = &log->processes[i];
		uint64_t key;

		if (!process->bus)
			continue;
		key = joblog_hash(joblog_hash(23, process->host, strlen(process->host)),
				  process->bus, strlen(process->bus));
		log->several_runs |= joblog_get(&seen, key) != JOBLOG_NONE;
		joblog_set(log, &seen, key, 1);
	}
	log->groups_only = !log->several_runs;
}

/* The rank in the largest communicator stands for the rank in the job, unless the launcher named it. */
void joblog_seal(struct joblog *log)
{
	place_pairs(log);
	count_runs(log);
	for (uint32_t i = 0; i < log->member_count && !log->groups_only; i++) {
		const struct joblog_member *member = &log->members[i];
		long ranks = log->communicators[member->communicator].ranks;
		struct joblog_process *process = &log->processes[member->process];

		if (ranks > process->ranks) {
			process->ranks = ranks;
			process->rank = member->rank;
		}
	}
	for (uint32_t i = 0; i < log->process_count; i++) {
		struct joblog_process *process = &log->processes[i];

		if (process->launcher_rank >= 0)
			process->rank = process->launcher_rank;
	}
}
