/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * colltest: collectives on simulated networks, one scenario a seed: ranks, path, loss, operations in flight, types, algorithms, a
 * rank that dies or aborts. Every operation must end; one that ends with 0 must have the result of a sequential reference,
 * and nothing outside of its buffer may change. It stops at the first violation, with the command that replays it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/multicast.h"
#include "message/state.h"
#include "simulation/coll_scenario.h"
#include "simulation/ranks.h"
#include "tools/coll/values.h"

#define SECOND	    UINT64_C(1000000000)
#define MARGIN	    64
#define MARGIN_BYTE 0xa5

/* An operation of one rank. */
struct part {
	struct run *run;
	uint32_t rank;
	unsigned number;
	uint64_t due_ns;
	bool posted;
	unsigned ended;
	int status;
	uint8_t *send_memory, *recv_memory;
	uint8_t *send, *recv;
	size_t send_bytes, recv_bytes;
	/* of the received bytes, when it ended */
	uint64_t digest;
};

struct run {
	const struct coll_scenario *scenario;
	struct ranks ranks;
	struct part *parts;
	bool failed;
	bool deafened;
	char why[512];
};

#define FAIL(run, ...)                                                                             \
	do {                                                                                       \
		if (!(run)->failed)                                                                \
			snprintf((run)->why, sizeof((run)->why), __VA_ARGS__);                     \
		(run)->failed = true;                                                              \
	} while (0)

/* ---- running ---------------------------------------------------------------------------------------------------- */

static const struct coll_plan *plan_of(const struct part *part)
{
	return &part->run->scenario->plans[part->number];
}

static uint8_t *memory(size_t bytes, uint8_t **start)
{
	uint8_t *all = malloc(bytes + (size_t)2 * MARGIN);

	memset(all, MARGIN_BYTE, bytes + (size_t)2 * MARGIN);
	*start = all + MARGIN;
	return all;
}

static uint64_t digest(const uint8_t *bytes, size_t length)
{
	uint64_t hash = 1469598103934665603u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	return hash;
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct part *part = arg;

	part->ended++;
	part->status = result->status;
	part->digest = digest(part->recv, part->recv_bytes);
	gw_coll_close(coll);
}

/* Buffers as the operation wants them; in place, the smaller lies in the larger. */
static void make_buffers(struct part *part)
{
	const struct coll_plan *plan = plan_of(part);
	enum coll_operation operation = (enum coll_operation)plan->operation;
	uint32_t size = part->run->ranks.size;
	size_t block = plan->attr.count * gw_type_size(plan->attr.type);
	size_t unit = gw_type_size(plan->attr.type);

	part->send_bytes = value_send_count(operation, plan->attr.count, size) * unit;
	part->recv_bytes = value_recv_count(operation, plan->attr.count, size) * unit;
	part->send_memory = memory(part->send_bytes, &part->send);
	part->recv_memory = memory(part->recv_bytes, &part->recv);
	if (plan->in_place && plan->operation == OPERATION_ALLGATHER)
		part->send = part->recv + part->rank * block;
	else if (plan->in_place && plan->operation == OPERATION_REDUCE_SCATTER)
		part->recv = part->send + part->rank * block;
	else if (plan->in_place)
		part->recv = part->send;
	for (size_t i = 0; i < part->send_bytes / gw_type_size(plan->attr.type); i++)
		value_put(plan->attr.type, part->send, i, value_given(part->rank, i));
}

static void post(struct part *part)
{
	static int (*const calls[])(struct gw_comm *, const struct gw_coll_attr *,
				    struct gw_coll **) = {
		gw_barrier,	   gw_broadcast, gw_allgather,
		gw_reduce_scatter, gw_allreduce, gw_alltoall,
	};
	const struct coll_plan *plan = plan_of(part);
	struct gw_coll_attr attr = plan->attr;
	struct gw_comm *comm = part->run->ranks.rank[part->rank].comm;
	struct gw_coll *coll;
	int error;

	part->posted = true;
	make_buffers(part);
	attr.send = part->send;
	attr.recv = part->recv;
	attr.done = done;
	attr.arg = part;
	error = calls[plan->operation](comm, &attr, &coll);
	if (error && error == gw_comm_status(comm)) {
		part->ended = 1;
		part->status = error;
		part->digest = digest(part->recv, part->recv_bytes);
	} else if (error) {
		FAIL(part->run, "rank %u cannot post operation %u: %s", part->rank, part->number,
		     strerror(-error));
	}
	ranks_touch(&part->run->ranks, part->rank);
}

static bool over(struct run *run)
{
	for (uint32_t i = 0; i < run->ranks.size * run->scenario->count; i++)
		if (!run->parts[i].ended && !run->ranks.rank[run->parts[i].rank].dead)
			return false;
	return true;
}

/* Posts what is due; returns when the next is. */
static uint64_t post_due(struct run *run)
{
	uint64_t next = UINT64_MAX, now = ranks_now(&run->ranks);

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (run->ranks.rank[r].dead)
			continue;
		for (unsigned i = 0; i < run->scenario->count; i++) {
			struct part *part = &run->parts[r * run->scenario->count + i];

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

/* A token that no other rank has makes a rank deaf, and unheard. */
static void deafen(struct run *run)
{
	const struct coll_scenario *s = run->scenario;
	struct gw_comm *comm = s->deaf < run->ranks.size ? run->ranks.rank[s->deaf].comm : NULL;

	if (run->deafened || !comm || ranks_now(&run->ranks) < s->deaf_ns || !comm->multicast ||
	    comm->multicast->state != MULTICAST_WORKS)
		return;
	comm->multicast->token ^= 1;
	run->deafened = true;
}

static void strike(struct run *run)
{
	const struct coll_scenario *s = run->scenario;

	if (s->aborts)
		gw_comm_abort(run->ranks.rank[s->victim].comm, "enough");
	else
		ranks_kill(&run->ranks, s->victim);
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

static bool margins_right(const uint8_t *all, size_t bytes)
{
	for (size_t i = 0; i < MARGIN; i++)
		if (all[i] != MARGIN_BYTE || all[MARGIN + bytes + i] != MARGIN_BYTE)
			return false;
	return true;
}

static void check_part(struct run *run, struct part *part)
{
	const struct coll_plan *plan = plan_of(part);
	const struct value_question question = { .operation = (enum coll_operation)plan->operation,
						 .reduction = plan->attr.reduction,
						 .type = plan->attr.type,
						 .rank = part->rank,
						 .size = run->ranks.size,
						 .root = plan->attr.root,
						 .count = plan->attr.count };

	if (!part->posted)
		return;
	if (!margins_right(part->send_memory, part->send_bytes) ||
	    !margins_right(part->recv_memory, part->recv_bytes))
		FAIL(run, "operation %u of rank %u wrote outside of its buffer", part->number,
		     part->rank);
	if (run->ranks.rank[part->rank].dead)
		return;
	if (part->ended > 1)
		FAIL(run, "operation %u of rank %u ended %u times", part->number, part->rank,
		     part->ended);
	if (digest(part->recv, part->recv_bytes) != part->digest)
		FAIL(run, "operation %u of rank %u changed after its end", part->number,
		     part->rank);
	if (part->status && run->scenario->victim == run->ranks.size)
		FAIL(run, "operation %u of rank %u ended with %s and nothing was wrong: %s",
		     part->number, part->rank, strerror(-part->status),
		     run->ranks.rank[part->rank].comm->error);
	if (part->status)
		return;
	for (size_t i = 0; i < part->recv_bytes / gw_type_size(plan->attr.type); i++)
		if (!value_right(&question, part->recv, i))
			FAIL(run, "operation %u (%s) of rank %u: element %zu is wrong",
			     part->number, operation_name(plan->operation), part->rank, i);
}

/* Whoever failed says who is to blame. */
static void check_blame(struct run *run)
{
	const struct coll_scenario *s = run->scenario;
	char name[32];

	snprintf(name, sizeof(name), "rank %u", s->victim);
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct gw_comm *comm = run->ranks.rank[r].comm;

		if (comm && comm->status && !strstr(comm->error, name))
			FAIL(run, "rank %u does not blame %s: %s", r, name, comm->error);
	}
}

/* A NIC takes its time to close its windows. */
static void check_pools(struct run *run)
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

/* What was multicast, over all scenarios and ranks. */
static struct {
	uint64_t works, missing, ended, rounds, data, parity, dropped, fetched, given_up;
} sights;

static void look_at_multicast(struct run *run)
{
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct gw_comm *comm = run->ranks.rank[r].comm;
		const struct multicast_group *group = comm ? comm->multicast : NULL;

		if (!group)
			continue;
		sights.works += group->state == MULTICAST_WORKS;
		sights.missing += group->state == MULTICAST_MISSING;
		sights.ended += group->ended;
		sights.rounds += group->rounds;
		sights.data += group->sent_data;
		sights.parity += group->sent_parity;
		sights.dropped += group->dropped;
		sights.fetched += group->fetched;
		sights.given_up += group->given_up;
	}
}

/* Says what the first rank with an open operation waits for. */
static void stuck(struct run *run)
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

static void run_scenario(const struct coll_scenario *s, struct run *run)
{
	uint64_t limit = COLL_START_NS + 600 * SECOND;
	struct rng rng;

	*run = (struct run){ .scenario = s };
	if (ranks_open(&run->ranks, &s->attr)) {
		FAIL(run, "the ranks cannot be opened");
		return;
	}
	rng_seed(&rng, s->seed + 3);
	if (s->without < run->ranks.size)
		sim_host(run->ranks.world.sim, s->without)->caps.max_group = 0;
	if (s->lossy < run->ranks.size)
		sim_link(run->ranks.world.sim, run->ranks.size == 2 ? !s->lossy : 2 * s->lossy + 1)
			->attr.loss = 0.3;
	run->parts = calloc((size_t)run->ranks.size * s->count, sizeof(*run->parts));
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		uint64_t due = COLL_START_NS;

		for (unsigned i = 0; i < s->count; i++) {
			due += rng_below(&rng, s->skew_ns + 1);
			run->parts[r * s->count + i] =
				(struct part){ .run = run, .rank = r, .number = i, .due_ns = due };
		}
	}
	while (!run->failed && !over(run)) {
		deafen(run);
		uint64_t next = post_due(run);
		bool struck = s->victim == run->ranks.size || run->ranks.rank[s->victim].dead ||
			      run->ranks.rank[s->victim].comm->status;

		if (!struck && ranks_now(&run->ranks) >= s->fault_ns)
			strike(run);
		else if (!struck && s->fault_ns < next)
			next = s->fault_ns;
		if (!ranks_step(&run->ranks, next < limit ? next : limit) &&
		    ranks_now(&run->ranks) >= limit)
			stuck(run);
	}
	for (uint32_t i = 0; !run->failed && i < run->ranks.size * s->count; i++)
		check_part(run, &run->parts[i]);
	if (s->victim < run->ranks.size)
		check_blame(run);
	look_at_multicast(run);
	if (!run->failed)
		check_pools(run);
	ranks_close(&run->ranks);
	for (uint32_t i = 0; i < run->ranks.size * s->count; i++) {
		free(run->parts[i].send_memory);
		free(run->parts[i].recv_memory);
	}
	free(run->parts);
}

static void no_log(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(int argc, char **argv)
{
	uint64_t first = 1, last = 1000, faults = 0;
	char *end;

	if (argc > 2 && !strcmp(argv[1], "--seeds")) {
		first = last = strtoull(argv[2], &end, 10);
		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
		if (*end || last < first)
			argc = 0;
	} else if (argc > 1) {
		argc = 0;
	}
	if (!argc) {
		fputs("usage: colltest [--seeds A-B]\n", stderr);
		return 2;
	}
	gw_log_set(GW_LOG_ERROR, no_log, NULL);
	for (uint64_t seed = first; seed <= last; seed++) {
		struct coll_scenario scenario;
		struct run run;

		coll_scenario_draw(seed, &scenario);
		run_scenario(&scenario, &run);
		faults += scenario.victim < scenario.attr.shape.hosts;
		if (run.failed) {
			fprintf(stderr, "seed %llu: %s\nreplay: colltest --seeds %llu\n",
				(unsigned long long)seed, run.why, (unsigned long long)seed);
			return 1;
		}
	}
	printf("%llu scenarios, %llu with a rank that died or aborted\n",
	       (unsigned long long)(last - first + 1), (unsigned long long)faults);
	printf("multicast: works at %llu ranks, not at %llu; %llu operations in %llu rounds, %llu data and %llu parity packets, "
	       "%llu dropped, %llu groups fetched, %llu given up\n",
	       (unsigned long long)sights.works, (unsigned long long)sights.missing,
	       (unsigned long long)sights.ended, (unsigned long long)sights.rounds,
	       (unsigned long long)sights.data, (unsigned long long)sights.parity,
	       (unsigned long long)sights.dropped, (unsigned long long)sights.fetched,
	       (unsigned long long)sights.given_up);
	return 0;
}
