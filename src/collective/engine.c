/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs lists of steps. */
#include <errno.h>
#include <stdlib.h>

#include "collective/engine.h"

static struct step *step_at(const struct engine *engine, uint32_t index)
{
	return &program_steps(engine->program)[index];
}

static bool is_message(const struct step *step)
{
	return step->kind == STEP_SEND || step->kind == STEP_RECV;
}

static struct queue *queue_of(const struct engine *engine, const struct step *step)
{
	return &engine->queues[2 * step->peer + (step->kind == STEP_RECV)];
}

int engine_init(struct engine *engine, struct program *program, uint32_t size,
		const struct engine_ops *ops, void *arg)
{
	*engine = (struct engine){ .program = program,
				   .ops = ops,
				   .arg = arg,
				   .size = size,
				   .left = program->steps.count,
				   .ready = STEP_NONE,
				   .ready_last = STEP_NONE };
	engine->queues = calloc(2 * (size_t)size, sizeof(*engine->queues));
	if (!engine->queues)
		return -ENOMEM;
	for (uint32_t i = 0; i < 2 * size; i++)
		engine->queues[i].head = STEP_NONE;
	for (uint32_t i = program->steps.count; i-- > 0;) {
		struct step *step = step_at(engine, i);

		if (is_message(step)) {
			step->next = queue_of(engine, step)->head;
			queue_of(engine, step)->head = i;
		}
	}
	return 0;
}

void engine_free(struct engine *engine)
{
	free(engine->queues);
	engine->queues = NULL;
}

static void pump(struct engine *engine, struct queue *queue)
{
	while (!engine->error && queue->head != STEP_NONE && queue->open < ENGINE_WINDOW &&
	       !step_at(engine, queue->head)->waits) {
		int error = engine->ops->post(engine->arg, queue->head);

		if (error == -EAGAIN)
			return;
		if (error)
			engine->error = error;
		queue->head = step_at(engine, queue->head)->next;
		queue->open++;
	}
}

static void make_ready(struct engine *engine, uint32_t index)
{
	step_at(engine, index)->next = STEP_NONE;
	if (engine->ready == STEP_NONE)
		engine->ready = index;
	else
		step_at(engine, engine->ready_last)->next = index;
	engine->ready_last = index;
}

/* What waited for a step waits for one less. */
static void let_go(struct engine *engine, uint32_t index)
{
	const struct edge *edges = program_edges(engine->program);

	engine->left--;
	for (uint32_t e = step_at(engine, index)->edges; e != STEP_NONE; e = edges[e].next) {
		struct step *step = step_at(engine, edges[e].step);

		if (--step->waits)
			continue;
		if (is_message(step))
			pump(engine, queue_of(engine, step));
		else
			make_ready(engine, edges[e].step);
	}
}

static int go_on(struct engine *engine)
{
	while (!engine->error && engine->ready != STEP_NONE) {
		uint32_t index = engine->ready;

		engine->ready = step_at(engine, index)->next;
		engine->ops->compute(engine->arg, index);
		let_go(engine, index);
	}
	return engine->error ? engine->error : !engine->left;
}

int engine_start(struct engine *engine)
{
	for (uint32_t i = 0; i < engine->program->steps.count; i++)
		if (!is_message(step_at(engine, i)) && !step_at(engine, i)->waits)
			make_ready(engine, i);
	for (uint32_t i = 0; i < 2 * engine->size; i++)
		pump(engine, &engine->queues[i]);
	return go_on(engine);
}

int engine_ended(struct engine *engine, uint32_t step)
{
	struct queue *queue = queue_of(engine, step_at(engine, step));

	queue->open--;
	let_go(engine, step);
	pump(engine, queue);
	return go_on(engine);
}

int engine_kick(struct engine *engine, uint32_t peer)
{
	pump(engine, &engine->queues[2 * peer]);
	pump(engine, &engine->queues[2 * peer + 1]);
	return go_on(engine);
}
