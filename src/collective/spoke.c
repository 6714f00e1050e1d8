/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "collective/hub_private.h"

#define HUB_MESSAGE    GW_RENDEZVOUS_KIND_MIN
#define CAPACITY_START 8

static void make_dirty(struct hub *hub, struct spoke *spoke)
{
	if (list_empty(&spoke->dirty))
		list_add_tail(&hub->dirty, &spoke->dirty);
}

/* ---- letters --------------------------------------------------------------------------------------------------- */

struct letter *letter_new(uint16_t kind, uint32_t number, const void *data, size_t length)
{
	struct hub_record record = {
		.kind = kind, .length = (uint16_t)length, .number = number, .data = data
	};
	struct letter *letter = malloc(sizeof(*letter) + HUB_HEADER + length);

	assert(length <= HUB_DATA_MAX);
	if (!letter)
		return NULL;
	*letter = (struct letter){ .references = 1, .length = (uint32_t)(HUB_HEADER + length) };
	hub_record_encode(&record, letter->bytes);
	return letter;
}

/* Whether the other end is due credit that it may have. */
static bool owes_credit(const struct spoke *spoke)
{
	return spoke->owed >= SPOKE_CREDIT_STEP && spoke->custody <= SPOKE_CUSTODY;
}

void letter_release(struct hub *hub, struct letter *letter)
{
	if (--letter->references)
		return;
	if (letter->custody)
		*letter->custody -= letter->cost;
	if (letter->sender && owes_credit(letter->sender))
		make_dirty(hub, letter->sender);
	free(letter);
}

/* ---- a spoke ---------------------------------------------------------------------------------------------------- */

int spoke_open(struct hub *hub, struct spoke *spoke, uint32_t rank, struct gw_rendezvous *r)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = spoke };
	struct letter **queue = calloc(CAPACITY_START, sizeof(struct letter *));

	if (!queue)
		return -ENOMEM;
	/* A process that is killed is noticed at once, also if it has children: workers that load data, for one. */
	if (gw_rendezvous_leave_children(r)) {
		free(queue);
		return -ENOMEM;
	}
	if (epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, gw_rendezvous_fd(r), &event)) {
		free(queue);
		return -errno;
	}
	*spoke = (struct spoke){ .r = r,
				 .rank = rank,
				 .queue = queue,
				 .capacity = CAPACITY_START,
				 .credit = SPOKE_WINDOW };
	list_init(&spoke->dirty);
	snprintf(spoke->address, sizeof(spoke->address), "%s", gw_rendezvous_remote(r));
	return 0;
}

void spoke_drop_queue(struct hub *hub, struct spoke *spoke)
{
	for (; spoke->count; spoke->count--, spoke->head++)
		letter_release(hub, spoke->queue[spoke->head & (spoke->capacity - 1)]);
}

void spoke_close(struct hub *hub, struct spoke *spoke)
{
	if (!spoke->r)
		return;
	spoke_drop_queue(hub, spoke);
	free(spoke->queue);
	spoke->queue = NULL;
	list_del(&spoke->dirty);
	/* Closing its descriptor takes it out of the epoll set. */
	gw_rendezvous_close(spoke->r);
	spoke->r = NULL;
}

static int grow(struct spoke *spoke)
{
	struct letter **queue = calloc(2 * (size_t)spoke->capacity, sizeof(struct letter *));

	if (!queue)
		return -ENOMEM;
	for (uint32_t i = 0; i < spoke->count; i++)
		queue[i] = spoke->queue[(spoke->head + i) & (spoke->capacity - 1)];
	free(spoke->queue);
	spoke->queue = queue;
	spoke->head = 0;
	spoke->capacity *= 2;
	return 0;
}

int spoke_post(struct hub *hub, struct spoke *spoke, struct letter *letter)
{
	int rc = 0;

	if (!spoke->r || spoke->leaving)
		return 0;
	if (spoke->count == spoke->capacity)
		rc = grow(spoke);
	if (rc)
		return rc;
	spoke->queue[(spoke->head + spoke->count++) & (spoke->capacity - 1)] = letter;
	letter->references++;
	make_dirty(hub, spoke);
	return 0;
}

int spoke_post_record(struct hub *hub, struct spoke *spoke, uint16_t kind, uint32_t number,
		      const void *data, size_t length)
{
	struct letter *letter = letter_new(kind, number, data, length);
	int rc;

	if (!letter)
		return -ENOMEM;
	rc = spoke_post(hub, spoke, letter);
	letter_release(hub, letter);
	return rc;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static int take_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record)
{
	if (record->kind == HUB_CREDIT) {
		if (record->number > SPOKE_WINDOW - spoke->credit)
			return -EPROTO;
		spoke->credit += record->number;
		return 0;
	}
	spoke->owed += HUB_HEADER + record->length;
	return spoke->owed > SPOKE_WINDOW + HUB_HEADER ? -EPROTO : hub->record(hub, spoke, record);
}

int spoke_turn(struct hub *hub, struct spoke *spoke)
{
	/* The handler may send, after which the rendezvous does not keep the message. */
	uint8_t bytes[GW_RENDEZVOUS_MESSAGE_MAX];
	struct gw_rendezvous_message message;
	struct hub_record record;
	int did = 0, rc = 0;

	while (spoke->r && rc >= 0 && !hub->held) {
		rc = gw_rendezvous_try_recv(spoke->r, &message);
		if (rc == -EAGAIN)
			break;
		if (rc == 0 && message.kind != HUB_MESSAGE)
			rc = -EPROTO;
		if (rc == 0)
			memcpy(bytes, message.data, message.length);
		for (size_t at = 0; rc >= 0 && spoke->r && at < message.length; did++) {
			rc = hub_record_decode(bytes + at, message.length - at, &record);
			at += rc < 0 ? 0 : (size_t)rc;
			rc = rc < 0 ? rc : take_record(hub, spoke, &record);
		}
	}
	if (spoke->r && rc < 0 && rc != -EAGAIN) {
		hub->broken(hub, spoke, rc);
		did++;
	} else if (spoke->r) {
		make_dirty(hub, spoke);
	}
	return did;
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

/* Fills a message with credit, letters for which there is credit, and the goodbye. */
struct batch {
	uint8_t bytes[GW_RENDEZVOUS_MESSAGE_MAX];
	size_t used;
	/* letters, and bytes of their records */
	uint32_t letters;
	uint32_t credit;
	bool goodbye;
};

static void add_plain(struct batch *batch, enum hub_record_kind kind, uint32_t number)
{
	struct hub_record record = { .kind = (uint16_t)kind, .number = number };

	batch->used += hub_record_encode(&record, batch->bytes + batch->used);
}

static void fill(const struct spoke *spoke, struct batch *batch)
{
	batch->used = batch->letters = batch->credit = 0;
	if (owes_credit(spoke))
		add_plain(batch, HUB_CREDIT, spoke->owed);
	while (batch->letters < spoke->count) {
		const struct letter *letter =
			spoke->queue[(spoke->head + batch->letters) & (spoke->capacity - 1)];

		if (batch->credit + letter->length > spoke->credit ||
		    batch->used + letter->length + HUB_HEADER > sizeof(batch->bytes))
			break;
		memcpy(batch->bytes + batch->used, letter->bytes, letter->length);
		batch->used += letter->length;
		batch->credit += letter->length;
		batch->letters++;
		if (letter->last)
			break;
	}
	batch->goodbye = spoke->leaving && batch->letters == spoke->count;
	if (batch->goodbye)
		add_plain(batch, HUB_GOODBYE, 0);
}

int spoke_flush(struct hub *hub, struct spoke *spoke)
{
	struct batch batch;
	int rc;

	while (spoke->r && !spoke->left) {
		fill(spoke, &batch);
		if (!batch.used)
			return 0;
		rc = gw_rendezvous_try_send(spoke->r, HUB_MESSAGE, batch.bytes, batch.used);
		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		if (owes_credit(spoke))
			spoke->owed = 0;
		spoke->credit -= batch.credit;
		spoke->left = batch.goodbye;
		for (; batch.letters; batch.letters--) {
			struct letter *letter = spoke->queue[spoke->head & (spoke->capacity - 1)];

			spoke->head++;
			spoke->count--;
			letter_release(hub, letter);
		}
	}
	return 0;
}

const char *spoke_name(const struct spoke *spoke, char *out, size_t size)
{
	snprintf(out, size, "rank %u (process %u on %s)", spoke->rank, spoke->process,
		 spoke->address);
	return out;
}
