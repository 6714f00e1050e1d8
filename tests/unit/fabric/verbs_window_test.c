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

/* The one event that ends an expose which cannot be completed; afterwards the slot is as if it had never been used. */
static void fails_with(struct scene *scene, uint32_t slot, int status)
{
	unsigned i = 0;

	scene_await(scene, 1, FABRIC_EXPOSE_FAILED, FABRIC_DATA);
	while (scene_events[i].type != FABRIC_EXPOSE_FAILED)
		i++;
	assert_int_equal(scene_events[i].slot, slot);
	assert_int_equal(scene_events[i].generation, SCENE_GENERATION);
	assert_int_equal(scene_events[i].status, status);
	assert_int_equal(scene->fabric[1]->ops->fence(scene->qp[1], slot), -ENOENT);
	assert_int_equal(scene_poll(scene, 1, FABRIC_FENCED), 0);
}

/* Binds that complete in error again and again, and binds that the device does not even take. */
static void expose_fails(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	fake.bad_binds = 9;
	assert_int_equal(scene_expose(&scene, 2), 0);
	fails_with(&scene, 2, -EIO);
	assert_int_equal(fake.bad_binds, 0);
	scene_window(&scene, 2);
	fake.refused_binds = 9;
	assert_int_equal(scene_expose(&scene, 5), 0);
	fails_with(&scene, 5, -EPERM);
	scene_window(&scene, 5);
	assert_int_equal(scene_write(&scene, 0, 0, 1), 1);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 1);
	scene_close(&scene);
}

/* No memory windows are left: those who wait for another receive's are told to, the last one is told that none comes. */
static void no_windows_left(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	scene_window(&scene, 0);
	fake.no_windows = true;
	assert_int_equal(scene_expose(&scene, 1), -EAGAIN);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	/* The one that came back breaks, and its like cannot be made. */
	fake.bad_binds = 1;
	assert_int_equal(scene_expose(&scene, 1), 0);
	fails_with(&scene, 1, -ENOMEM);
	assert_int_equal(scene_expose(&scene, 1), 0);
	fails_with(&scene, 1, -ENOMEM);
	fake.no_windows = false;
	scene_window(&scene, 1);
	scene_close(&scene);
}

/* Whatever the device had under way when it failed ends, and so does what is asked of it afterwards. */
static void device_fails(void **state)
{
	struct verbs_endpoint *endpoint;
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	endpoint = endpoint_of(scene.fabric[1]);
	scene_window(&scene, 0);
	fake.refused_binds = 1; /* the binder is broken, and waits to be set up anew */
	assert_int_equal(scene_expose(&scene, 1), 0);
	fake.fatal = true;
	device_events(endpoint);
	fails_with(&scene, 1, -ENODEV);
	assert_int_equal(scene_expose(&scene, 1), 0);
	fails_with(&scene, 1, -ENODEV);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	scene_close(&scene);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		fake_test(open_late),	    fake_test(fence_last),   fake_test(fence_waits),
		fake_test(keys_fresh),	    fake_test(bad_binds),    fake_test(expose_fails),
		fake_test(no_windows_left), fake_test(device_fails),
	};

	scene_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
