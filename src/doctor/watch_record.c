/* SPDX-License-Identifier: BSD-3-Clause */
/* Recordings: the manifests of samples, of which most are told as the difference to a whole one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watch.h"

#define HEADING "# godwit watch 1\n"
/* A whole sample from time to time, so that a recording can be cut; and where many files went, which a manifest takes out
 * one by one. */
#define WHOLE_EVERY  600u
#define REMOVALS_MAX 100u
/* Hours of a large host. */
#define RECORDING_MAX (UINT64_C(1) << 30)

struct watch_recorder {
	FILE *file;
	/* lines of the last whole sample, in the order of their paths; null: none yet */
	char *whole;
	unsigned since;
};

struct watch_replay {
	char *text;
	/* the next sample */
	char *at;
	/* manifest of the last whole sample */
	const char *whole;
};

int watch_record_open(const char *path, struct watch_recorder **out)
{
	struct watch_recorder *recorder = calloc(1, sizeof(*recorder));

	if (!recorder)
		return -ENOMEM;
	recorder->file = fopen(path, "we");
	if (!recorder->file) {
		free(recorder);
		return -errno;
	}
	fputs(HEADING, recorder->file);
	*out = recorder;
	return 0;
}

/* Length of the path that a line begins with; that of a directory ends in a slash, which is not part of it. */
static size_t path_length(const char *line)
{
	size_t length = strcspn(line, " \n");

	return length > 1 && line[length - 1] == '/' ? length - 1 : length;
}

static int compare_paths(const char *a, const char *b)
{
	size_t one = path_length(a), two = path_length(b);
	int order = memcmp(a, b, one < two ? one : two);

	return order ? order : (one > two) - (one < two);
}

/* Adds the lines of `now` that `whole` does not have, and takes out those that `now` has not. Returns how many it took out. */
static unsigned difference(const char *whole, const char *now, struct builder *out)
{
	unsigned removed = 0;

	while (*whole || *now) {
		size_t old = strcspn(whole, "\n"), new = strcspn(now, "\n");
		int order = !*whole ? 1 : !*now ? -1 : compare_paths(whole, now);

		if (order < 0) {
			builder_print(out, "- %.*s\n", (int)path_length(whole), whole);
			removed++;
		} else if (order > 0 || old != new || memcmp(whole, now, old) != 0) {
			builder_add(out, now, new);
			builder_add(out, "\n", 1);
		}
		if (order <= 0)
			whole += old + (whole[old] == '\n');
		if (order >= 0)
			now += new + (now[new] == '\n');
	}
	return removed;
}

int watch_record(struct watch_recorder *recorder, const struct watch_sample *sample)
{
	struct builder now = { 0 }, lines = { 0 };
	bool whole = !recorder->whole || recorder->since == WHOLE_EVERY;

	reader_manifest(sample->reader, &now);
	builder_add(&now, "", 1);
	if (!whole)
		whole = difference(recorder->whole, now.text, &lines) > REMOVALS_MAX;
	builder_add(&lines, "", 1);
	fprintf(recorder->file, "== %lld%s\n%s", (long long)sample->time_ns, whole ? " full" : "",
		whole ? now.text : lines.text);
	builder_free(&lines);
	recorder->since++;
	if (whole) {
		free(recorder->whole);
		recorder->whole = strdup(now.text);
		recorder->since = 0;
	}
	builder_free(&now);
	if (whole && !recorder->whole)
		return -ENOMEM;
	return fflush(recorder->file) == 0 ? 0 : -errno;
}

int watch_record_close(struct watch_recorder *recorder)
{
	int rc;

	if (!recorder)
		return 0;
	rc = fclose(recorder->file) == 0 ? 0 : -errno;
	free(recorder->whole);
	free(recorder);
	return rc;
}

static int load(const char *path, struct builder *out)
{
	FILE *file = fopen(path, "re");
	char chunk[16384];
	size_t n;
	int rc = 0;

	if (!file)
		return -errno;
	while (rc == 0 && (n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
		builder_add(out, chunk, n);
		rc = memchr(chunk, '\0', n) || out->length > RECORDING_MAX ? -EINVAL : 0;
	}
	if (rc == 0 && ferror(file))
		rc = -EIO;
	fclose(file);
	builder_add(out, "", 1);
	return rc;
}

int watch_replay_open_text(const char *text, struct watch_replay **out)
{
	struct watch_replay *replay;

	if (strncmp(text, HEADING, strlen(HEADING)) != 0)
		return -EINVAL;
	replay = calloc(1, sizeof(*replay));
	if (replay)
		replay->text = strdup(text);
	if (!replay || !replay->text) {
		free(replay);
		return -ENOMEM;
	}
	/* Remarks may stand before the first sample. */
	replay->at = strstr(replay->text, "\n== ");
	if (replay->at)
		replay->at++;
	*out = replay;
	return 0;
}

int watch_replay_open(const char *path, struct watch_replay **out)
{
	struct builder text = { 0 };
	int rc = load(path, &text);

	if (rc == 0)
		rc = text.text ? watch_replay_open_text(text.text, out) : -EINVAL;
	builder_free(&text);
	return rc;
}

int watch_replay_next(struct watch_replay *replay, bool everything, struct watch_sample *out)
{
	const char *manifests[2];
	char *body, *next, *end;
	struct reader *reader;
	long long time_ns;
	bool whole;

	if (!replay->at || !*replay->at)
		return 0;
	body = strchr(replay->at, '\n');
	errno = 0;
	time_ns = strtoll(replay->at + 3, &end, 10);
	whole = strncmp(end, " full\n", 6) == 0;
	if (!body || errno || end == replay->at + 3 || (!whole && end != body) ||
	    (!whole && !replay->whole))
		return -EINVAL;
	next = strstr(body, "\n== ");
	*body++ = '\0';
	replay->at = next ? next + 1 : NULL;
	/* Where nothing changed, the next heading follows at once. */
	if (next && next < body)
		manifests[1] = "";
	else
		manifests[1] = body;
	if (next)
		*next = '\0';
	if (whole)
		replay->whole = manifests[1];
	manifests[0] = replay->whole;
	if (reader_open_text(manifests, whole ? 1 : 2, &reader) != 0)
		return -EINVAL;
	watch_read(reader, time_ns, everything, out);
	return 1;
}

void watch_replay_close(struct watch_replay *replay)
{
	if (!replay)
		return;
	free(replay->text);
	free(replay);
}
