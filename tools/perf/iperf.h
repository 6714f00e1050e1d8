/* SPDX-License-Identifier: BSD-3-Clause */
/* The short options of iperf3, for hands that know them. */
#ifndef TOOLS_PERF_IPERF_H
#define TOOLS_PERF_IPERF_H

struct report;

/* The letters, for getopt_long(): all of iperf3's, whether or not they mean something here. */
#define PERF_LETTERS ":c:sp:t:b:l:P:Ri:Jn:B:C:S:1uwkMNZ46fVOTDdAFLXKGUI"

/* The letters that mean the same as something here, and what that is. The long name is null where there is none. */
struct perf_letter {
	char letter;
	const char *name;
};

/* Null: the letter is not taken; `report` says what to use instead. */
const struct perf_letter *perf_letter_find(int letter, struct report *report);

#endif
