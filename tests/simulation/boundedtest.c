/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundedtest: bounded reductions on simulated networks, one scenario a seed: ranks, path, loss, bursts, ranks that come late, a
 * rank that dies, recoveries, deadlines, floors.
 *
 * Rank r gives 2^r in every element, so that the sum with zeros for what is missing says for each element which shares are in it. Every
 * operation must end; stage 1 by its deadline; all ranks of an allreduce have the same bits and the same report; the report says
 * what the result shows; and what lost nothing has the bits of a reduction in the order of ranks.
 */
#include "simulation/bounded_check.h"
#include "simulation/bounded_scenario.h"

static int tell(uint64_t scenarios, uint64_t faults)
{
	const struct bounded_sights *seen = &bounded_sights;

	/* A test that meets nothing shows nothing. */
	if (scenarios >= 100 && (!seen->whole || !seen->lost || !seen->deadline || !seen->late ||
				 !seen->poor || !seen->diverged || !seen->holes ||
				 !seen->transformed || !seen->grids || !seen->previous)) {
		fprintf(stderr,
			"no operation was whole, lost packets, was cut, was late, was poor, or found a divergence: "
			"%llu %llu %llu %llu %llu %llu\n",
			(unsigned long long)seen->whole, (unsigned long long)seen->lost,
			(unsigned long long)seen->deadline, (unsigned long long)seen->late,
			(unsigned long long)seen->poor, (unsigned long long)seen->diverged);
		return 1;
	}
	printf("%llu scenarios, %llu with a rank that died\n", (unsigned long long)scenarios,
	       (unsigned long long)faults);
	printf("%llu operations: %llu whole, %llu with losses, %llu cut by the deadline, %llu with late ranks; %llu below the floor, "
	       "%llu with a divergence; holes of %llu results compared with the report; %llu allgathers and broadcasts; blocks of "
	       "%llu results compared; %llu results of grids with losses, %llu with earlier numbers\n",
	       (unsigned long long)seen->operations, (unsigned long long)seen->whole,
	       (unsigned long long)seen->lost, (unsigned long long)seen->deadline,
	       (unsigned long long)seen->late, (unsigned long long)seen->poor,
	       (unsigned long long)seen->diverged, (unsigned long long)seen->holes,
	       (unsigned long long)seen->gathered, (unsigned long long)seen->transformed,
	       (unsigned long long)seen->grids, (unsigned long long)seen->previous);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct coll_test test = { .name = "boundedtest",
					       .draw = bounded_scenario_draw,
					       .given = bounded_given,
					       .check = bounded_check_run,
					       .tell = tell };

	return coll_test_main(&test, argc, argv);
}
