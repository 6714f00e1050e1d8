/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paces: what a byte costs, from which the next deadline follows.
 *
 * Cost is time over bytes that came, so that a message cut short does not look cheap: the deadline would eat itself. While
 * a pace has seen little the dearest message counts, as a deadline too short loses data and one too long only time.
 */
#include <stdbool.h>
#include <stddef.h>

#include <godwit/bounded.h>

#define WARM_MESSAGES 4
#define SMOOTHING     8.0

void gw_pace_add(struct gw_pace *pace, uint64_t bytes, uint64_t elapsed_ns)
{
	double cost;

	if (!pace || !bytes)
		return;
	cost = (double)elapsed_ns / (double)bytes;
	if (pace->messages < WARM_MESSAGES) {
		pace->messages++;
		if (cost > pace->ns_per_byte)
			pace->ns_per_byte = cost;
		return;
	}
	pace->ns_per_byte += (cost - pace->ns_per_byte) / SMOOTHING;
}

static bool warm(const struct gw_pace *pace)
{
	return pace->messages >= WARM_MESSAGES;
}

/* How many warm paces are cheaper, where equals go by their place. */
static uint32_t rank(const struct gw_pace *paces, uint32_t count, uint32_t which)
{
	uint32_t cheaper = 0;

	for (uint32_t i = 0; i < count; i++)
		cheaper += warm(&paces[i]) &&
			   (paces[i].ns_per_byte < paces[which].ns_per_byte ||
			    (i < which && paces[i].ns_per_byte == paces[which].ns_per_byte));
	return cheaper;
}

uint64_t gw_pace_timeout_ns(const struct gw_pace *paces, uint32_t count, uint64_t length)
{
	uint32_t known = 0;

	for (uint32_t i = 0; paces && i < count; i++)
		known += warm(&paces[i]);
	if (!known || 2 * known < count)
		return 0;
	/* Peers are few, and this is asked once a message: counting needs no memory to sort in. */
	for (uint32_t i = 0; i < count; i++)
		if (warm(&paces[i]) && rank(paces, count, i) == known / 2)
			return (uint64_t)(paces[i].ns_per_byte * (double)length * 1.25) + 1;
	return 0;
}
