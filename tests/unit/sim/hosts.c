/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated hosts by hand; see hosts.h. */
#include "hosts.h"

#define PATIENCE_NS UINT64_C(1000000000)

struct sim *hosts_open(const struct sim_shape_attr *shape, const struct sim_host_attr *host,
		       uint64_t seed)
{
	struct sim_attr attr = { .seed = seed, .payload = HOSTS_PAYLOAD };
	struct sim *sim;

	assert_int_equal(sim_create(&attr, &sim), 0);
	assert_int_equal(sim_build(sim, shape, host), 0);
	return sim;
}

struct sim *hosts_pair(const struct sim_host_attr *host, uint64_t delay_ns)
{
	struct sim_shape_attr shape = { .shape = SIM_PAIR,
					.hosts = 2,
					.edge = { .rate_bps = HOSTS_RATE, .delay_ns = delay_ns } };

	return hosts_open(&shape, host, 1);
}

static void create(struct sim *sim, uint32_t host, struct end *end)
{
	struct fabric_qp_attr attr = { .user = end, .split = { 10, 18, 4 }, .slots = HOSTS_SLOTS };

	end->fabric = sim_host(sim, host);
	assert_int_equal(end->fabric->ops->qp_create(end->fabric, &attr, &end->qp), 0);
}

void hosts_connect(struct sim *sim, uint32_t a, uint32_t b, struct end *end_a, struct end *end_b)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	size_t length;

	create(sim, a, end_a);
	create(sim, b, end_b);
	length = end_b->fabric->ops->qp_address(end_b->qp, address);
	assert_int_equal(end_a->fabric->ops->qp_connect(end_a->qp, address, length, HOSTS_PAYLOAD),
			 0);
	length = end_a->fabric->ops->qp_address(end_a->qp, address);
	assert_int_equal(end_b->fabric->ops->qp_connect(end_b->qp, address, length, HOSTS_PAYLOAD),
			 0);
}

void hosts_disconnect(struct end *end_a, struct end *end_b)
{
	end_a->fabric->ops->qp_destroy(end_a->qp);
	end_b->fabric->ops->qp_destroy(end_b->qp);
}

void end_expose(struct end *end, uint32_t slot, uint32_t generation, void *addr, uint64_t length)
{
	assert_int_equal(end->fabric->ops->expose(end->qp, slot, generation, NULL, addr, length,
						  HOSTS_PAYLOAD),
			 0);
}

uint32_t end_open(struct sim *sim, struct end *end, uint32_t slot, uint32_t generation, void *addr,
		  uint64_t length)
{
	struct fabric_event event;

	end_expose(end, slot, generation, addr, length);
	event = end_await(sim, end, FABRIC_EXPOSED, NULL);
	assert_int_equal(event.slot, slot);
	assert_int_equal(event.generation, generation);
	assert_int_equal(event.exposed.va, 0);
	return event.exposed.rkey;
}

void end_fence(struct end *end, uint32_t slot)
{
	assert_int_equal(end->fabric->ops->fence(end->qp, slot), 0);
}

void end_write(struct end *end, unsigned lane, uint32_t slot, uint32_t rkey, uint32_t packet,
	       const uint8_t *data)
{
	struct fabric_target target = { .slot = slot, .rkey = rkey };
	struct fabric_write write = { .data = data,
				      .length = HOSTS_PAYLOAD,
				      .packet = packet,
				      .user = 5,
				      .va = (uint64_t)packet * HOSTS_PAYLOAD };

	assert_int_equal(end->fabric->ops->write(end->qp, lane, &target, &write, 1), 1);
}

int end_poll(struct end *end, struct fabric_event *events)
{
	return end->fabric->ops->poll(end->fabric, events);
}

struct fabric_event end_await(struct sim *sim, struct end *end, enum fabric_event_type type,
			      unsigned *others)
{
	uint64_t limit = sim_now_ns(sim) + PATIENCE_NS;
	struct fabric_event events[FABRIC_EVENTS];

	for (;;) {
		int n = end_poll(end, events);
		uint64_t next = end->fabric->ops->deadline_ns(end->fabric);

		for (int i = 0; i < n; i++) {
			assert_ptr_equal(events[i].user, end);
			if (events[i].type == type) {
				assert_int_equal(i, n - 1); /* else the test would lose some */
				return events[i];
			}
			if (others)
				others[events[i].type]++;
		}
		if (sim_next_ns(sim) < next)
			next = sim_next_ns(sim);
		assert_true(next <= limit);
		sim_run_until(sim, next);
	}
}

uint64_t end_counter(const struct end *end, enum fabric_counter counter)
{
	return end->fabric->counters[counter];
}
