/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast on a device that the test controls, and the pace of what no NIC paces: multicast, and datagrams with data. */
#include "verbs_scene.h"

#include <errno.h>
#include <string.h>

#define QKEY   0x1234567u
#define LENGTH 1000u
#define BURST  65536u
#define WIRE   98u /* IPv4: what a packet has on the wire beyond its data */

/* Both ends of a scene are members. */
struct circle {
	struct scene scene;
	struct fabric_group *group[2];
	unsigned sent, heard;
};

static struct fabric_group_attr attr_of(void *user)
{
	return (struct fabric_group_attr){ .user = user,
					   .family = 4,
					   .ip = { 239, 1, 2, 3 },
					   .qkey = QKEY,
					   .split = { 10, 18, 4 } };
}

static void circle_open(struct circle *circle, const char *name)
{
	memset(circle, 0, sizeof(*circle));
	scene_open(&circle->scene, name);
	for (size_t i = 0; i < SCENE_MEMORY; i++)
		circle->scene.memory[0][i] = (uint8_t)(i * 7 + i / 256);
	for (int end = 0; end < 2; end++) {
		struct fabric_group_attr attr = attr_of(&circle->group[end]);

		if (circle->scene.fabric[end]->ops->group->join(circle->scene.fabric[end], &attr,
								&circle->group[end]))
			fail_msg("%s", circle->scene.fabric[end]->error);
	}
}

static void circle_close(struct circle *circle)
{
	/* The other goes with its endpoint. */
	circle->scene.fabric[0]->ops->group->leave(circle->group[0]);
	scene_close(&circle->scene);
}

static unsigned send_packets(struct circle *circle, uint32_t first, unsigned count)
{
	struct fabric_write writes[POST_BATCH];

	assert_true(count <= POST_BATCH);
	for (unsigned i = 0; i < count; i++)
		writes[i] = (struct fabric_write){ .data = circle->scene.memory[0] +
							   (first + i) % 256 * LENGTH,
						   .mr = circle->scene.mr[0],
						   .length = LENGTH - i % 4,
						   .packet = first + i,
						   .user = i % 16 };
	return (unsigned)circle->scene.fabric[0]->ops->group->send(circle->group[0], 900, writes,
								   count);
}

/* What end 0 is told of its sends, and end 1 hears; each packet is looked at. */
static void turn(struct circle *circle)
{
	struct fabric *const *fabric = circle->scene.fabric;
	int n = fabric[0]->ops->poll(fabric[0], scene_events);

	for (int i = 0; i < n; i++) {
		assert_int_equal(scene_events[i].type, FABRIC_SENT);
		assert_ptr_equal(scene_events[i].user, &circle->group[0]);
		circle->sent += scene_events[i].count;
	}
	n = fabric[1]->ops->poll(fabric[1], scene_events);
	for (int i = 0; i < n; i++) {
		const struct fabric_event *event = &scene_events[i];
		uint32_t packet = event->group.packet;

		assert_int_equal(event->type, FABRIC_GROUP);
		assert_ptr_equal(event->user, &circle->group[1]);
		assert_int_equal(event->slot, 900);
		assert_int_equal(event->group.user_bits, packet % POST_BATCH % 16);
		assert_int_equal(event->group.length, LENGTH - packet % 4);
		assert_memory_equal(event->group.bytes,
				    circle->scene.memory[0] + packet % 256 * LENGTH,
				    event->group.length);
		circle->heard++;
	}
}

static void the_other_hears(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct circle circle;

		circle_open(&circle, names[i]);
		/* More than there are receive requests and places to send from. */
		for (uint32_t first = 0; first < 50 * POST_BATCH; first += POST_BATCH) {
			assert_int_equal(send_packets(&circle, first, POST_BATCH), POST_BATCH);
			turn(&circle);
		}
		for (int j = 0; j < 5; j++)
			turn(&circle);
		assert_int_equal(circle.heard, 50 * POST_BATCH);
		assert_int_equal(circle.sent, 50 * POST_BATCH);
		assert_int_equal(fake.no_request, 0);
		assert_int_equal(scene_count(&circle.scene, 0, FABRIC_RX_DATA), 0);
		/* Its own are not heard again either when the other has left. */
		circle.scene.fabric[1]->ops->group->leave(circle.group[1]);
		assert_int_equal(send_packets(&circle, 0, 5), 5);
		turn(&circle);
		assert_int_equal(circle.heard, 50 * POST_BATCH);
		circle_close(&circle);
	}
}

/* Memory is the device's until it says otherwise. */
static void sent_is_told_when_it_is(void **state)
{
	struct circle circle;

	(void)state;
	circle_open(&circle, "fake0");
	fake.held = true;
	assert_int_equal(send_packets(&circle, 0, 10), 10);
	turn(&circle);
	assert_int_equal(circle.sent + circle.heard, 0);
	fake_run(NULL);
	turn(&circle);
	assert_int_equal(circle.sent, 10);
	assert_int_equal(circle.heard, 10);
	/* A full queue says so. */
	for (int i = 0; i < 100 && send_packets(&circle, 0, POST_BATCH); i++)
		;
	assert_int_equal(send_packets(&circle, 0, 1), 0);
	fake.held = false;
	fake_run(NULL);
	for (int i = 0; i < 20; i++)
		turn(&circle);
	assert_int_equal(circle.sent, circle.heard);
	assert_int_equal(send_packets(&circle, 0, 1), 1);
	circle_close(&circle);
}

static void heals(void **state)
{
	struct circle circle;

	(void)state;
	circle_open(&circle, "fake0");
	fake.held = true;
	assert_int_equal(send_packets(&circle, 0, 7), 7);
	/* The queue pairs of the groups were made last: they are the ones without an owner. */
	for (int end = 0; end < 2; end++) {
		struct verbs_endpoint *endpoint = endpoint_of(circle.scene.fabric[end]);
		struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

		for (uint32_t seat = 0; seat < endpoint->seat_count; seat++)
			if (endpoint->seats[seat].queue &&
			    endpoint->seats[seat].queue->kind == QUEUE_GROUP)
				ibv_modify_qp(endpoint->seats[seat].queue->qp, &error,
					      IBV_QP_STATE);
	}
	fake.held = false;
	/* What the device refuses is lost like any packet. */
	assert_int_equal(send_packets(&circle, 0, 3), 3);
	for (int i = 0; i < 40; i++)
		turn(&circle);
	assert_int_equal(circle.sent, 10); /* lost, but done with */
	assert_int_equal(circle.heard, 0);
	for (int end = 0; end < 2; end++)
		assert_int_equal(scene_count(&circle.scene, end, FABRIC_QP_HEALED), 1);
	assert_int_equal(send_packets(&circle, 0, 7), 7);
	turn(&circle);
	assert_int_equal(circle.sent, 17);
	assert_int_equal(circle.heard, 7);
	circle_close(&circle);
}

static void joins_what_can_be(void **state)
{
	struct fabric_group_attr attr = attr_of(NULL);
	struct fabric_group *group;
	struct fabric *fabric;

	(void)state;
	assert_int_equal(verbs_open("fake0", &fabric), 0);
	assert_int_equal(fabric->caps.max_group, 1024);
	attr.port = 4792;
	assert_int_equal(fabric->ops->group->join(fabric, &attr, &group), -EINVAL);
	assert_non_null(strstr(fabric->error, "4791"));
	attr = attr_of(NULL);
	attr.family = 6;
	attr.ip[0] = 0xff;
	assert_int_equal(fabric->ops->group->join(fabric, &attr, &group), -EAFNOSUPPORT);
	fake.no_multicast = true;
	attr = attr_of(NULL);
	assert_int_equal(fabric->ops->group->join(fabric, &attr, &group), -ENOMEM);
	assert_non_null(strstr(fabric->error, "239.1.2.3"));
	fabric->ops->close(fabric);
	assert_int_equal(fake.objects, 0);
	assert_false(fake.misused);
}

static uint64_t now_ns(const struct scene *scene)
{
	return scene->fabric[0]->ops->now_ns(scene->fabric[0]);
}

/* Until the time comes that the fabric names; then it is polled. */
static void sleep_until_again(struct scene *scene)
{
	uint64_t again = scene->fabric[0]->ops->deadline_ns(scene->fabric[0]);

	assert_true(again != UINT64_MAX);
	assert_true(again < now_ns(scene) + 1000000000);
	while (now_ns(scene) < again)
		;
	scene_poll(scene, 0, FABRIC_DATA);
}

/* By the pace, not by a queue that is full. */
static unsigned write_until_sent_away(struct scene *scene)
{
	const struct fabric_ops *ops = scene->fabric[0]->ops;
	unsigned taken = 0;

	do {
		scene_poll(scene, 0, FABRIC_SENT);
		taken += scene_write(scene, 0, 0, 64);
		assert_true(taken < 10000);
	} while (ops->deadline_ns(scene->fabric[0]) == UINT64_MAX);
	return taken;
}

/* 100 Mbit/s: a batch at once, and then 12.5 bytes a microsecond. */
static void datagrams_are_paced(void **state)
{
	uint64_t begun, bytes, most;
	struct scene scene;
	unsigned taken;

	(void)state;
	scene_open(&scene, "fake0,ud,rate=100M");
	scene_window(&scene, 0);
	begun = now_ns(&scene);
	taken = write_until_sent_away(&scene);
	assert_true(taken * (SCENE_PAYLOAD + WIRE) > BURST - SCENE_PAYLOAD - WIRE);
	for (int i = 0; i < 5; i++) {
		sleep_until_again(&scene);
		taken += write_until_sent_away(&scene);
	}
	bytes = (uint64_t)taken * (SCENE_PAYLOAD + WIRE);
	most = bucket_bytes_in(100000000, now_ns(&scene) - begun) + BURST;
	assert_true(bytes <= most);
	assert_true(bytes > BURST + 5 * 30000);
	/* Nobody waits: nothing wakes. */
	sleep_until_again(&scene);
	assert_true(scene.fabric[0]->ops->deadline_ns(scene.fabric[0]) == UINT64_MAX);
	scene_close(&scene);
}

static void groups_are_paced_and_writes_are_not(void **state)
{
	struct circle circle;
	unsigned taken = 0, n;

	(void)state;
	circle_open(&circle, "fake0,rate=100M");
	while ((n = send_packets(&circle, 0, 8)))
		taken += n;
	assert_in_range(taken, BURST / (LENGTH + WIRE) - 1, BURST / (LENGTH + WIRE) + 1);
	scene_window(&circle.scene, 0);
	assert_int_equal(scene_write(&circle.scene, 0, 0, BATCHES), BATCHES);
	circle_close(&circle);
}

static void the_rate_is_the_ports_own(void **state)
{
	static const struct {
		uint8_t speed, width;
		const char *name;
		uint64_t rate_bps;
	} ports[] = {
		{ 32, 2, "fake0,ud", UINT64_C(100000000000) },
		{ 8, 1, "fake0,ud", UINT64_C(10000000000) },
		{ 128, 2, "fake0,ud", UINT64_C(400000000000) },
		{ 32, 2, "fake0,ud,rate=3G", UINT64_C(3000000000) },
		{ 0, 0, "fake0,ud", 0 },
		{ 3, 1, "fake0", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		struct fabric *fabric;

		fake.speed = ports[i].speed;
		fake.width = ports[i].width;
		assert_int_equal(verbs_open(ports[i].name, &fabric), 0);
		assert_int_equal(endpoint_of(fabric)->rate_bps, ports[i].rate_bps);
		assert_true(endpoint_of(fabric)->rate_limit.bucket.rate_bps ==
			    (ports[i].rate_bps ? ports[i].rate_bps : BUCKET_UNPACED));
		fabric->ops->close(fabric);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		fake_test(the_other_hears),
		fake_test(sent_is_told_when_it_is),
		fake_test(heals),
		fake_test(joins_what_can_be),
		fake_test(datagrams_are_paced),
		fake_test(groups_are_paced_and_writes_are_not),
		fake_test(the_rate_is_the_ports_own),
	};

	scene_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
