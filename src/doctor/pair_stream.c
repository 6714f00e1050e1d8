/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair_stream.h"

#include <stdlib.h>
#include <string.h>

void pair_stream_arrive(struct pair_stream *stream, uint32_t number, int64_t delay_ns)
{
	uint64_t bit = UINT64_C(1) << (number % 64);

	if (number >= PAIR_STREAM_MAX)
		return;
	if (stream->arrived[number / 64] & bit) {
		stream->duplicates++;
		return;
	}
	stream->arrived[number / 64] |= bit;
	if (stream->count && number < stream->latest)
		stream->reordered++;
	else
		stream->latest = number;
	stream->delay_ns[stream->count++] = delay_ns;
}

static int by_value(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, two = *(const int64_t *)b;

	return (one > two) - (one < two);
}

void pair_stream_finish(struct pair_stream *stream, struct pair_heard *out)
{
	uint32_t count = stream->count;

	out->packets = count;
	out->duplicates = stream->duplicates;
	out->reordered = stream->reordered;
	if (!count)
		return;
	qsort(stream->delay_ns, count, sizeof(stream->delay_ns[0]), by_value);
	out->delay_min_ns = stream->delay_ns[0];
	out->delay_p10_ns = stream->delay_ns[count / 10];
	out->delay_p50_ns = stream->delay_ns[count / 2];
	out->delay_p90_ns = stream->delay_ns[(uint64_t)count * 9 / 10];
}

void pair_marks_finish(const struct pair_mark_counts *counts, struct pair_heard *out)
{
	for (unsigned i = 0; i < PAIR_MARKS; i++) {
		uint32_t most = 0;

		out->marked[i] = 0;
		for (unsigned value = 0; value < 256; value++) {
			out->marked[i] += counts->arrived[i][value];
			if (counts->arrived[i][value] > most) {
				most = counts->arrived[i][value];
				out->mark_arrived[i] = (uint8_t)value;
			}
		}
	}
}

/* MTUs that links and tunnels have: IPv6's least, VPNs, VXLAN, GRE, PPPoE, Ethernet, RoCE's, FDDI's, jumbo frames. */
static const uint32_t known[] = { 576,	1280, 1380, 1400, 1420, 1450, 1472, 1480, 1492,
				  1500, 2200, 4200, 4470, 8000, 8900, 9000, 9216 };

unsigned pair_sizes(uint32_t arrived, uint32_t lost, uint32_t most, uint32_t out[PAIR_SIZES_MAX])
{
	unsigned count = 0, steps = PAIR_SIZES_MAX - 4;
	uint32_t from = arrived + 1, to = lost ? lost - 1 : most;

	if (from > to)
		return 0;
	if (!arrived && !lost) {
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			if (known[i] < most)
				out[count++] = known[i];
		}
		out[count++] = most;
		return count;
	}
	if (to - from < steps)
		steps = to - from + 1;
	for (unsigned i = 1; i <= steps; i++)
		out[count++] = from - 1 + (uint32_t)((uint64_t)(to - from + 1) * i / steps);
	return count;
}
