/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps that measure rates: trains of packets; then a high rate for a third of a second, over TCP and over UDP. */
#include "pair_run.h"

#define TRAIN_GAP_NS (10 * NS_PER_MS)
#define BULK_NS	     (300 * NS_PER_MS)
#define BULK_BURST   8
#define BULK_MAX_BPS UINT64_C(1000000000)
/* Chunks over TCP: messages in the first, how many chunks, and the time after which one more is the last. */
#define FILL_MESSAGES 16u
#define FILL_ROUNDS   7u
#define FILL_NS	      (60 * NS_PER_MS)
#define PACKET_MAX    9000u
#define PACKET_SURE   1280u

static uint32_t packet_size(const struct pair_run *run)
{
	uint32_t size = run->pair->here.sent.size_arrived;

	return size < PACKET_SURE ? PACKET_SURE : size > PACKET_MAX ? PACKET_MAX : size;
}

int pair_train(struct pair_run *run, uint64_t *out)
{
	json_t *theirs;
	int rc;

	for (uint32_t i = 0; pair_gets_through(run) && i < PROBE_TRAINS * PROBE_TRAIN_PACKETS;
	     i++) {
		if (i && i % PROBE_TRAIN_PACKETS == 0)
			pair_wait(&run->talk, pair_clock_now() + TRAIN_GAP_NS);
		probe_send(&run->probe, run->probe.use, PROBE_TRAIN, i, packet_size(run), 0);
	}
	rc = pair_meet(run, PAIR_SENT);
	if (rc)
		return rc;
	pair_wait(&run->talk, pair_clock_now() + run->slack_ns);
	run->pair->here.heard.train_bps = probe_train_bps(&run->probe);
	rc = pair_exchange(
		run, PAIR_HEARD,
		json_pack("{s:I}", "train_bps", (json_int_t)run->pair->here.heard.train_bps),
		&theirs);
	if (rc)
		return rc;
	*out = pair_member(theirs, "train_bps", BULK_MAX_BPS * 1000, 0);
	json_decref(theirs);
	return 0;
}

/* Packets that are late are left out, not sent in a burst: a queue that overflows by it would look like a limit. */
static void send_bulk(struct pair_run *run, uint64_t rate_bps)
{
	struct pair_sent *sent = &run->pair->here.sent;
	uint32_t size = packet_size(run);
	double credit = 0, per_ns = (double)rate_bps / 8e9;
	double most = per_ns * (double)NS_PER_MS;
	uint64_t began = pair_clock_now(), now = began, before = began;

	if (most < BULK_BURST * size)
		most = BULK_BURST * size;
	while (now - began < BULK_NS) {
		credit += per_ns * (double)(now - before);
		credit = credit < most ? credit : most;
		while (credit >= size && probe_send(&run->probe, run->probe.use, PROBE_BULK,
						    sent->bulk_packets, size, 0)) {
			sent->bulk_packets++;
			sent->bulk_bytes += size;
			credit -= size;
		}
		before = now;
		pair_wait(&run->talk, pair_clock_now() + NS_PER_MS / 2);
		now = pair_clock_now();
	}
	sent->bulk_ns = now - began;
}

/*
 * TCP at a high rate: chunks that double, each of them acknowledged, until they take long enough. So a slow connection
 * never has much to carry. The receiver keeps the highest rate of a chunk.
 */
static int send_fill(struct pair_run *run, uint64_t *tcp_bps)
{
	static const char filler[GW_RENDEZVOUS_MESSAGE_MAX];
	uint64_t began = pair_clock_now();
	bool last = false;
	bool sound = run->pair->there.heard.packets > STREAM_PACKETS / 100 * 99 &&
		     !run->pair->here.sent.size_lost;
	int rc = 0;

	for (unsigned round = 0; !last && rc == 0; round++) {
		json_t *theirs;

		/* TCP that repeats what was lost says nothing about a limit, and full segments may not arrive at all. */
		last = round + 1 == FILL_ROUNDS || pair_clock_now() - began > FILL_NS || !sound;
		for (unsigned i = 0; rc == 0 && sound && i < FILL_MESSAGES << round; i++)
			rc = gw_rendezvous_send(run->session->rendezvous, PAIR_FILL, filler,
						sizeof(filler));
		rc = rc ? rc
			: pair_say_message(&run->talk, PAIR_SENT, json_pack("{s:b}", "last", last));
		rc = rc ? rc : pair_hear_message(&run->talk, PAIR_HEARD, &theirs);
		if (rc)
			break;
		*tcp_bps = pair_member(theirs, "tcp_bps", BULK_MAX_BPS * 1000, 0);
		json_decref(theirs);
	}
	return rc;
}

static int hear_fill(struct pair_run *run)
{
	struct pair_talk *talk = &run->talk;
	bool last = false;
	int rc = 0;

	for (unsigned round = 0; !last && rc == 0 && round < FILL_ROUNDS; round++) {
		uint64_t began, rate;
		json_t *theirs;

		talk->fill_bytes = 0;
		began = pair_clock_now();
		rc = pair_hear_message(talk, PAIR_SENT, &theirs);
		if (rc)
			return rc;
		last = json_is_true(json_object_get(theirs, "last"));
		json_decref(theirs);
		/* From the acknowledgement on: a round trip too much, but never faster than it was. */
		rate = talk->fill_bytes ? (uint64_t)((double)talk->fill_bytes * 8e9 /
						     (double)(talk->fill_last_ns - began + 1))
					: 0;
		if (rate > run->pair->here.heard.tcp_bps)
			run->pair->here.heard.tcp_bps = rate;
		rc = pair_say_message(
			talk, PAIR_HEARD,
			json_pack("{s:I}", "tcp_bps", (json_int_t)run->pair->here.heard.tcp_bps));
	}
	return rc;
}

int pair_bulk(struct pair_run *run, bool sending, uint64_t rate_bps)
{
	struct pair_heard *heard = &run->pair->here.heard;
	uint32_t dropped = run->probe.dropped[0] + run->probe.dropped[1];
	uint64_t tcp_bps = 0;
	int rc = sending ? send_fill(run, &tcp_bps) : hear_fill(run);

	if (rc)
		return rc;
	rate_bps = (rate_bps > tcp_bps ? rate_bps : tcp_bps) / 5 * 4;
	if (sending && pair_gets_through(run) && rate_bps)
		send_bulk(run, rate_bps < BULK_MAX_BPS ? rate_bps : BULK_MAX_BPS);
	rc = pair_meet(run, PAIR_SENT);
	if (rc)
		return rc;
	pair_wait(&run->talk, pair_clock_now() + run->slack_ns);
	if (!sending && run->probe.bulk.packets) {
		heard->bulk_packets = run->probe.bulk.packets;
		heard->bulk_bytes = run->probe.bulk.bytes;
		heard->bulk_ns = (uint64_t)(run->probe.bulk.last_ns - run->probe.bulk.first_ns);
		heard->bulk_delay_ns =
			(int64_t)(run->probe.bulk.delay_sum_ns / run->probe.bulk.packets);
		heard->overrun = run->probe.dropped[0] + run->probe.dropped[1] - dropped;
	}
	return 0;
}
