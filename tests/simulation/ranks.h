/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h: a communicator of simulated hosts: one context and one end of the communicator on each, and mail between them that
 * takes its time.
 */
#ifndef SIMULATION_RANKS_H
#define SIMULATION_RANKS_H

#include <stdbool.h>

#include "base/list.h"
#include "base/rng.h"
#include "collective/comm.h"
#include "sim/world.h"

struct ranks;

struct sim_mail {
	struct mail mail;
	struct ranks *ranks;
	uint32_t rank;
	/* letters of this rank that have not arrived */
	uint32_t waiting;
};

struct rank {
	struct sim_mail mail;
	struct office office;
	struct gw_comm *comm;
	bool dead;
};

struct ranks_attr {
	struct sim_attr sim;
	struct sim_shape_attr shape;
	struct sim_host_attr host;
	struct gw_context_attr context;
	/* rank and size are filled in */
	struct gw_comm_attr comm;
	/* longest time that a letter takes */
	uint64_t mail_ns;
	/* letters of a rank that may be on their way; 0: any number */
	uint32_t mail_room;
	/* round-trip time that the ranks measure when they meet; 0: none */
	uint64_t rtt_ns;
	uint64_t seed;
};

struct ranks {
	struct world world;
	struct rng rng;
	uint32_t size;
	struct rank *rank;
	/* letters under way, in the order of their arrival */
	struct list letters;
	uint64_t mail_ns, rtt_ns;
	uint32_t mail_room;
	/* letters for which there was no room */
	uint64_t mail_full;
	/* when all communicators were last looked at, in ns */
	uint64_t turned_ns;
	/* communicators have times of their own to keep, as bounded operations do */
	bool timed;
};

/* 0 or -errno; after an error there is nothing to close. */
int ranks_open(struct ranks *ranks, const struct ranks_attr *attr);
void ranks_close(struct ranks *ranks);

uint64_t ranks_now(const struct ranks *ranks);

/* Moves on to the next event: a packet, a timer, a letter. False, with the time at `until_ns`, if there is none before. */
bool ranks_step(struct ranks *ranks, uint64_t until_ns);

/* A rank's process ends; the others are told, some time later. */
void ranks_kill(struct ranks *ranks, uint32_t rank);

/* Something was called on a rank's communicator. */
void ranks_touch(struct ranks *ranks, uint32_t rank);

#endif
