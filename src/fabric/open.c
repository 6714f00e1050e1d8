/* SPDX-License-Identifier: BSD-3-Clause */
/* Which fabric a name means, and what the fabrics' counters are called. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fabric/open.h"
#include "fabric/roce/roce.h"

static const char *const names[FABRIC_COUNTERS] = {
	[FABRIC_TX_DATA] = "tx_data_packets",
	[FABRIC_TX_CONTROL] = "tx_control_packets",
	[FABRIC_TX_BYTES] = "tx_bytes",
	[FABRIC_RX_DATA] = "rx_data_packets",
	[FABRIC_RX_CONTROL] = "rx_control_packets",
	[FABRIC_RX_BYTES] = "rx_bytes",
	[FABRIC_RX_CE] = "rx_ce_packets",
	[FABRIC_RX_CNP] = "rx_cnp_packets",
	[FABRIC_TX_CNP] = "tx_cnp_packets",
	[FABRIC_RX_FORWARDED] = "rx_forwarded_packets",
	[FABRIC_RX_STEERED] = "rx_steered",
	[FABRIC_UNGUARDED] = "qps_without_icrc",
	[FABRIC_FAULT_DROPPED] = "fault_dropped_packets",
	[FABRIC_FAULT_DUPLICATED] = "fault_duplicated_packets",
	[FABRIC_FAULT_REORDERED] = "fault_reordered_packets",
	[FABRIC_TX_BUSY] = "tx_busy",
	[FABRIC_TX_ERRORS] = "tx_errors",
	[FABRIC_DROP_OVERRUN] = "drop_overrun",
	[FABRIC_DROP_MALFORMED] = "drop_malformed",
	[FABRIC_DROP_VERSION] = "drop_version",
	[FABRIC_DROP_ICRC] = "drop_icrc",
	[FABRIC_DROP_OPCODE] = "drop_opcode",
	[FABRIC_DROP_MULTIPACKET] = "drop_multipacket",
	[FABRIC_DROP_QPN] = "drop_qpn",
	[FABRIC_DROP_STRANGER] = "drop_stranger",
	[FABRIC_DROP_QKEY] = "drop_qkey",
	[FABRIC_DROP_SLOT] = "drop_slot",
	[FABRIC_DROP_RKEY] = "drop_rkey",
	[FABRIC_DROP_OFFSET] = "drop_offset",
	[FABRIC_DROP_LENGTH] = "drop_length",
};

const char *fabric_counter_name(enum fabric_counter counter)
{
	return (unsigned)counter < FABRIC_COUNTERS ? names[counter] : NULL;
}

static bool probability(double p)
{
	return p >= 0 && p <= 1;
}

int fabric_open(const char *name, const struct fabric_options *options, struct fabric **out)
{
	static const struct fabric_options defaults;
	const struct fabric_faults *faults;

	if (!options)
		options = &defaults;
	faults = options->faults;
	if (faults && (!probability(faults->drop) || !probability(faults->duplicate) ||
		       !probability(faults->reorder)))
		return -EINVAL;
	if (options->lanes > FABRIC_LANES_MAX || options->traffic_class & 3)
		return -EINVAL;
	if (name && !strncmp(name, "roce:", 5))
		return roce_open(name + 5, options, out);
	log_error("unknown fabric \"%s\": use roce:ADDRESS or roce:ADDRESS@PORT", name ? name : "");
	return -EINVAL;
}
