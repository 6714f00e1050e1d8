/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of the matrix: the whole message layer and Selective Repeat on any fabric, by its name.
 *
 *	fabric_peer FABRIC DIRECTORY OWN PEER [payload=N] [messages=N] [slots=N] [break=N] [rounds=N] [limit=SECONDS] [qps=N]
 *		[seconds=N]
 *	fabric_peer FABRIC
 *
 * Two of these find each other by files DIRECTORY/OWN and DIRECTORY/PEER, then send each other the same number of
 * messages at the same time, of odd lengths that both compute. Whoever receives knows every byte. Each receive has
 * memory of its own between guards; once released and found right it is overwritten, and looked at again at the end, when
 * all is quiet: nothing may have landed there since. With break=N the end pushes its own data queue pairs into error
 * after N messages, verbs only: they have to come back. With rounds=N the same memory serves N times over: then what is
 * late would land in a later round's receive, and show as a wrong byte there. With qps=N messages go over N queue pairs
 * in turn. With seconds=N messages go on for that long: the end whose name comes first then says how many there are to be,
 * which is well ahead of both. With nothing but a fabric it is opened and closed: the log says what became of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <godwit/scheme.h>

#include "meet.h"

#define GUARD	      64
#define GUARD_BYTE    0xa5
#define RELEASED_BYTE 0xee
#define IN_FLIGHT     24
#define WAIT_NS	      UINT64_C(5000000)
#define DEADLINE_S    30
#define QUIET_NS      UINT64_C(200000000)
#define LENGTHS	      10
#define QPS_MAX	      64
#define AHEAD	      4096u /* messages; the other end looks every second */

struct peer;

struct message {
	struct peer *peer;
	uint32_t number;
	uint32_t length;
	uint8_t *memory;
	struct gw_send *send;
	struct gw_recv *recv;
	bool busy; /* others may overtake it */
	bool released;
};

struct peer {
	const char *label, *directory, *own, *other;
	struct gw_context *ctx;
	struct gw_mr *mr;
	struct gw_qp *qp[QPS_MAX];
	uint32_t qps;
	uint8_t *memory;
	size_t memory_size, stride;
	uint32_t payload, places, sends, recvs, slots, break_after, limit_s,
		seconds; /* places for messages, used in turn */
	uint32_t sends_posted, recvs_posted, sends_done, recvs_done;
	uint32_t bad_status, bad_length, bad_bytes, touched;
	uint64_t bytes;
	struct message *out, *in;
};

/* break.c: it knows the inside. */
void break_lanes(struct gw_qp *qp);

static uint32_t length_of(uint32_t payload, uint32_t number)
{
	const uint32_t lengths[LENGTHS] = { 1,
					    3,
					    payload - 1,
					    payload,
					    payload + 1,
					    4 * payload,
					    7 * payload + 5,
					    16 * payload,
					    33 * payload - 2,
					    61 * payload + 61 };

	return lengths[number % LENGTHS];
}

static uint8_t byte_of(const char *sender, uint32_t number, uint32_t i)
{
	uint32_t x = (i ^ number * 0x9e3779b1u ^ (uint32_t)sender[0] << 24) * 0x85ebca6bu;

	return (uint8_t)(x >> 13 ^ x >> 24);
}

static void fill_guards(const struct message *message)
{
	memset(message->memory - GUARD, GUARD_BYTE, GUARD);
	memset(message->memory + message->length, GUARD_BYTE, GUARD);
}

static bool guards_whole(const struct message *message)
{
	for (uint32_t i = 0; i < GUARD; i++)
		if (message->memory[-1 - (int)i] != GUARD_BYTE ||
		    message->memory[message->length + i] != GUARD_BYTE)
			return false;
	return true;
}

/* Since its release: nothing may have landed. */
static bool untouched(const struct message *message)
{
	for (uint32_t i = 0; i < message->length; i++)
		if (message->memory[i] != RELEASED_BYTE)
			return false;
	return guards_whole(message);
}

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct message *message = arg;

	(void)now;
	message->busy = false;
	message->peer->sends_done++;
	message->peer->bad_status += result->status != 0;
	gw_send_close(message->send);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct message *message = arg;
	struct peer *peer = message->peer;

	(void)now;
	message->busy = false;
	peer->recvs_done++;
	peer->bad_status += result->status != 0;
	peer->bad_length += result->status == 0 && result->length != message->length;
	message->released = true;
	for (uint32_t i = 0; i < message->length && !result->status; i++)
		if (message->memory[i] != byte_of(peer->other, message->number, i)) {
			peer->bad_bytes++;
			break;
		}
	peer->bytes += message->length;
	memset(message->memory, RELEASED_BYTE, message->length);
	gw_recv_close(message->recv);
}

static void post(struct peer *peer)
{
	while (peer->recvs_posted < peer->recvs &&
	       peer->recvs_posted - peer->recvs_done < IN_FLIGHT) {
		struct message *message = &peer->in[peer->recvs_posted % peer->places];
		struct gw_transfer_attr attr = { .addr = message->memory,
						 .length = message->length,
						 .mr = peer->mr,
						 .done = received,
						 .arg = message };

		if (message->busy)
			break;
		message->busy = true;
		if (message->released)
			peer->touched += !untouched(message);
		message->released = false;
		message->number = peer->recvs_posted;
		if (gw_transfer_recv(peer->qp[peer->recvs_posted % peer->qps], &gw_selective_repeat,
				     &attr, &message->recv))
			report_fatal("%s: cannot post a receive", peer->label);
		peer->recvs_posted++;
	}
	while (peer->sends_posted < peer->sends &&
	       peer->sends_posted - peer->sends_done < IN_FLIGHT) {
		struct message *message = &peer->out[peer->sends_posted % peer->places];
		struct gw_transfer_attr attr = { .addr = message->memory,
						 .length = message->length,
						 .mr = peer->mr,
						 .done = sent,
						 .arg = message };

		if (message->busy)
			break;
		message->busy = true;
		message->number = peer->sends_posted;
		for (uint32_t i = 0; i < message->length; i++)
			message->memory[i] = byte_of(peer->own, message->number, i);
		if (gw_transfer_send(peer->qp[peer->sends_posted % peer->qps], &gw_selective_repeat,
				     &attr, &message->send))
			report_fatal("%s: cannot post a send", peer->label);
		peer->sends_posted++;
	}
}

static void prepare_memory(struct peer *peer)
{
	struct gw_estimate estimate;
	uint32_t payload;
	uint8_t *place;

	/* Of the largest packets: both ends have the same, so that both come to the same lengths. */
	if (gw_qp_estimate(peer->qp[0], &estimate))
		report_fatal("%s: no payload", peer->label);
	payload = estimate.payload_most;
	peer->stride = (2 * GUARD + length_of(payload, LENGTHS - 1) + 63) / 64 * 64;
	peer->memory_size = 2 * (size_t)peer->places * peer->stride;
	peer->memory = aligned_alloc(4096, (peer->memory_size + 4095) / 4096 * 4096);
	peer->in = calloc(peer->places, sizeof(*peer->in));
	peer->out = calloc(peer->places, sizeof(*peer->out));
	if (!peer->memory || !peer->in || !peer->out)
		report_fatal("%s: no memory", peer->label);
	place = peer->memory + GUARD + 1; /* off every boundary */
	for (uint32_t i = 0; i < peer->places; i++) {
		struct message *in = &peer->in[i], *out = &peer->out[i];

		*in = *out = (struct message){ .peer = peer, .length = length_of(payload, i) };
		in->memory = place;
		out->memory = place + peer->stride;
		place += 2 * peer->stride;
		memset(in->memory, 0, in->length);
		fill_guards(in);
	}
	if (gw_mr_register(peer->ctx, peer->memory, peer->memory_size, &peer->mr))
		report_fatal("%s: cannot register memory: %s", peer->label,
			     gw_context_error(peer->ctx));
}

static void leave(const struct peer *peer, const char *what, const void *bytes, size_t size)
{
	meet_leave(peer->directory, peer->own, what, bytes, size);
}

static bool find(const struct peer *peer, const char *what, void *bytes, size_t size)
{
	return meet_find(peer->directory, peer->other, what, bytes, size);
}

static void create_qps(struct peer *peer, struct gw_qp_info *infos)
{
	struct gw_qp_attr attr = { .payload = peer->payload, .slots = peer->slots };

	for (uint32_t i = 0; i < peer->qps; i++) {
		int error = gw_qp_create(peer->ctx, &attr, &peer->qp[i]);

		if (error)
			report_fatal("%s: no queue pair: %s (%s)", peer->label, strerror(-error),
				     gw_context_error(peer->ctx));
		gw_qp_info(peer->qp[i], &infos[i]);
	}
}

static void connect_to_peer(struct peer *peer, const char *fabric)
{
	struct gw_context_attr attr = { .fabric = fabric, .max_qps = QPS_MAX };
	const struct timespec nap = { .tv_nsec = 10000000 };
	struct gw_qp_info infos[QPS_MAX];
	time_t until = time(NULL) + DEADLINE_S;
	size_t size = peer->qps * sizeof(infos[0]);
	int error = gw_context_open(&attr, &peer->ctx);
	char byte;

	if (error)
		report_fatal("%s: cannot open %s: %s", peer->label, fabric, strerror(-error));
	create_qps(peer, infos);
	leave(peer, "info", infos, size);
	while (!find(peer, "info", infos, size) && time(NULL) < until)
		nanosleep(&nap, NULL);
	for (uint32_t i = 0; i < peer->qps; i++) {
		error = gw_qp_connect(peer->qp[i], &infos[i]);
		if (error)
			report_fatal("%s: cannot connect: %s (%s)", peer->label, strerror(-error),
				     gw_context_error(peer->ctx));
	}
	/* Neither may write before the other is ready: a lost first packet is fine, but says nothing. */
	leave(peer, "ready", "y", 1);
	while (!find(peer, "ready", &byte, 1) && time(NULL) < until)
		nanosleep(&nap, NULL);
}

static int only_open(const char *fabric)
{
	struct gw_context_attr attr = { .fabric = fabric };
	struct gw_context *ctx;
	int error;

	gw_log_set(GW_LOG_INFO, NULL, NULL);
	error = gw_context_open(&attr, &ctx);
	if (!error)
		gw_context_close(ctx);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Whether the number of messages is settled; `left_s` is what is left of the time for them. */
static bool settle(struct peer *peer, time_t left_s)
{
	bool first = strcmp(peer->own, peer->other) < 0;
	/* Sends and receives: either direction has its own pace. */
	uint32_t ends[2] = { peer->sends_posted + AHEAD, peer->recvs_posted + AHEAD };

	if (first && left_s <= 0)
		leave(peer, "stop", ends, sizeof(ends));
	else if (first || !find(peer, "stop", ends, sizeof(ends)))
		return false;
	peer->sends = ends[!first];
	peer->recvs = ends[first];
	return true;
}

static void transfer(struct peer *peer)
{
	time_t begun = time(NULL), looked = begun, until = begun + peer->limit_s;
	bool settled = !peer->seconds;

	while ((peer->sends_done < peer->sends || peer->recvs_done < peer->recvs) &&
	       time(NULL) < until) {
		post(peer);
		gw_wait(peer->ctx, WAIT_NS);
		if (!settled && time(NULL) != looked) {
			looked = time(NULL);
			settled = settle(peer, begun + (time_t)peer->seconds - looked);
		}
		if (peer->break_after && peer->recvs_done >= peer->break_after) {
			peer->break_after = 0;
			break_lanes(peer->qp[0]);
		}
	}
}

/* Until the peer is finished too, and a while longer: what is late should have its chance. */
static void linger(struct peer *peer)
{
	time_t until = time(NULL) + DEADLINE_S;
	uint64_t quiet;
	char byte;

	leave(peer, "done", "y", 1);
	while (!find(peer, "done", &byte, 1) && time(NULL) < until)
		gw_wait(peer->ctx, WAIT_NS);
	quiet = gw_now_ns(peer->ctx) + QUIET_NS;
	while (gw_now_ns(peer->ctx) < quiet)
		gw_wait(peer->ctx, WAIT_NS);
}

static void look_again(struct peer *peer)
{
	for (uint32_t i = 0; i < peer->places; i++)
		peer->touched += peer->in[i].released && !untouched(&peer->in[i]);
}

static uint64_t counter(const struct gw_context *ctx, const char *name)
{
	uint64_t value = 0;

	gw_counter_read(ctx, (unsigned)gw_counter_find(name), &value);
	return value;
}

/* One line for people and for docs/interop.md. */
static void tell(const struct peer *peer)
{
	printf("numbers %s bytes=%llu", peer->label, (unsigned long long)peer->bytes);
	for (unsigned i = 0; gw_counter_name(i); i++) {
		uint64_t value = 0;

		gw_counter_read(peer->ctx, i, &value);
		if (value)
			printf(" %s=%llu", gw_counter_name(i), (unsigned long long)value);
	}
	putchar('\n');
	fflush(stdout);
}

static void judge(struct peer *peer, uint32_t breaks)
{
	report(peer->sends_done == peer->sends && !peer->bad_status, "%s: %u of %u messages sent",
	       peer->label, peer->sends_done, peer->sends);
	report(peer->recvs_done == peer->recvs && !peer->bad_length && !peer->bad_bytes,
	       "%s: %u of %u messages received, %u of wrong length, %u with wrong bytes",
	       peer->label, peer->recvs_done, peer->recvs, peer->bad_length, peer->bad_bytes);
	report(!peer->touched, "%s: %u released buffers or their guards were touched", peer->label,
	       peer->touched);
	if (breaks)
		report(counter(peer->ctx, "qp_healed") > 0, "%s: %llu queue pairs came back",
		       peer->label, (unsigned long long)counter(peer->ctx, "qp_healed"));
}

int main(int argc, char **argv)
{
	struct peer peer = { 0 };
	char label[128];
	uint32_t breaks;

	if (argc == 2)
		return only_open(argv[1]);
	if (argc < 5)
		report_fatal("usage: fabric_peer fabric directory own peer [name=value...]");
	peer.directory = argv[2];
	peer.own = argv[3];
	peer.other = argv[4];
	snprintf(label, sizeof(label), "%s/%s", basename(argv[2]), argv[3]);
	peer.label = label;
	peer.payload = meet_option(argc, argv, 5, "payload", 0);
	peer.places = meet_option(argc, argv, 5, "messages", 100);
	if (peer.places < IN_FLIGHT)
		report_fatal("%s: fewer messages than are in flight", label);
	peer.sends = peer.recvs = peer.places * meet_option(argc, argv, 5, "rounds", 1);
	peer.seconds = meet_option(argc, argv, 5, "seconds", 0);
	if (peer.seconds)
		peer.sends = peer.recvs = UINT32_MAX;
	peer.qps = meet_option(argc, argv, 5, "qps", 1);
	if (!peer.qps || peer.qps > QPS_MAX)
		report_fatal("%s: 1 to %d queue pairs", label, QPS_MAX);
	peer.limit_s = meet_option(argc, argv, 5, "limit", DEADLINE_S);
	peer.slots = meet_option(argc, argv, 5, "slots", 16);
	breaks = peer.break_after = meet_option(argc, argv, 5, "break", 0);
	if (getenv("GODWIT_LOG"))
		gw_log_set(GW_LOG_INFO, NULL, NULL);
	connect_to_peer(&peer, argv[1]);
	prepare_memory(&peer);
	transfer(&peer);
	linger(&peer);
	look_again(&peer);
	tell(&peer);
	judge(&peer, breaks);
	gw_context_close(peer.ctx);
	free(peer.memory);
	free(peer.in);
	free(peer.out);
	return report_status();
}
