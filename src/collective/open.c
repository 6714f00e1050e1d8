/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator comes to be: the environment, the meeting of ranks, a context. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/zero.h"
#include "collective/comm.h"
#include "collective/hub.h"
#include "collective/launcher.h"
#include "collective/strands.h"

#define MEET_DEFAULT_NS UINT64_C(60000000000)
/* Silences for which threads wait for those of other ranks. */
#define AGAIN_TIMEOUTS 3
/* TCP port of rank 0 if nothing names one. */
#define DEFAULT_PORT 4796
/* Room in the context for each rank: channels, of communicators that are split off too, and messages that are open in them. It is not touched
 * before it is used. */
#define QPS_PER_RANK	  8
#define QPS_LEAST	  16384
#define REQUESTS_PER_RANK 512
#define REQUESTS_MOST	  65536

/* Why the last gw_comm_open() of this thread failed. */
static _Thread_local char open_error[HUB_WHY > LAUNCHER_WHY ? HUB_WHY : LAUNCHER_WHY];

const char *gw_comm_error(const struct gw_comm *comm)
{
	return comm ? comm->error : open_error;
}

static bool is_within(const char *what, uint64_t value, uint64_t most)
{
	if (value > most)
		snprintf(open_error, sizeof(open_error), "%s %llu: at most %llu", what,
			 (unsigned long long)value, (unsigned long long)most);
	return value <= most;
}

/* Leaves a sentence in open_error unless it is. */
static bool attr_sane(const struct gw_comm_attr *attr)
{
	const uint32_t flags = GW_COMM_FIXED_ORDER | GW_COMM_CLEAR | GW_COMM_SERVED;

	if (attr->flags & ~flags || !array_is_zero(attr->reserved)) {
		snprintf(open_error, sizeof(open_error),
			 "a flag of the communicator that this release does not know");
		return false;
	}
	return is_within("number of ranks", attr->size, GW_COMM_RANKS_MAX) &&
	       is_within("rank", attr->rank, attr->size ? attr->size - 1 : UINT32_MAX) &&
	       is_within("tracks", attr->tracks, TRACKS_MAX) &&
	       is_within("threads", attr->threads, GW_COMM_THREADS_MAX) &&
	       is_within("ahead", attr->ahead, AHEAD_MAX);
}

/* Fills in from the environment what the caller did not say. */
static int complete(struct gw_comm_attr *attr, struct launcher *launcher)
{
	if (!attr_sane(attr))
		return -EINVAL;
	if (!attr->size) {
		int error = launcher_read(attr->meet_ns ? attr->meet_ns : MEET_DEFAULT_NS,
					  open_error, launcher);

		if (error)
			return error;
		attr->rank = launcher->rank;
		attr->size = launcher->size;
		attr->root = attr->root ? attr->root : launcher->root;
		attr->port = attr->port ? attr->port : launcher->port;
	}
	if (!attr->port)
		attr->port = DEFAULT_PORT;
	return 0;
}

/* What all ranks need to have alike, or they would wait for each other or mix up messages. */
static void describe_settings(const struct gw_comm_attr *attr, char *text, size_t size)
{
	uint32_t tracks = attr->tracks ? attr->tracks : TRACKS_DEFAULT;
	uint32_t threads = attr->threads ? attr->threads : 1;

	char segments[24] = "default";

	if (attr->segment_bytes)
		snprintf(segments, sizeof(segments), "%u bytes", attr->segment_bytes);
	snprintf(text, size, "tracks %u, threads %u, segments %s, order %s", tracks, threads,
		 segments, attr->flags & GW_COMM_FIXED_ORDER ? "fixed" : "any");
}

static int open_mail(struct office *office, const struct gw_comm_attr *attr)
{
	char settings[HUB_WHY];
	struct hub_attr hub = { .settings = settings,
				.rank = attr->rank,
				.size = attr->size,
				.root = attr->root,
				.port = attr->port,
				.secret_file = attr->secret_file,
				.meet_ns = attr->meet_ns,
				.peer_timeout_ns = attr->peer_timeout_ns };

	describe_settings(attr, settings, sizeof(settings));
	return hub_open(&hub, &office_mail, office, open_error, &office->mail);
}

static uint32_t up_to(uint64_t value, uint32_t most)
{
	return value < most ? (uint32_t)value : most;
}

/* The fabric is at the address by which this rank and rank 0 reach each other, unless the caller names one. */
static int open_context(struct office *office, const struct gw_comm_attr *attr)
{
	const char *address = office->mail->ops->address(office->mail, attr->rank);
	uint32_t tracks = attr->tracks ? attr->tracks : TRACKS_DEFAULT;
	uint64_t requests = REQUESTS_PER_RANK * (uint64_t)attr->size;
	uint64_t qps = QPS_PER_RANK * (uint64_t)attr->size * tracks;
	char fabric[128];
	struct gw_context_attr ctx = {
		.fabric = attr->fabric ? attr->fabric : fabric,
		.max_qps = up_to(qps < QPS_LEAST ? QPS_LEAST : qps, REQUESTS_MOST),
		.max_sends = up_to(requests < 4096 ? 4096 : requests, REQUESTS_MOST),
		.max_recvs = up_to(requests < 4096 ? 4096 : requests, REQUESTS_MOST),
	};
	int error;

	snprintf(fabric, sizeof(fabric), "roce:%s@0", address[0] ? address : "127.0.0.1");
	error = gw_context_open(&ctx, &office->ctx);
	if (error)
		snprintf(open_error, sizeof(open_error), "rank %u cannot open its fabric: %s",
			 attr->rank, gw_context_error(NULL));
	return error;
}

/* Packets are sealed by the secret, unless the caller asks for clear ones. A fabric that cannot is told of now, not when the first
 * channel is made. */
static int open_seal(struct office *office, const struct gw_comm_attr *attr)
{
	struct gw_seal keys = { 0 };
	struct gw_qp_attr trial = { .seal = &keys };
	struct gw_qp *qp;
	int error;

	if (!attr->secret_file || attr->flags & GW_COMM_CLEAR)
		return 0;
	error = gw_qp_create(office->ctx, &trial, &qp);
	if (error) {
		snprintf(open_error, sizeof(open_error),
			 "rank %u cannot seal its packets, as a secret asks: %s", attr->rank,
			 gw_context_error(office->ctx));
		return error;
	}
	gw_qp_close(qp);
	office->secret_file = strdup(attr->secret_file);
	return office->secret_file ? 0 : -ENOMEM;
}

/* A name that no controller has is told of now, not when the first channel is made. */
static int check_congestion(struct office *office, const struct gw_comm_attr *attr)
{
	struct gw_channel_attr trial = { .congestion = attr->congestion };
	struct gw_channel *channel;
	int error;

	if (!attr->congestion)
		return 0;
	error = gw_channel_create(office->ctx, &trial, &channel);
	if (error) {
		snprintf(open_error, sizeof(open_error),
			 "rank %u cannot make a channel with congestion control \"%.40s\": %s",
			 attr->rank, attr->congestion,
			 error == -EINVAL ? "there is none of that name" : strerror(-error));
		return error;
	}
	gw_channel_close(channel);
	return 0;
}

void office_close(struct office *office)
{
	if (office->ctx)
		gw_context_close(office->ctx);
	if (office->mail)
		office->mail->ops->close(office->mail);
	if (office->wake_fd >= 0)
		close(office->wake_fd);
	office_free(office);
	free(office);
}

/* Opens a communicator without threads. All attributes are known. */
static int open_one(const struct gw_comm_attr *attr, struct gw_comm **out)
{
	struct office *office;
	int error;

	office = malloc(sizeof(*office));
	if (!office)
		return -ENOMEM;
	office_init(office, NULL);
	office->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = office->wake_fd < 0 ? -errno : open_mail(office, attr);
	if (!error)
		error = open_context(office, attr);
	if (!error)
		error = open_seal(office, attr);
	if (!error)
		error = check_congestion(office, attr);
	if (!error)
		error = comm_create(office, attr, COMM_FIRST, NULL, out);
	/* The others have met this rank, and will wait for it. */
	if (error && office->mail)
		office_refuse(office, attr->rank, error, open_error);
	if (error)
		office_close(office);
	return error;
}

int gw_comm_open(const struct gw_comm_attr *given, struct gw_comm **out)
{
	struct gw_comm_attr attr = { 0 };
	struct launcher launcher;
	struct gw_comm *comm;
	int error;

	open_error[0] = '\0';
	if (!out)
		return -EINVAL;
	if (given)
		attr = *given;
	error = complete(&attr, &launcher);
	if (!error)
		error = open_one(&attr, &comm);
	if (error)
		return error;
	/* The ranks meet once for each thread, one after the other, at the same port. */
	/* Before threads meet, where nobody would hear that a rank could not open its communicator. */
	if (attr.threads > 1) {
		/* All have come once: who does not come again soon has died, or cannot. */
		if (!attr.meet_ns || attr.meet_ns > AGAIN_TIMEOUTS * comm->channel.peer_timeout_ns)
			attr.meet_ns = AGAIN_TIMEOUTS * comm->channel.peer_timeout_ns;
		error = comm_await_all(comm);
		if (!error)
			error = strands_open(comm, attr.threads - 1, &attr, open_one);
		/* The first communicator may know why. */
		if (error)
			gw_comm_progress(comm);
		if (error && comm->status)
			snprintf(open_error, sizeof(open_error), "%s", comm->error);
	}
	if (error) {
		comm_fail(comm, true, error, "rank %u has no threads: %.150s", attr.rank,
			  open_error);
		gw_comm_close(comm);
		return error;
	}
	*out = comm;
	return 0;
}
