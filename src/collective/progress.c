/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of communicators, and waiting for it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collective/comm.h"

/* How often the mail is looked at while there is other work: it costs a system call. */
#define MAIL_INTERVAL_NS UINT64_C(100000)
/* Turns of progress at most between the end of an operation and the return to the caller. */
#define SETTLE_TURNS 8

static int look_at_mail(struct office *office)
{
	uint64_t now = gw_now_ns(office->ctx);
	int count;

	if (now - office->mail_seen_ns < MAIL_INTERVAL_NS)
		return 0;
	count = office->mail->ops->progress(office->mail, now);
	/* More may be there. */
	office->mail_seen_ns = count > 0 ? 0 : now;
	return count > 0 ? count : 0;
}

static int turn_all(struct office *office)
{
	struct list *node, *next;
	int count = 0;

	list_for_each_safe (node, next, &office->comms)
		count += comm_turn(container_of(node, struct gw_comm, node));
	return count;
}

int gw_comm_progress(struct gw_comm *comm)
{
	int count, more;

	if (!comm)
		return -EINVAL;
	count = gw_progress(comm->office->ctx);
	if (count < 0)
		return count;
	more = look_at_mail(comm->office);
	return count + more + turn_all(comm->office);
}

/* Sleeps until a descriptor is ready or a time has come, `until` at the latest. */
static int sleep_until(struct office *office, uint64_t until)
{
	struct pollfd fds[GW_WATCH_MAX + 2];
	uint64_t due, mail_due = office->mail->ops->deadline_ns(office->mail), now, wakes;
	int count = gw_watch(office->ctx, fds, GW_WATCH_MAX, &due), ready;
	struct timespec left;
	struct list *node;

	if (count < 0)
		return count;
	fds[count] = (struct pollfd){ .fd = office->mail->ops->fd(office->mail), .events = POLLIN };
	fds[count + 1] = (struct pollfd){ .fd = office->wake_fd, .events = POLLIN };
	if (mail_due < due)
		due = mail_due;
	list_for_each (node, &office->comms) {
		uint64_t turn = comm_deadline_ns(container_of(node, struct gw_comm, node));

		if (turn < due)
			due = turn;
	}
	if (until < due)
		due = until;
	now = gw_now_ns(office->ctx);
	due = due > now ? due - now : 0;
	left.tv_sec = (time_t)(due / 1000000000 < 3600 ? due / 1000000000 : 3600);
	left.tv_nsec = (long)(due % 1000000000);
	ready = ppoll(fds, (nfds_t)count + 2, &left, NULL);
	if (ready < 0 && errno != EINTR)
		ready = -errno;
	else if (ready < 0)
		ready = -EINTR;
	if (fds[count].revents)
		office->mail_seen_ns = 0;
	if (fds[count + 1].revents && read(office->wake_fd, &wakes, sizeof(wakes)) < 0)
		ready = ready < 0 ? ready : -errno;
	gw_watched(office->ctx, fds, (unsigned)count);
	return ready < 0 ? ready : 0;
}

int gw_comm_wait(struct gw_comm *comm, uint64_t timeout_ns)
{
	int count = gw_comm_progress(comm), error;
	uint64_t now;

	if (count || !timeout_ns)
		return count;
	now = gw_now_ns(comm->office->ctx);
	error = sleep_until(comm->office,
			    timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
	if (error)
		return error;
	return gw_comm_progress(comm);
}

/* The caller may now compute for a while: what other ranks wait for, such as the news that their messages arrived, leaves
 * before. */
static void settle(struct gw_comm *comm)
{
	for (int turn = 0; turn < SETTLE_TURNS; turn++)
		if (gw_progress(comm->office->ctx) <= 0)
			return;
}

/* Makes progress until `over`, or for so long at most. */
static int wait_until(struct gw_comm *comm, uint64_t timeout_ns,
		      bool (*over)(const struct gw_comm *comm, const void *arg), const void *arg)
{
	struct gw_context *ctx = comm->office->ctx;
	uint64_t start = gw_now_ns(ctx);

	for (;;) {
		uint64_t spent;
		int count;

		if (over(comm, arg)) {
			settle(comm);
			return 0;
		}
		spent = gw_now_ns(ctx) - start;
		if (spent >= timeout_ns)
			return -ETIMEDOUT;
		count = gw_comm_wait(comm, timeout_ns - spent);
		if (count < 0)
			return count;
	}
}

static bool has_ended(const struct gw_comm *comm, const void *arg)
{
	const struct gw_coll *coll = arg;

	(void)comm;
	return coll->ended;
}

int gw_coll_wait(struct gw_coll *coll, uint64_t timeout_ns)
{
	int error;

	if (!coll)
		return -EINVAL;
	error = wait_until(coll->comm, timeout_ns, has_ended, coll);
	return error ? error : coll->result.status;
}

static bool was_woken(const struct gw_comm *comm, const void *arg)
{
	(void)arg;
	return atomic_exchange(&comm->office->woken, false);
}

int gw_comm_serve(struct gw_comm *comm, uint64_t timeout_ns)
{
	return comm ? wait_until(comm, timeout_ns, was_woken, NULL) : -EINVAL;
}

/* The flag is set before the descriptor: a thread that finds the flag clear and then sleeps is woken. */
int gw_comm_wake(struct gw_comm *comm)
{
	uint64_t one = 1;

	if (!comm)
		return -EINVAL;
	if (atomic_exchange(&comm->office->woken, true))
		return 0;
	return write(comm->office->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN ? -errno : 0;
}

/* As wait_until(), but goes on after a signal. */
static int wait_through(struct gw_comm *comm, uint64_t timeout_ns,
			bool (*over)(const struct gw_comm *comm, const void *arg), const void *arg)
{
	struct gw_context *ctx = comm->office->ctx;
	uint64_t start = gw_now_ns(ctx), spent = 0;
	int error;

	do {
		error = wait_until(comm, timeout_ns - spent, over, arg);
		spent = gw_now_ns(ctx) - start;
	} while (error == -EINTR && spent < timeout_ns);
	return error;
}

static bool all_opened(const struct gw_comm *comm, const void *arg)
{
	(void)arg;
	return comm->status || comm->opened >= (comm->rank ? 1 : comm->size - 1);
}

int comm_await_all(struct gw_comm *comm)
{
	int error = comm->rank ? office_write(comm, 0, LETTER_OPENED, 0, NULL, 0) : 0;

	if (!error)
		error = wait_through(comm, UINT64_MAX, all_opened, NULL);
	if (!error && !comm->status && !comm->rank)
		error = office_write(comm, MAIL_ALL, LETTER_OPENED, 0, NULL, 0);
	if (!error)
		gw_comm_progress(comm);
	return comm->status ? comm->status : error;
}

static bool all_told(const struct gw_comm *comm, const void *arg)
{
	(void)arg;
	return !comm->untold;
}

static bool closing_over(const struct gw_comm *comm, const void *arg)
{
	(void)arg;
	return comm->status || coll_closing_over(comm);
}

/*
 * A barrier tells this rank that nobody needs it any more. Then it tells those whose last message was for this rank: the answer to
 * that may be lost, and nobody will repeat it.
 */
static void part(struct gw_comm *comm)
{
	comm->parting = true;
	if (comm->untold)
		wait_through(comm, comm->channel.peer_timeout_ns, all_told, NULL);
	if (comm->status || gw_barrier(comm, NULL, &comm->closing))
		return;
	if (wait_through(comm, comm->channel.peer_timeout_ns, closing_over, NULL) || comm->status)
		return;
	for (uint32_t d = 1; d < comm->size; d *= 2)
		office_write(comm, (comm->rank + comm->size - d) % comm->size, LETTER_CLOSED, 0,
			     NULL, 0);
}

int gw_comm_close(struct gw_comm *comm)
{
	struct office *office;
	bool first;

	if (!comm)
		return -EINVAL;
	office = comm->office;
	first = comm->id == COMM_FIRST;
	if (first && comm->node.next != comm->node.prev)
		return -EBUSY;
	part(comm);
	comm_destroy(comm);
	if (first)
		office_close(office);
	return 0;
}
