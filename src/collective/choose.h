/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.h: which algorithm is fastest for an operation, on a network as it was measured. Pure functions.
 *
 * An algorithm takes so many one-way delays one after the other, and carries so many bytes one after the other over a rank's link.
 * Delays follow from the round-trip time, which is known when the ranks have met. The rate is found out by operations: what one took,
 * less its delays, was its bytes'. It is kept for each algorithm, since they fill a link differently well: many senders to one
 * receiver are not as fast as one. An algorithm that was not tried yet is predicted with the rate of the links, by what arrives (arrivals.h), or, if
 * that is not known either, with the lowest rate of the others.
 *
 * All ranks must choose alike, so that all of it is arithmetic of integers on figures that all ranks have (agree.h).
 */
#ifndef COLLECTIVE_CHOOSE_H
#define COLLECTIVE_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/collective.h>

#include "collective/algorithm.h"

/* Algorithms that are lists of steps, with GW_ALGORITHM_AUTO. */
#define CHOOSE_ALGORITHMS GW_ALGORITHM_MULTICAST

/* Rates: that of the links, those of the algorithms, and those of broadcasts by a ring and by direct messages. */
#define CHOOSE_LINKS 0
#define CHOOSE_RATES (CHOOSE_ALGORITHMS + 2)

/* What all ranks know of the network between them. */
struct network {
	/* round-trip time; 0: not known */
	uint64_t rtt_ns;
	/* in kbit/s: at what rate the links carry data, and operations moved their bytes, by choose_rate_at(); 0: not known */
	uint64_t rate_kbps[CHOOSE_RATES];
};

/* Which rate an operation by an algorithm has. A broadcast hands on what arrives, and what several ranks hand on to one meets what comes
 * from the root: it fills links less well than other operations by the same algorithm. */
unsigned choose_rate_at(enum operation operation, enum gw_algorithm algorithm);

/* What is fastest for so many bytes (of all chunks together) and ranks. `fixed_order`: reductions in the order of ranks only. */
enum gw_algorithm choose_algorithm(enum operation operation, uint64_t bytes, uint32_t size,
				   const struct network *network, bool fixed_order);

/* Whether short messages, which need no grant, are best for an operation: they fill the link, or it ends before they would wait. */
bool choose_is_light(enum operation operation, uint64_t bytes, uint32_t size,
		     enum gw_algorithm algorithm, const struct network *network);

/* Bytes of a segment of a broadcast by a chain: every rank but two delays the last one by that of one more, and every segment costs
 * time. Short ones need no grant, but wait for answers where a round trip is long. */
uint32_t choose_chain_bytes(uint64_t bytes, uint32_t size, const struct network *network);

/* What an operation will take, in ns. */
uint64_t choose_predict_ns(enum operation operation, uint64_t bytes, uint32_t size,
			   enum gw_algorithm algorithm, const struct network *network);

/* At what rate an operation that took so long moved its bytes, in kbit/s. One that took hardly longer than its delays tells a lower
 * bound; 0: it tells nothing that is not assumed already. */
uint64_t choose_rate_kbps(enum operation operation, uint64_t bytes, uint32_t size,
			  enum gw_algorithm algorithm, const struct network *network,
			  uint64_t took_ns);

#endif
