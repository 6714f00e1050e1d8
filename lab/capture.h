/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h: a pcap file of what crosses the middle of the star: after the links up, before the links down. It shows
 * single packets with finished checksums, also those that the link down then loses; times are those of the model.
 */
#ifndef LAB_CAPTURE_H
#define LAB_CAPTURE_H

#include "packet.h"

struct capture;

/* -errno if the file cannot be written. */
int capture_open(const char *path, struct capture **out);

/* `wall_ns`: since 1970. */
void capture_packet(struct capture *capture, uint64_t wall_ns, const struct packet *packet,
		    unsigned index, bool congested);

/* -errno if anything could not be written. Takes NULL too. */
int capture_close(struct capture *capture);

#endif
