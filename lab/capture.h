/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h: writes a pcap file of the packets in the switch, between uplinks and downlinks. It contains single packets with
 * complete checksums, also those that a downlink then loses; the times are those that the link model computed.
 */
#ifndef LAB_CAPTURE_H
#define LAB_CAPTURE_H

#include "packet.h"

struct capture;

/* Returns 0, or -errno if the file cannot be created. */
int capture_open(const char *path, struct capture **out);

/* Writes segment `index` of a packet, with a CE mark if `congested`. `wall_ns` is the time since 1970. */
void capture_packet(struct capture *capture, uint64_t wall_ns, const struct packet *packet,
		    unsigned index, bool congested);

/* Closes the file. Returns 0, or -errno if anything could not be written. Does nothing for NULL. */
int capture_close(struct capture *capture);

#endif
