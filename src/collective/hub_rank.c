/* SPDX-License-Identifier: BSD-3-Clause */
/* Mail at every rank but 0: one spoke, to rank 0. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "collective/hub_private.h"

int hub_rank_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record)
{
	const struct mail_handler *handler = hub->mail.handler;
	char why[HUB_WHY];

	if (record->kind == HUB_GOODBYE) {
		hub->ended = true;
		spoke_close(hub, spoke);
		if (!hub->closing)
			handler->left(hub->mail.arg, 0);
		return 0;
	}
	if ((record->kind != HUB_LETTER && record->kind != HUB_LOST && record->kind != HUB_LEFT) ||
	    record->number >= hub->size || record->number == hub->rank)
		return -EPROTO;
	if (hub->closing)
		return 0;
	switch (record->kind) {
	case HUB_LETTER:
		handler->letter(hub->mail.arg, record->number, record->data, record->length);
		break;
	case HUB_LEFT:
		handler->left(hub->mail.arg, record->number);
		break;
	default:
		hub_record_text(record, why, sizeof(why));
		handler->lost(hub->mail.arg, record->number, why);
		break;
	}
	return 0;
}

void hub_rank_broken(struct hub *hub, struct spoke *spoke, int error)
{
	char why[HUB_WHY];

	hub_explain_end(hub, spoke, error, why);
	spoke_close(hub, spoke);
	hub->status = error;
	if (!hub->closing)
		hub->mail.handler->lost(hub->mail.arg, 0, why);
}

int hub_rank_send(struct hub *hub, uint32_t to, const void *data, size_t length)
{
	struct letter *letter;
	int rc;

	if (hub->custody > SPOKE_CUSTODY)
		return -ENOBUFS;
	letter = letter_new(HUB_LETTER, to, data, length);
	if (!letter)
		return -ENOMEM;
	letter->cost = (uint32_t)(sizeof(*letter) + length);
	letter->custody = &hub->custody;
	hub->custody += letter->cost;
	rc = spoke_post(hub, &hub->spokes[0], letter);
	letter_release(hub, letter);
	return rc;
}

/* The goodbye follows what waits. Rank 0 hangs up when it has read it: before that, to close with something unread would reset
 * the connection, and letters with it. */
void hub_rank_goodbye(struct hub *hub)
{
	struct spoke *spoke = &hub->spokes[0];
	uint64_t deadline = clock_now_ns() + HUB_CLOSE_NS;

	spoke->leaving = true;
	spoke_flush(hub, spoke);
	while (spoke->r && hub_sleep(hub, deadline) != -ETIMEDOUT)
		hub_turn(hub);
	/* Without credit the letters could not go; the goodbye needs none. */
	if (spoke->r && !spoke->left) {
		spoke_drop_queue(hub, spoke);
		spoke_flush(hub, spoke);
	}
}
