/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr_write_bw: how fast one-shot sends arrive, in the manner of ib_write_bw, written to <sdr.h> and <sdr_mr.h>. The two
 * ends meet through <godwit/rendezvous.h> (session.c). Without options it measures what the benchmark published with
 * SDR-RDMA does: messages of 8 MiB, 128 of them in flight, chunks of 64 KiB, 8 channels.
 *
 *	cc session.c sdr_write_bw.c $(pkg-config --cflags --libs godwit-sdr godwit) -o sdr_write_bw
 *	sdr_write_bw			on one host: waits for one caller
 *	sdr_write_bw [OPTION...] HOST	on the other: says what to measure, and sends
 *
 * Each queue pair has a window of receives posted. The receiver watches their bitmaps, looks at the data of every chunk
 * that arrived, completes the oldest and posts it again. Nothing is repaired: a receive that stands still for too long
 * is completed as it is, and the chunks it lacks are counted.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sdr.h>
#include <sdr_mr.h>

#include "session.h"

enum { INFO_MAX = 1024 };
/* A program that looks at a bitmap alone does not learn that its peer is gone, so it asks after this time without a change. */
#define ASK_S 0.1

struct end {
	struct session session;
	struct sdr_context *ctx;
	struct sdr_mr *mr;
	uint32_t lkey;
	uint32_t size_max;
	/* size_max bytes for each receive, or send, of each queue pair */
	uint8_t *memory;
	struct sdr_qp *qp[QPS_MAX];
};

/* ---- time ----------------------------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Sleeps when nothing came: polling without a pause would take the processor from the threads that bring it. */
static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 10000 }, NULL);
}

/* ---- opening -------------------------------------------------------------------------------------------------- */

static uint32_t log_of(uint64_t value)
{
	uint32_t log = 0;

	while (UINT64_C(1) << log < value)
		log++;
	return log;
}

static void open_end(struct end *end)
{
	const struct plan *plan = &end->session.plan;
	struct sdr_dev_attr dev_attr = { plan->channels, log_of(plan->qps) };
	struct sdr_qp_attr qp_attr = { .bitmap_chunk_size_log_bytes = plan->chunk_log,
				       .max_log_num_msgs = log_of(plan->window),
				       .mtu = (enum sdr_mtu)plan->mtu,
				       .send_enable = 1,
				       .recv_enable = 1 };
	uint8_t info[INFO_MAX];
	size_t size;

	for (uint32_t i = 0; i < plan->sizes; i++)
		end->size_max = plan->size[i] > end->size_max ? plan->size[i] : end->size_max;
	qp_attr.max_in_flight_log_bytes = log_of((uint64_t)end->size_max * plan->window);
	size = (size_t)end->size_max * plan->window * plan->qps;
	end->memory = malloc(size);
	end->ctx = sdr_context_create(end->session.device, &dev_attr);
	if (!end->memory || !end->ctx)
		die("cannot open the device");
	end->mr = sdr_mr_reg(end->ctx, end->memory, size, SDR_ACCESS_REMOTE_WRITE);
	if (!end->mr || sdr_mr_lkey_get(end->mr, &end->lkey))
		die("cannot register memory");
	for (uint32_t i = 0; i < plan->qps; i++) {
		end->qp[i] = sdr_qp_create(end->ctx, &qp_attr);
		if (!end->qp[i] || sdr_qp_info_size_get(end->qp[i], &size) || size > INFO_MAX ||
		    sdr_qp_info_get(end->qp[i], info))
			die("cannot make a queue pair");
		tell(&end->session, info, size);
	}
	for (uint32_t i = 0; i < plan->qps; i++) {
		hear(&end->session, info, size);
		if (sdr_qp_connect(end->qp[i], info))
			die("cannot connect a queue pair");
	}
}

static void close_end(struct end *end)
{
	for (uint32_t i = 0; i < end->session.plan.qps; i++)
		sdr_qp_destroy(end->qp[i]);
	sdr_mr_dereg(end->mr);
	sdr_context_destroy(end->ctx);
	free(end->memory);
}

static uint8_t *place(const struct end *end, uint32_t qp, uint32_t message)
{
	uint32_t index = qp * end->session.plan.window + message % end->session.plan.window;

	return end->memory + (size_t)index * end->size_max;
}

/* ---- data that tells where it belongs ------------------------------------------------------------------------- */

static uint64_t word_of(uint32_t qp, uint32_t message, uint32_t index)
{
	uint64_t word = ((uint64_t)qp << 52 ^ (uint64_t)message << 32 ^ index) + 1;

	return word * UINT64_C(0x9e3779b97f4a7c15);
}

/* Bytes [from, to), `from` on a word: written, or compared. Returns whether they are right. */
static int pattern(uint8_t *bytes, uint32_t from, uint32_t to, uint32_t qp, uint32_t message,
		   int write)
{
	for (; from < to; from += 8) {
		uint64_t word = word_of(qp, message, from / 8);
		size_t length = to - from < 8 ? to - from : 8;

		if (write)
			memcpy(bytes + from, &word, length);
		else if (memcmp(bytes + from, &word, length) != 0)
			return 0;
	}
	return 1;
}

/* ---- receiving ------------------------------------------------------------------------------------------------ */

struct open_recv {
	struct sdr_recv_handle *handle;
	uint8_t *bitmap;
	size_t chunks;
};

struct lane {
	struct open_recv recv[WINDOW_MAX];
	uint32_t posted, completed;
	/* chunks of the oldest receive that have arrived */
	size_t seen;
	/* when one of them was added or the receive became the oldest, and when the library was last asked, in seconds */
	double changed_at, asked_at;
};

/* Gets the bitmap, which stays where it is until the receive is completed. */
static void ask(struct open_recv *recv)
{
	if (sdr_recv_bitmap_get(recv->handle, &recv->bitmap, &recv->chunks))
		die("the sender is gone");
}

static void post_recv(struct end *end, struct lane *lane, uint32_t qp, uint32_t size)
{
	struct sdr_recv_wr wr = { size, end->lkey, (uintptr_t)place(end, qp, lane->posted) };
	struct open_recv *recv = &lane->recv[lane->posted % end->session.plan.window];

	if (sdr_recv_post(end->qp[qp], &wr, &recv->handle))
		die("cannot post a receive");
	ask(recv);
	lane->posted++;
}

/* Looks at what arrived of a message that is over. */
static void judge(struct end *end, uint32_t qp, uint32_t message, uint32_t size,
		  const struct open_recv *recv, struct result *result)
{
	uint64_t chunk_size = UINT64_C(1) << end->session.plan.chunk_log;

	for (uint32_t i = 0; i < recv->chunks; i++) {
		uint64_t from = i * chunk_size;
		uint64_t to = size - from < chunk_size ? size : from + chunk_size;

		if (!recv->bitmap[i])
			result->missing_chunks++;
		else if (end->session.plan.check &&
			 !pattern(place(end, qp, message), (uint32_t)from, (uint32_t)to, qp,
				  message, 0))
			result->wrong_chunks++;
	}
}

/* Whether the oldest receive of a queue pair has all chunks, or has waited too long for them. */
static int is_over(const struct plan *plan, struct lane *lane, struct open_recv *recv)
{
	size_t seen = 0;
	double time;

	if (plan->poll == POLL_CALL)
		ask(recv);
	for (size_t i = 0; i < recv->chunks; i++)
		seen += __atomic_load_n(&recv->bitmap[i], __ATOMIC_ACQUIRE);
	if (seen == recv->chunks)
		return 1;
	time = now();
	if (seen != lane->seen)
		lane->changed_at = time;
	lane->seen = seen;
	if (time - lane->asked_at > ASK_S) {
		ask(recv);
		lane->asked_at = time;
	}
	return time - lane->changed_at >= 1e-3 * plan->patience_ms;
}

/* Completes the oldest receive of a queue pair if it is over, and posts it again. Returns whether it was. */
static int turn(struct end *end, struct lane *lane, uint32_t qp, uint32_t size,
		struct result *result)
{
	const struct plan *plan = &end->session.plan;
	struct open_recv *recv = &lane->recv[lane->completed % plan->window];
	uint32_t imm;

	if (!is_over(plan, lane, recv))
		return 0;
	if (sdr_recv_imm_get(recv->handle, &imm) == SDR_SUCCESS && imm != lane->completed)
		die("a message landed in another one's place");
	judge(end, qp, lane->completed, size, recv, result);
	if (sdr_recv_complete(recv->handle))
		die("cannot complete a receive");
	result->messages++;
	lane->completed++;
	lane->seen = 0;
	lane->changed_at = now();
	if (lane->posted < plan->messages)
		post_recv(end, lane, qp, size);
	return 1;
}

static struct result receive(struct end *end, uint32_t size)
{
	const struct plan *plan = &end->session.plan;
	struct lane *lanes = calloc(plan->qps, sizeof(*lanes));
	struct result result = { 0 };
	double start = 0;
	char done[2];

	if (!lanes)
		die("no memory");
	for (uint32_t qp = 0; qp < plan->qps; qp++)
		while (lanes[qp].posted < plan->window && lanes[qp].posted < plan->messages)
			post_recv(end, &lanes[qp], qp, size);
	tell(&end->session, "go", 2);
	start = now();
	for (uint32_t qp = 0; qp < plan->qps; qp++)
		lanes[qp].changed_at = start;
	while (result.messages < plan->qps * plan->messages) {
		int busy = 0;

		for (uint32_t qp = 0; qp < plan->qps; qp++)
			while (lanes[qp].completed < plan->messages &&
			       turn(end, &lanes[qp], qp, size, &result))
				busy = 1;
		if (!busy && plan->poll == POLL_NAP)
			nap();
	}
	result.microseconds = (uint32_t)(1e6 * (now() - start)) + 1;
	free(lanes);
	/* The sender may not know yet how its last messages ended: it must not find this end gone. */
	hear(&end->session, done, sizeof(done));
	return result;
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

static void send_all(struct end *end, uint32_t size)
{
	const struct plan *plan = &end->session.plan;
	static struct sdr_send_handle *open[QPS_MAX][WINDOW_MAX];
	uint32_t posted[QPS_MAX] = { 0 }, done[QPS_MAX] = { 0 }, left = plan->qps * plan->messages;
	char go[2];

	hear(&end->session, go, sizeof(go));
	while (left) {
		uint32_t before = left;

		for (uint32_t qp = 0; qp < plan->qps; qp++) {
			uint32_t slot = done[qp] % plan->window;
			struct sdr_send_wr wr = {
				SDR_WR_WRITE_WITH_IMM, posted[qp], size, end->lkey, 0, 0
			};
			int completed = 0;

			if (done[qp] < posted[qp] &&
			    sdr_send_poll(open[qp][slot], &completed, NULL))
				die("the receiver is gone");
			done[qp] += (uint32_t)completed;
			left -= (uint32_t)completed;
			if (posted[qp] == plan->messages || posted[qp] - done[qp] == plan->window)
				continue;
			if (plan->check)
				pattern(place(end, qp, posted[qp]), 0, size, qp, posted[qp], 1);
			wr.local_addr = (uintptr_t)place(end, qp, posted[qp]);
			switch (sdr_send_post(end->qp[qp], &wr,
					      &open[qp][posted[qp] % plan->window])) {
			case SDR_SUCCESS:
				posted[qp]++;
				break;
			case SDR_ERROR:
				die("cannot send");
			}
		}
		if (left == before && plan->poll == POLL_NAP)
			nap();
	}
	tell(&end->session, "ok", 2);
}

int main(int argc, char **argv)
{
	struct end end = { 0 };
	const struct plan *plan = &end.session.plan;
	int bad = 0;

	session_open(&end.session, argc, argv);
	open_end(&end);
	for (uint32_t i = 0; i < plan->sizes; i++) {
		struct result result = { 0 };

		if (end.session.host)
			send_all(&end, plan->size[i]);
		else
			result = receive(&end, plan->size[i]);
		session_result(&end.session, plan->size[i], &result);
		bad |= result.wrong_chunks != 0;
	}
	close_end(&end);
	session_close(&end.session);
	return bad;
}
