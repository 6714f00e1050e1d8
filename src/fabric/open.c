/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a fabric by its name; the names of the counters. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fabric/open.h"
#include "fabric/refuse.h"
#include "fabric/roce/interface.h"
#include "fabric/roce/roce.h"
#include "fabric/verbs/verbs.h"

#define VERBS_NAME_MAX 256

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
	[FABRIC_TX_AHEAD] = "tx_ahead_packets",
	[FABRIC_RX_FORWARDED] = "rx_forwarded_packets",
	[FABRIC_RX_STEERED] = "rx_steered",
	[FABRIC_UNGUARDED] = "qps_without_icrc",
	[FABRIC_SEALED] = "qps_sealed",
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
	[FABRIC_DROP_SEAL] = "drop_seal",
	[FABRIC_DROP_REPLAY] = "drop_replay",
	[FABRIC_DROP_OFFSET] = "drop_offset",
	[FABRIC_DROP_LENGTH] = "drop_length",
	[FABRIC_QP_HEALED] = "qp_healed",
};

const char *fabric_counter_name(enum fabric_counter counter)
{
	return (unsigned)counter < FABRIC_COUNTERS ? names[counter] : NULL;
}

static bool probability(double p)
{
	return p >= 0 && p <= 1;
}

/* Whether `where` has the UDP port that RDMA devices use. */
static bool usual_port(const char *where)
{
	const char *at = strchr(where, '@');

	return !at || !strcmp(at, "@4791");
}

static int open_roce(const char *where, const struct fabric_options *options, struct fabric **out)
{
	char address[INTERFACE_ADDRESS_MAX], device[64];
	int error = interface_resolve(where, address);

	if (error == -EADDRNOTAVAIL)
		return open_refuse(LOG_LEVEL_ERROR, error,
				   "roce:%s: this interface has no IP address", where);
	if (error)
		return open_refuse(LOG_LEVEL_ERROR, error, "roce:%.100s: %s", where,
				   error == -EINVAL ? "too long for an address" : strerror(-error));
	if (usual_port(address) && interface_owner(SYSFS, address, device, sizeof(device)))
		return open_refuse(
			LOG_LEVEL_ERROR, -EADDRINUSE,
			"roce:%s: RDMA device %s takes UDP port 4791 of this address before any socket sees it; use verbs:%s, or another port (roce:ADDRESS@4792) between user-space ends",
			where, device, device);
	return roce_open(address, options, out);
}

static int open_verbs(const char *where, const struct fabric_options *options, struct fabric **out)
{
	char name[VERBS_NAME_MAX];

	if (fabric_faulty(options->faults))
		return open_refuse(
			LOG_LEVEL_ERROR, -ENOTSUP,
			"verbs:%s: faults on purpose are made in user space only: use roce:ADDRESS",
			where);
	/* Options that the name itself gives take precedence. */
	if (strlen(where) + 64 > sizeof(name))
		return open_refuse(LOG_LEVEL_ERROR, -EINVAL,
				   "verbs:%.100s...: too long for a device's name", where);
	snprintf(name, sizeof(name), "%s", where);
	if (options->lanes && !strstr(where, ",lanes="))
		snprintf(name + strlen(name), sizeof(name) - strlen(name), ",lanes=%u",
			 options->lanes);
	if (options->traffic_class && !strstr(where, ",tc="))
		snprintf(name + strlen(name), sizeof(name) - strlen(name), ",tc=%u",
			 options->traffic_class);
	if (options->rate_bps && !strstr(where, ",rate="))
		snprintf(name + strlen(name), sizeof(name) - strlen(name), ",rate=%lluK",
			 (unsigned long long)(options->rate_bps + 999) / 1000);
	return verbs_open(name, out);
}

static int open_auto(const struct fabric_options *options, struct fabric **out)
{
	bool on_purpose = fabric_faulty(options->faults);
	char device[VERBS_DEVICE_MAX], address[INTERFACE_ADDRESS_MAX], found[128];
	const char *why = "faults on purpose are made in user space only";
	int error;

	if (!on_purpose && !verbs_find(device, found, sizeof(found))) {
		why = found;
	} else if (!on_purpose) {
		error = open_verbs(device, options, out);
		if (!error) {
			log_info("auto: verbs:%s, for a device that places packets itself is there",
				 device);
			return 0;
		}
		why = "the RDMA device did not open";
	}
	error = interface_usual(SYSFS, address);
	if (error)
		return open_refuse(
			LOG_LEVEL_ERROR, error,
			"auto: no fabric: %s, and no interface that is up has an IP address whose UDP port 4791 is free for user space",
			why);
	log_info("auto: roce:%s, in user space, for %s", address, why);
	return roce_open(address, options, out);
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
		return open_refuse(LOG_LEVEL_INFO, -EINVAL,
				   "injected faults are probabilities between 0 and 1");
	if (options->lanes > FABRIC_LANES_MAX)
		return open_refuse(LOG_LEVEL_INFO, -EINVAL, "%u lanes are more than %d",
				   options->lanes, FABRIC_LANES_MAX);
	if (options->traffic_class & 3)
		return open_refuse(LOG_LEVEL_INFO, -EINVAL,
				   "traffic class %u: the low two bits are ECN's and have to be 0",
				   options->traffic_class);
	if (name && !strncmp(name, "roce:", 5))
		return open_roce(name + 5, options, out);
	if (name && !strncmp(name, "verbs:", 6))
		return open_verbs(name + 6, options, out);
	if (name && !strcmp(name, "auto"))
		return open_auto(options, out);
	return open_refuse(
		LOG_LEVEL_ERROR, -EINVAL,
		"unknown fabric \"%.100s\": use roce:ADDRESS, roce:INTERFACE, verbs:DEVICE or auto",
		name ? name : "");
}
