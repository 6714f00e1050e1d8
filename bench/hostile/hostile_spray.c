/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forged packets. Each kind is a packet that the peer could have sent with one thing wrong, so that nothing but the check
 * in question stops it; most leave by the peer's own socket. Kinds take turns, and what varies in them comes from a seed.
 *
 * Two are not stopped but must do nothing: a replay of what the peer did send, and a congestion notice out of thin air. Where
 * packets are sealed, those that were overheard are sent again as well (hostile_replay.c), and stopped.
 */
#include "hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "fabric/roce/endpoint.h"
#include "message/state.h"
#include "base/bytes.h"

#define PACKET_MAX   2048
#define BTH_VERSION  1
#define WAIT_MS	     10
#define BEYOND_CLAIM 0x40000000u
#define KINDS_MAX    32
/* Packets sent again for each look into a socket. */
#define OVERHEAR_EVERY 16u
/* Replays in a row without a pause, and the pause: the sockets shall lose none of them. */
#define REPLAY_BURST 16u
#define REPLAY_NAP   1000000

struct way {
	int fd;
	union socket_address to;
	struct icrc_flow flow;
};

struct target {
	uint32_t message;
	uint32_t slot;
	uint32_t rkey;
};

struct spray {
	struct ends *ends;
	/* null: packets are not sealed */
	struct recorder *recorder;
	struct rng rng;
	struct way ways[ENDS]; /* to that end, from the socket of the other */
	struct way stranger;
	uint32_t seen[BOARD_SLOTS];  /* keys, when last looked */
	uint32_t stale[BOARD_SLOTS]; /* keys that a slot had before */
	uint64_t sent[KINDS_MAX];
	unsigned turn;
};

struct packet {
	const struct way *way;
	size_t length;
	uint8_t bytes[PACKET_MAX];
};

struct kind {
	const char *name;
	/* False: not possible just now. */
	bool (*make)(struct spray *spray, struct packet *packet);
};

static const struct roce_qp *qp_of(const struct spray *spray, int end)
{
	return roce_qp(spray->ends->qp[end]->fabric_qp);
}

static uint32_t draw(struct spray *spray, uint32_t below)
{
	return (uint32_t)rng_below(&spray->rng, below);
}

static void scribble(struct spray *spray, uint8_t *bytes, size_t length)
{
	rng_fill(&spray->rng, bytes, length);
}

static void seal(struct packet *packet)
{
	size_t covered = packet->length - ROCE_ICRC_SIZE;
	struct icrc_flow flow = packet->way->flow;

	icrc_final(icrc_begin(&flow, packet->length, 0, true, packet->bytes, covered),
		   packet->bytes + covered);
}

static void assemble(struct packet *packet, const struct way *way, const struct roce_packet *from)
{
	size_t length = roce_encode(from, packet->bytes, PACKET_MAX);

	if (from->payload_length)
		memcpy(packet->bytes + length, from->payload, from->payload_length);
	length += from->payload_length;
	memset(packet->bytes + length, 0, from->pad);
	packet->way = way;
	packet->length = length + from->pad + ROCE_ICRC_SIZE;
	seal(packet);
}

/* A posted receive, as it stood a moment ago. */
static bool aim(struct spray *spray, struct target *out)
{
	const struct board *board = spray->ends->board;
	uint32_t slot = draw(spray, BOARD_SLOTS);

	for (uint32_t i = 0; i < BOARD_SLOTS; i++, slot = (slot + 1) % BOARD_SLOTS) {
		uint32_t rkey = atomic_load(&board->rkey[slot]);
		uint32_t message = atomic_load(&board->message[slot]);

		if (!rkey || rkey != atomic_load(&board->rkey[slot]))
			continue;
		if (rkey != spray->seen[slot])
			spray->stale[slot] = spray->seen[slot];
		spray->seen[slot] = rkey;
		*out = (struct target){ message, slot, rkey };
		return true;
	}
	return false;
}

/* Data for a posted receive, with everything right but its bytes. */
static bool aim_data(struct spray *spray, struct packet *packet, struct roce_packet *out)
{
	static uint8_t bytes[PACKET_BYTES];
	const struct gw_qp *qp = spray->ends->qp[RECEIVER];
	struct target target;
	uint32_t number;

	if (!aim(spray, &target))
		return false;
	number = draw(spray, MESSAGE_BYTES / PACKET_BYTES);
	scribble(spray, bytes, sizeof(bytes));
	roce_uc_write_imm(out, qp_of(spray, RECEIVER)->qpn, (uint32_t)rng_u64(&spray->rng),
			  (uint64_t)number * PACKET_BYTES, target.rkey,
			  fabric_imm(&qp->split, target.slot, number, 0), bytes, sizeof(bytes));
	packet->way = &spray->ways[RECEIVER];
	return true;
}

static bool finish(struct packet *packet, const struct roce_packet *data)
{
	assemble(packet, packet->way, data);
	return true;
}

static bool make_garbage(struct spray *spray, struct packet *packet)
{
	packet->way = &spray->ways[draw(spray, ENDS)];
	packet->length = 1 + draw(spray, PACKET_BYTES);
	scribble(spray, packet->bytes, packet->length);
	return true;
}

static bool make_truncated(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data) || !finish(packet, &data))
		return false;
	packet->length = 1 + draw(spray, ROCE_HEADERS_MAX);
	return true;
}

static bool make_version(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data) || !finish(packet, &data))
		return false;
	packet->bytes[BTH_VERSION] |= (uint8_t)(1 + draw(spray, 15));
	seal(packet);
	return true;
}

static bool make_icrc(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data) || !finish(packet, &data))
		return false;
	packet->bytes[packet->length - 1 - draw(spray, ROCE_ICRC_SIZE)] ^=
		(uint8_t)(1 + draw(spray, 255));
	return true;
}

static bool make_qpn(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data))
		return false;
	data.dest_qpn ^= 1 + draw(spray, ROCE_QPN_MASK);
	return finish(packet, &data);
}

static bool make_multipacket(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data))
		return false;
	data.opcode = (uint8_t)(ROCE_OP_UC_WRITE_FIRST + draw(spray, 4));
	return finish(packet, &data);
}

static bool make_rkey(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data))
		return false;
	data.reth.rkey ^= 1 + draw(spray, UINT32_MAX);
	return finish(packet, &data);
}

/* A key that was good until its receive was released. */
static bool make_stale(struct spray *spray, struct packet *packet)
{
	const struct gw_qp *qp = spray->ends->qp[RECEIVER];
	struct roce_packet data;
	uint32_t slot;

	if (!aim_data(spray, packet, &data))
		return false;
	slot = fabric_imm_slot(&qp->split, data.imm);
	if (!spray->stale[slot])
		return false;
	data.reth.rkey = spray->stale[slot];
	return finish(packet, &data);
}

/* Inside the buffer, but where another packet belongs, or outside. */
static bool make_offset(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data))
		return false;
	data.reth.va += draw(spray, 2) ? 4u + draw(spray, PACKET_BYTES)
				       : rng_u64(&spray->rng) | UINT64_C(1) << 40;
	return finish(packet, &data);
}

/* Knows every key, and calls from another host. (Of the peer's own host any port will do: NICs vary it.) */
static bool make_stranger(struct spray *spray, struct packet *packet)
{
	struct roce_packet data;

	if (!aim_data(spray, packet, &data))
		return false;
	packet->way = &spray->stranger;
	return finish(packet, &data);
}

/* What the peer has sent or is about to: it lands at most once more in the same place. */
static bool make_replay(struct spray *spray, struct packet *packet)
{
	static uint64_t words[PACKET_BYTES / WORD_BYTES];
	const struct gw_qp *qp = spray->ends->qp[RECEIVER];
	struct roce_packet data;
	struct target target;
	uint32_t number;

	if (!aim(spray, &target))
		return false;
	number = draw(spray, MESSAGE_BYTES / PACKET_BYTES);
	for (uint32_t i = 0; i < PACKET_BYTES / WORD_BYTES; i++)
		words[i] = hostile_word(target.message,
					(uint64_t)number * (PACKET_BYTES / WORD_BYTES) + i);
	roce_uc_write_imm(&data, qp_of(spray, RECEIVER)->qpn, 0, (uint64_t)number * PACKET_BYTES,
			  target.rkey, fabric_imm(&qp->split, target.slot, number, 0), words,
			  sizeof(words));
	packet->way = &spray->ways[RECEIVER];
	return finish(packet, &data);
}

/* The peer's goodbye, which would end it all; but for one thing that is wrong. */
enum wrong { WRONG_TOKEN, WRONG_QKEY, WRONG_CLAIM, WRONG_BYTES };

static bool make_control(struct spray *spray, struct packet *packet, enum wrong wrong)
{
	int end = (int)draw(spray, ENDS);
	const struct gw_qp *qp = spray->ends->qp[end];
	struct control_header header = { .token = qp->control.token };
	struct control_close close = { .text_length = 0 };
	struct control_writer writer;
	struct roce_packet data;
	uint8_t bytes[128];
	size_t length;

	header.announced = header.granted = header.completed = header.results = qp->rx.first_msn;
	if (wrong == WRONG_TOKEN)
		header.token ^= 1 + draw(spray, UINT32_MAX);
	if (wrong == WRONG_CLAIM)
		header.granted = header.announced = qp->rx.first_msn + BEYOND_CLAIM;
	control_begin(&writer, bytes, sizeof(bytes), CONTROL_CLOSE, &header);
	control_put_close(&writer, &close);
	length = control_end(&writer);
	if (wrong == WRONG_BYTES)
		scribble(spray, bytes, length);
	roce_ud_send(&data, qp_of(spray, end)->qpn, 0,
		     qp_of(spray, end)->qkey ^
			     (wrong == WRONG_QKEY ? 1 + draw(spray, INT32_MAX) : 0),
		     qp_of(spray, end)->peer_qpn, bytes, (uint32_t)length);
	packet->way = &spray->ways[end];
	return finish(packet, &data);
}

static bool make_token(struct spray *spray, struct packet *packet)
{
	return make_control(spray, packet, WRONG_TOKEN);
}

static bool make_qkey(struct spray *spray, struct packet *packet)
{
	return make_control(spray, packet, WRONG_QKEY);
}

static bool make_claim(struct spray *spray, struct packet *packet)
{
	return make_control(spray, packet, WRONG_CLAIM);
}

static bool make_control_noise(struct spray *spray, struct packet *packet)
{
	return make_control(spray, packet, WRONG_BYTES);
}

static bool make_cnp(struct spray *spray, struct packet *packet)
{
	struct roce_packet cnp;

	roce_cnp(&cnp, qp_of(spray, SENDER)->qpn);
	packet->way = &spray->ways[SENDER];
	return finish(packet, &cnp);
}

/* A sealed packet as it was overheard; listens for another one now and then. */
static bool make_overheard(struct spray *spray, struct packet *packet, enum overheard kind)
{
	struct recorded recorded;

	if (!spray->recorder)
		return false;
	if (!draw(spray, OVERHEAR_EVERY))
		replay_record(spray->recorder, (int)draw(spray, ENDS), false);
	if (!replay_pick(spray->recorder, kind, draw(spray, UINT32_MAX), &recorded))
		return false;
	packet->way = &spray->ways[recorded.end];
	packet->length = recorded.length;
	memcpy(packet->bytes, recorded.bytes, recorded.length);
	return true;
}

static bool make_overheard_fresh(struct spray *spray, struct packet *packet)
{
	return make_overheard(spray, packet, REPLAY_FRESH);
}

static bool make_overheard_old(struct spray *spray, struct packet *packet)
{
	return make_overheard(spray, packet, REPLAY_OLD);
}

static bool make_overheard_connection(struct spray *spray, struct packet *packet)
{
	return make_overheard(spray, packet, REPLAY_CONNECTION);
}

static bool make_overheard_reflected(struct spray *spray, struct packet *packet)
{
	return make_overheard(spray, packet, REPLAY_REFLECTED);
}

static const struct kind kinds[] = {
	{ "garbage", make_garbage },
	{ "truncated", make_truncated },
	{ "version", make_version },
	{ "icrc", make_icrc },
	{ "qpn", make_qpn },
	{ "multipacket", make_multipacket },
	{ "rkey", make_rkey },
	{ "stale_rkey", make_stale },
	{ "offset", make_offset },
	{ "stranger", make_stranger },
	{ "replay", make_replay },
	{ "control_token", make_token },
	{ "control_qkey", make_qkey },
	{ "control_claim", make_claim },
	{ "control_noise", make_control_noise },
	{ "cnp", make_cnp },
	/* from here on for sealed packets only */
	{ "overheard_fresh", make_overheard_fresh },
	{ "overheard_old", make_overheard_old },
	{ "overheard_connection", make_overheard_connection },
	{ "overheard_reflected", make_overheard_reflected },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
_Static_assert(KINDS <= KINDS_MAX, "sent[] has a place for each kind");

static void open_stranger(struct spray *spray, struct way *way, const char *address)
{
	union socket_address from = { .v4 = { .sin_family = AF_INET } };
	socklen_t length = sizeof(from.v4);
	int discover = IP_PMTUDISC_DO;

	way->to = endpoint_of(spray->ends->ctx[RECEIVER]->fabric)->local;
	inet_pton(AF_INET, address, &from.v4.sin_addr);
	way->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (way->fd < 0 ||
	    setsockopt(way->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)) ||
	    bind(way->fd, &from.any, length) || getsockname(way->fd, &from.any, &length) ||
	    icrc_flow_init(&from.any, &way->to.any, &way->flow)) {
		fprintf(stderr, "hostile: a socket on %s: %s\n", address, strerror(errno));
		exit(1);
	}
}

struct spray *spray_open(struct ends *ends, struct recorder *recorder, uint64_t seed)
{
	struct spray *spray = calloc(1, sizeof(*spray));

	if (!spray)
		exit(1);
	spray->ends = ends;
	spray->recorder = recorder;
	rng_seed(&spray->rng, seed);
	for (int end = 0; end < ENDS; end++) {
		int other = ENDS - 1 - end;

		spray->ways[end] = (struct way){ endpoint_of(ends->ctx[other]->fabric)->fd,
						 endpoint_of(ends->ctx[end]->fabric)->local,
						 qp_of(spray, other)->to_peer };
	}
	open_stranger(spray, &spray->stranger, "127.0.0.2");
	return spray;
}

static void send_one(const struct packet *packet)
{
	struct pollfd room = { .fd = packet->way->fd, .events = POLLOUT };

	while (sendto(packet->way->fd, packet->bytes, packet->length, MSG_DONTWAIT,
		      &packet->way->to.any, sizeof(packet->way->to.v4)) < 0) {
		if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) {
			fprintf(stderr, "hostile: cannot send: %s\n", strerror(errno));
			exit(1);
		}
		poll(&room, 1, WAIT_MS);
	}
}

void spray(struct spray *spray, uint64_t packets)
{
	static struct packet packet;

	while (packets) {
		unsigned turn = spray->turn++ % KINDS;

		if (!kinds[turn].make(spray, &packet))
			continue;
		send_one(&packet);
		spray->sent[turn]++;
		packets--;
	}
}

void spray_replays(struct spray *spray, uint64_t packets)
{
	static struct packet packet;

	while (packets) {
		if (!make_overheard(spray, &packet, (enum overheard)draw(spray, REPLAYS)))
			continue;
		send_one(&packet);
		if (--packets % REPLAY_BURST == 0)
			nanosleep(&(struct timespec){ .tv_nsec = REPLAY_NAP }, NULL);
	}
}

const char *spray_kind(const struct spray *spray, unsigned kind, uint64_t *sent)
{
	if (kind >= KINDS)
		return NULL;
	*sent = spray->sent[kind];
	return kinds[kind].name;
}
