/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel's gate: one congestion controller and one pacer for both queue pairs. What leaves on either counts against
 * one window and one rate; what the peer reports of either feeds one controller. A few packets of the small queue pair
 * may exceed the window, so that a short message does not stand behind a window full of bulk; it is still paced.
 */
#include <errno.h>

#include "channel/state.h"

#define SMALL_SHARE 8 /* packets: two packs */
/* Bulk waits for so many tokens at once, as far as the bucket holds them: batches are cheap. */
#define GROUP_BYTES	 (32u << 10)
#define PACKETS_A_SECOND 10 /* at least */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A controller that sees delay where there is no queue may take the rate down without end: some packets a second still
 * have to leave for it to see anything else. */
void pace_set(struct gw_channel *ch, uint64_t now)
{
	uint64_t floor_bps = (uint64_t)ch->pacer.packet_bytes * 8 * PACKETS_A_SECOND;
	uint64_t rate_bps = cc_limits(&ch->cc).rate_bps;

	if (rate_bps < floor_bps)
		rate_bps = floor_bps;
	pacer_set_rate(&ch->pacer, least(rate_bps, ch->cap_bps), now);
}

void pace_open(struct gw_channel *ch, uint64_t now)
{
	struct pacer_attr pacer = { 0 };
	struct cc_attr cc = { 0 };
	uint32_t payload = 0;

	gw_qp_payload(ch->qp[BULK], &payload);
	pacer.packet_bytes = cc.packet_bytes = payload;
	pacer_init(&ch->pacer, &pacer, now);
	cc_init(&ch->cc, ch->controller, &cc, now);
	for (int i = 0; i < QPS; i++)
		ch->side[i] = (struct side){
			.ch = ch, .packet_bytes = payload, .idle = true, .small = i == SMALL
		};
	pace_set(ch, now);
	for (int i = 0; i < QPS; i++)
		gw_qp_set_gate(ch->qp[i], &channel_gate, &ch->side[i]);
}

static uint64_t in_flight_bytes(const struct gw_channel *ch)
{
	return ch->side[BULK].in_flight_bytes + ch->side[SMALL].in_flight_bytes;
}

/* Packets that the window has room for. */
static uint32_t window_allows(const struct side *side, uint32_t in_flight, uint32_t payload)
{
	const struct gw_channel *ch = side->ch;
	uint64_t window = cc_limits(&ch->cc).window_bytes;
	uint64_t used = in_flight_bytes(ch);
	uint64_t packets = window > used ? (window - used) / payload : 0;

	/* The report of its own packets is what opens the gate again, also where the other's fill the window. */
	if (!in_flight && !packets)
		packets = 1;
	if (side->small && in_flight < SMALL_SHARE && packets < SMALL_SHARE - in_flight)
		packets = SMALL_SHARE - in_flight;
	return (uint32_t)least(packets, UINT32_MAX);
}

static uint32_t allow(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
		      uint64_t *again_ns)
{
	struct side *side = arg;
	struct pacer *pacer = &side->ch->pacer;
	uint64_t wanted = least(bucket_depth_bytes(&pacer->bucket) / 2, GROUP_BYTES);
	uint64_t bytes;
	uint32_t packets;

	side->in_flight_bytes = in_flight * side->packet_bytes;
	*again_ns = NEVER;
	if (!side->ch->cap_bps)
		return 0;
	packets = window_allows(side, in_flight, payload);
	if (!packets)
		return 0;
	if (side->small || wanted < payload)
		wanted = payload;
	bytes = pacer_allow(pacer, now);
	if (bytes < wanted) {
		*again_ns = pacer_next_ns(pacer, wanted, now);
		return 0;
	}
	return (uint32_t)least(packets, bytes / payload);
}

static void sent(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	struct side *side = arg;

	side->packet_bytes += bytes / packets / 8;
	side->packet_bytes -= side->packet_bytes / 8;
	side->in_flight_bytes += bytes;
	cc_sent(&side->ch->cc, bytes, now);
	pacer_take(&side->ch->pacer, bytes, now);
}

static void report(void *arg, const struct gw_path_report *path, uint64_t now)
{
	struct side *side = arg;
	struct gw_channel *ch = side->ch;
	struct cc_report known = { .delivered_packets = path->delivered_packets,
				   .delivered_bytes = path->delivered_packets * side->packet_bytes,
				   .lost_packets = path->lost_packets,
				   .ce_packets = path->marked_packets,
				   .rtt_ns = path->rtt_ns };

	side->in_flight_bytes = path->in_flight_packets * side->packet_bytes;
	side->idle = path->idle;
	known.in_flight_bytes = in_flight_bytes(ch);
	known.app_limited = ch->side[BULK].idle && ch->side[SMALL].idle;
	cc_report(&ch->cc, &known, now);
	pace_set(ch, now);
}

static void cnp(void *arg, uint64_t now)
{
	struct side *side = arg;

	cc_cnp(&side->ch->cc, now);
	pace_set(side->ch, now);
}

static void timeout(void *arg, uint64_t now)
{
	struct side *side = arg;

	side->in_flight_bytes = 0;
	cc_timeout(&side->ch->cc, now);
	pace_set(side->ch, now);
}

static void credit(void *arg, uint32_t packets, uint64_t now)
{
	struct side *side = arg;
	struct gw_channel *ch = side->ch;

	side->credit_bytes = (uint64_t)packets * side->packet_bytes;
	cc_credit(&ch->cc, ch->side[BULK].credit_bytes + ch->side[SMALL].credit_bytes, now);
}

const struct gw_gate channel_gate = {
	.allow = allow,
	.sent = sent,
	.report = report,
	.cnp = cnp,
	.timeout = timeout,
	.credit = credit,
};

int gw_channel_set_rate(struct gw_channel *ch, uint64_t bits_per_second)
{
	uint64_t now;

	if (!ch)
		return -EINVAL;
	ch->cap_bps = bits_per_second;
	if (ch->status)
		return ch->status == -ENOTCONN ? 0 : ch->status;
	now = gw_now_ns(ch->ctx);
	pace_set(ch, now);
	for (int i = 0; i < QPS; i++)
		gw_qp_reopen(ch->qp[i]);
	return 0;
}
