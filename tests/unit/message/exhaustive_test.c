/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every pattern of lost, repeated and swapped datagrams, for a few small scenes of two messages.
 *
 * The patterns form a tree, for the datagrams that leave depend only on the letters before them. The search visits the
 * tree depth first and adds letters only for datagrams that were sent. The time of each run is bounded by its faults.
 *
 *	test-message-exhaustive                  all scenes
 *	test-message-exhaustive SCENE            one
 *	test-message-exhaustive SCENE PATTERN    one run of it, with all that leaves printed
 */
#include "exhaustive.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#if defined(__has_feature)
#define SANITIZER(name) __has_feature(name)
#else
#define SANITIZER(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
	SANITIZER(address_sanitizer) || SANITIZER(thread_sanitizer) || SANITIZER(memory_sanitizer)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

/* The longest wait of a timer before its first repeat, while no round trip has been measured. Each wait in vain doubles
 * the next one, up to a second (control_tx.c, loss_detection.c, selective_repeat.c). A probe timeout adds the time for which a
 * receiver may hold a report back. */
#define FIRST_WAIT (55 * MS)
/* The same for a cut: the round trip has been measured and is shorter than a millisecond. How long it takes until a cut
 * depends on when packets are repeated, and those waits have grown to some 50 ms by then. */
#define FIRST_WAIT_KNOWN (2 * MS)
#define LAST_WAIT	 (1 * S)
#define SCENES_MAX	 64
#define ROUND_TRIPS	 4

static const char *only_pattern;

static uint32_t faults_in(const char *pattern, uint32_t length)
{
	uint32_t faults = 0;

	for (uint32_t i = 0; i < length; i++)
		faults += pattern[i] != '.';
	return faults;
}

/* The pattern after run.pattern in the order of the search; false after the last. */
static bool next_pattern(const struct search *search)
{
	uint32_t i = run.asked < search->depth ? run.asked : search->depth;

	while (i-- > 0) {
		const char *letter = strchr(search->letters, run.pattern[i]);

		if (!letter[1] || faults_in(run.pattern, i) >= search->faults)
			continue;
		run.pattern[i] = letter[1];
		run.pattern[i + 1] = '\0';
		return true;
	}
	return false;
}

/*
 * Longest time that a run may take: the time without a fault, and for each fault a wait and some round trips. The worst case
 * is faults in a row, each found out by a timer that waits twice as long as before. A datagram that is swapped is late by a
 * wait, and a late answer to a probe is a sample of the round-trip time: patience is three times the first sample.
 */
static uint64_t bound_ns(uint64_t clean_ns)
{
	uint64_t delay_ns = run.scene->delay_ns ? run.scene->delay_ns : DELAY_NS;
	uint64_t wait = run.scene->from == FROM_CUT ? FIRST_WAIT_KNOWN : FIRST_WAIT, sum = clean_ns;

	for (uint32_t i = 0; i < run.asked; i++)
		wait = run.pattern[i] == 's' && 3 * wait < LAST_WAIT ? 3 * wait : wait;
	for (uint32_t i = 0; i < run.faults; i++) {
		sum += wait + ROUND_TRIPS * (2 * delay_ns + 100 * US);
		wait = 2 * wait < LAST_WAIT ? 2 * wait : LAST_WAIT;
	}
	return sum;
}

/* Without the delivered datagrams at the end, which are the default. */
static const char *trimmed(const char *pattern)
{
	static char text[PATTERN_MAX + 1];
	size_t length = strlen(pattern);

	while (length > 1 && pattern[length - 1] == '.')
		length--;
	snprintf(text, sizeof(text), "%.*s", (int)length, pattern);
	return text;
}

static void print_run(const char *what, const char *pattern, uint64_t took_ns, uint64_t bound)
{
	print_message("  %s %s %s: %lu us, bound %lu us\n", what, run.scene->name, trimmed(pattern),
		      (unsigned long)(took_ns / US), (unsigned long)(bound / US));
}

static void check_time(uint64_t bound)
{
	if (run.took_ns > bound)
		fail_msg("it took %lu us, and %u faults may cost %lu us",
			 (unsigned long)(run.took_ns / US), run.faults,
			 (unsigned long)(bound / US));
	run.open = false;
}

static void run_scene(void **state)
{
	const struct scene *scene = *state;
	char worst[PATTERN_MAX + 1] = "";
	uint64_t clean_ns = 0, worst_ns = 0, worst_bound = 0, runs = 0;
	double share = 0;

	memset(run.pattern, 0, sizeof(run.pattern));
	run_pattern(scene);
	clean_ns = run.took_ns;
	assert_true(run.asked > 0);
	if (only_pattern) {
		snprintf(run.pattern, sizeof(run.pattern), "%s", only_pattern);
		run.shown = true;
		run_pattern(scene);
		print_run("run", run.pattern, run.took_ns, bound_ns(clean_ns));
		check_time(bound_ns(clean_ns));
		return;
	}
	for (uint32_t i = 0; i < SEARCHES && scene->searches[i].letters; i++) {
		struct search search = scene->searches[i];

		if (IS_SANITIZED)
			search.depth /= 4;
		memset(run.pattern, 0, sizeof(run.pattern));
		do {
			uint64_t bound;

			run_pattern(scene);
			runs++;
			bound = bound_ns(clean_ns);
			if (run.faults && (double)run.took_ns / (double)bound > share) {
				share = (double)run.took_ns / (double)bound;
				worst_ns = run.took_ns;
				worst_bound = bound;
				memcpy(worst, run.pattern, sizeof(worst));
			}
			check_time(bound);
		} while (next_pattern(&search));
	}
	print_message("  %s: %lu patterns, %lu us without a fault\n", scene->name,
		      (unsigned long)runs, (unsigned long)(clean_ns / US));
	print_run("worst:", worst, worst_ns, worst_bound);
}

/* After a failure: how to repeat the run that failed. */
static int print_replay(void **state)
{
	const struct scene *scene = *state;

	if (run.open)
		print_error("replay: test-message-exhaustive %s %s\n", scene->name,
			    trimmed(run.pattern));
	run.open = false;
	return 0;
}

static void quiet(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[SCENES_MAX];
	uint32_t count = exhaustive_scene_count;

	/* Tens of thousands of runs open and close everything: the memory stays with the process. */
	mallopt(M_MMAP_THRESHOLD, 1 << 18);
	mallopt(M_TRIM_THRESHOLD, 1 << 28);
	gw_log_set(GW_LOG_ERROR, quiet, NULL);
	for (uint32_t i = 0; i < count; i++)
		tests[i] = (struct CMUnitTest){ .name = exhaustive_scenes[i].name,
						.test_func = run_scene,
						.teardown_func = print_replay,
						.initial_state =
							(void *)(uintptr_t)&exhaustive_scenes[i] };
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	if (argc > 2)
		only_pattern = argv[2];
	return _cmocka_run_group_tests("message-exhaustive", tests, count, NULL, NULL);
}
