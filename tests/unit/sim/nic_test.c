/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC host: memory is read late, windows open and close late, completions are shown late and tell little. And what it
 * still promises: a fence is told after every completion from before it.
 */
#include <errno.h>
#include <string.h>

#include "hosts.h"

#define DELAY_NS 1000

static uint8_t source[4 * HOSTS_PAYLOAD], target[4 * HOSTS_PAYLOAD];

static void fill(uint8_t value)
{
	memset(source, value, sizeof(source));
	memset(target, 0, sizeof(target));
}

/* The source is not free before FABRIC_SENT: what is written there until then may be what is sent. */
static void test_memory_is_read_late(void **state)
{
	struct sim_host_attr host = { .nic = true, .read_ns = 5000 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	unsigned late = 0;
	struct end a, b;
	uint32_t rkey;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	assert_false(a.fabric->caps.copies);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (int i = 0; i < 20; i++) {
		uint64_t posted = sim_now_ns(sim);

		fill(1);
		end_write(&a, 0, 0, rkey, 0, source);
		if (i % 2)
			memset(source, 2, HOSTS_PAYLOAD); /* too early */
		assert_int_equal(end_await(sim, &a, FABRIC_SENT, NULL).count, 1);
		assert_in_range(sim_now_ns(sim) - posted, 0, 5000);
		late += sim_now_ns(sim) - posted > 500;
		memset(source, 3, HOSTS_PAYLOAD); /* early enough */
		end_await(sim, &b, FABRIC_DATA, NULL);
		assert_int_equal(target[0], i % 2 ? 2 : 1);
		assert_int_equal(target[HOSTS_PAYLOAD - 1], i % 2 ? 2 : 1);
	}
	assert_true(late > 10);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* Posted writes are read in order, and told as a count. */
static void test_sent_is_a_count(void **state)
{
	struct sim_host_attr host = { .nic = true, .read_ns = 5000 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event events[FABRIC_EVENTS];
	uint32_t rkey, sent = 0;
	struct end a, b;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (uint32_t i = 0; i < 4; i++)
		end_write(&a, 0, 0, rkey, i, source);
	while (sent < 4)
		sent += end_await(sim, &a, FABRIC_SENT, NULL).count;
	assert_int_equal(sent, 4);
	sim_run_until(sim, sim_now_ns(sim) + 100000);
	assert_int_equal(end_poll(&b, events), 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(events[i].data.packet, i);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A window that never opens is told once, late like any other; its slot is free again, and fencing it is refused. */
static void test_windows_fail(void **state)
{
	struct sim_host_attr host = { .nic = true, .fence_ns = 5000, .expose_fails = 0.5 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event events[FABRIC_EVENTS];
	unsigned failed = 0, opened = 0;
	struct end a, b;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	for (uint32_t generation = 1; generation <= 100; generation++) {
		end_expose(&b, 0, generation, target, sizeof(target));
		sim_run_until(sim, sim_now_ns(sim) + 5000);
		assert_int_equal(end_poll(&b, events), 1);
		assert_int_equal(events[0].slot, 0);
		assert_int_equal(events[0].generation, generation);
		if (events[0].type == FABRIC_EXPOSED) {
			opened++;
			end_fence(&b, 0);
			end_await(sim, &b, FABRIC_FENCED, NULL);
			continue;
		}
		failed++;
		assert_int_equal(events[0].type, FABRIC_EXPOSE_FAILED);
		assert_int_equal(events[0].status, -EIO);
		assert_int_equal(b.fabric->ops->fence(b.qp, 0), -ENOENT);
	}
	assert_in_range(failed, 25, 75);
	assert_int_equal(opened, 100 - failed);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A completion shows the immediate, and neither the generation nor the mark. */
static void test_completions_tell_little(void **state)
{
	struct sim_host_attr host = { .nic = true };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct fabric_event event;
	struct end a, b;
	uint32_t rkey;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	assert_int_equal(b.fabric->caps.generation_bits, 2);
	rkey = end_open(sim, &b, 0, 7, target, sizeof(target));
	end_write(&a, 0, 0, rkey, 3, source);
	end_await(sim, &a, FABRIC_SENT, NULL);
	event = end_await(sim, &b, FABRIC_DATA, NULL);
	assert_int_equal(event.generation, 0);
	assert_int_equal(event.data.packet, 3);
	assert_int_equal(event.data.user_bits, 5);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* Windows change within fence_ns, and deadline_ns() knows when. */
static void test_windows_change_late(void **state)
{
	struct sim_host_attr host = { .nic = true, .fence_ns = 10000 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	uint64_t opened = 0, closed = 0;
	struct end a, b;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	for (uint32_t i = 0; i < 40; i++) {
		uint64_t started = sim_now_ns(sim);

		end_open(sim, &b, i % HOSTS_SLOTS, i, target, sizeof(target));
		assert_in_range(sim_now_ns(sim) - started, 0, 10000);
		opened += sim_now_ns(sim) - started;
		started = sim_now_ns(sim);
		end_fence(&b, i % HOSTS_SLOTS);
		assert_in_range(b.fabric->ops->deadline_ns(b.fabric) - started, 0, 10000);
		assert_int_equal(end_await(sim, &b, FABRIC_FENCED, NULL).slot, i % HOSTS_SLOTS);
		assert_in_range(sim_now_ns(sim) - started, 0, 10000);
		closed += sim_now_ns(sim) - started;
	}
	assert_in_range(opened / 40, 2500, 7500);
	assert_in_range(closed / 40, 2500, 7500);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

struct sights {
	unsigned landings, fences;
};

static void observer(void *arg, const struct sim_seen *seen)
{
	struct sights *sights = arg;

	sights->landings += seen->what == SIM_LATE_LANDING;
	sights->fences += seen->what == SIM_LATE_FENCE;
}

/*
 * A packet comes at every moment around a fence. While the window closes it may land, and is then shown before the fence
 * is; afterwards it lands nowhere. Returns how many landed late.
 */
static unsigned race(const struct sim_host_attr *host, struct sights *sights, unsigned *unshown)
{
	unsigned landed_late = 0;

	for (uint32_t i = 0; i < 40; i++) {
		struct sim *sim = hosts_pair(host, DELAY_NS);
		unsigned shown[FABRIC_SENT + 1] = { 0 };
		uint64_t landed;
		struct end a, b;
		uint32_t rkey;

		fill(1);
		sim_observe(sim, observer, sights);
		hosts_connect(sim, 0, 1, &a, &b);
		rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
		end_write(&a, i % host->lanes, 0, rkey, 0, source);
		sim_run_until(sim, sim_now_ns(sim) + i * 100);
		end_fence(&b, 0);
		end_await(sim, &b, FABRIC_FENCED, shown);
		landed = end_counter(&b, FABRIC_RX_DATA);
		*unshown += landed > shown[FABRIC_DATA];
		landed_late += landed && i * 100 < HOSTS_WIRE + DELAY_NS;
		assert_int_equal(target[0], landed);
		sim_run_until(sim, sim_now_ns(sim) + 100000);
		assert_int_equal(end_counter(&b, FABRIC_RX_DATA), landed);
		assert_int_equal(end_counter(&b, FABRIC_DROP_SLOT), 1 - landed);
		assert_int_equal(target[0], landed);
		hosts_disconnect(&a, &b);
		sim_destroy(sim);
	}
	return landed_late;
}

static void test_a_fence_is_told_after_the_completions_before_it(void **state)
{
	struct sim_host_attr host = {
		.nic = true, .lanes = 3, .fence_ns = 4000, .completion_ns = 20000
	};
	struct sights sights = { 0 };
	unsigned unshown = 0;

	(void)state;
	assert_true(race(&host, &sights, &unshown) > 0);
	assert_int_equal(unshown, 0);
	assert_true(sights.landings > 0);
	assert_true(sights.fences > 5);
}

/* Without that promise completions do come after the fence: the mode tests what then has to do instead. */
static void test_undrained_fences_overtake_completions(void **state)
{
	struct sim_host_attr host = {
		.nic = true, .lanes = 3, .fence_ns = 4000, .completion_ns = 20000, .undrained = true
	};
	struct sights sights = { 0 };
	unsigned unshown = 0;

	(void)state;
	race(&host, &sights, &unshown);
	assert_true(unshown > 5);
	assert_int_equal(sights.fences, 0);
}

/* The fence counts from its time on, also for a host that does not look. */
static void test_a_window_shuts_unpolled(void **state)
{
	struct sim_host_attr host = { .nic = true, .fence_ns = 4000 };
	struct sim *sim = hosts_pair(&host, 20000);
	struct end a, b;
	uint32_t rkey;

	(void)state;
	fill(1);
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	end_write(&a, 0, 0, rkey, 0, source);
	end_fence(&b, 0);
	sim_run_until(sim, sim_now_ns(sim) + 100000);
	assert_int_equal(end_counter(&b, FABRIC_DROP_SLOT), 1);
	assert_int_equal(target[0], 0);
	end_await(sim, &b, FABRIC_FENCED, NULL);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* Completions of one lane are shown in the order of arrival, however late. */
static void test_lanes_keep_their_order(void **state)
{
	struct sim_host_attr host = { .nic = true, .lanes = 2, .completion_ns = 50000 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	uint32_t next[2] = { 0 };
	bool crossed = false;
	struct end a, b;
	uint32_t rkey;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (uint32_t i = 0; i < 4; i++)
		for (unsigned lane = 0; lane < 2; lane++)
			end_write(&a, lane, 0, rkey, i, source);
	while (next[0] + next[1] < 8) {
		struct fabric_event events[FABRIC_EVENTS];
		int n = end_poll(&b, events);

		for (int i = 0; i < n; i++) {
			assert_int_equal(events[i].data.packet, next[events[i].lane]);
			next[events[i].lane]++;
			crossed |= next[1] > next[0];
		}
		sim_run_until(sim, sim_now_ns(sim) + 500);
	}
	assert_true(crossed);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_read_late),
		cmocka_unit_test(test_sent_is_a_count),
		cmocka_unit_test(test_windows_fail),
		cmocka_unit_test(test_completions_tell_little),
		cmocka_unit_test(test_windows_change_late),
		cmocka_unit_test(test_a_fence_is_told_after_the_completions_before_it),
		cmocka_unit_test(test_undrained_fences_overtake_completions),
		cmocka_unit_test(test_a_window_shuts_unpolled),
		cmocka_unit_test(test_lanes_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
