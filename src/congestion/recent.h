/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recent.h: a minimum or maximum over recent time. Time is divided into spans; the value of the previous span and that of
 * the current one are kept, so that the result covers between one and two spans without storing samples.
 */
#ifndef CONGESTION_RECENT_H
#define CONGESTION_RECENT_H

#include <math.h>
#include <stdint.h>

#include "congestion/lesser.h"

struct recent {
	/* minimum or maximum of the previous span and of the current one */
	double before, now;
	/* time at which the current span began */
	uint64_t since;
};

/* `none` is the value of a span without samples: INFINITY for a minimum, 0 for a maximum. */
static inline void recent_init(struct recent *recent, double none, uint64_t now_ns)
{
	*recent = (struct recent){ .before = none, .now = none, .since = now_ns };
}

/* Starts a new span if the current one is over. */
static inline void recent_roll(struct recent *recent, double none, double span_ns, uint64_t now_ns)
{
	double passed_ns = (double)(now_ns - recent->since);

	if (passed_ns <= span_ns)
		return;
	recent->before = passed_ns <= 2 * span_ns ? recent->now : none;
	recent->now = none;
	recent->since = now_ns;
}

static inline void recent_see_least(struct recent *recent, double value, double span_ns,
				    uint64_t now_ns)
{
	recent_roll(recent, INFINITY, span_ns, now_ns);
	recent->now = lesser(recent->now, value);
}

static inline void recent_see_most(struct recent *recent, double value, double span_ns,
				   uint64_t now_ns)
{
	recent_roll(recent, 0, span_ns, now_ns);
	recent->now = greater(recent->now, value);
}

static inline double recent_least(const struct recent *recent)
{
	return lesser(recent->before, recent->now);
}

static inline double recent_most(const struct recent *recent)
{
	return greater(recent->before, recent->now);
}

#endif
