/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast in every shape of network: each member gets each packet once, and no link carries one twice. */
#include "hosts.h"

#include <errno.h>
#include <string.h>

#define HOSTS	12
#define PACKETS 20u
#define QKEY	77u

#define EDGE                                                                                       \
	{                                                                                          \
		.rate_bps = HOSTS_RATE, .delay_ns = 500                                            \
	}
#define CORE                                                                                       \
	{                                                                                          \
		.rate_bps = 2 * HOSTS_RATE, .delay_ns = 2000                                       \
	}

static const struct sim_shape_attr shapes[] = {
	{ .shape = SIM_PAIR, .hosts = 2, .edge = EDGE },
	{ .shape = SIM_STAR, .hosts = HOSTS, .edge = EDGE },
	{ .shape = SIM_RING, .hosts = HOSTS, .leaves = 4, .edge = EDGE, .core = CORE },
	{ .shape = SIM_CLOS, .hosts = HOSTS, .leaves = 3, .spines = 2, .edge = EDGE, .core = CORE },
};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint8_t data[PACKETS][HOSTS_PAYLOAD];

struct circle {
	struct sim *sim;
	uint32_t hosts;
	struct fabric_group *group[HOSTS];
	unsigned heard[HOSTS][PACKETS];
	unsigned sent;
};

static struct fabric_group_attr attr_of(void *user)
{
	return (struct fabric_group_attr){ .user = user,
					   .family = 4,
					   .ip = { 239, 0, 0, 1 },
					   .qkey = QKEY,
					   .split = { 10, 18, 4 } };
}

static struct fabric *host(const struct circle *circle, uint32_t i)
{
	return sim_host(circle->sim, i);
}

static void circle_open(struct circle *circle, const struct sim_shape_attr *shape,
			const struct sim_host_attr *attr, uint64_t seed)
{
	memset(circle, 0, sizeof(*circle));
	circle->sim = hosts_open(shape, attr, seed);
	circle->hosts = shape->hosts;
	for (uint32_t packet = 0; packet < PACKETS; packet++)
		for (uint32_t i = 0; i < HOSTS_PAYLOAD; i++)
			data[packet][i] = (uint8_t)(i * 7 + packet);
}

static void join(struct circle *circle, uint32_t i)
{
	struct fabric_group_attr attr = attr_of(&circle->group[i]);

	assert_int_equal(
		host(circle, i)->ops->group->join(host(circle, i), &attr, &circle->group[i]), 0);
}

static void send_all(struct circle *circle, uint32_t from)
{
	struct fabric_write writes[PACKETS];

	for (uint32_t i = 0; i < PACKETS; i++)
		writes[i] = (struct fabric_write){
			.data = data[i], .length = HOSTS_PAYLOAD - i, .packet = i, .user = i % 16
		};
	assert_int_equal(
		host(circle, from)->ops->group->send(circle->group[from], 7, writes, PACKETS),
		PACKETS);
}

static void look(struct circle *circle, uint32_t i, const struct fabric_event *event)
{
	uint32_t packet = event->group.packet;

	if (event->type == FABRIC_SENT) {
		circle->sent += event->count;
		return;
	}
	assert_int_equal(event->type, FABRIC_GROUP);
	assert_ptr_equal(event->user, &circle->group[i]);
	assert_int_equal(event->slot, 7);
	assert_true(packet < PACKETS);
	assert_int_equal(event->group.user_bits, packet % 16);
	assert_int_equal(event->group.length, HOSTS_PAYLOAD - packet);
	assert_memory_equal(event->group.bytes, data[packet], event->group.length);
	circle->heard[i][packet]++;
}

/* Until nothing is under way. */
static void settle(struct circle *circle)
{
	struct fabric_event events[FABRIC_EVENTS];

	sim_run_until(circle->sim, sim_now_ns(circle->sim) + 10000000);
	for (int turn = 0; turn < 10; turn++)
		for (uint32_t i = 0; i < circle->hosts; i++) {
			int n = host(circle, i)->ops->poll(host(circle, i), events);

			for (int j = 0; j < n; j++)
				look(circle, i, &events[j]);
		}
	assert_int_equal(sim_packets(circle->sim), 0);
}

static void assert_heard(const struct circle *circle, uint32_t i, unsigned times)
{
	for (uint32_t packet = 0; packet < PACKETS; packet++)
		if (circle->heard[i][packet] != times)
			fail_msg("host %u heard packet %u %u times", i, packet,
				 circle->heard[i][packet]);
}

static void once_each(void **state)
{
	const struct sim_host_attr software = { 0 };

	(void)state;
	for (size_t i = 0; i < SHAPES; i++) {
		uint64_t carried[64] = { 0 };
		struct circle circle;

		circle_open(&circle, &shapes[i], &software, i);
		assert_true(sim_links(circle.sim) <= 64);
		/* The last of many is no member. */
		for (uint32_t h = 0; h < circle.hosts && h < HOSTS - 1; h++)
			join(&circle, h);
		for (uint32_t from = 0; from < circle.hosts && from < HOSTS - 1; from++) {
			memset(circle.heard, 0, sizeof(circle.heard));
			send_all(&circle, from);
			settle(&circle);
			for (uint32_t h = 0; h < circle.hosts; h++)
				assert_heard(&circle, h, h != from && h < HOSTS - 1);
			for (uint32_t link = 0; link < sim_links(circle.sim); link++) {
				uint64_t sum = sim_link(circle.sim, link)->stats.forwarded;

				assert_true(sum - carried[link] <= PACKETS);
				carried[link] = sum;
			}
		}
		sim_destroy(circle.sim);
	}
}

static void comes_and_goes(void **state)
{
	const struct sim_host_attr software = { 0 };
	struct fabric_group_attr attr = attr_of(NULL);
	struct fabric_group *again;
	struct circle circle;

	(void)state;
	circle_open(&circle, &shapes[1], &software, 1);
	for (uint32_t i = 0; i < 4; i++)
		join(&circle, i);
	assert_int_equal(host(&circle, 0)->ops->group->join(host(&circle, 0), &attr, &again),
			 -EBUSY);
	send_all(&circle, 0);
	/* One leaves while packets are under way, one when they lie ready. */
	host(&circle, 1)->ops->group->leave(circle.group[1]);
	sim_run_until(circle.sim, sim_now_ns(circle.sim) + 10000000);
	host(&circle, 2)->ops->group->leave(circle.group[2]);
	settle(&circle);
	assert_heard(&circle, 1, 0);
	assert_heard(&circle, 2, 0);
	assert_heard(&circle, 3, 1);
	/* Another key is another circle, at the same address. */
	attr.qkey++;
	assert_int_equal(
		host(&circle, 5)->ops->group->join(host(&circle, 5), &attr, &circle.group[5]), 0);
	send_all(&circle, 0);
	settle(&circle);
	assert_heard(&circle, 5, 0);
	assert_int_equal(host(&circle, 5)->counters[FABRIC_DROP_QKEY], PACKETS);
	sim_destroy(circle.sim);
}

/* What one link loses those behind it miss, and nobody else. */
static void lost_apart(void **state)
{
	const struct sim_host_attr nic = { .nic = true, .completion_ns = 1000 };
	struct circle circle;

	(void)state;
	circle_open(&circle, &shapes[3], &nic, 1);
	for (uint32_t i = 0; i < HOSTS; i++)
		join(&circle, i);
	sim_link(circle.sim, 2 * 5 + 1)->down = true; /* to host 5 */
	send_all(&circle, 0);
	settle(&circle);
	assert_int_equal(circle.sent, PACKETS);
	for (uint32_t i = 1; i < HOSTS; i++)
		assert_heard(&circle, i, i != 5);
	sim_link(circle.sim, 0)->down = true; /* from host 0 */
	send_all(&circle, 0);
	settle(&circle);
	for (uint32_t i = 1; i < HOSTS; i++)
		assert_heard(&circle, i, i != 5);
	sim_destroy(circle.sim);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(once_each),
		cmocka_unit_test(comes_and_goes),
		cmocka_unit_test(lost_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
