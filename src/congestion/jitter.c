/* SPDX-License-Identifier: BSD-3-Clause */
/* jitter.c: random delays, told from a queue; see jitter.h. */
#include "congestion/jitter.h"

#include <math.h>

#include "congestion/lesser.h"

/* Round-trip times that the spread is averaged over, and the largest value of one after these: multiples of the spread, plus a
 * share of the minimum round-trip time. */
#define SPREAD_FIRST 16
#define SPREAD_MOST  4.0
#define SPREAD_SHARE (1 / 16.0)
/* Width of an even distribution, in mean differences of a value from the mean of its two neighbours. */
#define SPREAD_WIDTH 3.5
/* Weight of a round in the smoothed gap, and round-trip times that it needs. */
#define GAP_GAIN    (1 / 8.0)
#define GAP_SAMPLES 3
/* Least share of the jitter by which the least round-trip time of a round lies above the minimum, however many there are. */
#define OF_LEAST 0.35

/* Learns from how much a round-trip time differs from the mean of its two neighbours. */
static void see_spread(struct jitter *j, double rtt_ns, double least_ns)
{
	double width = SPREAD_WIDTH * fabs((rtt_ns + j->last_but_one_ns) / 2 - j->last_ns);

	if (j->last_but_one_ns > 0) {
		if (++j->spread_samples > SPREAD_FIRST) {
			j->spread_samples = SPREAD_FIRST;
			width = lesser(width, SPREAD_MOST * j->spread_ns + SPREAD_SHARE * least_ns);
		}
		j->spread_ns += (width - j->spread_ns) / j->spread_samples;
	}
	j->last_but_one_ns = j->last_ns;
	j->last_ns = rtt_ns;
}

void jitter_see(struct jitter *j, double rtt_ns, double least_ns)
{
	see_spread(j, rtt_ns, least_ns);
	if (!j->gap_samples++) {
		j->gap_least_ns = rtt_ns;
		j->gap_next_ns = INFINITY;
	} else {
		j->gap_next_ns = lesser(j->gap_next_ns, greater(rtt_ns, j->gap_least_ns));
		j->gap_least_ns = lesser(j->gap_least_ns, rtt_ns);
	}
}

/* Learns from the gap between the two least round-trip times of a round, or of several that have few. */
void jitter_end_round(struct jitter *j)
{
	double gain;

	if (j->gap_samples < GAP_SAMPLES)
		return;
	gain = greater(GAP_GAIN, 1.0 / ++j->gap_rounds);
	j->gap_ns += ((j->gap_next_ns - j->gap_least_ns) * (j->gap_samples + 1) - j->gap_ns) * gain;
	if (j->gap_rounds > 1 / GAP_GAIN)
		j->gap_rounds--;
	j->gap_samples = 0;
}

double jitter_ns(const struct jitter *j, double floor_ns)
{
	return greater(lesser(j->spread_ns, j->gap_ns) - floor_ns, 0);
}

double jitter_of_least(unsigned samples)
{
	return greater(OF_LEAST, 2.0 / (samples + 1));
}
