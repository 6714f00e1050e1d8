/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs scenarios of collectives, bounded or not, and checks what holds for all of them. */
#include "simulation/coll_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/bounded.h"
#include "collective/multicast.h"
#include "message/state.h"
#include "tools/coll/values.h"

#define MARGIN	    64
#define MARGIN_BYTE 0xa5
#define LIMIT_NS    (COLL_START_NS + 600 * SECOND)

struct coll_part *coll_part_of(const struct coll_run *run, uint32_t rank, unsigned number)
{
	return &run->parts[rank * run->scenario->count + number];
}

/* ---- posting ---------------------------------------------------------------------------------------------------- */

static uint8_t *memory(size_t bytes, uint8_t **start)
{
	uint8_t *all = malloc(bytes + (size_t)2 * MARGIN);

	memset(all, MARGIN_BYTE, bytes + (size_t)2 * MARGIN);
	*start = all + MARGIN;
	return all;
}

static void end(struct coll_part *part, int status)
{
	part->ended++;
	part->status = status;
	memcpy(part->result, part->recv, part->recv_bytes);
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct coll_part *part = arg;

	end(part, result->status);
	if (part->plan->is_bounded && (!result->status || result->status == -EIO)) {
		if (gw_bounded_report(coll, &part->report))
			FAIL(part->run, "an operation that ended has no report");
		for (uint32_t r = 0; r < part->run->ranks.size; r++)
			if (gw_bounded_missing(coll, r, &part->missing[r]))
				FAIL(part->run,
				     "an operation that ended does not say what is missing");
	}
	gw_coll_close(coll);
}

/* Buffers as the operation wants them; in place, the smaller lies in the larger. */
static void make_buffers(struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	enum coll_operation operation = (enum coll_operation)plan->operation;
	uint32_t size = part->run->ranks.size;
	size_t unit = gw_type_size(plan->attr.type), block = plan->attr.count * unit;

	part->send_bytes = value_send_count(operation, plan->attr.count, size) * unit;
	part->recv_bytes = value_recv_count(operation, plan->attr.count, size) * unit;
	part->memory[0] = memory(part->send_bytes, &part->send);
	part->memory[1] = memory(part->recv_bytes, &part->recv);
	part->result = malloc(part->recv_bytes + 1);
	if (plan->is_bounded && plan->bounded.recovery == GW_RECOVER_PREVIOUS)
		part->previous = calloc(1, part->recv_bytes + 1);
	/* An earlier sum says how many numbers are missing (bounded_check.c). */
	for (size_t i = 0;
	     part->previous && coll_previous_counts(plan) && i < part->recv_bytes / unit; i++)
		value_put(plan->attr.type, part->previous, i, (int)(COLL_PREVIOUS * size));
	if (plan->in_place && plan->operation == OPERATION_ALLGATHER)
		part->send = part->recv + part->rank * block;
	else if (plan->in_place && plan->operation == OPERATION_REDUCE_SCATTER)
		part->recv = part->send + part->rank * block;
	else if (plan->in_place)
		part->recv = part->send;
	for (size_t i = 0; i < part->send_bytes / unit; i++)
		value_put(plan->attr.type, part->send, i, part->run->test->given(part->rank, i));
}

static int call(struct gw_comm *comm, const struct coll_plan *plan, const struct gw_coll_attr *attr,
		const struct gw_bounded_attr *bounded, struct gw_coll **coll)
{
	static int (*const exact[])(struct gw_comm *, const struct gw_coll_attr *,
				    struct gw_coll **) = {
		gw_barrier,	   gw_broadcast, gw_allgather,
		gw_reduce_scatter, gw_allreduce, gw_alltoall,
	};
	static int (*const bounds[OPERATION_COUNT])(struct gw_comm *, const struct gw_coll_attr *,
						    const struct gw_bounded_attr *,
						    struct gw_coll **) = {
		[OPERATION_BROADCAST] = gw_bounded_broadcast,
		[OPERATION_ALLGATHER] = gw_bounded_allgather,
		[OPERATION_REDUCE_SCATTER] = gw_bounded_reduce_scatter,
		[OPERATION_ALLREDUCE] = gw_bounded_allreduce,
	};

	return plan->is_bounded ? bounds[plan->operation](comm, attr, bounded, coll)
				: exact[plan->operation](comm, attr, coll);
}

static void post(struct coll_part *part)
{
	struct gw_coll_attr attr = part->plan->attr;
	struct gw_bounded_attr bounded = part->plan->bounded;
	struct gw_comm *comm = part->run->ranks.rank[part->rank].comm;
	struct gw_coll *coll;
	int error;

	part->posted = true;
	make_buffers(part);
	attr.send = part->send;
	attr.recv = part->recv;
	attr.done = done;
	attr.arg = part;
	bounded.previous = part->previous;
	error = call(comm, part->plan, &attr, &bounded, &coll);
	if (error && error == gw_comm_status(comm))
		end(part, error);
	else if (error)
		FAIL(part->run, "rank %u cannot post operation %u: %s", part->rank, part->number,
		     strerror(-error));
	ranks_touch(&part->run->ranks, part->rank);
}

/* Posts what is due; returns when the next is. */
static uint64_t post_due(struct coll_run *run)
{
	uint64_t next = UINT64_MAX, now = ranks_now(&run->ranks);

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (run->ranks.rank[r].dead)
			continue;
		for (unsigned i = 0; i < run->scenario->count; i++) {
			struct coll_part *part = coll_part_of(run, r, i);

			if (part->posted)
				continue;
			if (part->due_ns <= now) {
				post(part);
				continue;
			}
			if (part->due_ns < next)
				next = part->due_ns;
			break; /* in order */
		}
	}
	return next;
}

/* ---- what goes wrong -------------------------------------------------------------------------------------------- */

/* A token that no other rank has makes a rank deaf, and unheard. */
static void deafen(struct coll_run *run)
{
	const struct coll_scenario *s = run->scenario;
	struct gw_comm *comm = s->deaf < run->ranks.size ? run->ranks.rank[s->deaf].comm : NULL;

	if (run->deafened || !comm || ranks_now(&run->ranks) < s->deaf_ns || !comm->multicast ||
	    comm->multicast->state != MULTICAST_WORKS)
		return;
	comm->multicast->token ^= 1;
	run->deafened = true;
}

/* What a rank that has drifted apart would say of its results. */
static void drift(struct coll_run *run)
{
	const struct coll_scenario *s = run->scenario;
	struct gw_comm *comm =
		s->drifter < run->ranks.size ? run->ranks.rank[s->drifter].comm : NULL;

	if (comm && comm->bounded && coll_part_of(run, s->drifter, 0)->ended == 1)
		comm->bounded->tracks[0].digest |= 1;
}

/* Strikes the victim when its time has come; otherwise returns when that is. */
static uint64_t strike(struct coll_run *run)
{
	const struct coll_scenario *s = run->scenario;

	if (run->struck || s->victim == run->ranks.size)
		return UINT64_MAX;
	if (ranks_now(&run->ranks) < s->fault_ns)
		return s->fault_ns;
	run->struck = true;
	if (s->aborts)
		gw_comm_abort(run->ranks.rank[s->victim].comm, "enough");
	else
		ranks_kill(&run->ranks, s->victim);
	return UINT64_MAX;
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

static bool margins_right(const uint8_t *all, size_t bytes)
{
	for (size_t i = 0; i < MARGIN; i++)
		if (all[i] != MARGIN_BYTE || all[MARGIN + bytes + i] != MARGIN_BYTE)
			return false;
	return true;
}

bool coll_check_end(struct coll_part *part, int accepted)
{
	struct coll_run *run = part->run;

	if (!part->posted)
		return false;
	if (!margins_right(part->memory[0], part->send_bytes) ||
	    !margins_right(part->memory[1], part->recv_bytes))
		FAIL(run, "operation %u of rank %u wrote outside of its buffer", part->number,
		     part->rank);
	if (run->ranks.rank[part->rank].dead)
		return false;
	if (part->ended > 1)
		FAIL(run, "operation %u of rank %u ended %u times", part->number, part->rank,
		     part->ended);
	if (memcmp(part->result, part->recv, part->recv_bytes) != 0)
		FAIL(run, "operation %u of rank %u changed after its end", part->number,
		     part->rank);
	if (!part->status || part->status == accepted)
		return true;
	if (run->scenario->victim == run->ranks.size)
		FAIL(run, "operation %u of rank %u ended with %s and nothing was wrong: %s",
		     part->number, part->rank, strerror(-part->status),
		     run->ranks.rank[part->rank].comm->error);
	return false;
}

/* Whoever failed says who is to blame. */
static void check_blame(struct coll_run *run)
{
	char name[32];

	snprintf(name, sizeof(name), "rank %u", run->scenario->victim);
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct gw_comm *comm = run->ranks.rank[r].comm;

		if (comm && comm->status && !strstr(comm->error, name))
			FAIL(run, "rank %u does not blame %s: %s", r, name, comm->error);
	}
}

/* A NIC takes its time to close its windows. */
static void check_pools(struct coll_run *run)
{
	uint64_t limit = ranks_now(&run->ranks) + SECOND;

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (run->ranks.rank[r].comm)
			comm_destroy(run->ranks.rank[r].comm);
		run->ranks.rank[r].comm = NULL;
		ranks_touch(&run->ranks, r);
	}
	while (ranks_step(&run->ranks, limit))
		;
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		struct gw_context *ctx = run->ranks.world.hosts[r].ctx;

		if (ctx && (pool_used(&ctx->sends) || pool_used(&ctx->recvs) ||
			    pool_used(&ctx->qps) || pool_used(&ctx->mrs)))
			FAIL(run,
			     "rank %u has %u sends, %u receives, %u queue pairs and %u registrations left",
			     r, pool_used(&ctx->sends), pool_used(&ctx->recvs),
			     pool_used(&ctx->qps), pool_used(&ctx->mrs));
	}
}

/* Says what the first rank with an open operation waits for. */
static void stuck(struct coll_run *run)
{
	char text[400] = "";

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (!run->ranks.rank[r].comm)
			continue;
		gw_comm_explain(run->ranks.rank[r].comm, text, sizeof(text));
		if (strcmp(text, "no operation is open"))
			FAIL(run, "an operation does not end: %s", text);
	}
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static bool over(const struct coll_run *run)
{
	for (uint32_t i = 0; i < run->ranks.size * run->scenario->count; i++)
		if (!run->parts[i].ended && !run->ranks.rank[run->parts[i].rank].dead)
			return false;
	return true;
}

static void make_network(struct coll_run *run)
{
	const struct coll_scenario *s = run->scenario;

	for (unsigned i = 0; i < s->count; i++)
		run->ranks.timed |= s->plans[i].is_bounded;
	if (s->without < run->ranks.size)
		sim_host(run->ranks.world.sim, s->without)->caps.max_group = 0;
	if (s->lossy < run->ranks.size)
		sim_link(run->ranks.world.sim, run->ranks.size == 2 ? !s->lossy : 2 * s->lossy + 1)
			->attr.loss = 0.3;
}

static void make_parts(struct coll_run *run)
{
	const struct coll_scenario *s = run->scenario;
	struct rng rng;

	rng_seed(&rng, s->seed + 3);
	run->parts = calloc((size_t)run->ranks.size * s->count, sizeof(*run->parts));
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		uint64_t due = COLL_START_NS;

		for (unsigned i = 0; i < s->count; i++) {
			due += rng_below(&rng, s->skew_ns + 1);
			if (r == s->straggler && rng_chance(&rng, s->late_chance))
				due += rng_below(&rng, s->late_ns + 1);
			*coll_part_of(run, r, i) = (struct coll_part){ .run = run,
								       .plan = &s->plans[i],
								       .rank = r,
								       .number = i,
								       .due_ns = due };
		}
	}
}

static void close_run(struct coll_run *run)
{
	ranks_close(&run->ranks);
	for (uint32_t i = 0; i < run->ranks.size * run->scenario->count; i++) {
		free(run->parts[i].memory[0]);
		free(run->parts[i].memory[1]);
		free(run->parts[i].result);
		free(run->parts[i].previous);
	}
	free(run->parts);
}

static void run_scenario(struct coll_run *run)
{
	if (ranks_open(&run->ranks, &run->scenario->attr)) {
		FAIL(run, "the ranks cannot be opened");
		return;
	}
	make_network(run);
	make_parts(run);
	while (!run->failed && !over(run)) {
		uint64_t next, fault;

		deafen(run);
		next = post_due(run);
		drift(run);
		fault = strike(run);
		if (fault < next)
			next = fault;
		if (!ranks_step(&run->ranks, next < LIMIT_NS ? next : LIMIT_NS) &&
		    ranks_now(&run->ranks) >= LIMIT_NS)
			stuck(run);
	}
	if (!run->failed)
		run->test->check(run);
	if (run->scenario->victim < run->ranks.size)
		check_blame(run);
	if (!run->failed)
		check_pools(run);
	close_run(run);
}

static void no_log(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int coll_test_main(const struct coll_test *test, int argc, char **argv)
{
	uint64_t first = 1, last = 1000, faults = 0;
	char *rest;

	if (argc > 2 && !strcmp(argv[1], "--seeds")) {
		first = last = strtoull(argv[2], &rest, 10);
		if (*rest == '-')
			last = strtoull(rest + 1, &rest, 10);
		if (*rest || last < first)
			argc = 0;
	} else if (argc > 1) {
		argc = 0;
	}
	if (!argc) {
		fprintf(stderr, "usage: %s [--seeds A-B]\n", test->name);
		return 2;
	}
	gw_log_set(GW_LOG_ERROR, no_log, NULL);
	for (uint64_t seed = first; seed <= last; seed++) {
		struct coll_scenario scenario;
		struct coll_run run = { .test = test, .scenario = &scenario };

		test->draw(seed, &scenario);
		run_scenario(&run);
		faults += scenario.victim < scenario.attr.shape.hosts;
		if (run.failed) {
			fprintf(stderr, "seed %llu: %s\nreplay: %s --seeds %llu\n",
				(unsigned long long)seed, run.why, test->name,
				(unsigned long long)seed);
			return 1;
		}
	}
	return test->tell(last - first + 1, faults);
}
