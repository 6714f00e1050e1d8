/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's end of the wire test: an ordinary libibverbs program on the soft-RoCE device, which
 * knows nothing of this project's own packets. What completes here was accepted by the kernel.
 *
 *	rxe_peer DEVICE ADDRESS PATH_MTU DIRECTORY
 *
 * One UC queue pair takes and posts writes, one UD queue pair takes and sends datagrams. Each has a
 * completion queue for what it receives and another for what it sends, all on one event channel: the
 * guest has one CPU, so a loop that polls would keep the kernel's own work waiting.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "meet.h"
#include "plan.h"

#define PORT	       1
#define GRH_SIZE       40
#define UC_PSN	       0xfffff0 /* wraps during the test */
#define UD_QKEY	       0x1a2b3c4d
#define COMPLETION_MS  3000
#define GID_WAIT_TRIES 500
#define GID_WAIT_NS    10000000

struct end {
	struct ibv_qp *qp;
	struct ibv_cq *received;
	struct ibv_cq *sent;
};

struct peer {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct end uc;
	struct end ud;
	struct ibv_mr *target;	/* the other side's writes land here */
	struct ibv_mr *inbox;	/* its datagrams here, a cell each */
	struct ibv_mr *staging; /* what we send is gathered from here */
	size_t cell_size;
	union ibv_gid gid;
	uint8_t gid_index;
	uint32_t path_mtu;
	const char *label;
};

static void *must(void *object, const char *what)
{
	if (!object)
		report_fatal("%s: %s", what, strerror(errno));
	return object;
}

static void must_return_zero(int rc, const char *what)
{
	if (rc != 0)
		report_fatal("%s: %s", what, strerror(rc > 0 ? rc : errno));
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = NULL;

	for (size_t i = 0; list[i] && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = must(ibv_open_device(list[i]), "ibv_open_device");
	ibv_free_device_list(list);
	if (!context)
		report_fatal("no RDMA device %s", name);
	return context;
}

/* RoCE writes an IPv4 address as ::ffff:a.b.c.d. */
static union ibv_gid gid_of(const char *address)
{
	union ibv_gid gid = { 0 };

	if (inet_pton(AF_INET6, address, gid.raw) == 1)
		return gid;
	gid.raw[10] = gid.raw[11] = 0xff;
	if (inet_pton(AF_INET, address, gid.raw + 12) != 1)
		report_fatal("not an address: %s", address);
	return gid;
}

/* The kernel fills the table a moment after the address was set. */
static uint8_t find_gid(struct ibv_context *context, const union ibv_gid *wanted)
{
	const struct timespec interval = { .tv_nsec = GID_WAIT_NS };
	struct ibv_gid_entry entries[32];
	ssize_t count;

	for (int try = 0; try < GID_WAIT_TRIES; try++) {
		count = ibv_query_gid_table(context, entries, 32, 0);
		for (ssize_t i = 0; i < count; i++)
			if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
			    memcmp(&entries[i].gid, wanted, sizeof(*wanted)) == 0)
				return (uint8_t)entries[i].gid_index;
		nanosleep(&interval, NULL);
	}
	report_fatal("the device has no RoCE v2 GID of this address");
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	switch (bytes) {
	case 1024:
		return IBV_MTU_1024;
	case 2048:
		return IBV_MTU_2048;
	case 4096:
		return IBV_MTU_4096;
	default:
		report_fatal("no path MTU of %u bytes", bytes);
	}
}

static struct ibv_mr *register_memory(struct peer *peer, size_t size, int access)
{
	uint8_t *memory = must(malloc(size), "malloc");

	plan_memory_before(memory, size);
	return must(ibv_reg_mr(peer->pd, memory, size, access), "ibv_reg_mr");
}

static struct end create_end(struct peer *peer, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = PLAN_MAX,
			 .max_recv_wr = PLAN_MAX,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.qkey = UD_QKEY,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct end end;

	end.received = must(ibv_create_cq(peer->context, PLAN_MAX, NULL, peer->channel, 0), "CQ");
	end.sent = must(ibv_create_cq(peer->context, PLAN_MAX, NULL, peer->channel, 0), "CQ");
	init.recv_cq = end.received;
	init.send_cq = end.sent;
	end.qp = must(ibv_create_qp(peer->pd, &init), "ibv_create_qp");
	mask |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	must_return_zero(ibv_modify_qp(end.qp, &attr, mask), "to INIT");
	return end;
}

static struct ibv_ah_attr route_to(const struct peer *peer, const struct meet_end *other)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = gid_of(other->address),
			 .sgid_index = peer->gid_index,
			 .hop_limit = 64 },
	};
}

#define RTR_ATTEMPTS 10

static void connect_uc(struct peer *peer, const struct meet_end *other)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_code(peer->path_mtu),
		.dest_qp_num = other->uc_qpn,
		.rq_psn = other->uc_psn,
		.sq_psn = UC_PSN,
		.ah_attr = route_to(peer, other),
	};

	int error;

	/* The kernel resolves the neighbour here, and gives up soon where the host is busy. */
	for (int i = 0; i < RTR_ATTEMPTS; i++) {
		error = ibv_modify_qp(peer->uc.qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN);
		if (error != ETIMEDOUT)
			break;
	}
	must_return_zero(error, "UC to RTR");
	attr.qp_state = IBV_QPS_RTS;
	must_return_zero(ibv_modify_qp(peer->uc.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
			 "UC to RTS");
}

static void activate_ud(struct peer *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	must_return_zero(ibv_modify_qp(peer->ud.qp, &attr, IBV_QP_STATE), "UD to RTR");
	attr.qp_state = IBV_QPS_RTS;
	must_return_zero(ibv_modify_qp(peer->ud.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
			 "UD to RTS");
}

/* As many as the queues hold: a faulty packet, if accepted, must find a receive and show itself. */
static void post_receives(struct peer *peer)
{
	for (size_t i = 0; i < PLAN_MAX; i++) {
		struct ibv_sge cell = {
			.addr = (uintptr_t)peer->inbox->addr + i * peer->cell_size,
			.length = (uint32_t)peer->cell_size,
			.lkey = peer->inbox->lkey,
		};
		struct ibv_recv_wr bare = { .wr_id = i }, *bad;
		struct ibv_recv_wr full = { .wr_id = i, .sg_list = &cell, .num_sge = 1 };

		must_return_zero(ibv_post_recv(peer->uc.qp, &bare, &bad), "UC receive");
		must_return_zero(ibv_post_recv(peer->ud.qp, &full, &bad), "UD receive");
	}
}

/* Sleeps on the channel until `cq` has a completion. False if none came in time. */
static bool next_completion(struct peer *peer, struct ibv_cq *cq, int limit_ms, struct ibv_wc *wc)
{
	struct pollfd waiting = { .fd = peer->channel->fd, .events = POLLIN };
	struct ibv_cq *source;
	void *context;

	for (;;) {
		if (ibv_poll_cq(cq, 1, wc) > 0)
			return true;
		must_return_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		/* One may have come between the look and the request. */
		if (ibv_poll_cq(cq, 1, wc) > 0)
			return true;
		if (poll(&waiting, 1, limit_ms) <= 0)
			return false;
		must_return_zero(ibv_get_cq_event(peer->channel, &source, &context), "event");
		ibv_ack_cq_events(source, 1);
	}
}

static const char *fault_name(enum plan_fault fault)
{
	static const char *const names[] = { "none", "wrong ICRC", "wrong QPN", "wrong key" };

	return names[fault];
}

/* Nothing more may complete once the last sound packet has. */
static void expect_silence(struct peer *peer, struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;

	report(!next_completion(peer, cq, 50, &wc), "%s: %s to rxe: nothing else was accepted",
	       peer->label, what);
}

static void receive_writes(struct peer *peer)
{
	size_t size = plan_memory_size(peer->path_mtu);
	uint8_t *expected = must(malloc(size), "malloc");
	struct plan_step steps[PLAN_MAX];
	size_t count = plan_writes(PLAN_TO_KERNEL, peer->path_mtu, steps);
	size_t sound = plan_count_sound(steps, count), good = 0;
	const uint8_t *memory = peer->target->addr;
	struct ibv_wc wc;

	for (size_t i = 0; i < count; i++) {
		if (steps[i].fault != FAULT_NONE)
			continue;
		if (!next_completion(peer, peer->uc.received, COMPLETION_MS, &wc))
			break;
		good += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
			wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == steps[i].imm &&
			wc.byte_len == steps[i].length &&
			plan_matches(&steps[i], memory + steps[i].offset);
	}
	report(good == sound, "%s: writes to rxe: %zu of %zu completed, in order, data in place",
	       peer->label, good, sound);
	expect_silence(peer, peer->uc.received, "writes");
	for (size_t i = 0; i < count; i++)
		if (steps[i].fault != FAULT_NONE)
			report(plan_untouched(&steps[i], memory),
			       "%s: writes to rxe: %s left no trace", peer->label,
			       fault_name(steps[i].fault));
	plan_memory_after(steps, count, expected, size);
	report(memcmp(expected, memory, size) == 0,
	       "%s: writes to rxe: all memory is as planned, gaps too", peer->label);
	free(expected);
}

static void receive_datagrams(struct peer *peer, const struct meet_end *other)
{
	struct plan_step steps[PLAN_MAX];
	size_t count = plan_datagrams(PLAN_TO_KERNEL, peer->path_mtu, steps);
	size_t sound = plan_count_sound(steps, count), good = 0;
	struct ibv_wc wc;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *cell;

		if (steps[i].fault != FAULT_NONE)
			continue;
		if (!next_completion(peer, peer->ud.received, COMPLETION_MS, &wc))
			break;
		cell = (uint8_t *)peer->inbox->addr + wc.wr_id * peer->cell_size;
		good += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
			wc.src_qp == other->ud_qpn && wc.wc_flags & IBV_WC_GRH &&
			!(wc.wc_flags & IBV_WC_WITH_IMM) == !steps[i].has_imm &&
			(!steps[i].has_imm || ntohl(wc.imm_data) == steps[i].imm) &&
			wc.byte_len == GRH_SIZE + steps[i].length &&
			plan_matches(&steps[i], cell + GRH_SIZE);
	}
	report(good == sound, "%s: datagrams to rxe: %zu of %zu completed, in order, data right",
	       peer->label, good, sound);
	expect_silence(peer, peer->ud.received, "datagrams");
}

/* Posts one step and waits for it: the kernel copies while sending, so the staging is free again. */
static bool send_step(struct peer *peer, const struct end *end, const struct plan_step *step,
		      struct ibv_send_wr *request)
{
	struct ibv_sge piece = {
		.addr = (uintptr_t)peer->staging->addr,
		.length = step->length,
		.lkey = peer->staging->lkey,
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	plan_fill(step, peer->staging->addr);
	request->sg_list = &piece;
	request->num_sge = 1;
	request->imm_data = htonl(step->imm);
	must_return_zero(ibv_post_send(end->qp, request, &bad), "ibv_post_send");
	return next_completion(peer, end->sent, COMPLETION_MS, &wc) && wc.status == IBV_WC_SUCCESS;
}

static void send_writes(struct peer *peer, const struct meet_end *other)
{
	struct plan_step steps[PLAN_MAX];
	size_t count = plan_writes(PLAN_FROM_KERNEL, peer->path_mtu, steps), good = 0;

	for (size_t i = 0; i < count; i++) {
		struct ibv_send_wr request = {
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.wr.rdma = { .remote_addr = other->va + steps[i].offset,
				     .rkey = other->rkey },
		};

		good += send_step(peer, &peer->uc, &steps[i], &request);
	}
	report(good == count, "%s: writes from rxe: %zu of %zu posted", peer->label, good, count);
}

static void send_datagrams(struct peer *peer, const struct meet_end *other)
{
	struct ibv_ah_attr route = route_to(peer, other);
	struct ibv_ah *ah = must(ibv_create_ah(peer->pd, &route), "ibv_create_ah");
	struct plan_step steps[PLAN_MAX];
	size_t count = plan_datagrams(PLAN_FROM_KERNEL, peer->path_mtu, steps), good = 0;

	for (size_t i = 0; i < count; i++) {
		struct ibv_send_wr request = {
			.opcode = steps[i].has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.wr.ud = { .ah = ah,
				   .remote_qpn = other->ud_qpn,
				   .remote_qkey = other->qkey },
		};

		good += send_step(peer, &peer->ud, &steps[i], &request);
	}
	report(good == count, "%s: datagrams from rxe: %zu of %zu posted", peer->label, good,
	       count);
}

int main(int argc, char **argv)
{
	struct peer peer = { 0 };
	struct meet_end own = { .uc_psn = UC_PSN, .qkey = UD_QKEY }, other;
	const char *dir;

	if (argc != 5)
		report_fatal("usage: rxe_peer device address path_mtu directory");
	dir = argv[4];
	peer.path_mtu = (uint32_t)strtoul(argv[3], NULL, 10);
	peer.label = basename(dir);
	peer.context = open_device(argv[1]);
	peer.gid = gid_of(argv[2]);
	peer.gid_index = find_gid(peer.context, &peer.gid);
	peer.channel = must(ibv_create_comp_channel(peer.context), "ibv_create_comp_channel");
	peer.pd = must(ibv_alloc_pd(peer.context), "ibv_alloc_pd");
	peer.cell_size = GRH_SIZE + peer.path_mtu;
	peer.target = register_memory(&peer, plan_memory_size(peer.path_mtu),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	peer.inbox = register_memory(&peer, PLAN_MAX * peer.cell_size, IBV_ACCESS_LOCAL_WRITE);
	peer.staging = register_memory(&peer, peer.path_mtu, 0);
	peer.uc = create_end(&peer, IBV_QPT_UC);
	peer.ud = create_end(&peer, IBV_QPT_UD);

	meet_await(dir, "udp", &other);
	connect_uc(&peer, &other);
	activate_ud(&peer);
	post_receives(&peer);
	strncpy(own.address, argv[2], sizeof(own.address) - 1);
	own.va = (uintptr_t)peer.target->addr;
	own.rkey = peer.target->rkey;
	own.uc_qpn = peer.uc.qp->qp_num;
	own.ud_qpn = peer.ud.qp->qp_num;
	meet_publish(dir, "rxe", &own);

	receive_writes(&peer);
	receive_datagrams(&peer, &other);
	send_writes(&peer, &other);
	send_datagrams(&peer, &other);
	return report_status();
}
