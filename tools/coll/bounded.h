/* SPDX-License-Identifier: BSD-3-Clause */
/* What the bounded operations of `godwit coll` came to. */
#ifndef TOOLS_COLL_BOUNDED_H
#define TOOLS_COLL_BOUNDED_H

#include <jansson.h>

#include <godwit/bounded_collective.h>

struct coll_losses {
	uint64_t operations;
	/* bytes of shares, as struct gw_bounded_report has them */
	uint64_t expected, arrived;
	/* operations with late ranks, cut by the deadline, below the floor, and with results that differed before */
	uint64_t late, cut, poor, diverged;
	/* of the last operation */
	uint64_t deadline_ns;
};

/* Adds an operation that ended with 0 or -EIO. Returns whether all of it arrived. */
int coll_losses_add(struct coll_losses *losses, const struct gw_coll *coll, int status);

/* Part of the bytes that arrived; 1 if none were expected. */
double coll_losses_arrived(const struct coll_losses *losses);

json_t *coll_losses_json(const struct coll_losses *losses);

#endif
