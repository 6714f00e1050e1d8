/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reliability scheme of one's own, tried on a simulated network: how long does it take under loss, compared with
 * Selective Repeat? Built against the installed prefix:
 *
 *	cc simulated_scheme.c $(pkg-config --cflags --libs godwit-sim) -o simulated_scheme
 *
 * The scheme is a carousel. The sender puts the whole message, waits, and puts it again, until the receiver has every
 * packet. It needs no list of holes and no state at the sender, and it wastes the path.
 *
 * main() moves a message under each scheme and each probability of loss, over a path of 1 Gbit/s and 10 ms there and back,
 * with ten seeds, and prints the mean time. Time is virtual, and the figures are the same whenever the program runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/scheme.h>
#include <godwit/sim.h>

/* ---- the scheme ------------------------------------------------------------------------------------------------ */

static void put_all(struct gw_send *send)
{
	const struct gw_transfer *transfer = gw_send_state(send);
	int error = gw_stream_put(send, 0, transfer->addr, transfer->length, transfer->mr);

	if (error)
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
}

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	(void)arg, (void)capacity, (void)now;
	put_all(send);
}

/* Everything was sent. The patience of a queue pair is a round trip and some slack: time for the result to arrive. */
static void drained(struct gw_send *send, void *arg, uint64_t now)
{
	(void)arg;
	gw_send_timer(send, now + gw_qp_patience_ns(gw_send_qp(send)));
}

static void timer(struct gw_send *send, void *arg, uint64_t now)
{
	(void)arg, (void)now;
	put_all(send);
}

static void result(struct gw_send *send, void *arg, const struct gw_result *outcome, uint64_t now)
{
	(void)arg, (void)now;
	gw_transfer_finish_send(send, 0, outcome->missing);
}

static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct gw_recv_status status;

	(void)arg, (void)now;
	if (!gw_recv_status(recv, &status) && status.flags & GW_RECV_FULL)
		gw_transfer_finish_recv(recv, 0, 0);
}

static const struct gw_scheme carousel = {
	.name = "carousel",
	.id = 129, /* from 128 on numbers are a user's */
	.send = { .granted = granted,
		  .drained = drained,
		  .timer = timer,
		  .result = result,
		  .done = gw_transfer_sent },
	.recv = { .announced = look, .progress = look, .released = gw_transfer_received },
};

/* ---- one message on a simulated path ---------------------------------------------------------------------------- */

#define LENGTH	   (1u << 20)
#define SECOND	   UINT64_C(1000000000)
#define PATIENCE_S 60
#define SEEDS	   10

struct end {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_mr *mr;
	uint8_t *memory;
	struct gw_qp_info info;
	struct gw_transfer_result result;
	uint64_t done_ns;
};

struct run {
	struct gw_sim *sim;
	struct end tx;
	struct end rx;
};

static void check(int error, const char *what)
{
	if (error < 0) {
		fprintf(stderr, "simulated_scheme: %s: %s\n", what, strerror(-error));
		exit(1);
	}
}

static void done(void *arg, const struct gw_transfer_result *outcome, uint64_t now)
{
	struct end *end = arg;

	end->result = *outcome;
	end->done_ns = now;
}

static int both_done(void *arg)
{
	const struct run *run = arg;

	return run->tx.done_ns && run->rx.done_ns;
}

static void open_end(struct run *run, struct end *end, uint32_t host)
{
	struct gw_qp_attr qp = { 0 };

	end->memory = calloc(1, LENGTH);
	check(end->memory ? 0 : -ENOMEM, "memory");
	check(gw_sim_context_open(run->sim, host, NULL, &end->ctx), "opening a context");
	check(gw_mr_register(end->ctx, end->memory, LENGTH, &end->mr), "registering memory");
	check(gw_qp_create(end->ctx, &qp, &end->qp), "making a queue pair");
	check(gw_qp_info(end->qp, &end->info), "describing a queue pair");
}

/* Moves one message and returns when its receive was done; the hash says which run it was. */
static uint64_t move(const struct gw_scheme *scheme, const struct gw_sim_attr *path, uint64_t *hash)
{
	struct gw_transfer_attr attr = { .length = LENGTH, .done = done };
	struct run run = { 0 };
	struct gw_send *send;
	struct gw_recv *recv;

	check(gw_sim_create(path, &run.sim), "creating a world");
	open_end(&run, &run.tx, 0);
	open_end(&run, &run.rx, 1);
	for (uint32_t i = 0; i < LENGTH; i++)
		run.tx.memory[i] = (uint8_t)(i * 7 + i / 4096);
	check(gw_qp_connect(run.tx.qp, &run.rx.info), "connecting");
	check(gw_qp_connect(run.rx.qp, &run.tx.info), "connecting");
	attr.addr = run.rx.memory;
	attr.mr = run.rx.mr;
	attr.arg = &run.rx;
	check(gw_transfer_recv(run.rx.qp, scheme, &attr, &recv), "posting the receive");
	attr.addr = run.tx.memory;
	attr.mr = run.tx.mr;
	attr.arg = &run.tx;
	check(gw_transfer_send(run.tx.qp, scheme, &attr, &send), "posting the send");

	if (gw_sim_run(run.sim, PATIENCE_S * SECOND, both_done, &run) != 1)
		check(-ETIMEDOUT, scheme->name);
	check(run.tx.result.status, "the send");
	check(run.rx.result.status, "the receive");
	check(memcmp(run.tx.memory, run.rx.memory, LENGTH) ? -EBADMSG : 0, "what arrived");
	*hash = gw_sim_hash(run.sim);
	check(gw_sim_destroy(run.sim), "destroying the world"); /* closes the contexts, too */
	free(run.tx.memory);
	free(run.rx.memory);
	return run.rx.done_ns;
}

static double mean_ms(const struct gw_scheme *scheme, double loss)
{
	struct gw_sim_attr path = { .rate_bps = SECOND, .delay_ns = 5000000, .loss = loss };
	double sum_ns = 0;
	uint64_t hash;

	for (path.seed = 1; path.seed <= SEEDS; path.seed++)
		sum_ns += (double)move(scheme, &path, &hash);
	return sum_ns / SEEDS / 1e6;
}

int main(void)
{
	static const double losses[] = { 0, 0.001, 0.01, 0.05 };
	struct gw_sim_attr path = { .loss = 0.05, .seed = 1 };
	uint64_t first, second, other;

	printf("loss     %s  %s\n", gw_selective_repeat.name, carousel.name);
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		printf("%-5g %16.3f ms %9.3f ms\n", losses[i],
		       mean_ms(&gw_selective_repeat, losses[i]), mean_ms(&carousel, losses[i]));

	/* The same seed is the same run; another seed is another. */
	move(&carousel, &path, &first);
	move(&carousel, &path, &second);
	check(first == second ? 0 : -EBADMSG, "the same seed once more");
	path.seed = 2;
	move(&carousel, &path, &other);
	check(first != other ? 0 : -EBADMSG, "another seed");
	return 0;
}
