/* SPDX-License-Identifier: BSD-3-Clause */
/* Letters that would mean something else here are refused with a line that names what comes nearest. */
#include "iperf.h"

#include <stddef.h>

#include "tools/report.h"

static const struct perf_letter letters[] = {
	{ 'b', "rate" },     { 'c', NULL },
	{ 'i', "interval" }, { 'l', "size" },
	{ 'n', "bytes" },    { 'p', "port" },
	{ 's', NULL },	     { 't', "duration" },
	{ 'B', "bind" },     { 'C', "congestion" },
	{ 'J', "json" },     { 'P', "qps" },
	{ 'R', "reverse" },  { 'S', "traffic-class" },
	{ '1', NULL },
};

static const struct {
	char letter;
	const char *instead;
} refused[] = {
	{ 'u', "packets travel in UDP in any case, and --scheme raw repairs none" },
	{ 'w', "--depth sets how many messages are in flight; buffers follow the path" },
	{ 'k', "--count ends the test after a number of messages on each channel" },
	{ 'M', "the size of packets is found by itself" },
	{ 'N', "nothing waits to be sent in larger pieces" },
	{ 'Z', "large messages are not copied in any case" },
	{ '4', "name an IPv4 address" },
	{ '6', "name an IPv6 address" },
	{ 'f', "--json has every figure in one unit" },
	{ 'V', "--json tells everything" },
	{ 'O', "a tenth of the test, 0.2 s at most, is left out in any case" },
	{ 'D', "run it in the background" },
	{ 'd', "GODWIT_LOG=debug in the environment tells more" },
	{ 'A', "taskset(1) does that" },
	{ 'F', "`godwit send` sends a file" },
};

const struct perf_letter *perf_letter_find(int letter, struct report *report)
{
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (letters[i].letter == letter)
			return &letters[i];
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (refused[i].letter == letter) {
			report_usage(report, "-%c of iperf3 is not taken: %s", letter,
				     refused[i].instead);
			return NULL;
		}
	}
	report_usage(report, "-%c of iperf3 has no counterpart here", letter);
	return NULL;
}
