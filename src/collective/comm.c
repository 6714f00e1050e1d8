/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: their beginning, their failure and their end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/zero.h"
#include "collective/bounded.h"
#include "collective/comm.h"
#include "collective/multicast.h"
#include "collective/strands.h"

#define DEFAULT_PEER_TIMEOUT UINT64_C(10000000000)

uint32_t comm_office_rank(const struct gw_comm *comm, uint32_t rank)
{
	return comm->members ? comm->members[rank] : rank;
}

const char *comm_rank_name(const struct gw_comm *comm, uint32_t rank, char *text, size_t size)
{
	struct mail *mail = comm->office->mail;
	const char *address = mail->ops->address(mail, comm_office_rank(comm, rank));

	snprintf(text, size, address[0] ? "rank %u (%s)" : "rank %u", rank, address);
	return text;
}

static int tracks_open(struct gw_comm *comm)
{
	for (uint32_t i = 0; i < comm->track_count; i++) {
		struct track *track = &comm->tracks[i];

		list_init(&track->colls);
		list_init(&track->kept);
		track->links = calloc(comm->size, sizeof(struct comm_link *));
		if (!track->links)
			return -ENOMEM;
	}
	return 0;
}

int comm_create(struct office *office, const struct gw_comm_attr *attr, uint64_t id,
		uint32_t *members, struct gw_comm **out)
{
	struct gw_comm *comm = calloc(1, sizeof(*comm));
	int error;

	if (!comm)
		return -ENOMEM;
	comm->office = office;
	comm->id = id;
	comm->rank = attr->rank;
	comm->size = attr->size;
	comm->flags = attr->flags;
	comm->segment_bytes = attr->segment_bytes;
	comm->network.rtt_ns = office->mail->ops->rtt_ns(office->mail);
	comm->track_count = attr->tracks ? attr->tracks : TRACKS_DEFAULT;
	comm->ahead = attr->ahead ? (uint32_t)attr->ahead : AHEAD_DEFAULT;
	comm->channel = (struct gw_channel_attr){
		.rate_bps = attr->rate_bps,
		.peer_timeout_ns =
			attr->peer_timeout_ns ? attr->peer_timeout_ns : DEFAULT_PEER_TIMEOUT,
		/* A rank that leaves closes its channels before the mail has told the others why: the reason is the error to tell. */
		.flags = GW_CHANNEL_QUIET,
	};
	list_init(&comm->node);
	list_init(&comm->handles);
	list_init(&comm->partly);
	agree_init(comm);
	limits_init(comm);
	comm->left = calloc(comm->size, sizeof(*comm->left));
	error = comm->left ? tracks_open(comm) : -ENOMEM;
	if (!error && attr->congestion) {
		comm->channel.congestion = comm->congestion = strdup(attr->congestion);
		error = comm->congestion ? 0 : -ENOMEM;
	}
	if (error) {
		comm_destroy(comm);
		return error;
	}
	comm->members = members;
	list_add_tail(&office->comms, &comm->node);
	office_adopt(comm);
	*out = comm;
	return 0;
}

static void spread_failure(struct gw_comm *comm)
{
	comm->untold = office_write(comm, MAIL_ALL, LETTER_FAILED, (uint32_t)-comm->status,
				    comm->error, strlen(comm->error)) == -ENOBUFS;
}

void comm_fail(struct gw_comm *comm, bool tell, int status, const char *format, ...)
{
	va_list args;

	if (comm->status)
		return;
	va_start(args, format);
	vsnprintf(comm->error, sizeof(comm->error), format, args);
	va_end(args);
	comm->status = status;
	if (tell)
		spread_failure(comm);
}

/* Ends all operations: channels first, so that nothing of an operation is under way when it ends. */
static int end_all(struct gw_comm *comm, int status)
{
	int count = 0;

	links_close(comm);
	for (uint32_t i = 0; i < comm->track_count; i++) {
		struct track *track = &comm->tracks[i];

		while (track->links && !list_empty(&track->colls)) {
			coll_end(container_of(track->colls.next, struct gw_coll, node), status);
			count++;
		}
		while (track->links && !list_empty(&track->kept))
			coll_end(container_of(track->kept.next, struct gw_coll, node), status);
	}
	return count;
}

uint64_t comm_deadline_ns(const struct gw_comm *comm)
{
	uint64_t reset = comm->reset_ns && !comm->status
				 ? comm->reset_ns + comm->channel.peer_timeout_ns
				 : UINT64_MAX;
	uint64_t bounded = bounded_deadline_ns(comm);

	return bounded < reset ? bounded : reset;
}

int comm_turn(struct gw_comm *comm)
{
	char name[80];
	int count;

	if (comm->reset_ns && !comm->status &&
	    gw_now_ns(comm->office->ctx) >= comm->reset_ns + comm->channel.peer_timeout_ns)
		comm_fail(comm, true, -ECONNRESET, "%s has closed its channel",
			  comm_rank_name(comm, comm->reset_by, name, sizeof(name)));
	if (comm->unwritten && !comm->status)
		links_write(comm);
	if (comm->untold)
		spread_failure(comm);
	if (comm->starved)
		coll_feed(comm);
	count = strands_turn(comm);
	limits_turn(comm);
	if (comm->bounded)
		count += bounded_turn(comm);
	if (!comm->status || comm->over)
		return count;
	comm->over = true;
	return 1 + count + end_all(comm, comm->status);
}

void comm_destroy(struct gw_comm *comm)
{
	strands_close(comm);
	if (!comm->status)
		comm->status = -ECANCELED;
	comm->over = true;
	end_all(comm, comm->status);
	while (!list_empty(&comm->handles))
		coll_free(container_of(comm->handles.next, struct gw_coll, handle));
	for (uint32_t i = 0; i < comm->track_count; i++) {
		track_free_memory(&comm->tracks[i]);
		free(comm->tracks[i].links);
	}
	list_del(&comm->node);
	agree_free(comm);
	multicast_close(comm);
	free(comm->left);
	free(comm->congestion);
	free(comm->members);
	keep_free(comm);
	free(comm->bounded);
	free(comm);
}

int gw_comm_abort(struct gw_comm *comm, const char *why)
{
	if (!comm || !why)
		return -EINVAL;
	comm_fail(comm, true, -ECANCELED, "rank %u aborted: %.200s", comm->rank, why);
	return 0;
}

uint32_t gw_comm_rank(const struct gw_comm *comm)
{
	return comm->rank;
}

uint32_t gw_comm_size(const struct gw_comm *comm)
{
	return comm->size;
}

int gw_comm_status(const struct gw_comm *comm)
{
	return comm ? comm->status : -EINVAL;
}

struct gw_context *gw_comm_context(const struct gw_comm *comm)
{
	return comm ? comm->office->ctx : NULL;
}
