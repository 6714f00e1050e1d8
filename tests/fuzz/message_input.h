/* SPDX-License-Identifier: BSD-3-Clause */
/* message_input.h: the fuzzer's bytes, read as a program. After the last one come zeros. */
#ifndef TESTS_FUZZ_MESSAGE_INPUT_H
#define TESTS_FUZZ_MESSAGE_INPUT_H

#include <stddef.h>
#include <stdint.h>

static struct {
	const uint8_t *data;
	size_t left;
} input;

static uint32_t byte(void)
{
	if (!input.left)
		return 0;
	input.left--;
	return *input.data++;
}

static uint32_t word(void)
{
	uint32_t high = byte();

	return high << 8 | byte();
}

static uint32_t number(void)
{
	uint32_t high = word();

	return high << 16 | word();
}

/* Mostly one of [low, high], sometimes near it, seldom anything. */
static uint32_t around(uint32_t low, uint32_t high)
{
	uint32_t b = byte();

	if (b < 192)
		return low + b % ((high - low) % 192 + 1);
	return b < 250 ? low + b - 221 : number();
}

#endif
