/* SPDX-License-Identifier: BSD-3-Clause */
/* size.h: how large a queue pair's data packets may be. Part of state.h; the rules are in size.c. */
#ifndef MESSAGE_SIZE_H
#define MESSAGE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct control_header;
struct control_size;
struct gw_qp;
struct gw_qp_attr;
struct peer_info;

/* Payload of the smallest packets where there are several sizes, bytes: control has to fit them. */
#define SIZE_LEAST 256u

enum size_state {
	/* Nothing was asked of the queue pair yet. */
	SIZE_IDLE,
	/* Probes of larger sizes are under way. */
	SIZE_PROBING,
	/* Large packets seem to be lost: probes of the size in use are under way. */
	SIZE_DOUBTED,
	/* The path has shrunk: waits for smaller grants. */
	SIZE_CUTTING,
	/* No probe is under way. */
	SIZE_SETTLED,
};

struct size {
	/* Payload of packets that every path carries, bytes. */
	uint32_t floor;
	/* The same before the peer had its say. */
	uint32_t own_floor;
	/* Payload of the largest packets that the interfaces at both ends carry, bytes. Equal to `floor` where packets have
	 * one size for ever. */
	uint32_t ceiling;
	/* Bytes that the fabric needs of each packet to seal it; 0: packets are clear. */
	uint32_t extra;
	/* A number that every size divides; 0: any. */
	uint32_t divides;
	/* Bytes that every size is a multiple of. */
	uint32_t multiple;

	/* As the sender of data. */
	uint8_t state;
	/* Rounds of probes that were answered for small packets only. */
	uint8_t rounds;
	/* Rounds of probes in a row of which nothing was answered. */
	uint8_t backoff;
	/* Something was heard from the peer. */
	bool heard;
	/* A small probe of the latest round was answered. */
	bool answered;
	/* Times that the path was found to have shrunk; wraps. */
	uint8_t epoch;
	/* The peer's grants follow the latest epoch. */
	bool cut_known;
	/* Searches that ended below the ceiling, in a row. */
	uint8_t searches;
	/* Payload of the largest packets known to arrive on every lane in use, bytes. */
	uint32_t proven;
	/* The same for each lane. */
	uint32_t lane_proven[FABRIC_LANES_MAX];
	/* Time at which the first data packet left since the peer last reported that something landed, in ns; 0: none did. */
	uint64_t unheard_ns;
	/* Time that the last answer to a small probe took, the peer's delay included, in ns; 0: none came. */
	uint64_t took_ns;
	/* Time of the latest round, in ns, and of the next one, or NEVER. */
	uint64_t asked_ns;
	uint64_t at;

	/* As the receiver of data. */
	/* Payload that the next grants name, bytes. */
	uint32_t named;
	/* The peer tries no larger size: grants need not be held back. */
	bool peer_settled;
	/* The peer's epoch that grants follow. */
	uint8_t applied;
	/* Largest probe that arrived on each lane and is still to be acknowledged, bytes; 0: none. */
	uint32_t arrived[FABRIC_LANES_MAX];
};

/* What this end has to offer. */
void size_init(struct size *size, const struct fabric_caps *caps, const struct gw_qp_attr *attr);
/* Agrees on floor and ceiling with a peer. False when these do not divide what this end's sizes have to. */
bool size_connect(struct gw_qp *qp, const struct peer_info *info);
/* Something is asked of the queue pair: probing starts if it has not. */
void size_begin(struct gw_qp *qp);
/* When size_timer() is to be called; NEVER: not. */
uint64_t size_due(const struct gw_qp *qp);
void size_timer(struct gw_qp *qp);
/* A small probe that left at `sent_ns` was answered. */
void size_probe_answered(struct gw_qp *qp, uint64_t sent_ns);
/* Data packets left. */
void size_sent(struct gw_qp *qp);
/* The peer reports that data landed. */
void size_landed(struct gw_qp *qp);
/* Takes in what a control header says of sizes. */
void size_header(struct gw_qp *qp, const struct control_header *header);
/* Takes in a SIZE message. False when no honest peer sends it. */
bool size_message(struct gw_qp *qp, const struct control_header *header,
		  const struct control_size *size);
/* Ends a cut if the peer follows it and no send waits for a smaller grant. True: it ended. */
bool size_cut_check(struct gw_qp *qp);
/* The payloads to probe on a lane in this round, largest first; returns how many. */
unsigned size_probes(const struct gw_qp *qp, uint32_t lane, uint32_t payloads[FABRIC_RUNGS + 1]);
/* Whether probes of a size take this lane. */
bool size_lane_asked(const struct gw_qp *qp, uint32_t lane);

#endif
