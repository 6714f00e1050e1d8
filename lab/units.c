/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * units.c: a quantity is a decimal number and a unit. The units of times stand in a table. Those of rates and sizes are a
 * prefix (k, M, G, T, or Ki, Mi, ...) and a word; both may be missing.
 */
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Above this a double does not represent every whole number. */
#define LARGEST 9e15

#define SECOND_NS 1e9

enum problem {
	FINE,
	NOT_ONE,
	NO_UNIT,
	/* m: minutes or milliseconds */
	MINUTES_OR_MILLISECONDS,
	/* bits where bytes are counted, or the reverse */
	WRONG_B,
	/* a part of a byte */
	BROKEN,
	TOO_LARGE,
	TOO_SMALL,
};

static const struct {
	const char *text;
	double factor;
} time_units[] = {
	{ "ns", 1 },
	{ "us", 1e3 },
	/* the micro sign, and the Greek letter that looks like it */
	{ "\xc2\xb5s", 1e3 },
	{ "\xce\xbcs", 1e3 },
	{ "ms", 1e6 },
	{ "s", SECOND_NS },
	{ "sec", SECOND_NS },
	{ "min", 60 * SECOND_NS },
	{ "h", 3600 * SECOND_NS },
};

static const char *const bit_words[] = { "bit", "bits", "bit/s", "bits/s", "bit/sec", "bits/sec" };
static const char *const byte_words[] = { "byte", "bytes", "byte/s", "bytes/s" };

static int read_number(const char *text, double *value, const char **rest)
{
	char *end;

	/* strtod() also accepts spaces, signs, "inf" and hexadecimal. */
	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -EINVAL;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return -EINVAL;
	*value = strtod(text, &end);
	if (end == text)
		return -EINVAL;
	/* A blank at the end is not one before a unit. */
	*rest = end[0] == ' ' && end[1] != '\0' ? end + 1 : end;
	return 0;
}

static enum problem time_factor(const char *unit, double *factor)
{
	for (size_t i = 0; i < sizeof(time_units) / sizeof(time_units[0]); i++) {
		if (strcasecmp(unit, time_units[i].text) == 0) {
			*factor = time_units[i].factor;
			return FINE;
		}
	}
	if (strcasecmp(unit, "m") == 0)
		return MINUTES_OR_MILLISECONDS;
	return unit[0] == '\0' ? NO_UNIT : NOT_ONE;
}

static int is_word(const char *unit, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(unit, words[i]) == 0)
			return 1;
	}
	return 0;
}

/* Says what the word after a prefix counts: 'b' for bits, 'B' for bytes, 0 for none that is known. */
static char counted(const char *unit)
{
	if (is_word(unit, bit_words, sizeof(bit_words) / sizeof(bit_words[0])))
		return 'b';
	if (is_word(unit, byte_words, sizeof(byte_words) / sizeof(byte_words[0])))
		return 'B';
	/* Of a single letter the case counts. */
	if ((unit[0] == 'b' || unit[0] == 'B') &&
	    (unit[1] == '\0' || strcmp(unit + 1, "/s") == 0 || strcasecmp(unit + 1, "ps") == 0))
		return unit[0];
	return 0;
}

static unsigned prefix_power(char prefix)
{
	static const char prefixes[] = "kmgt";
	const char *at = prefix ? strchr(prefixes, tolower((unsigned char)prefix)) : NULL;

	return at ? (unsigned)(at - prefixes) + 1 : 0;
}

static enum problem prefix_factor(enum units_kind kind, const char *unit, double *factor)
{
	unsigned power = prefix_power(unit[0]);
	const char *word = power ? unit + 1 : unit;
	int binary = power && (word[0] == 'i' || word[0] == 'I');
	char wanted = kind == UNITS_RATE ? 'b' : 'B', what;

	word += binary;
	what = counted(word);
	/* Nobody means bits by "mib". */
	if (kind == UNITS_SIZE && binary && strcmp(word, "b") == 0)
		what = 'B';
	if (word[0] != '\0' && !what)
		return NOT_ONE;
	if (what && what != wanted)
		return WRONG_B;
	/* A size is no rate. */
	if (kind == UNITS_SIZE && (strchr(word, '/') || strcasecmp(word, "bps") == 0))
		return NOT_ONE;
	if (kind == UNITS_SIZE && word[0] == '\0')
		binary = 1;
	for (*factor = 1; power; power--)
		*factor *= binary ? 1024 : 1000;
	return FINE;
}

static enum problem read_quantity(enum units_kind kind, const char *text, uint64_t *out)
{
	enum problem problem;
	double value, factor = SECOND_NS;
	const char *unit;

	if (read_number(text, &value, &unit))
		return NOT_ONE;
	if (kind == UNITS_TIME || kind == UNITS_SECONDS)
		problem = time_factor(unit, &factor);
	else
		problem = prefix_factor(kind, unit, &factor);
	/* 0 is the same in every unit. */
	if (problem == NO_UNIT && (kind == UNITS_SECONDS || value <= 0))
		problem = FINE;
	if (problem)
		return problem;
	if (!(value * factor <= LARGEST))
		return TOO_LARGE;
	if (kind == UNITS_SIZE && factor <= 1 && value > (double)(uint64_t)value)
		return BROKEN;
	if (value > 0 && value * factor < 0.5)
		return TOO_SMALL;
	*out = (uint64_t)(value * factor + 0.5);
	return FINE;
}

int units_read(enum units_kind kind, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;
	enum problem problem = read_quantity(kind, text, &value);

	if (problem == TOO_LARGE || problem == TOO_SMALL)
		return -ERANGE;
	if (problem)
		return -EINVAL;
	if (value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int units_time_ns(const char *text, uint64_t *out)
{
	return units_read(UNITS_TIME, text, 0, UINT64_MAX, out);
}

int units_rate_bps(const char *text, uint64_t *out)
{
	return units_read(UNITS_RATE, text, 0, UINT64_MAX, out);
}

int units_size_bytes(const char *text, uint64_t *out)
{
	return units_read(UNITS_SIZE, text, 0, UINT64_MAX, out);
}

static enum problem read_share(const char *text, double *out)
{
	const char *rest;
	double value;

	if (read_number(text, &value, &rest))
		return NOT_ONE;
	if (strcmp(rest, "%") == 0)
		value /= 100;
	else if (rest[0] != '\0')
		return NOT_ONE;
	if (!(value <= 1))
		return NOT_ONE;
	*out = value;
	return FINE;
}

int units_share(const char *text, double *out)
{
	return read_share(text, out) ? -EINVAL : 0;
}

static const char *describe(enum units_kind kind)
{
	switch (kind) {
	case UNITS_TIME:
		return "a time: write 25ms, 200us or 1.5s";
	case UNITS_SECONDS:
		return "a time: write 10s, 500ms or 2min; a number alone counts seconds";
	case UNITS_RATE:
		return "a rate in bits a second: write 800M, 1Gbit or 400Gbps";
	case UNITS_SIZE:
		return "a size: write 1500, 64K, 1MiB or 128MB";
	case UNITS_SPEED:
		return "bytes a second: write 50G or 50GB/s";
	default:
		return "a share: write 0.03 or 3%, from 0 to 1 or 0% to 100%";
	}
}

const char *units_problem(enum units_kind kind, const char *text, char out[UNITS_PROBLEM_SIZE])
{
	uint64_t value;
	double share;
	enum problem problem =
		kind == UNITS_SHARE ? read_share(text, &share) : read_quantity(kind, text, &value);

	switch (problem) {
	case FINE:
		out[0] = '\0';
		break;
	case NOT_ONE:
		snprintf(out, UNITS_PROBLEM_SIZE, "is not %s", describe(kind));
		break;
	case NO_UNIT:
		snprintf(out, UNITS_PROBLEM_SIZE, "has no unit: write %.20ss, %.20sms or %.20sus",
			 text, text, text);
		break;
	case MINUTES_OR_MILLISECONDS:
		snprintf(out, UNITS_PROBLEM_SIZE,
			 "may be minutes or milliseconds: write min or ms");
		break;
	case WRONG_B:
		snprintf(out, UNITS_PROBLEM_SIZE, "is in %s (b is bits, B bytes) and not %s",
			 kind == UNITS_RATE ? "bytes" : "bits", describe(kind));
		break;
	case BROKEN:
		snprintf(out, UNITS_PROBLEM_SIZE, "is not a whole number of bytes");
		break;
	case TOO_LARGE:
		snprintf(out, UNITS_PROBLEM_SIZE, "is too large");
		break;
	case TOO_SMALL:
		snprintf(out, UNITS_PROBLEM_SIZE, "is too small: it is rounded to 0");
		break;
	}
	return out;
}

int units_decimal(const char *text, double min, double max, double *out)
{
	const char *rest;
	double value;

	if (read_number(text, &value, &rest) || rest[0] != '\0' || !(value >= min && value <= max))
		return -EINVAL;
	*out = value;
	return 0;
}

int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long value;
	char *end;

	/* strtoull() also accepts spaces and signs, and turns -1 into a large number. */
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end != '\0' || value < min || value > max)
		return -EINVAL;
	*out = value;
	return 0;
}
