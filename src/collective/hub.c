/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks of a hub share: opening, the turn over spokes that are ready, sleeping, closing. */
#include "collective/hub.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <godwit/collective.h>

#include "base/clock.h"
#include "collective/hub_private.h"

#define NS_PER_MS		UINT64_C(1000000)
#define MEET_DEFAULT_NS		UINT64_C(60000000000)
#define PEER_TIMEOUT_DEFAULT_NS UINT64_C(10000000000)
/* Links looked at in one turn; the rest are still ready in the next. */
#define READY_MAX 128

int hub_fail(struct hub *hub, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(hub->why, HUB_WHY, format, arguments);
	va_end(arguments);
	return error;
}

void hub_explain_end(const struct hub *hub, const struct spoke *spoke, int error, char why[HUB_WHY])
{
	char name[HUB_NAME];

	spoke_name(spoke, name, sizeof(name));
	if (error == -ETIMEDOUT)
		snprintf(why, HUB_WHY, "the host of %s was silent for %g s", name,
			 (double)hub->peer_timeout_ns / 1e9);
	else if (error == -ECONNRESET)
		snprintf(why, HUB_WHY, "%s ended without a goodbye", name);
	else if (error == -EPROTO)
		snprintf(why, HUB_WHY, "%s sent something that makes no sense", name);
	else
		snprintf(why, HUB_WHY, "the connection with %s broke: %s", name,
			 gw_rendezvous_error());
}

/* ---- turns ----------------------------------------------------------------------------------------------------- */

void hub_flush(struct hub *hub)
{
	struct list *item;

	/* To send a letter may make its sender's spoke dirty. A connection that broke shows when it is read. */
	while ((item = list_first(&hub->dirty))) {
		list_del(item);
		spoke_flush(hub, container_of(item, struct spoke, dirty));
	}
}

int hub_turn(struct hub *hub)
{
	struct epoll_event events[READY_MAX];
	int ready = epoll_wait(hub->epoll_fd, events, READY_MAX, 0);
	int did = 0;

	for (int i = 0; i < ready; i++) {
		struct spoke *spoke = events[i].data.ptr;

		if (spoke && spoke->r)
			did += spoke_turn(hub, spoke);
	}
	hub_flush(hub);
	return did;
}

int hub_sleep(const struct hub *hub, uint64_t deadline_ns)
{
	struct pollfd fd = { .fd = hub->epoll_fd, .events = POLLIN };
	uint64_t now = clock_now_ns();
	uint64_t left_ms = deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0;

	/* Also if something is always ready. */
	if (left_ms == 0)
		return -ETIMEDOUT;
	return poll(&fd, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0 ? -errno : 0;
}

/* ---- mail ------------------------------------------------------------------------------------------------------ */

static int hub_send(struct mail *mail, uint32_t to, const void *data, size_t length)
{
	struct hub *hub = (struct hub *)mail;
	int rc;

	if (length > MAIL_MAX)
		return -EMSGSIZE;
	if (to == hub->rank || (to >= hub->size && to != MAIL_ALL))
		return -EINVAL;
	if (hub->status || hub->ended)
		return -EPIPE;
	rc = hub->rank == 0 ? hub_root_send(hub, to, data, length)
			    : hub_rank_send(hub, to, data, length);
	hub_flush(hub);
	return rc;
}

/* Reads what the meeting left unread. */
static int release_held(struct hub *hub)
{
	if (!hub->held)
		return 0;
	hub->held = false;
	close(hub->held_fd);
	hub->held_fd = -1;
	return spoke_turn(hub, &hub->spokes[0]);
}

static int hub_progress(struct mail *mail, uint64_t now_ns)
{
	struct hub *hub = (struct hub *)mail;
	int did;

	if (hub->size == 1 || hub->status)
		return hub->status;
	did = release_held(hub);
	did += hub_turn(hub);
	return hub->status ? hub->status : did;
}

static int hub_fd(const struct mail *mail)
{
	return ((const struct hub *)mail)->epoll_fd;
}

/* The kernel watches over silence, and its verdict makes the descriptor readable. */
static uint64_t hub_deadline_ns(const struct mail *mail)
{
	return UINT64_MAX;
}

static uint64_t hub_rtt_ns(const struct mail *mail)
{
	return (uint64_t)((const struct hub *)mail)->rtt_us * 1000;
}

static const char *hub_address(const struct mail *mail, uint32_t rank)
{
	const struct hub *hub = (const struct hub *)mail;

	return rank < hub->size ? hub->addresses[rank] : "";
}

static void hub_free(struct hub *hub)
{
	for (uint32_t i = 0; i < hub->spoke_count; i++)
		spoke_close(hub, &hub->spokes[i]);
	if (hub->held_fd >= 0)
		close(hub->held_fd);
	if (hub->epoll_fd >= 0)
		close(hub->epoll_fd);
	free(hub->spokes);
	free(hub->addresses);
	free(hub);
}

static void hub_close(struct mail *mail)
{
	struct hub *hub = (struct hub *)mail;

	hub->closing = true;
	release_held(hub);
	if (hub->rank == 0)
		hub_root_goodbye(hub);
	else
		hub_rank_goodbye(hub);
	hub_free(hub);
}

static const struct mail_ops ops = {
	.send = hub_send,
	.progress = hub_progress,
	.fd = hub_fd,
	.deadline_ns = hub_deadline_ns,
	.address = hub_address,
	.rtt_ns = hub_rtt_ns,
	.close = hub_close,
};

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int check(const struct hub_attr *attr, struct hub *hub)
{
	if (attr->size == 0 || attr->size > GW_COMM_RANKS_MAX)
		return hub_fail(hub, -EINVAL, "the number of ranks is %u, and has to be 1 to %d",
				attr->size, GW_COMM_RANKS_MAX);
	if (attr->rank >= attr->size)
		return hub_fail(hub, -EINVAL, "this is rank %u, and ranks are 0 to %u", attr->rank,
				attr->size - 1);
	if (attr->size > 1 && attr->port == 0)
		return hub_fail(hub, -EINVAL, "no port was given on which rank 0 waits");
	if (attr->rank > 0 && (!attr->root || !attr->root[0]))
		return hub_fail(hub, -EINVAL, "the host of rank 0 was not given");
	return 0;
}

static int prepare(struct hub *hub)
{
	/* At rank 0 one more than ranks: a process that is turned away waits there for its answer. */
	hub->spoke_count = hub->rank == 0 ? hub->size + 1 : 1;
	hub->spokes = calloc(hub->spoke_count, sizeof(*hub->spokes));
	hub->addresses = calloc(hub->size, sizeof(*hub->addresses));
	if (!hub->spokes || !hub->addresses)
		return hub_fail(hub, -ENOMEM, "no memory for the mail of %u ranks", hub->size);
	if (hub->size == 1)
		return 0;
	hub->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (hub->epoll_fd < 0)
		return hub_fail(hub, -errno, "cannot watch connections: %s", strerror(errno));
	return 0;
}

int hub_open(const struct hub_attr *attr, const struct mail_handler *handler, void *arg,
	     char why[HUB_WHY], struct mail **out)
{
	struct hub *hub = calloc(1, sizeof(*hub));
	struct hub_attr full = *attr;
	int rc;

	if (!hub) {
		snprintf(why, HUB_WHY, "no memory for the mail");
		return -ENOMEM;
	}
	full.meet_ns = attr->meet_ns ? attr->meet_ns : MEET_DEFAULT_NS;
	full.peer_timeout_ns =
		attr->peer_timeout_ns ? attr->peer_timeout_ns : PEER_TIMEOUT_DEFAULT_NS;
	*hub = (struct hub){ .mail = { .ops = &ops, .handler = handler, .arg = arg },
			     .rank = attr->rank,
			     .size = attr->size,
			     .peer_timeout_ns = full.peer_timeout_ns,
			     .epoll_fd = -1,
			     .held_fd = -1,
			     .why = why };
	list_init(&hub->dirty);
	rc = check(&full, hub);
	if (rc == 0)
		rc = prepare(hub);
	if (rc == 0 && hub->size > 1)
		rc = hub->rank == 0 ? hub_root_meet(hub, &full) : hub_rank_meet(hub, &full);
	if (rc) {
		hub_free(hub);
		return rc;
	}
	hub->why = NULL;
	why[0] = '\0';
	*out = &hub->mail;
	return 0;
}
