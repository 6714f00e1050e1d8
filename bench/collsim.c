/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collsim: how long collectives take on a simulated network, in virtual time, beside the least that they could take.
 *
 *	collsim [--apart] RANKS RTT RATE LOSS OPERATION [[OTHER:]SIZE,...]SIZE [ALGORITHM [COUNT [SEGMENT [CONTROLLER [QUEUE [LATE [PAYLOAD]]]]]]]
 *
 * Prints one JSON object: the time of each of COUNT operations of the last size, one after the other, and the floor: the bytes that
 * a rank must send, over the rate, and two propagation delays (one for an allgather). Ranks begin each operation together, or, with
 * --apart, each when its own part of the one before has ended, as most programs do: then an operation's time is that from the end of the one
 * before, by the slowest rank. COUNT operations of each size before the last,
 * of OPERATION or of another, come first, and are not timed. A link's QUEUE has a bandwidth-delay product and 500 KB unless told.
 * Processes are woken up to LATE too late, and PAYLOAD is the most that a packet carries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/units.h"
#include "simulation/ranks.h"
#include "tools/coll/values.h"

#define COUNT_MOST  200
#define LIMIT_NS    UINT64_C(600000000000)
#define STAGES_MOST 32

static const char *const operations[] = { "barrier",	    "broadcast", "allgather",
					  "reduce_scatter", "allreduce", "alltoall" };
static const char *const algorithms[] = {
	"auto", "ring", "doubling", "tree", "direct", "multicast"
};

static int find(const char *const *words, unsigned count, const char *word)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(words[i], word))
			return (int)i;
	fprintf(stderr, "collsim: what is \"%s\"?\n", word);
	exit(2);
}

static bool apart;

/* Operations of a rank in a stage. */
struct turns {
	uint64_t begun;
	uint64_t ended;
};

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct turns *turns = arg;

	if (result->status) {
		fprintf(stderr, "collsim: %s\n", strerror(-result->status));
		exit(1);
	}
	turns->ended++;
	gw_coll_close(coll);
}

/* Operations of one kind and size. */
struct stage {
	enum coll_operation operation;
	/* in the larger one of the two buffers */
	uint64_t bytes;
};

/* Reads sizes between commas, and other operations before them. Returns how many; 0: not sizes. */
static int read_stages(char *text, enum coll_operation operation, struct stage *stages)
{
	int count = 0;

	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		struct stage *stage = &stages[count];
		char *size = strchr(word, ':');

		if (count++ == STAGES_MOST)
			return 0;
		stage->operation = operation;
		if (size) {
			*size++ = 0;
			stage->operation = (enum coll_operation)find(operations, 6, word);
		}
		if (units_size_bytes(size ? size : word, &stage->bytes))
			return 0;
	}
	return count;
}

/* Elements of 4 bytes that the operation is told. */
static uint64_t count_of(const struct stage *stage, uint32_t ranks)
{
	uint64_t sent = value_send_count(stage->operation, 1, ranks);
	uint64_t received = value_recv_count(stage->operation, 1, ranks);
	uint64_t widest = sent > received ? sent : received;

	return widest ? stage->bytes / 4 / widest : 0;
}

static void begin(struct ranks *ranks, uint32_t rank, const struct stage *stage,
		  const struct gw_coll_attr *attr)
{
	static int (*const calls[])(struct gw_comm *, const struct gw_coll_attr *,
				    struct gw_coll **) = {
		gw_barrier,	   gw_broadcast, gw_allgather,
		gw_reduce_scatter, gw_allreduce, gw_alltoall,
	};
	struct gw_coll *coll;

	if (calls[stage->operation](ranks->rank[rank].comm, attr, &coll)) {
		fprintf(stderr, "collsim: the operation is refused\n");
		exit(1);
	}
	ranks_touch(ranks, rank);
}

/* Does `count` operations. times_ns[i]: from the end of the operation before to that of operation i, on the slowest rank. */
static void run_stage(struct ranks *ranks, const struct stage *stage,
		      const struct gw_coll_attr *attr, uint8_t **send, uint8_t **recv,
		      uint64_t count, uint64_t *times_ns)
{
	struct turns *turns = calloc(ranks->size, sizeof(*turns));
	/* operations that have ended on all ranks, and when the last of them did */
	uint64_t over = 0, last = ranks_now(ranks);

	while (over < count) {
		uint64_t least = count;

		for (uint32_t r = 0; r < ranks->size; r++) {
			struct gw_coll_attr own = *attr;

			if (turns[r].begun == count ||
			    turns[r].begun != (apart ? turns[r].ended : over))
				continue;
			own.count = count_of(stage, ranks->size);
			own.send = send[r];
			own.recv = recv[r];
			own.done = done;
			own.arg = &turns[r];
			turns[r].begun++;
			begin(ranks, r, stage, &own);
		}
		if (!ranks_step(ranks, last + LIMIT_NS) && ranks_now(ranks) >= last + LIMIT_NS) {
			fprintf(stderr, "collsim: does not end\n");
			exit(1);
		}
		for (uint32_t r = 0; r < ranks->size; r++)
			least = turns[r].ended < least ? turns[r].ended : least;
		for (; over < least; over++) {
			times_ns[over] = ranks_now(ranks) - last;
			last = ranks_now(ranks);
		}
	}
	free(turns);
}

int main(int argc, char **argv)
{
	uint64_t size, rtt, rate, bytes = 0, count = 20, segment = 0, queue = 0, wake = 0,
				  payload = 0, times_ns[COUNT_MOST];
	struct stage stages[STAGES_MOST];
	/* stages before the last */
	int before = 0;
	double loss, floor_ns, sent;
	struct ranks_attr attr = {
		.sim = { .seed = 1, .payload = 4096, .start_ns = 1000000000 },
		.context = { .max_qps = 4096, .max_sends = 8192, .max_recvs = 8192 }
	};
	struct gw_coll_attr coll = { .type = GW_FLOAT32 };
	enum coll_operation operation = COLL_BARRIER;
	struct ranks ranks;
	uint8_t **send, **recv;

	if (argc > 1 && !strcmp(argv[1], "--apart")) {
		apart = true;
		argc--;
		argv++;
	}
	if (argc > 6) {
		operation = (enum coll_operation)find(operations, 6, argv[5]);
		before = read_stages(argv[6], operation, stages) - 1;
	}
	if (argc < 7 || argc > 14 || before < 0 || units_count(argv[1], 2, 2048, &size) ||
	    units_time_ns(argv[2], &rtt) || units_rate_bps(argv[3], &rate) ||
	    units_share(argv[4], &loss) ||
	    (argc > 8 && units_count(argv[8], 1, COUNT_MOST, &count)) ||
	    (argc > 9 && units_read(UNITS_SIZE, argv[9], 0, UINT32_MAX, &segment)) ||
	    (argc > 11 && units_size_bytes(argv[11], &queue)) ||
	    (argc > 12 && units_time_ns(argv[12], &wake)) ||
	    (argc > 13 && units_size_bytes(argv[13], &payload))) {
		fprintf(stderr,
			"usage: collsim [--apart] RANKS RTT RATE LOSS OPERATION [[OTHER:]SIZE,...]SIZE [ALGORITHM [COUNT [SEGMENT [CONTROLLER [QUEUE [LATE [PAYLOAD]]]]]]]\n");
		return 2;
	}
	if (argc > 7)
		coll.algorithm = (enum gw_algorithm)find(algorithms, 6, argv[7]);
	attr.shape.shape = size == 2 ? SIM_PAIR : SIM_STAR;
	attr.shape.hosts = (uint32_t)size;
	if (!queue)
		queue = rate / 8 * rtt / 1000000000 + 500000;
	/* A star has two links between any two hosts. */
	attr.shape.edge = (struct link_attr){ .rate_bps = rate,
					      .delay_ns = size == 2 ? rtt / 2 : rtt / 4,
					      .loss = size == 2 ? loss : loss / 2,
					      .queue_bytes = queue };
	attr.mail_ns = attr.rtt_ns = rtt;
	attr.comm.flags = GW_COMM_SERVED;
	attr.comm.segment_bytes = (uint32_t)segment;
	attr.comm.congestion = argc > 10 ? argv[10] : "default";
	if (payload)
		attr.sim.payload = (uint32_t)payload;
	if (ranks_open(&ranks, &attr))
		return 1;
	ranks.world.wake_ns = wake;
	for (int i = 0; i <= before; i++)
		bytes = stages[i].bytes > bytes ? stages[i].bytes : bytes;
	send = calloc(size, sizeof(*send));
	recv = calloc(size, sizeof(*recv));
	for (uint32_t r = 0; r < size; r++) {
		send[r] = calloc(1, bytes + 64);
		recv[r] = calloc(1, bytes + 64);
	}
	for (int i = 0; i < before; i++)
		run_stage(&ranks, &stages[i], &coll, send, recv, count, times_ns);
	bytes = stages[before].bytes;
	sent = (double)bytes * (double)(size - 1) / (double)size;
	sent *= operation == COLL_ALLREDUCE ? 2 : 1;
	floor_ns =
		sent * 8e9 / (double)rate + (double)rtt / 2 * (operation == COLL_ALLREDUCE ? 2 : 1);
	if (operation == COLL_BROADCAST)
		floor_ns = (double)bytes * 8e9 / (double)rate + (double)rtt / 2;
	printf("{\"ranks\": %llu, \"rtt_ms\": %g, \"rate_mbit\": %g, \"loss\": %g, \"operation\": \"%s\", \"bytes\": %llu, "
	       "\"algorithm\": \"%s\", \"floor_ms\": %.4f, \"times_ms\": [",
	       (unsigned long long)size, (double)rtt / 1e6, (double)rate / 1e6, loss, argv[5],
	       (unsigned long long)bytes, argc > 7 ? argv[7] : "auto", floor_ns / 1e6);
	run_stage(&ranks, &stages[before], &coll, send, recv, count, times_ns);
	for (uint64_t i = 0; i < count; i++)
		printf("%s%.4f", i ? ", " : "", (double)times_ns[i] / 1e6);
	printf("]}\n");
	ranks_close(&ranks);
	return 0;
}
