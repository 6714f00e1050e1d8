/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_fabric.h: a fabric made of the fuzzer's bytes.
 *
 * It carries nothing. What a peer sends is put into its queue by the fuzzer and handed over by the next poll; windows open
 * and close and writes are done with when the fuzzer says so. Meanwhile it holds the message layer to the contract of
 * fabric.h: a slot is exposed, cut to smaller packets and fenced in turn, a write stays inside a granted buffer and inside
 * registered memory, a control datagram is one that a peer's decoder accepts, and a grant names the window as it is.
 */
#ifndef TESTS_FUZZ_MESSAGE_FABRIC_H
#define TESTS_FUZZ_MESSAGE_FABRIC_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "wire/control.h"

#define FAKE_SLOTS  8
#define FAKE_GRANTS 512
#define FAKE_MEMORY (1u << 16)
/* The first key that a window has; each one later is higher by one. */
#define FAKE_KEYS 0x10000u

enum fake_window_state { WINDOW_NONE, WINDOW_OPENING, WINDOW_OPEN, WINDOW_CLOSING };

struct fake_window {
	enum fake_window_state state;
	const void *addr;
	uint32_t generation;
	uint32_t payload;
	uint32_t rkey;
};

struct fabric_qp {
	struct fake *fake;
	void *user;
	uint32_t number; /* as many were made before */
	uint32_t slots;
	struct fake_window windows[FAKE_SLOTS];
	uint64_t written; /* packets */
	uint64_t flushed; /* of which the memory is no longer read */
};

struct fake {
	struct fabric fabric;
	uint64_t now_ns;
	uint32_t first_msn;
	uint32_t peer_token;
	/* Bytes of data in the largest packets, and in those that every path carries. */
	uint32_t payload;
	uint32_t floor;
	/* Keys given to windows so far. */
	uint32_t keys;
	/* SIZE messages of ours, by their kind. */
	uint32_t sizes_sent[CONTROL_SIZE_CUT + 1];
	uint32_t recuts;
	const uint8_t *memory; /* FAKE_MEMORY bytes: what sends may read */
	struct fabric_qp *qp;  /* one at a time */
	uint32_t qp_count;
	struct control_grant_entry grants[FAKE_GRANTS]; /* all that the peer ever said */
	uint32_t grant_count;
	uint32_t room; /* writes taken in one call, and whether control is */
	struct fabric_event events[FABRIC_EVENTS];
	int event_count;
	uint8_t *lent[2 * FABRIC_EVENTS]; /* datagrams, each in a block of its own size */
	int lent_count;
	int lent_before;    /* of which the last poll handed over */
	uint8_t sent[2048]; /* the latest datagram of ours */
	size_t sent_length;
};

static inline struct fake *fake_of(const struct fabric *fabric)
{
	return container_of(fabric, struct fake, fabric);
}

static void fake_close(struct fabric *fabric)
{
	struct fake *fake = fake_of(fabric);

	assert(!fake->qp);
	for (int i = 0; i < fake->lent_count; i++)
		free(fake->lent[i]);
	fake->lent_count = 0;
}

static uint64_t fake_now_ns(const struct fabric *fabric)
{
	return fake_of(fabric)->now_ns;
}

/* The token, then the first number. */
static int fake_entropy(struct fabric *fabric, void *buffer, size_t length)
{
	uint32_t values[2] = { 0x746f6b65, fake_of(fabric)->first_msn };

	assert(length == sizeof(values));
	memcpy(buffer, values, length);
	return 0;
}

static int fake_mr_register(struct fabric *fabric, void *addr, size_t length,
			    struct fabric_mr **out)
{
	(void)fabric;
	(void)addr;
	(void)length;
	*out = NULL;
	return 0;
}

static void fake_mr_deregister(struct fabric *fabric, struct fabric_mr *mr)
{
	(void)fabric;
	(void)mr;
}

static int fake_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr,
			  struct fabric_qp **out)
{
	struct fake *fake = fake_of(fabric);
	struct fabric_qp *qp = calloc(1, sizeof(*qp));

	assert(qp && !fake->qp && attr->slots <= FAKE_SLOTS);
	qp->fake = fake;
	qp->user = attr->user;
	qp->slots = attr->slots;
	qp->number = fake->qp_count++;
	fake->qp = qp;
	*out = qp;
	return 0;
}

static void fake_qp_destroy(struct fabric_qp *qp)
{
	struct fake *fake = qp->fake;

	fake->event_count = 0; /* they were all its own */
	fake->qp = NULL;
	free(qp);
}

static size_t fake_qp_address(const struct fabric_qp *qp, uint8_t *out)
{
	(void)qp;
	*out = 0;
	return 1;
}

static int fake_qp_connect(struct fabric_qp *qp, const uint8_t *address, size_t length,
			   uint32_t payload)
{
	(void)address;
	(void)length;
	qp->fake->payload = payload;
	return 0;
}

static int fake_expose(struct fabric_qp *qp, uint32_t slot, uint32_t generation,
		       struct fabric_mr *mr, void *addr, uint64_t length, uint32_t payload)
{
	struct fake_window *window;

	(void)mr;
	assert(slot < qp->slots);
	assert((uint8_t *)addr >= qp->fake->memory &&
	       (uint8_t *)addr + length <= qp->fake->memory + FAKE_MEMORY);
	assert(payload >= qp->fake->floor && payload <= qp->fake->payload && payload % 4 == 0);
	window = &qp->windows[slot];
	assert(window->state == WINDOW_NONE);
	if (!qp->fake->room)
		return -EAGAIN;
	window->state = WINDOW_OPENING;
	window->addr = addr;
	window->generation = generation;
	window->payload = payload;
	window->rkey = FAKE_KEYS + qp->fake->keys++;
	return 0;
}

static int fake_recut(struct fabric_qp *qp, uint32_t slot, uint32_t generation, uint32_t payload,
		      uint32_t *rkey)
{
	struct fake_window *window;

	assert(slot < qp->slots);
	window = &qp->windows[slot];
	assert(window->state == WINDOW_OPENING || window->state == WINDOW_OPEN);
	assert(payload == qp->fake->floor && payload < window->payload);
	assert(generation != window->generation);
	window->generation = generation;
	window->payload = payload;
	*rkey = window->rkey = FAKE_KEYS + qp->fake->keys++;
	qp->fake->recuts++;
	return 0;
}

static int fake_fence(struct fabric_qp *qp, uint32_t slot)
{
	assert(slot < qp->slots && qp->windows[slot].state == WINDOW_OPEN);
	qp->windows[slot].state = WINDOW_CLOSING;
	return 0;
}

/* Whether the peer ever granted what is about to be written. */
static bool is_granted(const struct fake *fake, const struct fabric_target *target,
		       const struct fabric_write *write)
{
	for (uint32_t i = 0; i < fake->grant_count; i++) {
		const struct control_grant_entry *grant = &fake->grants[i];
		uint64_t offset = write->va - grant->address;
		uint32_t payload = grant->payload ? grant->payload : fake->floor;

		if (grant->slot == target->slot && grant->rkey == target->rkey &&
		    grant->generation == (uint16_t)target->generation &&
		    offset == (uint64_t)write->packet * payload && write->length <= payload &&
		    offset <= grant->capacity && write->length <= grant->capacity - offset)
			return true;
	}
	return false;
}

static int fake_write(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		      const struct fabric_write *writes, unsigned count)
{
	const struct fake *fake = qp->fake;
	unsigned done = count < fake->room ? count : fake->room;

	assert(count && lane < (fake->fabric.caps.lanes ? fake->fabric.caps.lanes : 1));
	for (unsigned i = 0; i < done; i++) {
		assert(writes[i].length && writes[i].length <= fake->payload);
		assert(writes[i].data >= fake->memory &&
		       writes[i].data + writes[i].length <= fake->memory + FAKE_MEMORY);
		assert(is_granted(fake, target, &writes[i]));
	}
	qp->written += done;
	if (fake->fabric.caps.copies)
		qp->flushed = qp->written;
	return (int)done;
}

/* A grant names its window's key, generation and packets as they are now. Key 0: the receive never had a window. */
static void check_grants(const struct fabric_qp *qp, const struct control_message *message)
{
	for (unsigned i = 0; i < message->grant.count; i++) {
		struct control_grant_entry entry = control_grant_at(message, i);
		const struct fake_window *window;

		assert(entry.slot < qp->slots);
		window = &qp->windows[entry.slot];
		if (!entry.rkey)
			continue;
		assert(entry.rkey == window->rkey && entry.payload == window->payload);
		assert(entry.generation == (uint16_t)window->generation);
	}
}

static void check_size(struct fake *fake, const struct control_message *message)
{
	const struct control_size *size = &message->size;
	uint32_t lanes = fake->fabric.caps.lanes ? fake->fabric.caps.lanes : 1;

	assert(size->payload && size->payload % 4 == 0);
	fake->sizes_sent[size->kind]++;
	if (size->kind == CONTROL_SIZE_PROBE) {
		assert(size->lane < lanes && size->payload <= fake->payload);
		assert(message->header.length == size->payload + fake->fabric.caps.probe_extra);
	}
	if (size->kind == CONTROL_SIZE_CUT)
		assert(size->payload == fake->floor && fake->floor < fake->payload);
}

static int fake_control(struct fabric_qp *qp, const void *data, size_t length)
{
	struct control_message message;
	struct fake *fake = qp->fake;

	assert(length && length <= fake->fabric.caps.max_control);
	for (size_t at = 0; at < length;) {
		int first = control_first((const uint8_t *)data + at, length - at);

		assert(first > 0);
		assert(control_decode((const uint8_t *)data + at, (size_t)first, &message) == 0);
		assert(message.header.token == fake->peer_token);
		assert(message.header.size >= fake->floor && message.header.size <= fake->payload);
		if (message.header.type == CONTROL_GRANT)
			check_grants(qp, &message);
		if (message.header.type == CONTROL_SIZE)
			check_size(fake, &message);
		at += (size_t)first;
	}
	if (!fake->room)
		return -EAGAIN;
	memcpy(fake->sent, data, length);
	fake->sent_length = length;
	return 0;
}

static int fake_poll(struct fabric *fabric, struct fabric_event *events)
{
	struct fake *fake = fake_of(fabric);
	int n = fake->event_count;

	for (int i = 0; i < fake->lent_before; i++)
		free(fake->lent[i]);
	fake->lent_count -= fake->lent_before;
	memmove(fake->lent, fake->lent + fake->lent_before,
		(size_t)fake->lent_count * sizeof(*fake->lent));
	fake->lent_before = fake->lent_count;
	memcpy(events, fake->events, (size_t)n * sizeof(*events));
	fake->event_count = 0;
	return n;
}

static uint64_t fake_deadline_ns(const struct fabric *fabric)
{
	(void)fabric;
	return UINT64_MAX;
}

static const struct fabric_ops fake_ops = {
	.name = "fake",
	.close = fake_close,
	.now_ns = fake_now_ns,
	.entropy = fake_entropy,
	.mr_register = fake_mr_register,
	.mr_deregister = fake_mr_deregister,
	.qp_create = fake_qp_create,
	.qp_destroy = fake_qp_destroy,
	.qp_address = fake_qp_address,
	.qp_connect = fake_qp_connect,
	.expose = fake_expose,
	.recut = fake_recut,
	.fence = fake_fence,
	.write = fake_write,
	.control = fake_control,
	.poll = fake_poll,
	.deadline_ns = fake_deadline_ns,
};

/* An event for the next poll; null when it can take no more. */
static struct fabric_event *fake_event(struct fake *fake, enum fabric_event_type type)
{
	struct fabric_event *event;

	if (!fake->qp || fake->event_count == FABRIC_EVENTS)
		return NULL;
	event = &fake->events[fake->event_count++];
	memset(event, 0, sizeof(*event));
	event->type = type;
	event->user = fake->qp->user;
	return event;
}

static bool note_grants(struct fake *fake, const uint8_t *bytes, size_t length)
{
	/* A datagram may hold several messages. */
	for (int first; length && (first = control_first(bytes, length)) > 0;
	     bytes += first, length -= (size_t)first) {
		struct control_message message;

		if (control_decode(bytes, (size_t)first, &message) ||
		    message.header.type != CONTROL_GRANT)
			continue;
		if (message.grant.count > FAKE_GRANTS - fake->grant_count)
			return false;
		for (unsigned i = 0; i < message.grant.count; i++)
			fake->grants[fake->grant_count++] = control_grant_at(&message, i);
	}
	return true;
}

/* A datagram from the peer. Its bytes end where the block ends, so that reading on is seen. */
static void fake_hear(struct fake *fake, const uint8_t *bytes, size_t length)
{
	struct fabric_event *event;
	uint8_t *copy;

	if (fake->lent_count == 2 * FABRIC_EVENTS || !note_grants(fake, bytes, length))
		return;
	event = fake_event(fake, FABRIC_CONTROL);
	if (!event)
		return;
	copy = malloc(length ? length : 1);
	assert(copy);
	memcpy(copy, bytes, length);
	fake->lent[fake->lent_count++] = copy;
	event->control.bytes = copy;
	event->control.length = (uint32_t)length;
}

/* A window's opening or closing is done. */
static void fake_change(struct fake *fake, uint32_t slot)
{
	struct fake_window *window;
	struct fabric_event *event;

	if (!fake->qp)
		return;
	window = &fake->qp->windows[slot % fake->qp->slots];
	if (window->state != WINDOW_OPENING && window->state != WINDOW_CLOSING)
		return;
	event = fake_event(fake, window->state == WINDOW_OPENING ? FABRIC_EXPOSED : FABRIC_FENCED);
	if (!event)
		return;
	event->slot = slot % fake->qp->slots;
	event->generation = window->generation;
	event->exposed.va = (uintptr_t)window->addr;
	event->exposed.rkey = window->rkey;
	window->state = window->state == WINDOW_OPENING ? WINDOW_OPEN : WINDOW_NONE;
}

/* The oldest writes are done with their memory. */
static void fake_flush(struct fake *fake, uint32_t count)
{
	struct fabric_qp *qp = fake->qp;
	struct fabric_event *event;

	if (!qp || qp->flushed == qp->written || !count)
		return;
	event = fake_event(fake, FABRIC_SENT);
	if (!event)
		return;
	event->count =
		count < qp->written - qp->flushed ? count : (uint32_t)(qp->written - qp->flushed);
	qp->flushed += event->count;
}

/* Whether something may still land at this address. */
static bool fake_may_land(const struct fake *fake, const void *addr)
{
	for (uint32_t i = 0; fake->qp && i < fake->qp->slots; i++)
		if (fake->qp->windows[i].state != WINDOW_NONE && fake->qp->windows[i].addr == addr)
			return true;
	return false;
}

#endif
