/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simtest: runs the scenarios of a range of seeds. It fails at the first violation, with the command that replays it, or at
 * the end when a rare event occurred too seldom for the run to be a test of it.
 */
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simulation/run.h"

#define STANDARD_SEEDS 10000
#define OCCURRENCES    100

static const char *const usage =
	"usage: simtest [--seeds A-B] [--trace-hash] [--soak] [--no-histogram] [--min N] [--expose-fails P]\n"
	"  --seeds A-B     run these scenarios (default 1-10000); one number runs one\n"
	"  --trace-hash    print a hash of everything that happened, a line a seed\n"
	"  --soak          go on after B until stopped\n"
	"  --min N         fail if a rare event occurred less than N times (default 100 in 10000 seeds and more)\n"
	"  --no-histogram  do not print how often rare events occurred\n"
	"  --expose-fails P  NIC hosts fail to open a window with this probability (default 0)\n";

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int parse_seeds(const char *text, uint64_t *first, uint64_t *last)
{
	char *end;

	*first = *last = strtoull(text, &end, 10);
	if (end == text)
		return -1;
	if (*end == '-') {
		text = end + 1;
		*last = strtoull(text, &end, 10);
		if (end == text)
			return -1;
	}
	return *end || *last < *first ? -1 : 0;
}

static int print_histogram(const uint64_t *totals, uint64_t least, bool show)
{
	int rare = 0;

	for (int i = 0; i < SIGHTS; i++) {
		/* A lane is tried again after pauses that most scenarios do not last. */
		uint64_t enough = i == SIGHT_LANE_RESTORED ? least / 10 : least;

		if (show)
			printf("  %12lu  %s\n", (unsigned long)totals[i], sight_names[i]);
		if (totals[i] < enough) {
			fprintf(stderr, "simtest: \"%s\" occurred %lu times, fewer than %lu\n",
				sight_names[i], (unsigned long)totals[i], (unsigned long)enough);
			rare++;
		}
	}
	return rare;
}

struct options {
	uint64_t first;
	uint64_t last;
	bool hashes;
	bool soak;
	bool histogram;
	/* Fewest occurrences of each rare event; negative: chosen by the number of seeds. */
	long least;
	/* Probability that a NIC host cannot open a window; with 0 scenarios are as drawn. */
	double expose_fails;
};

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = { { "seeds", required_argument, NULL, 's' },
						 { "trace-hash", no_argument, NULL, 't' },
						 { "soak", no_argument, NULL, 'k' },
						 { "no-histogram", no_argument, NULL, 'n' },
						 { "min", required_argument, NULL, 'm' },
						 { "expose-fails", required_argument, NULL, 'e' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	int c;

	*o = (struct options){ .first = 1, .last = STANDARD_SEEDS, .histogram = true, .least = -1 };
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (parse_seeds(optarg, &o->first, &o->last)) {
				fprintf(stderr,
					"simtest: --seeds takes A-B or one number, not \"%s\"\n",
					optarg);
				return 2;
			}
			break;
		case 't':
			o->hashes = true;
			break;
		case 'k':
			o->soak = true;
			break;
		case 'n':
			o->histogram = false;
			break;
		case 'm':
			o->least = atol(optarg);
			break;
		case 'e':
			o->expose_fails = atof(optarg);
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	return -1;
}

/* Windows of NIC hosts fail to open with this probability. Channels are left out: one ends when a receive of its own does. */
static void fail_exposes(struct scenario *scenario, double probability)
{
	if (!scenario->host.nic || scenario->channels)
		return;
	scenario->host.expose_fails = probability;
	scenario->may_fail = true;
}

/* Drops log lines: the faults of the scenarios would write thousands. */
static void no_log(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(int argc, char **argv)
{
	uint64_t totals[SIGHTS] = { 0 };
	uint64_t events = 0, ran = 0;
	struct scenario *scenario = malloc(sizeof(*scenario));
	struct run_result *result = malloc(sizeof(*result));
	double started = seconds(), shown = 0;
	struct options o;
	int rare = 0, code = parse(argc, argv, &o);

	if (code >= 0 || !scenario || !result)
		return code < 0 ? 1 : code;
	gw_log_set(GW_LOG_ERROR, no_log, NULL);
	/* Memory of one scenario is used again by the next: mapping it and touching each page took a fifth of the time. */
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	/* Line buffered, so that a run that is killed shows how far it got. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t seed = o.first; seed <= o.last || o.soak; seed++) {
		scenario_draw(seed, scenario);
		if (o.expose_fails > 0)
			fail_exposes(scenario, o.expose_fails);
		scenario_run(scenario, false, result);
		ran++;
		events += result->events;
		for (int i = 0; i < SIGHTS; i++)
			totals[i] += result->sights[i];
		if (o.hashes)
			printf("%lu %016lx\n", (unsigned long)seed, (unsigned long)result->hash);
		if (result->failed) {
			fflush(stdout);
			scenario_print(scenario);
			fputs("the last events:\n", stderr);
			scenario_run(scenario, true, result);
			fprintf(stderr,
				"simtest: seed %lu: %s\nsimtest: replay it with: %s --seeds %lu\n",
				(unsigned long)seed, result->why, argv[0], (unsigned long)seed);
			return 1;
		}
		if (isatty(STDERR_FILENO) && seconds() - shown > 0.5) {
			shown = seconds();
			fprintf(stderr, "\r%lu seeds, %.0f a second ", (unsigned long)ran,
				(double)ran / (shown - started));
		}
	}
	if (isatty(STDERR_FILENO))
		fputc('\r', stderr);
	if (o.least < 0)
		o.least = ran >= STANDARD_SEEDS ? OCCURRENCES : 0;
	if (!o.hashes)
		rare = print_histogram(totals, (uint64_t)o.least, o.histogram);
	fprintf(stderr,
		"simtest: %lu seeds, no violation; %lu packet arrivals; %.1f seeds a second\n",
		(unsigned long)ran, (unsigned long)events, (double)ran / (seconds() - started));
	free(scenario);
	free(result);
	return rare ? 1 : 0;
}
