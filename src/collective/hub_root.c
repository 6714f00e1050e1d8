/* SPDX-License-Identifier: BSD-3-Clause */
/* Mail at rank 0: letters to itself, letters between others, and the ends of other ranks, of which it tells all. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "collective/hub_private.h"

/* Bytes of letters of rank 0 itself that may wait. To write to all 4096 ranks counts as 32 KiB. */
#define OWN_CUSTODY (4 * 1024 * 1024)
/* Part of the time of closing in which the others say goodbye first; after that rank 0 does. */
#define OTHERS_FIRST_NS (HUB_CLOSE_NS * 7 / 10)

/* Queues a letter for a rank, or for every rank but its sender. Without memory for its mail, a rank is lost. */
static void post(struct hub *hub, uint32_t to, uint32_t from, struct letter *letter)
{
	uint32_t first = to == MAIL_ALL ? 1 : to, last = to == MAIL_ALL ? hub->size - 1 : to;

	for (uint32_t rank = first; rank <= last; rank++) {
		if (rank != from && spoke_post(hub, &hub->spokes[rank], letter))
			hub_root_broken(hub, &hub->spokes[rank], -ENOMEM);
	}
}

/* What a letter costs its sender while it waits: its bytes, and a place in each queue. */
static uint32_t cost_of(const struct hub *hub, uint32_t to, size_t length)
{
	size_t copies = to == MAIL_ALL ? hub->size : 1;

	return (uint32_t)(sizeof(struct letter) + length + copies * sizeof(struct letter *));
}

static int relay(struct hub *hub, struct spoke *sender, uint32_t to,
		 const struct hub_record *record)
{
	struct letter *letter = letter_new(HUB_LETTER, sender->rank, record->data, record->length);

	if (!letter)
		return -ENOMEM;
	letter->cost = cost_of(hub, to, record->length);
	letter->custody = &sender->custody;
	letter->sender = sender;
	sender->custody += letter->cost;
	post(hub, to, sender->rank, letter);
	letter_release(hub, letter);
	return 0;
}

/* Tells all ranks something of one of them. */
static void spread(struct hub *hub, uint16_t kind, uint32_t rank, const char *text)
{
	struct letter *letter = letter_new(kind, rank, text, strlen(text));

	if (!letter)
		return;
	post(hub, MAIL_ALL, rank, letter);
	letter_release(hub, letter);
}

static void goodbye(struct hub *hub, struct spoke *spoke)
{
	uint32_t rank = spoke->rank;

	spoke_close(hub, spoke);
	spread(hub, HUB_LEFT, rank, "");
	if (!hub->closing)
		hub->mail.handler->left(hub->mail.arg, rank);
}

int hub_root_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record)
{
	uint32_t to = record->number;

	if (record->kind == HUB_GOODBYE) {
		goodbye(hub, spoke);
		return 0;
	}
	if (record->kind != HUB_LETTER || to == spoke->rank || (to >= hub->size && to != MAIL_ALL))
		return -EPROTO;
	if ((to == 0 || to == MAIL_ALL) && !hub->closing)
		hub->mail.handler->letter(hub->mail.arg, spoke->rank, record->data, record->length);
	return to == 0 ? 0 : relay(hub, spoke, to, record);
}

void hub_root_broken(struct hub *hub, struct spoke *spoke, int error)
{
	uint32_t rank = spoke->rank;
	char why[HUB_WHY];

	hub_explain_end(hub, spoke, error, why);
	spoke_close(hub, spoke);
	spread(hub, HUB_LOST, rank, why);
	if (!hub->closing)
		hub->mail.handler->lost(hub->mail.arg, rank, why);
}

int hub_root_send(struct hub *hub, uint32_t to, const void *data, size_t length)
{
	struct letter *letter;

	if (hub->custody > OWN_CUSTODY)
		return -ENOBUFS;
	letter = letter_new(HUB_LETTER, 0, data, length);
	if (!letter)
		return -ENOMEM;
	letter->cost = cost_of(hub, to, length);
	letter->custody = &hub->custody;
	hub->custody += letter->cost;
	post(hub, to, 0, letter);
	letter_release(hub, letter);
	return 0;
}

static bool anybody(const struct hub *hub)
{
	for (uint32_t rank = 1; rank < hub->size; rank++) {
		if (hub->spokes[rank].r)
			return true;
	}
	return false;
}

static void serve_until(struct hub *hub, uint64_t deadline_ns)
{
	hub_flush(hub);
	while (anybody(hub) && hub_sleep(hub, deadline_ns) != -ETIMEDOUT)
		hub_turn(hub);
}

/* Relays until every rank has said goodbye, or for a while; then tells those that are left. They hang up when they read that. */
void hub_root_goodbye(struct hub *hub)
{
	uint64_t now = clock_now_ns();

	serve_until(hub, now + OTHERS_FIRST_NS);
	for (uint32_t rank = 1; rank < hub->size; rank++) {
		struct spoke *spoke = &hub->spokes[rank];

		spoke->leaving = true;
		spoke_flush(hub, spoke);
	}
	serve_until(hub, now + HUB_CLOSE_NS);
	for (uint32_t rank = 1; rank < hub->size; rank++) {
		struct spoke *spoke = &hub->spokes[rank];

		/* Without credit the letters could not go; the goodbye needs none. */
		spoke_drop_queue(hub, spoke);
		spoke_flush(hub, spoke);
	}
}
