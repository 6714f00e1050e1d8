/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault injection: packets are dropped, duplicated and reordered on the way out, as drawn from a seed in the order of
 * sending.
 *
 * A packet to be reordered is copied and held back until 1 to 16 later packets have left, or for 2 ms, so that the last
 * packet of all leaves too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fabric/roce/endpoint.h"

/* Packets held back at a time. */
#define HELD_MAX 32
/* Packets that overtake one at most. */
#define HELD_PACKETS 16
#define HELD_NS	     UINT64_C(2000000)

/* A packet that is held back. */
struct held {
	bool used;
	/* When it leaves at the latest. */
	uint64_t until_ns;
	/* Packets that still overtake it. */
	uint32_t countdown;
	/* Socket that it leaves by. */
	int fd;
	size_t length;
	union socket_address to;
	uint8_t bytes[RX_PACKET];
};

struct faults {
	struct fabric_faults attr;
	struct rng rng;
	/* How many of `held` are used. */
	uint32_t held_count;
	struct held held[HELD_MAX];
};

int faults_open(const struct fabric_faults *attr, struct faults **out)
{
	struct faults *faults = calloc(1, sizeof(*faults));

	if (!faults)
		return -ENOMEM;
	faults->attr = *attr;
	rng_seed(&faults->rng, attr->seed);
	*out = faults;
	return 0;
}

void faults_close(struct faults *faults)
{
	free(faults);
}

static void send_held(struct roce_endpoint *endpoint, struct held *held)
{
	/* Where there is no room it is lost, as packets may be. */
	sendto(held->fd, held->bytes, held->length, MSG_DONTWAIT, &held->to.any,
	       address_length(&held->to));
	held->used = false;
	endpoint->faults->held_count--;
}

static bool hold(struct faults *faults, int fd, const struct msghdr *message, uint64_t now_ns)
{
	struct held *held = faults->held;
	size_t length = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		length += message->msg_iov[i].iov_len;
	while (held < faults->held + HELD_MAX && held->used)
		held++;
	if (held == faults->held + HELD_MAX || length > sizeof(held->bytes))
		return false;
	held->used = true;
	held->fd = fd;
	held->until_ns = now_ns + HELD_NS;
	held->countdown = 1 + (uint32_t)rng_below(&faults->rng, HELD_PACKETS);
	held->length = 0;
	memcpy(&held->to, message->msg_name, message->msg_namelen);
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		memcpy(held->bytes + held->length, message->msg_iov[i].iov_base,
		       message->msg_iov[i].iov_len);
		held->length += message->msg_iov[i].iov_len;
	}
	faults->held_count++;
	return true;
}

void faults_overtaken(struct roce_endpoint *endpoint)
{
	struct faults *faults = endpoint->faults;

	for (unsigned i = 0; faults->held_count && i < HELD_MAX; i++)
		if (faults->held[i].used && faults->held[i].countdown)
			faults->held[i].countdown--;
}

void faults_let_go(struct roce_endpoint *endpoint)
{
	struct faults *faults = endpoint->faults;

	for (unsigned i = 0; faults->held_count && i < HELD_MAX; i++)
		if (faults->held[i].used && !faults->held[i].countdown)
			send_held(endpoint, &faults->held[i]);
}

enum fate faults_draw(struct roce_endpoint *endpoint)
{
	struct faults *faults = endpoint->faults;
	bool dropped = rng_chance(&faults->rng, faults->attr.drop);
	bool twice = rng_chance(&faults->rng, faults->attr.duplicate);
	bool reordered = rng_chance(&faults->rng, faults->attr.reorder);

	if (dropped) {
		endpoint->fabric.counters[FABRIC_FAULT_DROPPED]++;
		return FATE_LOST;
	}
	if (reordered)
		return FATE_HELD;
	return twice ? FATE_TWICE : FATE_PASSES;
}

int faults_send(struct roce_endpoint *endpoint, int fd, const struct msghdr *message,
		enum fate fate, uint64_t now_ns)
{
	struct faults *faults = endpoint->faults;
	uint64_t *counters = endpoint->fabric.counters;

	if (fate == FATE_LOST)
		return 0;
	if (fate == FATE_HELD && hold(faults, fd, message, now_ns)) {
		counters[FABRIC_FAULT_REORDERED]++;
		return 0;
	}
	if (sendmsg(fd, message, MSG_DONTWAIT) < 0)
		return -errno;
	if (fate == FATE_TWICE) {
		counters[FABRIC_FAULT_DUPLICATED]++;
		sendmsg(fd, message, MSG_DONTWAIT);
	}
	faults_overtaken(endpoint);
	faults_let_go(endpoint);
	return 0;
}

void faults_release(struct roce_endpoint *endpoint, uint64_t now_ns)
{
	struct faults *faults = endpoint->faults;

	for (unsigned i = 0; faults->held_count && i < HELD_MAX; i++)
		if (faults->held[i].used && now_ns >= faults->held[i].until_ns)
			send_held(endpoint, &faults->held[i]);
}

uint64_t faults_deadline_ns(const struct faults *faults)
{
	uint64_t at = UINT64_MAX;

	if (!faults || !faults->held_count)
		return at;
	for (unsigned i = 0; i < HELD_MAX; i++)
		if (faults->held[i].used && faults->held[i].until_ns < at)
			at = faults->held[i].until_ns;
	return at;
}
