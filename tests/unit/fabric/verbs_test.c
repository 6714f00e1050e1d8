/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs fabric on a device that the test controls: what happens when a NIC takes its time, fails, or lies. */
#include "../message/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/endpoint.h"
#include "fake_verbs.h"

#define PAYLOAD	   256
#define MEMORY	   (1 << 20)
#define GENERATION 7

struct scene {
	struct fabric *fabric[2];
	struct fabric_qp *qp[2];
	struct fabric_mr *mr[2];
	uint8_t *memory[2];
	struct fabric_target target; /* of end 1's window */
	uint64_t va;
	uint32_t sent; /* told by end 0 */
};

static struct fabric_event events[FABRIC_EVENTS];

static void open_scene(struct scene *scene, const char *name)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 16 };
	uint8_t address[2][FABRIC_ADDRESS_MAX];

	memset(scene, 0, sizeof(*scene));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(verbs_open(name, &scene->fabric[i]), 0);
		scene->memory[i] = calloc(1, MEMORY);
		assert_int_equal(scene->fabric[i]->ops->mr_register(
					 scene->fabric[i], scene->memory[i], MEMORY, &scene->mr[i]),
				 0);
		attr.user = scene;
		assert_int_equal(
			scene->fabric[i]->ops->qp_create(scene->fabric[i], &attr, &scene->qp[i]),
			0);
		scene->fabric[i]->ops->qp_address(scene->qp[i], address[i]);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(scene->fabric[i]->ops->qp_connect(scene->qp[i], address[!i],
								   FABRIC_ADDRESS_MAX, PAYLOAD),
				 0);
}

static void close_scene(struct scene *scene)
{
	for (int i = 0; i < 2; i++) {
		scene->fabric[i]->ops->qp_destroy(scene->qp[i]);
		scene->fabric[i]->ops->mr_deregister(scene->fabric[i], scene->mr[i]);
		scene->fabric[i]->ops->close(scene->fabric[i]);
		free(scene->memory[i]);
	}
	assert_int_equal(fake.objects, 0);
	assert_false(fake.overflowed);
	assert_false(fake.misused);
}

/* Polls until an event of this type comes; how many of `counted` came before it. Fails when neither comes. */
static unsigned await(struct scene *scene, int end, enum fabric_event_type type,
		      enum fabric_event_type counted)
{
	unsigned seen = 0;

	for (int turn = 0; turn < 2000; turn++) {
		int n = scene->fabric[end]->ops->poll(scene->fabric[end], events);

		for (int i = 0; i < n; i++) {
			if (events[i].type == FABRIC_EXPOSED) {
				scene->target = (struct fabric_target){ events[i].slot,
									events[i].generation,
									events[i].exposed.rkey };
				scene->va = events[i].exposed.va;
			}
			if (events[i].type == type)
				return seen;
			seen += events[i].type == counted;
		}
	}
	fail_msg("no event %d", type);
	return 0;
}

static unsigned poll_for(struct scene *scene, int end, enum fabric_event_type type)
{
	unsigned seen = 0;

	for (int turn = 0; turn < 20; turn++) {
		int n = scene->fabric[end]->ops->poll(scene->fabric[end], events);

		for (int i = 0; i < n; i++) {
			seen += events[i].type == type;
			if (events[i].type == FABRIC_SENT)
				scene->sent += events[i].count;
		}
	}
	return seen;
}

static int expose(struct scene *scene, uint32_t slot)
{
	return scene->fabric[1]->ops->expose(scene->qp[1], slot, GENERATION, scene->mr[1],
					     scene->memory[1], MEMORY / 2);
}

static void open_window(struct scene *scene, uint32_t slot)
{
	assert_int_equal(expose(scene, slot), 0);
	await(scene, 1, FABRIC_EXPOSED, FABRIC_DATA);
}

/* Packets from `first` on, by end 0, into end 1's window; how many were taken. */
static unsigned write_packets(struct scene *scene, unsigned lane, uint32_t first, unsigned count)
{
	unsigned taken = 0;

	while (taken < count) {
		struct fabric_write write = {
			.data = scene->memory[0] + (size_t)(first + taken) * PAYLOAD,
			.mr = scene->mr[0],
			.length = PAYLOAD,
			.packet = first + taken,
			.va = scene->va + (uint64_t)(first + taken) * PAYLOAD
		};

		if (scene->fabric[0]->ops->write(scene->qp[0], lane, &scene->target, &write, 1) !=
		    1)
			break;
		taken++;
	}
	return taken;
}

static uint64_t count(const struct scene *scene, int end, enum fabric_counter which)
{
	return scene->fabric[end]->counters[which];
}

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

/* The key is told after the bind, not before. */
static void open_late(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0");
	fake.held = true;
	assert_int_equal(expose(&scene, 3), 0);
	assert_int_equal(poll_for(&scene, 1, FABRIC_EXPOSED), 0);
	fake_run(NULL);
	await(&scene, 1, FABRIC_EXPOSED, FABRIC_DATA);
	assert_int_equal(scene.target.slot, 3);
	assert_int_equal(scene.target.generation, GENERATION);
	assert_int_equal(expose(&scene, 3), -EBUSY);
	fake.held = false;
	close_scene(&scene);
}

static void land(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct scene scene;

		open_scene(&scene, names[i]);
		open_window(&scene, 2);
		memset(scene.memory[0], 0x5c, MEMORY);
		assert_int_equal(write_packets(&scene, 0, 5, 1), 1);
		await(&scene, 1, FABRIC_DATA, FABRIC_CONTROL);
		assert_int_equal(events[0].slot, 2);
		assert_int_equal(events[0].data.packet, 5);
		assert_int_equal(events[0].data.length, PAYLOAD);
		assert_memory_equal(scene.memory[1] + (size_t)5 * PAYLOAD, scene.memory[0],
				    PAYLOAD);
		assert_int_equal(scene.memory[1][5 * PAYLOAD - 1], 0);
		assert_int_equal(scene.memory[1][6 * PAYLOAD], 0);
		close_scene(&scene);
	}
}

/* A fence is told after all that landed before it was read, and not before the window is shut. */
static void fence_last(void **state)
{
	struct scene scene;
	unsigned packets = 3 * FABRIC_EVENTS;

	(void)state;
	open_scene(&scene, "fake0");
	open_window(&scene, 0);
	assert_int_equal(write_packets(&scene, 0, 0, 100), 100);
	poll_for(&scene, 0, FABRIC_SENT);
	assert_int_equal(write_packets(&scene, 0, 100, 100), 100);
	poll_for(&scene, 0, FABRIC_SENT);
	assert_int_equal(write_packets(&scene, 0, 200, 100), 100);
	poll_for(&scene, 0, FABRIC_SENT);
	assert_int_equal(write_packets(&scene, 0, 300, packets - 300), packets - 300);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	assert_int_equal(await(&scene, 1, FABRIC_FENCED, FABRIC_DATA), packets);
	close_scene(&scene);
}

static void fence_waits(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0");
	open_window(&scene, 0);
	fake.held = true;
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	assert_int_equal(poll_for(&scene, 1, FABRIC_FENCED), 0);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), -ENOENT);
	fake_run(NULL);
	await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	fake.held = false;
	/* What comes under the old key now neither lands nor is told. */
	memset(scene.memory[0], 0x77, MEMORY);
	assert_int_equal(write_packets(&scene, 0, 0, 1), 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(scene.memory[1][0], 0);
	close_scene(&scene);
}

/* Windows are used in turn: a key comes back late. */
static void keys_fresh(void **state)
{
	enum { TIMES = 2000 };
	static uint32_t keys[TIMES];
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0");
	for (int i = 0; i < TIMES; i++) {
		open_window(&scene, (uint32_t)i % 16);
		keys[i] = scene.target.rkey;
		assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], (uint32_t)i % 16), 0);
		await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(keys[j], keys[i]);
	}
	close_scene(&scene);
}

/* Done is told in the order of writing, also when a later lane is faster. */
static void sent_in_order(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0,lanes=2");
	open_window(&scene, 0);
	fake.held = true;
	assert_int_equal(write_packets(&scene, 0, 0, 3), 3);
	assert_int_equal(write_packets(&scene, 1, 3, 2), 2);
	fake_run(verbs_qp(scene.qp[0])->lane[1]->qp);
	poll_for(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene.sent, 0);
	fake_run(NULL);
	poll_for(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene.sent, 5);
	fake.held = false;
	close_scene(&scene);
}

/* A queue that is full says so, and takes more when there is room. */
static void full(void **state)
{
	struct scene scene;
	unsigned taken;

	(void)state;
	open_scene(&scene, "fake0");
	open_window(&scene, 0);
	fake.held = true;
	taken = write_packets(&scene, 0, 0, 1000);
	assert_int_equal(taken, BATCHES);
	assert_true(count(&scene, 0, FABRIC_TX_BUSY) > 0);
	fake_run(NULL);
	poll_for(&scene, 0, FABRIC_SENT);
	assert_int_equal(scene.sent, taken);
	assert_int_equal(write_packets(&scene, 0, 0, 1), 1);
	fake.held = false;
	fake_run(NULL);
	close_scene(&scene);
}

static void replenished(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct scene scene;
		unsigned landed = 0;

		open_scene(&scene, names[i]);
		open_window(&scene, 0);
		for (int turn = 0; turn < 200; turn++) {
			assert_int_equal(write_packets(&scene, 0, 0, 64), 64);
			poll_for(&scene, 0, FABRIC_SENT);
			landed += poll_for(&scene, 1, FABRIC_DATA);
		}
		assert_int_equal(landed, 200 * 64);
		assert_int_equal(fake.no_request, 0);
		close_scene(&scene);
	}
}

static void healed(void **state)
{
	const char *const names[] = { "fake0", "fake0,ud", "fake0,srq", "fake0,ud,srq" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
		struct scene scene;

		open_scene(&scene, names[i]);
		open_window(&scene, 0);
		fake.held = true;
		assert_int_equal(write_packets(&scene, 0, 0, 5), 5);
		for (int end = 0; end < 2; end++)
			ibv_modify_qp(verbs_qp(scene.qp[end])->lane[0]->qp, &attr, IBV_QP_STATE);
		fake.held = false;
		for (int end = 0; end < 2; end++)
			device_events(endpoint_of(scene.fabric[end]));
		poll_for(&scene, 0, FABRIC_SENT);
		assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
		assert_int_equal(scene.sent, 5);
		for (int end = 0; end < 2; end++)
			assert_int_equal(count(&scene, end, FABRIC_QP_HEALED), 1);
		assert_int_equal(write_packets(&scene, 0, 0, 5), 5);
		assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 5);
		poll_for(&scene, 0, FABRIC_SENT);
		assert_int_equal(scene.sent, 10);
		close_scene(&scene);
	}
}

/* A bind that fails breaks the binder; both come back, the window with another key. */
static void bad_binds(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0");
	fake.bad_binds = 2;
	open_window(&scene, 0);
	assert_int_equal(fake.bad_binds, 0);
	assert_int_equal(count(&scene, 1, FABRIC_QP_HEALED), 2);
	assert_int_equal(write_packets(&scene, 0, 0, 1), 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 1);
	fake.bad_binds = 1;
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	assert_int_equal(write_packets(&scene, 0, 0, 1), 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
	open_window(&scene, 0);
	close_scene(&scene);
}

/* A shared receive queue loses a request to a stale key, and says so in error; that harms nobody. */
static void shared_stale(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0,srq");
	open_window(&scene, 0);
	assert_int_equal(scene.fabric[1]->ops->fence(scene.qp[1], 0), 0);
	await(&scene, 1, FABRIC_FENCED, FABRIC_DATA);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(write_packets(&scene, 0, 0, 64), 64);
		assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
		poll_for(&scene, 0, FABRIC_SENT);
	}
	assert_int_equal(count(&scene, 1, FABRIC_DROP_RKEY), 200 * 64);
	assert_int_equal(count(&scene, 1, FABRIC_QP_HEALED), 0);
	assert_int_equal(fake.no_request, 0);
	open_window(&scene, 0);
	assert_int_equal(write_packets(&scene, 0, 0, 64), 64);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 64);
	close_scene(&scene);
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

/* Where no NIC looks at keys, software does. */
static void ud_checks(void **state)
{
	struct scene scene;
	uint32_t key;

	(void)state;
	open_scene(&scene, "fake0,ud");
	open_window(&scene, 0);
	key = scene.target.rkey;
	scene.target.rkey = key ^ 1;
	write_packets(&scene, 0, 0, 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(count(&scene, 1, FABRIC_DROP_RKEY), 1);
	scene.target.rkey = key;
	scene.target.slot = 1;
	write_packets(&scene, 0, 0, 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(count(&scene, 1, FABRIC_DROP_SLOT), 1);
	scene.target.slot = 0;
	write_packets(&scene, 0, MEMORY / 2 / PAYLOAD, 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(count(&scene, 1, FABRIC_DROP_OFFSET), 1);
	write_packets(&scene, 0, MEMORY / 2 / PAYLOAD - 1, 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 1);
	verbs_qp(scene.qp[1])->peer.qpn[0]++;
	write_packets(&scene, 0, 0, 1);
	assert_int_equal(poll_for(&scene, 1, FABRIC_DATA), 0);
	assert_int_equal(count(&scene, 1, FABRIC_DROP_STRANGER), 1);
	close_scene(&scene);
}

static void control(void **state)
{
	struct scene scene;
	char text[] = "of no consequence";
	unsigned heard = 0;

	(void)state;
	open_scene(&scene, "fake0");
	for (int i = 0; i < 500; i++) {
		text[0] = (char)('a' + i % 26);
		assert_int_equal(scene.fabric[0]->ops->control(scene.qp[0], text, sizeof(text)), 0);
		await(&scene, 1, FABRIC_CONTROL, FABRIC_DATA);
		assert_int_equal(events[0].control.length, sizeof(text));
		assert_memory_equal(events[0].control.bytes, text, sizeof(text));
		poll_for(&scene, 0, FABRIC_SENT);
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
	close_scene(&scene);
}

/* Closing while windows open, with packets under way: nothing is left, nothing lands, memory can go at once. */
static void close_early(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, "fake0");
	open_window(&scene, 0);
	assert_int_equal(expose(&scene, 1), 0);
	fake.held = true;
	assert_int_equal(write_packets(&scene, 0, 0, 3), 3);
	fake.held = false;
	close_scene(&scene);
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
		fabric->ops->poll(fabric, events);
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
			fabric->ops->poll(fabric, events);
		assert_int_equal(fabric->counters[FABRIC_QP_HEALED], (round + 1) * 3 * QPS);
		for (int i = 0; i < QPS; i++)
			fabric->ops->qp_destroy(qps[i]);
		fabric->ops->poll(fabric, events);
		/* What the first round had is free for the second. */
		assert_int_equal(endpoint_of(fabric)->cq_count, cqs);
	}
	fabric->ops->close(fabric);
	assert_int_equal(fake.objects, 0);
	assert_false(fake.misused);
}

static int begin(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static void swallow(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(void)
{
#define fake_test(name) cmocka_unit_test_setup(name, begin)
	static const struct CMUnitTest tests[] = {
		fake_test(modes),	  fake_test(open_late),	   fake_test(land),
		fake_test(fence_last),	  fake_test(fence_waits),  fake_test(keys_fresh),
		fake_test(sent_in_order), fake_test(full),	   fake_test(replenished),
		fake_test(healed),	  fake_test(bad_binds),	   fake_test(ud_checks),
		fake_test(control),	  fake_test(close_early),  fake_test(many),
		fake_test(successor),	  fake_test(shared_stale), fake_test(shared_many),
	};

	gw_log_set(GW_LOG_ERROR, swallow, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
