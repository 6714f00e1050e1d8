/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP as an opponent: CUBIC after RFC 9438 with the delay half of HyStart (RFC 9406), and BBR's first version after
 * draft-cardwell-iccrg-bbr-congestion-control-00. Only what decides how fast they send; good enough to see who gets how
 * much of a queue, not to predict a kernel.
 */
#include <math.h>

#include "loop.h"

#define NS_A_SECOND 1e9

/* CUBIC */
#define CUBIC_C	   0.4
#define CUBIC_BETA 0.7

/* BBR */
#define HIGH_GAIN      2.885
#define RTPROP_AGE     (10 * S)
#define PROBE_RTT_TIME (200 * MS)

enum { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };

void tcp_init(struct tcp *tcp, enum loop_kind kind, uint64_t now_ns)
{
	*tcp = (struct tcp){ .kind = kind, .cwnd = 10, .ssthresh = INFINITY, .phase_at = now_ns };
}

static void cubic_ack(struct tcp *t, const struct tcp_ack *ack, uint64_t now_ns)
{
	double rtt_s = (double)ack->rtt_ns / NS_A_SECOND, now_s, target, reno;

	if (ack->lost && ack->sequence >= t->recover) {
		t->recover = ack->next;
		t->peak = t->cwnd < t->peak ? t->cwnd * (1 + CUBIC_BETA) / 2 : t->cwnd;
		t->cwnd = fmax(t->cwnd * CUBIC_BETA, 2);
		t->ssthresh = t->cwnd;
		t->k_s = cbrt(fmax(t->peak - t->cwnd, 0) / CUBIC_C);
		t->epoch_ns = now_ns;
		return;
	}
	if (ack->sequence < t->recover)
		return;
	if (t->cwnd < t->ssthresh) {
		double slack = fmin(fmax((double)t->least_rtt_ns / 8, 4e6), 16e6);

		t->cwnd += 1;
		if ((double)ack->rtt_ns > (double)t->least_rtt_ns + slack) {
			t->ssthresh = t->cwnd;
			t->peak = t->cwnd;
			t->k_s = 0;
			t->epoch_ns = now_ns;
		}
		return;
	}
	now_s = (double)(now_ns - t->epoch_ns) / NS_A_SECOND;
	target = t->peak + CUBIC_C * pow(now_s + rtt_s - t->k_s, 3);
	reno = t->peak * CUBIC_BETA + 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA) * now_s / rtt_s;
	target = fmin(fmax(target, reno), 1.5 * t->cwnd);
	if (target > t->cwnd)
		t->cwnd += (target - t->cwnd) / t->cwnd;
}

static double bbr_peak(const struct tcp *t)
{
	double peak = 0;

	for (unsigned i = 0; i < 10; i++)
		peak = fmax(peak, t->peaks[i]);
	return peak;
}

static void bbr_round(struct tcp *t)
{
	double peak = bbr_peak(t);

	if (t->phase == STARTUP) {
		t->still = peak < t->full * 1.25 ? t->still + 1 : 0;
		t->full = fmax(t->full, peak);
		if (t->still >= 3)
			t->phase = DRAIN;
	}
	t->slot = (t->slot + 1) % 10;
	t->peaks[t->slot] = 0;
}

static void bbr_ack(struct tcp *t, const struct tcp_ack *ack, uint32_t packet_bytes,
		    uint64_t now_ns)
{
	static const double cycle[8] = { 1.25, 0.75, 1, 1, 1, 1, 1, 1 };
	double span = (double)(now_ns - ack->delivered_then_ns), gain = 1, bdp;

	t->delivered++;
	if (span > 0)
		t->peaks[t->slot] =
			fmax(t->peaks[t->slot],
			     (double)(t->delivered - ack->delivered_then) * NS_A_SECOND / span);
	if (ack->sequence >= t->round_end) {
		t->round_end = ack->next;
		bbr_round(t);
	}
	bdp = bbr_peak(t) * (double)t->least_rtt_ns / NS_A_SECOND;
	if (t->phase == DRAIN && (double)ack->in_flight <= bdp) {
		t->phase = PROBE_BW;
		t->cycle = 2;
		t->phase_at = now_ns;
	}
	if (t->phase == PROBE_BW && now_ns - t->phase_at > t->least_rtt_ns &&
	    (t->cycle != 0 || ack->lost || (double)ack->in_flight >= 1.25 * bdp)) {
		t->cycle = (t->cycle + 1) % 8;
		t->phase_at = now_ns;
	}
	if (t->phase == PROBE_BW && now_ns - t->least_at > RTPROP_AGE) {
		t->phase = PROBE_RTT;
		t->phase_at = now_ns;
		t->least_rtt_ns = ack->rtt_ns;
	} else if (t->phase == PROBE_RTT && now_ns - t->phase_at > PROBE_RTT_TIME) {
		t->phase = PROBE_BW;
		t->least_at = now_ns;
		t->phase_at = now_ns;
		t->cycle = 2;
	}
	if (t->phase == STARTUP)
		gain = HIGH_GAIN;
	else if (t->phase == DRAIN)
		gain = 1 / HIGH_GAIN;
	else if (t->phase == PROBE_BW)
		gain = cycle[t->cycle];
	t->pace_bps = gain * bbr_peak(t) * packet_bytes * 8;
	if (t->phase == PROBE_RTT)
		t->cwnd = 4;
	else if (t->phase == STARTUP)
		t->cwnd = fmax(t->cwnd + 1, HIGH_GAIN * bdp);
	else
		t->cwnd = fmax(2 * bdp, 4);
}

void tcp_ack(struct tcp *tcp, const struct tcp_ack *ack, uint32_t packet_bytes, uint64_t now_ns)
{
	if (!tcp->least_rtt_ns || ack->rtt_ns <= tcp->least_rtt_ns) {
		tcp->least_rtt_ns = ack->rtt_ns;
		tcp->least_at = now_ns;
	}
	if (tcp->kind == LOOP_CUBIC)
		cubic_ack(tcp, ack, now_ns);
	else
		bbr_ack(tcp, ack, packet_bytes, now_ns);
}

void tcp_timeout(struct tcp *tcp)
{
	if (tcp->kind == LOOP_CUBIC) {
		tcp->ssthresh = fmax(tcp->cwnd * CUBIC_BETA, 2);
		tcp->peak = tcp->cwnd;
	}
	tcp->cwnd = 4;
}
