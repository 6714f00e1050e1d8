/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.c: one line for people. Numbers have three significant digits and a unit prefix. */
#include <stdio.h>

#include "congestion/cc.h"

#define NUMBER_SIZE 32

/* Writes "940 Mbit/s" or "1.25 MB": the largest unit prefix that leaves a digit before the point. */
static void with_unit(char *text, uint64_t value, const char *unit)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	double scaled = (double)value;
	unsigned i = 0;

	while (scaled >= 999.5) {
		scaled /= 1000;
		i++;
	}
	snprintf(text, NUMBER_SIZE, "%.*f %s%s",
		 scaled >= 99.95 || i == 0 ? 0
		 : scaled >= 9.995	   ? 1
					   : 2,
		 scaled, prefixes[i], unit);
}

static double ms(uint64_t time_ns)
{
	return (double)time_ns / 1e6;
}

size_t cc_explain(const struct cc *cc, char *text, size_t size)
{
	struct cc_limits limits = cc_limits(cc);
	char rate[NUMBER_SIZE] = "unpaced", window[NUMBER_SIZE] = "not limited";
	char measured[64] = "", delivered[NUMBER_SIZE + 16] = "";
	const char *by = "";
	struct cc_status status;
	int length;

	cc->ops->status(cc->state, &status);
	if (limits.rate_bps != CC_UNPACED)
		with_unit(rate, limits.rate_bps, "bit/s");
	if (limits.window_bytes != UINT64_MAX)
		with_unit(window, limits.window_bytes, "B");
	if (limits.window_bytes == cc->credit_bytes && cc->credit_bytes != UINT64_MAX)
		by = " (the receiver's)";
	else if (limits.window_bytes == cc->attr.max_window_bytes &&
		 limits.window_bytes != UINT64_MAX)
		by = " (the most allowed)";
	if (status.base_rtt_ns)
		snprintf(measured, sizeof(measured), ", queue %.*f ms over %.*f ms",
			 status.queue_ns < 1000000 ? 2 : 1, ms(status.queue_ns),
			 status.base_rtt_ns < 1000000 ? 3 : 1, ms(status.base_rtt_ns));
	if (status.delivered_bps) {
		char number[NUMBER_SIZE];

		with_unit(number, status.delivered_bps, "bit/s");
		snprintf(delivered, sizeof(delivered), ", %s arriving", number);
	}
	length = snprintf(text, size, "%s: %s: %s%s%s%s, window %s%s", cc->ops->name, status.doing,
			  rate,
			  limits.rate_bps == cc->attr.link_rate_bps && limits.rate_bps != CC_UNPACED
				  ? " (the cap)"
				  : "",
			  delivered, measured, window, by);
	if (length < 0 || !size)
		return 0;
	return (size_t)length < size ? (size_t)length : size - 1;
}
