/* SPDX-License-Identifier: BSD-3-Clause */
/* Word i of a message is key + i times an odd constant: cheap to make, and no two words of a message are equal. */
#include "pattern.h"

#include <string.h>

#define STEP UINT64_C(0x9e3779b97f4a7c15)
#define WORD sizeof(uint64_t)

uint64_t perf_pattern_key(bool client, uint32_t flow, uint64_t sequence)
{
	uint64_t key = sequence << 16 ^ (uint64_t)flow << 1 ^ client;

	/* Neighbouring messages must not be each other's shifted by a word. */
	key ^= key >> 31;
	key *= UINT64_C(0xbf58476d1ce4e5b9);
	key ^= key >> 27;
	return key;
}

void perf_pattern_fill(uint8_t *memory, uint64_t length, uint64_t key)
{
	uint64_t offset = 0;

	for (; offset + WORD <= length; offset += WORD, key += STEP)
		memcpy(memory + offset, &key, WORD);
	memcpy(memory + offset, &key, length - offset);
}

static uint8_t byte_at(uint64_t offset, uint64_t key)
{
	uint64_t word = key + offset / WORD * STEP;
	uint8_t bytes[WORD];

	memcpy(bytes, &word, WORD);
	return bytes[offset % WORD];
}

bool perf_pattern_check(const uint8_t *memory, uint64_t from, uint64_t below, uint64_t key,
			uint64_t *at)
{
	uint64_t offset = from;

	while (offset < below) {
		uint64_t word = key + offset / WORD * STEP, found;

		if (offset % WORD == 0 && offset + WORD <= below) {
			memcpy(&found, memory + offset, WORD);
			if (found == word) {
				offset += WORD;
				continue;
			}
		}
		if (memory[offset] != byte_at(offset, key)) {
			*at = offset;
			return false;
		}
		offset++;
	}
	return true;
}
