/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public simulator, <godwit/sim.h>: its attributes as those of a network, and a driver that needs no hints.
 *
 * Users call the functions of a context at any time, also from the callbacks of another context, and do not say so. Around
 * each event all contexts therefore make progress until none has anything left to do. The driver below (world.h) can do
 * with less, and the tests with thousands of hosts use it directly.
 */
#include <errno.h>
#include <godwit/sim.h>
#include <stdlib.h>

#include "base/zero.h"
#include "sim/world.h"

#define HOSTS_MAX	4096
#define MTU_MIN		1280
#define MTU_MAX		9000
#define MTU_DEFAULT	4200
#define HEADERS		64 /* of a data packet: IPv4, UDP and RoCEv2, with the ICRC */
#define RATE_DEFAULT	UINT64_C(10000000000)
#define DELAY_DEFAULT	10000
#define LEAVE_DEFAULT	0.1
#define QUEUE_MIN	4096
#define QUEUE_MAX	(1u << 18)
#define BITS_A_BYTE	8
#define NS_A_SECOND	1e9
#define ROUND_TRIPS_FIT 4

struct gw_sim {
	struct world world;
	/* True during gw_sim_step() and gw_sim_run(): callbacks may not drive the world. */
	bool running;
};

static bool probability(double p)
{
	return p >= 0 && p <= 1;
}

static bool sane(const struct gw_sim_attr *attr)
{
	return array_is_zero(attr->reserved) &&
	       (!attr->hosts || (attr->hosts >= 2 && attr->hosts <= HOSTS_MAX)) &&
	       attr->lanes <= FABRIC_LANES_MAX &&
	       (!attr->mtu || (attr->mtu >= MTU_MIN && attr->mtu <= MTU_MAX)) &&
	       (!attr->path_mtu || attr->path_mtu >= MTU_MIN) && probability(attr->loss) &&
	       probability(attr->burst_enter) && probability(attr->burst_leave) &&
	       probability(attr->burst_loss) && probability(attr->duplicate) &&
	       probability(attr->corrupt) && probability(attr->reorder);
}

/* The attributes with every default filled in. */
static struct gw_sim_attr complete(const struct gw_sim_attr *given)
{
	struct gw_sim_attr attr = *given;

	if (!attr.hosts)
		attr.hosts = 2;
	if (!attr.lanes)
		attr.lanes = 1;
	if (!attr.mtu)
		attr.mtu = MTU_DEFAULT;
	if (!attr.path_mtu || attr.path_mtu > attr.mtu)
		attr.path_mtu = attr.mtu;
	if (!attr.rate_bps)
		attr.rate_bps = RATE_DEFAULT;
	if (!attr.delay_ns)
		attr.delay_ns = DELAY_DEFAULT;
	if (attr.burst_leave <= 0)
		attr.burst_leave = LEAVE_DEFAULT;
	if (attr.burst_loss <= 0)
		attr.burst_loss = 1;
	if (!attr.reorder_ns)
		attr.reorder_ns = attr.delay_ns;
	return attr;
}

static uint32_t payload_of(uint32_t mtu)
{
	return (mtu - HEADERS) & ~3u;
}

static struct sim_attr network_attr(const struct gw_sim_attr *attr)
{
	static const uint32_t smaller_mtus[] = { 4200, 1500, MTU_MIN };
	struct sim_attr out = { .seed = attr->seed, .payload = payload_of(attr->mtu) };

	if (attr->path_mtu < attr->mtu)
		out.path_payload = payload_of(attr->path_mtu);
	for (size_t i = 0, n = 0; i < sizeof(smaller_mtus) / sizeof(smaller_mtus[0]); i++)
		if (smaller_mtus[i] < attr->mtu)
			out.rungs[n++] = payload_of(smaller_mtus[i]);
	return out;
}

/* A receive queue that holds what arrives in some round trips, so that it is not what limits a long path. */
static uint32_t queue_of(const struct gw_sim_attr *attr)
{
	double packets = ROUND_TRIPS_FIT * 2 * ((double)attr->delay_ns / NS_A_SECOND) *
			 (double)attr->rate_bps / BITS_A_BYTE / payload_of(attr->mtu);

	if (packets > QUEUE_MAX)
		return QUEUE_MAX;
	return packets < QUEUE_MIN ? QUEUE_MIN : (uint32_t)packets;
}

static struct link_attr link_of(const struct gw_sim_attr *attr)
{
	return (struct link_attr){
		.rate_bps = attr->rate_bps,
		.delay_ns = attr->delay_ns,
		.jitter_ns = attr->jitter_ns,
		.queue_bytes = attr->queue_bytes,
		.ecn_bytes = attr->ecn_bytes,
		.loss = attr->loss,
		.burst_enter = attr->burst_enter,
		.burst_leave = attr->burst_leave,
		.burst_loss = attr->burst_loss,
		.duplicate = attr->duplicate,
		.corrupt = attr->corrupt,
		.reorder = attr->reorder,
		.reorder_ns = attr->reorder_ns,
	};
}

/* Through a switch a packet takes two links, and what the attributes say is to befall it once: on the second. The first
 * has the rate and half of the delay. */
static void halve_path(struct sim *sim, const struct gw_sim_attr *attr)
{
	for (uint32_t host = 0; host < attr->hosts; host++) {
		sim_link(sim, 2 * host)->attr = (struct link_attr){
			.rate_bps = attr->rate_bps,
			.delay_ns = attr->delay_ns / 2,
		};
		sim_link(sim, 2 * host + 1)->attr.delay_ns -= attr->delay_ns / 2;
	}
}

int gw_sim_create(const struct gw_sim_attr *given, struct gw_sim **out)
{
	static const struct gw_sim_attr defaults;
	struct gw_sim_attr attr;
	struct sim_attr network;
	struct sim_shape_attr shape = { 0 };
	struct sim_host_attr host = { 0 };
	struct gw_sim *sim;
	int error;

	if (!given)
		given = &defaults;
	if (!out || !sane(given))
		return -EINVAL;
	attr = complete(given);
	network = network_attr(&attr);
	shape.shape = attr.hosts == 2 ? SIM_PAIR : SIM_STAR;
	shape.hosts = attr.hosts;
	shape.edge = link_of(&attr);
	host.lanes = attr.lanes;
	host.queue = queue_of(&attr);
	sim = calloc(1, sizeof(*sim));
	if (!sim)
		return -ENOMEM;
	error = world_build(&sim->world, &network, &shape, &host);
	if (error) {
		free(sim);
		return error;
	}
	if (shape.shape == SIM_STAR)
		halve_path(sim->world.sim, &attr);
	*out = sim;
	return 0;
}

int gw_sim_destroy(struct gw_sim *sim)
{
	if (!sim)
		return -EINVAL;
	if (sim->running)
		return -EBUSY;
	world_close(&sim->world);
	free(sim);
	return 0;
}

int gw_sim_context_open(struct gw_sim *sim, uint32_t host, const struct gw_context_attr *attr,
			struct gw_context **out)
{
	static const struct gw_context_attr defaults;
	int error;

	if (!attr)
		attr = &defaults;
	if (!sim || !out || host >= sim->world.host_count || attr->fabric || attr->faults ||
	    attr->lanes || attr->traffic_class || attr->flags)
		return -EINVAL;
	error = world_context_open(&sim->world, host, attr);
	if (!error)
		*out = sim->world.hosts[host].ctx;
	return error;
}

uint64_t gw_sim_now_ns(const struct gw_sim *sim)
{
	return sim ? sim_now_ns(sim->world.sim) : 0;
}

uint64_t gw_sim_hash(const struct gw_sim *sim)
{
	return sim ? sim_hash(sim->world.sim) : 0;
}

/* Moves to the next event. False when there is none up to `until_ns`. */
static bool advance(struct world *world, uint64_t until_ns)
{
	if (world_next_ns(world) == UINT64_MAX && until_ns == UINT64_MAX)
		return false;
	return world_step(world, until_ns);
}

int gw_sim_step(struct gw_sim *sim, uint64_t until_ns)
{
	bool stepped;

	if (!sim)
		return -EINVAL;
	if (sim->running)
		return -EBUSY;
	sim->running = true;
	world_settle(&sim->world);
	stepped = advance(&sim->world, until_ns);
	world_settle(&sim->world);
	sim->running = false;
	return stepped;
}

int gw_sim_run(struct gw_sim *sim, uint64_t until_ns, gw_sim_over_fn *over, void *arg)
{
	bool ended = false;

	if (!sim)
		return -EINVAL;
	if (sim->running)
		return -EBUSY;
	sim->running = true;
	do {
		world_settle(&sim->world);
		ended = over && over(arg);
	} while (!ended && advance(&sim->world, until_ns));
	sim->running = false;
	return ended;
}
