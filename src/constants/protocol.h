/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * protocol.h: numbers that the message layer and the schemes follow and that the planner predicts from. They stand here
 * once, so that a change to the protocol changes the predictions too.
 */
#ifndef CONSTANTS_PROTOCOL_H
#define CONSTANTS_PROTOCOL_H

#include <stdint.h>

/* Round-trip time from which a path counts as long: there a lost control datagram costs more than one sent in vain. */
#define FAR_NS	    UINT64_C(5000000)
#define EARLY_SHARE 8

/* The one rule for saying things twice: on a long path grants, announcements, results and requests for retransmission are
 * sent a second time, unasked. Returns how long after the first; 0 where the path is short and it is not done. */
static inline uint64_t second_copy_ns(uint64_t rtt_min_ns)
{
	return rtt_min_ns >= FAR_NS ? rtt_min_ns / EARLY_SHARE : 0;
}

/* Patience, how long to wait before a datagram counts as lost: on a steady path a round trip and 1 / PATIENCE_SHARE. */
#define PATIENCE_SHARE	4
#define PATIENCE_MIN_NS UINT64_C(1000000)
/* How long an answer takes at most: on a steady path a round trip and 1 / ANSWER_SHARE. */
#define ANSWER_SHARE  8
#define ANSWER_MIN_NS UINT64_C(500000)

/* Each wait in vain doubles the next one, at most this many times. */
#define BACKOFF_LIMIT 6
/* No wait grows beyond this or, where that is longer, beyond what one answer takes, in ns. */
#define BACKOFF_LIMIT_NS UINT64_C(1000000000)

/* A result waits for others that could share its datagram: 1 / RESULT_WAIT_SHARE of a round trip, at most this long. */
#define RESULT_WAIT_SHARE  4
#define RESULT_WAIT_MAX_NS UINT64_C(200000)

/* A receiver reports after this many packets, as far as reports stay under 1 % of the rate. */
#define REPORT_EVERY 32u
/* The same on a short path, where the number of datagrams costs more than their bytes: after four batches of packets of 1436 bytes. */
#define REPORT_EVERY_NEAR 160u
#define NEAR_NS		  UINT64_C(1000000)

/* Packets that must land behind a hole before it counts as lost, until reordering raises the number; as many as TCP's
 * duplicate acknowledgements. */
#define SLACK_FIRST 3

/* On a long path the second and later retransmission of a packet is sent twice, for at most SPARE_RUNS runs of packets
 * and one packet in SPARE_SHARE of a message. */
#define SPARE_RUNS  24
#define SPARE_SHARE 64

/*
 * Bytes on the wire beside a packet's payload: BTH 12, RETH 16, immediate 4, ICRC 4; UDP 8, IPv4 20; Ethernet header 14,
 * checksum 4, preamble 8 and gap 12.
 */
#define PACKET_OVERHEAD 102

#endif
