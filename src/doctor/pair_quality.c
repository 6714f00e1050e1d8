/* SPDX-License-Identifier: BSD-3-Clause */
/* How well the path carries what gets through: loss, order, delay, rate, clocks and marks. */
#include "pair.h"

#include <stdlib.h>

#define NS_PER_MS 1000000

/* Single losses happen; a few in some 750 probes are a rate. */
#define LOST_LEAST	3u
#define LOSS_TO_TELL	0.003
#define LOSS_SEVERE	0.05
#define REORDER_TO_TELL 0.005
#define DUP_TO_TELL	0.005
#define JITTER_LEAST_NS (UINT64_C(5) * NS_PER_MS)
/* Probes at a high rate of which this share more is lost than of few probes: something limits the rate. */
#define POLICED_SHARE 0.1
/* TCP that is faster than UDP by this factor: UDP is held back. */
#define TCP_FASTER 2u
/* Bytes that wait at a link that is full. */
#define QUEUE_BYTES 16384
/* Time for which a receiving process may not run while packets arrive. */
#define READER_PAUSE_MS 4u
#define CLOCK_TELL_NS	(INT64_C(100) * NS_PER_MS)
#define MARKED_LEAST	5u

static double share(uint32_t part, uint32_t whole)
{
	return whole ? (double)part / whole : 0;
}

static void loss(struct pair_exam *exam, const struct pair_way *way)
{
	uint32_t sent = way->from->sent.packets, heard = way->to->heard.packets;
	struct finding *finding;

	if (!pair_heard_any(way)) {
		pair_unseen(exam, way, "no UDP probe arrived");
		return;
	}
	if (sent < heard + LOST_LEAST || pair_loss(way) < LOSS_TO_TELL)
		return;
	finding = pair_found(exam, way, "UDP probes", "%.1f %% (%u of %u probes)",
			     100 * pair_loss(way), sent - heard, sent);
	if (pair_loss(way) >= LOSS_SEVERE)
		finding->severity = SEVERITY_ERROR;
}

static void reordering(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_heard *heard = &way->to->heard;

	if (!pair_heard_any(way))
		pair_unseen(exam, way, "no UDP probe arrived");
	else if (heard->reordered >= LOST_LEAST &&
		 share(heard->reordered, heard->packets) >= REORDER_TO_TELL)
		pair_found(exam, way, "UDP probes", "%.1f %% of probes arrive behind a later one",
			   100 * share(heard->reordered, heard->packets));
}

static void duplication(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_heard *heard = &way->to->heard;

	if (!pair_heard_any(way))
		pair_unseen(exam, way, "no UDP probe arrived");
	else if (heard->duplicates >= LOST_LEAST &&
		 share(heard->duplicates, heard->packets) >= DUP_TO_TELL)
		pair_found(exam, way, "UDP probes", "%.1f %% of probes arrive twice",
			   100 * share(heard->duplicates, heard->packets));
}

static void jitter(struct pair_exam *exam, const struct pair_way *way)
{
	uint64_t limit = exam->pair->rtt_min_ns / 2;

	if (!pair_heard_any(way)) {
		pair_unseen(exam, way, "no UDP probe arrived");
		return;
	}
	if (limit < JITTER_LEAST_NS)
		limit = JITTER_LEAST_NS;
	if (pair_jitter_ns(way) > limit)
		pair_found(
			exam, way, "UDP probes",
			"delays differ by %.1f ms between the first and the last tenth; the round trip takes %.1f ms at least",
			(double)pair_jitter_ns(way) / NS_PER_MS,
			(double)exam->pair->rtt_min_ns / NS_PER_MS);
}

static void rate_limit(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_sent *sent = &way->from->sent;
	const struct pair_heard *heard = &way->to->heard;
	double lost = pair_bulk_loss(way);
	uint64_t delivered = pair_bulk_bps(heard);
	double waited = (double)(heard->bulk_delay_ns - heard->delay_min_ns);
	struct finding *finding;

	if (!sent->bulk_packets) {
		pair_unseen(exam, way, "no probes were sent at a high rate");
		return;
	}
	if (lost <= pair_loss(way) + POLICED_SHARE)
		return;
	/* A link that is full lets packets wait before it loses some; a policer does not. */
	if (heard->packets && waited * (double)delivered / 8e9 > QUEUE_BYTES &&
	    heard->tcp_bps < TCP_FASTER * delivered)
		return;
	finding = pair_found(
		exam, way, "UDP probes at a high rate, and TCP",
		"of %.0f Mbit/s sent, %.0f arrive (%.0f %% lost); short trains pass at %.0f, TCP at %.0f or more",
		sent->bulk_ns ? (double)sent->bulk_bytes * 8e3 / (double)sent->bulk_ns : 0,
		(double)delivered / 1e6, 100 * lost, (double)heard->train_bps / 1e6,
		(double)heard->tcp_bps / 1e6);
	finding->fix = pair_say(
		exam, "lift the limit for UDP port %u; until then: send or perf --rate %.0fM",
		way->to->udp_port, delivered > 10000000 ? (double)delivered * 0.9 / 1e6 : 1.0);
}

static void buffers(struct pair_exam *exam, const struct pair_way *way)
{
	uint64_t rate = pair_rate_bps(way), have = way->to->receive_buffer;
	uint64_t need = rate / 8 / 1000 * READER_PAUSE_MS, whole = UINT64_C(1) << 20;
	struct finding *finding;

	if (!rate || !have) {
		pair_unseen(exam, way,
			    rate ? "the size of the buffer is not known" : "no rate was measured");
		return;
	}
	if (have >= need)
		return;
	while (whole < need)
		whole *= 2;
	finding = pair_found(exam, way, "SO_RCVBUF, and UDP probes at a high rate",
			     "%s gets %llu KiB; at %.0f Mbit/s that is full in %.1f ms",
			     way->to->name, (unsigned long long)have / 1024, (double)rate / 1e6,
			     (double)have * 8e3 / (double)rate);
	finding->healthy = pair_say(exam, "%llu KiB or more, %u ms",
				    (unsigned long long)need / 1024, READER_PAUSE_MS);
	finding->fix = pair_say(
		exam, "on %s: sysctl -w net.core.rmem_max=%llu net.core.wmem_max=%llu",
		way->to->name, (unsigned long long)whole * 4, (unsigned long long)whole * 4);
}

static void clocks(struct pair_exam *exam)
{
	int64_t offset;
	uint64_t error;

	if (!pair_clock(exam->pair, &offset, &error)) {
		pair_unseen(exam, NULL, "it takes UDP probes in both directions");
		return;
	}
	if (llabs(offset) > CLOCK_TELL_NS + (int64_t)error)
		pair_found(exam, NULL, "UDP probes",
			   "the clock of %s is %.3f s %s (known to %.3f s)", exam->pair->there.name,
			   (double)llabs(offset) / 1e9, offset > 0 ? "ahead" : "behind",
			   (double)error / 1e9);
}

/* The first mark with which enough probes were sent, and what became of the bits under `mask`; false: all is well. */
static bool mark_changed(const struct pair_way *way, unsigned mask, unsigned *which)
{
	const struct pair_sent *sent = &way->from->sent;
	const struct pair_heard *heard = &way->to->heard;

	for (unsigned i = 0; i < PAIR_MARKS; i++) {
		if (sent->marked[i] < MARKED_LEAST || !(pair_marks[i] & mask) || !heard->marked[i])
			continue;
		if ((heard->mark_arrived[i] & mask) != (pair_marks[i] & mask)) {
			*which = i;
			return true;
		}
	}
	return false;
}

/* A mark that is dropped where others pass. */
static bool mark_lost(const struct pair_way *way, unsigned mask, unsigned *which)
{
	for (unsigned i = 0; i < PAIR_MARKS; i++) {
		if (way->from->sent.marked[i] >= MARKED_LEAST && (pair_marks[i] & mask) &&
		    !way->to->heard.marked[i] && pair_loss(way) < 0.5) {
			*which = i;
			return true;
		}
	}
	return false;
}

static void dscp(struct pair_exam *exam, const struct pair_way *way)
{
	unsigned i;

	if (!pair_heard_any(way)) {
		pair_unseen(exam, way, "no UDP probe arrived");
		return;
	}
	if (mark_lost(way, 0xfc, &i) && !(pair_marks[i] & 3)) {
		struct finding *finding =
			pair_found(exam, way, "UDP probes with a DSCP",
				   "packets with DSCP %u are dropped", pair_marks[i] >> 2);

		finding->severity = SEVERITY_ERROR;
		finding->title = "packets with a DSCP are dropped";
	} else if (mark_changed(way, 0xfc, &i)) {
		pair_found(exam, way, "UDP probes with a DSCP", "DSCP %u arrives as %u",
			   pair_marks[i] >> 2, way->to->heard.mark_arrived[i] >> 2);
	}
}

static void ecn(struct pair_exam *exam, const struct pair_way *way)
{
	static const char *const names[] = { "Not-ECT", "ECT(1)", "ECT(0)", "CE" };
	unsigned i, arrived;

	if (!pair_heard_any(way)) {
		pair_unseen(exam, way, "no UDP probe arrived");
		return;
	}
	if (mark_lost(way, 3, &i) && !(pair_marks[i] & 0xfc)) {
		struct finding *finding =
			pair_found(exam, way, "UDP probes with ECN", "packets with %s are dropped",
				   names[pair_marks[i] & 3]);

		finding->severity = SEVERITY_ERROR;
		finding->title = "packets with ECN are dropped";
		return;
	}
	if (!mark_changed(way, 3, &i))
		return;
	arrived = way->to->heard.mark_arrived[i] & 3;
	/* A queue that marks says that it is long: that is what ECN is for. */
	if (arrived == 3)
		return;
	pair_found(exam, way, "UDP probes with ECN", "%s arrives as %s", names[pair_marks[i] & 3],
		   names[arrived]);
}

const struct pair_check pair_checks_quality[] = {
	{ .words = { .id = "path-loss",
		     .severity = SEVERITY_WARNING,
		     .impact = 80,
		     .title = "the path loses packets",
		     .healthy = "none",
		     .why = "Reliable RDMA NICs repeat everything behind a lost packet; TCP slows down. Godwit is made for this, and chooses its scheme by it.",
		     .fix = "look for the link: godwit doctor on both hosts (bit-errors, nic-drops), ethtool -S INTERFACE | grep -iE 'err|drop|discard'",
		     .explain =
			     "Some 750 small probes in a second and a half, two milliseconds apart, each way. Loss in one direction only points to one fibre, one transceiver or one queue. Loss that appears at a high rate only is path-rate-limit." },
	  .way = loss },
	{ .words = { .id = "path-rate-limit",
		     .severity = SEVERITY_WARNING,
		     .impact = 75,
		     .title = "UDP is rate-limited",
		     .healthy = "what a link carries in a short train it carries for long, too",
		     .why = "What is sent beyond the limit is lost, and no scheme makes up for it.",
		     .fix = "lift the limit; until then --rate",
		     .explain =
			     "Trains of 32 packets show the rate of the narrowest link; some chunks over TCP show what that gets; then UDP packets are sent at four fifths of the larger rate (1 Gbit/s at most) for 0.3 s. If they are lost without having waited in a queue, or TCP gets twice as much, something discards by rate: a policer, a cloud's limit for a flow or for UDP." },
	  .way = rate_limit },
	{ .words = { .id = "path-dscp",
		     .severity = SEVERITY_WARNING,
		     .impact = 55,
		     .title = "the path changes the DSCP",
		     .healthy = "DSCP 26, 46 and 48 arrive as they were sent",
		     .why = "Switches behind that place put RoCE traffic into the wrong queue: without PFC, ECN or priority.",
		     .fix = "trust DSCP on every switch port of the path (not PCP), and do not rewrite it",
		     .explain =
			     "Probes with DSCP 26, 46 and 48; the receiver reads the byte with which they arrive. Internet providers and most tunnels clear it." },
	  .way = dscp },
	{ .words = { .id = "path-ecn",
		     .severity = SEVERITY_WARNING,
		     .impact = 50,
		     .title = "the path clears ECN",
		     .healthy = "ECT(0), ECT(1) and CE arrive as they were sent",
		     .why = "DCQCN and Godwit's controllers do not hear of long queues until packets are lost.",
		     .fix = "do not rewrite the whole ToS byte on the way (set DSCP only); tunnels have to copy ECN (RFC 6040)",
		     .explain =
			     "Probes with ECT(0), ECT(1) and CE, with and without a DSCP. A device that sets the old ToS byte clears the two bits of ECN." },
	  .way = ecn },
	{ .words = { .id = "path-jitter",
		     .severity = SEVERITY_WARNING,
		     .impact = 40,
		     .title = "delays vary",
		     .healthy = "below half a round trip, or 5 ms",
		     .why = "Timeouts have to be long; a lost packet is noticed late; packets overtake each other.",
		     .fix = "look for a busy queue (godwit watch), power saving (cpu-governor), Wi-Fi, or a virtual machine without a processor of its own",
		     .explain =
			     "From one tenth to nine tenths of the delays of probes that are sent evenly. Kernel timestamps on arrival: how late this process runs does not count." },
	  .way = jitter },
	{ .words = { .id = "path-reordering",
		     .severity = SEVERITY_WARNING,
		     .impact = 38,
		     .title = "packets overtake each other",
		     .healthy = "none in a flow",
		     .why = "Reliable RDMA NICs take it for loss and send again. Godwit accepts packets in any order.",
		     .fix = "hash flows by their five-tuple, not packet by packet (bond mode balance-rr, adaptive routing)",
		     .explain = "Probes of one flow that arrive behind a later one." },
	  .way = reordering },
	{ .words = { .id = "path-duplication",
		     .severity = SEVERITY_WARNING,
		     .impact = 36,
		     .title = "packets arrive twice",
		     .healthy = "none",
		     .why = "They take room of others. A loop, or a mirror port in the path, is behind it most often.",
		     .fix = "look for a bond in broadcast mode, a mirror port or a loop between switches",
		     .explain = "Probes whose number had arrived before." },
	  .way = duplication },
	{ .words = { .id = "path-buffers",
		     .severity = SEVERITY_WARNING,
		     .impact = 34,
		     .title = "socket buffers are small for this path",
		     .healthy = "what arrives in 4 ms",
		     .why = "A receiving process that does not run for a moment loses what arrives meanwhile.",
		     .fix = "sysctl -w net.core.rmem_max=16777216 net.core.wmem_max=16777216",
		     .explain =
			     "The buffer that this user gets, against the rate at which a train of packets arrived. Root gets more than net.core.rmem_max says." },
	  .way = buffers },
	{ .words = { .id = "path-clock",
		     .severity = SEVERITY_WARNING,
		     .impact = 20,
		     .title = "the clocks of the two hosts differ",
		     .healthy = "below 0.1 s",
		     .why = "Logs of ranks cannot be compared, and one-way delays mean nothing.",
		     .fix = "chronyc makestep (or timedatectl set-ntp true) on the host that is wrong; godwit doctor --only clock-sync says which",
		     .explain =
			     "Half the difference of the least delays in both directions. A path whose directions differ shows as an offset of half a round trip at most; that much is not told." },
	  .pair = clocks },
};

const size_t pair_checks_quality_count =
	sizeof(pair_checks_quality) / sizeof(pair_checks_quality[0]);
