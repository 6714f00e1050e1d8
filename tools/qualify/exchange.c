/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory is one area: for each message a guard, the message, a guard. Both ends know every length and every byte, so
 * neither travels.
 */
#include "exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/interrupt.h"
#include "tools/session.h"

#define GUARD	     64
#define GUARD_BYTE   0xa5
#define UNIT_DEFAULT 4096
#define LENGTHS	     10
#define NAP_NS	     UINT64_C(5000000)

static uint32_t length_of(uint32_t unit, uint32_t number)
{
	const uint32_t lengths[LENGTHS] = { 1,
					    3,
					    unit - 1,
					    unit,
					    unit + 1,
					    4 * unit,
					    7 * unit + 5,
					    16 * unit,
					    33 * unit - 2,
					    61 * unit + 61 };

	return lengths[number % LENGTHS];
}

static uint8_t byte_of(bool from_caller, uint32_t number, uint32_t at)
{
	uint32_t x =
		(at ^ (number + 1) * 0x9e3779b1u ^ (from_caller ? 0u : 1u << 31)) * 0x85ebca6bu;

	return (uint8_t)(x >> 13 ^ x >> 24);
}

/* The library logs how it uses a device. */
static void keep_line(void *arg, enum gw_log_level level, const char *line)
{
	struct qualify_run *run = arg;

	if (level <= GW_LOG_INFO && (!run->found[0] || level == GW_LOG_ERROR))
		snprintf(run->found, sizeof(run->found), "%s", line);
}

static int fail(struct qualify_run *run, int error, const char *what)
{
	run->result.status = error;
	snprintf(run->result.why, sizeof(run->result.why), "%s: %s", what, strerror(-error));
	return error;
}

static size_t place_messages(struct qualify_run *run)
{
	size_t at = 0;

	for (uint32_t i = 0; i < 2 * QUALIFY_MESSAGES; i++) {
		struct qualify_message *message = i % 2 ? &run->in[i / 2] : &run->out[i / 2];

		message->run = run;
		message->number = i / 2;
		message->length = length_of(run->unit, i / 2);
		if (run->memory) {
			message->memory = run->memory + at + GUARD;
			memset(message->memory - GUARD, GUARD_BYTE, message->length + 2 * GUARD);
			for (uint32_t byte = 0; !(i % 2) && byte < message->length; byte++)
				message->memory[byte] = byte_of(run->caller, i / 2, byte);
		}
		at += message->length + 2 * GUARD;
	}
	return at;
}

int qualify_run_open(struct qualify_run *run, const char *fabric, uint32_t payload, bool caller,
		     uint64_t timeout_ns, const struct gw_faults *faults,
		     const struct gw_seal *seal)
{
	struct gw_context_attr attr = { .fabric = fabric,
					.max_qps = 2,
					.max_sends = 2 * QUALIFY_MESSAGES,
					.max_recvs = 2 * QUALIFY_MESSAGES,
					.faults = faults };
	struct gw_qp_attr qp_attr = { .payload = payload,
				      .peer_timeout_ns = timeout_ns,
				      .seal = seal };
	size_t size;
	int rc;

	memset(run, 0, sizeof(*run));
	run->caller = caller;
	run->unit = payload ? payload : UNIT_DEFAULT;
	gw_log_set(GW_LOG_INFO, keep_line, run);
	rc = gw_context_open(&attr, &run->ctx);
	gw_log_set(GW_LOG_ERROR, keep_line, run);
	if (rc)
		return fail(run, rc, "cannot open the fabric");
	rc = gw_qp_create(run->ctx, &qp_attr, &run->qp);
	if (rc)
		return fail(run, rc, "cannot make a queue pair with such packets");
	size = place_messages(run);
	run->memory = malloc(size);
	if (!run->memory)
		return fail(run, -ENOMEM, "messages");
	place_messages(run);
	rc = gw_mr_register(run->ctx, run->memory, size, &run->mr);
	return rc ? fail(run, rc, "cannot register memory") : 0;
}

static void end_one(struct qualify_run *run, int status)
{
	run->ended++;
	if (status && !run->failed)
		run->failed = status;
}

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct qualify_message *message = arg;

	(void)now;
	end_one(message->run, result->status);
	gw_send_close(message->send);
}

static bool guards_whole(const struct qualify_message *message)
{
	for (uint32_t i = 0; i < GUARD; i++)
		if (message->memory[-1 - (int)i] != GUARD_BYTE ||
		    message->memory[message->length + i] != GUARD_BYTE)
			return false;
	return true;
}

static bool right(const struct qualify_message *message)
{
	bool from_caller = !message->run->caller;

	for (uint32_t i = 0; i < message->length; i++)
		if (message->memory[i] != byte_of(from_caller, message->number, i))
			return false;
	return guards_whole(message);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct qualify_message *message = arg;
	struct qualify_result *total = &message->run->result;

	(void)now;
	end_one(message->run, result->status);
	if (!result->status && result->length == message->length && right(message)) {
		total->received++;
		total->bytes += message->length;
	} else if (!result->status) {
		total->wrong++;
	}
	gw_recv_close(message->recv);
}

static int post_all(struct qualify_run *run)
{
	int rc = 0;

	for (uint32_t i = 0; i < QUALIFY_MESSAGES && rc == 0; i++) {
		struct gw_transfer_attr in = { .addr = run->in[i].memory,
					       .length = run->in[i].length,
					       .mr = run->mr,
					       .done = received,
					       .arg = &run->in[i] };
		struct gw_transfer_attr out = { .addr = run->out[i].memory,
						.length = run->out[i].length,
						.mr = run->mr,
						.done = sent,
						.arg = &run->out[i] };

		rc = gw_transfer_recv(run->qp, &gw_selective_repeat, &in, &run->in[i].recv);
		if (rc == 0)
			rc = gw_transfer_send(run->qp, &gw_selective_repeat, &out,
					      &run->out[i].send);
	}
	return rc;
}

static void sum_up(struct qualify_run *run)
{
	struct qualify_result *result = &run->result;
	struct gw_estimate estimate;
	uint64_t value;

	if (!gw_qp_estimate(run->qp, &estimate)) {
		result->payload = estimate.payload_send;
		result->sent = estimate.sent;
		result->repeated = estimate.retransmitted;
		result->marked = estimate.marked;
		result->cnps = estimate.cnps;
	}
	for (unsigned i = 0; i < gw_counter_count(); i++)
		if (!strncmp(gw_counter_name(i), "drop_", 5) &&
		    !gw_counter_read(run->ctx, i, &value))
			result->dropped += value;
	for (uint32_t i = 0; i < QUALIFY_MESSAGES; i++)
		if (!guards_whole(&run->in[i]) && !result->wrong)
			result->wrong = 1;
}

int qualify_run_exchange(struct qualify_run *run, const struct gw_qp_info *peer,
			 uint64_t timeout_ns)
{
	uint64_t deadline;
	int rc = gw_qp_connect(run->qp, peer);

	if (rc)
		return fail(run, rc, "cannot connect");
	rc = post_all(run);
	if (rc)
		return fail(run, rc, "cannot post");
	deadline = gw_now_ns(run->ctx) + timeout_ns;
	while (run->ended < 2 * QUALIFY_MESSAGES && !run->failed) {
		rc = gw_wait(run->ctx, NAP_NS);
		if (interrupt_signal())
			return -EINTR;
		if (rc < 0 && rc != -EINTR)
			return fail(run, rc, "the fabric failed");
		if (gw_now_ns(run->ctx) > deadline)
			run->failed = -ETIMEDOUT;
	}
	sum_up(run);
	if (run->failed == -ETIMEDOUT && session_heard(run->ctx) == SESSION_HEARD_NOTHING) {
		run->result.status = run->failed;
		snprintf(run->result.why, sizeof(run->result.why),
			 "no packet came although TCP works: a firewall or NAT?");
		return run->failed;
	}
	if (run->failed)
		return fail(run, run->failed, "messages did not arrive");
	if (run->result.wrong)
		return fail(run, -EBADMSG, "wrong data");
	return 0;
}

void qualify_run_close(struct qualify_run *run)
{
	if (run->ctx)
		gw_context_close(run->ctx);
	free(run->memory);
	run->ctx = NULL;
	run->memory = NULL;
}
