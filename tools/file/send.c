/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit send: reads the file, or standard input, block by block into the ring's pieces and sends each
 * as one message. Message i uses piece i mod the size of the ring, so a piece is filled again only
 * after its last message was delivered. A block is as long as --block, but for the last of a file
 * and for what a pipe has when nothing else is under way. The trailer follows; no block has its
 * length, which is how the receiver knows it. The receive for the verdict is posted first, because
 * the receiver may report a failure at any time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "end.h"
#include "tools/interrupt.h"
#include "tools/meet.h"
#include "tools/options.h"
#include "tools/progress.h"
#include "protocol.h"
#include "source.h"
#include "tools/report.h"
#include "tools/scheme.h"
#include "tools/session.h"
#include "tools/text.h"

struct sender {
	struct options options;
	struct report report;
	struct gw_rendezvous *rendezvous;
	struct file_end end;
	struct progress progress;
	struct source source;
	/* messages posted */
	uint64_t posted;
	/* messages posted that have not ended */
	uint32_t under_way;
	/* bytes in the piece that is being filled */
	uint32_t filled;
	/* last byte of a block that had the trailer's length: the first of the next */
	bool carried;
	uint8_t carry;
	/* a piece is free and the source has nothing for it */
	bool starved;
	/* bytes of the file that the receiver has confirmed */
	uint64_t delivered;
	bool trailer_posted;
};

/* While a pipe is waited for, the transfer goes on at these intervals. */
#define INPUT_NAP_NS	  UINT64_C(1000000)
#define INPUT_NAP_IDLE_MS 20

/* Sends what describes the file and this end, and connects to what comes back. */
static int exchange(struct sender *sender)
{
	struct protocol_hello hello = { .size = sender->source.size,
					.block = sender->options.block,
					.mode = sender->source.mode,
					.lanes = sender->report.lanes,
					.scheme = sender->options.scheme };
	struct gw_rendezvous_message message;
	uint8_t encoded[PROTOCOL_HELLO];
	struct gw_channel_info info;
	int rc;

	rc = gw_channel_info(sender->end.channel, &hello.channel);
	if (rc)
		return report_fail(&sender->report, rc, "cannot describe the channel: %s",
				   strerror(-rc));
	protocol_encode_hello(&hello, encoded);
	rc = gw_rendezvous_send(sender->rendezvous, PROTOCOL_KIND_HELLO, encoded, sizeof(encoded));
	if (rc == 0)
		rc = gw_rendezvous_recv(sender->rendezvous, &message);
	if (rc)
		return meet_explain(&sender->report, rc);
	if (message.kind != PROTOCOL_KIND_ACCEPT || message.length != PROTOCOL_ACCEPT)
		return report_fail(&sender->report, -EPROTO,
				   "%s sent something that makes no sense", sender->options.host);
	memcpy(info.bytes, message.data, sizeof(info.bytes));
	rc = gw_channel_connect(sender->end.channel, &info);
	return rc ? session_explain_connect(&sender->report, sender->options.host, rc) : 0;
}

static int post_trailer(struct sender *sender)
{
	struct protocol_trailer trailer = { .size = sender->source.read,
					    .crc32 = sender->source.crc32 };
	struct file_end *end = &sender->end;
	int rc;

	protocol_encode_trailer(&trailer, end->trailer.memory);
	rc = file_end_send(end, &end->trailer, PROTOCOL_TRAILER);
	sender->trailer_posted = rc == 0;
	return rc;
}

/* Reads into the piece. Returns 1 when it is to be sent, 0 when there is nothing to send now, or -errno. */
static int fill_piece(struct sender *sender, struct piece *piece)
{
	struct source *source = &sender->source;
	uint32_t block = sender->options.block;

	if (sender->carried) {
		piece->memory[0] = sender->carry;
		sender->filled = 1;
		sender->carried = false;
	}
	while (sender->filled < block && !source->ended) {
		ssize_t n = source_read(source, &sender->report, piece->memory + sender->filled,
					block - sender->filled);

		if (n < 0)
			return (int)n;
		if (n == 0 && !source->ended)
			break;
		sender->filled += (uint32_t)n;
	}
	if (sender->filled == block || source->ended)
		return sender->filled > 0;
	/* A producer that pauses: what there is leaves when nothing else is under way. */
	return sender->filled > 0 && sender->under_way == 0;
}

/* Fills and posts every piece that is free, then the trailer. */
static int fill(struct sender *sender)
{
	struct file_end *end = &sender->end;
	int rc;

	sender->starved = false;
	for (;;) {
		struct piece *piece = file_end_piece(end, sender->posted);
		uint32_t length;

		if (piece->state != PIECE_IDLE)
			return 0;
		rc = fill_piece(sender, piece);
		if (rc <= 0)
			break;
		length = sender->filled == PROTOCOL_TRAILER ? sender->filled - 1 : sender->filled;
		rc = file_end_send(end, piece, length);
		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		sender->posted++;
		sender->under_way++;
		sender->carried = length < sender->filled;
		if (sender->carried)
			sender->carry = piece->memory[length];
		sender->filled = 0;
		/* Reading may be slow: let the earlier blocks go on meanwhile. */
		file_end_poll(end);
	}
	if (rc == 0 && !sender->source.ended)
		sender->starved = true;
	else if (rc == 0 && !sender->trailer_posted)
		rc = post_trailer(sender);
	return rc == -EAGAIN ? 0 : rc;
}

/* Sleeps until something happens. A pipe wakes nobody who waits for packets, so that it is looked at often. */
static int wait(struct sender *sender)
{
	struct file_end *end = &sender->end;

	if (!sender->starved)
		return file_end_wait(end);
	if (sender->under_way)
		gw_wait(end->ctx, INPUT_NAP_NS);
	else
		source_wait(&sender->source, INPUT_NAP_IDLE_MS);
	file_end_poll(end);
	return interrupt_signal() ? -EINTR : 0;
}

/* Frees the pieces that were delivered. Returns the status of a message that failed, or 0. */
static int reap(struct sender *sender)
{
	int status = 0;

	for (uint32_t i = 0; i < sender->end.pieces; i++) {
		struct piece *piece = &sender->end.ring[i];

		if (piece->state != PIECE_ENDED)
			continue;
		if (piece->status) {
			status = piece->status;
			continue;
		}
		sender->delivered += piece->length;
		sender->under_way--;
		piece_reuse(piece);
	}
	if (sender->end.trailer.state == PIECE_ENDED && sender->end.trailer.status)
		status = sender->end.trailer.status;
	return status;
}

static int judge(struct sender *sender)
{
	struct piece *piece = &sender->end.verdict;
	const char *host = sender->options.host;
	struct protocol_verdict verdict;
	int rc;

	rc = protocol_decode_verdict(piece->memory, piece->length, &verdict);
	if (rc)
		return report_fail(&sender->report, rc, "%s sent a verdict that makes no sense",
				   host);
	if (verdict.status)
		return report_fail(&sender->report, -EREMOTEIO, "%s failed: %s", host,
				   verdict.text);
	if (verdict.crc32 != sender->source.crc32)
		return report_fail(&sender->report, -EILSEQ,
				   "%s computed crc32 %08x, but %08x was sent", host, verdict.crc32,
				   sender->source.crc32);
	/* It may have overtaken the results of the last messages, and vouches for all of them. */
	sender->delivered = sender->source.read;
	return 0;
}

static int explain_loss(struct sender *sender, int error)
{
	uint64_t confirmed = sender->delivered;
	char share[2 * TEXT_SIZE], reason[SESSION_LOSS_SIZE];

	if (error == -EINTR)
		return error;
	session_describe_loss(reason, &sender->report, sender->options.host, error,
			      &sender->options, sender->end.ctx);
	/* What a message that failed has moved was confirmed part by part. Messages end in any order, so that the trailer's
	 * end says nothing about the blocks before it. */
	for (uint32_t i = 0; i < sender->end.pieces; i++)
		confirmed +=
			sender->end.ring[i].state == PIECE_ENDED ? sender->end.ring[i].moved : 0;
	sender->delivered = confirmed;
	if (sender->source.ended && confirmed == sender->source.read)
		return report_fail(
			&sender->report, error,
			"%s; it has confirmed all of the data, but not that it was written",
			reason);
	if (sender->source.stream)
		text_bytes(confirmed, share);
	else
		text_share(confirmed, sender->source.size, share);
	return report_fail(&sender->report, error, "%s; it had confirmed %s", reason, share);
}

/* Sends until the verdict has arrived. */
static int transfer(struct sender *sender)
{
	struct file_end *end = &sender->end;
	int rc;

	rc = file_end_recv(end, &end->verdict, PROTOCOL_VERDICT);
	while (rc == 0) {
		rc = fill(sender);
		if (rc == 0)
			rc = wait(sender);
		/* A verdict outranks every other end: the receiver closes after it. */
		if (end->verdict.state == PIECE_ENDED && end->verdict.status == 0) {
			reap(sender);
			return judge(sender);
		}
		if (rc == 0)
			rc = end->gone;
		if (rc == 0)
			rc = reap(sender);
		progress_update(&sender->progress, sender->delivered, session_now());
	}
	reap(sender);
	return explain_loss(sender, end->gone ? end->gone : rc);
}

static int run(struct sender *sender)
{
	uint64_t started;
	int rc;

	rc = source_open(&sender->source, &sender->report, sender->options.file);
	if (rc)
		return rc;
	rc = meet_connect(&sender->report, &sender->options, &sender->rendezvous);
	if (rc)
		return rc;
	rc = file_end_open(&sender->end, &sender->report, &sender->options, sender->rendezvous,
			   sender->options.scheme, sender->options.block,
			   protocol_messages(sender->source.size, sender->options.block));
	if (rc)
		return rc;
	rc = exchange(sender);
	if (rc)
		return rc;
	gw_rendezvous_close(sender->rendezvous);
	sender->rendezvous = NULL;

	started = session_now();
	progress_start(&sender->progress, sender->options.quiet,
		       sender->source.stream ? 0 : sender->source.size, started);
	rc = transfer(sender);
	progress_clear(&sender->progress);
	sender->report.seconds = session_seconds(session_now() - started);
	sender->report.bytes = sender->delivered;
	return rc;
}

static void conclude(struct sender *sender)
{
	struct report *report = &sender->report;
	char size[TEXT_SIZE], rate[TEXT_SIZE];

	report->have_crc32 = true;
	report->crc32 = sender->source.crc32;
	snprintf(report->outcome, sizeof(report->outcome),
		 "sent %s to %s in %.2f s (%s), crc32 %08x, verified by the receiver%s",
		 text_bytes(sender->source.read, size), sender->options.host, report->seconds,
		 text_rate((double)sender->source.read * 8 / report->seconds, rate),
		 sender->source.crc32, report->icrc ? "" : ", ICRC off");
}

static int send_run(int argc, char **argv)
{
	struct sender sender = { .source = { .fd = -1 } };
	struct report *report = &sender.report;
	int rc;

	report->command = argv[0];
	rc = options_parse(argc, argv, true, report, &sender.options);
	if (rc == 0) {
		snprintf(report->peer, sizeof(report->peer), "%s", sender.options.host);
		report->scheme = sender.options.scheme->name;
		rc = session_prepare(report);
	}
	if (rc == 0)
		rc = run(&sender);
	report_sample(report, sender.end.ctx, sender.end.channel, "sent_packets");
	if (rc == 0)
		conclude(&sender);
	else
		session_explain_signal(report, rc);
	file_end_close(&sender.end);
	gw_rendezvous_close(sender.rendezvous);
	source_close(&sender.source);
	return report_finish(report);
}

const struct command command_send = {
	.name = "send",
	.summary = "send a file to a host where `godwit recv` waits",
	.usage =
		"usage: godwit send FILE HOST [OPTION ...]\n"
		"\n"
		"Sends FILE to HOST, where `godwit recv` waits for it. FILE may be -, standard input.\n"
		"\n"
		"  --bind ADDR     send from this address of this host\n"
		"  --block SIZE    bytes in a message, 4K to 16M (default 1M)\n"
		"  --congestion C  controller: default, long-haul, swift, or none for a private link\n"
		"  --rate RATE     no faster than RATE: 800M, 1Gbit\n"
		"  --scheme S      how losses are repaired: sr: sent again; ec: by erasure coding; auto: the better of\n"
		"                  both, message by message (default)\n" OPTIONS_USAGE_WIRE
			OPTIONS_USAGE_ICRC OPTIONS_USAGE_SEAL OPTIONS_USAGE,
	.run = send_run,
};
