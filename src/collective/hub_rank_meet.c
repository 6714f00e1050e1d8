/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meeting as every other rank sees it: it connects to rank 0, which may not listen yet, says who it is, and waits. Once rank
 * 0 has answered, rank 0's time counts, so that all ranks give up together and for the same reason.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "collective/hub_private.h"

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)
/* How much longer than rank 0 the others wait: it speaks first. */
#define GRACE_NS (5000 * NS_PER_MS)
/* Numbers of errors are below this. */
#define ERRNO_END 4096
/*
 * A listener serves 64 connections side by side and hangs up on what is too much. Where there are more ranks, each first waits for
 * a random part of SPREAD_NS for each rank; whoever was hung up on comes again after a random part of a pause that doubles.
 */
#define SPREAD_RANKS 64
#define SPREAD_NS    (1 * NS_PER_MS)
#define PAUSE_MIN_NS (100 * NS_PER_MS)
#define PAUSE_MAX_NS (3200 * NS_PER_MS)

static int keep_addresses(struct hub *hub, const struct hub_record *record)
{
	const char *at = (const char *)record->data, *end = at + record->length;

	for (uint32_t rank = record->number; at < end; rank++) {
		size_t length = strnlen(at, (size_t)(end - at));

		if (rank >= hub->size || length >= SPOKE_ADDRESS || at + length == end)
			return -EPROTO;
		memcpy(hub->addresses[rank], at, length + 1);
		at += length + 1;
	}
	return 0;
}

/* hub_open() has not returned: mail that follows is left unread until the first progress, for which the descriptor asks. */
static int hold_mail(struct hub *hub)
{
	struct epoll_event event = { .events = EPOLLIN };

	hub->held_fd = eventfd(1, EFD_CLOEXEC);
	if (hub->held_fd < 0 || epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, hub->held_fd, &event)) {
		hub->status =
			hub_fail(hub, -errno, "cannot watch connections: %s", strerror(errno));
		return 0;
	}
	hub->held = true;
	hub->record = hub_rank_record;
	hub->broken = hub_rank_broken;
	return 0;
}

static int meeting_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record)
{
	switch (record->kind) {
	case HUB_JOINED:
		if (record->length < 4)
			return -EPROTO;
		spoke->process = hub_record_get32(record->data);
		hub->meet_deadline_ns = clock_now_ns() + record->number * NS_PER_MS + GRACE_NS;
		return 0;
	case HUB_ADDRESSES:
		return keep_addresses(hub, record);
	case HUB_START:
		hub->rtt_us = record->number;
		return hold_mail(hub);
	case HUB_FAIL:
		hub_record_text(record, hub->why, HUB_WHY);
		hub->status = record->number > 0 && record->number < ERRNO_END
				      ? -(int)record->number
				      : -EPROTO;
		return 0;
	default:
		return -EPROTO;
	}
}

static void meeting_end(struct hub *hub, struct spoke *spoke, int error)
{
	char why[HUB_WHY];

	if (hub->status)
		return;
	hub->status = error;
	if (hub->meet_deadline_ns) {
		hub_explain_end(hub, spoke, error, why);
		hub_fail(hub, error, "%.200s before all %u ranks had come", why, hub->size);
	} else {
		hub_fail(hub, error, "rank %u did not get to rank 0: %s", hub->rank,
			 gw_rendezvous_error());
	}
	spoke_close(hub, spoke);
}

/* Whether rank 0 may just not be there yet, or not be known by its name, or hung up because too many came at once. */
static bool may_come_yet(const struct hub *hub, int error)
{
	return !hub->meet_deadline_ns && (error == -ECONNRESET || error == -EHOSTUNREACH ||
					  error == -ENETUNREACH || error == -EAGAIN);
}

/* Connects, and says who this is. */
static int join(struct hub *hub, const struct hub_attr *attr, uint64_t deadline_ns)
{
	struct hub_record_join join = { .rank = hub->rank,
					.version = HUB_VERSION,
					.size = hub->size,
					.process = (uint32_t)getpid() };
	uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 1;
	struct gw_rendezvous_attr connecting = { .peer_service = HUB_ROOT_SERVICE,
						 .host = attr->root,
						 .bind = attr->bind,
						 .port = attr->port,
						 .service = HUB_SERVICE,
						 .secret_file = attr->secret_file,
						 .timeout_ns = left,
						 .retry_ns = left,
						 .silence_ns = attr->peer_timeout_ns };
	uint8_t bytes[HUB_JOIN_MAX];
	struct gw_rendezvous *r;
	size_t length;
	int rc = gw_rendezvous_connect(&connecting, &r);

	/* Where nobody listened it was tried all the time. A refusal in words ends it before, here or when the answer is read. */
	if (rc == -ETIMEDOUT ||
	    ((rc == -ECONNREFUSED || may_come_yet(hub, rc)) && clock_now_ns() >= deadline_ns))
		return hub_fail(hub, -ETIMEDOUT, "rank 0 did not come within %g s: %s",
				(double)attr->meet_ns / 1e9, gw_rendezvous_error());
	if (rc)
		return hub_fail(hub, rc, "rank %u did not get to rank 0: %s", hub->rank,
				gw_rendezvous_error());
	if (spoke_open(hub, &hub->spokes[0], 0, r)) {
		gw_rendezvous_close(r);
		return hub_fail(hub, -ENOMEM, "no memory for a connection");
	}
	snprintf(join.settings, sizeof(join.settings), "%s", attr->settings ? attr->settings : "");
	length = hub_record_encode_join(&join, bytes);
	rc = spoke_post_record(hub, &hub->spokes[0], HUB_JOIN, hub->rank, bytes + HUB_HEADER,
			       length - HUB_HEADER);
	return rc ? hub_fail(hub, rc, "no memory for a connection") : 0;
}

/* Waits for the outcome. */
static int await_start(struct hub *hub, uint64_t deadline_ns)
{
	int rc = 0;

	hub_flush(hub);
	while (!hub->held && !hub->status) {
		rc = hub_sleep(hub, hub->meet_deadline_ns ? hub->meet_deadline_ns : deadline_ns);
		if (rc == -ETIMEDOUT)
			return hub_fail(hub, rc, "rank 0 (%s) did not say who is missing",
					hub->spokes[0].address);
		if (rc)
			return hub_fail(hub, rc,
					"rank %u was interrupted while it waited for others",
					hub->rank);
		hub_turn(hub);
	}
	return hub->status;
}

/* Sleeps for a random part of this time. */
static void pause_randomly(struct rng *rng, uint64_t most_ns)
{
	uint64_t pause = rng_below(rng, most_ns);
	struct timespec time = { .tv_sec = (time_t)(pause / NS_PER_SECOND),
				 .tv_nsec = (long)(pause % NS_PER_SECOND) };

	nanosleep(&time, NULL);
}

int hub_rank_meet(struct hub *hub, const struct hub_attr *attr)
{
	uint64_t deadline = clock_now_ns() + attr->meet_ns;
	struct spoke *spoke = &hub->spokes[0];
	uint64_t pause_ns = PAUSE_MIN_NS;
	struct rng rng;
	int rc;

	rng_seed(&rng, (uint64_t)getpid() << 32 | hub->rank);
	if (hub->size > SPREAD_RANKS)
		pause_randomly(&rng, hub->size * SPREAD_NS);
	for (;;) {
		hub->status = 0;
		hub->record = meeting_record;
		hub->broken = meeting_end;
		rc = join(hub, attr, deadline);
		if (rc == 0)
			rc = await_start(hub, deadline);
		if (!may_come_yet(hub, rc) || clock_now_ns() >= deadline)
			break;
		spoke_close(hub, spoke);
		pause_randomly(&rng, pause_ns);
		pause_ns = pause_ns < PAUSE_MAX_NS ? 2 * pause_ns : PAUSE_MAX_NS;
	}
	if (rc == 0) {
		/* The address from which rank 0 is reached is this host's own, also if rank 0 sees another. */
		const char *local = gw_rendezvous_local(spoke->r);

		if (strncmp(local, "127.", 4) != 0 && strcmp(local, "::1") != 0)
			snprintf(hub->addresses[hub->rank], SPOKE_ADDRESS, "%s", local);
	}
	return rc;
}
