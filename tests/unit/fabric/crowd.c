/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that share a port; see crowd.h. */
#include "crowd.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/roce/endpoint.h"
#include "message/state.h"

uint16_t crowd_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	close(fd);
	return ntohs(address.sin_port);
}

int crowd_context(uint16_t port, struct gw_context **out)
{
	struct gw_context_attr attr = { .max_qps = 64, .max_sends = 64, .max_recvs = 64 };
	char fabric[64];

	snprintf(fabric, sizeof(fabric), "roce:127.0.0.1@%u", port);
	attr.fabric = fabric;
	return gw_context_open(&attr, out);
}

struct member crowd[CROWD];

void crowd_join(unsigned i, uint16_t port)
{
	struct member *new = &crowd[i];

	memset(new, 0, sizeof(*new));
	assert_int_equal(crowd_context(port, &new->ctx), 0);
	assert_int_equal(gw_mr_register(new->ctx, new->memory, CROWD_ROOM, &new->mr), 0);
	for (unsigned j = 0; j < CROWD; j++) {
		struct gw_qp_info info[2];

		if (j == i || !crowd[j].ctx)
			continue;
		assert_int_equal(gw_qp_create(new->ctx, NULL, &new->qps[j]), 0);
		assert_int_equal(gw_qp_create(crowd[j].ctx, NULL, &crowd[j].qps[i]), 0);
		assert_int_equal(gw_qp_info(new->qps[j], &info[0]), 0);
		assert_int_equal(gw_qp_info(crowd[j].qps[i], &info[1]), 0);
		assert_int_equal(gw_qp_connect(new->qps[j], &info[1]), 0);
		assert_int_equal(gw_qp_connect(crowd[j].qps[i], &info[0]), 0);
	}
}

void crowd_leave(unsigned i)
{
	if (crowd[i].ctx)
		assert_int_equal(gw_context_close(crowd[i].ctx), 0);
	crowd[i].ctx = NULL;
}

static void count_end(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	assert_int_equal(result->status, 0);
	++*(unsigned *)arg;
}

bool crowd_asleep[CROWD];

void crowd_carry(struct member *from, struct gw_qp *out, struct member *to, struct gw_qp *in)
{
	unsigned ended = 0;
	struct gw_transfer_attr send_attr = { .addr = from->memory,
					      .length = CROWD_LENGTH,
					      .mr = from->mr,
					      .done = count_end,
					      .arg = &ended };
	struct gw_transfer_attr recv_attr = { .addr = to->memory + CROWD_LENGTH,
					      .length = CROWD_LENGTH,
					      .mr = to->mr,
					      .done = count_end,
					      .arg = &ended };
	uint64_t limit = gw_now_ns(from->ctx) + PAIR_PATIENCE_NS;
	struct gw_send *send;
	struct gw_recv *recv;

	memset(to->memory + CROWD_LENGTH, 0, CROWD_LENGTH);
	assert_int_equal(gw_transfer_recv(in, &gw_selective_repeat, &recv_attr, &recv), 0);
	assert_int_equal(gw_transfer_send(out, &gw_selective_repeat, &send_attr, &send), 0);
	while (ended < 2) {
		assert_true(gw_now_ns(from->ctx) < limit);
		for (unsigned i = 0; i < CROWD; i++)
			if (crowd[i].ctx && !crowd_asleep[i])
				gw_progress(crowd[i].ctx);
	}
	assert_memory_equal(to->memory + CROWD_LENGTH, from->memory, CROWD_LENGTH);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(gw_recv_close(recv), 0);
}

void crowd_all_to_all(void)
{
	for (unsigned i = 0; i < CROWD; i++)
		for (unsigned j = 0; j < CROWD; j++) {
			if (i == j || !crowd[i].ctx || !crowd[j].ctx)
				continue;
			fill_pattern(crowd[i].memory, CROWD_LENGTH, i * CROWD + j);
			crowd_carry(&crowd[i], crowd[i].qps[j], &crowd[j], crowd[j].qps[i]);
		}
}

uint64_t crowd_total(const char *name)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CROWD; i++)
		sum += crowd[i].ctx ? counter(crowd[i].ctx, name) : 0;
	return sum;
}

uint32_t crowd_class(unsigned i)
{
	return endpoint_of(crowd[i].ctx->fabric)->class;
}
