/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that break and heal, come and go, share receive requests, and are many. */
#include "verbs_scene.h"

#include <string.h>

static void healed(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
		struct scene scene;

		scene_open(&scene, names[i]);
		scene_window(&scene, 0);
		fake.held = true;
		assert_int_equal(scene_write(&scene, 0, 0, 5), 5);
		for (int end = 0; end < 2; end++)
			ibv_modify_qp(verbs_qp(scene.qp[end])->lane[0]->qp, &attr, IBV_QP_STATE);
		fake.held = false;
		for (int end = 0; end < 2; end++)
			device_events(endpoint_of(scene.fabric[end]));
		scene_poll(&scene, 0, FABRIC_SENT);
		assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
		assert_int_equal(scene.sent, 5);
		for (int end = 0; end < 2; end++)
			assert_int_equal(scene_count(&scene, end, FABRIC_QP_HEALED), 1);
		assert_int_equal(scene_write(&scene, 0, 0, 5), 5);
		assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 5);
		scene_poll(&scene, 0, FABRIC_SENT);
		assert_int_equal(scene.sent, 10);
		scene_close(&scene);
	}
}

/* Closing while windows open, with packets under way: nothing is left, nothing lands, memory can go at once. */
static void close_early(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0");
	scene_window(&scene, 0);
	assert_int_equal(scene_expose(&scene, 1), 0);
	fake.held = true;
	assert_int_equal(scene_write(&scene, 0, 0, 3), 3);
	fake.held = false;
	scene_close(&scene);
}

/* Completions of a queue pair that is gone are not taken for those of the next one in its place. */
static void successor(void **state)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct fabric *fabric;
	struct fabric_qp *qp;
	uint32_t seat;

	(void)state;
	assert_int_equal(verbs_open("fake0", &fabric), 0);
	assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qp), 0);
	seat = verbs_qp(qp)->lane[0]->seat;
	ibv_modify_qp(verbs_qp(qp)->lane[0]->qp, &error, IBV_QP_STATE);
	fabric->ops->qp_destroy(qp);
	assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qp), 0);
	assert_int_equal(verbs_qp(qp)->lane[0]->seat, seat);
	for (int i = 0; i < 100; i++)
		fabric->ops->poll(fabric, scene_events);
	assert_int_equal(fabric->counters[FABRIC_QP_HEALED], 0);
	fabric->ops->close(fabric);
	assert_int_equal(fake.objects, 0);
}

/* Many queue pairs spread over several completion queues; all fall into error at once, and none overflows. */
static void many(void **state)
{
	enum { QPS = 40 };
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct fabric_qp *qps[QPS];
	struct fabric *fabric;
	uint32_t cqs;

	(void)state;
	assert_int_equal(verbs_open("fake0,lanes=2", &fabric), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < QPS; i++)
			assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qps[i]), 0);
		cqs = endpoint_of(fabric)->cq_count;
		assert_true(cqs > 5);
		for (uint32_t i = 0; i < cqs; i++)
			assert_true(endpoint_of(fabric)->cqs[i]->reserved <=
				    endpoint_of(fabric)->cqs[i]->size);
		for (int i = 0; i < QPS; i++) {
			ibv_modify_qp(verbs_qp(qps[i])->lane[0]->qp, &error, IBV_QP_STATE);
			ibv_modify_qp(verbs_qp(qps[i])->lane[1]->qp, &error, IBV_QP_STATE);
			ibv_modify_qp(verbs_qp(qps[i])->control->qp, &error, IBV_QP_STATE);
		}
		assert_false(fake.overflowed);
		for (int i = 0; i < 100; i++)
			fabric->ops->poll(fabric, scene_events);
		assert_int_equal(fabric->counters[FABRIC_QP_HEALED], (round + 1) * 3 * QPS);
		for (int i = 0; i < QPS; i++)
			fabric->ops->qp_destroy(qps[i]);
		fabric->ops->poll(fabric, scene_events);
		/* What the first round had is free for the second. */
		assert_int_equal(endpoint_of(fabric)->cq_count, cqs);
	}
	fabric->ops->close(fabric);
	assert_int_equal(fake.objects, 0);
	assert_false(fake.misused);
}

/* A shared receive queue loses a request to a stale key, and says so in error; that harms nobody. */
static void shared_stale(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, "fake0,srq");
	scene_window(&scene, 0);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	scene_await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(scene_write(&scene, 0, 0, 64), 64);
		assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 0);
		scene_poll(&scene, 0, FABRIC_SENT);
	}
	assert_int_equal(scene_count(&scene, 1, FABRIC_DROP_RKEY), 200 * 64);
	assert_int_equal(scene_count(&scene, 1, FABRIC_QP_HEALED), 0);
	assert_int_equal(fake.no_request, 0);
	scene_window(&scene, 0);
	assert_int_equal(scene_write(&scene, 0, 0, 64), 64);
	assert_int_equal(scene_poll(&scene, 1, FABRIC_DATA), 64);
	scene_close(&scene);
}

static void shared_many(void **state)
{
	enum { QPS = 60 };
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_qp *qps[QPS];
	struct fabric *fabric;
	struct queue *queue;

	(void)state;
	assert_int_equal(verbs_open("fake0,srq", &fabric), 0);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qps[i]), 0);
	for (int i = 0; i < QPS; i++) {
		queue = verbs_qp(qps[i])->lane[0];
		assert_ptr_equal(queue_by_number(endpoint_of(fabric), queue->qp->qp_num), queue);
	}
	for (int i = 0; i < QPS; i += 2) {
		uint32_t number = verbs_qp(qps[i])->lane[0]->qp->qp_num;

		fabric->ops->qp_destroy(qps[i]);
		assert_null(queue_by_number(endpoint_of(fabric), number));
	}
	fabric->ops->close(fabric);
	assert_int_equal(fake.objects, 0);
	fake.max_srq_wr = 0;
	assert_int_not_equal(verbs_open("fake0,srq", &fabric), 0);
	assert_int_equal(fake.objects, 0);
	assert_false(fake.misused);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		fake_test(healed), fake_test(close_early),  fake_test(successor),
		fake_test(many),   fake_test(shared_stale), fake_test(shared_many),
	};

	scene_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
