/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reed_solomon.h: k data symbols, and as many parity symbols as are wanted; any k of them all rebuild the data.
 *
 * A coder is prepared once for each (k, m), and nothing is allocated afterwards. It holds tables for the first m parity
 * rows, which is what a group is usually sent with; later rows, for a group that lost more, cost a little extra to
 * prepare each time. A coder for k codes groups of fewer as well, and its tables can be made anew for those. It also holds
 * room to work in, so one thread uses it at a time.
 *
 * Decoding solves for what is missing only: e erased symbols take an e by e inverse and e rows' worth of multiplying,
 * so it costs about e / m of an encode. Nothing is ever inverted that has the size of k.
 *
 * Calls answer -EINVAL, and touch nothing, for arguments that make no sense.
 */
#ifndef CODING_REED_SOLOMON_H
#define CODING_REED_SOLOMON_H

#include "coding/group.h"

#define RS_SYMBOLS_MAX 256 /* data and parity ever sent, together */

struct rs;

/* 1 <= k, 1 <= m, k + m <= RS_SYMBOLS_MAX. -EINVAL, -ENOMEM. */
int rs_create(unsigned k, unsigned m, struct rs **out);
void rs_destroy(struct rs *rs);

/* Makes the tables those of k symbols and m rows, neither above what it was created with: -EINVAL. What symbols there can
 * be in all, and what rows mean, does not change. */
int rs_retable(struct rs *rs, unsigned k, unsigned m);

/*
 * Parity rows from `first` on, `rows` of them, k + first + rows <= RS_SYMBOLS_MAX. data[] has group->count entries,
 * parity[] has `rows`, each of group->length bytes; no parity overlaps anything else.
 */
int rs_encode(struct rs *rs, const struct coding_group *group, const void *const data[],
	      unsigned first, unsigned rows, void *const parity[]);

/*
 * Folds data symbol `index`, of `length` bytes, into parity[0] to parity[m - 1] (the tables' m), which started as zeros. Once every
 * symbol of a group was folded in, in any order, they are the group's first m parity symbols. It costs about what
 * encoding at once does, and reads each packet while it is warm from being sent.
 */
int rs_fold(struct rs *rs, unsigned index, const void *data, size_t length, void *const parity[]);

/*
 * Rebuilds the `erasures` data symbols named in erased[] (ascending) from the others and from as many parity symbols:
 * parity[i] is parity row rows[i], each row once. data[] has group->count entries; those erased are written, the last
 * one only as far as group->last.
 */
int rs_decode(struct rs *rs, const struct coding_group *group, void *const data[],
	      const uint8_t *erased, unsigned erasures, const uint8_t *rows,
	      const void *const parity[]);

#endif
