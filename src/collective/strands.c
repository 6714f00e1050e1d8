/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that share the operations of a communicator. */
#include "collective/strands.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/multicast.h"
#include "collective/reduce.h"

/* Elements at whose multiples parts begin: two threads do not write the same cache line of an aligned buffer. */
#define PART_ALIGN 64
/* Sleep at most while threads close: a nudge ends it earlier. */
#define CLOSE_TURN_NS UINT64_C(100000000)

struct strand {
	struct gw_comm *comm;
	struct strands *all;
	pthread_t thread;
	/* parts that were handed over, the last one first */
	struct part *_Atomic posted;
	atomic_bool stop;
	/* the caller's communicator has failed, and its reason can be read */
	atomic_bool failed;
};

struct strands {
	/* the caller's */
	struct gw_comm *comm;
	uint32_t count;
	/* threads that were started */
	uint32_t started;
	/* strands were told that `comm` has failed */
	bool told;
	/* a strand has failed first; its status, once `error` can be read */
	atomic_bool failing;
	atomic_int status;
	char error[SENTENCE_MAX];
	/* threads may close their communicators: nobody wakes these any more */
	pthread_mutex_t lock;
	pthread_cond_t closing;
	bool may_close;
	/* status and error of `comm` then */
	int end_status;
	char end_error[SENTENCE_MAX];
	/* threads that have closed theirs */
	_Atomic uint32_t closed;
	struct strand strand[];
};

/* Has the caller's communicator look for parts that ended, also if its thread sleeps. */
static void nudge(const struct strands *all)
{
	uint64_t one = 1;
	ssize_t ignored = write(all->comm->office->wake_fd, &one, sizeof(one));

	(void)ignored;
}

static void part_ended(struct strand *strand, struct part *part, int status)
{
	struct strands *all = strand->all;
	struct parts *parts = part->parts;

	if (status) {
		atomic_store(&parts->status, status);
		if (!atomic_exchange(&all->failing, true)) {
			snprintf(all->error, sizeof(all->error), "%s", gw_comm_error(strand->comm));
			atomic_store(&all->status, status);
		}
	}
	/* After this the parts may be gone. */
	if (atomic_fetch_sub(&parts->open, 1) == 1 || status)
		nudge(all);
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct part *part = arg;
	int status = result->status;

	gw_coll_close(coll);
	part_ended(part->strand, part, status);
}

static void post_all(struct strand *strand)
{
	struct part *part = atomic_exchange(&strand->posted, NULL), *next, *first = NULL;

	for (; part; part = next) {
		next = part->next;
		part->next = first;
		first = part;
	}
	for (part = first; part; part = next) {
		struct gw_coll *coll;
		int error;

		next = part->next;
		error = coll_submit(strand->comm, part->operation, &part->attr, part->stride, NULL,
				    &coll);
		if (error)
			part_ended(strand, part, error);
	}
}

static void close_one(struct strand *strand)
{
	const struct strands *all = strand->all;

	if (all->end_status)
		comm_fail(strand->comm, false, all->end_status, "%s", all->end_error);
	gw_comm_close(strand->comm);
}

static void *serve(void *arg)
{
	struct strand *strand = arg;
	const struct gw_comm *whole = strand->all->comm;

	while (!atomic_load(&strand->stop)) {
		post_all(strand);
		if (atomic_load(&strand->failed))
			comm_fail(strand->comm, true, whole->status, "%s", whole->error);
		gw_comm_serve(strand->comm, UINT64_MAX);
	}
	post_all(strand);
	pthread_mutex_lock(&strand->all->lock);
	while (!strand->all->may_close)
		pthread_cond_wait(&strand->all->closing, &strand->all->lock);
	pthread_mutex_unlock(&strand->all->lock);
	close_one(strand);
	atomic_fetch_add(&strand->all->closed, 1);
	nudge(strand->all);
	return NULL;
}

static int start(struct strand *strand)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&strand->thread, NULL, serve, strand);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

int strands_open(struct gw_comm *comm, uint32_t count, const struct gw_comm_attr *attr,
		 int (*open)(const struct gw_comm_attr *attr, struct gw_comm **out))
{
	struct strands *all = calloc(1, sizeof(*all) + count * sizeof(all->strand[0]));
	int error = 0;

	if (!all)
		return -ENOMEM;
	all->comm = comm;
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->closing, NULL);
	comm->strands = all;
	for (; all->count < count && !error; all->count += !error) {
		all->strand[all->count].all = all;
		error = open(attr, &all->strand[all->count].comm);
	}
	for (; all->started < all->count && !error; all->started += !error)
		error = start(&all->strand[all->started]);
	return error;
}

void strands_close(struct gw_comm *comm)
{
	struct strands *all = comm->strands;

	if (!all)
		return;
	strands_turn(comm);
	for (uint32_t i = 0; i < all->started; i++) {
		atomic_store(&all->strand[i].stop, true);
		gw_comm_wake(all->strand[i].comm);
	}
	all->told = true;
	all->end_status = comm->status;
	memcpy(all->end_error, comm->error, sizeof(all->end_error));
	pthread_mutex_lock(&all->lock);
	all->may_close = true;
	pthread_cond_broadcast(&all->closing);
	pthread_mutex_unlock(&all->lock);
	/* Meanwhile the mail of `comm` goes on: other ranks may wait for letters that pass here, and do not close their threads' before. */
	while (atomic_load(&all->closed) < all->started)
		if (gw_comm_wait(comm, CLOSE_TURN_NS) < 0)
			usleep(1000);
	for (uint32_t i = 0; i < all->started; i++)
		pthread_join(all->strand[i].thread, NULL);
	for (uint32_t i = all->started; i < all->count; i++)
		close_one(&all->strand[i]);
	pthread_cond_destroy(&all->closing);
	pthread_mutex_destroy(&all->lock);
	strands_turn(comm);
	comm->strands = NULL;
	free(all);
}

bool strands_share(const struct gw_comm *comm, enum operation operation,
		   const struct gw_coll_attr *attr)
{
	uint64_t unit, blocks = operation_has_blocks(operation) ? comm->size : 1;

	if (!comm->strands || operation == OPERATION_BARRIER || !attr)
		return false;
	/* It sends several blocks in one message, which are not beside each other in a part. */
	if (blocks > 1 && attr->algorithm == GW_ALGORITHM_DOUBLING)
		return false;
	unit = reduce_size(attr->type);
	return unit && attr->count <= UINT64_MAX / 2 / unit / blocks &&
	       attr->count * unit * blocks >= STRAND_BYTES * (comm->strands->count + 1);
}

/* The elements `from` to `to` of each block. */
static struct gw_coll_attr range(const struct gw_coll_attr *attr, uint64_t from, uint64_t to)
{
	struct gw_coll_attr part = *attr;
	uint64_t offset = from * reduce_size(attr->type);

	part.count = to - from;
	part.send = attr->send ? (const uint8_t *)attr->send + offset : NULL;
	part.recv = attr->recv ? (uint8_t *)attr->recv + offset : NULL;
	return part;
}

static void hand_over(struct strand *strand, struct part *part)
{
	part->next = atomic_load(&strand->posted);
	while (!atomic_compare_exchange_weak(&strand->posted, &part->next, part))
		;
	gw_comm_wake(strand->comm);
}

int strands_submit(struct gw_comm *comm, enum operation operation, const struct gw_coll_attr *attr,
		   struct gw_coll **out)
{
	struct strands *all = comm->strands;
	uint64_t stride =
		operation_has_blocks(operation) ? attr->count * reduce_size(attr->type) : 0;
	uint64_t each = attr->count / (all->count + 1) / PART_ALIGN * PART_ALIGN;
	struct gw_coll_attr own = range(attr, all->count * each, attr->count);
	int error = coll_check_buffers(comm, operation, attr);
	struct parts *parts;

	if (error)
		return error;
	parts = calloc(1, sizeof(*parts) + all->count * sizeof(parts->part[0]));
	if (!parts)
		return -ENOMEM;
	atomic_store(&parts->open, all->count);
	error = coll_submit(comm, operation, &own, stride, parts, out);
	if (error)
		return error;
	for (uint32_t i = 0; i < all->count; i++) {
		struct part *part = &parts->part[i];

		*part = (struct part){ .strand = &all->strand[i],
				       .parts = parts,
				       .operation = operation,
				       .attr = range(attr, i * each, (i + 1) * each),
				       .stride = stride };
		/* Registrations are those of the caller's communicator. */
		part->attr.send_mr = part->attr.recv_mr = NULL;
		part->attr.done = done;
		part->attr.arg = part;
		hand_over(&all->strand[i], part);
	}
	return 0;
}

int strands_turn(struct gw_comm *comm)
{
	struct strands *all = comm->strands;
	struct list *node, *next;
	int status, count = 0;

	if (!all)
		return 0;
	status = atomic_load(&all->status);
	if (status && !comm->status)
		comm_fail(comm, true, status, "%s", all->error);
	if (comm->status && !all->told) {
		all->told = true;
		for (uint32_t i = 0; i < all->started; i++) {
			atomic_store(&all->strand[i].failed, true);
			gw_comm_wake(all->strand[i].comm);
		}
	}
	list_for_each_safe (node, next, &comm->partly) {
		struct gw_coll *coll = container_of(node, struct gw_coll, node);

		if (parts_open(coll))
			continue;
		status = coll->result.status ? coll->result.status
					     : atomic_load(&coll->parts->status);
		list_del(&coll->node);
		coll_over(coll, status);
		count++;
	}
	return count;
}
