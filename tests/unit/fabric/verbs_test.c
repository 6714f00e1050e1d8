/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs fabric on a device that the test controls: which mode, and packets and control on their way. */
#include "verbs_scene.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void modes(void **state)
{
	static const struct {
		bool no_uc, no_windows;
		enum fake_stale stale;
		bool ud;
		const char *why;
	} devices[] = {
		{ false, false, FAKE_DROPS, false, "dropped" },
		{ false, false, FAKE_BREAKS, false, "breaks" },
		{ false, false, FAKE_LANDS, true, "late packets" },
		{ true, false, FAKE_DROPS, true, "no UC" },
		{ false, true, FAKE_DROPS, true, "memory windows" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		struct fabric *fabric;

		fake_reset();
		fake.no_uc = devices[i].no_uc;
		fake.no_windows = devices[i].no_windows;
		fake.stale = devices[i].stale;
		assert_int_equal(verbs_open("fake0", &fabric), 0);
		assert_int_equal(endpoint_of(fabric)->ud, devices[i].ud);
		assert_non_null(strstr(endpoint_of(fabric)->mode_why, devices[i].why));
		assert_int_equal(fabric->caps.max_payload, devices[i].ud ? 1020 : 1024);
		assert_int_equal(fabric->caps.generation_bits, 2);
		assert_false(fabric->caps.copies);
		fabric->ops->close(fabric);
		assert_int_equal(fake.objects, 0);
	}
}

static void land(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct scene scene;

		scene_open(&scene, names[i]);
		scene_window(&scene, 2);
		memset(scene.memory[0], 0x5c, SCENE_MEMORY);
		assert_int_equal(scene_write(&scene, 0, 5, 1), 1);
		scene_await(&scene, 1, FABRIC_DATA, FABRIC_CONTROL);
		assert_int_equal(scene_events[0].slot, 2);
		assert_int_equal(scene_events[0].data.packet, 5);
		assert_int_equal(scene_events[0].data.length, SCENE_PAYLOAD);
		assert_memory_equal(scene.memory[1] + (size_t)5 * SCENE_PAYLOAD, scene.memory[0],
				    SCENE_PAYLOAD);
		assert_int_equal(scene.memory[1][5 * SCENE_PAYLOAD - 1], 0);
		assert_int_equal(scene.memory[1][6 * SCENE_PAYLOAD], 0);
		scene_close(&scene);
	}
}

/* Done is told in the order of writing, also when a later lane is faster. */
static void sent_in_order(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0,lanes=2");
	scene_window(&scene, 0);
	fake.held = true;
	assert_int_equal(scene_write(&scene, 0, 0, 3), 3);
	assert_int_equal(scene_write(&scene, 1, 3, 2), 2);
	fake_run(verbs_qp(scene.qp[0])->lane[1]->qp);
	scene_poll(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene.sent, 0);
	fake_run(NULL);
	scene_poll(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene.sent, 5);
	fake.held = false;
	scene_close(&scene);
}

/* A queue that is full says so, and takes more when there is room. */
static void full(void **state)
{
	struct scene scene;
	unsigned taken;

	(void)state;
	scene_open(&scene, "fake0");
	scene_window(&scene, 0);
	fake.held = true;
	taken = scene_write(&scene, 0, 0, 1000);
	assert_int_equal(taken, BATCHES);
	assert_true(scene_count(&scene, 0, FABRIC_TX_BUSY) > 0);
	fake_run(NULL);
	scene_poll(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene.sent, taken);
	assert_int_equal(scene_write(&scene, 0, 0, 1), 1);
	fake.held = false;
	fake_run(NULL);
	scene_close(&scene);
}

static void replenished(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct scene scene;
		unsigned landed = 0;

		scene_open(&scene, names[i]);
		scene_window(&scene, 0);
		for (int turn = 0; turn < 200; turn++) {
			assert_int_equal(scene_write(&scene, 0, 0, 64), 64);
			scene_poll(&scene, 0, FABRIC_SENT);
			landed += scene_poll(&scene, 1, FABRIC_DATA);
		}
		assert_int_equal(landed, 200 * 64);
		assert_int_equal(fake.no_request, 0);
		scene_close(&scene);
	}
}

/* Where no NIC looks at keys, software does. */
static void ud_checks(void **state)
{
	struct scene scene;
	uint32_t key;

	(void)state;
	scene_open(&scene, "fake0,ud");
	scene_window(&scene, 0);
	key = scene.target.rkey;
	scene.target.rkey = key ^ 1;
	scene_write(&scene, 0, 0, 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(scene_count(&scene, 1, FABRIC_DROP_RKEY), 1);
	scene.target.rkey = key;
	scene.target.slot = 1;
	scene_write(&scene, 0, 0, 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(scene_count(&scene, 1, FABRIC_DROP_SLOT), 1);
	scene.target.slot = 0;
	scene_write(&scene, 0, SCENE_MEMORY / 2 / SCENE_PAYLOAD, 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(scene_count(&scene, 1, FABRIC_DROP_OFFSET), 1);
	scene_write(&scene, 0, SCENE_MEMORY / 2 / SCENE_PAYLOAD - 1, 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 1);
	verbs_qp(scene.qp[1])->peer.qpn[0]++;
	scene_write(&scene, 0, 0, 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(scene_count(&scene, 1, FABRIC_DROP_STRANGER), 1);
	scene_close(&scene);
}

static void control(void **state)
{
	struct scene scene;
	char text[] = "of no consequence";
	unsigned heard = 0;

	(void)state;
	scene_open(&scene, "fake0");
	for (int i = 0; i < 500; i++) {
		text[0] = (char)('a' + i % 26);
		assert_int_equal(scene.fabric[0]->ops->control(scene.qp[0], text, sizeof(text)), 0);
		scene_await(&scene, 1, FABRIC_CONTROL, FABRIC_DATA);
		assert_int_equal(scene_events[0].control.length, sizeof(text));
		assert_memory_equal(scene_events[0].control.bytes, text, sizeof(text));
		scene_poll(&scene, 0, FABRIC_SENT);
		heard++;
	}
	assert_int_equal(heard, 500);
	assert_int_equal(fake.no_request, 0);
	/* Held up, it says so rather than overwrite what has not left yet. */
	fake.held = true;
	for (heard = 0; !scene.fabric[0]->ops->control(scene.qp[0], text, sizeof(text)); heard++)
		assert_true(heard < 1000);
	assert_int_equal(scene.fabric[0]->ops->control(scene.qp[0], text, sizeof(text)), -EAGAIN);
	fake.held = false;
	fake_run(NULL);
	scene_close(&scene);
}

/* A user-space end says in its address whether it takes data by datagram. */
static void user_space_peers(void **state)
{
	struct roce_address peer = { .kind = ADDRESS_USER_SPACE,
				     .family = 4,
				     .port = ADDRESS_PORT,
				     .ip = { 192, 0, 2, 9 },
				     .qpn = { 0x4711 },
				     .control_qpn = 0x4711,
				     .qkey = 5 };
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	struct fabric_qp *qp;
	struct fabric *fabric;
	size_t length;

	(void)state;
	assert_int_equal(verbs_open("fake0,ud,lanes=3", &fabric), 0);
	assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qp), 0);
	length = address_encode(&peer, bytes);
	assert_int_equal(fabric->ops->qp_connect(qp, bytes, length, 1020), -EPROTONOSUPPORT);
	assert_non_null(strstr(fabric->error, "UD"));
	peer.flags = ADDRESS_TAKES_UD;
	length = address_encode(&peer, bytes);
	assert_int_equal(fabric->ops->qp_connect(qp, bytes, length, 1020), 0);
	/* It has one number, whichever lane a packet takes. */
	for (int lane = 0; lane < 3; lane++)
		assert_int_equal(verbs_qp(qp)->peer.qpn[lane], 0x4711);
	fabric->ops->close(fabric);
	assert_int_equal(fake.objects, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		fake_test(modes),	  fake_test(land),
		fake_test(sent_in_order), fake_test(full),
		fake_test(replenished),	  fake_test(ud_checks),
		fake_test(control),	  fake_test(user_space_peers),
	};

	scene_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
