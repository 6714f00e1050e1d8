/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multicast.h: broadcast and allgather by packets that the network copies.
 *
 * Data is multicast; everything else goes by the channels of the operation's track, in *notes* between a rank and its parent
 * and children in a tree with 16 children a rank. A note never gets lost, so that no part of the handshake needs a timer.
 *
 *	READY   up    I and all below me take packets of this operation
 *	END     down  round R has left; so many groups have been sent so far
 *	REPORT  up    what I and all below me lack after round R: for each group the most that anyone lacks
 *	WANT    up    groups that I fetch from you, since multicast does not bring them; you send them on the channel
 *
 * A broadcast begins when READY has reached the root. In each round the root multicasts the next part of the data and as many
 * fresh parity packets for each group as somebody lacks, then a marker, then it sends END. Receivers report when they have seen
 * the marker; END is for those that missed it. A rank whose data is whole and whose children are done says so in its last
 * report, and takes part in no later round.
 *
 * In an allgather every rank has data to send, so that all take part in all rounds, and rank 0 directs them:
 *
 *	PLAN    down  round R begins: who repairs which groups, at what rate; or it is over
 *	TURN          to the next rank of a chain: send your block
 *	SENT    up    I and all below me have sent what round R asks
 *
 * The ranks of a communicator join a group once, for the first operation that asks for multicast (multicast_join.c).
 */
#ifndef COLLECTIVE_MULTICAST_H
#define COLLECTIVE_MULTICAST_H

#include <godwit/group.h>

#include "base/bucket.h"
#include "collective/comm.h"
#include "collective/multicast_block.h"
#include "collective/multicast_rate.h"

/* Children of a rank in the tree. */
#define MULTICAST_FAN 16
/* Entries of a note's vector, at most. */
#define NOTE_ENTRIES 2048
/* Bytes before the data of a packet. */
#define PACKET_HEADER 16
/* Packets that lie ready to leave, or are leaving. */
#define STAGE_PACKETS 64

enum note_kind {
	NOTE_HELLO = 1,
	NOTE_JOINED,
	NOTE_PROBE,
	NOTE_HEARD,
	NOTE_VERDICT,
	NOTE_READY,
	NOTE_END,
	NOTE_REPORT,
	NOTE_WANT,
	NOTE_PLAN,
	NOTE_TURN,
	NOTE_SENT,
};

/* Report: this rank and all below it need no further round. */
#define NOTE_DONE 1u
/* Report: and this rank is going to fetch what it lacks. */
#define NOTE_FETCH 2u
/* Plan: the operation is over; or it is given up, and another algorithm does it. */
#define NOTE_OVER    4u
#define NOTE_GIVE_UP 8u

struct note {
	uint8_t kind;
	uint8_t flags;
	uint16_t entries;
	uint32_t round;
	/* operation */
	uint32_t number;
	/* -errno of what failed, and the rank where it did */
	int32_t status;
	uint32_t rank;
	/* groups that have been sent; or bytes of a packet; or chains */
	uint32_t limit;
	/* receivers that `sum` is about, and the most packets that one of them lacks */
	uint32_t count;
	uint32_t worst;
	/* packets that all of them lack */
	uint64_t sum;
	/* token; or bytes of the operation; or rate in bits a second */
	uint64_t value;
	/* longest time for which packets of the round arrived, ns */
	uint64_t seen_ns;
	uint8_t vector[NOTE_ENTRIES];
};

/* A rank that notes are exchanged with in an operation. */
struct partner {
	struct multicast *run;
	uint32_t rank;
	/* notes of it that are still to come */
	uint32_t expect;
	/* a receive is posted */
	bool open;
	/* notes that wait for the channel, notes on their way, and groups on their way */
	struct list outbox;
	struct list posted;
	struct list groups;
	/* groups that it fetches, or that are fetched from it: a byte for each; the first that waits for the channel */
	uint8_t *fetch;
	uint32_t fetch_next;
	/* groups on their way */
	uint32_t fetch_open;
	/* fetching has begun */
	bool fetching;
	/* as a child: it was ready; it has sent; number of rounds that it reported; it is done, with the round of that report */
	bool ready;
	bool sent;
	uint32_t reported;
	bool done;
	uint32_t done_round;
	uint8_t in[sizeof(struct note)];
};

/* An operation. */
struct multicast {
	struct gw_coll *coll;
	/* link in multicast_group.runs */
	struct list node;
	/* all ranks that notes are exchanged with */
	struct partner *partners[MULTICAST_FAN + 3];
	/* of these the parent, the children, and those before and after in a chain; null where there is none */
	struct partner *parent;
	struct partner *children[MULTICAST_FAN];
	struct partner *before, *after;
	uint32_t partner_count;
	uint32_t child_count;
	/* rank relative to the tree's root */
	uint32_t place;
	/* posted sends and receives, of notes and of fetched groups */
	uint32_t open;
	/* blocks of data: one, or one a rank; groups of a block, and of all; groups that an entry of a vector stands for */
	struct block *blocks;
	uint32_t block_count;
	uint32_t block_groups;
	uint32_t groups;
	uint32_t span;
	uint64_t block_bytes;
	bool started;
	bool ready_sent;
	/* what multicast does not bring is fetched; `closed`: packets are not taken any more */
	bool fetching;
	bool closed;
	/* the last report has left; or the operation is over, in an allgather */
	bool done;
	/* it goes on as another algorithm */
	bool given_up;
	/* round that is open, and groups sent up to it, as far as is known */
	uint32_t round;
	uint32_t limit;
	/* the round's END was received; its marker was, and when; the report can be made, and when (UINT64_MAX: not yet) */
	bool end_seen;
	bool marker_seen;
	bool own_ready;
	/* any packet has come since the round began; the first and the last arrival */
	bool heard;
	uint64_t marker_ns;
	uint64_t report_ns;
	uint64_t first_ns, last_ns;
	/* rounds in a row in which none came, although something lacks */
	uint32_t barren;
	/* packets that this rank lacked by its last report, of how many, and those that all others lacked by theirs */
	uint32_t own_lacking;
	uint64_t own_packets;
	uint64_t others_sum;
	uint32_t others_count;
	/* what the children reported for the round, and this rank's own part */
	struct note gathered;
	/* as the sender of a block: a pass is under way; packets of new data up to here; repairs for each group */
	bool sending;
	bool sent;
	uint32_t next_packet, end_packet;
	uint32_t repair_group;
	uint8_t *repair;
	uint32_t markers;
	struct multicast_pass pass;
	uint64_t pass_began_ns;
	/* allgather, rank 0: what lacked in the last round, and rounds in a row without progress */
	uint64_t plan_lacking;
	uint32_t plan_barren;
	/* allgather: chains; the plan has come; it is this rank's turn; rate of all senders together, bits a second */
	uint32_t chains;
	bool planned;
	bool turn;
	uint64_t plan_rate;
};

enum multicast_state {
	/* nobody has asked */
	MULTICAST_UNKNOWN,
	/* the first operation is finding out */
	MULTICAST_ASKING,
	MULTICAST_WORKS,
	MULTICAST_MISSING,
};

/* What a communicator has of multicast. */
struct multicast_group {
	struct gw_comm *comm;
	enum multicast_state state;
	uint64_t token;
	struct gw_group *group;
	/* bytes of a packet, and of data in it */
	uint32_t packet;
	uint32_t payload;
	struct coder coder;
	struct multicast_rate rate;
	struct bucket bucket;
	/* longest time after a marker that packets of its round were seen to arrive, ns */
	uint64_t slack_ns;
	/* operations that take or send packets */
	struct list runs;
	/* number of the operation that finds out whether multicast works, the first that was posted; while it does, that operation */
	uint32_t asker;
	struct multicast *asking;
	/* the verdict is known, and operations that waited for it have not gone on */
	bool verdict_due;
	/* this rank has tried to join; children that answered; a probe was heard; the next answer was sent */
	bool joined;
	uint32_t answers;
	bool heard;
	/* a probe is waited for, until then; probes to send, and when the next one is due */
	bool probing;
	uint64_t probe_until_ns;
	uint32_t probes;
	uint64_t probe_next_ns;
	/* what this rank and all below it say */
	struct note answer;
	/* memory of packets on their way */
	uint8_t *stage;
	struct gw_mr *stage_mr;
	struct gw_group_write writes[STAGE_PACKETS];
	uint32_t staged;
	uint32_t staged_slot;
	/* packets put there so far */
	uint64_t stage_count;
	/* packets sent: data, parity, markers and probes */
	uint64_t sent_data;
	uint64_t sent_parity;
	uint64_t sent_other;
	/* packets dropped: of an operation that is over or not known, of another sender, malformed */
	uint64_t dropped;
	/* operations that ended by multicast, rounds of them, groups that had to be fetched, operations that were given up */
	uint64_t ended;
	uint64_t rounds;
	uint64_t fetched;
	uint64_t given_up;
};

static inline struct gw_comm *comm_of(const struct multicast *run)
{
	return run->coll->comm;
}

static inline struct multicast_group *group_of(const struct multicast *run)
{
	return run->coll->comm->multicast;
}

static inline bool gathers(const struct multicast *run)
{
	return run->coll->task.operation == OPERATION_ALLGATHER;
}

/* ---- called by the communicator ---- */

/* Whether an operation can be multicast. */
bool multicast_fits(enum operation operation);
/* Whether the caller asks for it where that is possible. */
bool multicast_asked(const struct task *task);
/* Whether a task is to be multicast: it is asked for, or it was before and is the better choice. The same on all ranks. */
bool multicast_wanted(const struct gw_comm *comm, const struct task *task);
/* Prepares an operation, starts it, frees it. */
int multicast_make(struct gw_coll *coll);
void multicast_start(struct gw_coll *coll);
void multicast_free(struct gw_coll *coll);
/* The channel to a rank can be used. */
void multicast_kick(struct gw_coll *coll, uint32_t rank);
/* Whether multicast works is known: what waited for that goes on. */
void multicast_go_on(struct gw_comm *comm);
/* Leaves the group. */
void multicast_close(struct gw_comm *comm);
/* Writes what an operation waits for. */
int multicast_explain(const struct gw_coll *coll, char *text, size_t size);

/* ---- multicast_note.c ---- */

/* The partner of this rank, made if there is none. Null: no memory, and the communicator has failed. */
struct partner *partner_with(struct multicast *run, uint32_t rank);
void partner_free(struct partner *partner);
/* Posts what can be posted: sends, and a receive if one is expected. */
void partner_pump(struct partner *partner);
void note_send(struct partner *partner, const struct note *note);
/* Expects another note of a rank. */
void note_expect(struct partner *partner);
/* Begins to fetch the groups marked in partner->fetch, or to send them. */
void fetch_begin(struct partner *partner);

/* ---- multicast_run.c ---- */

void run_begin(struct multicast *run);
void run_next_round(struct multicast *run);
void run_note(struct multicast *run, struct partner *from, const struct note *note, uint64_t now);
/* Sends a note to all children that take part in its round. */
void run_relay(struct multicast *run, const struct note *note);
/* All packets of the pass have left. */
void run_pass_sent(struct multicast *run, uint64_t now);
/* Ends the operation if nothing is left to do. The run may be gone afterwards. */
void run_settle(struct multicast *run);
/* The block that this rank sends; null: none. */
struct block *run_own(const struct multicast *run);
/* Block and number there of a group of all blocks. */
struct block *run_group(struct multicast *run, uint32_t group, uint32_t *within);

/* ---- multicast_report.c ---- */

/* A packet of the operation arrived. */
void run_symbol(struct multicast *run, uint32_t rank, uint8_t round, uint32_t index,
		const uint8_t *data, uint32_t length, uint64_t now);
void run_marker(struct multicast *run, uint32_t rank, uint32_t round, uint32_t limit, uint64_t now);
/* Makes the report if its time has come. */
void run_timer(struct multicast *run, uint64_t now);
/* This rank's part of the round's report can be made. */
void run_own_ready(struct multicast *run);
void run_add_own(struct multicast *run, struct note *note);
/* Reports to the parent when this rank and all below it can. */
void run_check_report(struct multicast *run);
bool run_all_reported(const struct multicast *run);
bool run_all_done(const struct multicast *run);
bool run_is_whole(const struct multicast *run);
void report_of_child(struct multicast *run, struct partner *child, const struct note *note);
void report_round_ended(struct multicast *run, const struct note *note, uint64_t now);

/* ---- multicast_fetch.c ---- */

/* Sends children what they want, once this rank has all. */
void fetch_serve(struct multicast *run);
void fetch_wanted(struct multicast *run, struct partner *child, const struct note *note);
/* Asks the parent for what is missing, when no other note of it can come. */
void fetch_check(struct multicast *run);
void fetch_came(struct multicast *run, uint32_t group);

/* ---- multicast_gather.c ---- */

void gather_note(struct multicast *run, struct partner *from, const struct note *note);
void gather_children_ready(struct multicast *run);
void gather_sent(struct multicast *run);
void gather_reported(struct multicast *run);

/* ---- multicast_join.c ---- */

/* Finds out whether multicast works, by the tree of this operation. */
void join_begin(struct multicast *run);
void join_note(struct multicast *run, struct partner *from, const struct note *note, uint64_t now);
void join_probe_heard(struct multicast_group *group, uint64_t now);
void join_timer(struct multicast_group *group, uint64_t now);

/* ---- multicast_tx.c ---- */

/* Begins a pass: what run->end_packet and run->repair ask for. */
void tx_begin(struct multicast *run, uint64_t rate_bps);
/* Sends what may leave now. */
void tx_pump(struct multicast_group *group, uint64_t now);
void tx_probe(struct multicast_group *group);
/* Takes a packet that arrived. */
void tx_arrived(struct multicast_group *group, const struct gw_group_packet *packet, uint64_t now);
/* Sets the group's timer to what is due next. */
void tx_arm(struct multicast_group *group, uint64_t now);
extern const struct gw_group_handler multicast_handler;

#endif
