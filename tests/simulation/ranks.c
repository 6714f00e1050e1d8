/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated ranks, and the mail between them. */
#include "simulation/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Time between two looks at all communicators. */
#define TURN_NS UINT64_C(1000000)

struct post {
	struct list node;
	uint64_t due_ns;
	uint32_t from;
	uint32_t to;
	/* the loss of `from`, not a letter */
	bool lost;
	size_t length;
	uint8_t data[];
};

static struct post *post_at(struct list *node)
{
	return container_of(node, struct post, node);
}

/* A letter arrives after those that the same rank sent to the same rank before. */
static int put(struct ranks *ranks, uint32_t from, uint32_t to, bool lost, const void *data,
	       size_t length)
{
	struct post *post = malloc(sizeof(*post) + length);
	uint64_t due = ranks_now(ranks) + rng_below(&ranks->rng, ranks->mail_ns + 1);
	struct list *node, *after = ranks->letters.prev;

	if (!post)
		return -ENOMEM;
	list_for_each (node, &ranks->letters)
		if (post_at(node)->from == from && post_at(node)->to == to &&
		    post_at(node)->due_ns > due)
			due = post_at(node)->due_ns;
	*post = (struct post){
		.due_ns = due, .from = from, .to = to, .lost = lost, .length = length
	};
	if (length)
		memcpy(post->data, data, length);
	while (after != &ranks->letters && post_at(after)->due_ns > due)
		after = after->prev;
	list_add_head(after, &post->node);
	ranks->rank[from].mail.waiting++;
	return 0;
}

static int mail_send(struct mail *mail, uint32_t to, const void *data, size_t length)
{
	struct sim_mail *own = (struct sim_mail *)mail;
	struct ranks *ranks = own->ranks;
	int error = 0;

	if (length > MAIL_MAX)
		return -EMSGSIZE;
	if (ranks->mail_room && own->waiting >= ranks->mail_room) {
		ranks->mail_full++;
		return -ENOBUFS;
	}
	if (to != MAIL_ALL)
		return put(ranks, own->rank, to, false, data, length);
	for (uint32_t r = 0; r < ranks->size && !error; r++)
		if (r != own->rank)
			error = put(ranks, own->rank, r, false, data, length);
	return error;
}

static int mail_progress(struct mail *mail, uint64_t now_ns)
{
	(void)mail;
	(void)now_ns;
	return 0;
}

static int mail_fd(const struct mail *mail)
{
	(void)mail;
	return -1;
}

static uint64_t mail_deadline_ns(const struct mail *mail)
{
	(void)mail;
	return UINT64_MAX;
}

static const char *mail_address(const struct mail *mail, uint32_t rank)
{
	(void)mail;
	(void)rank;
	return "";
}

static uint64_t mail_rtt_ns(const struct mail *mail)
{
	return ((const struct sim_mail *)mail)->ranks->rtt_ns;
}

static void mail_close(struct mail *mail)
{
	(void)mail;
}

static const struct mail_ops mail_ops = { mail_send,	mail_progress, mail_fd,	  mail_deadline_ns,
					  mail_address, mail_rtt_ns,   mail_close };

uint64_t ranks_now(const struct ranks *ranks)
{
	return sim_now_ns(ranks->world.sim);
}

void ranks_close(struct ranks *ranks)
{
	ranks->world.ran = NULL;
	for (uint32_t r = 0; r < ranks->size; r++) {
		if (ranks->rank[r].comm)
			comm_destroy(ranks->rank[r].comm);
		office_free(&ranks->rank[r].office);
	}
	while (!list_empty(&ranks->letters)) {
		struct post *post = post_at(ranks->letters.next);

		list_del(&post->node);
		free(post);
	}
	world_close(&ranks->world);
	free(ranks->rank);
}

static void turn(void *arg, uint32_t rank);

int ranks_open(struct ranks *ranks, const struct ranks_attr *attr)
{
	struct gw_comm_attr comm = attr->comm;
	int error;

	*ranks = (struct ranks){ .size = attr->shape.hosts,
				 .mail_ns = attr->mail_ns,
				 .mail_room = attr->mail_room,
				 .rtt_ns = attr->rtt_ns };
	list_init(&ranks->letters);
	rng_seed(&ranks->rng, attr->seed);
	ranks->rank = calloc(ranks->size, sizeof(*ranks->rank));
	if (!ranks->rank)
		return -ENOMEM;
	error = world_open(&ranks->world, &attr->sim, &attr->shape, &attr->host, &attr->context);
	if (error) {
		free(ranks->rank);
		return error;
	}
	for (uint32_t r = 0; r < ranks->size; r++)
		office_init(&ranks->rank[r].office, ranks->world.hosts[r].ctx);
	for (uint32_t r = 0; r < ranks->size && !error; r++) {
		struct rank *rank = &ranks->rank[r];

		rank->mail.mail.ops = &mail_ops;
		rank->mail.mail.handler = &office_mail;
		rank->mail.mail.arg = &rank->office;
		rank->mail.ranks = ranks;
		rank->mail.rank = r;
		rank->office.mail = &rank->mail.mail;
		comm.rank = r;
		comm.size = ranks->size;
		error = comm_create(&rank->office, &comm, COMM_FIRST, NULL, &rank->comm);
	}
	ranks->world.ran = turn;
	ranks->world.arg = ranks;
	if (error)
		ranks_close(ranks);
	return error;
}

static void arrive(struct ranks *ranks, struct post *post)
{
	struct rank *rank = &ranks->rank[post->to];

	ranks->rank[post->from].mail.waiting--;
	if (ranks->mail_room)
		ranks_touch(ranks, post->from);
	if (rank->dead)
		return;
	if (post->lost)
		rank->mail.mail.handler->lost(rank->mail.mail.arg, post->from, "it was killed");
	else
		rank->mail.mail.handler->letter(rank->mail.mail.arg, post->from, post->data,
						post->length);
	ranks_touch(ranks, post->to);
}

static void turn(void *arg, uint32_t rank)
{
	struct ranks *ranks = arg;

	if (ranks->rank[rank].comm && comm_turn(ranks->rank[rank].comm))
		ranks_touch(ranks, rank);
}

/* When a communicator has something to do although nothing happens; for those who ask (`timed`), as it is looked for after every event. */
static uint64_t turn_due(const struct ranks *ranks)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t r = 0; ranks->timed && r < ranks->size; r++) {
		uint64_t due =
			ranks->rank[r].comm ? comm_deadline_ns(ranks->rank[r].comm) : UINT64_MAX;

		first = due < first ? due : first;
	}
	return first;
}

/* A communicator waits for its host's turn, or for a time. It is the latter that is looked for here, now and then: with a thousand ranks,
 * to look at all of them after every event takes most of the time. */
static void turn_all(struct ranks *ranks)
{
	if (ranks_now(ranks) - ranks->turned_ns < TURN_NS && turn_due(ranks) > ranks_now(ranks))
		return;
	ranks->turned_ns = ranks_now(ranks);
	for (uint32_t r = 0; r < ranks->size; r++)
		turn(ranks, r);
}

bool ranks_step(struct ranks *ranks, uint64_t until_ns)
{
	uint64_t due =
		list_empty(&ranks->letters) ? UINT64_MAX : post_at(ranks->letters.next)->due_ns;
	uint64_t turn;
	bool any;

	if (due <= ranks_now(ranks)) {
		struct post *post = post_at(ranks->letters.next);

		list_del(&post->node);
		arrive(ranks, post);
		free(post);
		turn_all(ranks);
		return true;
	}
	turn = turn_due(ranks);
	due = turn < due ? turn : due;
	any = world_step(&ranks->world, due < until_ns ? due : until_ns);
	turn_all(ranks);
	return any || due <= until_ns;
}

void ranks_kill(struct ranks *ranks, uint32_t rank)
{
	struct rank *own = &ranks->rank[rank];

	if (own->dead)
		return;
	own->dead = true;
	sim_kill(ranks->world.sim, rank);
	comm_destroy(own->comm);
	own->comm = NULL;
	world_kill(&ranks->world, rank);
	for (uint32_t r = 0; r < ranks->size; r++)
		if (r != rank)
			put(ranks, rank, r, true, NULL, 0);
}

void ranks_touch(struct ranks *ranks, uint32_t rank)
{
	if (!ranks->rank[rank].dead)
		world_touch(&ranks->world, rank);
}
