/* SPDX-License-Identifier: BSD-3-Clause */
/* The names that drivers have for the same thing: mlx5, bnxt_re, irdma, rxe, and the kernel's own of an interface. */
#include "watch_sources.h"

#include <stdio.h>

enum { RDMA = 1 << WATCH_RDMA, ETHERNET = 1 << WATCH_ETHERNET };

const struct watch_source watch_sources[] = {
	{ WATCH_RX, RDMA, 32, { "port_rcv_data" } },
	{ WATCH_RX, RDMA, 8, { "@rx_vport_rdma_unicast_bytes" } },
	{ WATCH_RX, RDMA | ETHERNET, 8, { "rx_bytes" } },
	{ WATCH_TX, RDMA, 32, { "port_xmit_data" } },
	{ WATCH_TX, RDMA, 8, { "@tx_vport_rdma_unicast_bytes" } },
	{ WATCH_TX, RDMA | ETHERNET, 8, { "tx_bytes" } },
	{ WATCH_RX_PACKETS, RDMA, 1, { "port_rcv_packets" } },
	{ WATCH_RX_PACKETS, RDMA, 1, { "rx_pkts" } },
	{ WATCH_RX_PACKETS, RDMA, 1, { "rcvd_pkts" } },
	{ WATCH_RX_PACKETS, RDMA, 1, { "ip4InPkts", "ip6InPkts" } },
	{ WATCH_RX_PACKETS, ETHERNET, 1, { "rx_packets" } },
	{ WATCH_TX_PACKETS, RDMA, 1, { "port_xmit_packets" } },
	{ WATCH_TX_PACKETS, RDMA, 1, { "tx_pkts" } },
	{ WATCH_TX_PACKETS, RDMA, 1, { "sent_pkts" } },
	{ WATCH_TX_PACKETS, RDMA, 1, { "ip4OutPkts", "ip6OutPkts" } },
	{ WATCH_TX_PACKETS, ETHERNET, 1, { "tx_packets" } },
	{ WATCH_LOST,
	  RDMA,
	  1,
	  { "port_xmit_discards", "port_rcv_errors", "out_of_buffer", "@rx_discards_phy",
	    "rx_roce_discards", "rx_roce_errors", "rx_out_of_buffer", "send_err" } },
	{ WATCH_LOST,
	  ETHERNET,
	  1,
	  { "rx_dropped", "tx_dropped", "rx_errors", "tx_errors", "@rx_discards_phy" } },
	{ WATCH_RETRANSMITTED,
	  RDMA,
	  1,
	  { "packet_seq_err", "local_ack_timeout_err", "implied_nak_seq_err", "roce_adp_retrans",
	    "to_retransmits", "seq_err_naks_rcvd", "rcvd_seq_err", "completer_retry_err",
	    "RetransSegs" } },
	{ WATCH_CNP,
	  RDMA,
	  1,
	  { "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "tx_cnp_pkts", "rx_cnp_pkts",
	    "cnpSent", "cnpHandled", "cnpIgnored" } },
	{ WATCH_ECN, RDMA, 1, { "np_ecn_marked_roce_packets" } },
	{ WATCH_ECN, RDMA, 1, { "rx_ecn_marked_pkts" } },
	{ WATCH_ECN, RDMA, 1, { "RxECNMrkd" } },
	{ WATCH_ECN, ETHERNET, 1, { "@rx_ecn_mark" } },
};

const size_t watch_source_count = sizeof(watch_sources) / sizeof(watch_sources[0]);

const struct counter *watch_counter(const struct watch_port *port, const char *name)
{
	bool ethtool = name[0] == '@';
	const struct counter *counter =
		counters_find(ethtool ? &port->ethtool : &port->counters, name + ethtool);

	if (!counter || counter->state == FACT_NOT_APPLICABLE || counter->state == FACT_ABSENT)
		return NULL;
	return counter;
}

bool watch_source_has(const struct watch_source *source, const struct watch_port *port)
{
	if (!(source->kinds & 1u << port->kind))
		return false;
	for (size_t i = 0; i < WATCH_SOURCE_NAMES && source->names[i]; i++) {
		if (watch_counter(port, source->names[i]))
			return true;
	}
	return false;
}

const char *watch_pause_name(unsigned priority, char out[48])
{
	if (priority < WATCH_PRIORITIES)
		snprintf(out, 48, "@rx_prio%u_pause_duration", priority);
	else
		snprintf(out, 48, "@rx_global_pause_duration");
	return out;
}
