/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounded.h: bounded reductions (bounded_collective.h). Private to collective/.
 *
 * One rank coordinates. An operation is a few messages between each pair of ranks, always in this order:
 *
 *	hail      to the coordinator: this rank is there; what its last operations took; a digest of its results
 *	plan      from the coordinator: which ranks take part, who owns which shard, the deadline, a seed
 *	share     to an owner, from each rank that takes part: under a deadline, may have holes        (stage 1)
 *	summary   from an owner to every rank: what arrived there                                      (stage 2)
 *	result    from an owner to every rank: its shard, reduced
 *
 * Of many ranks an allreduce has two rounds of stage 1, in the rows and then in the columns of a grid (bounded_grid.c).
 *
 * The coordinator waits for all ranks, and once half of them are there for a limited time only. A rank whose hail comes later
 * takes no part: it reads the plan when it comes, sends nothing, and gets the results. Results leave from memory of the library,
 * so that the operation ends for its caller, and the track goes on, while a late rank still has to fetch them (bounded_keep.c).
 *
 * Whatever the ranks must agree on is in the plan. That needs one round trip, and no other rule for who is late, for deadlines that
 * every rank would derive from measurements of its own, and for digests to compare.
 */
#ifndef COLLECTIVE_BOUNDED_H
#define COLLECTIVE_BOUNDED_H

#include <godwit/bounded.h>
#include <godwit/bounded_collective.h>

#include "coding/stride.h"
#include "collective/comm.h"

/* Paces are kept by the binary logarithm of an operation's bytes. */
#define BOUNDED_SIZES 64
/* Numbers of a Hadamard block. */
#define BOUNDED_BLOCK GW_BOUNDED_BLOCK
#define PPM	      UINT64_C(1000000)

enum message_kind {
	MESSAGE_HAIL,
	MESSAGE_PLAN,
	MESSAGE_SHARE,
	MESSAGE_SUMMARY,
	MESSAGE_RESULT,
};

/* One message to or from one rank. */
struct message {
	struct bounded *run;
	uint32_t peer;
	enum message_kind kind;
	bool sending;
	/* of a share: the round that it belongs to */
	uint32_t round;
	/* a receive that waits until fewer ranks send to this one */
	bool held;
	/* a share that could not be received before the deadline, for want of a channel: nobody looks at it */
	bool abandoned;
	bool ended;
	uint8_t *addr;
	uint64_t length;
	struct gw_mr *mr;
	struct gw_op *op;
};

/* Messages with one rank, one way: hail or plan, share, summary, result. */
#define MESSAGES_MAX 4

struct message_queue {
	struct message items[MESSAGES_MAX];
	uint32_t count;
	/* first one that was not posted */
	uint32_t next;
};

/* A range of bytes of a share that did not arrive. */
struct hole {
	uint64_t from;
	uint64_t to;
};

struct hole_list {
	struct hole *items;
	uint32_t count;
	uint32_t room;
	/* memory of a list of one */
	struct hole first;
	/* bytes of the share that are in parts which have ended: one range */
	uint64_t covered_from;
	uint64_t covered_to;
};

struct bounded_peer {
	struct message_queue out, in;
	/* takes part */
	bool present;
	/* the shard that it owns; UINT32_MAX: none */
	uint32_t shard;
	/* the piece of this rank's shard that it owns, in a grid; UINT32_MAX: none */
	uint32_t piece;
	/* its share here; null: this rank's own, or none */
	uint8_t *share;
	struct hole_list holes;
};

struct hail {
	uint64_t number;
	uint64_t elements;
	/* operation, type, reduction, recovery and flags: the same on all ranks */
	uint8_t what[4];
	uint32_t root;
	uint32_t floor_ppm;
	/* of the grid */
	uint32_t rows;
	uint64_t digest;
	/* how long this rank waited for the last plan on this track */
	uint64_t waited_ns;
	double ns_per_byte;
	uint32_t measured;
	/* the last stage 1 of this rank ended by its deadline */
	uint32_t timed_out;
};

struct plan {
	uint64_t deadline_ns;
	uint64_t seed;
	/* of the next operation on this track */
	uint32_t coordinator;
	uint32_t incast;
	uint32_t diverged;
	uint32_t reserved;
	/* a bit for each rank that takes part */
	uint64_t present[GW_COMM_RANKS_MAX / 64];
};

/* What an owner tells of its stage 1. */
struct summary {
	uint64_t expected;
	uint64_t arrived;
	uint32_t end;
	/* less than the floor arrived */
	uint32_t poor;
	/* bytes that are missing, by rank */
	uint64_t missing[];
};

/* What a communicator remembers of bounded operations on one track. */
struct bounded_track {
	uint32_t coordinator;
	/* over all results so far */
	uint64_t digest;
	uint64_t waited_ns;
};

struct results;

struct bounded_memory {
	/* memory of results that no operation has */
	struct list spare;
	/* operations that have left their tracks and are kept for ranks that have not got their results, and bytes of these */
	uint32_t kept;
	uint64_t kept_bytes;
	/* how long after its end here late ranks had the last result, 0: none is behind; by how much that falls from one result to the
	 * next, smoothed; time that they are waited for, so that they come nearer */
	uint64_t lag_ns;
	double nearer_ns;
	uint64_t catch_up_ns;
	/* of stage 1; and of operations that reduce nothing */
	struct gw_pace pace[2][BOUNDED_SIZES];
	/* what the next hail says */
	uint32_t timed_out;
	/* of the last plan; 0: none yet */
	uint32_t incast;
	/* at a coordinator: time from the first hail until most ranks were there, smoothed */
	uint64_t spread_ns;
	/* how often each rank was late of late, 0 to UINT16_MAX */
	uint16_t late[GW_COMM_RANKS_MAX];
	/* start of the last operation; time from one start to the next, smoothed */
	uint64_t last_start_ns;
	uint64_t period_ns;
	struct bounded_track tracks[TRACKS_MAX];
};

enum bounded_state {
	/* waits for hails, or for the plan */
	BOUNDED_MEETING,
	/* stage 1: shares come in */
	BOUNDED_SHARING,
	/* in a grid: this rank's piece is reduced, and others of its column are not here */
	BOUNDED_PIECES,
	/* the shard is reduced, or this rank owns none */
	BOUNDED_REDUCED,
	/* the caller has the result; other ranks may not */
	BOUNDED_TOLD,
};

/* A part of stage 1: members send each other shares of what each has, and each member reduces its part. */
struct round {
	/* members: the ranks first, first + step, ... */
	uint32_t first;
	uint32_t step;
	uint32_t count;
	/* cut of the data into parts; the part of this rank */
	struct layout layout;
	uint32_t part;
	/* this rank's numbers, and the same as packets of coefficients */
	const uint8_t *source;
	struct gw_mr *source_mr;
	uint8_t *packed;
	/* this rank's part, reduced */
	uint8_t *reduced;
	/* what stands for missing numbers with GW_RECOVER_PREVIOUS; of a sum, that times `previous_parts` */
	const uint8_t *previous;
	uint32_t previous_parts;
	/* of the signs of a part's coefficients, plus its number */
	uint64_t seed;
	/* receives of shares that have not ended */
	uint32_t shares_left;
	/* they all have, and were reduced */
	bool over;
	uint64_t deadline_ns;
	struct gw_bounded_options options;
};

struct bounded {
	struct gw_coll *coll;
	struct gw_comm *comm;
	struct gw_bounded_attr attr;
	enum bounded_state state;
	struct bounded_peer *peers;
	struct hail hail;
	struct plan plan;
	/* at the coordinator: hails that have come, and memory for all */
	uint32_t here;
	struct hail *hails;
	/* when the first hail came */
	uint64_t first_hail_ns;
	/* when enough ranks were there for an operation without the others; 0: not yet */
	uint64_t enough_ns;
	bool spread_noted;
	/* when bounded_turn() is due: the coordinator stops waiting, or stage 1 ends; UINT64_MAX: not known, or over */
	uint64_t wake_ns;
	uint64_t start_ns;
	/* when the plan was known */
	uint64_t planned_ns;
	/* of the grid; one row: there is none */
	uint32_t rows;
	uint32_t columns;
	/* all ranks; or those of this rank's row, and those of its column */
	struct round rounds[2];
	/* rounds whose deadline has passed */
	uint32_t rounds_over;
	/* in a grid: summaries and results of other ranks of the column that have not come; the shard for the ranks of the row */
	uint32_t column_left;
	uint8_t *shard;
	/* cut of the data into shards; their owners */
	struct layout layout;
	uint32_t *owners;
	/* messages that have not ended: those that the caller waits for, and all */
	uint32_t waits;
	uint32_t open;
	/* shares under way that incast limits */
	uint32_t shares_open;
	bool timed_out;
	/* one for each shard; in a grid, then one for each row, of this rank's column */
	uint8_t *summaries;
	size_t summary_bytes;
	/* registration of the track's memory, where shares are */
	struct gw_mr *mr;
	/* what goes to other ranks in stage 2, in memory that stays until they have it */
	struct results *results;
	struct gw_mr *results_mr;
	uint8_t *results_memory;
	/* the track has gone on */
	bool kept;
	/* when the caller had its result */
	uint64_t told_ns;
	struct gw_bounded_report report;
	uint64_t *missing;
};

/* ---- bounded_make.c ---- */

/* Checks the attributes and makes what the operation needs. */
int bounded_make(struct gw_coll *coll, const struct gw_bounded_attr *attr);
void bounded_free(struct gw_coll *coll);

/* ---- bounded.c ---- */

void bounded_start(struct gw_coll *coll);
/* A channel of a track can be used, or has room. */
void bounded_kick(struct gw_comm *comm, uint32_t track, uint32_t peer);
int bounded_explain(const struct gw_coll *coll, char *text, size_t size);
/* When bounded_turn() is to be called even if nothing happens; UINT64_MAX: never. */
uint64_t bounded_deadline_ns(const struct gw_comm *comm);
/* The bounded operation that runs on a track; null: none. */
struct bounded *bounded_running(const struct gw_comm *comm, uint32_t track);
/* Returns how many operations went on. */
int bounded_turn(struct gw_comm *comm);
/* Ends what can end. The operation may be gone afterwards. */
void bounded_check(struct bounded *run);
/* The plan is known: stage 1 begins. */
void bounded_follow(struct bounded *run);
/* All shares of a round have ended. */
void bounded_shares_over(struct bounded *run, uint32_t round);
void bounded_fail(struct bounded *run, int error);
/* Sets the time limits of a round, for so many deadlines from now. */
void bounded_limit(struct bounded *run, struct round *round, uint32_t deadlines,
		   uint32_t floor_ppm);
/* Notes in a summary which bytes of a round's shares are missing, by rank. */
void bounded_sum_up(struct bounded *run, const struct round *round, struct summary *summary);

static inline bool bounded_scatters(const struct bounded *run)
{
	return run->coll->task.operation == OPERATION_REDUCE_SCATTER;
}

/* Nothing is reduced: the caller's own block is the result that goes to all. */
static inline bool bounded_gathers(const struct bounded *run)
{
	return run->coll->task.operation == OPERATION_ALLGATHER ||
	       run->coll->task.operation == OPERATION_BROADCAST;
}

static inline struct summary *bounded_summary(const struct bounded *run, uint32_t shard)
{
	return (struct summary *)(run->summaries + shard * run->summary_bytes);
}

/* Bytes of a part. */
static inline uint64_t layout_bytes(const struct layout *layout, uint32_t part)
{
	return layout_offset(layout, part + 1) - layout_offset(layout, part);
}

static inline uint64_t bounded_aligned(uint64_t bytes)
{
	return (bytes + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
}

/* ---- bounded_grid.c ---- */

/* Rows of the grid of so many ranks; 1: there is none. */
uint32_t grid_rows(uint32_t ranks);
/* Whether every column has a rank that is there. */
bool grid_complete(const struct bounded *run);
/* Begins an operation whose plan is known. */
int grid_begin(struct bounded *run);
/* All shares of a round have ended. */
void grid_shares_over(struct bounded *run, uint32_t round);
/* A summary or a result has come. */
void grid_told(struct bounded *run, uint32_t peer);

static inline bool bounded_in_grid(const struct bounded *run)
{
	return run->rows > 1;
}

/* ---- bounded_keep.c ---- */

/* Has memory for results that is at least so large. */
int keep_reserve(struct bounded *run, uint64_t bytes);
/* All ranks have the results. */
void keep_give_back(struct bounded *run);
void keep_free(struct gw_comm *comm);
/* Takes an operation that has ended for its caller off its track if it waits for late ranks only. False: too many are kept, or others
 * have not got its results. */
bool keep_leave_track(struct bounded *run);
/* How much of what may be kept is, 0 to 1. */
double keep_filled(const struct gw_comm *comm);
/* Whether a rank has not come to an operation that others have ended. */
bool keep_is_behind(const struct gw_comm *comm, uint32_t rank);
/* Posts messages with a rank of the operations that left a track. Returns whether all were posted. */
bool keep_pump(struct gw_comm *comm, uint32_t track, uint32_t peer);

/* ---- bounded_report.c ---- */

/* A digest of bytes, chained to an earlier one. */
uint64_t report_digest(uint64_t seed, const uint8_t *bytes, uint64_t length);
/* Makes the report from all summaries. Returns -EIO if an owner had less than the floor. */
int report_make(struct bounded *run);

/* ---- bounded_message.c ---- */

/* Adds a message to those with a rank. */
struct message *message_add(struct bounded *run, uint32_t peer, enum message_kind kind,
			    bool sending, void *addr, uint64_t length, struct gw_mr *mr);
/* Posts what can be posted of the messages with a rank, after those of earlier operations of the track. */
void message_pump(struct bounded *run, uint32_t peer);
/* The same without regard to other operations. Returns whether all that there are were posted. */
bool message_pump_one(struct bounded *run, uint32_t peer);
/* Lets the next receive of a share begin. */
void message_let_share(struct bounded *run);
/* The deadline of a round has passed: shares whose receive was not posted count as missing. Those that were posted end by themselves. */
void message_abandon_shares(struct bounded *run, uint32_t round);

/* ---- bounded_plan.c ---- */

void plan_hail(struct bounded *run);
/* A hail has come. */
void plan_hailed(struct bounded *run, uint32_t peer);
/* The coordinator decides who takes part if it need not wait. True if it has. */
bool plan_decide(struct bounded *run);
/* Keeps what the plan says of the next operation. */
void plan_remember(struct bounded *run);
/* Notes what stage 1 took. */
void plan_measure(struct bounded *run, uint64_t arrived);
bool plan_present(const struct plan *plan, uint32_t rank);
/* Whether a plan that was received names ranks of the communicator. */
bool plan_is_sound(const struct bounded *run);
/* Bytes that an owner, or of an operation that reduces nothing a rank, expects if so many ranks take part. */
uint64_t plan_expected(const struct bounded *run, uint32_t ranks);

/* ---- bounded_holes.c ---- */

/* A part of a share is over; a null `recv`: whole. */
void holes_part(struct hole_list *holes, const struct gw_recv *recv, uint64_t offset,
		uint64_t length);
/* The share ended: with an error, what is in no part is missing. Sorts and merges. */
void holes_settle(struct hole_list *holes, uint64_t length, bool failed);
uint64_t holes_bytes(const struct hole_list *holes);
void holes_free(struct hole_list *holes);

/* ---- bounded_reduce.c ---- */

/* Reduces this rank's part into `reduced`, by way of the shares that came. -ENOMEM */
int bounded_reduce(struct bounded *run, const struct round *round);

/* ---- bounded_spread.c ---- */

/* Whether shares travel as coefficients. */
static inline bool bounded_spreads(const struct bounded *run)
{
	return run->attr.recovery == GW_RECOVER_HADAMARD;
}

/* Elements between which no shard ends: with coefficients of the caller's, those of a block. */
static inline uint32_t bounded_granule(const struct bounded *run)
{
	return run->attr.flags & GW_BOUNDED_TRANSFORMED ? BOUNDED_BLOCK : 1;
}

/* How the share of a shard with so many elements travels. */
void spread_layout(const struct bounded *run, size_t count, struct stride *out);
/* Turns this rank's numbers into packets: `packed`. `scratch` takes the largest part. */
void spread_encode(const struct bounded *run, const struct round *round, uint8_t *scratch);
/* Puts a share, as it came, into the order of the tensor, and weighs each block by what arrived of it. Blocks of which nothing
 * arrived are added to lost[]. -ENOMEM */
int spread_collect(const struct bounded *run, uint8_t *packets, const struct hole_list *holes,
		   size_t count, uint8_t *out, uint32_t *lost);
void spread_decode(const struct bounded *run, const struct round *round, size_t count);

#endif
