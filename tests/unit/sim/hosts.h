/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h: simulated hosts without anything above them: queue pairs, windows and packets by hand, and what each host was
 * shown. Every call that can fail is asserted to succeed.
 */
#ifndef TESTS_UNIT_SIM_HOSTS_H
#define TESTS_UNIT_SIM_HOSTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/sim/sim.h"

#define HOSTS_PAYLOAD 1000
#define HOSTS_SLOTS   4
/* A data packet of HOSTS_PAYLOAD on the wire: with its headers. At HOSTS_RATE as many nanoseconds. */
#define HOSTS_WIRE 1064
#define HOSTS_RATE UINT64_C(8000000000)

/* One end of a queue pair. */
struct end {
	struct fabric *fabric;
	struct fabric_qp *qp;
};

struct sim *hosts_open(const struct sim_shape_attr *shape, const struct sim_host_attr *host,
		       uint64_t seed);
/* Two hosts with a link of HOSTS_RATE and this delay. */
struct sim *hosts_pair(const struct sim_host_attr *host, uint64_t delay_ns);

/* A connected queue pair between two hosts; the ends' addresses are the events' user pointers. */
void hosts_connect(struct sim *sim, uint32_t a, uint32_t b, struct end *end_a, struct end *end_b);
void hosts_disconnect(struct end *end_a, struct end *end_b);

void end_expose(struct end *end, uint32_t slot, uint32_t generation, void *addr, uint64_t length);
/* The same, and time goes on until it is open; its key. */
uint32_t end_open(struct sim *sim, struct end *end, uint32_t slot, uint32_t generation, void *addr,
		  uint64_t length);
void end_fence(struct end *end, uint32_t slot);
void end_write(struct end *end, unsigned lane, uint32_t slot, uint32_t rkey, uint32_t packet,
	       const uint8_t *data);

/* One poll; how many events. */
int end_poll(struct end *end, struct fabric_event *events);
/* Moves time on, polling this end at each of its deadlines, until it shows an event of this type, which is returned.
 * Other events are counted in others[] by type, where that is given. Fails after a second of virtual time. */
struct fabric_event end_await(struct sim *sim, struct end *end, enum fabric_event_type type,
			      unsigned *others);
uint64_t end_counter(const struct end *end, enum fabric_counter counter);

#endif
