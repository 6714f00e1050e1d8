/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows on a NIC that takes its time: opened, closed and drained late, in order, under fresh keys. */
#include "verbs_scene.h"

#include <errno.h>
#include <string.h>

/* The key is told after the bind, not before. */
static void open_late(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	fake.held = true;
	assert_int_equal(scene_expose(&scene, 3), 0);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_EXPOSED), 0);
	fake_run(NULL);
	scene_await(&scene, 1, FABRIC_EXPOSED, FABRIC_DATA);
	assert_int_equal(scene.target.slot, 3);
	assert_int_equal(scene.target.generation, SCENE_GENERATION);
	assert_int_equal(scene_expose(&scene, 3), -EBUSY);
	fake.held = false;
	scene_close(&scene);
}

/* A fence is told after all that landed before it was read, and not before the window is shut. */
static void fence_last(void **state)
{
	struct scene scene;
	unsigned packets = 3 * FABRIC_EVENTS;

	(void)state;
	scene_open(&scene, "fake0");
	scene_window(&scene, 0);
	assert_int_equal(scene_write(&scene, 0, 0, 100), 100);
	scene_poll(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene_write(&scene, 0, 100, 100), 100);
	scene_poll(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene_write(&scene, 0, 200, 100), 100);
	scene_poll(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene_write(&scene, 0, 300, packets - 300), packets - 300);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	assert_int_equal(scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA), packets);
	scene_close(&scene);
}

static void fence_waits(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	scene_window(&scene, 0);
	fake.held = true;
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_FENCED), 0);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), -ENOENT);
	fake_run(NULL);
	scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	fake.held = false;
	/* What comes under the old key now neither lands nor is told. */
	memset(scene.memory[0], 0x77, SCENE_MEMORY);
	assert_int_equal(scene_write(&scene, 0, 0, 1), 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(scene.memory[1][0], 0);
	scene_close(&scene);
}

/* Windows are used in turn: a key comes back late. */
static void keys_fresh(void **state)
{
	enum { TIMES = 2000 };
	static uint32_t keys[TIMES];
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	for (int i = 0; i < TIMES; i++) {
		scene_window(&scene, (uint32_t)i % 16);
		keys[i] = scene.target.rkey;
		assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], (uint32_t)i % 16), 0);
		scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(keys[j], keys[i]);
	}
	scene_close(&scene);
}

/* A bind that fails breaks the binder; both come back, the window with another key. */
static void bad_binds(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	fake.bad_binds = 2;
	scene_window(&scene, 0);
	assert_int_equal(fake.bad_binds, 0);
	assert_int_equal(scene_count(&scene, 1, FABRIC_QP_HEALED), 2);
	assert_int_equal(scene_write(&scene, 0, 0, 1), 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 1);
	fake.bad_binds = 1;
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	assert_int_equal(scene_write(&scene, 0, 0, 1), 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
	scene_window(&scene, 0);
	scene_close(&scene);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		fake_test(open_late),  fake_test(fence_last), fake_test(fence_waits),
		fake_test(keys_fresh), fake_test(bad_binds),
	};

	scene_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
