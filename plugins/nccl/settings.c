/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One table of variables: name, how it is read, where it goes. A value that is not understood is an error with one sentence;
 * a variable that is not set, or empty, is the default.
 */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <godwit/godwit.h>

#define MARK_PARITY 1u
#define MARK_SECRET 2u
#define MARK_SEAL   4u
#define THREADS_MAX 16
#define NS_PER_S    UINT64_C(1000000000)

/* One variable being read. */
struct reading {
	const char *name;
	const char *value;
	char *why;
	size_t size;
};

static int wrong(const struct reading *r, const char *expected)
{
	snprintf(r->why, r->size, "%s=%.80s is not %s", r->name, r->value, expected);
	return -EINVAL;
}

/* A number and its unit. */
struct unit {
	const char *name;
	double factor;
};

static const struct unit rate_units[] = { { "", 1 },	   { "k", 1e3 },    { "m", 1e6 },
					  { "g", 1e9 },	   { "t", 1e12 },   { "bit", 1 },
					  { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 },
					  { "kbps", 1e3 }, { "mbps", 1e6 }, { "gbps", 1e9 },
					  { NULL, 0 } };
static const struct unit time_units[] = { { "s", 1e9 }, { "ms", 1e6 },	 { "us", 1e3 },
					  { "", 1e9 },	{ "min", 6e10 }, { NULL, 0 } };

static bool read_quantity(const char *text, const struct unit *units, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || !(value >= 0) || text[0] == '-')
		return false;
	while (*end == ' ')
		end++;
	for (; units->name; units++) {
		if (!strcasecmp(end, units->name)) {
			*out = value * units->factor;
			return true;
		}
	}
	return false;
}

static int read_rate(const struct reading *r, uint64_t *out)
{
	double value;

	if (!read_quantity(r->value, rate_units, &value) || value < 1000 || value > 1e15)
		return wrong(r, "a rate in bits a second, such as 800M or 10G");
	*out = (uint64_t)value;
	return 0;
}

static int read_time(const struct reading *r, uint64_t least, uint64_t most, const char *expected,
		     uint64_t *out)
{
	double value;

	if (!read_quantity(r->value, time_units, &value) || value < (double)least ||
	    value > (double)most)
		return wrong(r, expected);
	*out = (uint64_t)value;
	return 0;
}

static int read_count(const struct reading *r, unsigned least, unsigned most, const char *expected,
		      uint32_t *out)
{
	char *end;
	unsigned long value = strtoul(r->value, &end, 10);

	if (*end || end == r->value || r->value[0] == '-' || value < least || value > most)
		return wrong(r, expected);
	*out = (uint32_t)value;
	return 0;
}

static int read_share(const struct reading *r, double *out)
{
	char *end;

	*out = strtod(r->value, &end);
	return *end || end == r->value || !(*out >= 0 && *out < 1)
		       ? wrong(r, "a share of packets, from 0 to below 1")
		       : 0;
}

/* The index of the value among some words. */
static int read_word(const struct reading *r, const char *const *words, const char *expected,
		     int *out)
{
	for (int i = 0; words[i]; i++) {
		if (!strcasecmp(r->value, words[i])) {
			*out = i;
			return 0;
		}
	}
	return wrong(r, expected);
}

static int read_switch(const struct reading *r, bool *out)
{
	static const char *const words[] = { "off", "on", "0", "1", "no", "yes", NULL };
	int which, error = read_word(r, words, "on or off", &which);

	if (!error)
		*out = which % 2;
	return error;
}

static int read_scheme(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "sr", "auto", NULL };
	int which, error = read_word(r, words, "sr or auto", &which);

	if (!error)
		out->parity = which == 1;
	return error;
}

static int read_fabric(const struct reading *r)
{
	static const char *const words[] = { "roce", NULL };
	int which;

	return read_word(r, words, "roce, the one fabric that this plugin has", &which);
}

static int read_congestion(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "default", "long-haul", "swift", "none", NULL };
	int which, error = read_word(r, words, "default, long-haul, swift or none", &which);

	if (!error)
		out->congestion = words[which];
	return error;
}

static int read_log(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "error", "warn", "info", "debug", NULL };

	return read_word(r, words, "error, warn, info or debug", &out->log_level);
}

static int read_secret(const struct reading *r, struct settings *out)
{
	if (access(r->value, R_OK))
		return wrong(r,
			     "a file that this process can read; `godwit secret FILE` makes one");
	out->secret_file = r->value;
	return 0;
}

static int read_one(const struct reading *r, struct settings *out)
{
	const char *name = r->name + strlen("GODWIT_");

	if (!strcmp(name, "FABRIC"))
		return read_fabric(r);
	if (!strcmp(name, "SCHEME"))
		return read_scheme(r, out);
	if (!strcmp(name, "CONGESTION"))
		return read_congestion(r, out);
	if (!strcmp(name, "RATE"))
		return read_rate(r, &out->rate_bps);
	if (!strcmp(name, "LANES"))
		return read_count(r, 1, 8, "a number of lanes from 1 to 8", &out->lanes);
	if (!strcmp(name, "THREADS"))
		return read_count(r, 1, THREADS_MAX, "a number of threads from 1 to 16",
				  &out->threads);
	if (!strcmp(name, "TIMEOUT"))
		return read_time(r, NS_PER_S, 86400 * NS_PER_S,
				 "a time from 1s to 24h, such as 120s", &out->timeout_ns);
	if (!strcmp(name, "SPIN"))
		return read_time(r, 0, NS_PER_S, "a time up to 1s, such as 50us", &out->spin_ns);
	if (!strcmp(name, "LOG"))
		return read_log(r, out);
	if (!strcmp(name, "SECRET_FILE"))
		return read_secret(r, out);
	if (!strcmp(name, "SEAL"))
		return read_switch(r, &out->seal);
	if (!strcmp(name, "ICRC"))
		return read_switch(r, &out->icrc);
	if (!strcmp(name, "SPEED"))
		return read_count(r, 1, 10000000, "a speed in Mbit/s", &out->speed);
	if (!strcmp(name, "DROP"))
		return read_share(r, &out->drop);
	if (!strcmp(name, "REORDER"))
		return read_share(r, &out->reorder);
	if (!strcmp(name, "STATISTICS"))
		out->statistics = r->value;
	else
		out->interfaces = r->value;
	return 0;
}

int settings_read(struct settings *out, char *why, size_t size)
{
	static const char *const names[] = {
		"GODWIT_FABRIC",  "GODWIT_SCHEME",     "GODWIT_CONGESTION",  "GODWIT_RATE",
		"GODWIT_LANES",	  "GODWIT_THREADS",    "GODWIT_TIMEOUT",     "GODWIT_SPIN",
		"GODWIT_LOG",	  "GODWIT_STATISTICS", "GODWIT_SECRET_FILE", "GODWIT_SEAL",
		"GODWIT_ICRC",	  "GODWIT_IFNAME",     "GODWIT_SPEED",	     "GODWIT_DROP",
		"GODWIT_REORDER",
	};
	int error = 0;

	*out = (struct settings){ .congestion = "default",
				  .lanes = 1,
				  .threads = 1,
				  .timeout_ns = 120 * NS_PER_S,
				  .log_level = GW_LOG_WARN,
				  .icrc = true };
	for (size_t i = 0; !error && i < sizeof(names) / sizeof(names[0]); i++) {
		struct reading r = { names[i], getenv(names[i]), why, size };

		if (r.value && r.value[0])
			error = read_one(&r, out);
	}
	if (!error && out->seal && !out->secret_file) {
		snprintf(why, size, "GODWIT_SEAL=on needs a secret: GODWIT_SECRET_FILE=FILE");
		error = -EINVAL;
	}
	return error;
}

uint16_t settings_mark(const struct settings *settings)
{
	return (uint16_t)((settings->parity ? MARK_PARITY : 0) |
			  (settings->secret_file ? MARK_SECRET : 0) |
			  (settings->seal ? MARK_SEAL : 0));
}

const char *settings_difference(uint16_t a, uint16_t b)
{
	if ((a ^ b) & MARK_PARITY)
		return "GODWIT_SCHEME";
	if ((a ^ b) & MARK_SECRET)
		return "GODWIT_SECRET_FILE";
	return (a ^ b) & MARK_SEAL ? "GODWIT_SEAL" : "a setting";
}
