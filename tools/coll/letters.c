/* SPDX-License-Identifier: BSD-3-Clause */
/* Letters that would mean something else here are refused with a line that names what comes nearest. */
#include "letters.h"

#include <stddef.h>

#include "tools/report.h"

static const struct {
	char letter;
	const char *option;
} letters[] = {
	{ 'd', "type" },      { 'f', "factor" }, { 'n', "iterations" },
	{ 'o', "reduction" }, { 'r', "root" },	 { 'w', "warmup" },
};

static const struct {
	char letter;
	const char *instead;
} refused[] = {
	{ 'i', "each size is -f times the one before" },
	{ 'm', "--in-flight sets how many operations are in flight at a time" },
	{ 'N', "-n sets how many operations are timed" },
	{ 'T', "--timeout sets after what silence a rank is lost" },
	{ 'a', "the time is that of the slowest rank" },
	{ 'J', "--json prints one JSON object" },
};

const char *coll_letter_option(int letter, struct report *report)
{
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (letters[i].letter == letter)
			return letters[i].option;
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (refused[i].letter == letter) {
			report_usage(report, "-%c of nccl-tests is not taken: %s", letter,
				     refused[i].instead);
			return NULL;
		}
	}
	report_usage(report, "-%c of nccl-tests has no counterpart here", letter);
	return NULL;
}
