/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr_write_bw: how fast one-shot sends arrive, in the manner of ib_write_bw, written to <sdr.h> and <sdr_mr.h>. The two
 * ends meet through <godwit/rendezvous.h>.
 *
 *	cc sdr_write_bw.c $(pkg-config --cflags --libs godwit-sdr godwit) -o sdr_write_bw
 *	sdr_write_bw			on one host: waits for one caller
 *	sdr_write_bw [OPTION...] HOST	on the other: says what to measure, and sends
 *
 * Each queue pair has a window of receives posted. The receiver watches their bitmaps, looks at the data of every chunk
 * that arrived, completes the oldest and posts it again. Nothing is repaired: a receive that stands still for too long
 * is completed as it is, and the chunks it lacks are counted. The rendezvous carries the queue pairs' descriptions, the
 * start and the result.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sdr.h>
#include <sdr_mr.h>

#include <godwit/rendezvous.h>

enum { SIZES_MAX = 16, QPS_MAX = 64, WINDOW_MAX = 512, INFO_MAX = 1024 };

/* What the caller decides, as it travels: 32-bit big-endian numbers. */
struct plan {
	uint32_t magic;
	uint32_t qps;
	uint32_t window;   /* receives posted on each, a power of two */
	uint32_t messages; /* of each size on each */
	uint32_t channels;
	uint32_t chunk_log;
	uint32_t mtu; /* enum sdr_mtu */
	uint32_t check;
	uint32_t patience_ms;
	uint32_t sizes;
	uint32_t size[SIZES_MAX];
};
#define PLAN_MAGIC 0x73647262

struct result {
	uint32_t microseconds;
	uint32_t messages;
	uint32_t missing_chunks;
	uint32_t wrong_chunks;
};

struct end {
	struct plan plan;
	struct sdr_context *ctx;
	struct sdr_mr *mr;
	uint32_t lkey;
	uint32_t size_max;
	uint8_t *memory; /* a place of size_max for each receive, or send, of each queue pair */
	struct sdr_qp *qp[QPS_MAX];
	struct gw_rendezvous *peer;
};

__attribute__((noreturn)) static void die(const char *what)
{
	errx(1, "%s", what);
}

/* ---- the other end -------------------------------------------------------------------------------------------- */

/* Connects to the host, giving it a little time to be started; or, without one, waits for one caller. */
static struct gw_rendezvous *meet(const char *host, uint16_t port)
{
	struct gw_rendezvous_attr attr = { .host = host,
					   .port = port,
					   .service = "sdr_write_bw",
					   .retry_ns = UINT64_C(10000000000) };
	struct gw_rendezvous_listener *listener;
	struct gw_rendezvous *peer;
	int rc;

	if (host) {
		rc = gw_rendezvous_connect(&attr, &peer);
	} else {
		rc = gw_rendezvous_listen(&attr, &listener);
		if (rc == 0) {
			rc = gw_rendezvous_accept(listener, UINT64_MAX, &peer);
			gw_rendezvous_listener_close(listener);
		}
	}
	if (rc)
		die(gw_rendezvous_error());
	return peer;
}

static void tell(const struct end *end, const void *data, size_t length)
{
	if (gw_rendezvous_send(end->peer, GW_RENDEZVOUS_DESCRIPTION, data, length))
		die(gw_rendezvous_error());
}

static void hear(const struct end *end, void *data, size_t length)
{
	struct gw_rendezvous_message message;
	int rc;

	/* A measurement may take longer than the rendezvous waits; an end that dies closes the connection. */
	do {
		rc = gw_rendezvous_recv(end->peer, &message);
	} while (rc == -ETIMEDOUT && gw_rendezvous_peer_version(end->peer)[0]);
	if (rc)
		die(gw_rendezvous_error());
	if (message.length != length)
		die("the other end is no sdr_write_bw of this version");
	memcpy(data, message.data, length);
}

/* 32-bit numbers between this host's order and the wire's. */
static void swap(void *numbers, size_t length)
{
	uint32_t *at = numbers;

	for (size_t i = 0; i < length / sizeof(*at); i++)
		at[i] = htonl(at[i]);
}

/* ---- time ----------------------------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* For a moment in which nothing came: polling without a pause would take the processor from those who bring it. */
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

static void open_end(struct end *end, const char *device)
{
	const struct plan *plan = &end->plan;
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
	qp_attr.max_in_flight_log_bytes = log_of(end->size_max) + qp_attr.max_log_num_msgs;
	if (qp_attr.max_in_flight_log_bytes < plan->chunk_log + qp_attr.max_log_num_msgs)
		qp_attr.max_in_flight_log_bytes = plan->chunk_log + qp_attr.max_log_num_msgs;
	size = (size_t)end->size_max * plan->window * plan->qps;
	end->memory = malloc(size);
	end->ctx = sdr_context_create(device, &dev_attr);
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
		tell(end, info, size);
	}
	for (uint32_t i = 0; i < plan->qps; i++) {
		hear(end, info, size);
		if (sdr_qp_connect(end->qp[i], info))
			die("cannot connect a queue pair");
	}
}

static void close_end(struct end *end)
{
	for (uint32_t i = 0; i < end->plan.qps; i++)
		sdr_qp_destroy(end->qp[i]);
	sdr_mr_dereg(end->mr);
	sdr_context_destroy(end->ctx);
	free(end->memory);
	gw_rendezvous_close(end->peer);
}

static uint8_t *place(const struct end *end, uint32_t qp, uint32_t message)
{
	uint32_t index = qp * end->plan.window + message % end->plan.window;

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

struct lane {
	struct sdr_recv_handle *recv[WINDOW_MAX];
	uint32_t posted, completed;
	size_t seen;	   /* chunks of the oldest receive */
	double changed_at; /* when one was added, or the receive became the oldest */
};

static void post_recv(struct end *end, struct lane *lane, uint32_t qp, uint32_t size)
{
	struct sdr_recv_wr wr = { size, end->lkey, (uintptr_t)place(end, qp, lane->posted) };

	if (sdr_recv_post(end->qp[qp], &wr, &lane->recv[lane->posted % end->plan.window]))
		die("cannot post a receive");
	lane->posted++;
}

/* Looks at what arrived of a message that is over. */
static void judge(struct end *end, uint32_t qp, uint32_t message, uint32_t size,
		  const uint8_t *bitmap, size_t chunks, struct result *result)
{
	uint32_t chunk_size = 1u << end->plan.chunk_log;

	for (uint32_t i = 0; i < chunks; i++) {
		uint32_t from = i * chunk_size;
		uint32_t to = size - from < chunk_size ? size : from + chunk_size;

		if (!bitmap[i])
			result->missing_chunks++;
		else if (end->plan.check &&
			 !pattern(place(end, qp, message), from, to, qp, message, 0))
			result->wrong_chunks++;
	}
}

/* Whether the oldest receive of a queue pair is over, and if so what comes next. */
static int turn(struct end *end, struct lane *lane, uint32_t qp, uint32_t size,
		struct result *result)
{
	struct sdr_recv_handle *recv = lane->recv[lane->completed % end->plan.window];
	uint8_t *bitmap;
	size_t chunks, seen = 0;
	uint32_t imm;
	double time;

	if (sdr_recv_bitmap_get(recv, &bitmap, &chunks))
		die("the sender is gone");
	for (size_t i = 0; i < chunks; i++)
		seen += __atomic_load_n(&bitmap[i], __ATOMIC_ACQUIRE);
	if (seen < chunks) {
		time = now();
		if (seen != lane->seen)
			lane->changed_at = time;
		lane->seen = seen;
		if (time - lane->changed_at < 1e-3 * end->plan.patience_ms)
			return 0;
	} else if (sdr_recv_imm_get(recv, &imm) == SDR_SUCCESS && imm != lane->completed) {
		die("a message landed in another one's place");
	}
	judge(end, qp, lane->completed, size, bitmap, chunks, result);
	if (sdr_recv_complete(recv))
		die("cannot complete a receive");
	result->messages++;
	lane->completed++;
	lane->seen = 0;
	lane->changed_at = now();
	if (lane->posted < end->plan.messages)
		post_recv(end, lane, qp, size);
	return 1;
}

static struct result receive(struct end *end, uint32_t size)
{
	const struct plan *plan = &end->plan;
	struct lane *lanes = calloc(plan->qps, sizeof(*lanes));
	struct result result = { 0 };
	double start = 0;

	if (!lanes)
		die("no memory");
	for (uint32_t qp = 0; qp < plan->qps; qp++)
		while (lanes[qp].posted < plan->window && lanes[qp].posted < plan->messages)
			post_recv(end, &lanes[qp], qp, size);
	tell(end, "go", 2);
	start = now();
	for (uint32_t qp = 0; qp < plan->qps; qp++)
		lanes[qp].changed_at = start;
	while (result.messages < plan->qps * plan->messages) {
		int busy = 0;

		for (uint32_t qp = 0; qp < plan->qps; qp++)
			while (lanes[qp].completed < plan->messages &&
			       turn(end, &lanes[qp], qp, size, &result))
				busy = 1;
		if (!busy)
			nap();
	}
	result.microseconds = (uint32_t)(1e6 * (now() - start)) + 1;
	free(lanes);
	return result;
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

static void send_all(struct end *end, uint32_t size)
{
	const struct plan *plan = &end->plan;
	static struct sdr_send_handle *open[QPS_MAX][WINDOW_MAX];
	uint32_t posted[QPS_MAX] = { 0 }, done[QPS_MAX] = { 0 }, left = plan->qps * plan->messages;
	char go[2];

	hear(end, go, sizeof(go));
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
		if (left == before)
			nap();
	}
}

/* ---- saying it ------------------------------------------------------------------------------------------------ */

static void print(const struct plan *plan, uint32_t size, const struct result *result, int json)
{
	double seconds = 1e-6 * result->microseconds;
	double gbit = 8e-9 * size * result->messages / seconds;

	if (json)
		printf("{\"bytes\": %u, \"queue_pairs\": %u, \"window\": %u, \"messages\": %u, \"seconds\": %.6f, "
		       "\"gbit_per_s\": %.4f, \"missing_chunks\": %u, \"wrong_chunks\": %u, \"checked\": %s}\n",
		       size, plan->qps, plan->window, result->messages, seconds, gbit,
		       result->missing_chunks, result->wrong_chunks,
		       plan->check ? "true" : "false");
	else
		printf("%10u bytes  %8u messages  %9.4f Gbit/s  %6u chunks missing  %s\n", size,
		       result->messages, gbit, result->missing_chunks,
		       !plan->check	      ? "data not checked"
		       : result->wrong_chunks ? "DATA WRONG"
					      : "data right");
	fflush(stdout);
}

static const char usage[] =
	"usage: sdr_write_bw [-p PORT] [-d DEVICE] [--json]			waits\n"
	"       sdr_write_bw [OPTION...] HOST				calls and sends\n"
	"  -s SIZE,...     bytes in a message (8388608)\n"
	"  -n COUNT        messages of each size on each queue pair (100)\n"
	"  -w COUNT        receives posted at once on each, a power of two up to 512 (16)\n"
	"  -q COUNT        queue pairs, up to 64 (1)\n"
	"  -c COUNT        channels: paths that a queue pair's packets are spread over (1)\n"
	"  -k LOG          a chunk has 2^LOG bytes (16)\n"
	"  -m LOG          a packet has at most 2^LOG bytes, 6 to 12 (12)\n"
	"  -t MS           how long a receive may stand still before it is completed with holes (1000)\n"
	"  --no-check      do not look at the data\n"
	"  -d DEVICE       an RDMA device, an interface, an address; $SDR_FABRIC goes first\n"
	"  -p PORT         TCP port (18515)\n"
	"  --json          one JSON object a size\n";

static uint32_t number(const char *text, uint32_t low, uint32_t high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < low || value > high) {
		fprintf(stderr, "sdr_write_bw: \"%s\" is not a number from %u to %u\n", text, low,
			high);
		exit(2);
	}
	return (uint32_t)value;
}

static void read_sizes(struct plan *plan, char *text)
{
	plan->sizes = 0;
	for (char *at; (at = strsep(&text, ","));) {
		if (plan->sizes == SIZES_MAX)
			die("too many sizes");
		plan->size[plan->sizes++] = number(at, 1, 1u << 30);
	}
}

/* Also of one that came over the wire. */
static int sound(const struct plan *plan)
{
	return plan->magic == PLAN_MAGIC && plan->qps && plan->qps <= QPS_MAX && plan->window &&
	       plan->window <= WINDOW_MAX && !(plan->window & (plan->window - 1)) &&
	       plan->messages && plan->sizes && plan->sizes <= SIZES_MAX && plan->chunk_log < 31 &&
	       plan->mtu <= SDR_MTU_4096;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' },
					       { "no-check", no_argument, NULL, 'x' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	struct end end = {
		.plan = { PLAN_MAGIC, 1, 16, 100, 1, 16, SDR_MTU_4096, 1, 1000, 1, { 8 << 20 } }
	};
	const char *device = NULL, *host;
	struct plan *plan = &end.plan;
	struct result result;
	uint16_t port = 18515;
	int option, json = 0, bad = 0;

	while ((option = getopt_long(argc, argv, "s:n:w:q:c:k:m:t:d:p:h", longs, NULL)) != -1) {
		switch (option) {
		case 's':
			read_sizes(plan, optarg);
			break;
		case 'n':
			plan->messages = number(optarg, 1, 1u << 24);
			break;
		case 'w':
			plan->window = number(optarg, 1, WINDOW_MAX);
			break;
		case 'q':
			plan->qps = number(optarg, 1, QPS_MAX);
			break;
		case 'c':
			plan->channels = number(optarg, 1, 64);
			break;
		case 'k':
			plan->chunk_log = number(optarg, 6, 30);
			break;
		case 'm':
			plan->mtu = number(optarg, 6, 12) - 6;
			break;
		case 't':
			plan->patience_ms = number(optarg, 1, 60000);
			break;
		case 'd':
			device = optarg;
			break;
		case 'p':
			port = (uint16_t)number(optarg, 1, 65535);
			break;
		case 'j':
			json = 1;
			break;
		case 'x':
			plan->check = 0;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (argc - optind > 1 || !sound(plan)) {
		fputs(usage, stderr);
		return 2;
	}
	host = argv[optind];
	end.peer = meet(host, port);
	swap(plan, sizeof(*plan));
	if (host)
		tell(&end, plan, sizeof(*plan));
	else
		hear(&end, plan, sizeof(*plan));
	swap(plan, sizeof(*plan));
	if (!sound(plan))
		die("the caller is no sdr_write_bw of this version");
	open_end(&end, device);
	for (uint32_t i = 0; i < plan->sizes; i++) {
		if (host) {
			send_all(&end, plan->size[i]);
			hear(&end, &result, sizeof(result));
			swap(&result, sizeof(result));
		} else {
			result = receive(&end, plan->size[i]);
			swap(&result, sizeof(result));
			tell(&end, &result, sizeof(result));
			swap(&result, sizeof(result));
		}
		print(plan, plan->size[i], &result, json);
		bad |= result.wrong_chunks != 0;
	}
	close_end(&end);
	return bad;
}
