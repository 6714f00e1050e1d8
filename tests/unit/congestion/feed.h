/* SPDX-License-Identifier: BSD-3-Clause */
/* feed.h: a controller fed by hand: a path that delivers what it is told to, with the round trip it is told. */
#ifndef CONGESTION_FEED_H
#define CONGESTION_FEED_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "congestion/cc.h"

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define S      UINT64_C(1000000000)
#define MBIT   UINT64_C(1000000)
#define GBIT   UINT64_C(1000000000)
#define PACKET 1500u

struct feed {
	struct cc cc;
	uint64_t now;
	/* what the path does */
	uint64_t rate_bps; /* delivers that, or what the controller sends if it is less */
	uint64_t rtt_ns;
	uint64_t return_ns; /* of it in queues on the way back */
	uint32_t rtt_bytes;
	double loss, ce;
	bool app_limited;
	bool polices;	    /* drops what is sent beyond the rate, without a queue */
	double sent_bps[4]; /* in the last four reports' time: what is on its way */
	unsigned turn;
};

static inline void feed_open(struct feed *feed, const char *name, uint64_t rate_bps,
			     uint64_t rtt_ns)
{
	struct cc_attr attr = { .packet_bytes = PACKET };

	*feed = (struct feed){ .now = S, .rate_bps = rate_bps, .rtt_ns = rtt_ns };
	cc_init(&feed->cc, cc_find(name), &attr, feed->now);
}

/* One report, a quarter of a round trip after the last; it tells of what was sent a round trip ago. */
static inline void feed_report(struct feed *feed)
{
	struct cc_limits limits = cc_limits(&feed->cc);
	double window_bps = (double)limits.window_bytes * 8e9 / (double)feed->rtt_ns;
	double *sent_bps = &feed->sent_bps[feed->turn++ % 4];
	double rate = *sent_bps < (double)feed->rate_bps ? *sent_bps : (double)feed->rate_bps;
	uint64_t every = feed->rtt_ns / 4;
	double packets = rate / 8e9 * (double)every / PACKET;
	double beyond = feed->polices ? (*sent_bps - rate) / 8e9 * (double)every / PACKET : 0;
	struct cc_report report = {
		.delivered_packets = (uint64_t)(packets * (1 - feed->loss) + 0.5),
		.lost_packets = (uint64_t)(packets * feed->loss + beyond + 0.5),
		.rtt_ns = feed->rtt_ns,
		.return_ns = feed->return_ns,
		.rtt_bytes = feed->rtt_bytes,
		.app_limited = feed->app_limited,
	};

	*sent_bps = (double)limits.rate_bps < window_bps ? (double)limits.rate_bps : window_bps;
	report.counted_packets = report.delivered_packets + report.lost_packets;
	report.delivered_bytes = report.delivered_packets * PACKET;
	report.marked_packets = (uint64_t)((double)report.delivered_packets * feed->ce + 0.5);
	if (!feed->app_limited)
		report.in_flight_bytes = (uint64_t)(*sent_bps / 8e9 * (double)feed->rtt_ns);
	feed->now += every;
	if (!feed->app_limited)
		cc_sent(&feed->cc, (uint64_t)(*sent_bps / 8e9 * (double)every), feed->now);
	cc_report(&feed->cc, &report, feed->now);
}

static inline void feed_for(struct feed *feed, uint64_t time_ns)
{
	for (uint64_t end = feed->now + time_ns; feed->now < end;)
		feed_report(feed);
}

static inline uint64_t feed_window(const struct feed *feed)
{
	return cc_limits(&feed->cc).window_bytes;
}

static inline uint64_t feed_rate(const struct feed *feed)
{
	return cc_limits(&feed->cc).rate_bps;
}

static inline void assert_explained(const struct feed *feed, const char *part)
{
	char text[CC_TEXT_SIZE];
	size_t length = cc_explain(&feed->cc, text, sizeof(text));

	assert_int_equal(length, strlen(text));
	if (!strstr(text, part))
		fail_msg("'%s' does not say '%s'", text, part);
}

#endif
