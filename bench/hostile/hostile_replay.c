/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that the ends themselves sealed, overheard and kept, to be sent again. They are read from the sockets that the
 * three processes share, with MSG_PEEK, so that their receivers get them as well.
 *
 * The attacker's own packets pass through the same sockets. What is genuine, and new, is told by a copy of the receiver's seal: the
 * state that this process had when the ends were forked off.
 */
#include "hostile.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/roce/endpoint.h"
#include "message/state.h"
#include "base/bytes.h"

#define BTH_QPN	  5
#define BTH_PSN	  9
#define PEEK_MAX  65536
#define KEPT	  512u
#define FRESH	  64u
#define HALF_PSNS (1u << 23)
/* The first counter of each lane: its PSNs and its keys change soon after. */
#define FIRST_COUNTER ((UINT64_C(1) << 24) - 20000)

struct bank {
	struct recorded packets[KEPT];
	uint32_t count;
};

struct recorder {
	struct ends *ends;
	struct bank banks[REPLAYS];
};

static struct seal *seal_of(const struct ends *ends, int end)
{
	return roce_qp(ends->qp[end]->fabric_qp)->seal;
}

static uint32_t qpn_of(const struct ends *ends, int end)
{
	return roce_qp(ends->qp[end]->fabric_qp)->qpn;
}

void replay_begin(struct ends *ends)
{
	for (int end = 0; end < ENDS; end++) {
		struct seal *seal = seal_of(ends, end);

		for (unsigned kind = 0; kind < SEAL_KINDS; kind++) {
			for (unsigned lane = 0; lane < FABRIC_LANES_MAX; lane++) {
				seal->counters[kind][lane] = FIRST_COUNTER;
				seal->seen[kind][lane].next = FIRST_COUNTER;
			}
		}
	}
}

bool replay_crossed(const struct ends *ends, int end)
{
	return seal_of(ends, end)->counters[SEAL_DATA][0] > FIRST_COUNTER + 20000;
}

struct recorder *replay_open(struct ends *ends)
{
	struct recorder *recorder = calloc(1, sizeof(*recorder));

	if (!recorder)
		exit(1);
	recorder->ends = ends;
	return recorder;
}

static void keep(struct bank *bank, int end, const uint8_t *bytes, size_t length, uint32_t limit)
{
	struct recorded *to = &bank->packets[bank->count++ % limit];

	to->end = end;
	to->length = length;
	memcpy(to->bytes, bytes, length);
}

/* Whether the peer sealed it, and this is the first time that it is overheard. */
static bool genuine(const struct recorder *recorder, int end, const uint8_t *bytes, size_t length)
{
	uint8_t copy[RECORDED_MAX], lane;
	struct roce_packet packet;

	memcpy(copy, bytes, length);
	if (roce_decode(copy, length, &packet) || packet.dest_qpn != qpn_of(recorder->ends, end))
		return false;
	return seal_check(seal_of(recorder->ends, end), packet.has_reth ? SEAL_DATA : SEAL_CONTROL,
			  copy, length, &packet, &lane) == SEAL_GOOD;
}

static void record(struct recorder *recorder, int end, const uint8_t *bytes, size_t length,
		   bool earlier)
{
	struct bank *banks = recorder->banks;
	bool old;

	if (length > RECORDED_MAX || length < BTH_PSN + 3)
		return;
	if (earlier) {
		keep(&banks[REPLAY_CONNECTION], end, bytes, length, KEPT);
		return;
	}
	if (!genuine(recorder, end, bytes, length))
		return;
	keep(&banks[REPLAY_FRESH], end, bytes, length, FRESH);
	old = get_be24(bytes + BTH_PSN) >= HALF_PSNS;
	if (old && banks[REPLAY_OLD].count < KEPT)
		keep(&banks[REPLAY_OLD], end, bytes, length, KEPT);
}

void replay_record(struct recorder *recorder, int end, bool earlier)
{
	static uint8_t bytes[PEEK_MAX];
	union {
		struct cmsghdr align;
		char bytes[256];
	} control;
	struct iovec into = { bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &into,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t got = recvmsg(endpoint_of(recorder->ends->ctx[end]->fabric)->fd, &message,
			      MSG_PEEK | MSG_DONTWAIT);
	size_t size = got > 0 ? (size_t)got : 0;

	if (got <= 0)
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		int segment;

		if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(c), sizeof(segment));
		size = (size_t)segment;
	}
	for (size_t at = 0; size && at < (size_t)got; at += size) {
		size_t left = (size_t)got - at;

		record(recorder, end, bytes + at, left < size ? left : size, earlier);
	}
}

bool replay_pick(const struct recorder *recorder, enum overheard kind, uint32_t random,
		 struct recorded *out)
{
	/* What came to one end goes back to the other: any packet will do. */
	const struct bank *bank = &recorder->banks[kind == REPLAY_REFLECTED ? REPLAY_FRESH : kind];
	uint32_t limit = bank == &recorder->banks[REPLAY_FRESH] ? FRESH : KEPT;
	uint32_t count = bank->count < limit ? bank->count : limit;

	if (!count)
		return false;
	*out = bank->packets[random % count];
	if (kind == REPLAY_REFLECTED)
		out->end = ENDS - 1 - out->end;
	if (kind == REPLAY_REFLECTED || kind == REPLAY_CONNECTION)
		put_be24(out->bytes + BTH_QPN, qpn_of(recorder->ends, out->end));
	return true;
}

bool replay_complete(const struct recorder *recorder)
{
	return recorder->banks[REPLAY_FRESH].count && recorder->banks[REPLAY_OLD].count &&
	       recorder->banks[REPLAY_CONNECTION].count;
}
