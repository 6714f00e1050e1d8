/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h: contexts on a simulated network, in virtual time. The library is libgodwit-sim (pkg-config godwit-sim).
 *
 * A program creates a world of some hosts, opens a context on each, and uses these contexts as it would use others: queue
 * pairs, messages, schemes and channels are libgodwit's own code. Instead of calling gw_progress() in a loop it lets the
 * world run. Time then jumps from one event to the next, so that a second on a slow path takes milliseconds, and it stands
 * still while the program computes.
 *
 * The seed and the calls decide everything: the same program with the same seed sees the same run, to the nanosecond and to
 * the bit. gw_sim_hash() tells two runs apart.
 *
 * A world and all of its contexts belong to one thread. gw_wait() on such a context is -ENOTSUP, as only the world moves its
 * time; gw_progress() may be called and needs not to be.
 */
#ifndef GODWIT_SIM_H
#define GODWIT_SIM_H

#include <godwit/godwit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_SIM_API __attribute__((visibility("default")))

struct gw_sim;

/*
 * Two hosts are joined by a link, more than two by links to one switch. Everything between a rate and a burst happens to
 * packets of every kind, data and control, once on their way from one host to another, in each direction by itself.
 * Probabilities are from 0 to 1, for each packet.
 */
struct gw_sim_attr {
	/* Start of all random draws. */
	uint64_t seed;
	/* Number of hosts, up to 4096; default 2. Each event costs time in proportion to the hosts with a context. */
	uint32_t hosts;
	/* Paths to each peer, as `lanes` of struct gw_context_attr, up to 8; default 1. */
	uint32_t lanes;
	/* Largest IP packet of the hosts' interfaces in bytes, 1280 to 9000; default 4200. */
	uint32_t mtu;
	/* Largest IP packet that the path carries, in bytes, 1280 or more. Longer ones are lost, and nobody is told. The
	 * default is that of the interfaces. */
	uint32_t path_mtu;
	/* Rate of each host's link in bits a second; default 10 Gbit/s. */
	uint64_t rate_bps;
	/* Propagation delay from one host to another, one way, in nanoseconds; default 10 us. */
	uint64_t delay_ns;
	/* Largest extra delay of a packet in nanoseconds, drawn evenly from 0 on. Packets overtake each other. */
	uint64_t jitter_ns;
	/* Size in bytes of the queue in front of the link to a host: a packet that does not fit is lost. Default no limit. */
	uint64_t queue_bytes;
	/* Bytes in this queue above which a packet is marked (ECN, congestion experienced); default never. */
	uint64_t ecn_bytes;
	/* Probability that a packet is lost, each independent of the others. */
	double loss;
	/* Bursts (Gilbert-Elliott): probability that a burst begins with this packet, */
	double burst_enter;
	/* that it ends with this packet; default 0.1, which is 10 packets on the mean, */
	double burst_leave;
	/* and that a packet inside it is lost; default 1. */
	double burst_loss;
	/* Probability that a packet arrives twice. */
	double duplicate;
	/* Probability that a packet arrives damaged, which the receiving host finds by its checksum: it is lost. */
	double corrupt;
	/* Probability that a packet is held back, so that later ones overtake it, */
	double reorder;
	/* and the longest time that it is held back, in nanoseconds; default `delay_ns`. */
	uint64_t reorder_ns;
	uint64_t reserved[8];
};

/* Creates a world at time 0. Attributes may be null: all defaults. -EINVAL for an attribute out of range, -ENOMEM. */
GW_SIM_API int gw_sim_create(const struct gw_sim_attr *attr, struct gw_sim **out);

/* Closes the contexts that are still open and frees the world. -EBUSY from inside a callback. */
GW_SIM_API int gw_sim_destroy(struct gw_sim *sim);

/*
 * Opens a context on host `host`, counted from 0. It is closed with gw_context_close(), or with the world; the host then
 * stays silent for ever. Attributes may be null; the members that name and shape a fabric (`fabric`, `faults`, `lanes`,
 * `traffic_class`, `flags`) must be zero, as the world's attributes take their place.
 * -EINVAL  no such host, or a bad attribute
 * -EBUSY   the host has a context, or had one
 * -ENOMEM
 */
GW_SIM_API int gw_sim_context_open(struct gw_sim *sim, uint32_t host,
				   const struct gw_context_attr *attr, struct gw_context **out);

/* The virtual time in nanoseconds: gw_now_ns() of every context. */
GW_SIM_API uint64_t gw_sim_now_ns(const struct gw_sim *sim);

/*
 * Has every context do what there is to do now, then moves the time to the next event (a packet arrives, a timer expires),
 * and has the contexts do what follows from it. Returns 1. Where there is no event up to `until_ns` it moves the time there
 * and returns 0; with UINT64_MAX, when no event is due at all, the time stays. -EBUSY from inside a callback.
 */
GW_SIM_API int gw_sim_step(struct gw_sim *sim, uint64_t until_ns);

/* Whether the run is over: non-zero ends it. Called between two events. It may do what a callback may not, such as close a
 * context, but not drive the world. */
typedef int gw_sim_over_fn(void *arg);

/* Steps until `over` returns non-zero, and returns 1; or until there is nothing left to do up to `until_ns`, and returns 0.
 * Without a function it runs up to that time. -EBUSY from inside a callback. */
GW_SIM_API int gw_sim_run(struct gw_sim *sim, uint64_t until_ns, gw_sim_over_fn *over, void *arg);

/* A hash over every packet that arrived so far, where and when. */
GW_SIM_API uint64_t gw_sim_hash(const struct gw_sim *sim);

#ifdef __cplusplus
}
#endif
#endif
