/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_scene.h: two ends of the verbs fabric on a device that the test controls, with a connected queue pair between
 * them. End 0 writes, end 1 has the windows.
 */
#ifndef TESTS_UNIT_FABRIC_VERBS_SCENE_H
#define TESTS_UNIT_FABRIC_VERBS_SCENE_H

#include "../message/pair.h"

#include "fabric/verbs/endpoint.h"
#include "fake_verbs.h"

#define SCENE_PAYLOAD	 256
#define SCENE_MEMORY	 (1 << 20)
#define SCENE_GENERATION 7

struct scene {
	struct fabric *fabric[2];
	struct fabric_qp *qp[2];
	struct fabric_mr *mr[2];
	uint8_t *memory[2];
	struct fabric_target target; /* of end 1's window */
	uint64_t va;
	uint32_t sent; /* told by end 0 */
};

/* Of the last poll. */
extern struct fabric_event scene_events[FABRIC_EVENTS];

void scene_open(struct scene *scene, const char *name);
/* Also asserts that nothing was left, and that the device saw nothing it should not. */
void scene_close(struct scene *scene);

/* Polls until an event of this type comes; how many of `counted` came before it. Fails when neither comes. */
unsigned scene_await(struct scene *scene, int end, enum fabric_event_type type,
		     enum fabric_event_type counted);
/* Polls a few times; how many events of this type came. */
unsigned scene_poll(struct scene *scene, int end, enum fabric_event_type type);

int scene_expose(struct scene *scene, uint32_t slot);
void scene_window(struct scene *scene, uint32_t slot);
/* Packets from `first` on, by end 0, into end 1's window; how many were taken. */
unsigned scene_write(struct scene *scene, unsigned lane, uint32_t first, unsigned count);
uint64_t scene_count(const struct scene *scene, int end, enum fabric_counter which);

/* Before each test. */
int scene_begin(void **state);
#define fake_test(name) cmocka_unit_test_setup(name, scene_begin)
/* Errors that a test provokes are not shown. */
void scene_quiet(void);

#endif
