/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters' names: the message layer's first, then the fabric's. Names are a promise to whoever graphs them; those
 * that begin with drop_ are packets thrown away, one reason each.
 */
#include <errno.h>
#include <string.h>

#include "message/state.h"

static const char *const names[MESSAGE_COUNTERS] = {
	[COUNT_SENT] = "sent_packets",
	[COUNT_RETRANSMITTED] = "retransmitted_packets",
	[COUNT_LANDED] = "landed_packets",
	[COUNT_LANDED_BYTES] = "landed_bytes",
	[COUNT_REBUILT] = "rebuilt_packets",
	[COUNT_DUPLICATE] = "duplicate_packets",
	[COUNT_LATE] = "late_packets",
	[COUNT_CONTROL_SENT] = "control_sent",
	[COUNT_CONTROL_BYTES] = "control_sent_bytes",
	[COUNT_CONTROL_HEARD] = "control_heard",
	[COUNT_REPORTS_SENT] = "reports_sent",
	[COUNT_GRANT_REPEATS] = "grant_repeats",
	[COUNT_ANNOUNCE_REPEATS] = "announce_repeats",
	[COUNT_RESULT_REPEATS] = "result_repeats",
	[COUNT_STALLS] = "window_stalls",
	[COUNT_LANES_RETIRED] = "lanes_retired",
	[COUNT_LANES_RESTORED] = "lanes_restored",
	[COUNT_PAYLOAD_CUTS] = "payload_cuts",
	[COUNT_PEERS_GONE] = "peers_gone",
	[COUNT_DROP_GENERATION] = "drop_generation",
	[COUNT_DROP_SHAPE] = "drop_shape",
	[COUNT_DROP_UNREACHABLE] = "drop_unreachable",
	[COUNT_DROP_CONTROL] = "drop_control_malformed",
	[COUNT_DROP_CONTROL_VERSION] = "drop_control_version",
	[COUNT_DROP_CONTROL_UNKNOWN] = "drop_control_unknown",
	[COUNT_DROP_TOKEN] = "drop_token",
	[COUNT_DROP_CLAIM] = "drop_claim",
};

unsigned gw_counter_count(void)
{
	return MESSAGE_COUNTERS + FABRIC_COUNTERS;
}

const char *gw_counter_name(unsigned counter)
{
	if (counter < MESSAGE_COUNTERS)
		return names[counter];
	if (counter < MESSAGE_COUNTERS + FABRIC_COUNTERS)
		return fabric_counter_name((enum fabric_counter)(counter - MESSAGE_COUNTERS));
	return NULL;
}

int gw_counter_find(const char *name)
{
	const char *known;

	for (unsigned i = 0; name && (known = gw_counter_name(i)); i++)
		if (strcmp(known, name) == 0)
			return (int)i;
	return -ENOENT;
}

int gw_counter_read(const struct gw_context *ctx, unsigned counter, uint64_t *out)
{
	if (!ctx || !out || counter >= MESSAGE_COUNTERS + FABRIC_COUNTERS)
		return -EINVAL;
	*out = counter < MESSAGE_COUNTERS ? ctx->counters[counter]
					  : ctx->fabric->counters[counter - MESSAGE_COUNTERS];
	return 0;
}
