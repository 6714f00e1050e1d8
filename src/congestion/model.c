/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c: the model of a path; see model.h. */
#include <math.h>

#include "congestion/model.h"

/* Longest round, in minimum round-trip times: a round does not wait for a long queue. */
#define ROUND_MOST  3.0
#define PEAK_ROUNDS 8
#define PAST_NS	    15e9
/* A round-trip time within this share above the minimum counts as the minimum. */
#define NEAR (1 / 80.0)
/* Links in a row on which a larger packet takes as long as on the slowest, at most. */
#define HOPS 4.0
/* Time from one probe to the next, at least, and the same in minimum round-trip times: on a long path a probe takes long, too. */
#define PROBE_EVERY_NS	  UINT64_C(5000000000)
#define PROBE_EVERY_TRIPS 25
/* Round trips of a probe: in the first less is sent, and the second shows what that did. */
#define PROBE_TRIPS    2
#define LEAST_AGE_NS   UINT64_C(30000000000)
#define CROWDED_AGE_NS UINT64_C(120000000000)
/* Share of packets taken as marked in a round with a congestion notification. */
#define CNP_SHARE 0.25
/* Jitter below this share of the minimum round-trip time, and below this time, is the variation of an ordinary queue. */
#define JITTER_FLOOR	0.05
#define JITTER_FLOOR_NS 0.3e6

void model_init(struct model *m, double ceiling, uint64_t now_ns)
{
	*m = (struct model){ .round_at = now_ns };
	chance_init(&m->chance, ceiling);
	recent_init(&m->past, 0, now_ns);
}

double model_rate(const struct model *m)
{
	return fmax(m->delivered, m->before);
}

double model_peak(const struct model *m)
{
	return fmax(m->peak[0], m->peak[1]);
}

double model_past(const struct model *m)
{
	return recent_most(&m->past);
}

void model_saw(struct model *m, double rate)
{
	m->peak[1] = fmax(m->peak[1], rate);
}

void model_cnp(struct model *m)
{
	m->noticed = true;
}

/* Jitter that has to be allowed for. */
static double allowed_ns(const struct model *m)
{
	return jitter_ns(&m->jitter, fmax(JITTER_FLOOR * m->least_ns, JITTER_FLOOR_NS));
}

double model_trip(const struct model *m)
{
	return m->least_ns + allowed_ns(m) / 2;
}

double model_queue_now(const struct model *m)
{
	return fmax(m->rtt_ns - m->least_ns - allowed_ns(m), 0);
}

static void see_rtt(struct model *m, double rtt_ns, uint64_t now_ns)
{
	m->samples++;
	m->rtt_ns = m->jitter.last_ns > 0 ? fmin(m->jitter.last_ns, rtt_ns) : rtt_ns;
	jitter_see(&m->jitter, rtt_ns, m->least_ns);
	m->round_least_ns = m->samples == 1 ? rtt_ns : fmin(m->round_least_ns, rtt_ns);
	m->probe_least_ns = fmin(m->probe_least_ns, rtt_ns);
	/* The queue has just drained, so that no probe is needed. */
	if (m->least_ns <= 0 || rtt_ns <= m->least_ns * (1 + NEAR))
		m->least_at = now_ns;
	if (m->least_ns <= 0 || rtt_ns < m->least_ns)
		m->least_ns = rtt_ns;
}

void model_probe(struct model *m, bool crowded, uint64_t now_ns)
{
	uint64_t age = now_ns - m->least_at;
	uint64_t every = (uint64_t)fmax(PROBE_EVERY_NS, PROBE_EVERY_TRIPS * m->least_ns);

	m->draining = false;
	if (m->probing) {
		if ((double)(now_ns - m->probe_at) < PROBE_TRIPS * m->least_ns)
			return;
		m->probing = false;
		if (age > (crowded ? CROWDED_AGE_NS : LEAST_AGE_NS)) {
			m->least_ns = m->probe_least_ns;
			m->least_at = now_ns;
		}
	} else if (m->unsure || (age > every && now_ns - m->probe_at > every)) {
		m->unsure = false;
		m->probing = m->draining = true;
		m->probe_at = now_ns;
		m->probe_least_ns = m->rtt_ns;
	}
}

static void end_round(struct model *m, uint64_t now_ns)
{
	m->before = m->delivered;
	m->sent = (double)m->counted;
	if (m->counted)
		m->loss = fmin((double)m->lost / m->sent, 1);
	m->arriving = (double)m->bytes / (double)(now_ns - m->round_at);
	m->delivered = m->arriving / (1 - chance_part(&m->chance, m->loss, m->sent));
	jitter_end_round(&m->jitter);
	m->queue_ns = fmax(
		m->round_least_ns - m->least_ns - jitter_of_least(m->samples) * allowed_ns(m), 0);
	m->marked = m->packets ? (double)m->ce / (double)m->packets : 0;
	if (m->noticed)
		m->marked = fmax(m->marked, CNP_SHARE);
	m->idle = m->unused;
	if (++m->peak_rounds >= PEAK_ROUNDS) {
		m->peak[0] = m->peak[1];
		m->peak[1] = 0;
		m->peak_rounds = 0;
	}
	m->peak[1] = fmax(m->peak[1], m->delivered);
	recent_see_most(&m->past, m->delivered, PAST_NS, now_ns);
	m->round_at = now_ns;
	m->round_least_ns = 0;
	m->samples = 0;
	m->bytes = m->packets = m->counted = m->lost = m->ce = 0;
	m->unused = m->noticed = false;
}

bool model_report(struct model *m, const struct cc_report *report, double window, uint64_t now_ns)
{
	double passed = (double)(now_ns - m->round_at);

	/* Where the path takes hardly longer for larger packets, the minimum of smaller ones holds for them. */
	if (HOPS * report->larger > model_peak(m) * m->least_ns * NEAR) {
		m->unsure = true;
		m->least_ns = 0;
	}
	if (report->rtt_ns)
		see_rtt(m, (double)(report->rtt_ns - report->return_ns), now_ns);
	m->bytes += report->delivered_bytes;
	m->packets += report->delivered_packets;
	m->counted += report->counted_packets;
	m->lost += report->lost_packets;
	m->ce += report->marked_packets;
	m->unused |= report->app_limited && (double)report->in_flight_bytes < window / 2;
	if (m->least_ns <= 0)
		return false;
	if (m->round_least_ns <= 0 || passed < fmin(m->rtt_ns, ROUND_MOST * m->least_ns))
		return false;
	end_round(m, now_ns);
	return true;
}
