/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h: what a communicator consists of. Private to collective/.
 *
 * An *office* is what a communicator and those split off it share: a context, and mail between its ranks. Operation number n of
 * a communicator runs on *track* n modulo the number of tracks, after the one before it on that track has ended. Each track
 * has channels of its own, made when a rank is first needed (links.c), so that messages of one operation are never matched
 * with those of another.
 *
 * Nothing here does I/O or reads a clock but through the context and the mail. Bad news (a rank is lost, an abort) is noted at once
 * and acted on in comm_turn(), outside of every callback: operations end, channels close.
 */
#ifndef COLLECTIVE_COMM_H
#define COLLECTIVE_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <godwit/channel.h>
#include <godwit/collective.h>

#include "base/list.h"
#include "collective/agree.h"
#include "collective/algorithm.h"
#include "collective/choose.h"
#include "collective/engine.h"
#include "collective/limits.h"
#include "collective/mail.h"
#include "collective/seal.h"

#define TRACKS_MAX     16
#define TRACKS_DEFAULT 4
#define AHEAD_DEFAULT  256
#define AHEAD_MAX      65536
/* Slots, and the memory of tracks, begin at multiples of this. */
#define MEMORY_ALIGN 64
#define SENTENCE_MAX 256

struct office {
	struct gw_context *ctx;
	struct mail *mail;
	/* its communicators */
	struct list comms;
	/* letters for communicators that are not split off here yet */
	struct list early;
	uint32_t early_count;
	/* when the mail was last looked at, in ns of the context's clock */
	uint64_t mail_seen_ns;
	/* eventfd that ends a sleep, and what it means: gw_comm_serve() is to return. -1 in simulation. */
	int wake_fd;
	/* file with the secret that packets are sealed by; null: they are clear */
	char *secret_file;
	atomic_bool woken;
};

struct bounded;
struct bounded_memory;
struct parts;
struct strands;
struct multicast;
struct multicast_group;

/* Number of the communicator that gw_comm_open() made; those split off it have others. */
#define COMM_FIRST 0

/* A channel to one rank. */
struct comm_link {
	struct gw_comm *comm;
	struct gw_channel *channel;
	uint32_t track;
	/* rank in the communicator */
	uint32_t peer;
	bool connected;
	/* the mail had no room for its description */
	bool unwritten;
	/* of this end, when packets are sealed; zero otherwise */
	uint8_t nonce[SEAL_NONCE_BYTES];
	/* the channel's description as the peer has it: a later one differs by what else the context carries */
	struct gw_channel_info info;
	/* when the channel last told that it is silent; 0: never */
	uint64_t silent_ns;
	/* when the rank was asked by mail whether it lives, and when it answered; 0: not in this silence */
	uint64_t asked_ns;
	uint64_t answered_ns;
};

struct track {
	/* a pointer for each rank; null until it is needed */
	struct comm_link **links;
	/* operations in order; the first one runs */
	struct list colls;
	/* bounded operations that have ended here, in order, whose results some rank has not got */
	struct list kept;
	struct track_limits limits;
	/* memory of the operation that runs: partial results and slots. It grows, and stays. */
	uint8_t *memory;
	uint64_t bytes;
	struct gw_mr *mr;
};

struct gw_comm {
	struct office *office;
	/* link in office->comms */
	struct list node;
	uint64_t id;
	uint32_t rank;
	uint32_t size;
	/* rank in the office of each rank; null: the same */
	uint32_t *members;
	uint32_t flags;
	uint32_t segment_bytes;
	/* the longest round-trip time when the ranks met, and the rates that they agreed on; the same at all ranks */
	struct network network;
	struct agree agree;
	struct limits limits;
	uint32_t track_count;
	/* bounded operations that are kept for a rank that is behind, at most */
	uint32_t ahead;
	struct gw_channel_attr channel;
	/* name of the controller in `channel`; null: the default one */
	char *congestion;
	struct track tracks[TRACKS_MAX];
	/* operations posted, and communicators split off */
	uint32_t posted;
	uint32_t splits;
	/* 0, or what its operations end with, and why */
	int status;
	char error[SENTENCE_MAX];
	/* operations and channels were ended because of `status` */
	bool over;
	/* when a rank closed a channel of its own accord, and which; 0: none has. It has heard of a failure, of which the mail tells
	 * here too, or it is lost. */
	uint64_t reset_ns;
	uint32_t reset_by;
	/* a message could not begin because the context had no room for it */
	bool starved;
	/* the mail had no room for descriptions of links, or for the news of the failure */
	bool unwritten;
	bool untold;
	/* handles of operations, open or ended, that were not closed */
	struct list handles;
	/* the barrier of gw_comm_close(); null until then */
	struct gw_coll *closing;
	/* the closing one is being posted or was: its sends end when they have arrived, since nobody makes progress after it */
	bool parting;
	/* for each rank whether it has closed the communicator */
	bool *left;
	/* letters that tell of ranks that have opened it */
	uint32_t opened;
	/* null until an operation asks for multicast */
	struct multicast_group *multicast;
	/* null until there is a bounded operation */
	struct bounded_memory *bounded;
	/* threads that share its operations (strands.h); null: none */
	struct strands *strands;
	/* operations that have ended but for parts in strands */
	struct list partly;
};

/* A step of an operation that is a message. */
struct move {
	struct gw_coll *coll;
	bool ended;
};

struct gw_coll {
	struct gw_comm *comm;
	/* link in its track's list, until it has ended */
	struct list node;
	/* link in comm->handles */
	struct list handle;
	uint32_t number;
	/* of its messages: what the operation is, for those who expect another */
	uint16_t label;
	struct task task;
	enum gw_type type;
	enum gw_reduction reduction;
	struct program program;
	struct engine engine;
	/* one for each step */
	struct move *moves;
	/* in place of steps, where the network copies packets; else null */
	struct multicast *multicast;
	/* in place of steps, of a bounded operation; else null */
	struct bounded *bounded;
	/* address of cell 0 of each place, and registration of what is there */
	uint8_t *base[PLACE_COUNT];
	struct gw_mr *mr[PLACE_COUNT];
	/* the registrations that were made for this operation, a bit for each place */
	unsigned registered;
	/* parts that strands do; null: none */
	struct parts *parts;
	/* bytes from one block of the caller's buffers to the next; 0: blocks follow each other */
	uint64_t stride;
	/* bytes of partial results, with those from one slot to the next, that it needs of its track */
	uint64_t work_bytes;
	uint64_t slot_stride;
	/* the network by which its algorithm and its segments are chosen, the same at all ranks */
	struct network network;
	/* the library chooses the algorithm */
	bool automatic;
	/* `network` depends on an agreement (agree.h) that is not known yet */
	bool undecided;
	bool started;
	/* limits_begin() has counted it */
	bool limited;
	/* when its steps began, in ns of the context's clock; 0: they have not, or it has none */
	uint64_t start_ns;
	/* the caller was told, and may close the handle; the track has gone on */
	bool ended;
	bool over;
	/* `done` is being called: gw_coll_close() leaves the handle to its caller */
	bool telling;
	bool closed;
	struct gw_coll_result result;
	gw_coll_fn *done;
	void *arg;
};

/* ---- comm.c ---- */

/* Closes mail and context. */
void office_close(struct office *office);

/* Makes a communicator whose ranks have mail. `members` may be null. The members become the communicator's on success. */
int comm_create(struct office *office, const struct gw_comm_attr *attr, uint64_t id,
		uint32_t *members, struct gw_comm **out);
/* Frees it; operations that are open end without a call. */
void comm_destroy(struct gw_comm *comm);

/* Notes a failure, the first one only; `blame` is its rank. Tells all ranks if `tell`. */
void comm_fail(struct gw_comm *comm, bool tell, int status, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Does what a failure asks for. Returns how many things that was. */
int comm_turn(struct gw_comm *comm);
/* Returns when all ranks have called it: 0, or the status of a communicator that has failed. By mail, which arrives also if its sender makes no
 * more progress. */
int comm_await_all(struct gw_comm *comm);
/* When comm_turn() is to be called even if nothing happens; UINT64_MAX: never. */
uint64_t comm_deadline_ns(const struct gw_comm *comm);

uint32_t comm_office_rank(const struct gw_comm *comm, uint32_t rank);
/* "rank 3 (10.0.0.4)" */
const char *comm_rank_name(const struct gw_comm *comm, uint32_t rank, char *text, size_t size);

/* ---- office.c ---- */

extern const struct mail_handler office_mail;

void office_init(struct office *office, struct gw_context *ctx);
void office_free(struct office *office);

/* Kinds of letters. */
enum letter {
	/* the description of a channel's end, and its nonce */
	LETTER_CONNECT = 1,
	/* the sender, or rank 0 says all ranks, have opened the communicator */
	LETTER_OPENED,
	/* the communicator has failed: a status, and a sentence. Letters up to this are kept for one that is not open here yet. */
	LETTER_FAILED,
	/* the sender has closed: what it was sent has arrived */
	LETTER_CLOSED,
	/* is the process at work? and that it is; the detail is the track whose channel is silent */
	LETTER_ASK,
	LETTER_ANSWER,
};

/* Tells all ranks that this one could not open its communicator, and why. */
void office_refuse(struct office *office, uint32_t rank, int status, const char *why);
/* Sends a letter of a communicator, with bytes of its own. `to` is a rank of the communicator or MAIL_ALL. */
int office_write(struct gw_comm *comm, uint32_t to, enum letter kind, uint32_t detail,
		 const void *data, size_t length);
/* Hands a new communicator the letters that came before it. */
void office_adopt(struct gw_comm *comm);

/* ---- links.c ---- */

/* Returns the channel to a rank if it can be used. -EAGAIN: it is being made, and coll_kick() follows; -errno. */
int link_channel(struct gw_comm *comm, uint32_t track, uint32_t peer, struct gw_channel **out);
/* What a rank mails of its end of a channel. */
struct link_letter {
	struct gw_channel_info info;
	uint8_t nonce[SEAL_NONCE_BYTES];
};
/* A rank's end of a channel. */
void link_described(struct gw_comm *comm, uint32_t track, uint32_t peer,
		    const struct link_letter *theirs);
/* A rank whose channel is silent has answered by mail. */
void link_answered(struct gw_comm *comm, uint32_t track, uint32_t peer);
/* Mails the descriptions for which there was no room. */
void links_write(struct gw_comm *comm);
void links_close(struct gw_comm *comm);

/* ---- disagree.c ---- */

/* The label of an operation's messages; never 0. */
uint16_t coll_label(const struct gw_coll *coll);
/* Whether what became of a message of `bytes`, which this rank received or sent, fits the operation; other failures do. */
bool coll_fits(const struct gw_coll *coll, bool receives, uint64_t bytes,
	       const struct gw_op_result *result);
/* It does not: fails the communicator, and says what that rank did. */
void coll_disagree(struct gw_coll *coll, uint32_t peer, bool receives, uint64_t bytes,
		   const struct gw_op_result *result);

/* ---- coll.c ---- */

/* An address that may lie outside of its buffer: where cell 0 would be if the buffer held all cells. Modulo 2^64, also from null. */
static inline uint8_t *coll_at(const uint8_t *base, uint64_t offset)
{
	return (uint8_t *)((uintptr_t)base + (uintptr_t)offset);
}

static inline uint32_t coll_track(const struct gw_coll *coll)
{
	return coll->number % coll->comm->track_count;
}

/* Starts the first operation of a track. */
void coll_start(struct gw_comm *comm, uint32_t track);
/* Tells the caller that the operation has ended, with a status: its memory is the caller's. */
void coll_tell(struct gw_coll *coll, int status);
/* Ends an operation with a status, and tells the caller if that was not done. The track goes on. If strands still do parts of it,
 * strands_turn() tells the caller. */
void coll_end(struct gw_coll *coll, int status);
/* The end of coll_end(): tells the caller, and frees the handle if it was closed. */
void coll_over(struct gw_coll *coll, int status);
/* A channel of a track can be used. */
void coll_kick(struct gw_comm *comm, uint32_t track, uint32_t peer);
/* Lets operations go on that found no room. */
void coll_feed(struct gw_comm *comm);
/* Whether the barrier of gw_comm_close() has ended, or all that it still waits for have closed: those have had every message of
 * this rank, and sent every one. */
bool coll_closing_over(const struct gw_comm *comm);
void coll_free(struct gw_coll *coll);
/* Posts an operation, of which strands do `parts`; these are freed with it, or on failure. `stride` as in struct gw_coll. */
int coll_submit(struct gw_comm *comm, enum operation operation, const struct gw_coll_attr *attr,
		uint64_t stride, struct parts *parts, struct gw_coll **out);
/* Whether the buffers of an operation that is cut into parts are there, and either in place or apart: -EINVAL. A part shows its own only. */
int coll_check_buffers(const struct gw_comm *comm, enum operation operation,
		       const struct gw_coll_attr *attr);
/* Chooses an algorithm, by the operation's network. */
void coll_choose(struct gw_coll *coll);
/* Builds the steps of the operation's algorithm. */
int coll_build(struct gw_coll *coll);
/* The network that counts for the operation is the communicator's now: builds its steps. */
int coll_decide(struct gw_coll *coll);
/* Goes on with an algorithm that needs no multicast. */
void coll_fall_back(struct gw_coll *coll);
void track_free_memory(struct track *track);
/* Has the track's memory be at least so large. */
int track_reserve(struct gw_comm *comm, struct track *track, uint64_t bytes);

#endif
