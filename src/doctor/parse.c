/* SPDX-License-Identifier: BSD-3-Clause */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool only_blanks(const char *text)
{
	return text[strspn(text, " \t\n\r")] == '\0';
}

bool parse_number(const char *text, uint64_t *out)
{
	unsigned long long value;
	char *end;

	text += strspn(text, " \t");
	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	value = strtoull(text, &end, text[1] == 'x' ? 16 : 10);
	if (errno || end == text || !only_blanks(end))
		return false;
	*out = value;
	return true;
}

bool parse_signed(const char *text, int64_t *out)
{
	long long value;
	char *end;

	errno = 0;
	value = strtoll(text, &end, 0);
	if (errno || end == text)
		return false;
	*out = value;
	return true;
}

bool parse_leading(const char *text, unsigned *out)
{
	unsigned long value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || value > 1000 || *end != ':')
		return false;
	*out = (unsigned)value;
	return true;
}

/* A number with at most one fractional digit, in tenths; *end is set behind it. */
static bool tenths_of(const char *text, unsigned *out, const char **end)
{
	unsigned value = 0, digits = 0;

	for (; isdigit((unsigned char)*text) && digits < 7; text++, digits++)
		value = value * 10 + (unsigned)(*text - '0');
	if (digits == 0 || digits == 7)
		return false;
	value *= 10;
	if (*text == '.' && isdigit((unsigned char)text[1])) {
		value += (unsigned)(text[1] - '0');
		text += 2;
		while (isdigit((unsigned char)*text))
			text++;
	}
	*out = value;
	*end = text;
	return true;
}

bool parse_port_rate(const char *text, uint64_t *bps)
{
	const char *end;
	unsigned tenths;

	if (!tenths_of(text, &tenths, &end) || strncmp(end, " Gb/sec", 7) != 0)
		return false;
	*bps = (uint64_t)tenths * 100000000u;
	return true;
}

bool parse_link_speed(const char *text, unsigned *out)
{
	const char *end;
	unsigned tenths;

	if (!tenths_of(text, &tenths, &end) || strncmp(end, " GT/s", 5) != 0)
		return false;
	*out = tenths;
	return true;
}

bool parse_gid(const char *text, uint8_t out[16])
{
	uint8_t gid[16] = { 0 };
	unsigned nibble = 0;

	for (; *text && nibble < 32; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == ':') {
			if (nibble % 4)
				return false;
			continue;
		}
		if (!isxdigit(c))
			return false;
		c = (unsigned char)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
		gid[nibble / 2] = (uint8_t)(gid[nibble / 2] << 4 | c);
		nibble++;
	}
	if (nibble != 32 || !only_blanks(text))
		return false;
	memcpy(out, gid, sizeof(gid));
	return true;
}

bool parse_cpu_list_has(const char *text, unsigned cpu)
{
	while (isdigit((unsigned char)*text)) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (cpu >= first && cpu <= last)
			return true;
		text = *end == ',' ? end + 1 : end;
		if (text == end)
			break;
	}
	return false;
}

bool parse_line(const char **at, const char **line, size_t *length)
{
	if (**at == '\0')
		return false;
	*line = *at;
	*length = strcspn(*at, "\n");
	*at += *length + ((*at)[*length] == '\n');
	return true;
}

bool parse_value(const char *text, const char *key, char *out, size_t size)
{
	size_t key_length = strlen(key), length;
	const char *line;

	while (parse_line(&text, &line, &length)) {
		if (length < key_length || memcmp(line, key, key_length) != 0 ||
		    (length > key_length && line[key_length] != ' '))
			continue;
		line += key_length;
		length -= key_length;
		while (length && (*line == ' ' || *line == '\t')) {
			line++;
			length--;
		}
		if (length >= size)
			return false;
		memcpy(out, line, length);
		out[length] = '\0';
		return true;
	}
	return false;
}

bool parse_value_number(const char *text, const char *key, uint64_t *out)
{
	char value[32];

	return parse_value(text, key, value, sizeof(value)) && parse_number(value, out);
}
