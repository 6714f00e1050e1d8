/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meeting as rank 0 holds it. Each rank connects and says who it is (HUB_JOIN), is told that it is in (HUB_JOINED), and
 * waits. When all are in, everybody gets the addresses and HUB_START. When that cannot happen any more, or not in time,
 * everybody who is in gets HUB_FAIL with the sentence that rank 0 reports.
 *
 * What shows that the job is set up wrongly ends the meeting: two processes with one rank, different numbers of ranks, different
 * versions, a rank that ends. Connections that are no rank's, or do not hold the secret, are refused and do not end it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "collective/hub_private.h"
#include "collective/ranks_text.h"

#define NS_PER_MS UINT64_C(1000000)
/* Descriptors of a connection: the socket, its epoll set and its timer (rendezvous). */
#define FILES_PER_RANK 3
/* Connections that are not accepted yet, and what the application may open later. */
#define FILES_SPARE 256

struct meeting {
	struct hub *hub;
	struct gw_rendezvous_listener *listener;
	uint64_t meet_ns;
	uint64_t deadline;
	/* those of rank 0 */
	const char *settings;
	uint32_t missing;
	/* the last connection that was refused or given up, and why; "" if none was */
	char refused[160];
};

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

/* Raises the soft limit of open files as far as the ranks need it. The lowest free descriptor tells how many are open. */
static int make_room(struct hub *hub)
{
	rlim_t need = (rlim_t)hub->epoll_fd + (rlim_t)FILES_PER_RANK * hub->size + FILES_SPARE;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
		return 0;
	if (limit.rlim_max < need)
		return hub_fail(
			hub, -EMFILE,
			"rank 0 opens %lu files for %u ranks, and its process may open %lu: raise that limit (ulimit -Hn)",
			(unsigned long)need, hub->size, (unsigned long)limit.rlim_max);
	limit.rlim_cur = need;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return hub_fail(hub, -EMFILE, "cannot raise the limit of open files to %lu: %s",
				(unsigned long)need, strerror(errno));
	return 0;
}

/* ---- who comes -------------------------------------------------------------------------------------------------- */

static void note_refused(void *arg, const char *address, const char *why)
{
	struct meeting *m = arg;

	snprintf(m->refused, sizeof(m->refused), "; a connection from %s was refused: %s", address,
		 why);
}

static bool is_missing(const void *set, uint32_t rank)
{
	const struct hub *hub = set;

	return rank > 0 && !hub->spokes[rank].r;
}

/* The process that does not fit gets a spoke of its own, so that it is told as the others are. */
static int turn_away(const struct meeting *m, const struct hub_record_join *join,
		     struct gw_rendezvous *r, int error)
{
	struct hub *hub = m->hub;
	struct spoke *spoke = &hub->spokes[hub->size];
	char here[HUB_NAME], there[HUB_NAME];

	if (spoke_open(hub, spoke, join->rank, r)) {
		gw_rendezvous_close(r);
		return hub_fail(hub, -ENOMEM, "no memory for a connection");
	}
	spoke->process = join->process;
	spoke_name(spoke, there, sizeof(there));
	if (join->version != HUB_VERSION)
		return hub_fail(
			hub, error,
			"%s has version %u of the protocol between ranks, rank 0 has version %u: install the same Godwit everywhere",
			there, join->version, HUB_VERSION);
	if (join->size != hub->size)
		return hub_fail(
			hub, error,
			"%s was started as one of %u ranks, rank 0 as one of %u: are there two jobs on this port?",
			there, join->size, hub->size);
	if (error == -EPROTO)
		return hub_fail(hub, error,
				"%s was opened with %s, rank 0 with %s: all ranks need the same",
				there, join->settings, m->settings);
	return hub_fail(hub, error, "rank %u came twice: %s, and %s", join->rank,
			spoke_name(&hub->spokes[join->rank], here, sizeof(here)), there);
}

static int welcome(struct meeting *m, const struct hub_record_join *join, struct gw_rendezvous *r)
{
	uint64_t now = clock_now_ns();
	uint64_t left_ms = m->deadline > now ? (m->deadline - now) / NS_PER_MS : 0;
	struct hub *hub = m->hub;
	struct spoke *spoke = &hub->spokes[join->rank];
	uint8_t process[4];

	if (spoke_open(hub, spoke, join->rank, r)) {
		gw_rendezvous_close(r);
		return hub_fail(hub, -ENOMEM, "no memory for a connection");
	}
	spoke->process = join->process;
	spoke->owed = HUB_HEADER + HUB_JOIN_BYTES + (uint32_t)strlen(join->settings);
	m->missing--;
	hub_record_put32(process, (uint32_t)getpid());
	if (spoke_post_record(hub, spoke, HUB_JOINED,
			      left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ms, process,
			      sizeof(process)))
		return hub_fail(hub, -ENOMEM, "no memory for a connection");
	return 0;
}

/* Accepts everybody who is there. */
static int receive_guests(struct meeting *m)
{
	struct gw_rendezvous *r;
	int rc;

	while ((rc = gw_rendezvous_try_accept(m->listener, &r)) == 0) {
		struct gw_rendezvous_message message;
		struct hub_record_join join;

		if (gw_rendezvous_try_recv(r, &message) ||
		    hub_record_decode_join(message.data, message.length, &join)) {
			note_refused(m, gw_rendezvous_remote(r), "it sent no rank");
			gw_rendezvous_listener_refuse(m->listener, r,
						      "ranks of a communicator meet here");
			continue;
		}
		if (join.version != HUB_VERSION || join.size != m->hub->size)
			return turn_away(m, &join, r, -EPROTO);
		if (join.rank == 0 || join.rank >= m->hub->size) {
			note_refused(m, gw_rendezvous_remote(r), "there is no such rank");
			gw_rendezvous_listener_refuse(m->listener, r, "there is no such rank");
			continue;
		}
		if (m->hub->spokes[join.rank].r)
			rc = turn_away(m, &join, r, -EEXIST);
		else if (strcmp(join.settings, m->settings) != 0)
			rc = turn_away(m, &join, r, -EPROTO);
		else
			rc = welcome(m, &join, r);
		if (rc)
			return rc;
	}
	return rc == -EAGAIN ? 0 : hub_fail(m->hub, rc, "%s", gw_rendezvous_error());
}

/* Nobody has anything to say before the start. */
static int early_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record)
{
	return -EPROTO;
}

static void early_end(struct hub *hub, struct spoke *spoke, int error)
{
	char why[HUB_WHY];

	hub_explain_end(hub, spoke, error, why);
	spoke_close(hub, spoke);
	hub->status = error;
	hub_fail(hub, error, "%.200s before all %u ranks had come", why, hub->size);
}

static int await_all(struct meeting *m)
{
	struct hub *hub = m->hub;
	char missing[RANKS_TEXT];

	for (;;) {
		int rc = receive_guests(m);

		if (rc)
			return rc;
		hub_turn(hub);
		if (hub->status || !m->missing)
			return hub->status;
		rc = hub_sleep(hub, m->deadline);
		if (rc == -ETIMEDOUT) {
			ranks_text(is_missing, hub, hub->size, missing);
			return hub_fail(hub, rc, "%s of %u did not come within %g s%s", missing,
					hub->size, (double)m->meet_ns / 1e9, m->refused);
		}
		if (rc)
			return hub_fail(hub, rc,
					"rank 0 was interrupted while it waited for others");
	}
}

/* ---- how it ends ------------------------------------------------------------------------------------------------ */

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* A rank on the host of rank 0 may have come over its loopback interface: to other hosts it has the address of rank 0, which is
 * the one that the first of them reached. */
static void know_addresses(struct hub *hub)
{
	const char *own = gw_rendezvous_local(hub->spokes[1].r);

	for (uint32_t rank = 1; rank < hub->size; rank++) {
		if (!is_loopback(hub->spokes[rank].address)) {
			own = gw_rendezvous_local(hub->spokes[rank].r);
			break;
		}
	}
	snprintf(hub->addresses[0], SPOKE_ADDRESS, "%s", own);
	for (uint32_t rank = 1; rank < hub->size; rank++) {
		const char *seen = hub->spokes[rank].address;

		snprintf(hub->addresses[rank], SPOKE_ADDRESS, "%s", is_loopback(seen) ? own : seen);
	}
}

static int tell_all(struct hub *hub, uint16_t kind, uint32_t number, const void *data,
		    size_t length)
{
	struct letter *letter = letter_new(kind, number, data, length);
	int rc = letter ? 0 : -ENOMEM;

	/* A rank stops to read there, until its owner makes progress. */
	if (letter)
		letter->last = kind == HUB_START;

	for (uint32_t i = 1; i < hub->spoke_count && rc == 0; i++)
		rc = spoke_post(hub, &hub->spokes[i], letter);
	if (letter)
		letter_release(hub, letter);
	return rc ? hub_fail(hub, rc, "no memory for the mail") : 0;
}

/* The longest of all connections: where ranks are in two places, it is that between these. */
static void know_rtt(struct hub *hub)
{
	for (uint32_t rank = 1; rank < hub->size; rank++) {
		uint64_t us = gw_rendezvous_rtt_ns(hub->spokes[rank].r) / 1000;

		if (us > hub->rtt_us)
			hub->rtt_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
	}
}

static bool anything_waits(const struct hub *hub)
{
	for (uint32_t rank = 1; rank < hub->size; rank++) {
		if (hub->spokes[rank].r && hub->spokes[rank].count)
			return true;
	}
	return false;
}

/* The addresses of many ranks are more than a connection takes before they are read. Rank 0 may compute before it makes progress again,
 * and the others would wait. */
static int await_credit(struct hub *hub, uint64_t deadline_ns)
{
	hub_flush(hub);
	while (!hub->status && anything_waits(hub) && hub_sleep(hub, deadline_ns) != -ETIMEDOUT)
		hub_turn(hub);
	return hub->status;
}

static int start(struct hub *hub, uint64_t deadline_ns)
{
	uint8_t data[HUB_DATA_MAX];
	uint32_t first = 0;
	size_t used = 0;
	int rc = 0;

	know_addresses(hub);
	know_rtt(hub);
	for (uint32_t rank = 0; rank < hub->size && rc == 0; rank++) {
		size_t length = strlen(hub->addresses[rank]) + 1;

		if (used + length > sizeof(data)) {
			rc = tell_all(hub, HUB_ADDRESSES, first, data, used);
			first = rank;
			used = 0;
		}
		memcpy(data + used, hub->addresses[rank], length);
		used += length;
	}
	if (rc == 0)
		rc = tell_all(hub, HUB_ADDRESSES, first, data, used);
	if (rc == 0)
		rc = await_credit(hub, deadline_ns);
	if (rc == 0)
		rc = tell_all(hub, HUB_START, hub->rtt_us, NULL, 0);
	hub->record = hub_root_record;
	hub->broken = hub_root_broken;
	hub_flush(hub);
	return rc;
}

static void leave(struct hub *hub, struct spoke *spoke, int error)
{
	spoke_close(hub, spoke);
}

static bool anybody(const struct hub *hub)
{
	for (uint32_t i = 1; i < hub->spoke_count; i++) {
		if (hub->spokes[i].r)
			return true;
	}
	return false;
}

/* Tells everybody, and waits until they have hung up: to close first might reset connections before the sentence was read. */
static void call_off(struct hub *hub, int error)
{
	uint64_t deadline = clock_now_ns() + HUB_CLOSE_NS;

	hub->broken = leave;
	tell_all(hub, HUB_FAIL, (uint32_t)-error, hub->why, strlen(hub->why));
	hub_flush(hub);
	while (anybody(hub) && hub_sleep(hub, deadline) != -ETIMEDOUT)
		hub_turn(hub);
}

int hub_root_meet(struct hub *hub, const struct hub_attr *attr)
{
	struct meeting m = { .hub = hub,
			     .meet_ns = attr->meet_ns,
			     .deadline = clock_now_ns() + attr->meet_ns,
			     .settings = attr->settings ? attr->settings : "",
			     .missing = hub->size - 1 };
	struct gw_rendezvous_attr listening = { .bind = attr->bind,
						.port = attr->port,
						.service = HUB_ROOT_SERVICE,
						.peer_service = HUB_SERVICE,
						.secret_file = attr->secret_file,
						.silence_ns = attr->peer_timeout_ns,
						.ignored = note_refused,
						.arg = &m };
	struct epoll_event event = { .events = EPOLLIN };
	int rc = make_room(hub);

	if (rc)
		return rc;
	rc = gw_rendezvous_listen(&listening, &m.listener);
	if (rc)
		return hub_fail(hub, rc, "rank 0 cannot wait for others: %s",
				gw_rendezvous_error());
	hub->record = early_record;
	hub->broken = early_end;
	rc = epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, gw_rendezvous_listener_fd(m.listener), &event);
	rc = rc ? hub_fail(hub, -errno, "cannot watch a port: %s", strerror(errno)) : await_all(&m);
	if (rc == 0)
		rc = start(hub, m.deadline);
	if (rc)
		call_off(hub, rc);
	/* Closing it takes it out of the epoll set. Connections that it still tells why they are refused end here. */
	gw_rendezvous_listener_close(m.listener);
	return rc;
}
