/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes go in powers of 1024 and say so; rates, as everywhere in networking, in powers of 1000. */
#include "text.h"

#include <math.h>
#include <stdio.h>

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

/* Writes the value with three digits, in the unit that lets it stay under 1000. */
static const char *scaled(double value, const char *const *units, unsigned last,
			  char buffer[TEXT_SIZE])
{
	unsigned unit = 0;

	if (!isfinite(value) || value < 0)
		value = 0;
	/* 999.5 and more would be printed as 1000. */
	while (value >= 999.5 && unit < last) {
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

const char *text_rate(double bits_per_second, char buffer[TEXT_SIZE])
{
	static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" };

	return scaled(bits_per_second, units, 4, buffer);
}

const char *text_time(double ns, char buffer[TEXT_SIZE])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };

	return scaled(ns, units, 3, buffer);
}
