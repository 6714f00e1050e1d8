/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notes between the ranks of a multicast operation, and groups that are fetched, on the channels of its track. Each note is one
 * message:
 *
 *	u8 kind | u8 flags | u16 entries | u32 round | u32 number | u32 status | u32 rank | u32 limit | u32 count | u32 worst |
 *	u64 sum | u64 value | u64 seen_ns | a byte for each entry
 *
 * in the byte order of the network. At the end of an operation every note that was sent has been received: a rank expects a note
 * exactly when the other one is bound to send it.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "collective/multicast.h"

#define NOTE_HEADER 56
/* Groups on their way to or from one rank. */
#define FETCH_WINDOW 16

/* A note on its way. */
struct letter_out {
	struct list node;
	struct partner *partner;
	uint32_t length;
	uint8_t bytes[];
};

/* A group on its way. */
struct group_out {
	struct list node;
	struct partner *partner;
	uint32_t group;
	bool comes;
};

static void encode(const struct note *note, uint8_t *out)
{
	out[0] = note->kind;
	out[1] = note->flags;
	put_be16(out + 2, note->entries);
	put_be32(out + 4, note->round);
	put_be32(out + 8, note->number);
	put_be32(out + 12, (uint32_t)note->status);
	put_be32(out + 16, note->rank);
	put_be32(out + 20, note->limit);
	put_be32(out + 24, note->count);
	put_be32(out + 28, note->worst);
	put_be64(out + 32, note->sum);
	put_be64(out + 40, note->value);
	put_be64(out + 48, note->seen_ns);
	memcpy(out + NOTE_HEADER, note->vector, note->entries);
}

static bool decode(const uint8_t *in, uint64_t length, struct note *note)
{
	if (length < NOTE_HEADER)
		return false;
	memset(note, 0, offsetof(struct note, vector));
	note->kind = in[0];
	note->flags = in[1];
	note->entries = get_be16(in + 2);
	if (note->entries > NOTE_ENTRIES || length != NOTE_HEADER + (uint64_t)note->entries)
		return false;
	note->round = get_be32(in + 4);
	note->number = get_be32(in + 8);
	note->status = (int32_t)get_be32(in + 12);
	note->rank = get_be32(in + 16);
	note->limit = get_be32(in + 20);
	note->count = get_be32(in + 24);
	note->worst = get_be32(in + 28);
	note->sum = get_be64(in + 32);
	note->value = get_be64(in + 40);
	note->seen_ns = get_be64(in + 48);
	memcpy(note->vector, in + NOTE_HEADER, note->entries);
	return true;
}

struct partner *partner_with(struct multicast *run, uint32_t rank)
{
	struct partner *partner;

	for (uint32_t i = 0; i < run->partner_count; i++)
		if (run->partners[i]->rank == rank)
			return run->partners[i];
	partner = calloc(1, sizeof(*partner));
	if (!partner) {
		comm_fail(run->coll->comm, true, -ENOMEM, "rank %u has no memory for rank %u",
			  run->coll->comm->rank, rank);
		return NULL;
	}
	run->partners[run->partner_count++] = partner;
	partner->run = run;
	partner->rank = rank;
	list_init(&partner->outbox);
	list_init(&partner->posted);
	list_init(&partner->groups);
	return partner;
}

static void free_letters(struct list *letters)
{
	while (!list_empty(letters)) {
		struct letter_out *out = container_of(letters->next, struct letter_out, node);

		list_del(&out->node);
		free(out);
	}
}

void partner_free(struct partner *partner)
{
	if (!partner)
		return;
	free_letters(&partner->outbox);
	free_letters(&partner->posted);
	while (!list_empty(&partner->groups)) {
		struct group_out *out = container_of(partner->groups.next, struct group_out, node);

		list_del(&out->node);
		free(out);
	}
	free(partner->fetch);
	free(partner);
}

static struct gw_comm *comm_with(const struct partner *partner)
{
	return partner->run->coll->comm;
}

static void fail(const struct partner *partner, int status)
{
	struct gw_comm *comm = comm_with(partner);
	char name[80];

	comm_fail(comm, true, status, "rank %u cannot exchange notes with %s: %s", comm->rank,
		  comm_rank_name(comm, partner->rank, name, sizeof(name)), strerror(-status));
}

static int channel_of(const struct partner *partner, struct gw_channel **out)
{
	struct gw_comm *comm = comm_with(partner);

	return link_channel(comm, partner->run->coll->number % comm->track_count, partner->rank,
			    out);
}

/* Whether a post must be tried again; a failure ends the communicator. */
static bool refused(const struct partner *partner, int error)
{
	if (error == -ENOBUFS)
		comm_with(partner)->starved = true;
	else if (error && error != -EAGAIN)
		fail(partner, error);
	return error != 0;
}

static void note_left(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct letter_out *out = arg;
	struct multicast *run = out->partner->run;
	int status = result->status;

	gw_op_close(op);
	list_del(&out->node);
	free(out);
	run->open--;
	if (!status)
		run_settle(run);
}

static void note_came(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct partner *partner = arg;
	struct multicast *run = partner->run;
	struct gw_comm *comm = comm_with(partner);
	int status = result->status;
	uint64_t length = result->length;
	struct note note;

	gw_op_close(op);
	partner->open = false;
	run->open--;
	if (comm->status || (status && status != -EMSGSIZE))
		return;
	if (status || !decode(partner->in, length, &note) || note.number != run->coll->number) {
		comm_fail(comm, true, -EPROTO,
			  "rank %u got what is not a note of %s number %u from rank %u: "
			  "do all ranks call the same operations?",
			  comm->rank, operation_name(run->coll->task.operation), run->coll->number,
			  partner->rank);
		return;
	}
	partner->expect--;
	run_note(run, partner, &note, gw_now_ns(comm->office->ctx));
	if (comm->status)
		return;
	partner_pump(partner);
	run_settle(run);
}

static void group_moved(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct group_out *out = arg;
	struct partner *partner = out->partner;
	struct multicast *run = partner->run;
	uint32_t group = out->group;
	bool comes = out->comes;
	int status = result->status;

	gw_op_close(op);
	list_del(&out->node);
	free(out);
	partner->fetch_open--;
	run->open--;
	if (status || comm_with(partner)->status)
		return;
	if (comes)
		fetch_came(run, group);
	partner_pump(partner);
	run_settle(run);
}

static bool post_group(struct partner *partner, struct gw_channel *channel, uint32_t group)
{
	struct multicast *run = partner->run;
	struct gw_coll *coll = run->coll;
	const struct block *block = &run->blocks[0];
	bool comes = partner == run->parent;
	uint64_t from = block_offset(block, group);
	enum place place = run->parent || coll->task.in_place ? PLACE_RECV : PLACE_SEND;
	struct group_out *out = malloc(sizeof(*out));
	struct gw_op_attr attr = { .addr = block->data + from,
				   .length = block_offset(block, group + 1) - from,
				   .mr = coll->mr[place],
				   .done = group_moved,
				   .arg = out };
	struct gw_op *op;
	int error;

	if (!out) {
		fail(partner, -ENOMEM);
		return false;
	}
	*out = (struct group_out){ .partner = partner, .group = group, .comes = comes };
	error = comes ? gw_channel_recv(channel, &attr, &op) : gw_channel_send(channel, &attr, &op);
	if (refused(partner, error)) {
		free(out);
		return false;
	}
	list_add_tail(&partner->groups, &out->node);
	partner->fetch_open++;
	run->open++;
	return true;
}

static void pump_groups(struct partner *partner, struct gw_channel *channel)
{
	struct multicast *run = partner->run;

	while (partner->fetch_next < run->groups && partner->fetch_open < FETCH_WINDOW) {
		if (partner->fetch[partner->fetch_next] &&
		    !post_group(partner, channel, partner->fetch_next))
			return;
		partner->fetch_next++;
	}
}

void partner_pump(struct partner *partner)
{
	struct multicast *run = partner->run;
	struct gw_channel *channel;
	struct gw_op *op;
	int error;

	if (comm_with(partner)->status)
		return;
	if (list_empty(&partner->outbox) && (!partner->expect || partner->open) &&
	    !partner->fetching)
		return;
	error = channel_of(partner, &channel);
	if (refused(partner, error))
		return;
	while (!list_empty(&partner->outbox)) {
		struct letter_out *out =
			container_of(partner->outbox.next, struct letter_out, node);
		struct gw_op_attr attr = {
			.addr = out->bytes, .length = out->length, .done = note_left, .arg = out
		};

		if (refused(partner, gw_channel_send(channel, &attr, &op)))
			return;
		list_del(&out->node);
		list_add_tail(&partner->posted, &out->node);
		run->open++;
	}
	if (partner->expect && !partner->open) {
		struct gw_op_attr attr = { .addr = partner->in,
					   .length = sizeof(partner->in),
					   .done = note_came,
					   .arg = partner };

		if (refused(partner, gw_channel_recv(channel, &attr, &op)))
			return;
		partner->open = true;
		run->open++;
	}
	if (partner->fetching)
		pump_groups(partner, channel);
}

void note_send(struct partner *partner, const struct note *note)
{
	struct letter_out *out = malloc(sizeof(*out) + NOTE_HEADER + note->entries);

	if (!out) {
		fail(partner, -ENOMEM);
		return;
	}
	list_init(&out->node);
	out->partner = partner;
	out->length = NOTE_HEADER + note->entries;
	encode(note, out->bytes);
	list_add_tail(&partner->outbox, &out->node);
	partner_pump(partner);
}

void note_expect(struct partner *partner)
{
	partner->expect++;
	partner_pump(partner);
}

void fetch_begin(struct partner *partner)
{
	partner->fetching = true;
	partner_pump(partner);
}
