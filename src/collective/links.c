/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels between ranks, made when they are first needed: each end mails the other its description. Those of all tracks are made at
 * once: the next operations need them, and their mail would have to travel beside this one's data.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/comm.h"

/* Ranks up to which channels have more memory, so that messages up to SMALL_BYTES are copied rather than wait for a grant, which takes
 * half a round trip. */
#define FEW_RANKS   16
#define SMALL_BYTES (UINT32_C(64) << 10)
#define PACK_BYTES  (UINT32_C(80) << 10)
#define PACKS	    8
/* Ranks above which channels are made small, since there may be many. */
#define MANY_RANKS 64

static void gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	struct comm_link *link = arg;
	struct gw_comm *comm = link->comm;
	char name[80];

	(void)channel;
	link->connected = false;
	if (status == -ECONNRESET) {
		comm->left[link->peer] = true;
		if (!comm->reset_ns && !comm->closing) {
			comm->reset_ns = now;
			comm->reset_by = link->peer;
		}
		return;
	}
	comm_fail(comm, true, status, "%s %s", comm_rank_name(comm, link->peer, name, sizeof(name)),
		  status == -ETIMEDOUT ? "is at work, but no packet of it arrives any more"
				       : "broke the protocol");
}

/*
 * A rank makes progress, and answers, while it is in a call of the library. So silence means that it computes, or that the path is
 * broken. The mail tells which: a rank that answers there is at work, and its packets would come if the path let them. Whether
 * its process or its host has died is the mail's business.
 */
static int silent(struct gw_channel *channel, void *arg, uint64_t now)
{
	struct comm_link *link = arg;
	uint64_t timeout = link->comm->channel.peer_timeout_ns;
	/* While a silence lasts the channel tells of it every quarter of the timeout: after a longer time the rank was heard in between. */
	bool another = now - link->silent_ns > timeout / 2;

	(void)channel;
	link->silent_ns = now;
	if (!link->asked_ns || another || now - link->asked_ns > 2 * timeout) {
		link->asked_ns = now;
		link->answered_ns = 0;
		office_write(link->comm, link->peer, LETTER_ASK, link->track, NULL, 0);
		return 1;
	}
	return !link->answered_ns || now - link->answered_ns < timeout / 8;
}

static const struct gw_channel_handler channel_handler = { .gone = gone, .silent = silent };

void link_answered(struct gw_comm *comm, uint32_t track, uint32_t peer)
{
	struct comm_link *link = comm->tracks[track].links[peer];

	if (link && link->asked_ns && !link->answered_ns)
		link->answered_ns = gw_now_ns(comm->office->ctx);
}

/* Returns a channel of another track to the same rank, or NULL. Operations take turns on tracks, and each goes on with the window of the
 * one before. */
static struct gw_channel *beside(const struct gw_comm *comm, uint32_t peer)
{
	for (uint32_t t = 0; t < comm->track_count; t++)
		if (comm->tracks[t].links && comm->tracks[t].links[peer])
			return comm->tracks[t].links[peer]->channel;
	return NULL;
}

/* Mails this end's description, now or when the mail has room for it again. */
static int describe(struct comm_link *link)
{
	struct link_letter letter = { .info = link->info };
	int error;

	memcpy(letter.nonce, link->nonce, sizeof(letter.nonce));
	error = office_write(link->comm, link->peer, LETTER_CONNECT, link->track, &letter,
			     sizeof(letter));
	link->unwritten = error == -ENOBUFS;
	link->comm->unwritten |= link->unwritten;
	return link->unwritten ? 0 : error;
}

void links_write(struct gw_comm *comm)
{
	comm->unwritten = false;
	for (uint32_t t = 0; t < comm->track_count; t++) {
		for (uint32_t r = 0; r < comm->size && !comm->unwritten; r++) {
			struct comm_link *link = comm->tracks[t].links[r];

			/* Of mail that has ended its owner is told. */
			if (link && link->unwritten)
				describe(link);
		}
	}
}

static int link_make(struct gw_comm *comm, uint32_t track, uint32_t peer, struct comm_link **out)
{
	struct gw_channel_attr attr = comm->channel;
	struct comm_link *link = calloc(1, sizeof(*link));
	struct gw_seal keys;
	const char *host;
	int error = 0;

	if (!link)
		return -ENOMEM;
	*link = (struct comm_link){ .comm = comm, .track = track, .peer = peer };
	attr.rate_bps = limits_bps(comm, track);
	attr.beside = beside(comm, peer);
	attr.handler = &channel_handler;
	attr.arg = link;
	if (comm->size > MANY_RANKS) {
		attr.flags |= GW_CHANNEL_NO_PARITY;
		attr.packs = 4;
		attr.pack_bytes = 8192;
		attr.slots = 32;
		attr.operations = 256;
	} else if (comm->size <= FEW_RANKS) {
		attr.small_bytes = SMALL_BYTES;
		attr.pack_bytes = PACK_BYTES;
		attr.packs = PACKS;
	}
	host = comm->office->mail->ops->address(comm->office->mail, comm_office_rank(comm, peer));
	attr.peer_host = host[0] ? host : NULL;
	attr.rtt_hint_us = (uint32_t)(comm->network.rtt_ns / 1000);
	if (comm->office->secret_file) {
		error = seal_draw(link->nonce);
		if (!error)
			error = seal_placeholder(&keys);
		attr.seal = &keys;
	}
	if (!error)
		error = gw_channel_create(comm->office->ctx, &attr, &link->channel);
	if (!error) {
		gw_channel_info(link->channel, &link->info);
		error = describe(link);
		if (error)
			gw_channel_close(link->channel);
	}
	if (error) {
		free(link);
		return error;
	}
	comm->tracks[track].links[peer] = link;
	*out = link;
	return 0;
}

/* Makes the channel of a track, and of others where ranks are few. */
static int links_make(struct gw_comm *comm, uint32_t track, uint32_t peer, struct comm_link **out)
{
	int error = link_make(comm, track, peer, out);

	for (uint32_t t = 0; !error && comm->size <= MANY_RANKS && t < comm->track_count; t++) {
		struct comm_link *other;

		if (!comm->tracks[t].links[peer])
			error = link_make(comm, t, peer, &other);
	}
	return error;
}

int link_channel(struct gw_comm *comm, uint32_t track, uint32_t peer, struct gw_channel **out)
{
	struct comm_link *link = comm->tracks[track].links[peer];
	int error;

	if (!link) {
		error = links_make(comm, track, peer, &link);
		if (error)
			return error;
	}
	if (!link->connected)
		return -EAGAIN;
	*out = link->channel;
	return 0;
}

/* Gives a channel its keys, now that both ends are known. */
static int link_seal(struct comm_link *link, const struct link_letter *theirs)
{
	const struct gw_comm *comm = link->comm;
	struct seal_end own = { comm->id,   link->track, comm->rank,
				link->peer, &link->info, link->nonce };
	struct seal_end other = { comm->id,   link->track,   link->peer,
				  comm->rank, &theirs->info, theirs->nonce };
	struct gw_seal keys;
	int error;

	if (!comm->office->secret_file)
		return 0;
	error = seal_keys(comm->office->secret_file, &own, &other, &keys);
	if (!error)
		error = gw_channel_seal(link->channel, &keys);
	explicit_bzero(&keys, sizeof(keys));
	return error;
}

void link_described(struct gw_comm *comm, uint32_t track, uint32_t peer,
		    const struct link_letter *theirs)
{
	struct comm_link *link = comm->tracks[track].links[peer];
	char name[80];
	int error = 0;

	if (!link)
		error = link_make(comm, track, peer, &link);
	if (!error)
		error = link_seal(link, theirs);
	if (!error)
		error = gw_channel_connect(link->channel, &theirs->info);
	if (error) {
		comm_fail(comm, true, error, "%s cannot be connected to: %s",
			  comm_rank_name(comm, peer, name, sizeof(name)),
			  error == -EPERM
				  ? "one of the two ranks seals its packets and the other does not"
				  : strerror(-error));
		return;
	}
	link->connected = true;
	coll_kick(comm, track, peer);
}

void links_close(struct gw_comm *comm)
{
	for (uint32_t t = 0; t < comm->track_count; t++) {
		for (uint32_t r = 0; comm->tracks[t].links && r < comm->size; r++) {
			struct comm_link *link = comm->tracks[t].links[r];

			if (!link)
				continue;
			comm->tracks[t].links[r] = NULL;
			gw_channel_close(link->channel);
			free(link);
		}
	}
}
