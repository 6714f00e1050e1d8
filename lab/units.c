/* SPDX-License-Identifier: BSD-3-Clause */
/* units.c: each quantity is a decimal number and a suffix from a table of its own. */
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct suffix {
	const char *text;
	double factor;
};

/* Above this a double does not represent every whole number. */
#define LARGEST 9e15

static int read_number(const char *text, double *value, const char **rest)
{
	char *end;

	/* strtod() also accepts spaces, signs, "inf" and hexadecimal. */
	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -EINVAL;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return -EINVAL;
	*value = strtod(text, &end);
	*rest = end;
	return end == text ? -EINVAL : 0;
}

static int read_scaled(const char *text, const struct suffix *suffixes, uint64_t *out)
{
	const char *rest;
	double value;

	if (read_number(text, &value, &rest))
		return -EINVAL;
	for (; suffixes->text; suffixes++) {
		if (strcasecmp(rest, suffixes->text) == 0)
			break;
	}
	if (!suffixes->text && !(value <= 0 && rest[0] == '\0'))
		return -EINVAL;
	if (suffixes->text)
		value *= suffixes->factor;
	if (!(value <= LARGEST))
		return -EINVAL;
	*out = (uint64_t)(value + 0.5);
	return 0;
}

int units_time_ns(const char *text, uint64_t *out)
{
	static const struct suffix suffixes[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { NULL, 0 },
	};

	return read_scaled(text, suffixes, out);
}

int units_rate_bps(const char *text, uint64_t *out)
{
	static const struct suffix suffixes[] = {
		{ "", 1 }, { "k", 1e3 }, { "m", 1e6 }, { "g", 1e9 }, { "t", 1e12 }, { NULL, 0 },
	};

	return read_scaled(text, suffixes, out);
}

int units_size_bytes(const char *text, uint64_t *out)
{
	static const struct suffix suffixes[] = {
		{ "", 1 },	 { "k", 1024 },	     { "m", 1048576 },	    { "g", 1073741824 },
		{ "kib", 1024 }, { "mib", 1048576 }, { "gib", 1073741824 }, { NULL, 0 },
	};

	return read_scaled(text, suffixes, out);
}

int units_size_between(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value;
	int error = units_size_bytes(text, &value);

	if (error)
		return error;
	if (value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int units_share(const char *text, double *out)
{
	const char *rest;
	double value;

	if (read_number(text, &value, &rest))
		return -EINVAL;
	if (strcmp(rest, "%") == 0)
		value /= 100;
	else if (rest[0] != '\0')
		return -EINVAL;
	if (!(value >= 0 && value <= 1))
		return -EINVAL;
	*out = value;
	return 0;
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
