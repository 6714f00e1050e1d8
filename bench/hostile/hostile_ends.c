/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two ends of the transfer under attack. Buffers lie in one registered area with a gap behind each; the gaps belong to
 * nobody, and a byte that changes in one has been written where nothing was posted.
 */
#include "hostile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "message/state.h"

#define GAP_BYTES 4096
#define GAP_BYTE  0xa5
#define STRIDE	  (MESSAGE_BYTES + GAP_BYTES)
#define NAP_NS	  UINT64_C(20000000)
/* Bytes of the message over the earlier connection. */
#define EARLIER_BYTES (1u << 17)

struct buffer {
	struct end *end;
	uint8_t *memory;
	uint32_t message;
	bool ended;
	struct gw_send *send;
	struct gw_recv *recv;
};

struct end {
	struct ends *ends;
	int which;
	struct gw_mr *mr;
	uint8_t *area;
	uint32_t next; /* message */
	struct buffer buffers[MESSAGES_AT_ONCE];
};

static void fail(struct board *board, const char *what, long number)
{
	if (!atomic_load(&board->failed))
		snprintf(board->why, sizeof(board->why), "%s (%ld)", what, number);
	atomic_store(&board->failed, true);
}

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	(void)qp;
	(void)now;
	fail(arg, "a queue pair is gone", status);
}

static const struct gw_qp_handler handler = { .gone = gone };

/* Creates a queue pair at each end and connects the two. */
static int connect_ends(struct ends *ends, bool sealed)
{
	static const struct gw_seal seal[ENDS] = { { { 1 }, { 2 } }, { { 2 }, { 1 } } };
	struct gw_qp_info info[ENDS];
	int error = 0;

	for (int i = 0; !error && i < ENDS; i++) {
		struct gw_qp_attr qp_attr = { .payload = PACKET_BYTES,
					      .slots = BOARD_SLOTS,
					      .handler = &handler,
					      .arg = ends->board,
					      .seal = sealed ? &seal[i] : NULL };

		error = gw_qp_create(ends->ctx[i], &qp_attr, &ends->qp[i]);
		if (!error)
			error = gw_qp_info(ends->qp[i], &info[i]);
	}
	for (int i = 0; !error && i < ENDS; i++)
		error = gw_qp_connect(ends->qp[i], &info[ENDS - 1 - i]);
	return error;
}

static void note_end(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	*(int *)arg = result->status ? result->status : 1;
}

/* A message over a connection with the same keys that the two ends have had and closed, overheard. */
static int overhear_earlier(struct ends *ends, struct recorder *recorder)
{
	static uint8_t memory[ENDS][EARLIER_BYTES];
	struct gw_mr *mr[ENDS];
	struct gw_send *send;
	struct gw_recv *recv;
	int done[ENDS] = { 0 }, error = connect_ends(ends, true);

	for (int i = 0; !error && i < ENDS; i++) {
		struct gw_transfer_attr attr = { .addr = memory[i],
						 .length = EARLIER_BYTES,
						 .done = note_end,
						 .arg = &done[i] };

		error = gw_mr_register(ends->ctx[i], memory[i], EARLIER_BYTES, &mr[i]);
		attr.mr = mr[i];
		if (!error && i == SENDER)
			error = gw_transfer_send(ends->qp[i], &gw_selective_repeat, &attr, &send);
		else if (!error)
			error = gw_transfer_recv(ends->qp[i], &gw_selective_repeat, &attr, &recv);
	}
	while (!error && (!done[SENDER] || !done[RECEIVER])) {
		for (int i = 0; i < ENDS; i++) {
			gw_progress(ends->ctx[i]);
			replay_record(recorder, ENDS - 1 - i, true);
		}
	}
	for (int i = 0; !error && i < ENDS; i++) {
		error = done[i] < 0 ? done[i] : 0;
		if (!error && i == SENDER)
			error = gw_send_close(send);
		else if (!error)
			error = gw_recv_close(recv);
		if (!error)
			error = gw_mr_deregister(mr[i]);
	}
	for (int i = 0; !error && i < ENDS; i++) {
		error = gw_qp_close(ends->qp[i]);
		gw_progress(ends->ctx[i]);
	}
	return error;
}

struct recorder *hostile_open(struct ends *ends, bool sealed)
{
	struct gw_context_attr attr = { .fabric = "roce:127.0.0.1@0" };
	struct recorder *recorder = sealed ? replay_open(ends) : NULL;
	int error = 0;

	ends->sealed = sealed;
	ends->board = mmap(NULL, sizeof(*ends->board), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ends->board == MAP_FAILED)
		error = -errno;
	for (int i = 0; !error && i < ENDS; i++)
		error = gw_context_open(&attr, &ends->ctx[i]);
	if (!error && sealed)
		error = overhear_earlier(ends, recorder);
	/* The earlier connection has ended, and its ends were told. */
	if (!error)
		atomic_store(&ends->board->failed, false);
	if (!error)
		error = connect_ends(ends, sealed);
	if (error) {
		fprintf(stderr, "hostile: cannot open the two ends: %s\n", strerror(-error));
		exit(1);
	}
	if (sealed)
		replay_begin(ends);
	return recorder;
}

static void make_end(struct end *end, struct ends *ends, int which)
{
	size_t bytes = (size_t)MESSAGES_AT_ONCE * STRIDE;
	int error;

	memset(end, 0, sizeof(*end));
	end->ends = ends;
	end->which = which;
	end->area = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (end->area == MAP_FAILED)
		_exit(1);
	memset(end->area, GAP_BYTE, bytes);
	error = gw_mr_register(ends->ctx[which], end->area, bytes, &end->mr);
	if (error)
		fail(ends->board, "cannot register memory", error);
	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++) {
		end->buffers[i].end = end;
		end->buffers[i].memory = end->area + (size_t)i * STRIDE;
	}
}

static void finish(struct end *end) __attribute__((noreturn));

static void write_counters(struct end *end)
{
	struct board *board = end->ends->board;

	for (unsigned i = 0; i < gw_counter_count() && i < BOARD_COUNTERS; i++)
		gw_counter_read(end->ends->ctx[end->which], i, &board->counters[end->which][i]);
}

static void answer(struct end *end)
{
	struct board *board = end->ends->board;
	unsigned asked = atomic_load(&board->asked);

	if (atomic_load(&board->answered[end->which]) == asked)
		return;
	write_counters(end);
	atomic_store(&board->answered[end->which], asked);
}

static void finish(struct end *end)
{
	write_counters(end);
	if (end->ends->sealed)
		end->ends->board->crossed[end->which] = replay_crossed(end->ends, end->which);
	_exit(0);
}

static void ended(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct buffer *buffer = arg;

	(void)now;
	buffer->ended = true;
	if (result->status)
		fail(buffer->end->ends->board, "a message failed", result->status);
	else if (result->length != MESSAGE_BYTES)
		fail(buffer->end->ends->board, "a message has another length",
		     (long)result->length);
}

static struct gw_transfer_attr describe(struct buffer *buffer)
{
	return (struct gw_transfer_attr){ .addr = buffer->memory,
					  .length = MESSAGE_BYTES,
					  .mr = buffer->end->mr,
					  .done = ended,
					  .arg = buffer };
}

static void post_send(struct end *end, struct buffer *buffer)
{
	struct gw_transfer_attr attr = describe(buffer);
	uint64_t *words = (uint64_t *)buffer->memory;
	int error;

	buffer->message = end->next++;
	for (uint64_t i = 0; i < MESSAGE_BYTES / WORD_BYTES; i++)
		words[i] = hostile_word(buffer->message, i);
	error = gw_transfer_send(end->ends->qp[SENDER], &gw_selective_repeat, &attr, &buffer->send);
	if (error)
		fail(end->ends->board, "cannot post a send", error);
}

void hostile_send(struct ends *ends)
{
	static struct end end;

	make_end(&end, ends, SENDER);
	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++)
		post_send(&end, &end.buffers[i]);
	while (!atomic_load(&ends->board->stop) && !atomic_load(&ends->board->failed)) {
		struct buffer *oldest = &end.buffers[end.next % MESSAGES_AT_ONCE];

		gw_wait(ends->ctx[SENDER], NAP_NS);
		answer(&end);
		while (oldest->ended) {
			gw_send_close(oldest->send);
			oldest->ended = false;
			post_send(&end, oldest);
			oldest = &end.buffers[end.next % MESSAGES_AT_ONCE];
		}
	}
	finish(&end);
}

static void post_recv(struct end *end, struct buffer *buffer)
{
	struct gw_transfer_attr attr = describe(buffer);
	int error;

	buffer->message = end->next++;
	error = gw_transfer_recv(end->ends->qp[RECEIVER], &gw_selective_repeat, &attr,
				 &buffer->recv);
	if (error)
		fail(end->ends->board, "cannot post a receive", error);
}

static void verify(struct end *end, struct buffer *buffer)
{
	const uint64_t *words = (const uint64_t *)buffer->memory;
	const uint8_t *gap = buffer->memory + MESSAGE_BYTES;
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < MESSAGE_BYTES / WORD_BYTES; i++)
		wrong |= words[i] ^ hostile_word(buffer->message, i);
	if (wrong)
		fail(end->ends->board, "a forged byte landed in message", buffer->message);
	for (unsigned i = 0; i < GAP_BYTES; i++) {
		if (gap[i] != GAP_BYTE)
			fail(end->ends->board, "a byte landed where nothing was posted", i);
	}
	atomic_fetch_add(&end->ends->board->bytes, MESSAGE_BYTES);
	atomic_fetch_add(&end->ends->board->messages, 1);
}

/* Tells the attacker the keys. A receive that waits for its slot has none yet. */
static void publish(struct end *end)
{
	struct board *board = end->ends->board;

	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++) {
		const struct buffer *buffer = &end->buffers[i];
		uint32_t slot = buffer->recv->msn & (BOARD_SLOTS - 1);

		if (!buffer->recv->rkey || board->rkey[slot] == buffer->recv->rkey)
			continue;
		atomic_store(&board->message[slot], buffer->message);
		atomic_store(&board->rkey[slot], buffer->recv->rkey);
	}
}

void hostile_receive(struct ends *ends)
{
	static struct end end;

	make_end(&end, ends, RECEIVER);
	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++)
		post_recv(&end, &end.buffers[i]);
	while (!atomic_load(&ends->board->stop) && !atomic_load(&ends->board->failed)) {
		struct buffer *oldest = &end.buffers[end.next % MESSAGES_AT_ONCE];

		gw_wait(ends->ctx[RECEIVER], NAP_NS);
		answer(&end);
		while (oldest->ended) {
			verify(&end, oldest);
			gw_recv_close(oldest->recv);
			oldest->ended = false;
			post_recv(&end, oldest);
			oldest = &end.buffers[end.next % MESSAGES_AT_ONCE];
		}
		publish(&end);
	}
	finish(&end);
}
