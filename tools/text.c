/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes go in powers of 1024 and say so; rates, as everywhere in networking, in powers of 1000. */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const byte_units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

static unsigned byte_unit(uint64_t bytes, double *divisor)
{
	unsigned unit = 0;

	*divisor = 1;
	while (bytes >= 1024) {
		bytes /= 1024;
		*divisor *= 1024;
		unit++;
	}
	return unit;
}

const char *text_bytes(uint64_t bytes, char buffer[TEXT_SIZE])
{
	double divisor;
	unsigned unit = byte_unit(bytes, &divisor);

	if (bytes == 1)
		snprintf(buffer, TEXT_SIZE, "1 byte");
	else
		snprintf(buffer, TEXT_SIZE, "%.*f %s", unit ? 1 : 0, (double)bytes / divisor,
			 byte_units[unit]);
	return buffer;
}

const char *text_share(uint64_t done, uint64_t total, char buffer[2 * TEXT_SIZE])
{
	double divisor;
	unsigned unit = byte_unit(total, &divisor);
	int digits = unit ? 1 : 0;

	snprintf(buffer, 2 * TEXT_SIZE, "%.*f of %.*f %s", digits, (double)done / divisor, digits,
		 (double)total / divisor, byte_units[unit]);
	return buffer;
}

const char *text_rate(double bits_per_second, char buffer[TEXT_SIZE])
{
	static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" };
	double value = isfinite(bits_per_second) && bits_per_second > 0 ? bits_per_second : 0;
	unsigned unit = 0;

	/* 999.5 and more would be printed as 1000. */
	while (value >= 999.5 && unit < 4) {
		value /= 1000;
		unit++;
	}
	snprintf(buffer, TEXT_SIZE, "%.*f %s",
		 value < 9.995	 ? 2
		 : value < 99.95 ? 1
				 : 0,
		 value, units[unit]);
	return buffer;
}

int text_parse_integer(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long value;
	char *end;

	/* strtoull takes blanks and signs, and turns -1 into a large number. */
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end != '\0')
		return -EINVAL;
	if (errno != 0 || value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int text_parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long value;
	unsigned shift = 0;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end == 'k' || *end == 'K')
		shift = 10;
	else if (*end == 'm' || *end == 'M')
		shift = 20;
	else if (*end == 'g' || *end == 'G')
		shift = 30;
	if (shift)
		end++;
	if (*end != '\0')
		return -EINVAL;
	if (errno != 0 || value > max >> shift || value << shift < min)
		return -ERANGE;
	*out = value << shift;
	return 0;
}

static int parse_leading_decimal(const char *text, double *out, char **end)
{
	/* strtod takes blanks, signs, hexadecimal, "inf" and "nan" too. */
	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -EINVAL;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return -EINVAL;
	*out = strtod(text, end);
	return *end == text ? -EINVAL : 0;
}

int text_parse_decimal(const char *text, double min, double max, double *out)
{
	double value;
	char *end;
	int rc;

	rc = parse_leading_decimal(text, &value, &end);
	if (rc)
		return rc;
	if (*end != '\0')
		return -EINVAL;
	if (!(value >= min && value <= max))
		return -ERANGE;
	*out = value;
	return 0;
}

int text_parse_probability(const char *text, double *out)
{
	double value;
	char *end;
	int rc;

	rc = parse_leading_decimal(text, &value, &end);
	if (rc)
		return rc;
	if (*end == '%') {
		value /= 100;
		end++;
	}
	if (*end != '\0')
		return -EINVAL;
	if (!(value >= 0 && value <= 1))
		return -ERANGE;
	*out = value;
	return 0;
}
