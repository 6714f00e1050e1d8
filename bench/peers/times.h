/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long single messages took, one at a time: from the moment a message is handed over to the receiver's word that all
 * of it is there. The first tenth of them warms up and is not counted.
 */
#ifndef BENCH_PEERS_TIMES_H
#define BENCH_PEERS_TIMES_H

#include <stdbool.h>
#include <stdint.h>

struct times {
	uint64_t *ns;
	uint64_t wanted;
	uint64_t count;
	uint64_t warm_up; /* messages left that are not counted */
	uint64_t begin_ns;
	uint64_t limit_ns; /* after which no further message begins */
};

void times_open(struct times *times, uint64_t wanted, uint64_t seconds_ns);

/* Whether there is to be another message; its time begins now. */
bool times_next(struct times *times);
/* The message is there. */
void times_end(struct times *times);

/* "message_time": an object, with a comma before it. Percentiles are nearest ranks, p99 of 100 messages or more. */
void times_print(struct times *times);

#endif
