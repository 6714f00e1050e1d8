/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two simulated hosts; see duo.h. The hooks sit in a copy of the fabric's table of operations: what a hook refuses is
 * taken and never sent, as on a network that loses it.
 */
#include "duo.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "message/state.h"

#define SETTLE_NS (100 * MS)
#define DATAGRAM  16384

static struct duo *open_duo; /* the operations are given nothing that leads back to it */

/* A datagram (length > 0) or a data packet that is sent later than it should be. */
struct duo_held {
	struct fabric_qp *qp;
	struct fabric_target target;
	struct fabric_write write;
	unsigned lane;
	size_t length;
	uint8_t bytes[DATAGRAM];
};

static void release(struct duo *duo, int end)
{
	struct duo_held *held = duo->held[end];

	duo->held[end] = NULL;
	if (held && held->length)
		duo->real->control(held->qp, held->bytes, held->length);
	else if (held)
		duo->real->write(held->qp, held->lane, &held->target, &held->write, 1);
	free(held);
}

void duo_release(struct duo *duo)
{
	release(duo, 0);
	release(duo, 1);
}

static struct duo_held *hold(struct duo *duo, int end, struct fabric_qp *qp)
{
	struct duo_held *held = calloc(1, sizeof(*held));

	assert_non_null(held);
	held->qp = qp;
	duo->held[end] = held;
	return held;
}

/* A second swap in a row counts as delivered: both leave, the later one first. */
static enum duo_fate fate_of(struct duo *duo, int end, bool control, size_t length)
{
	enum duo_fate fate = duo->fate ? duo->fate(duo, end, control, length) : DUO_DELIVERED;

	return fate == DUO_SWAPPED && duo->held[end] ? DUO_DELIVERED : fate;
}

static int send_control(struct duo *duo, int end, struct fabric_qp *qp, const void *data,
			size_t length)
{
	enum duo_fate fate = fate_of(duo, end, true, length);
	struct duo_held *held;
	int error = 0;

	if (fate == DUO_LOST)
		return 0;
	if (fate == DUO_SWAPPED) {
		held = hold(duo, end, qp);
		held->length = length;
		memcpy(held->bytes, data, length);
		return 0;
	}
	error = duo->real->control(qp, data, length);
	if (fate == DUO_TWICE)
		duo->real->control(qp, data, length);
	release(duo, end);
	return error;
}

static int send_write(struct duo *duo, int end, struct fabric_qp *qp, unsigned lane,
		      const struct fabric_target *target, const struct fabric_write *write)
{
	enum duo_fate fate = fate_of(duo, end, false, write->length);
	struct duo_held *held;
	int taken;

	if (fate == DUO_LOST && duo->ctx[end]->fabric->caps.copies)
		return 1;
	if (fate == DUO_LOST) {
		/* The NIC reads the memory of a packet that is lost later. */
		struct fabric_target nowhere = *target;

		nowhere.rkey ^= 1;
		return duo->real->write(qp, lane, &nowhere, write, 1);
	}
	if (fate == DUO_SWAPPED) {
		held = hold(duo, end, qp);
		held->target = *target;
		held->write = *write;
		held->lane = lane;
		return 1;
	}
	taken = duo->real->write(qp, lane, target, write, 1);
	if (fate == DUO_TWICE)
		duo->real->write(qp, lane, target, write, 1);
	release(duo, end);
	return taken;
}

static int hooked_control(struct fabric_qp *qp, const void *data, size_t length)
{
	struct duo *duo = open_duo;
	int end = duo->qp[1] && duo->qp[1]->fabric_qp == qp;
	uint8_t kept[DATAGRAM];
	size_t used = 0;

	/* Message by message: what a datagram held besides arrives. */
	for (size_t at = 0; at < length;) {
		const uint8_t *bytes = (const uint8_t *)data + at;
		int first = control_first(bytes, length - at);
		struct control_message message;

		if (first < 0)
			first = (int)(length - at);
		if (!duo->lose_control || control_decode(bytes, (size_t)first, &message) ||
		    !duo->lose_control(duo, end, &message, bytes)) {
			memcpy(kept + used, bytes, (size_t)first);
			used += (size_t)first;
		}
		at += (size_t)first;
	}
	return used ? send_control(duo, end, qp, kept, used) : 0;
}

static int hooked_write(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
			const struct fabric_write *writes, unsigned count_)
{
	struct duo *duo = open_duo;
	int end = duo->qp[1] && duo->qp[1]->fabric_qp == qp;

	for (unsigned i = 0; i < count_; i++) {
		duo->writing = writes[i].data;
		if (duo->lose_data && duo->lose_data(duo, writes[i].packet, writes[i].again))
			continue;
		if (send_write(duo, end, qp, lane, target, &writes[i]) != 1)
			return (int)i;
	}
	return (int)count_;
}

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct duo *duo = arg;
	int end = duo->qp[1] == qp;

	(void)now;
	duo->gone[end]++;
	duo->gone_status[end] = status;
	duo->gone_at[end] = duo_now(duo);
}

static void seen(void *arg, const struct sim_seen *what)
{
	struct duo *duo = arg;

	duo->data_lost += what->what == SIM_LOST && !what->control;
}

static const struct gw_qp_handler qp_handler = { .gone = gone };

void duo_open(struct duo *duo, const struct duo_attr *attr)
{
	struct sim_attr sim = { .seed = attr->seed + 1,
				.payload = DUO_PAYLOAD,
				.path_payload = attr->path_payload,
				.start_ns = attr->start_ns ? attr->start_ns : S };
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2, .edge = attr->link };
	struct gw_context_attr ctx = {
		.max_qps = 4, .max_sends = 256, .max_recvs = 256, .bitmap_bytes = attr->bitmap_bytes
	};
	struct gw_qp_attr qp = attr->qp;
	struct rng rng;

	memset(duo, 0, sizeof(*duo));
	open_duo = duo;
	for (uint32_t i = 0; attr->lanes && i < attr->host.lanes; i++)
		shape.lane[i] = attr->lanes[i];
	shape.uneven = attr->lanes != NULL;
	memcpy(sim.rungs, attr->rungs, sizeof(sim.rungs));
	qp.handler = &qp_handler;
	qp.arg = duo;
	assert_int_equal(world_open(&duo->world, &sim, &shape, &attr->host, &ctx), 0);
	sim_observe(duo->world.sim, seen, duo);
	duo->memory_bytes = attr->memory_bytes ? attr->memory_bytes : 1u << 20;
	rng_seed(&rng, attr->seed);
	for (int end = 0; end < 2; end++) {
		struct fabric *fabric = sim_host(duo->world.sim, (uint32_t)end);

		duo->real = fabric->ops;
		duo->ops = *fabric->ops;
		duo->ops.control = hooked_control;
		duo->ops.write = hooked_write;
		fabric->ops = &duo->ops;
		duo->ctx[end] = duo->world.hosts[end].ctx;
		duo->memory[end] = calloc(1, duo->memory_bytes);
		assert_non_null(duo->memory[end]);
		assert_int_equal(gw_mr_register(duo->ctx[end], duo->memory[end], duo->memory_bytes,
						&duo->mr[end]),
				 0);
	}
	rng_fill(&rng, duo->memory[0], duo->memory_bytes);
	assert_int_equal(world_connect(&duo->world, 0, 1, &qp, &qp, &duo->qp[0], &duo->qp[1]), 0);
}

void duo_close(struct duo *duo)
{
	static const char *const lies[] = { "drop_claim",
					    "drop_token",
					    "drop_shape",
					    "drop_generation",
					    "drop_control_malformed",
					    "drop_offset" };

	for (int end = 0; end < 2; end++)
		for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
			if (duo_counter(duo, end, lies[i])) {
				print_error("end %d counts %s, and nobody lied\n", end, lies[i]);
				fail();
			}
	world_close(&duo->world);
	free(duo->held[0]);
	free(duo->held[1]);
	free(duo->memory[0]);
	free(duo->memory[1]);
	open_duo = NULL;
}

uint64_t duo_now(const struct duo *duo)
{
	return sim_now_ns(duo->world.sim);
}

bool duo_step(struct duo *duo, uint64_t limit_ns)
{
	bool more = world_step(&duo->world, limit_ns);

	if (duo->each_step)
		duo->each_step(duo);
	return more;
}

void duo_run(struct duo *duo, uint64_t ns)
{
	uint64_t limit = duo_now(duo) + ns;

	while (duo_step(duo, limit))
		;
}

struct link *duo_link(struct duo *duo, int from)
{
	return sim_link(duo->world.sim, (uint32_t)from);
}

uint64_t duo_counter(const struct duo *duo, int end, const char *name)
{
	uint64_t value = 0;

	assert_int_equal(gw_counter_read(duo->ctx[end], (unsigned)gw_counter_find(name), &value),
			 0);
	return value;
}

struct gw_estimate duo_estimate(const struct duo *duo, int end)
{
	struct gw_estimate estimate;

	assert_int_equal(gw_qp_estimate(duo->qp[end], &estimate), 0);
	return estimate;
}

void duo_say(struct duo *duo, int end, const void *bytes, size_t length)
{
	assert_int_equal(duo->real->control(duo->qp[end]->fabric_qp, bytes, length), 0);
}

/* ---- messages without a scheme --------------------------------------------------------------------------------- */

struct gw_recv *duo_recv(struct duo *duo, uint64_t length)
{
	struct gw_recv_attr attr = { .addr = duo->memory[1], .length = length, .mr = duo->mr[1] };
	struct gw_recv *recv;

	assert_int_equal(gw_recv_post(duo->qp[1], &attr, &recv), 0);
	world_touch(&duo->world, 1);
	return recv;
}

struct gw_send *duo_stream(struct duo *duo, uint64_t length)
{
	struct gw_send_attr attr = { .length = length };
	struct gw_send *send;

	assert_int_equal(gw_stream_start(duo->qp[0], &attr, &send), 0);
	world_touch(&duo->world, 0);
	return send;
}

void duo_put(struct duo *duo, struct gw_send *stream, uint32_t packets)
{
	assert_int_equal(gw_stream_put(stream, 0, duo->memory[0], (uint64_t)packets * DUO_PAYLOAD,
				       duo->mr[0]),
			 0);
	world_touch(&duo->world, 0);
}

/* ---- transfers ------------------------------------------------------------------------------------------------- */

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct duo_transfer *transfer = arg;

	(void)now;
	transfer->sent++;
	transfer->sent_status = result->status;
	transfer->sent_at = duo_now(transfer->duo);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct duo_transfer *transfer = arg;

	(void)now;
	transfer->received++;
	transfer->received_status = result->status;
	transfer->received_at = duo_now(transfer->duo);
}

void duo_start(struct duo *duo, uint64_t length, struct duo_transfer *transfer)
{
	struct gw_transfer_attr attr = { .addr = duo->memory[1],
					 .length = length ? length : 1,
					 .mr = duo->mr[1],
					 .done = received,
					 .options = duo->options[1],
					 .arg = transfer };
	const struct gw_scheme *scheme = duo->scheme ? duo->scheme : &gw_selective_repeat;

	assert_true(length <= duo->memory_bytes);
	*transfer = (struct duo_transfer){ .duo = duo, .length = length };
	memset(duo->memory[1], 0, duo->memory_bytes);
	assert_int_equal(gw_transfer_recv(duo->qp[1], scheme, &attr, &transfer->recv), 0);
	attr.addr = duo->memory[0];
	attr.length = length;
	attr.mr = duo->mr[0];
	attr.done = sent;
	attr.options = duo->options[0];
	assert_int_equal(gw_transfer_send(duo->qp[0], scheme, &attr, &transfer->send), 0);
	world_touch(&duo->world, 0);
	world_touch(&duo->world, 1);
}

void duo_finish(struct duo_transfer *transfer, uint64_t ns)
{
	struct duo *duo = transfer->duo;

	duo_until(duo, ns, transfer->sent && transfer->received);
	duo_run(duo, SETTLE_NS);
	assert_int_equal(transfer->sent, 1);
	assert_int_equal(transfer->received, 1);
	assert_int_equal(transfer->sent_status, 0);
	assert_int_equal(transfer->received_status, 0);
	assert_memory_equal(duo->memory[0], duo->memory[1], transfer->length);
	assert_int_equal(gw_send_close(transfer->send), 0);
	assert_int_equal(gw_recv_close(transfer->recv), 0);
}
