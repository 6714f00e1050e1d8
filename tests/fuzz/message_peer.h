/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_peer.h: control as a peer would send it, with every field drawn from the input near what could be true: it
 * looks into the queue pair to know.
 */
#ifndef TESTS_FUZZ_MESSAGE_PEER_H
#define TESTS_FUZZ_MESSAGE_PEER_H

#include <string.h>

#include "message/state.h"
#include "message_input.h"
#include "wire/control.h"

#define PEER_DATAGRAM 2048

/* Where packets have several sizes: one of them mostly, else anything. */
static uint32_t some_payload(const struct gw_qp *qp)
{
	uint32_t how = byte();

	switch (how % 8) {
	case 0:
	case 1:
	case 2:
		return qp->size.floor;
	case 3:
		return 2 * qp->size.floor;
	case 4:
	case 5:
	case 6:
		return qp->size.ceiling;
	default:
		return how < 128 ? 4 * byte() : number();
	}
}

/* Packets have several sizes on this queue pair. */
static bool has_sizes(const struct gw_qp *qp)
{
	return qp->size.floor < qp->size.ceiling;
}

/* What the header says of sizes and of cuts: mostly what this end goes by. */
static void say_sizes(struct control_header *header, const struct gw_qp *qp)
{
	uint32_t how;

	header->size = qp->size.ceiling;
	header->settled = true;
	header->epoch = qp->size.applied;
	header->epoch_applied = qp->size.epoch;
	if (!has_sizes(qp))
		return;
	how = byte();
	header->size = how & 1 ? some_payload(qp) % 0x20000 : qp->size.floor;
	header->settled = how & 2;
	if (how >= 224)
		header->epoch = (uint8_t)around(qp->size.applied, qp->size.applied + 1u);
	if (how % 32 > 28)
		header->epoch_applied = (uint8_t)around(qp->size.epoch - 1u, qp->size.epoch);
}

static void say_size(struct control_writer *w, const struct gw_qp *qp)
{
	struct control_size size = { .kind = (uint8_t)(byte() % 3), .payload = 4u * byte() };

	if (has_sizes(qp)) {
		uint32_t how = byte();

		size.lane = how < 240 ? how % 3 : (uint8_t)byte();
		size.payload = size.kind == CONTROL_SIZE_CUT && how < 224 ? qp->size.floor
									  : some_payload(qp);
		size.msn = size.kind == CONTROL_SIZE_CUT
				   ? around(qp->rx.results_acked, qp->rx.granted)
				   : 0;
	}
	control_put_size(w, &size, size.kind == CONTROL_SIZE_PROBE ? size.payload : 0);
}

static void say_announce(struct control_writer *w, const struct gw_qp *qp, uint32_t payload)
{
	uint32_t entries = 1 + byte() % 4;

	control_put_announce(w, around(qp->rx.announced, qp->rx.granted));
	for (uint32_t i = 0; i < entries; i++) {
		struct control_announce_entry entry = { .length = word() };

		entry.scheme = (uint8_t)byte();
		entry.has_imm = entry.scheme & 1;
		entry.imm = entry.has_imm ? number() : 0;
		if (entry.scheme & 2)
			entry.length = (uint64_t)(entry.length % 64) * payload;
		if (entry.scheme == 0xf0)
			entry.length = UINT64_MAX - entry.length;
		control_put_announce_entry(w, &entry);
	}
}

static void say_grant(struct control_writer *w, const struct gw_qp *qp, uint32_t payload)
{
	/* After a cut the peer repeats what it granted before. */
	uint32_t known = qp->size.state == SIZE_CUTTING ? qp->tx.results_seen : qp->tx.grants_seen;
	uint32_t first = around(known, qp->tx.results_seen + qp->tx.mask);
	uint32_t entries = 1 + byte() % 8;

	control_put_grant(w, first);
	for (uint32_t i = 0; i < entries; i++) {
		struct control_grant_entry entry = { .slot = (uint16_t)((first + i) &
									qp->tx.mask) };
		uint32_t how = byte();

		entry.generation = (uint16_t)how;
		entry.rkey = how * 0x01010101u;
		entry.address = (uint64_t)how << 56;
		entry.capacity = how & 1 ? word() : (uint64_t)how * payload;
		entry.payload = has_sizes(qp) ? some_payload(qp) : payload;
		if (how == 0xf0)
			entry.slot = (uint16_t)word();
		if (how == 0xf1)
			entry.capacity = UINT64_MAX;
		control_put_grant_entry(w, &entry);
	}
}

static void say_runs(struct control_writer *w)
{
	uint32_t count_ = byte() % 5, at = 0;

	for (uint32_t i = 0; i < count_; i++) {
		struct control_run run = { at + byte(), 1 + byte() % 16 };

		at = run.first + run.count;
		control_put_run(w, &run);
	}
}

static void say_report(struct control_writer *w, const struct gw_qp *qp)
{
	struct control_report report = { .landed = number(),
					 .echo_msn = around(qp->tx.results_seen, qp->tx.matched),
					 .echo_packet = byte(),
					 .hold_ns = byte() & 1 ? CONTROL_NO_ECHO : number(),
					 .runs_msn = around(qp->tx.results_seen, qp->tx.matched) };
	uint32_t results = byte() % 4;

	control_put_report(w, &report);
	for (uint32_t i = byte() % 3; i; i--) {
		struct control_lane lane = { word(), byte() };

		control_put_lane(w, &lane);
	}
	for (uint32_t i = 0; i < results; i++) {
		struct control_result result = { .msn = around(qp->tx.results_seen,
							       qp->tx.matched) };

		result.missing = byte() & 1 ? byte() : 0;
		control_put_result(w, &result);
	}
	say_runs(w);
	if (byte() & 1) {
		uint32_t holes = number();

		control_put_holes(w, holes, holes + byte());
		if (byte() & 1)
			control_put_clock(w, number());
	}
}

static void say_nack(struct control_writer *w, const struct gw_qp *qp)
{
	struct control_nack nack = { .msn = around(qp->tx.results_seen, qp->tx.matched),
				     .round = around(1, 8),
				     .below = word() >> byte() % 16 };

	control_put_nack(w, &nack);
	say_runs(w);
}

static void say_probe(struct control_writer *w, const struct gw_qp *qp)
{
	struct control_probe probe = { .kind = (uint8_t)(byte() % 2),
				       .id = around(qp->feedback.probe_id, qp->feedback.probe_id),
				       .time_ns = qp->ctx->now - (UINT64_C(1) << byte() % 64),
				       .hold_ns = number() >> byte() % 32 };

	control_put_probe(w, &probe);
}

static void say_scheme(struct control_writer *w, const struct gw_qp *qp)
{
	static const uint8_t words[32] = { 1 };
	struct control_scheme scheme = { .side = (uint8_t)(byte() % 2), .payload = words };

	scheme.msn = scheme.side == CONTROL_TO_RECEIVER
			     ? around(qp->rx.results_acked, qp->rx.granted)
			     : around(qp->tx.results_seen, qp->tx.matched);
	scheme.payload_length = (uint16_t)(byte() % sizeof(words));
	control_put_scheme(w, &scheme);
}

static void say_simple(struct control_writer *w, enum control_type type)
{
	struct control_credit credit = { byte() };
	struct control_close close = { .reason = (uint16_t)byte() };

	if (credit.window_packets == 0xf0)
		credit.window_packets = number();
	if (type == CONTROL_CREDIT)
		control_put_credit(w, &credit);
	else
		control_put_close(w, &close);
}

/* One datagram into `bytes`; returns its length. */
static size_t peer_say(const struct gw_qp *qp, uint32_t payload, uint8_t *bytes)
{
	struct control_header header = {
		.token = qp->control.token,
		.announced = around(qp->tx.announce_acked, qp->tx.matched),
		.granted = around(qp->rx.grants_acked, qp->rx.granted),
		.completed = around(qp->tx.results_seen, qp->tx.matched),
		.results = around(qp->rx.results_acked, qp->rx.completed),
	};
	/* A close ends the conversation: it comes a sixteenth as often as the rest. */
	uint32_t draw = byte();
	enum control_type type = draw == 255 ? CONTROL_CLOSE : 1 + draw % 10;
	struct control_writer w;

	if (type == CONTROL_CLOSE && draw != 255)
		type = CONTROL_GRANT;
	say_sizes(&header, qp);
	/* A cut comes with a new epoch as a rule. */
	if (type == CONTROL_SIZE && has_sizes(qp) && byte() & 1)
		header.epoch++;
	control_begin(&w, bytes, PEER_DATAGRAM, type, &header);
	switch (type) {
	case CONTROL_ANNOUNCE:
		say_announce(&w, qp, payload);
		break;
	case CONTROL_GRANT:
		say_grant(&w, qp, payload);
		break;
	case CONTROL_REPORT:
		say_report(&w, qp);
		break;
	case CONTROL_NACK:
		say_nack(&w, qp);
		break;
	case CONTROL_PROBE:
		say_probe(&w, qp);
		break;
	case CONTROL_SCHEME:
		say_scheme(&w, qp);
		break;
	case CONTROL_SIZE:
		say_size(&w, qp);
		break;
	case CONTROL_DATA: {
		static const uint8_t zeros[64];

		control_put_data(&w, &(struct control_data){ qp->rx.announced + byte() % 4,
							     byte() % 3, byte() % 64, zeros });
		break;
	}
	case CONTROL_CREDIT:
	case CONTROL_CLOSE:
		say_simple(&w, type);
		break;
	}
	return control_end(&w);
}

#endif
