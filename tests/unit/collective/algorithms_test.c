/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every algorithm, without a network: the lists of all ranks run against each other. Messages between two ranks match in order,
 * and their two ends are told in any order that the draw gives. A run that stops before all lists are done is a deadlock.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "collective/algorithm.h"
#include "collective/choose.h"
#include "collective/engine.h"

#define GUARD 0xa5a5a5a5a5a5a5a5u
/* Elements before and after a buffer that nobody may touch. */
#define MARGIN 2

struct world;

struct member {
	struct world *world;
	struct task task;
	struct program program;
	struct engine engine;
	/* PLACE_SEND, PLACE_RECV, PLACE_WORK, PLACE_SLOT: where the first cell would be */
	uint64_t *base[PLACE_COUNT];
	uint64_t *send, *recv, *work, *slots;
	uint64_t send_elements, recv_elements;
	bool done;
};

/* Steps that have begun and not ended, in the order of their beginning. */
struct line {
	uint32_t steps[2 * ENGINE_WINDOW];
	unsigned count;
	/* messages whose bytes were copied, and which have not ended at this side */
	unsigned moved;
};

struct world {
	struct rng rng;
	uint32_t size;
	struct member *members;
	/* [from][to]: sends, receives */
	struct line *sends, *recvs;
	/* order matters: a share is combined as sum * 3 + share */
	bool ordered;
};

static uint64_t value(uint32_t rank, uint64_t index)
{
	return (rank + 1) * UINT64_C(0x9e3779b97f4a7c15) + index * 1000003;
}

static uint8_t *address(struct member *member, struct spot where)
{
	uint64_t offset = where.place == PLACE_SLOT
				  ? where.first * ((member->program.slot_bytes + 7) & ~UINT64_C(7))
				  : layout_offset(&member->program.layout, where.first);

	return (uint8_t *)member->base[where.place] + offset;
}

static int post(void *arg, uint32_t index)
{
	struct member *member = arg;
	struct world *world = member->world;
	const struct step *step = &program_steps(&member->program)[index];
	struct line *line = step->kind == STEP_SEND
				    ? &world->sends[member->task.rank * world->size + step->peer]
				    : &world->recvs[step->peer * world->size + member->task.rank];

	if (rng_below(&world->rng, 16) == 0)
		return -EAGAIN;
	assert_true(line->count < 2 * ENGINE_WINDOW);
	assert_int_not_equal(step->peer, member->task.rank);
	line->steps[line->count++] = index;
	return 0;
}

static void compute(void *arg, uint32_t index)
{
	struct member *member = arg;
	const struct step *step = &program_steps(&member->program)[index];
	uint8_t *to = address(member, step->to), *from = address(member, step->from);
	uint8_t *with = address(member, step->with);

	if (step->kind == STEP_COPY) {
		memmove(to, from, step->bytes);
		return;
	}
	for (uint64_t i = 0; i < step->bytes; i += 8) {
		uint64_t a, b;

		if (step->kind == STEP_SCALE) {
			memcpy(&a, to + i, 8);
			a = ~a;
		} else {
			memcpy(&a, from + i, 8);
			memcpy(&b, with + i, 8);
			a = member->world->ordered ? a * 3 + b : a + b;
		}
		memcpy(to + i, &a, 8);
	}
}

static const struct engine_ops engine_ops = { .post = post, .compute = compute };

static void take_out(struct line *line)
{
	line->count--;
	line->moved--;
	memmove(line->steps, line->steps + 1, line->count * sizeof(line->steps[0]));
}

/* Moves a message, or ends one side of one. Returns whether anything happened. */
static bool act(struct world *world, uint32_t from, uint32_t to)
{
	struct line *send = &world->sends[from * world->size + to];
	struct line *recv = &world->recvs[from * world->size + to];
	struct member *sender = &world->members[from], *receiver = &world->members[to];

	if (send->moved < send->count && recv->moved < recv->count && rng_below(&world->rng, 2)) {
		const struct step *s = &program_steps(&sender->program)[send->steps[send->moved]];
		const struct step *r = &program_steps(&receiver->program)[recv->steps[recv->moved]];

		assert_int_equal(s->bytes, r->bytes);
		memcpy(address(receiver, r->to), address(sender, s->from), s->bytes);
		send->moved++;
		recv->moved++;
		return true;
	}
	if (recv->moved && rng_below(&world->rng, 2)) {
		uint32_t step = recv->steps[0];

		take_out(recv);
		receiver->done = engine_ended(&receiver->engine, step) == 1;
		return true;
	}
	if (send->moved) {
		uint32_t step = send->steps[0];

		take_out(send);
		sender->done = engine_ended(&sender->engine, step) == 1;
		return true;
	}
	return recv->moved || (send->moved < send->count && recv->moved < recv->count);
}

static uint64_t *buffer(uint64_t elements)
{
	uint64_t *memory = malloc((elements + 2 * MARGIN) * sizeof(*memory));

	assert_non_null(memory);
	for (uint64_t i = 0; i < elements + 2 * MARGIN; i++)
		memory[i] = GUARD;
	return memory + MARGIN;
}

static void check_margins(const uint64_t *memory, uint64_t elements)
{
	for (int i = 0; i < MARGIN; i++) {
		assert_int_equal(memory[-1 - i], GUARD);
		assert_int_equal(memory[elements + i], GUARD);
	}
}

static bool blocked(enum operation operation)
{
	return operation == OPERATION_ALLGATHER || operation == OPERATION_REDUCE_SCATTER ||
	       operation == OPERATION_ALLTOALL;
}

static void member_open(struct world *world, struct member *member, const struct task *task,
			uint32_t rank)
{
	const struct layout *layout = &member->program.layout;
	uint64_t block = blocked(task->operation) ? task->elements / task->size : task->elements;

	member->world = world;
	member->task = *task;
	member->task.rank = rank;
	assert_int_equal(algorithm_build(&member->task, &member->program), 0);
	assert_int_equal(
		engine_init(&member->engine, &member->program, task->size, &engine_ops, member), 0);
	member->send_elements = task->operation == OPERATION_ALLGATHER ? block : task->elements;
	member->recv_elements =
		task->operation == OPERATION_REDUCE_SCATTER ? block : task->elements;
	member->send = buffer(task->elements);
	member->recv = task->in_place ? member->send : buffer(task->elements);
	member->base[PLACE_SEND] = member->send;
	member->base[PLACE_RECV] = member->recv;
	/* The smaller buffer of two is a block of the other in place, and a buffer of its own otherwise. */
	if (!task->in_place && task->operation == OPERATION_ALLGATHER)
		member->base[PLACE_SEND] -= rank * block;
	if (!task->in_place && task->operation == OPERATION_REDUCE_SCATTER)
		member->base[PLACE_RECV] -= rank * block;
	for (uint64_t i = 0; i < member->send_elements; i++)
		member->send[(task->in_place && task->operation == OPERATION_ALLGATHER
				      ? rank * block
				      : 0) +
			     i] = value(rank, i);
	member->work = buffer(layout_offset(layout, layout_cells(layout)) / 8 + 1);
	member->base[PLACE_WORK] = member->work;
	member->slots = buffer(member->program.slots * (member->program.slot_bytes / 8 + 1));
	member->base[PLACE_SLOT] = member->slots;
}

static uint64_t expected(const struct world *world, const struct task *task, uint32_t rank,
			 uint64_t index)
{
	uint64_t block = blocked(task->operation) ? task->elements / task->size : 0, sum = 0;

	switch (task->operation) {
	case OPERATION_BROADCAST:
		return value(task->root, index);
	case OPERATION_ALLGATHER:
		return value((uint32_t)(index / block), index % block);
	case OPERATION_ALLTOALL:
		return value((uint32_t)(index / block), rank * block + index % block);
	default:
		break;
	}
	if (task->operation == OPERATION_REDUCE_SCATTER)
		index += rank * block;
	sum = value(0, index);
	for (uint32_t r = 1; r < task->size; r++)
		sum = world->ordered ? sum * 3 + value(r, index) : sum + value(r, index);
	return task->mean ? ~sum : sum;
}

static void member_check(struct world *world, struct member *member)
{
	const struct task *task = &member->task;
	uint64_t block = task->elements / task->size;
	const uint64_t *got = member->recv;

	assert_true(member->done);
	if (task->in_place && task->operation == OPERATION_REDUCE_SCATTER)
		got += task->rank * block;
	for (uint64_t i = 0; task->operation != OPERATION_BARRIER && i < member->recv_elements; i++)
		if (got[i] != expected(world, task, task->rank, i))
			fail_msg("%s %s, %u ranks, %llu elements: rank %u has element %llu wrong",
				 operation_name(task->operation), algorithm_name(task->algorithm),
				 task->size, (unsigned long long)task->elements, task->rank,
				 (unsigned long long)i);
	check_margins(member->send, task->elements);
	check_margins(member->recv, task->elements);
	for (uint64_t i = 0; !task->in_place && i < member->send_elements; i++)
		assert_int_equal(member->send[i], value(task->rank, i));
}

static void member_close(struct member *member)
{
	engine_free(&member->engine);
	program_free(&member->program);
	free(member->send - MARGIN);
	if (!member->task.in_place)
		free(member->recv - MARGIN);
	free(member->work - MARGIN);
	free(member->slots - MARGIN);
}

static void run(const struct task *task, uint64_t seed, bool ordered)
{
	uint32_t size = task->size, done = 0, idle = 0;
	struct world world = { .size = size, .ordered = ordered };

	rng_seed(&world.rng, seed);
	world.members = calloc(size, sizeof(*world.members));
	world.sends = calloc((size_t)size * size, sizeof(struct line));
	world.recvs = calloc((size_t)size * size, sizeof(struct line));
	for (uint32_t r = 0; r < size; r++)
		member_open(&world, &world.members[r], task, r);
	for (uint32_t r = 0; r < size; r++)
		world.members[r].done = engine_start(&world.members[r].engine) == 1;
	while (done < size && idle < 4) {
		bool any = false;

		for (uint32_t i = 0; i < size * size; i++)
			any |= act(&world, i / size, i % size);
		done = 0;
		for (uint32_t r = 0; r < size; r++) {
			/* What was refused gets another chance, and twice before a run counts as stuck. */
			for (uint32_t p = 0; p < size; p++)
				if (engine_kick(&world.members[r].engine, p) == 1)
					world.members[r].done = true;
			done += world.members[r].done;
		}
		idle = any ? 0 : idle + 1;
	}
	if (done < size)
		fail_msg("%s %s, %u ranks, %llu elements: stuck", operation_name(task->operation),
			 algorithm_name(task->algorithm), size, (unsigned long long)task->elements);
	for (uint32_t r = 0; r < size; r++)
		member_check(&world, &world.members[r]);
	for (uint32_t r = 0; r < size; r++)
		member_close(&world.members[r]);
	free(world.members);
	free(world.sends);
	free(world.recvs);
}

static void every(enum operation operation, uint32_t size, uint64_t count, uint64_t seed)
{
	for (int a = GW_ALGORITHM_RING; a <= GW_ALGORITHM_MULTICAST; a++) {
		struct task task = { .operation = operation,
				     .algorithm = (enum gw_algorithm)a,
				     .size = size,
				     .root = (uint32_t)(seed % size),
				     .unit = 8,
				     .elements = blocked(operation) ? count * size : count,
				     .segment_bytes = seed & 1 ? 64 : 0,
				     .mean = seed & 2 && (operation == OPERATION_ALLREDUCE ||
							  operation == OPERATION_REDUCE_SCATTER),
				     .in_place = seed & 4 };

		if (algorithm_fits(operation, (enum gw_algorithm)a))
			run(&task, seed, a == GW_ALGORITHM_DIRECT);
	}
}

static void all_sizes(enum operation operation)
{
	static const uint64_t counts[] = { 0, 1, 2, 7, 64, 1023, 2500 };
	uint64_t seed = 1;

	for (uint32_t size = 1; size <= 9; size++)
		for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
			for (int again = 0; again < 8; again++)
				every(operation, size, counts[i], seed++);
	for (uint32_t size = 15; size <= 33; size += 6)
		for (int again = 0; again < 8; again++)
			every(operation, size, 100, seed++);
}

static void barrier(void **state)
{
	(void)state;
	all_sizes(OPERATION_BARRIER);
}

static void broadcast(void **state)
{
	(void)state;
	all_sizes(OPERATION_BROADCAST);
}

static void allgather(void **state)
{
	(void)state;
	all_sizes(OPERATION_ALLGATHER);
}

static void reduce_scatter(void **state)
{
	(void)state;
	all_sizes(OPERATION_REDUCE_SCATTER);
}

static void allreduce(void **state)
{
	(void)state;
	all_sizes(OPERATION_ALLREDUCE);
}

static void alltoall(void **state)
{
	(void)state;
	all_sizes(OPERATION_ALLTOALL);
}

/* Two ranks exchange a small allreduce once: a second round costs half a round trip more, whatever the path. */
static void two_ranks_exchange_once(void **state)
{
	struct task task = {
		.operation = OPERATION_ALLREDUCE, .size = 2, .unit = 4, .elements = 1024
	};
	struct network unknown = { 0 };
	struct program program;
	uint32_t sends = 0;

	(void)state;
	task.algorithm =
		choose_algorithm(task.operation, task.elements * task.unit, 2, &unknown, false);
	assert_int_equal(algorithm_build(&task, &program), 0);
	for (uint32_t i = 0; i < program.steps.count; i++)
		sends += program_steps(&program)[i].kind == STEP_SEND;
	assert_int_equal(sends, 1);
	program_free(&program);
	assert_int_equal(choose_algorithm(task.operation, 4096, 2, &unknown, true),
			 GW_ALGORITHM_DIRECT);
}

/* Segments of a ring are short where a few of them fill the link, and long elsewhere. */
static void ring_has_short_segments_on_light_links(void **state)
{
	struct task task = { .operation = OPERATION_ALLREDUCE,
			     .algorithm = GW_ALGORITHM_RING,
			     .size = 4,
			     .unit = 4,
			     .elements = 1 << 20 };
	struct program program;

	(void)state;
	assert_int_equal(algorithm_build(&task, &program), 0);
	assert_int_equal(program.layout.segments, 4);
	program_free(&program);
	task.light = true;
	assert_int_equal(algorithm_build(&task, &program), 0);
	assert_int_equal(program.layout.segments, 16);
	program_free(&program);
}

/* A chain's segments are no longer than told, unless there were too many; a network that was not measured is far. */
static void chain_has_short_segments(void **state)
{
	(void)state;
	assert_false(algorithm_is_near(0));
	assert_true(algorithm_is_near(1));
	for (uint64_t bytes = 1; bytes < UINT64_C(4) << 20; bytes += 4097) {
		assert_true(algorithm_chain_segment(bytes, 0) <= 256u << 10);
		assert_true(algorithm_chain_segment(bytes, 32u << 10) <= 32u << 10);
		assert_true(algorithm_chain_segment(bytes, 1) <= 64u << 10);
	}
}

/* Those to all other ranks at once are short unless they would wait for answers; a reduction's are longer, as it takes two at a time. */
static void direct_has_long_segments_for_grants(void **state)
{
	struct task task = { .operation = OPERATION_ALLREDUCE,
			     .algorithm = GW_ALGORITHM_DIRECT,
			     .size = 4,
			     .unit = 4,
			     .elements = 4 << 20,
			     .light = true };
	struct program program;

	(void)state;
	assert_int_equal(algorithm_build(&task, &program), 0);
	assert_int_equal(program.layout.segments, 64);
	program_free(&program);
	task.light = false;
	assert_int_equal(algorithm_build(&task, &program), 0);
	assert_int_equal(program.layout.segments, 4);
	program_free(&program);
	task.operation = OPERATION_ALLGATHER;
	assert_int_equal(algorithm_build(&task, &program), 0);
	assert_int_equal(program.layout.segments, 16);
	program_free(&program);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_ranks_exchange_once),
		cmocka_unit_test(ring_has_short_segments_on_light_links),
		cmocka_unit_test(chain_has_short_segments),
		cmocka_unit_test(direct_has_long_segments_for_grants),
		cmocka_unit_test(barrier),
		cmocka_unit_test(broadcast),
		cmocka_unit_test(allgather),
		cmocka_unit_test(reduce_scatter),
		cmocka_unit_test(allreduce),
		cmocka_unit_test(alltoall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
