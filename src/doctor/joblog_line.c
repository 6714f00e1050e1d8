/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The beginning of a line. NCCL writes "host:pid:thread [device] NCCL INFO text", and for warnings
 * "host:pid:thread [device] file:line NCCL WARN text", since 2.27 with a time in brackets before it. Launchers put labels
 * before that, some without a blank. So the header is found from its end: the words NCCL INFO, and backwards from there.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "joblog.h"

#define HOST_MAX  255u
#define TIME_SPAN 96u

/* Returns where the blank-free word that ends before `end` begins. */
static const char *word_before(const char *line, const char *end)
{
	while (end > line && end[-1] != ' ' && end[-1] != '\t')
		end--;
	return end;
}

static const char *blanks_before(const char *line, const char *end)
{
	while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return end;
}

/* Reads the digits that end before `*end`, after a colon; moves *end before the colon. */
static bool number_before(const char *begin, const char **end, long *out)
{
	const char *at = *end;

	while (at > begin && isdigit((unsigned char)at[-1]))
		at--;
	if (at == *end || *end - at > 10 || at == begin || at[-1] != ':')
		return false;
	*out = strtol(at, NULL, 10);
	*end = at - 1;
	return true;
}

/* Takes "label]:host:pid:thread" apart; labels end in one of these characters. */
static bool parse_identity(const char *begin, const char *end, struct joblog_line *out)
{
	const char *host;

	if (!number_before(begin, &end, &out->thread) || !number_before(begin, &end, &out->pid))
		return false;
	for (host = end; host > begin && !strchr("]>|:", host[-1]); host--)
		;
	if (host == end || (size_t)(end - host) > HOST_MAX)
		return false;
	out->host = host;
	out->host_length = (size_t)(end - host);
	return true;
}

/* Finds the next "NCCL INFO " or "NCCL WARN ". */
static const char *find_level(const char *line, bool *warning)
{
	for (const char *at = line; (at = strstr(at, "NCCL ")); at += 5) {
		if (strncmp(at + 5, "INFO ", 5) == 0 || strncmp(at + 5, "WARN ", 5) == 0) {
			*warning = at[5] == 'W';
			return at;
		}
	}
	return NULL;
}

bool joblog_line_parse(const char *line, struct joblog_line *out)
{
	bool warning = false;
	const char *level = find_level(line, &warning), *end, *word;

	if (!level)
		return false;
	*out = (struct joblog_line){ .warning = warning, .text = level + 10 };
	end = blanks_before(line, level);
	if (warning) {
		/* The source file and its line. */
		end = blanks_before(line, word_before(line, end));
	}
	word = word_before(line, end);
	if (end == word || end[-1] != ']' || word[0] != '[')
		return false;
	end = blanks_before(line, word);
	word = word_before(line, end);
	if (!parse_identity(word, end, out))
		return false;
	out->launcher_rank = joblog_launcher_rank(line);
	return true;
}

long joblog_launcher_rank(const char *line)
{
	char *end;
	long rank;

	while (*line == ' ')
		line++;
	if (strncmp(line, "[rank", 5) == 0 && isdigit((unsigned char)line[5])) {
		rank = strtol(line + 5, &end, 10);
		return *end == ']' && rank < INT32_MAX ? rank : -1;
	}
	if (line[0] == '[' && isdigit((unsigned char)line[1])) {
		strtol(line + 1, &end, 10);
		if (*end != ',' || !isdigit((unsigned char)end[1]))
			return -1;
		rank = strtol(end + 1, &end, 10);
		return *end == ']' && end[1] == '<' && rank < INT32_MAX ? rank : -1;
	}
	if (isdigit((unsigned char)line[0])) {
		rank = strtol(line, &end, 10);
		return end - line < 9 && *end == ':' && end[1] == ' ' ? rank : -1;
	}
	return -1;
}

static bool digits(const char *at, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!isdigit((unsigned char)at[i]))
			return false;
	}
	return true;
}

void joblog_time(const char *line, char out[16])
{
	size_t length = strnlen(line, TIME_SPAN);

	out[0] = '\0';
	for (size_t i = 0; i + 8 <= length; i++) {
		const char *at = line + i;
		size_t whole = 8;

		if (!digits(at, 2) || at[2] != ':' || !digits(at + 3, 2) || at[5] != ':' ||
		    !digits(at + 6, 2) || (i && isdigit((unsigned char)at[-1])))
			continue;
		if (at[8] == '.' && i + 12 <= length && digits(at + 9, 3))
			whole = 12;
		memcpy(out, at, whole);
		out[whole] = '\0';
		return;
	}
}
