/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit send: reads the file block by block into the ring's pieces and sends each as one message.
 * Block i uses piece i mod the size of the ring, so a piece is filled again only after its last
 * message was delivered. The trailer follows. The receive for the verdict is posted first, because the receiver
 * may report a failure at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <isa-l.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
#include "tools/text.h"

struct sender {
	struct options options;
	struct report report;
	struct gw_rendezvous *rendezvous;
	struct file_end end;
	struct progress progress;
	int fd;
	uint32_t mode;
	uint64_t size;
	uint64_t blocks;
	/* blocks read, and those of them posted */
	uint64_t read;
	uint64_t posted;
	/* bytes of the file that the receiver has confirmed */
	uint64_t delivered;
	uint32_t crc32;
	bool trailer_posted;
};

static int open_source(struct sender *sender)
{
	const char *path = sender->options.file;
	struct stat st;

	/* O_NONBLOCK: opening a pipe without a writer would block. */
	sender->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (sender->fd < 0)
		return report_fail(&sender->report, -errno, "cannot read %s: %s", path,
				   strerror(errno));
	if (fstat(sender->fd, &st))
		return report_fail(&sender->report, -errno, "cannot read %s: %s", path,
				   strerror(errno));
	if (S_ISDIR(st.st_mode))
		return report_fail(&sender->report, -EISDIR,
				   "%s is a directory; only a file can be sent", path);
	if (!S_ISREG(st.st_mode))
		return report_fail(&sender->report, -EINVAL, "%s is not a regular file", path);
	posix_fadvise(sender->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	sender->size = (uint64_t)st.st_size;
	sender->mode = st.st_mode & 0777;
	sender->blocks = session_blocks(sender->size, sender->options.block);
	return 0;
}

/* Sends what describes the file and this end, and connects to what comes back. */
static int exchange(struct sender *sender)
{
	struct protocol_hello hello = { .size = sender->size,
					.block = sender->options.block,
					.mode = sender->mode,
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

static int read_block(struct sender *sender, uint8_t *out, uint64_t offset, uint64_t length)
{
	char share[2 * TEXT_SIZE];
	uint64_t done = 0;

	while (done < length) {
		ssize_t n = pread(sender->fd, out + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return report_fail(&sender->report, -errno, "cannot read %s: %s",
					   sender->options.file, strerror(errno));
		if (n == 0)
			return report_fail(&sender->report, -EIO,
					   "%s shrank while it was being sent: %s are left",
					   sender->options.file,
					   text_share(offset + done, sender->size, share));
		done += (uint64_t)n;
	}
	sender->crc32 = crc32_gzip_refl(sender->crc32, out, length);
	return 0;
}

static int post_trailer(struct sender *sender)
{
	struct protocol_trailer trailer = { .size = sender->size, .crc32 = sender->crc32 };
	struct file_end *end = &sender->end;
	int rc;

	protocol_encode_trailer(&trailer, end->trailer.memory);
	rc = file_end_send(end, &end->trailer, PROTOCOL_TRAILER);
	sender->trailer_posted = rc == 0;
	return rc;
}

/* Fills and posts every piece that is free, then the trailer. */
static int fill(struct sender *sender)
{
	struct file_end *end = &sender->end;
	int rc = 0;

	while (sender->posted < sender->blocks) {
		struct piece *piece = file_end_piece(end, sender->posted);
		uint64_t offset = sender->posted * sender->options.block;
		uint64_t length =
			session_block_length(sender->size, sender->options.block, sender->posted);

		if (piece->state != PIECE_IDLE)
			return 0;
		if (sender->read == sender->posted) {
			rc = read_block(sender, piece->memory, offset, length);
			if (rc)
				return rc;
			sender->read++;
		}
		rc = file_end_send(end, piece, length);
		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		sender->posted++;
		/* Reading may be slow: let the earlier blocks go on meanwhile. */
		file_end_poll(end);
	}
	if (!sender->trailer_posted)
		rc = post_trailer(sender);
	return rc == -EAGAIN ? 0 : rc;
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
	if (verdict.crc32 != sender->crc32)
		return report_fail(&sender->report, -EILSEQ,
				   "%s computed crc32 %08x, but %08x was sent", host, verdict.crc32,
				   sender->crc32);
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
	if (confirmed == sender->size)
		return report_fail(
			&sender->report, error,
			"%s; it has confirmed all of the file, but not that it was written",
			reason);
	return report_fail(&sender->report, error, "%s; it had confirmed %s", reason,
			   text_share(confirmed, sender->size, share));
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
			rc = file_end_wait(end);
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

	rc = open_source(sender);
	if (rc)
		return rc;
	rc = meet_connect(&sender->report, &sender->options, &sender->rendezvous);
	if (rc)
		return rc;
	rc = file_end_open(&sender->end, &sender->report, &sender->options,
			   gw_rendezvous_local(sender->rendezvous), sender->options.scheme,
			   sender->options.block, sender->blocks);
	if (rc)
		return rc;
	rc = exchange(sender);
	if (rc)
		return rc;
	gw_rendezvous_close(sender->rendezvous);
	sender->rendezvous = NULL;

	started = session_now();
	progress_start(&sender->progress, sender->options.quiet, sender->size, started);
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
	report->crc32 = sender->crc32;
	snprintf(report->outcome, sizeof(report->outcome),
		 "sent %s to %s in %.2f s (%s), crc32 %08x, verified by the receiver%s",
		 text_bytes(sender->size, size), sender->options.host, report->seconds,
		 text_rate((double)sender->size * 8 / report->seconds, rate), sender->crc32,
		 report->icrc ? "" : ", ICRC off");
}

static int send_run(int argc, char **argv)
{
	struct sender sender = { .fd = -1 };
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
	if (sender.fd >= 0)
		close(sender.fd);
	return report_finish(report);
}

const struct command command_send = {
	.name = "send",
	.summary = "send a file to a host where `godwit recv` waits",
	.usage =
		"usage: godwit send FILE HOST [OPTION ...]\n"
		"\n"
		"Sends FILE to HOST, where `godwit recv` waits for it.\n"
		"\n"
		"  --bind ADDR     send from this address of this host\n"
		"  --block SIZE    bytes in a message, 4K to 16M (default 1M)\n"
		"  --congestion C  controller: default, long-haul, swift, or none for a private link\n"
		"  --rate RATE     no faster than RATE: 800M, 1Gbit\n"
		"  --scheme S      how losses are repaired: sr: sent again (default); ec: by erasure coding;\n"
		"                  auto: the better of both, message by message\n" OPTIONS_USAGE_WIRE
			OPTIONS_USAGE_ICRC OPTIONS_USAGE,
	.run = send_run,
};
