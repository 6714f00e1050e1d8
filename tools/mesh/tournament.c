/* SPDX-License-Identifier: BSD-3-Clause */
#include "tournament.h"

unsigned tournament_rounds(unsigned ranks)
{
	return ranks < 2 ? 0 : ranks % 2 ? ranks : ranks - 1;
}

/* All ranks but the last stand on a circle, and in round r those whose numbers add up to r are partners; the one that would be its
 * own partner has the last one, or nobody. */
unsigned tournament_partner(unsigned ranks, unsigned round, unsigned rank)
{
	unsigned circle = tournament_rounds(ranks);
	unsigned partner;

	if (!circle)
		return rank;
	if (rank == circle) {
		for (partner = 0; 2 * partner % circle != round; partner++)
			;
		return partner;
	}
	partner = (round + circle - rank) % circle;
	if (partner != rank)
		return partner;
	return ranks % 2 ? rank : circle;
}
