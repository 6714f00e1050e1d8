/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a communicator come to a multicast group, once. The root of the first operation that asks for multicast
 * names the group, and by the tree of that operation
 *
 *	HELLO    down  the name: join
 *	JOINED   up    I and all below me have joined, with packets of this size; or the first rank that could not, and why
 *	PROBE    down  the size of packets that all can take; the root then multicasts packets of that size
 *	HEARD    up    I and all below me have received one; or the first rank that has not
 *	VERDICT  down  multicast works, or does not
 *
 * Switches may drop multicast, or large packets, and tell nobody: therefore the probes. All ranks hear the same verdict. Other
 * operations that ask for multicast wait for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "collective/multicast.h"

/* Probes, how long after each other, and how long a rank waits for one beyond four round trips. */
#define PROBES	      8
#define PROBE_GAP_NS  UINT64_C(5000000)
#define PROBE_WAIT_NS UINT64_C(60000000)
#define RTT_UNKNOWN   UINT64_C(50000000)
/* Bytes of a packet that are worth multicasting at least. */
#define PACKET_MIN 256

static void fail_answer(struct multicast_group *group, int status)
{
	if (group->answer.status)
		return;
	group->answer.status = status;
	group->answer.rank = group->comm->rank;
}

/* Joins, and gets memory for packets. */
static int join(struct multicast_group *group)
{
	struct gw_context *ctx = group->comm->office->ctx;
	struct gw_group_attr attr = { .token = group->token,
				      .handler = &multicast_handler,
				      .arg = group };
	int payload = gw_group_payload(ctx), error;

	if (payload < PACKET_MIN)
		return payload < 0 ? payload : -EMSGSIZE;
	group->packet = (uint32_t)payload;
	error = gw_group_join(ctx, &attr, &group->group);
	if (error)
		return error;
	group->stage = calloc(STAGE_PACKETS, group->packet);
	if (!group->stage)
		return -ENOMEM;
	return gw_mr_register(ctx, group->stage, (size_t)STAGE_PACKETS * group->packet,
			      &group->stage_mr);
}

static void tell_children(struct multicast *run, struct note *note, bool answered)
{
	note->number = run->coll->number;
	for (uint32_t i = 0; i < run->child_count; i++) {
		note_send(run->children[i], note);
		if (answered)
			note_expect(run->children[i]);
	}
}

static const char *why_missing(int status)
{
	switch (status) {
	case -ETIMEDOUT:
		return "it does not receive packets of the group";
	case -EPERM:
		return "its packets are sealed, and those of a group would be clear (GW_COMM_CLEAR, --clear)";
	default:
		return strerror(-status);
	}
}

static void decided(struct multicast *run, const struct note *note)
{
	struct multicast_group *group = group_of(run);
	struct gw_comm *comm = group->comm;
	char name[80];
	int error = 0;

	group->asking = NULL;
	group->probing = false;
	if (!note->status && !group->coder.rs)
		error = coder_open(&group->coder, group->payload);
	if (error) {
		comm_fail(comm, true, error, "rank %u has no memory to multicast", comm->rank);
		return;
	}
	group->state = note->status ? MULTICAST_MISSING : MULTICAST_WORKS;
	if (note->status && !run->parent)
		log_warn(
			"multicast is not used in this communicator, another algorithm takes over: %s: %s",
			comm_rank_name(comm, note->rank, name, sizeof(name)),
			why_missing(note->status));
	if (note->status && group->group) {
		gw_group_leave(group->group);
		group->group = NULL;
	}
	group->verdict_due = true; /* run_settle() follows */
}

/* The verdict goes down; then this rank goes on. */
static void give_verdict(struct multicast *run, const struct note *from)
{
	struct note note = { .kind = NOTE_VERDICT, .status = from->status, .rank = from->rank };

	tell_children(run, &note, false);
	decided(run, &note);
}

static uint64_t wait_ns(const struct multicast *run)
{
	struct gw_comm *comm = run->coll->comm;
	struct comm_link *link =
		comm->tracks[run->coll->number % comm->track_count].links[run->parent->rank];
	struct gw_channel_stats stats = { .rtt_ns = 0 };

	if (link && link->connected)
		gw_channel_stats(link->channel, &stats);
	return PROBE_WAIT_NS + 4 * (stats.rtt_ns ? stats.rtt_ns : RTT_UNKNOWN);
}

static void begin_probe(struct multicast *run, const struct note *from, uint64_t now)
{
	struct multicast_group *group = group_of(run);
	struct note note = { .kind = NOTE_PROBE, .limit = from->limit };

	if (from->limit > group->packet || from->limit < PACKET_MIN) {
		comm_fail(group->comm, true, -EPROTO, "rank %u was asked for packets of %u bytes",
			  group->comm->rank, from->limit);
		return;
	}
	group->packet = from->limit;
	group->payload = group->packet - PACKET_HEADER;
	group->answers = 0;
	group->answer = (struct note){ .kind = NOTE_HEARD };
	group->probing = true;
	tell_children(run, &note, true);
	if (run->parent) {
		group->probe_until_ns = group->heard ? now : now + wait_ns(run);
	} else {
		group->heard = true;
		group->probes = PROBES;
		group->probe_next_ns = now;
	}
	tx_arm(group, now);
}

/* All below have answered, and this rank can: the answer goes up, or the root decides. */
static void check_answers(struct multicast *run, uint64_t now)
{
	struct multicast_group *group = group_of(run);

	if (group->answers < run->child_count || (group->probing ? !group->heard : !group->joined))
		return;
	group->answers = 0;
	group->joined = false;
	if (run->parent) {
		group->answer.number = run->coll->number;
		group->probing = false;
		note_send(run->parent, &group->answer);
		note_expect(run->parent);
	} else if (group->probing || group->answer.status) {
		give_verdict(run, &group->answer);
	} else {
		struct note note = { .limit = group->answer.limit };

		begin_probe(run, &note, now);
		check_answers(run, now);
	}
}

static void join_named(struct multicast *run, uint64_t token, uint64_t now)
{
	struct multicast_group *group = group_of(run);
	struct note note = { .kind = NOTE_HELLO, .value = token };
	int error;

	group->token = token;
	group->answer = (struct note){ .kind = NOTE_JOINED };
	tell_children(run, &note, true);
	error = join(group);
	if (error)
		fail_answer(group, error);
	group->answer.limit = group->packet;
	group->joined = true;
	check_answers(run, now);
}

void join_begin(struct multicast *run)
{
	struct gw_comm *comm = run->coll->comm;
	uint64_t token;
	int error;

	if (run->parent) {
		note_expect(run->parent);
		return;
	}
	error = gw_group_token(comm->office->ctx, &token);
	if (error)
		comm_fail(comm, true, error, "rank %u has no random bits", comm->rank);
	else
		join_named(run, token, gw_now_ns(comm->office->ctx));
}

static void child_answered(struct multicast *run, const struct note *note, uint64_t now)
{
	struct multicast_group *group = group_of(run);

	group->answers++;
	if (note->status && !group->answer.status) {
		group->answer.status = note->status;
		group->answer.rank = note->rank;
	}
	if (note->kind == NOTE_JOINED && note->limit < group->answer.limit)
		group->answer.limit = note->limit;
	check_answers(run, now);
}

void join_note(struct multicast *run, struct partner *from, const struct note *note, uint64_t now)
{
	(void)from;
	switch (note->kind) {
	case NOTE_HELLO:
		join_named(run, note->value, now);
		break;
	case NOTE_JOINED:
	case NOTE_HEARD:
		child_answered(run, note, now);
		break;
	case NOTE_PROBE:
		begin_probe(run, note, now);
		check_answers(run, now);
		break;
	case NOTE_VERDICT:
		give_verdict(run, note);
		break;
	default:
		break;
	}
}

void join_probe_heard(struct multicast_group *group, uint64_t now)
{
	bool news = !group->heard;

	group->heard = true;
	if (news && group->asking && group->probing)
		check_answers(group->asking, now);
}

void join_timer(struct multicast_group *group, uint64_t now)
{
	if (!group->asking)
		return;
	while (group->probes && now >= group->probe_next_ns) {
		tx_probe(group);
		group->probes--;
		group->probe_next_ns += PROBE_GAP_NS;
	}
	if (group->probing && !group->heard && now >= group->probe_until_ns) {
		fail_answer(group, -ETIMEDOUT);
		group->heard = true;
		check_answers(group->asking, now);
	}
}
