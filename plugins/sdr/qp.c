/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.c: a queue pair is one of Godwit's, with arrays for its requests. Its description for the peer is
 *
 *	0   'S' 'D' 'R' 1
 *	4   u8 logarithm of the chunk's size
 *	5   random bytes if packets are sealed, else zeros
 *	16  Godwit's own description
 *
 * An offset in chunks must be the start of a packet, so the packet size is a power of two: the largest that the fabric
 * supports, up to the mtu and up to a chunk.
 *
 * A packet's immediate names its message in 10 bits and its place in 18, as published. A queue pair with more than 1024
 * messages takes bits from the place: messages have half as many packets for each doubling of their number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "state.h"

/* Bits of the immediate: for a message's number as published and at most, for fragments of the program's immediate. */
#define LOG_MSGS     10
#define LOG_MSGS_MAX 16
#define USER_BITS    4
/* Logarithm of SDR_MTU_64's 64 bytes, the smallest packet. */
#define LOG_MTU_FIRST 6
#define LOG_CHUNK_MAX 31
#define LOG_BYTES_MAX 63
/* Most packets that a bit of Godwit's own bitmap of chunks stands for. */
#define GW_CHUNK_PACKETS_MAX 64
/* Where the random bytes begin in a description. */
#define INFO_RANDOM 5

static const uint8_t magic[4] = { 'S', 'D', 'R', 1 };

/* Returns what is wrong with the attributes, or NULL. */
static const char *check_attr(const struct sdr_qp_attr *attr)
{
	if (attr->mtu > SDR_MTU_4096)
		return "the mtu is none of enum sdr_mtu";
	if (attr->max_log_num_msgs > LOG_MSGS_MAX)
		return "max_log_num_msgs is over 16";
	if (attr->max_in_flight_log_bytes > LOG_BYTES_MAX)
		return "max_in_flight_log_bytes is over 63; it is a logarithm";
	if (attr->bitmap_chunk_size_log_bytes < LOG_MTU_FIRST ||
	    attr->bitmap_chunk_size_log_bytes > LOG_CHUNK_MAX)
		return "bitmap_chunk_size_log_bytes is not 6 to 31";
	if (!attr->send_enable && !attr->recv_enable)
		return "it can neither send nor receive";
	return NULL;
}

static uint32_t slot_bits(const struct sdr_qp_attr *attr)
{
	return attr->max_log_num_msgs > LOG_MSGS ? attr->max_log_num_msgs : LOG_MSGS;
}

static uint32_t packet_bits(const struct sdr_qp_attr *attr)
{
	return 32 - USER_BITS - slot_bits(attr);
}

/* Logarithm of the largest packet: the mtu, or a chunk if that is smaller. */
static uint32_t packet_log(const struct sdr_qp_attr *attr)
{
	uint32_t mtu_log = LOG_MTU_FIRST + attr->mtu;

	return mtu_log < attr->bitmap_chunk_size_log_bytes ? mtu_log
							   : attr->bitmap_chunk_size_log_bytes;
}

/* Creates the queue pair of Godwit, with the largest payload that the fabric accepts. A failure is told. */
static int create_gw(struct sdr_qp *qp, const struct sdr_qp_attr *attr)
{
	struct gw_qp_attr gw_attr = { .slots = 1u << attr->max_log_num_msgs,
				      .slot_bits = (uint8_t)slot_bits(attr),
				      .packet_bits = (uint8_t)packet_bits(attr),
				      .user_bits = USER_BITS,
				      .payload_divides = 1u << qp->chunk_log };
	struct gw_seal seal;
	int error = qp->ctx->secret_file ? seal_placeholder(&seal) : 0;

	if (error)
		return error;
	gw_attr.seal = qp->ctx->secret_file ? &seal : NULL;
	error = -EINVAL;
	for (uint32_t log = packet_log(attr); log >= LOG_MTU_FIRST && error == -EINVAL; log--) {
		uint32_t packets = 1u << (qp->chunk_log - log);

		gw_attr.payload = 1u << log;
		gw_attr.chunk_packets =
			packets < GW_CHUNK_PACKETS_MAX ? packets : GW_CHUNK_PACKETS_MAX;
		error = gw_qp_create(qp->ctx->gw, &gw_attr, &qp->gw);
	}
	if (error == -ENOTSUP && gw_attr.seal)
		complain("sdr_qp_create: GODWIT_SECRET_FILE is set, and %s",
			 gw_context_error(qp->ctx->gw));
	else if (error)
		complain_gw("sdr_qp_create", error);
	return error;
}

/* Returns the most bytes in a message. Those of all messages together are not limited. */
static uint64_t longest_message(const struct sdr_qp_attr *attr)
{
	size_t log = packet_bits(attr) + packet_log(attr);

	return UINT64_C(1) << (attr->max_in_flight_log_bytes < log ? attr->max_in_flight_log_bytes
								   : log);
}

static int make_handles(struct sdr_qp *qp, uint32_t count)
{
	size_t chunks = (size_t)((qp->message_max - 1) >> qp->chunk_log) + 1;

	qp->sends = calloc(count, sizeof(*qp->sends));
	qp->recvs = calloc(count, sizeof(*qp->recvs));
	qp->bytes = calloc(count, chunks);
	if (!qp->sends || !qp->recvs || !qp->bytes)
		return -ENOMEM;
	qp->handles = count;
	for (uint32_t i = count; i-- > 0;) {
		qp->sends[i].qp = qp;
		qp->sends[i].next_free = qp->sends_free;
		qp->sends_free = &qp->sends[i];
		qp->recvs[i].qp = qp;
		qp->recvs[i].bytes = qp->bytes + i * chunks;
		qp->recvs[i].next_free = qp->recvs_free;
		qp->recvs_free = &qp->recvs[i];
	}
	return 0;
}

/* Limits the rate of a connected queue pair. There is no congestion control: the receiver's buffer limits the window. */
static int limit_rate(struct sdr_qp *qp)
{
	const struct gw_flow_attr attr = { .congestion = "none",
					   .rate_bps = UINT64_C(1000) * qp->rate_limit_kbps };

	return qp->rate_limit_kbps ? gw_flow_open(qp->gw, &attr, &qp->flow) : 0;
}

void qp_unlimit(struct sdr_qp *qp)
{
	if (qp->flow)
		gw_flow_close(qp->flow);
	qp->flow = NULL;
}

void qp_free(struct sdr_qp *qp)
{
	free(qp->sends);
	free(qp->recvs);
	free(qp->bytes);
	free(qp);
}

struct sdr_qp *sdr_qp_create(struct sdr_context *ctx, struct sdr_qp_attr *attr)
{
	const char *wrong = !ctx ? "no context" : !attr ? "no attributes" : check_attr(attr);
	struct sdr_qp *qp;
	int error;

	if (wrong) {
		complain("sdr_qp_create: %s", wrong);
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->ctx = ctx;
	qp->chunk_log = attr->bitmap_chunk_size_log_bytes;
	qp->mtu = 1u << packet_log(attr);
	qp->message_max = longest_message(attr);
	qp->send_enable = attr->send_enable;
	qp->recv_enable = attr->recv_enable;
	qp->rate_limit_kbps = attr->rate_limit;
	error = make_handles(qp, 1u << attr->max_log_num_msgs);
	if (error) {
		complain("sdr_qp_create: %s", strerror(-error));
		qp_free(qp);
		return NULL;
	}
	service_enter(ctx);
	error = create_gw(qp, attr);
	if (error) {
		qp_free(qp);
		qp = NULL;
	} else {
		qp->next = ctx->qps;
		ctx->qps = qp;
	}
	service_leave(ctx, false);
	return qp;
}

int sdr_qp_destroy(struct sdr_qp *qp)
{
	struct sdr_context *ctx;
	struct sdr_qp **link;

	if (!qp)
		return complain("sdr_qp_destroy: no queue pair");
	ctx = qp->ctx;
	service_enter(ctx);
	for (link = &ctx->qps; *link != qp; link = &(*link)->next)
		;
	*link = qp->next;
	qp_unlimit(qp);
	gw_qp_close(qp->gw);
	/* Ends every request now: their callbacks use memory that is freed below. */
	gw_progress(ctx->gw);
	for (uint32_t i = 0; i < qp->handles; i++) {
		if (qp->sends[i].open)
			gw_send_close(qp->sends[i].gw);
		if (qp->sends[i].open && qp->sends[i].mr)
			qp->sends[i].mr->users--;
		if (qp->recvs[i].open)
			gw_recv_close(qp->recvs[i].gw);
	}
	service_leave(ctx, false);
	qp_free(qp);
	return SDR_SUCCESS;
}

int sdr_qp_info_size_get(struct sdr_qp *qp, size_t *size)
{
	if (!qp || !size)
		return complain("sdr_qp_info_size_get: no %s", qp ? "place for it" : "queue pair");
	*size = INFO_BYTES;
	return SDR_SUCCESS;
}

/* Writes the description, once: the keys of sealed packets follow from every byte of it. */
static int describe(struct sdr_qp *qp)
{
	size_t random = qp->ctx->secret_file ? INFO_HEADER - INFO_RANDOM : 0;
	struct gw_qp_info gw_info;
	int error;

	if (qp->info[0])
		return 0;
	error = gw_qp_info(qp->gw, &gw_info);
	if (error)
		return error;
	if (getrandom(qp->info + INFO_RANDOM, random, 0) != (ssize_t)random)
		return -errno;
	qp->info[4] = (uint8_t)qp->chunk_log;
	memcpy(qp->info + INFO_HEADER, &gw_info, sizeof(gw_info));
	memcpy(qp->info, magic, sizeof(magic));
	return 0;
}

int sdr_qp_info_get(struct sdr_qp *qp, void *info)
{
	int error;

	if (!qp || !info)
		return complain("sdr_qp_info_get: no %s", qp ? "place for it" : "queue pair");
	service_enter(qp->ctx);
	error = describe(qp);
	service_leave(qp->ctx, false);
	if (error)
		return complain_gw("sdr_qp_info_get", error);
	memcpy(info, qp->info, INFO_BYTES);
	return SDR_SUCCESS;
}

static int connect_gw(struct sdr_qp *qp, const uint8_t *peer)
{
	struct gw_qp_info gw_info;
	int error;

	memcpy(&gw_info, peer + INFO_HEADER, sizeof(gw_info));
	error = gw_qp_connect(qp->gw, &gw_info);
	if (!error)
		error = limit_rate(qp);
	if (error == -EPERM)
		return complain(
			"sdr_qp_connect: %s: set GODWIT_SECRET_FILE at both ends or at none",
			gw_context_error(qp->ctx->gw));
	if (error && error != -EISCONN && gw_context_error(qp->ctx->gw)[0])
		return complain("sdr_qp_connect: %s", gw_context_error(qp->ctx->gw));
	return error ? complain_gw("sdr_qp_connect", error) : SDR_SUCCESS;
}

int sdr_qp_connect(struct sdr_qp *qp, void *remote_info)
{
	const uint8_t *in = remote_info;
	int error;

	if (!qp || !in)
		return complain("sdr_qp_connect: no %s", qp ? "peer" : "queue pair");
	if (memcmp(in, magic, sizeof(magic)) != 0)
		return complain(
			"sdr_qp_connect: these bytes do not describe a queue pair of this library");
	if (in[4] != qp->chunk_log)
		return complain("sdr_qp_connect: the peer's chunks have 2^%u bytes, ours 2^%u",
				in[4], qp->chunk_log);
	service_enter(qp->ctx);
	error = describe(qp);
	if (error)
		error = complain_gw("sdr_qp_connect", error);
	else if (qp->ctx->secret_file)
		error = seal_connect(qp, in);
	if (!error)
		error = connect_gw(qp, in);
	service_leave(qp->ctx, false);
	return error ? SDR_ERROR : SDR_SUCCESS;
}
