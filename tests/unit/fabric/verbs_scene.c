/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends on a device that the test controls; see verbs_scene.h. */
#include "verbs_scene.h"

#include <stdlib.h>
#include <string.h>

struct fabric_event scene_events[FABRIC_EVENTS];

void scene_open(struct scene *scene, const char *name)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 16 };
	uint8_t address[2][FABRIC_ADDRESS_MAX];

	memset(scene, 0, sizeof(*scene));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(verbs_open(name, &scene->fabric[i]), 0);
		scene->memory[i] = calloc(1, SCENE_MEMORY);
		assert_int_equal(scene->fabric[i]->ops->mr_register(scene->fabric[i],
								    scene->memory[i], SCENE_MEMORY,
								    &scene->mr[i]),
				 0);
		attr.user = scene;
		assert_int_equal(
			scene->fabric[i]->ops->qp_create(scene->fabric[i], &attr, &scene->qp[i]),
			0);
		scene->fabric[i]->ops->qp_address(scene->qp[i], address[i]);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(scene->fabric[i]->ops->qp_connect(scene->qp[i], address[!i],
								   FABRIC_ADDRESS_MAX,
								   SCENE_PAYLOAD),
				 0);
}

void scene_close(struct scene *scene)
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

unsigned scene_await(struct scene *scene, int end, enum fabric_event_type type,
		     enum fabric_event_type counted)
{
	unsigned seen = 0;

	for (int turn = 0; turn < 2000; turn++) {
		int n = scene->fabric[end]->ops->poll(scene->fabric[end], scene_events);

		for (int i = 0; i < n; i++) {
			if (scene_events[i].type == FABRIC_EXPOSED) {
				scene->target = (struct fabric_target){
					.slot = scene_events[i].slot,
					.generation = scene_events[i].generation,
					.rkey = scene_events[i].exposed.rkey
				};
				scene->va = scene_events[i].exposed.va;
			}
			if (scene_events[i].type == type)
				return seen;
			seen += scene_events[i].type == counted;
		}
	}
	fail_msg("no event %d", type);
	return 0;
}

unsigned scene_poll(struct scene *scene, int end, enum fabric_event_type type)
{
	unsigned seen = 0;

	for (int turn = 0; turn < 20; turn++) {
		int n = scene->fabric[end]->ops->poll(scene->fabric[end], scene_events);

		for (int i = 0; i < n; i++) {
			seen += scene_events[i].type == type;
			if (scene_events[i].type == FABRIC_SENT)
				scene->sent += scene_events[i].count;
		}
	}
	return seen;
}

int scene_expose(struct scene *scene, uint32_t slot)
{
	return scene->fabric[1]->ops->expose(scene->qp[1], slot, SCENE_GENERATION, scene->mr[1],
					     scene->memory[1], SCENE_MEMORY / 2, SCENE_PAYLOAD);
}

void scene_window(struct scene *scene, uint32_t slot)
{
	assert_int_equal(scene_expose(scene, slot), 0);
	scene_await(scene, 1, FABRIC_EXPOSED, FABRIC_DATA);
}

unsigned scene_write(struct scene *scene, unsigned lane, uint32_t first, unsigned count)
{
	unsigned taken = 0;

	while (taken < count) {
		struct fabric_write write = {
			.data = scene->memory[0] + (size_t)(first + taken) * SCENE_PAYLOAD,
			.mr = scene->mr[0],
			.length = SCENE_PAYLOAD,
			.packet = first + taken,
			.va = scene->va + (uint64_t)(first + taken) * SCENE_PAYLOAD
		};

		if (scene->fabric[0]->ops->write(scene->qp[0], lane, &scene->target, &write, 1) !=
		    1)
			break;
		taken++;
	}
	return taken;
}

uint64_t scene_count(const struct scene *scene, int end, enum fabric_counter which)
{
	return scene->fabric[end]->counters[which];
}

int scene_begin(void **state)
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

void scene_quiet(void)
{
	gw_log_set(GW_LOG_ERROR, swallow, NULL);
}
