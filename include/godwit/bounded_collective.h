/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounded_collective.h: collectives that are on time, with what arrived by then.
 *
 * A bounded operation does not wait for a rank that comes late, nor for packets that are lost. It ends with the reduction of what
 * arrived, and with a report that says what is missing. For computations that tolerate a little loss and do not tolerate to wait:
 * gradients, as a rule. The library never chooses this by itself.
 *
 * An allreduce cuts the data into shards, one for each rank that is there in time: its owner. Every such rank sends each owner its
 * share of that shard (stage 1), until a deadline. The owner reduces what it has, once, and sends the result to all ranks (stage 2),
 * which is exact: all ranks end with the same bits, a rank that came late too. Results are kept for it. A rank may be as many operations
 * behind the others as gw_comm_attr.ahead says; then the others wait.
 *
 * Many ranks form a grid, and stage 1 has two rounds: every rank reduces a shard for its row, and then a piece of it for its column,
 * each round with a deadline of its own. A mean is the mean of the rows' means, and a row whose share of a piece is lost is left out.
 * What a late rank's row has of the shard of that rank is left out too.
 *
 * All ranks call the same operations in the same order with the same attributes, as with those of collective.h.
 */
#ifndef GODWIT_BOUNDED_COLLECTIVE_H
#define GODWIT_BOUNDED_COLLECTIVE_H

#include <godwit/collective.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What stands for numbers that did not arrive. A minimum or maximum is always that of the numbers that did. */
enum gw_recovery {
	/* Nothing: a mean is over the numbers that arrived, and a sum is that mean times the number of ranks. */
	GW_RECOVER_COUNT,
	/* zeros */
	GW_RECOVER_ZERO,
	/* the number of the rank that reduces */
	GW_RECOVER_KEEP,
	/* the result of an earlier operation: `previous` */
	GW_RECOVER_PREVIOUS,
	/* Shares travel as coefficients of a randomised Hadamard transform, so that a lost packet costs all numbers of a block a little
	 * instead of some everything. Sums and means of float32 and bfloat16 only. A result without loss is rounded differently. */
	GW_RECOVER_HADAMARD,
	/* Lost packets are repaired, by parity or repeats, until the deadline; after that as GW_RECOVER_COUNT. */
	GW_RECOVER_CODED,
};

/* Flag: shares below the floor are repaired for up to ten deadlines. Without it the operation fails below the floor. */
#define GW_BOUNDED_REPAIR 1u
/*
 * Flag, with GW_RECOVER_HADAMARD: the numbers are coefficients already, and so is the result. The caller has transformed them, where they
 * were made, and transforms the result back; shares still travel in the order that spreads losses. Blocks of GW_BOUNDED_BLOCK numbers
 * from the start of the data, and of a reduce-scatter from that of each rank's block, which have a multiple of as many numbers. All
 * ranks use the same transform for one operation, with signs that are new for each.
 */
#define GW_BOUNDED_TRANSFORMED 2u
#define GW_BOUNDED_BLOCK       4096

struct gw_bounded_attr {
	enum gw_recovery recovery;
	/* GW_BOUNDED_REPAIR, GW_BOUNDED_TRANSFORMED */
	uint32_t flags;
	/* Time for stage 1, and time that a late rank is waited for once half of the ranks are there, in ns. 0: stage 1 may take twice
	 * the median of what operations of about this size took the owners so far, and a late rank is waited for a part of that; one
	 * that has not come to an earlier operation only as long as it needs to come nearer. The first four of a size wait for all ranks. */
	uint64_t deadline_ns;
	/* Least part of the shares of each owner that must arrive, in millionths; below that the operation ends with -EIO. */
	uint32_t floor_ppm;
	/* Rows of the grid of an allreduce, a divisor of the number of ranks; 1: there is none. 0: the library chooses, from 64 ranks on, a
	 * grid with at most four times as many columns as rows, if there is one. */
	uint32_t rows;
	/* GW_RECOVER_PREVIOUS: an earlier result, the same on all ranks, with the layout of the result; of a reduce-scatter this rank's
	 * block. Read until the operation has ended. */
	const void *previous;
	uint64_t reserved[6];
};

/* Why stage 1 ended, at the owner that had most reason to complain. */
enum gw_bounded_end {
	/* every share arrived whole */
	GW_BOUNDED_END_WHOLE,
	/* all was sent, and some of it was lost */
	GW_BOUNDED_END_LOST,
	/* the deadline passed */
	GW_BOUNDED_END_DEADLINE,
	/* ranks came too late to take part */
	GW_BOUNDED_END_LATE,
};

/* What became of an operation. Of an allreduce it is the same on all ranks, but for the times. */
struct gw_bounded_report {
	/* bytes of shares that owners expected of other ranks, and that arrived; of a reduce-scatter, at this rank. In a grid, bytes of
	 * which the result is made, at least: what is missing in both rounds counts twice. */
	uint64_t expected;
	uint64_t arrived;
	/* time limit of stage 1, in ns */
	uint64_t deadline_ns;
	/* from the start of the operation to its end at this rank, and the part until it was known which ranks take part, in ns */
	uint64_t elapsed_ns;
	uint64_t waited_ns;
	/* stage 1 of this rank, in ns */
	uint64_t gathered_ns;
	/* enum gw_bounded_end */
	uint32_t end;
	/* ranks that came too late to take part */
	uint32_t late;
	/* ranks whose earlier results differ from those of others: replicas have drifted apart */
	uint32_t diverged;
	/* senders that each owner received from at a time */
	uint32_t incast;
	uint64_t reserved[3];
};

/*
 * Post an operation, as gw_allreduce() and gw_reduce_scatter() do. `bounded` may be null: all defaults. Types are floating-point
 * ones. `algorithm` must be GW_ALGORITHM_AUTO.
 *
 * In a reduce-scatter rank r reduces and keeps the r-th block, whether or not it is late: a late rank has its own share only. The
 * owner's share is never lost, which counting alone weighs too much; an allreduce therefore changes owners with each operation.
 *
 * An operation ends with 0, -EIO (below the floor, on all ranks; the result is there), or as others do. A rank that dies ends all
 * operations: late is not dead.
 */
GW_API int gw_bounded_allreduce(struct gw_comm *comm, const struct gw_coll_attr *attr,
				const struct gw_bounded_attr *bounded, struct gw_coll **out);
GW_API int gw_bounded_reduce_scatter(struct gw_comm *comm, const struct gw_coll_attr *attr,
				     const struct gw_bounded_attr *bounded, struct gw_coll **out);

/*
 * The same for gw_allgather() and gw_broadcast(), of all types. There is one stage, which is exact: they do not wait for ranks that
 * are late, and repair losses. Blocks of late ranks become zeros on all ranks, also where they come from, or with
 * GW_RECOVER_PREVIOUS those of an earlier result. A broadcast waits for its root, and for nobody else. The recovery is
 * GW_RECOVER_COUNT (zeros), GW_RECOVER_ZERO or GW_RECOVER_PREVIOUS, and there is neither a floor nor repair. A report counts each
 * block once.
 */
GW_API int gw_bounded_allgather(struct gw_comm *comm, const struct gw_coll_attr *attr,
				const struct gw_bounded_attr *bounded, struct gw_coll **out);
GW_API int gw_bounded_broadcast(struct gw_comm *comm, const struct gw_coll_attr *attr,
				const struct gw_bounded_attr *bounded, struct gw_coll **out);

/* The report of a bounded operation that has ended; also inside `done`. -EAGAIN until then, -EINVAL if it is none. */
GW_API int gw_bounded_report(const struct gw_coll *coll, struct gw_bounded_report *out);

/* Bytes of a rank's shares that did not arrive, as far as the report covers them. Same errors. */
GW_API int gw_bounded_missing(const struct gw_coll *coll, uint32_t rank, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
