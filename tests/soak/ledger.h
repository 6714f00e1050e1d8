/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ledger.h: what a peer of the soak has done, in a file that is mapped, so that it can be read after the peer was killed.
 * All integers are in the host's byte order; tests/soak/soak reads them.
 */
#ifndef TESTS_SOAK_LEDGER_H
#define TESTS_SOAK_LEDGER_H

#include <stdint.h>

#define LEDGER_MAGIC	0x676f64776c656467
#define LEDGER_CHANNELS 1024
#define LEDGER_SAMPLES	2048

/* One channel, as one of its ends sees it. */
struct ledger_channel {
	/* name of the channel, the same at both ends; 0: the entry is unused */
	uint64_t token;
	uint32_t peer;
	/* 0 while it is open; a negative errno, or 1 when both ends said that they were done, or 2 when the peer came back with
	 * another channel */
	int32_t status;
	/* times by the monotonic clock, in ns: when it was connected, and when it ended */
	uint64_t opened_ns;
	uint64_t ended_ns;
	/* messages that were posted, that ended with status 0, and that came with the right bytes */
	uint64_t posted;
	uint64_t delivered;
	uint64_t received;
	uint64_t received_bytes;
};

/* What the process used at one moment. */
struct ledger_sample {
	uint64_t at_ns;
	uint32_t heap_kib;
	uint32_t descriptors;
};

struct ledger {
	uint64_t magic;
	uint32_t rank;
	/* 1 when the peer ended by itself, with nothing wrong */
	uint32_t finished;
	uint64_t channels;
	uint64_t samples;
	/* descriptors before the context was opened and after it was closed */
	uint32_t descriptors_before;
	uint32_t descriptors_after;
	/* first thing that went wrong; empty: nothing */
	char wrong[240];
	struct ledger_channel channel[LEDGER_CHANNELS];
	struct ledger_sample sample[LEDGER_SAMPLES];
};

/* Maps a new ledger at `path`; null if that fails. */
struct ledger *ledger_open(const char *path, uint32_t rank);
/* Returns an unused entry; the last one again and again when all are used. */
struct ledger_channel *ledger_channel(struct ledger *ledger);
void ledger_sample(struct ledger *ledger, uint64_t now_ns);
/* Open descriptors of this process. */
uint32_t ledger_descriptors(void);
/* Notes what went wrong, unless something was noted before. */
void ledger_wrong(struct ledger *ledger, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
