/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/bounded/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/units.h"

const char setting_usage[] =
	"usage: boundedsim RANKS SIZE STEPS RECOVERY [--loss P] [--burst N] [--late CHANCE:TIME[:fixed]] [--compute T] "
	"[--deadline T] [--tracks N] [--buckets N] [--rows N] [--rtt T] [--rate R] [--seed S] [--unbiased Z] [--tail T] [--step T]\n";

static int read_recovery(const char *word, struct setting *out)
{
	static const struct {
		const char *word;
		enum gw_recovery recovery;
	} words[] = { { "count", GW_RECOVER_COUNT },
		      { "zero", GW_RECOVER_ZERO },
		      { "keep", GW_RECOVER_KEEP },
		      { "hadamard", GW_RECOVER_HADAMARD },
		      { "coded", GW_RECOVER_CODED } };

	out->exact = !strcmp(word, "exact");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		out->bounded.recovery = words[i].recovery;
		return 0;
	}
	return !out->exact;
}

/* "0.05:100ms", or "0.1:1s:fixed" */
static int read_late(const char *text, struct setting *out)
{
	char chance[32];
	char time[32];
	char kind[8] = "";

	if (sscanf(text, "%31[^:]:%31[^:]:%7s", chance, time, kind) < 2)
		return 1;
	out->late_fixed = !strcmp(kind, "fixed");
	return units_share(chance, &out->late) || units_time_ns(time, &out->late_ns) ||
	       (kind[0] && !out->late_fixed);
}

int setting_read(int argc, char **argv, struct setting *out)
{
	int bad = argc < 5 || argc % 2 == 0 || units_count(argv[1], 2, 1024, &out->ranks) ||
		  units_size_bytes(argv[2], &out->bytes) ||
		  units_count(argv[3], WARMUP + 1, 1000000, &out->operations) ||
		  read_recovery(argv[4], out);

	for (int i = 5; !bad && i < argc; i += 2) {
		const char *value = argv[i + 1];

		if (!strcmp(argv[i], "--loss"))
			bad = units_share(value, &out->loss);
		else if (!strcmp(argv[i], "--burst"))
			out->burst = strtod(value, NULL);
		else if (!strcmp(argv[i], "--late"))
			bad = read_late(value, out);
		else if (!strcmp(argv[i], "--compute"))
			bad = units_time_ns(value, &out->compute_ns);
		else if (!strcmp(argv[i], "--deadline"))
			bad = units_time_ns(value, &out->bounded.deadline_ns);
		else if (!strcmp(argv[i], "--unbiased"))
			out->unbiased = strtod(value, NULL);
		else if (!strcmp(argv[i], "--tracks"))
			bad = units_count(value, 1, 16, &out->tracks);
		else if (!strcmp(argv[i], "--buckets"))
			bad = units_count(value, 1, 64, &out->buckets);
		else if (!strcmp(argv[i], "--step"))
			bad = units_time_ns(value, &out->step_ns);
		else if (!strcmp(argv[i], "--rows"))
			bad = units_count(value, 0, 512, &out->rows);
		else if (!strcmp(argv[i], "--tail"))
			bad = units_time_ns(value, &out->tail_ns);
		else if (!strcmp(argv[i], "--rtt"))
			bad = units_time_ns(value, &out->rtt_ns);
		else if (!strcmp(argv[i], "--rate"))
			bad = units_rate_bps(value, &out->rate_bps);
		else if (!strcmp(argv[i], "--seed"))
			bad = units_count(value, 0, UINT32_MAX, &out->seed);
		else
			bad = 1;
	}
	return bad;
}
