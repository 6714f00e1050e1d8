/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure.h"

#include <errno.h>
#include <math.h>

#include "tools/interrupt.h"

#define MS    UINT64_C(1000000)
#define PINGS 10
/* Time that a message of data takes, so that a part has many of them. */
#define MESSAGE_NS (2 * MS)
#define DATA_MIN   (UINT64_C(8) << 10)
/* So much is sent ahead: round trips, and time at the least. */
#define AHEAD_ROUND_TRIPS 4
#define AHEAD_NS	  (10 * MS)
/* A part takes so many round trips at least. */
#define ROUND_TRIPS 20
/* What a part may take beyond its time. */
#define PATIENCE_NS (6000 * MS)
/* A note that is not acknowledged in this time stays so. */
#define LINGER_NS (200 * MS)
/* Packets that were sent twice without need are under way for longer than what they were sent for. */
#define SETTLE_NS (10 * MS)
/* Data rate of the part that counts packets, of the rate that was measured. */
#define COUNTING_SHARE 0.5

static uint64_t now_ns(const struct link *link)
{
	return gw_now_ns(link->port->ctx);
}

/* Makes progress. Returns 0 as long as the link works and the time has not come. */
static int turn(struct link *link, uint64_t deadline)
{
	if (interrupt_signal())
		return -EINTR;
	if (link->status)
		return link->status;
	if (now_ns(link) >= deadline)
		return -ETIMEDOUT;
	port_progress(link->port, deadline);
	return 0;
}

static int await_notes(struct link *link, enum note note, unsigned count, uint64_t wait_ns)
{
	uint64_t deadline = now_ns(link) + wait_ns;
	int rc = 0;

	while (!rc && link->notes[note] < count)
		rc = turn(link, deadline);
	return link->notes[note] >= count ? 0 : rc;
}

/* Waits until everything that this end sent has arrived. */
static int await_sends(struct link *link, uint64_t wait_ns)
{
	uint64_t deadline = now_ns(link) + wait_ns;
	int rc = 0;

	while (!rc && (link->open || link->notes_open))
		rc = turn(link, deadline);
	return rc;
}

static int ping(struct link *link, double *latency_us)
{
	uint64_t best = UINT64_MAX;
	int rc = 0;

	for (unsigned i = 0; !rc && i < PINGS; i++) {
		uint64_t start = now_ns(link), took;

		rc = link_note(link, NOTE_PING);
		if (!rc)
			rc = await_notes(link, NOTE_PONG, i + 1, PATIENCE_NS);
		took = now_ns(link) - start;
		if (!rc && took < best)
			best = took;
	}
	if (best != UINT64_MAX)
		*latency_us = (double)best / 2e3;
	return rc;
}

static uint64_t message_bytes(double bytes_per_ns)
{
	double bytes = bytes_per_ns * (double)MESSAGE_NS;

	return bytes < (double)DATA_MIN	       ? DATA_MIN
	       : bytes > (double)PORT_DATA_MAX ? PORT_DATA_MAX
					       : (uint64_t)bytes;
}

/* How many messages may be open, so that the sender never waits and what is left at the end of a part takes little time. */
static unsigned sends_ahead(const struct link *link)
{
	struct gw_channel_stats stats = { 0 };
	uint64_t ahead;

	gw_channel_stats(link->channel, &stats);
	ahead = AHEAD_ROUND_TRIPS * stats.rtt_ns;
	ahead = (ahead > AHEAD_NS ? ahead : AHEAD_NS) / MESSAGE_NS;
	return ahead > PORT_SENDS ? PORT_SENDS : (unsigned)ahead;
}

/*
 * Sends data for a time, and then waits until it has arrived. The rate is that between the first message which ends after
 * a quarter of the time, when the rate has risen, and the last one; or, if these two ended close to each other because this
 * process had to wait for a processor, the mean.
 */
static int flood(struct link *link, uint64_t time_ns, double *bps)
{
	uint64_t start = now_ns(link), first_ns = 0, first_bytes = 0;
	uint64_t before = link->sent_bytes;
	unsigned ahead = sends_ahead(link);
	int rc = 0;

	*bps = 0;
	while (!rc) {
		uint64_t now = now_ns(link);
		uint64_t bytes = link->sent_bytes - before;
		double mean = (double)bytes / (double)(now - start + 1);

		while (!link->status && now < start + time_ns && link->open < ahead)
			link_send(link, message_bytes(mean));
		if (!link->open)
			break;
		rc = turn(link, start + time_ns + PATIENCE_NS);
		if (!first_ns && link->sent_bytes > before + bytes &&
		    link->sent_ns >= start + time_ns / 4) {
			first_ns = link->sent_ns;
			first_bytes = link->sent_bytes;
		}
	}
	if (first_ns && link->sent_ns >= first_ns + time_ns / 2)
		*bps = (double)(link->sent_bytes - first_bytes) * 8e9 /
		       (double)(link->sent_ns - first_ns);
	else if (link->sent_bytes > before)
		*bps = (double)(link->sent_bytes - before) * 8e9 / (double)(link->sent_ns - start);
	return rc ? rc : link->status;
}

/* What this end does while it is the sender. `base`: counts at the start of the part that counts packets. */
static int send_turn(struct link *link, bool first, uint64_t time_ns, struct measured *out,
		     struct port_counts *base)
{
	struct gw_channel_stats stats;
	double ignored;
	int rc = first ? ping(link, &out->latency_us) : 0;

	if (!rc && !gw_channel_stats(link->channel, &stats) && time_ns < ROUND_TRIPS * stats.rtt_ns)
		time_ns = ROUND_TRIPS * stats.rtt_ns;
	if (!rc)
		rc = flood(link, time_ns, &out->bps);
	if (!rc)
		rc = link_note(link, NOTE_MARK);
	if (!rc)
		rc = await_sends(link, PATIENCE_NS);
	port_read(link->port, base);
	if (rc || out->bps <= 0)
		return rc;
	gw_channel_set_rate(link->channel, (uint64_t)(out->bps * COUNTING_SHARE));
	rc = flood(link, time_ns, &ignored);
	gw_channel_set_rate(link->channel, GW_RATE_UNLIMITED);
	return rc;
}

static void settle(struct link *link)
{
	uint64_t deadline = now_ns(link) + SETTLE_NS;

	while (now_ns(link) < deadline)
		port_progress(link->port, deadline);
}

/* Whatever it came to, the pair is over; -EINTR alone ends the command. */
static int over(int rc)
{
	return rc == -EINTR || interrupt_signal() ? -EINTR : 0;
}

int measure_pair(struct link *link, bool first, uint64_t time_ns, struct measured *out)
{
	struct port_counts base, end;
	uint64_t other_ns = 2 * time_ns + 2 * PATIENCE_NS;
	int rc = 0;

	*out = (struct measured){ .latency_us = NAN };
	port_read(link->port, &base);
	link->marked = base;
	if (!first)
		rc = await_notes(link, NOTE_TURN, 1, other_ns);
	if (!rc)
		rc = send_turn(link, first, time_ns, out, &base);
	if (!rc)
		rc = link_note(link, NOTE_TURN);
	if (!rc && first)
		rc = await_notes(link, NOTE_TURN, 1, other_ns);
	if (!rc)
		rc = link_note(link, NOTE_BYE);
	if (!rc)
		rc = await_notes(link, NOTE_BYE, 1, PATIENCE_NS);
	if (!rc)
		await_sends(link, LINGER_NS);
	settle(link);
	port_read(link->port, &end);
	out->counts = (struct port_counts){
		.sent = end.sent - base.sent,
		.retransmitted = end.retransmitted - base.retransmitted,
		.received = end.received - link->marked.received,
		.overrun = end.overrun - link->marked.overrun,
	};
	return over(rc);
}

int measure_shift(struct link *out, struct link *in, uint64_t time_ns, double *bps)
{
	int rc = out ? flood(out, time_ns, bps) : 0;

	if (out && !rc)
		rc = link_note(out, NOTE_TURN);
	if (out && !rc)
		rc = await_sends(out, PATIENCE_NS);
	if (over(rc) || !in)
		return over(rc);
	rc = await_notes(in, NOTE_TURN, 1, time_ns + 2 * PATIENCE_NS);
	settle(in);
	return over(rc);
}
