/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ccsim: what a controller does, in numbers: the table of the closed loop, or one case with a line every 100 ms.
 *
 *	ccsim [--cc NAME] [--trace] [--seed N] [CASE...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

int main(int argc, char **argv)
{
	const char *cc = NULL;
	bool trace = false;
	uint64_t seed = 1;
	int first = 1;

	for (; first < argc && argv[first][0] == '-'; first++) {
		if (!strcmp(argv[first], "--trace")) {
			trace = true;
		} else if (!strcmp(argv[first], "--cc") && first + 1 < argc &&
			   cc_find(argv[first + 1])) {
			cc = argv[++first];
		} else if (!strcmp(argv[first], "--seed") && first + 1 < argc) {
			seed = strtoull(argv[++first], NULL, 10);
		} else {
			fprintf(stderr,
				"usage: ccsim [--cc NAME] [--trace] [--seed N] [CASE...]\n");
			return 2;
		}
	}
	printf("# ");
	for (int i = 0; i < argc; i++)
		printf("%s ", argv[i]);
	printf("  (simulated; queue: median, 95th percentile and longest; own and others: over a fair share)\n");
	case_header();
	for (unsigned i = 0; i < case_count; i++) {
		const struct loop_case *one = &cases[i];
		bool wanted = first == argc;
		struct loop_result result;

		for (int j = first; j < argc; j++)
			wanted |= !strncmp(argv[j], one->name, strlen(argv[j]));
		if (!wanted)
			continue;
		case_run(one, cc, seed, trace, &result);
		case_print(one, &result);
		fflush(stdout);
	}
	return 0;
}
