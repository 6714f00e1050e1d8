/* SPDX-License-Identifier: BSD-3-Clause */
/* A software host: what it takes in, what it throws away and why, and what a poll shows of it. */
#include <errno.h>
#include <string.h>

#include "hosts.h"

#define DELAY_NS 1000

static uint8_t source[4 * HOSTS_PAYLOAD], target[4 * HOSTS_PAYLOAD];

static void fill(void)
{
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 7 + 1);
	memset(target, 0, sizeof(target));
}

static bool is_blank(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static void test_lands_in_its_place_before_it_is_told(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event event;
	struct end a, b;
	uint32_t rkey;

	(void)state;
	fill();
	hosts_connect(sim, 0, 1, &a, &b);
	assert_true(a.fabric->caps.copies);
	rkey = end_open(sim, &b, 2, 9, target, sizeof(target));
	assert_int_equal(sim_now_ns(sim), 0); /* at once */
	end_write(&a, 0, 2, rkey, 1, source);
	memset(source, 0, HOSTS_PAYLOAD); /* it was copied */
	event = end_await(sim, &b, FABRIC_DATA, NULL);
	assert_int_equal(sim_now_ns(sim), HOSTS_WIRE + DELAY_NS);
	assert_int_equal(event.slot, 2);
	assert_int_equal(event.generation, 9);
	assert_int_equal(event.data.packet, 1);
	assert_int_equal(event.data.length, HOSTS_PAYLOAD);
	assert_int_equal(event.data.user_bits, 5);
	assert_int_equal(target[HOSTS_PAYLOAD], 1);
	assert_int_equal(target[2 * HOSTS_PAYLOAD - 1], (uint8_t)((HOSTS_PAYLOAD - 1) * 7 + 1));
	assert_true(is_blank(target, HOSTS_PAYLOAD));
	assert_true(is_blank(target + 2 * HOSTS_PAYLOAD, 2 * HOSTS_PAYLOAD));
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* One packet of each kind that must not land. */
static void test_lands_nowhere_else(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event events[FABRIC_EVENTS];
	struct end a, b;
	uint32_t rkey;

	(void)state;
	fill();
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, 2 * HOSTS_PAYLOAD);
	end_write(&a, 0, 0, rkey + 1, 0, source);
	end_write(&a, 0, 1, rkey, 0, source);
	end_write(&a, 0, HOSTS_SLOTS, rkey, 0, source);
	end_write(&a, 0, 0, rkey, 2, source); /* past the end */
	a.fabric->ops->write(
		a.qp, 0, &(struct fabric_target){ .rkey = rkey },
		&(struct fabric_write){
			.data = source, .length = HOSTS_PAYLOAD, .packet = 1, .va = 0 },
		1);
	sim_run_until(sim, 100000);
	assert_int_equal(end_poll(&b, events), 0);
	assert_int_equal(end_counter(&b, FABRIC_DROP_RKEY), 1);
	assert_int_equal(end_counter(&b, FABRIC_DROP_SLOT), 2);
	assert_int_equal(end_counter(&b, FABRIC_DROP_OFFSET), 2);
	assert_int_equal(end_counter(&b, FABRIC_RX_DATA), 0);
	assert_true(is_blank(target, sizeof(target)));
	assert_int_equal(sim_packets(sim), 0);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

static void test_gone_queue_pairs_and_damage(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct end a, b, c, d;
	uint32_t rkey;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	hosts_connect(sim, 0, 1, &c, &d);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	end_write(&c, 0, 0, rkey, 0, source);
	d.fabric->ops->qp_destroy(d.qp);
	sim_run_until(sim, 100000);
	assert_int_equal(end_counter(&b, FABRIC_DROP_QPN), 1);

	sim_link(sim, 0)->attr.corrupt = 1;
	end_write(&a, 0, 0, rkey, 0, source);
	sim_run_until(sim, 200000);
	assert_int_equal(end_counter(&b, FABRIC_DROP_ICRC), 1);
	assert_int_equal(end_counter(&b, FABRIC_RX_DATA), 0);
	assert_int_equal(sim_packets(sim), 0);
	c.fabric->ops->qp_destroy(c.qp);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A third host that knows key and number is still not the peer. */
static void test_a_stranger_with_the_key(void **state)
{
	struct sim_shape_attr shape = { .shape = SIM_STAR, .hosts = 3 };
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_open(&shape, &host, 1);
	struct end a, b, c = { .fabric = sim_host(sim, 2) };
	struct fabric_qp_attr attr = { .user = &c, .split = { 10, 18, 4 }, .slots = HOSTS_SLOTS };
	uint8_t address[FABRIC_ADDRESS_MAX];
	uint32_t rkey;
	size_t length;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	assert_int_equal(c.fabric->ops->qp_create(c.fabric, &attr, &c.qp), 0);
	length = b.fabric->ops->qp_address(b.qp, address);
	assert_int_equal(c.fabric->ops->qp_connect(c.qp, address, length, HOSTS_PAYLOAD), 0);
	end_write(&c, 0, 0, rkey, 0, source);
	sim_run_until(sim, 100000);
	assert_int_equal(end_counter(&b, FABRIC_DROP_STRANGER), 1);
	assert_int_equal(end_counter(&b, FABRIC_RX_DATA), 0);
	c.fabric->ops->qp_destroy(c.qp);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A fence of a software host is done at once, and what is under way then lands nowhere. */
static void test_nothing_lands_after_the_fence(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct end a, b;
	uint32_t rkey;

	(void)state;
	fill();
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	end_write(&a, 0, 0, rkey, 0, source);
	assert_int_equal(b.fabric->ops->fence(b.qp, 0), 1);
	/* The slot's next window has another key, and does not take it either. */
	assert_int_not_equal(end_open(sim, &b, 0, 2, target, sizeof(target)), rkey);
	sim_run_until(sim, 100000);
	assert_int_equal(end_counter(&b, FABRIC_DROP_RKEY), 1);
	assert_true(is_blank(target, sizeof(target)));
	assert_int_equal(b.fabric->ops->fence(b.qp, 1), -ENOENT);
	assert_int_equal(b.fabric->ops->expose(b.qp, 0, 3, NULL, target, 1, HOSTS_PAYLOAD), -EBUSY);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* Who does not poll loses what there is no room for: unplaced, untold, counted. */
static void test_overrun(void **state)
{
	struct sim_host_attr host = { .queue = 2 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event events[FABRIC_EVENTS];
	struct end a, b;
	uint32_t rkey;

	(void)state;
	fill();
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (uint32_t i = 0; i < 4; i++)
		end_write(&a, 0, 0, rkey, i, source + i * HOSTS_PAYLOAD);
	sim_run_until(sim, 100000);
	assert_int_equal(end_poll(&b, events), 2);
	assert_int_equal(end_poll(&b, events), 0);
	assert_int_equal(end_counter(&b, FABRIC_DROP_OVERRUN), 2);
	assert_memory_equal(target, source, 2 * HOSTS_PAYLOAD);
	assert_true(is_blank(target + 2 * HOSTS_PAYLOAD, 2 * HOSTS_PAYLOAD));
	assert_int_equal(sim_packets(sim), 0);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A control datagram's bytes live until the poll after the one that showed it. */
static void test_control(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event event, events[FABRIC_EVENTS];
	struct end a, b;

	(void)state;
	fill();
	hosts_connect(sim, 0, 1, &a, &b);
	assert_int_equal(a.fabric->ops->control(a.qp, source, 100), 0);
	event = end_await(sim, &b, FABRIC_CONTROL, NULL);
	assert_int_equal(sim_now_ns(sim), 100 + 52 + DELAY_NS);
	assert_int_equal(event.control.length, 100);
	assert_memory_equal(event.control.bytes, source, 100);
	assert_int_equal(sim_packets(sim), 1);
	assert_int_equal(end_poll(&b, events), 0);
	assert_int_equal(sim_packets(sim), 0);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A host is named once when something came, and again only when more comes after it was named. */
static void test_wakes_the_right_host(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct end a, b;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	assert_int_equal(sim_woken(sim), -1);
	a.fabric->ops->control(a.qp, source, 100);
	a.fabric->ops->control(a.qp, source, 100);
	assert_int_equal(sim_woken(sim), -1);
	sim_run_until(sim, 100000);
	assert_int_equal(sim_woken(sim), 1);
	assert_int_equal(sim_woken(sim), -1);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

static void test_marks_are_shown(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event events[FABRIC_EVENTS];
	struct end a, b;
	uint32_t rkey;

	(void)state;
	sim_link(sim, 0)->attr.ecn_bytes = HOSTS_WIRE;
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (uint32_t i = 0; i < 3; i++)
		end_write(&a, 0, 0, rkey, i, source);
	sim_run_until(sim, 100000);
	assert_int_equal(end_poll(&b, events), 3);
	assert_false(events[0].ce || events[1].ce);
	assert_true(events[2].ce);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lands_in_its_place_before_it_is_told),
		cmocka_unit_test(test_lands_nowhere_else),
		cmocka_unit_test(test_gone_queue_pairs_and_damage),
		cmocka_unit_test(test_a_stranger_with_the_key),
		cmocka_unit_test(test_nothing_lands_after_the_fence),
		cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_control),
		cmocka_unit_test(test_wakes_the_right_host),
		cmocka_unit_test(test_marks_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
