/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that say whose they are: each message has its own, and each eight bytes of it differ from the rest, so that a
 * packet in the wrong place, of the wrong message or of an earlier use of the memory is found.
 */
#ifndef TOOLS_PERF_PATTERN_H
#define TOOLS_PERF_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* A message's own key, from who sends it, on which flow, and which one it is. */
uint64_t perf_pattern_key(bool client, uint32_t flow, uint64_t sequence);

void perf_pattern_fill(uint8_t *memory, uint64_t length, uint64_t key);

/* Whether [from, below) of the message is right; else *at is the first byte that is not. */
bool perf_pattern_check(const uint8_t *memory, uint64_t from, uint64_t below, uint64_t key,
			uint64_t *at);

#endif
