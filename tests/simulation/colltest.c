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
#include "simulation/ranks.h"
#include "tools/coll/values.h"

#define US		UINT64_C(1000)
#define MS		UINT64_C(1000000)
#define SECOND		UINT64_C(1000000000)
#define OPERATIONS_MAX	8
#define MARGIN		64
#define MARGIN_BYTE	0xa5
#define PEER_TIMEOUT_NS (20 * SECOND)

/* One operation, the same on all ranks. */
struct plan {
	enum operation operation;
	struct gw_coll_attr attr;
	bool in_place;
};

struct scenario {
	uint64_t seed;
	struct ranks_attr attr;
	struct plan plans[OPERATIONS_MAX];
	unsigned count;
	/* time after which the ranks post the first operation, and each of the following ones, at most */
	uint64_t skew_ns;
	/* a rank that dies, or aborts; size: none */
	uint32_t victim;
	bool aborts;
	uint64_t fault_ns;
	/* a rank that has no multicast; one that loses all of it, both ways, from a time on; one whose way in loses 30 %; size: none */
	uint32_t without;
	uint32_t deaf;
	uint64_t deaf_ns;
	uint32_t lossy;
};

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
	const struct scenario *scenario;
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

/* ---- scenarios -------------------------------------------------------------------------------------------------- */

static uint64_t spread(struct rng *rng, uint64_t low, uint64_t high)
{
	uint64_t value = low;

	while (value < high && rng_below(rng, 3))
		value *= 2;
	return value < high ? value + rng_below(rng, value + 1) : high;
}

static void draw_path(struct rng *rng, struct scenario *s)
{
	struct link_attr *edge = &s->attr.shape.edge;

	edge->rate_bps = spread(rng, 50000000, UINT64_C(20000000000));
	edge->delay_ns = spread(rng, 500, 20 * MS);
	if (rng_below(rng, 3))
		edge->loss = (double)rng_below(rng, 1000) / (rng_below(rng, 4) ? 50000 : 5000);
	if (!rng_below(rng, 4)) {
		edge->burst_enter = 0.001;
		edge->burst_leave = 0.1;
		edge->burst_loss = 0.8;
		edge->burst_max_ns = 10 * MS;
	}
	if (!rng_below(rng, 3))
		edge->duplicate = 0.01;
	if (!rng_below(rng, 3)) {
		edge->reorder = 0.05;
		edge->reorder_ns = edge->delay_ns;
	}
	if (!rng_below(rng, 4))
		edge->jitter_ns = edge->delay_ns / 2;
	if (!rng_below(rng, 3))
		edge->queue_bytes = 200000 + rng_below(rng, 1000000);
}

static uint64_t draw_count(struct rng *rng, uint32_t size)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return size;
	case 3:
		return 40000 + rng_below(rng, 40000);
	default:
		return spread(rng, 2, 20000);
	}
}

static void draw_plan(struct rng *rng, const struct scenario *s, struct plan *plan)
{
	uint32_t size = s->attr.shape.hosts;
	bool blocks;

	plan->operation = (enum operation)rng_below(rng, OPERATION_COUNT);
	blocks = plan->operation == OPERATION_ALLGATHER ||
		 plan->operation == OPERATION_REDUCE_SCATTER ||
		 plan->operation == OPERATION_ALLTOALL;
	plan->attr.count = draw_count(rng, size);
	if (blocks)
		plan->attr.count = (plan->attr.count + size - 1) / size;
	plan->attr.type = (enum gw_type)rng_below(rng, GW_UINT64 + 1);
	plan->attr.reduction = (enum gw_reduction)rng_below(rng, GW_MAX + 1);
	plan->attr.root = (uint32_t)rng_below(rng, size);
	plan->in_place = !rng_below(rng, 3);
	do
		plan->attr.algorithm =
			(enum gw_algorithm)rng_below(rng, GW_ALGORITHM_MULTICAST + 1);
	while (plan->attr.algorithm && !algorithm_fits(plan->operation, plan->attr.algorithm) &&
	       (plan->attr.algorithm != GW_ALGORITHM_MULTICAST ||
		!multicast_fits(plan->operation)));
	if (s->attr.comm.flags & GW_COMM_FIXED_ORDER)
		plan->attr.algorithm = GW_ALGORITHM_AUTO;
}

/* What concerns multicast, last, so that it changes nothing of what else a seed draws. */
static void draw_multicast(struct rng *rng, struct scenario *s)
{
	uint32_t size = s->attr.shape.hosts;

	s->without = rng_below(rng, 16) ? size : (uint32_t)rng_below(rng, size);
	s->deaf = rng_below(rng, 6) ? size : (uint32_t)rng_below(rng, size);
	s->deaf_ns = SECOND + spread(rng, MS, 500 * MS);
	s->lossy = rng_below(rng, 8) ? size : (uint32_t)rng_below(rng, size);
	if (rng_below(rng, 3))
		return;
	/* Packets that come long after their operation. */
	if (!rng_below(rng, 3)) {
		s->attr.shape.edge.reorder = 0.01;
		s->attr.shape.edge.reorder_ns = 300 * MS;
	}
	for (unsigned i = 0; i < s->count; i++) {
		struct plan *plan = &s->plans[i];

		if (rng_below(rng, 3))
			plan->operation =
				rng_below(rng, 2) ? OPERATION_BROADCAST : OPERATION_ALLGATHER;
		if (!multicast_fits(plan->operation))
			continue;
		plan->attr.algorithm =
			rng_below(rng, 4) ? GW_ALGORITHM_MULTICAST : GW_ALGORITHM_AUTO;
		if (!rng_below(rng, 3))
			plan->attr.count = (50000 + rng_below(rng, 1000000)) /
					   gw_type_size(plan->attr.type) /
					   (plan->operation == OPERATION_ALLGATHER ? size : 1);
	}
}

static void draw(uint64_t seed, struct scenario *s)
{
	struct rng rng;
	uint32_t size;

	memset(s, 0, sizeof(*s));
	rng_seed(&rng, seed);
	s->seed = seed;
	size = (uint32_t)(rng_below(&rng, 8) ? 2 + rng_below(&rng, 4) : 2 + rng_below(&rng, 8));
	s->attr.seed = seed + 1;
	s->attr.sim = (struct sim_attr){ .seed = seed + 2,
					 .payload = rng_below(&rng, 2) ? 4096 : 1024,
					 .start_ns = SECOND };
	s->attr.shape.shape = size == 2 ? SIM_PAIR : SIM_STAR;
	s->attr.shape.hosts = size;
	draw_path(&rng, s);
	if (!rng_below(&rng, 4))
		s->attr.host = (struct sim_host_attr){ .nic = true,
						       .fence_ns = 20 * US,
						       .read_ns = 10 * US,
						       .completion_ns = 10 * US,
						       .lifetime_ns = MS };
	s->attr.context =
		(struct gw_context_attr){ .max_qps = 256, .max_sends = 4096, .max_recvs = 4096 };
	s->attr.comm.tracks = 1 + (uint32_t)rng_below(&rng, 4);
	s->attr.comm.peer_timeout_ns = PEER_TIMEOUT_NS;
	s->attr.comm.flags = rng_below(&rng, 4) ? 0 : GW_COMM_FIXED_ORDER;
	s->attr.comm.segment_bytes =
		rng_below(&rng, 2) ? 0 : 1000 + (uint32_t)rng_below(&rng, 30000);
	s->attr.mail_ns = spread(&rng, 10 * US, 50 * MS);
	s->skew_ns = spread(&rng, US, 100 * MS);
	s->count = 1 + (unsigned)rng_below(&rng, OPERATIONS_MAX);
	for (unsigned i = 0; i < s->count; i++)
		draw_plan(&rng, s, &s->plans[i]);
	s->victim = size;
	if (size > 1 && !rng_below(&rng, 4)) {
		s->victim = (uint32_t)rng_below(&rng, size);
		s->aborts = rng_below(&rng, 2);
		s->fault_ns = SECOND + spread(&rng, US, 200 * MS);
	}
	draw_multicast(&rng, s);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static const struct plan *plan_of(const struct part *part)
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
	const struct plan *plan = plan_of(part);
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
	const struct plan *plan = plan_of(part);
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
	const struct scenario *s = run->scenario;
	struct gw_comm *comm = s->deaf < run->ranks.size ? run->ranks.rank[s->deaf].comm : NULL;

	if (run->deafened || !comm || ranks_now(&run->ranks) < s->deaf_ns || !comm->multicast ||
	    comm->multicast->state != MULTICAST_WORKS)
		return;
	comm->multicast->token ^= 1;
	run->deafened = true;
}

static void strike(struct run *run)
{
	const struct scenario *s = run->scenario;

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
	const struct plan *plan = plan_of(part);
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
	const struct scenario *s = run->scenario;
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

static void run_scenario(const struct scenario *s, struct run *run)
{
	uint64_t limit = SECOND + 600 * SECOND;
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
		uint64_t due = SECOND;

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
		struct scenario scenario;
		struct run run;

		draw(seed, &scenario);
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
