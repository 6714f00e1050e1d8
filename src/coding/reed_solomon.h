/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reed_solomon.h: the code of k data symbols and any number of parity symbols, any k of which give the data.
 *
 * A coder is created once for (k, m) and allocates nothing afterwards. It holds tables for the first m parity rows, those
 * that are sent with every group; further rows, for a group that lost more, need their tables computed each time. A coder
 * for k also codes groups with fewer symbols, and its tables can be recomputed for those (rs_retable). It contains working
 * memory, so only one thread may use it at a time.
 *
 * Decoding computes the missing symbols only: e erased symbols take the work of e parity rows, about e / m of encoding.
 *
 * Calls return -EINVAL for invalid arguments, and then write nothing.
 */
#ifndef CODING_REED_SOLOMON_H
#define CODING_REED_SOLOMON_H

#include "coding/group.h"

/* Most data and parity symbols of a group together, parity sent later included. */
#define RS_SYMBOLS_MAX 256

struct rs;

/* Creates a coder; 1 <= k, 1 <= m, k + m <= RS_SYMBOLS_MAX. Returns 0, -EINVAL or -ENOMEM. */
int rs_create(unsigned k, unsigned m, struct rs **out);
void rs_destroy(struct rs *rs);

/* Computes the tables for k data symbols and m rows, neither of which may exceed those at creation (-EINVAL). The meaning of
 * a row does not change. */
int rs_retable(struct rs *rs, unsigned k, unsigned m);

/*
 * Computes `rows` parity symbols from row `first` on; k + first + rows <= RS_SYMBOLS_MAX. data[] has group->count entries,
 * parity[] has `rows` entries of group->length bytes, which overlap nothing else.
 */
int rs_encode(struct rs *rs, const struct coding_group *group, const void *const data[],
	      unsigned first, unsigned rows, void *const parity[]);

/*
 * Adds data symbol `index`, of `length` bytes, to parity[0] to parity[m - 1] (m as in the tables), which are zeros at first.
 * After every symbol of a group, in any order, they are the group's first m parity symbols. This takes about as long as
 * rs_encode(), but reads each packet while it is in the cache because it was just sent.
 */
int rs_fold(struct rs *rs, unsigned index, const void *data, size_t length, void *const parity[]);

/*
 * Computes the `erasures` data symbols listed in erased[] (ascending) from the others and from as many parity symbols:
 * parity[i] is parity row rows[i], each row once. data[] has group->count entries; the erased ones are written, the group's
 * last one only up to group->last bytes.
 */
int rs_decode(struct rs *rs, const struct coding_group *group, void *const data[],
	      const uint8_t *erased, unsigned erasures, const uint8_t *rows,
	      const void *const parity[]);

#endif
