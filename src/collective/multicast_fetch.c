/* SPDX-License-Identifier: BSD-3-Clause */
/* The last line of a multicast operation: groups that a rank fetches from its parent, on the channel. */
#include <errno.h>
#include <stdlib.h>

#include "collective/multicast.h"

void fetch_serve(struct multicast *run)
{
	for (uint32_t i = 0; i < run->child_count; i++)
		if (run->children[i]->fetch && !run->children[i]->fetching)
			fetch_begin(run->children[i]);
}

/* Both ends fetch the groups that the entries stand for. */
static bool mark_groups(struct multicast *run, struct partner *partner, const struct note *note)
{
	partner->fetch = calloc(run->groups, 1);
	if (!partner->fetch) {
		comm_fail(comm_of(run), true, -ENOMEM, "rank %u has no memory to fetch",
			  comm_of(run)->rank);
		return false;
	}
	for (uint32_t g = 0; g < run->groups; g++)
		partner->fetch[g] = g / run->span < note->entries && note->vector[g / run->span];
	return true;
}

/* Asks the parent for what is missing, when no other note of it can come. */
void fetch_check(struct multicast *run)
{
	struct partner *parent = run->parent;
	struct note note = { .kind = NOTE_WANT, .number = run->coll->number };

	if (!run->done || !run->fetching || run->closed || parent->expect)
		return;
	run->closed = true;
	run_add_own(run, &note);
	note_send(parent, &note);
	if (mark_groups(run, parent, &note))
		fetch_begin(parent);
}

void fetch_came(struct multicast *run, uint32_t group)
{
	group_of(run)->fetched++;
	if (run->blocks[0].deficit[group])
		block_fill(&run->blocks[0], group);
	if (run_is_whole(run))
		fetch_serve(run);
}

void fetch_wanted(struct multicast *run, struct partner *child, const struct note *note)
{
	if (mark_groups(run, child, note) && run_is_whole(run))
		fetch_begin(child);
}
