/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One table of variables: name, how it is read, where it goes. A value that is not understood is an error with one sentence;
 * a variable that is not set, or empty, is the default.
 */
#include "settings.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <godwit/godwit.h>

#include "lab/units.h"
#include "processors.h"

#define MARK_PARITY 1u
#define MARK_SECRET 2u
#define MARK_SEAL   4u
#define MARK_VERBS  8u
/* Engine threads by default: one for each so many processors, but not more than a ring of two channels has connections. */
#define PROCESSORS_A_THREAD 4
#define THREADS_USUAL	    4
/* How long an engine with processors to spare polls before it sleeps: as long as the system takes to wake it up. */
#define SPIN_USUAL_NS 20000
/* A message that takes less time to send than an engine that sleeps takes to wake up. */
#define INLINE_USUAL (4u << 10)
#define NS_PER_S     UINT64_C(1000000000)

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

static int quantity(const struct reading *r, enum units_kind kind, uint64_t least, uint64_t most,
		    const char *expected, uint64_t *out)
{
	return units_read(kind, r->value, least, most, out) ? wrong(r, expected) : 0;
}

static int count(const struct reading *r, unsigned least, unsigned most, const char *expected,
		 uint32_t *out)
{
	uint64_t value;

	if (units_count(r->value, least, most, &value))
		return wrong(r, expected);
	*out = (uint32_t)value;
	return 0;
}

static int share(const struct reading *r, double *out)
{
	return units_share(r->value, out) || *out >= 1
		       ? wrong(r, "a share of packets, from 0 to below 1")
		       : 0;
}

/* The index of the value among some words. */
static int word(const struct reading *r, const char *const *words, const char *expected, int *out)
{
	for (int i = 0; words[i]; i++) {
		if (!strcasecmp(r->value, words[i])) {
			*out = i;
			return 0;
		}
	}
	return wrong(r, expected);
}

static int on_or_off(const struct reading *r, bool *out)
{
	static const char *const words[] = { "off", "on", "0", "1", "no", "yes", NULL };
	int which, error = word(r, words, "on or off", &which);

	if (!error)
		*out = which % 2;
	return error;
}

static int read_scheme(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "sr", "auto", NULL };
	int which, error = word(r, words, "sr or auto", &which);

	if (!error)
		out->parity = which == 1;
	return error;
}

static int read_fabric(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "roce", "verbs", NULL };
	int which, error = word(r, words, "roce or verbs", &which);

	if (!error)
		out->verbs = which == 1;
	return error;
}

static int read_congestion(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "default", "long-haul", "swift", "none", NULL };
	int which, error = word(r, words, "default, long-haul, swift or none", &which);

	if (!error)
		out->congestion = words[which];
	return error;
}

static int read_log(const struct reading *r, struct settings *out)
{
	static const char *const words[] = { "error", "warn", "info", "debug", NULL };

	return word(r, words, "error, warn, info or debug", &out->log_level);
}

static int read_secret(const struct reading *r, struct settings *out)
{
	if (access(r->value, R_OK))
		return wrong(r,
			     "a file that this process can read; `godwit secret FILE` makes one");
	out->secret_file = r->value;
	return 0;
}

static int read_rate(const struct reading *r, struct settings *out)
{
	return quantity(r, UNITS_RATE, 1000, UINT64_C(1000000000000000),
			"a rate in bits a second, such as 800M or 10G", &out->rate_bps);
}

static int read_timeout(const struct reading *r, struct settings *out)
{
	return quantity(r, UNITS_SECONDS, NS_PER_S, 86400 * NS_PER_S,
			"a time from 1s to 24h, such as 120s", &out->timeout_ns);
}

static int read_spin(const struct reading *r, struct settings *out)
{
	return quantity(r, UNITS_SECONDS, 0, NS_PER_S, "a time up to 1s, such as 50us",
			&out->spin_ns);
}

static int read_inline(const struct reading *r, struct settings *out)
{
	return quantity(r, UNITS_SIZE, 0, UINT64_C(1) << 30, "a size up to 1G, such as 4K",
			&out->inline_bytes);
}

static int read_lanes(const struct reading *r, struct settings *out)
{
	return count(r, 1, 8, "a number of lanes from 1 to 8", &out->lanes);
}

static int read_threads(const struct reading *r, struct settings *out)
{
	out->inline_bytes = INLINE_USUAL;
	return count(r, 1, THREADS_MAX, "a number of threads from 1 to 16", &out->threads);
}

static int read_processors(const struct reading *r, struct settings *out)
{
	cpu_set_t listed;

	out->anywhere = !strcasecmp(r->value, "none");
	if (out->anywhere)
		return 0;
	out->processors = r->value;
	return processors_read(r->value, &listed)
		       ? 0
		       : wrong(r, "none, or a list of processors such as 0-3,8");
}

static int read_speed(const struct reading *r, struct settings *out)
{
	return count(r, 1, 10000000, "a speed in Mbit/s", &out->speed);
}

static int read_seal(const struct reading *r, struct settings *out)
{
	return on_or_off(r, &out->seal);
}

static int read_icrc(const struct reading *r, struct settings *out)
{
	return on_or_off(r, &out->icrc);
}

static int read_drop(const struct reading *r, struct settings *out)
{
	return share(r, &out->drop);
}

static int read_reorder(const struct reading *r, struct settings *out)
{
	return share(r, &out->reorder);
}

/* The file itself is made later, and another one beside it, which replaces it. */
static int read_statistics(const struct reading *r, struct settings *out)
{
	const char *slash = strrchr(r->value, '/');
	char directory[4096] = ".";

	if (slash)
		snprintf(directory, sizeof(directory), "%.*s", (int)(slash - r->value + 1),
			 r->value);
	if (access(directory, W_OK))
		return wrong(r, "a file in a directory that this process can write to");
	out->statistics = r->value;
	return 0;
}

static int read_interfaces(const struct reading *r, struct settings *out)
{
	out->interfaces = r->value;
	return 0;
}

static const struct {
	const char *name;
	int (*read)(const struct reading *r, struct settings *out);
} variables[] = {
	{ "GODWIT_FABRIC", read_fabric },
	{ "GODWIT_SCHEME", read_scheme },
	{ "GODWIT_CONGESTION", read_congestion },
	{ "GODWIT_RATE", read_rate },
	{ "GODWIT_LANES", read_lanes },
	{ "GODWIT_THREADS", read_threads },
	/* after GODWIT_THREADS, which sets another default */
	{ "GODWIT_INLINE", read_inline },
	{ "GODWIT_CPUS", read_processors },
	{ "GODWIT_TIMEOUT", read_timeout },
	{ "GODWIT_SPIN", read_spin },
	{ "GODWIT_LOG", read_log },
	{ "GODWIT_STATISTICS", read_statistics },
	{ "GODWIT_SECRET_FILE", read_secret },
	{ "GODWIT_SEAL", read_seal },
	{ "GODWIT_ICRC", read_icrc },
	{ "GODWIT_IFNAME", read_interfaces },
	{ "GODWIT_SPEED", read_speed },
	{ "GODWIT_DROP", read_drop },
	{ "GODWIT_REORDER", read_reorder },
};

#define PREFIX "GODWIT_"

/* Beginnings of names of other variables of Godwit, which may be set beside these. */
static const char *const others[] = { "ANYWHERE_",  "BENCH_", "JOBS",  "LIBRARY",
				      "LOCAL_RANK", "PORT",   "RANK",  "REQUIRE",
				      "ROOT",	    "SIZE",   "SYSFS", "TRACE" };

static bool is_known(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		if (strlen(variables[i].name) == length &&
		    !strncmp(variables[i].name, name, length))
			return true;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strncmp(others[i], name + strlen(PREFIX), strlen(others[i])))
			return true;
	}
	return false;
}

bool settings_unknown(const char *const *environment, char *out, size_t size)
{
	for (; *environment; environment++) {
		size_t length = strcspn(*environment, "=");

		if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0 ||
		    is_known(*environment, length))
			continue;
		snprintf(out, size, "%.*s", (int)length, *environment);
		return true;
	}
	return false;
}

/* Threads by the number of processors that this process may use: NCCL's and the application's own need some, too. Where there are
 * few, NCCL's thread polls on one that an engine would wait for. */
static void usual_threads(struct settings *out)
{
	cpu_set_t allowed;
	uint32_t threads = 0;

	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		threads = (uint32_t)CPU_COUNT(&allowed) / PROCESSORS_A_THREAD;
	out->inline_bytes = threads ? INLINE_USUAL : UINT64_MAX;
	out->spin_ns = threads ? SPIN_USUAL_NS : 0;
	out->threads = threads < 1 ? 1 : threads > THREADS_USUAL ? THREADS_USUAL : threads;
}

int settings_read(struct settings *out, char *why, size_t size)
{
	int error = 0;

	*out = (struct settings){ .congestion = "default",
				  .lanes = 1,
				  .timeout_ns = 120 * NS_PER_S,
				  .log_level = GW_LOG_WARN,
				  .icrc = true };
	usual_threads(out);
	for (size_t i = 0; !error && i < sizeof(variables) / sizeof(variables[0]); i++) {
		struct reading r = { variables[i].name, getenv(variables[i].name), why, size };

		if (r.value && r.value[0])
			error = variables[i].read(&r, out);
	}
	if (!error && out->seal && !out->secret_file) {
		snprintf(why, size, "GODWIT_SEAL=on needs a secret: GODWIT_SECRET_FILE=FILE");
		error = -EINVAL;
	}
	if (!error && out->seal && out->verbs) {
		snprintf(why, size,
			 "GODWIT_SEAL=on is for GODWIT_FABRIC=roce: an RDMA device cannot seal");
		error = -EINVAL;
	}
	return error;
}

uint16_t settings_mark(const struct settings *settings)
{
	return (uint16_t)((settings->parity ? MARK_PARITY : 0) |
			  (settings->secret_file ? MARK_SECRET : 0) |
			  (settings->seal ? MARK_SEAL : 0) | (settings->verbs ? MARK_VERBS : 0));
}

const char *settings_difference(uint16_t a, uint16_t b)
{
	if ((a ^ b) & MARK_PARITY)
		return "GODWIT_SCHEME";
	if ((a ^ b) & MARK_SECRET)
		return "GODWIT_SECRET_FILE";
	if ((a ^ b) & MARK_VERBS)
		return "GODWIT_FABRIC";
	return (a ^ b) & MARK_SEAL ? "GODWIT_SEAL" : "a setting";
}
