/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two contexts in one thread. Lost control is made by a copy of the fabric's ops table with another control(): the
 * datagram is looked at and swallowed, as a network would.
 */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/rng.h"
#include "message/state.h"

struct pair_filter {
	struct fabric_ops ops;
	const struct fabric_ops *real;
	const struct fabric_qp *qp;
	pair_filter_fn *keep;
	void *arg;
	struct pair_filter *next;
};

static struct pair_filter *filters; /* control() is given nothing that leads back to the pair */

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct pair *pair = arg;
	int end = pair->qp[1] == qp;

	(void)now;
	pair->gone[end]++;
	pair->gone_status[end] = status;
}

static const struct gw_qp_handler qp_handler = { .gone = gone };

void pair_open_contexts(struct pair *pair, const struct pair_attr *attr)
{
	struct gw_context_attr context = attr->context;
	char fabric[128];

	memset(pair, 0, sizeof(*pair));
	snprintf(fabric, sizeof(fabric), "roce:%s@0", attr->address ? attr->address : "127.0.0.1");
	if (!context.fabric)
		context.fabric = fabric;
	context.faults = attr->faults;
	if (!context.max_qps)
		context.max_qps = 64;
	for (int end = 0; end < 2; end++) {
		assert_return_code(gw_context_open(&context, &pair->ctx[end]), 0);
		pair->memory[end] = calloc(1, PAIR_MEMORY);
		assert_non_null(pair->memory[end]);
		assert_return_code(gw_mr_register(pair->ctx[end], pair->memory[end], PAIR_MEMORY,
						  &pair->mr[end]),
				   0);
	}
}

/* As if so many messages had gone before. */
static void start_at(struct gw_qp *qp, uint32_t msn)
{
	qp->rx.first_msn = msn;
	qp->rx.posted = qp->rx.placed = qp->rx.granted = msn;
	qp->rx.grants_acked = qp->rx.grants_told = msn;
	qp->rx.announced = qp->rx.completed = qp->rx.results_acked = msn;
}

void pair_connect(struct pair *pair)
{
	for (int end = 0; end < 2; end++) {
		struct gw_qp_info info;

		assert_return_code(gw_qp_info(pair->qp[!end], &info), 0);
		assert_return_code(gw_qp_connect(pair->qp[end], &info), 0);
	}
}

void pair_open(struct pair *pair, const struct pair_attr *attr)
{
	struct gw_qp_attr qp = attr->qp;

	pair_open_contexts(pair, attr);
	if (!attr->strangers)
		qp.peer_host = attr->address ? attr->address : "127.0.0.1";
	if (!qp.handler) {
		qp.handler = &qp_handler;
		qp.arg = pair;
	}
	for (int end = 0; end < 2; end++) {
		assert_return_code(gw_qp_create(pair->ctx[end], &qp, &pair->qp[end]), 0);
		if (attr->first_msn)
			start_at(pair->qp[end], attr->first_msn);
	}
	pair_connect(pair);
}

static void assert_honest(const struct gw_context *ctx)
{
	static const char *const lies[] = { "drop_claim",
					    "drop_token",
					    "drop_shape",
					    "drop_generation",
					    "drop_control_malformed",
					    "drop_control_version",
					    "drop_control_unknown",
					    "drop_malformed",
					    "drop_icrc",
					    "drop_offset",
					    "drop_length",
					    "drop_qkey",
					    "drop_stranger" };

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		if (counter(ctx, lies[i]))
			fail_msg("%s: %llu, and nobody lied", lies[i],
				 (unsigned long long)counter(ctx, lies[i]));
}

void pair_close(struct pair *pair)
{
	for (int end = 0; end < 2; end++)
		pair_filter_control(pair, end, NULL, NULL);
	for (int end = 0; end < 2; end++) {
		assert_honest(pair->ctx[end]);
		assert_return_code(gw_context_close(pair->ctx[end]), 0);
		free(pair->memory[end]);
	}
}

void pair_step(struct pair *pair)
{
	int work = gw_progress(pair->ctx[0]);

	work += gw_progress(pair->ctx[1]);
	if (!work)
		gw_wait(pair->ctx[0], PAIR_IDLE_NS);
}

uint64_t pair_deadline(const struct pair *pair)
{
	return gw_now_ns(pair->ctx[0]) + PAIR_PATIENCE_NS;
}

void pair_late(const struct pair *pair, uint64_t deadline, const char *what, const char *file,
	       int line)
{
	if (gw_now_ns(pair->ctx[0]) <= deadline)
		return;
	print_error("%s:%d: never came true: %s\n", file, line, what);
	fail();
}

void pair_idle(struct pair *pair, unsigned milliseconds)
{
	uint64_t until = gw_now_ns(pair->ctx[0]) + milliseconds * UINT64_C(1000000);

	while (gw_now_ns(pair->ctx[0]) < until)
		pair_step(pair);
}

struct gw_recv *pair_recv(struct pair *pair, int end, uint64_t offset, uint64_t length,
			  struct seen_recv *seen)
{
	struct gw_recv_attr attr = { .addr = pair->memory[end] + offset,
				     .length = length,
				     .mr = pair->mr[end],
				     .handler = seen ? &seen_recv_handler : NULL,
				     .arg = seen };
	struct gw_recv *recv;

	assert_return_code(gw_recv_post(pair->qp[end], &attr, &recv), 0);
	return recv;
}

struct gw_send *pair_send(struct pair *pair, int end, uint64_t offset, uint64_t length,
			  struct seen_send *seen)
{
	struct gw_send_attr attr = { .addr = pair->memory[end] + offset,
				     .length = length,
				     .mr = pair->mr[end],
				     .handler = seen ? &seen_send_handler : NULL,
				     .arg = seen };
	struct gw_send *send;

	assert_return_code(gw_send_post(pair->qp[end], &attr, &send), 0);
	return send;
}

struct gw_send *pair_stream(struct pair *pair, int end, uint64_t length, struct seen_send *seen)
{
	struct gw_send_attr attr = { .length = length,
				     .handler = seen ? &seen_send_handler : NULL,
				     .arg = seen };
	struct gw_send *send;

	assert_return_code(gw_stream_start(pair->qp[end], &attr, &send), 0);
	return send;
}

void pair_put(struct pair *pair, int end, struct gw_send *stream, uint64_t base, uint64_t length,
	      uint32_t first, uint32_t number)
{
	uint64_t limit = pair_deadline(pair);
	uint32_t payload = 0;
	uint64_t from, bytes;
	int error;

	while (gw_send_payload(stream, &payload) == -EAGAIN) {
		pair_late(pair, limit, "a grant", __FILE__, __LINE__);
		pair_step(pair);
	}
	from = (uint64_t)first * payload;
	bytes = (uint64_t)number * payload;
	if (bytes > length - from)
		bytes = length - from;
	while ((error = gw_stream_put(stream, from, pair->memory[end] + base + from, bytes,
				      pair->mr[end])) == -EAGAIN) {
		pair_late(pair, limit, "room for a put", __FILE__, __LINE__);
		pair_step(pair);
	}
	assert_int_equal(error, 0);
}

struct gw_estimate pair_estimate(const struct pair *pair, int end)
{
	struct gw_estimate estimate;

	assert_int_equal(gw_qp_estimate(pair->qp[end], &estimate), 0);
	return estimate;
}

struct gw_recv_status pair_status(const struct gw_recv *recv)
{
	struct gw_recv_status status;

	assert_int_equal(gw_recv_status(recv, &status), 0);
	return status;
}

void fill_pattern(uint8_t *bytes, size_t length, uint64_t seed)
{
	struct rng rng;

	rng_seed(&rng, seed);
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)rng_below(&rng, 256);
}

#define PAIR_DATAGRAM 16384

/* ---- lost control ---------------------------------------------------------------------------------------------- */

static int filtered_control(struct fabric_qp *qp, const void *data, size_t length)
{
	struct pair_filter *filter = filters;
	uint8_t kept[PAIR_DATAGRAM];
	size_t used = 0;

	while (filter->qp != qp)
		filter = filter->next;
	assert_true(length <= sizeof(kept));
	for (size_t at = 0; at < length;) {
		const uint8_t *bytes = (const uint8_t *)data + at;
		int first = control_first(bytes, length - at);
		struct control_message message;

		assert_true(first > 0);
		if (control_decode(bytes, (size_t)first, &message) ||
		    filter->keep(filter->arg, &message)) {
			memcpy(kept + used, bytes, (size_t)first);
			used += (size_t)first;
		}
		at += (size_t)first;
	}
	return used ? filter->real->control(qp, kept, used) : 0;
}

static void filter_remove(struct pair *pair, int end)
{
	struct pair_filter *filter = pair->filter[end];
	struct pair_filter **link = &filters;

	while (*link != filter)
		link = &(*link)->next;
	*link = filter->next;
	pair->ctx[end]->fabric->ops = filter->real;
	pair->filter[end] = NULL;
	free(filter);
}

void pair_filter_control(struct pair *pair, int end, pair_filter_fn *keep, void *arg)
{
	struct fabric *fabric = pair->ctx[end]->fabric;
	struct pair_filter *filter;

	if (pair->filter[end])
		filter_remove(pair, end);
	if (!keep)
		return;
	filter = calloc(1, sizeof(*filter));
	assert_non_null(filter);
	filter->real = fabric->ops;
	filter->ops = *fabric->ops;
	filter->ops.control = filtered_control;
	filter->qp = pair->qp[end]->fabric_qp;
	filter->keep = keep;
	filter->arg = arg;
	filter->next = filters;
	filters = filter;
	pair->filter[end] = filter;
	fabric->ops = &filter->ops;
}
