/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit recv: waits for one sender and writes its file, or its data to standard output. Blocks may
 * end in any order; they are checked and written in the file's order, so that the checksum runs
 * along, and a piece is posted again, for the message that is a whole ring later, once its block was
 * written. A message of the trailer's length is the trailer. Of a sender that reads a pipe nobody
 * knows how many messages come.
 */
#include <errno.h>
#include <isa-l.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "end.h"
#include "tools/interrupt.h"
#include "tools/meet.h"
#include "tools/options.h"
#include "tools/progress.h"
#include "protocol.h"
#include "tools/report.h"
#include "tools/scheme.h"
#include "tools/session.h"
#include "target.h"
#include "tools/text.h"

/* wait for the sender's CLOSE, which may be lost */
#define LINGER_NS     UINT64_C(1000000000)
#define COMMIT_NAP_NS UINT64_C(2000000)
/* receives posted before the first block has arrived */
#define POSTED_FIRST 16
/* longest sentence for a sender that is turned away, and its final zero */
#define REPLY_SIZE 128
/* While a pipe has no room, the transfer goes on at this interval. */
#define OUTPUT_NAP_MS 2

struct receiver {
	struct options options;
	struct report report;
	struct gw_rendezvous *rendezvous;
	struct file_end end;
	struct progress progress;
	struct target target;
	struct protocol_hello hello;
	/* messages that may come, the trailer included */
	uint64_t messages;
	/* receives posted */
	uint64_t posted;
	/* blocks written, and bytes written of the next one, for which the target had no room */
	uint64_t written;
	uint64_t part;
	bool blocked;
	/* bytes received and written; at the end, all that were received */
	uint64_t arrived;
	uint32_t crc32;
};

/* The packet size of a message is fixed when its receive is posted, and larger sizes are being tried while the first blocks
 * arrive. So the number of receives posted ahead starts low, and grows by one with each block. */
static uint64_t posted_most(const struct receiver *receiver)
{
	return POSTED_FIRST + 2 * receiver->written;
}

/* Bytes that the receive of message `index` has to take: exactly those of the block where the file's size is known. */
static uint64_t message_room(const struct receiver *receiver, uint64_t index)
{
	const struct protocol_hello *hello = &receiver->hello;

	if (hello->size == PROTOCOL_SIZE_UNKNOWN)
		return hello->block;
	if (index >= session_blocks(hello->size, hello->block))
		return PROTOCOL_TRAILER;
	return session_block_length(hello->size, hello->block, index);
}

static int post(struct receiver *receiver)
{
	struct file_end *end = &receiver->end;
	int rc;

	while (receiver->posted < receiver->messages && receiver->posted < posted_most(receiver)) {
		struct piece *piece = file_end_piece(end, receiver->posted);

		if (piece->state != PIECE_IDLE)
			return 0;
		rc = file_end_recv(end, piece, message_room(receiver, receiver->posted));
		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		receiver->posted++;
	}
	return 0;
}

/* What became of the target, for the line that says what went wrong. */
static const char *left_behind(const struct receiver *receiver)
{
	return receiver->target.stream ? "is incomplete" : "was not written";
}

/* 1 if the trailer agrees with what was received. */
static int check_trailer(struct receiver *receiver, const struct piece *piece)
{
	struct report *report = &receiver->report;
	uint64_t size = receiver->hello.size;
	struct protocol_trailer trailer;

	if (protocol_decode_trailer(piece->memory, piece->length, &trailer) ||
	    trailer.size != receiver->arrived ||
	    (size != PROTOCOL_SIZE_UNKNOWN && trailer.size != size))
		return report_fail(report, -EPROTO, "%s ended with a trailer that makes no sense",
				   report->peer);
	if (trailer.crc32 != receiver->crc32)
		return report_fail(report, -EILSEQ, "%s sent crc32 %08x, but %08x arrived; %s %s",
				   report->peer, trailer.crc32, receiver->crc32,
				   receiver->target.path, left_behind(receiver));
	return 1;
}

/* Returns 1 when all of the block is written, 0 when the target has no room now, or -errno. */
static int write_block(struct receiver *receiver, const struct piece *piece)
{
	char most[TEXT_SIZE];
	int64_t n;

	if (piece->length > receiver->options.max_size - receiver->arrived)
		return report_fail(&receiver->report, -EMSGSIZE,
				   "%s sent more than --max-size %s; %s %s", receiver->report.peer,
				   text_bytes(receiver->options.max_size, most),
				   receiver->target.path, left_behind(receiver));
	n = target_write(&receiver->target, piece->memory + receiver->part,
			 piece->length - receiver->part, receiver->arrived + receiver->part);

	if (n == -EPIPE)
		return report_fail(&receiver->report, -EPIPE,
				   "cannot write %s: its reader closed it", receiver->target.path);
	if (n < 0)
		return report_fail(&receiver->report, (int)n, "cannot write %s: %s",
				   receiver->target.path, strerror((int)-n));
	receiver->part += (uint64_t)n;
	receiver->blocked = receiver->part < piece->length;
	if (receiver->blocked)
		return 0;
	receiver->crc32 = crc32_gzip_refl(receiver->crc32, piece->memory, piece->length);
	receiver->arrived += piece->length;
	receiver->part = 0;
	return 1;
}

/* Writes the blocks that are next in order. Returns 1 after the trailer. */
static int drain(struct receiver *receiver)
{
	int rc;

	for (;;) {
		struct piece *piece = file_end_piece(&receiver->end, receiver->written);

		if (piece->state != PIECE_ENDED)
			return 0;
		if (piece->status)
			return piece->status;
		if (piece->length == PROTOCOL_TRAILER)
			return check_trailer(receiver, piece);
		rc = write_block(receiver, piece);
		if (rc <= 0)
			return rc;
		receiver->written++;
		piece_reuse(piece);
		rc = post(receiver);
		/* Of a channel that has failed, what had arrived is written all the same. */
		if (rc && !receiver->end.gone)
			return rc;
		/* Writing may be slow: keep acknowledging meanwhile. */
		file_end_poll(&receiver->end);
	}
}

/* Sleeps until something happens. A pipe that has room again wakes nobody who waits for packets. */
static int wait(struct receiver *receiver)
{
	if (!receiver->blocked)
		return file_end_wait(&receiver->end);
	target_wait(&receiver->target, OUTPUT_NAP_MS);
	file_end_poll(&receiver->end);
	return interrupt_signal() ? -EINTR : 0;
}

static int explain_loss(struct receiver *receiver, int error)
{
	char share[2 * TEXT_SIZE], reason[SESSION_LOSS_SIZE];

	if (error == -EINTR)
		return error;
	session_describe_loss(reason, &receiver->report, receiver->report.peer, error,
			      &receiver->options, receiver->end.ctx);
	/* What waits behind a block that is not whole, and what came of such blocks. */
	for (uint32_t i = 0; i < receiver->end.pieces; i++) {
		const struct piece *piece = &receiver->end.ring[i];

		/* The trailer may have arrived before blocks. */
		if (piece->state == PIECE_ENDED && piece->length != PROTOCOL_TRAILER)
			receiver->arrived += piece->moved;
	}
	if (receiver->hello.size == PROTOCOL_SIZE_UNKNOWN)
		text_bytes(receiver->arrived, share);
	else
		text_share(receiver->arrived, receiver->hello.size, share);
	return report_fail(&receiver->report, error, "%s; %s had arrived; %s %s", reason, share,
			   receiver->target.path, left_behind(receiver));
}

static int transfer(struct receiver *receiver)
{
	struct file_end *end = &receiver->end;
	int rc = 0;

	while (rc == 0) {
		rc = wait(receiver);
		/* Blocks that have arrived are written even if the peer is gone. */
		if (rc == 0)
			rc = drain(receiver);
		if (rc == 0 && !end->gone)
			rc = post(receiver);
		if (rc == 0 && !receiver->blocked)
			rc = end->gone;
		progress_update(&receiver->progress, receiver->arrived, session_now());
	}
	if (rc == 1)
		return 0;
	return explain_loss(receiver, end->gone ? end->gone : rc);
}

static int commit(struct receiver *receiver)
{
	const char *file = receiver->target.path;
	struct report *report = &receiver->report;
	int rc;

	rc = target_commit_start(&receiver->target, receiver->hello.mode);
	if (rc == 0) {
		/* The peer may go meanwhile; the file is whole all the same. */
		while ((rc = target_commit_status(&receiver->target)) == -EINPROGRESS)
			gw_wait(receiver->end.ctx, COMMIT_NAP_NS);
	}
	if (rc == -EINTR)
		return rc;
	if (rc)
		return report_fail(report, rc, "cannot finish %s: %s", file, strerror(-rc));
	report->have_crc32 = true;
	report->crc32 = receiver->crc32;
	return 0;
}

/* What the sender is told about a failure: why, and not where the file is. */
static void explain_to_sender(const struct receiver *receiver, int status,
			      char out[PROTOCOL_TEXT + 1])
{
	const char *what = receiver->target.stream ? "standard output" : "the file";

	out[0] = '\0';
	if (status == -EPIPE)
		snprintf(out, PROTOCOL_TEXT + 1, "cannot write %s: its reader closed it", what);
	else if (status == -EILSEQ)
		snprintf(out, PROTOCOL_TEXT + 1, "what arrived has crc32 %08x", receiver->crc32);
	else if (status == -EPROTO)
		snprintf(out, PROTOCOL_TEXT + 1, "the trailer makes no sense");
	else if (status == -EMSGSIZE)
		snprintf(out, PROTOCOL_TEXT + 1, "more data than is taken here");
	else if (status)
		snprintf(out, PROTOCOL_TEXT + 1, "cannot write %s: %s", what, strerror(-status));
}

/* Sends the result to the sender. Whether it arrives changes nothing at this end. */
static void send_verdict(struct receiver *receiver, int status)
{
	struct file_end *end = &receiver->end;
	struct piece *piece = &end->verdict;
	struct protocol_verdict verdict = { .status = status, .crc32 = receiver->crc32 };
	uint64_t deadline = UINT64_MAX;

	if (end->gone)
		return;
	explain_to_sender(receiver, status, verdict.text);
	if (file_end_send(end, piece, protocol_encode_verdict(&verdict, piece->memory)))
		return;
	/* The library gives up after --timeout, so this ends. The sender closes once it has the verdict. */
	while (!end->gone && session_now() < deadline) {
		if (file_end_wait(end))
			return;
		if (piece->state == PIECE_ENDED && deadline == UINT64_MAX)
			deadline = session_now() + LINGER_NS;
	}
}

/* -EAGAIN: a file of this size is not taken, and the sender was told so, but not what room there is and where. */
static int check_size(struct receiver *receiver, struct gw_rendezvous_listener *listener)
{
	uint64_t size = receiver->hello.size;
	char why[TARGET_WHY], reply[REPLY_SIZE], text[TEXT_SIZE], most[TEXT_SIZE];

	if (size == PROTOCOL_SIZE_UNKNOWN)
		return 0;
	text_bytes(size, text);
	if (size > receiver->options.max_size) {
		snprintf(why, sizeof(why), "a file of %s is larger than --max-size %s", text,
			 text_bytes(receiver->options.max_size, most));
		snprintf(reply, sizeof(reply), "a file of %s is too large here", text);
	} else if (!target_fits(&receiver->target, size, why)) {
		snprintf(reply, sizeof(reply), "there is no room for a file of %s", text);
	} else {
		return 0;
	}
	meet_refuse(&receiver->report, listener, &receiver->rendezvous, reply, why);
	return -EAGAIN;
}

/* Turns the sender away because of an error that is in the report, and goes on waiting. */
static int drop_sender(struct receiver *receiver, struct gw_rendezvous_listener *listener,
		       const char *reply)
{
	struct report *report = &receiver->report;

	meet_refuse(report, listener, &receiver->rendezvous, reply, report->error);
	report->error[0] = report->peer[0] = '\0';
	report->scheme = NULL;
	file_end_close(&receiver->end);
	receiver->posted = 0;
	return -EAGAIN;
}

/* Opens this end, and connects it to the channel that the sender describes. -EAGAIN: it cannot be connected to, and was told
 * so. Everything is ready for the first packet before the sender is told to go. */
static int answer(struct receiver *receiver, struct gw_rendezvous_listener *listener)
{
	struct report *report = &receiver->report;
	struct file_end *end = &receiver->end;
	struct options options = receiver->options;
	struct gw_channel_info info;
	int rc;

	receiver->messages = protocol_messages(receiver->hello.size, receiver->hello.block);
	report->scheme = receiver->hello.scheme->name;
	if (options.lanes < receiver->hello.lanes)
		options.lanes = receiver->hello.lanes;
	report->lanes = options.lanes;
	snprintf(report->peer, sizeof(report->peer), "%s",
		 gw_rendezvous_remote(receiver->rendezvous));
	rc = file_end_open(end, report, &options, receiver->rendezvous, receiver->hello.scheme,
			   receiver->hello.block, receiver->messages);
	if (rc)
		return rc;
	rc = gw_channel_connect(end->channel, &receiver->hello.channel);
	if (rc) {
		session_explain_connect(report, report->peer, rc);
		/* Sealing needs a secret, so that this tells a stranger nothing. */
		return drop_sender(receiver, listener,
				   rc == -EPERM ? SESSION_SEAL_ONE_SIDED
						: "its channel cannot be connected to");
	}
	rc = post(receiver);
	if (rc == 0)
		rc = gw_channel_info(end->channel, &info);
	if (rc)
		return report_fail(report, rc, "cannot post receives: %s", strerror(-rc));
	rc = gw_rendezvous_send(receiver->rendezvous, PROTOCOL_KIND_ACCEPT, info.bytes,
				sizeof(info.bytes));
	if (rc == 0 || rc == -EINTR)
		return rc;
	report_fail(report, rc, "it was lost before anything arrived: %s", gw_rendezvous_error());
	return drop_sender(receiver, listener, "");
}

/* -EAGAIN: it does not describe a file that is taken, and was told so. */
static int read_hello(struct receiver *receiver, struct gw_rendezvous_listener *listener)
{
	static const char why[] = "its first message does not describe a file";
	struct gw_rendezvous_message message;
	int rc;

	rc = gw_rendezvous_recv(receiver->rendezvous, &message);
	if (rc == 0 && message.kind != PROTOCOL_KIND_HELLO)
		rc = -EPROTO;
	if (rc == 0)
		rc = protocol_decode_hello(message.data, message.length, &receiver->hello);
	if (rc == 0)
		return check_size(receiver, listener);
	if (rc == -EINTR)
		return rc;
	meet_refuse(&receiver->report, listener, &receiver->rendezvous, why, why);
	return -EAGAIN;
}

/* Waits for a sender that describes a file, and tells it to go. Nobody who does less ends the waiting. */
static int meet(struct receiver *receiver)
{
	struct gw_rendezvous_listener *listener;
	int rc;

	rc = meet_listen(&receiver->report, &receiver->options, &listener);
	if (rc)
		return rc;
	do {
		rc = meet_accept(&receiver->report, listener, &receiver->rendezvous);
		if (rc == 0)
			rc = read_hello(receiver, listener);
		if (rc == 0)
			rc = answer(receiver, listener);
	} while (rc == -EAGAIN);
	if (rc && receiver->rendezvous)
		gw_rendezvous_refuse(receiver->rendezvous, "it cannot receive now");
	else
		gw_rendezvous_close(receiver->rendezvous);
	receiver->rendezvous = NULL;
	/* One file, one sender: the others that wait are told so by a reset. */
	gw_rendezvous_listener_close(listener);
	return rc;
}

static int run(struct receiver *receiver)
{
	struct report *report = &receiver->report;
	uint64_t started;
	int rc;

	rc = target_open(&receiver->target, report, receiver->options.file);
	if (rc)
		return rc;
	report->stdout_is_data = receiver->target.stream;
	rc = meet(receiver);
	if (rc)
		return rc;

	started = session_now();
	progress_start(&receiver->progress, receiver->options.quiet,
		       receiver->hello.size == PROTOCOL_SIZE_UNKNOWN ? 0 : receiver->hello.size,
		       started);
	rc = transfer(receiver);
	if (rc == 0)
		rc = commit(receiver);
	progress_clear(&receiver->progress);
	report->seconds = session_seconds(session_now() - started);
	report->bytes = receiver->arrived;
	/* The sender closes the channel when it has the verdict, and the estimates go with it. */
	report_sample(report, receiver->end.ctx, receiver->end.channel, "landed_packets");
	if (rc != -EINTR)
		send_verdict(receiver, rc);
	return rc;
}

static void conclude(struct receiver *receiver)
{
	struct report *report = &receiver->report;
	char size[TEXT_SIZE], rate[TEXT_SIZE];

	snprintf(report->outcome, sizeof(report->outcome),
		 "received %s from %s in %.2f s (%s), crc32 %08x, written to %s%s",
		 text_bytes(receiver->arrived, size), report->peer, report->seconds,
		 text_rate((double)receiver->arrived * 8 / report->seconds, rate), receiver->crc32,
		 receiver->target.path, report->icrc ? "" : ", ICRC off");
}

static int recv_run(int argc, char **argv)
{
	struct receiver receiver = { .target = { .fd = -1 } };
	struct report *report = &receiver.report;
	int rc;

	report->command = argv[0];
	rc = options_parse(argc, argv, false, report, &receiver.options);
	if (rc == 0)
		rc = session_prepare(report);
	if (rc == 0)
		rc = run(&receiver);
	report_sample(report, receiver.end.ctx, receiver.end.channel, "landed_packets");
	if (rc == 0)
		conclude(&receiver);
	else
		session_explain_signal(report, rc);
	file_end_close(&receiver.end);
	gw_rendezvous_close(receiver.rendezvous);
	target_close(&receiver.target);
	return report_finish(report);
}

const struct command command_recv = {
	.name = "recv",
	.summary = "wait for one file and write it",
	.usage =
		"usage: godwit recv FILE [OPTION ...]\n"
		"\n"
		"Waits for one `godwit send` and writes what it sends to FILE. FILE appears, or is\n"
		"replaced, only when everything arrived and its checksum is right. FILE may be -, standard\n"
		"output: the data goes there as it arrives, and everything else to standard error.\n"
		"\n"
		"  --bind ADDR     wait on this address only (default: all of this host's)\n" OPTIONS_USAGE_FROM
		"  --max-size SIZE  refuse more data than SIZE: 500M, 40G (default: what fits)\n" OPTIONS_USAGE_WIRE
			OPTIONS_USAGE_ICRC OPTIONS_USAGE_SEAL OPTIONS_USAGE,
	.run = recv_run,
};
