/* SPDX-License-Identifier: BSD-3-Clause */
/* What was measured, in lines for people, and the commands that suit this path. */
#include <string.h>

#include "pair.h"
#include "plan/plan.h"

#define NS_PER_MS      1e6
#define ASSUMED_BYTES  (UINT64_C(64) << 20)
#define RTT_LONG_NS    (UINT64_C(1000) * 1000000)
#define RATE_KNOWN_BPS UINT64_C(1000000)

static const char *say_way(struct diagnosis *diagnosis, const struct pair_way *way)
{
	return scratch_print(&diagnosis->scratch, "%s -> %s", way->from->name, way->to->name);
}

/* Probes arrived, between whichever ports. */
static bool passes(const struct pair_way *way)
{
	return pair_heard_any(way) || way->to->heard.other_packets;
}

static void note_way(const struct pair_way *way, struct diagnosis *diagnosis)
{
	const struct pair_sent *sent = &way->from->sent;
	uint64_t rate = pair_rate_bps(way);
	struct builder line = { 0 };

	if (!passes(way))
		return;
	if (pair_heard_any(way))
		builder_print(&line, "loss %.1f %% of %u, jitter %.2f ms", 100 * pair_loss(way),
			      sent->packets, (double)pair_jitter_ns(way) / NS_PER_MS);
	else
		builder_print(&line, "between ports %u and %u only", way->from->other_port,
			      way->to->other_port);
	if (sent->size_arrived)
		builder_print(&line, ", path MTU %u", sent->size_arrived);
	if (rate)
		builder_print(&line, ", %.0f Mbit/s or more", (double)rate / 1e6);
	diagnosis_note(diagnosis, "way", say_way(diagnosis, way),
		       scratch_print(&diagnosis->scratch, "%s", line.text));
	builder_free(&line);
}

static void note_rtt(const struct pair *pair, struct diagnosis *diagnosis)
{
	int64_t offset;
	uint64_t error;

	if (pair->rtt_ns)
		diagnosis_note(diagnosis, "rtt", "",
			       scratch_print(&diagnosis->scratch,
					     "%.3f ms (median %.3f ms) over UDP, %.3f ms over TCP",
					     (double)pair->rtt_min_ns / NS_PER_MS,
					     (double)pair->rtt_ns / NS_PER_MS,
					     (double)pair->tcp_rtt_ns / NS_PER_MS));
	else if (pair->tcp_rtt_ns)
		diagnosis_note(diagnosis, "rtt", "",
			       scratch_print(&diagnosis->scratch, "%.3f ms over TCP",
					     (double)pair->tcp_rtt_ns / NS_PER_MS));
	if (pair_clock(pair, &offset, &error))
		diagnosis_note(diagnosis, "clocks", "",
			       scratch_print(&diagnosis->scratch,
					     "%s is %+.3f ms from this host, give or take %.3f ms",
					     pair->there.name, (double)offset / NS_PER_MS,
					     (double)error / NS_PER_MS));
}

/* Asks the planner with what was measured in the worse direction. */
static void note_plan(const struct pair *pair, const struct pair_way *way,
		      struct diagnosis *diagnosis)
{
	uint64_t rate = pair_rate_bps(way);
	struct plan_choice choice;
	struct plan_path path;
	char name[PLAN_NAME_SIZE];
	double loss = pair_loss(way) > PLAN_LOSS_MAX / 2 ? PLAN_LOSS_MAX / 2 : pair_loss(way);

	if (!pair_heard_any(way) || loss <= 0 || rate < RATE_KNOWN_BPS || !pair->rtt_min_ns)
		return;
	plan_path_init(&path, pair->rtt_min_ns, rate, loss);
	if (plan_choose(&path, ASSUMED_BYTES, PLAN_P99, &choice) != 0)
		return;
	diagnosis_note(
		diagnosis, "planner", say_way(diagnosis, way),
		scratch_print(
			&diagnosis->scratch,
			"for 64 MiB: %s (the default, auto, chooses likewise); godwit plan --rtt %.3gms --rate %.0fM --loss %.1e --size 64M",
			plan_name(&choice.params, name), (double)pair->rtt_min_ns / NS_PER_MS,
			(double)rate / 1e6, loss));
}

/* Options that this path asks for, at the end that sends and at both. */
static void note_options(const struct pair *pair, struct diagnosis *diagnosis)
{
	const struct pair_way to = { &pair->here, &pair->there };
	const struct pair_heard *heard = &pair->there.heard;
	struct builder both = { 0 }, sender = { 0 };
	bool other = !pair_heard_any(&to) && heard->other_packets;
	double lost = pair_bulk_loss(&to);

	if (pair->port != 4791)
		builder_print(&both, " --port %u", pair->port);
	if (other)
		builder_print(&both, " --udp-port %u", pair->there.other_port);
	else if (pair->udp_option)
		builder_print(&both, " --udp-port %u", pair->udp_option);
	if (pair->secret)
		builder_print(&both, " --secret-file FILE --seal");
	if (pair->rtt_ns > RTT_LONG_NS)
		builder_print(&both, " --timeout 60s");
	if (pair->dscp)
		builder_print(&sender, " --dscp %u", pair->dscp);
	if (pair_bulk_bps(heard) > RATE_KNOWN_BPS && lost > pair_loss(&to) + 0.1)
		builder_print(&sender, " --rate %.0fM", 0.9 * (double)pair_bulk_bps(heard) / 1e6);
	diagnosis_note(diagnosis, "use", "",
		       scratch_print(&diagnosis->scratch,
				     "on %s: godwit recv FILE%s\nhere: godwit send FILE %s%s%s",
				     pair->there.name, both.text ? both.text : "", pair->there.name,
				     both.text ? both.text : "", sender.text ? sender.text : ""));
	diagnosis->next = scratch_print(
		&diagnosis->scratch, "godwit perf%s on %s, then here: godwit perf %s%s%s",
		both.text ? both.text : "", pair->there.name, pair->there.name,
		both.text ? both.text : "", sender.text ? sender.text : "");
	builder_free(&both);
	builder_free(&sender);
}

void pair_notes(const struct pair *pair, struct diagnosis *diagnosis)
{
	const struct pair_way to = { &pair->here, &pair->there };
	const struct pair_way back = { &pair->there, &pair->here };

	note_rtt(pair, diagnosis);
	if (pair->icmp == PAIR_ICMP_ANSWERED)
		diagnosis_note(
			diagnosis, "udp", "",
			scratch_print(
				&diagnosis->scratch,
				"UDP reaches %s, in packets of up to %u bytes: its kernel answers probes to a closed port with ICMP",
				pair->there.name, pair->icmp_size));
	else if (pair->icmp == PAIR_ICMP_SILENT)
		diagnosis_note(
			diagnosis, "udp", "",
			"no ICMP answer to UDP probes: blocked, or a host that does not answer");
	if (pair->peer != PAIR_PEER_DOCTOR) {
		if (pair->peer == PAIR_PEER_OTHER)
			diagnosis->summary = "TCP works";
		diagnosis->next =
			scratch_print(&diagnosis->scratch,
				      "godwit doctor --serve on %s, then here: godwit doctor %s",
				      pair->there.name, pair->there.name);
		return;
	}
	note_way(&to, diagnosis);
	note_way(&back, diagnosis);
	note_plan(pair, pair_loss(&to) >= pair_loss(&back) ? &to : &back, diagnosis);
	if (passes(&to) && passes(&back))
		note_options(pair, diagnosis);
	else
		diagnosis->next =
			scratch_print(&diagnosis->scratch,
				      "when UDP passes, again: godwit doctor %s", pair->there.name);
}
