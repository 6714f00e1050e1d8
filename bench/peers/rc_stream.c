/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rc_stream: how long messages take on a reliable connection of an RDMA device, one at a time.
 *
 * Usage: rc_stream --serve --device NAME
 *	  rc_stream HOST --device NAME [--messages N] [--seconds S] [--message SIZE] [--timeout N]
 *	  both: [--port N]
 *
 * A message is one RDMA write; it is there when its completion is. --timeout is the local ACK timeout as verbs have it,
 * 4.096 us times 2^N; retries are as many as there can be. A write that ends in error was not delivered: its time counts
 * as far as the error, and the queue pairs of both ends start anew. Both sleep on events: a guest has one processor,
 * which the kernel needs.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"
#include "times.h"

#define PORT	   1
#define RETRIES	   7 /* the most there can be; soft-RoCE takes it for without end */
#define FIRST_PSN  1
#define HOP_LIMIT  64
#define ATTEMPTS   10
#define TIMEOUT_MS 20000 /* of a write; seven of the longest sensible timeouts are shorter */

struct options {
	struct ends ends;
	const char *device;
	uint64_t message;
	uint64_t timeout;
};

/* What the ends tell each other: the client first, then the server, then the client once for each new start. */
enum { HELLO_QPN, HELLO_GID, HELLO_GID_LOW, HELLO_ADDRESS, HELLO_KEY, HELLO_SIZE, HELLO_WORDS };
enum { AGAIN = 1, OVER };

struct rc {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_gid_entry gid;
	struct ibv_port_attr port;
	uint64_t peer[HELLO_WORDS];
	uint8_t timeout;
};

static void *must(void *object, const char *what)
{
	if (!object)
		die(what, errno);
	return object;
}

static void must_be_zero(int error, const char *what)
{
	if (error)
		die(what, error > 0 ? error : errno);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "RDMA devices");
	struct ibv_context *context = NULL;

	for (size_t i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = must(ibv_open_device(list[i]), name);
	ibv_free_device_list(list);
	if (!context)
		die_text(name, "no such RDMA device");
	return context;
}

/* The first that is RoCE v2 over IPv4, whose addresses are written ::ffff:a.b.c.d. */
static struct ibv_gid_entry find_gid(struct ibv_context *context, const char *device)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entries[32];
	ssize_t count = ibv_query_gid_table(context, entries, 32, 0);

	for (ssize_t i = 0; i < count; i++)
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(entries[i].gid.raw, mapped, sizeof(mapped)))
			return entries[i];
	die_text(device, "has no RoCE v2 GID of IPv4");
}

static struct rc open_rc(const char *device, uint64_t size, uint8_t timeout)
{
	struct rc rc = { .context = open_device(device), .timeout = timeout };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1
	};

	rc.gid = find_gid(rc.context, device);
	must_be_zero(ibv_query_port(rc.context, PORT, &rc.port), "port");
	rc.channel = must(ibv_create_comp_channel(rc.context), "event channel");
	rc.cq = must(ibv_create_cq(rc.context, 16, NULL, rc.channel, 0), "completion queue");
	rc.pd = must(ibv_alloc_pd(rc.context), "protection domain");
	rc.mr = must(ibv_reg_mr(rc.pd, working_set(size), size,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
		     "memory");
	attr.send_cq = attr.recv_cq = rc.cq;
	rc.qp = must(ibv_create_qp(rc.pd, &attr), "queue pair");
	return rc;
}

/* From whatever state it is in to one that sends and receives, with the device's path MTU. */
static void start(struct rc *rc)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int error = 0;

	must_be_zero(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE), "to RESET");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
				     .port_num = PORT,
				     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	must_be_zero(
		ibv_modify_qp(rc->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"to INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = rc->port.active_mtu,
		.dest_qp_num = (uint32_t)rc->peer[HELLO_QPN],
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = PORT,
			     .grh = { .sgid_index = (uint8_t)rc->gid.gid_index,
				      .hop_limit = HOP_LIMIT } },
	};
	memcpy(attr.ah_attr.grh.dgid.raw, &rc->peer[HELLO_GID], sizeof(union ibv_gid));
	/* The kernel resolves the neighbour here, and gives up soon where the host is busy. */
	for (int i = 0; i < ATTEMPTS; i++) {
		error = ibv_modify_qp(rc->qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER);
		if (error != ETIMEDOUT)
			break;
	}
	must_be_zero(error, "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = rc->timeout;
	attr.retry_cnt = attr.rnr_retry = RETRIES;
	attr.sq_psn = FIRST_PSN;
	attr.max_rd_atomic = 1;
	must_be_zero(ibv_modify_qp(rc->qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC),
		     "to RTS");
}

static void describe(const struct rc *rc, uint64_t size, uint64_t hello[HELLO_WORDS])
{
	hello[HELLO_QPN] = rc->qp->qp_num;
	memcpy(&hello[HELLO_GID], rc->gid.gid.raw, sizeof(union ibv_gid));
	hello[HELLO_ADDRESS] = (uintptr_t)rc->mr->addr;
	hello[HELLO_KEY] = rc->mr->rkey;
	hello[HELLO_SIZE] = size;
}

static void serve(const struct options *o)
{
	int control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0));
	uint64_t hello[HELLO_WORDS], peer[HELLO_WORDS], word;
	struct rc rc;

	if (!hear(control, peer, HELLO_WORDS))
		die_text("the other end", "not an rc_stream");
	rc = open_rc(o->device, peer[HELLO_SIZE], (uint8_t)o->timeout);
	memcpy(rc.peer, peer, sizeof(peer));
	start(&rc);
	describe(&rc, peer[HELLO_SIZE], hello);
	tell(control, hello, HELLO_WORDS);
	while (hear(control, &word, 1) && word == AGAIN) {
		start(&rc);
		tell(control, &word, 1);
	}
}

/* Sleeps until there is a completion. False if none came in time. */
static bool next_completion(struct rc *rc, struct ibv_wc *wc)
{
	struct pollfd waiting = { .fd = rc->channel->fd, .events = POLLIN };
	struct ibv_cq *source;
	void *context;

	for (;;) {
		if (ibv_poll_cq(rc->cq, 1, wc) > 0)
			return true;
		must_be_zero(ibv_req_notify_cq(rc->cq, 0), "notification");
		/* One may have come between the look and the request. */
		if (ibv_poll_cq(rc->cq, 1, wc) > 0)
			return true;
		if (poll(&waiting, 1, TIMEOUT_MS) <= 0)
			return false;
		must_be_zero(ibv_get_cq_event(rc->channel, &source, &context), "event");
		ibv_ack_cq_events(source, 1);
	}
}

/* NULL when it arrived, otherwise why not. */
static const char *write_message(struct rc *rc, uint64_t size)
{
	struct ibv_sge piece = { .addr = (uintptr_t)rc->mr->addr,
				 .length = (uint32_t)size,
				 .lkey = rc->mr->lkey };
	struct ibv_send_wr request = { .opcode = IBV_WR_RDMA_WRITE,
				       .sg_list = &piece,
				       .num_sge = 1,
				       .wr.rdma = { .remote_addr = rc->peer[HELLO_ADDRESS],
						    .rkey = (uint32_t)rc->peer[HELLO_KEY] } };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	must_be_zero(ibv_post_send(rc->qp, &request, &bad), "write");
	if (!next_completion(rc, &wc))
		return "no completion";
	return wc.status == IBV_WC_SUCCESS ? NULL : ibv_wc_status_str(wc.status);
}

static void start_anew(struct rc *rc, int control)
{
	uint64_t word = AGAIN;
	struct ibv_wc left;

	tell(control, &word, 1);
	if (!hear(control, &word, 1))
		die_text("the other end", "went away");
	start(rc);
	while (ibv_poll_cq(rc->cq, 1, &left) > 0)
		;
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	struct rc rc = open_rc(o->device, o->message, (uint8_t)o->timeout);
	uint64_t hello[HELLO_WORDS], word = OVER, whole = 0, failed = 0;
	uint64_t begin;
	const char *why = "";
	struct times times;

	describe(&rc, o->message, hello);
	tell(control, hello, HELLO_WORDS);
	if (!hear(control, rc.peer, HELLO_WORDS))
		die_text(o->ends.host, "the server went away");
	start(&rc);
	begin = now_ns();
	times_open(&times, o->ends.messages, o->ends.seconds_ns);
	while (times_next(&times)) {
		const char *error = write_message(&rc, o->message);

		times_end(&times);
		if (!error) {
			whole++;
			continue;
		}
		why = error;
		failed++;
		start_anew(&rc, control);
	}
	printf("{\"peer\": \"rc_stream\", \"path_mtu\": %u, \"timeout\": %lu, \"bytes\": %lu, "
	       "\"failed\": %lu, \"why\": \"%s\", \"delivered\": %.9f",
	       128U << rc.port.active_mtu, o->timeout, whole * o->message, failed, why,
	       (double)whole / (double)(whole + failed));
	print_seconds("seconds", now_ns() - begin);
	times_print(&times);
	printf("}\n");
	tell(control, &word, 1);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		{ "seconds", required_argument, NULL, 't' },
		{ "messages", required_argument, NULL, 'M' },
		{ "device", required_argument, NULL, 'd' },
		{ "message", required_argument, NULL, 'm' },
		{ "timeout", required_argument, NULL, 'T' },
		{ 0 },
	};
	struct options o = { .ends = ENDS_DEFAULTS, .message = 1 << 20, .timeout = 14 };
	int option;

	o.ends.messages = 100;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'd':
			o.device = optarg;
			break;
		case 'm':
			o.message = parse_size("--message", optarg);
			break;
		case 'T':
			o.timeout = parse_size("--timeout", optarg);
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv) || !o.device || !o.message || o.message > 1 << 30 ||
	    o.timeout > 31)
		die_text("usage", "rc_stream --serve --device NAME | HOST --device NAME [options]; "
				  "messages of up to 1G, timeouts of up to 31");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
