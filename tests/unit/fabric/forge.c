/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets put together from wire/, with the keys read out of the victim. */
#include "forge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static union socket_address address_of(const char *text)
{
	union socket_address address;

	memset(&address, 0, sizeof(address));
	if (inet_pton(AF_INET, text, &address.v4.sin_addr) == 1) {
		address.any.sa_family = AF_INET;
		return address;
	}
	assert_int_equal(inet_pton(AF_INET6, text, &address.v6.sin6_addr), 1);
	address.any.sa_family = AF_INET6;
	return address;
}

void forger_open(struct forger *forger, const char *address, struct gw_qp *qp)
{
	union socket_address from = address_of(address);
	socklen_t length = address_length(&from);

	forger->victim = qp->ctx;
	forger->qp = qp;
	forger->to = endpoint_of(qp->ctx->fabric)->local;
	forger->fd = socket(from.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(forger->fd >= 0);
	assert_int_equal(bind(forger->fd, &from.any, length), 0);
	assert_int_equal(getsockname(forger->fd, &from.any, &length), 0);
	assert_int_equal(icrc_flow_init(&from.any, &forger->to.any, &forger->flow), 0);
}

void forger_close(struct forger *forger)
{
	close(forger->fd);
}

void forge_icrc(const struct forger *forger, uint8_t *bytes, size_t length)
{
	size_t covered = length - ROCE_ICRC_SIZE;
	struct icrc_flow flow = forger->flow;

	icrc_final(icrc_begin(&flow, length, 0, true, bytes, covered), bytes + covered);
}

size_t forge(const struct forger *forger, const struct roce_packet *packet, uint8_t *out)
{
	size_t length = roce_encode(packet, out, FORGE_MAX);

	assert_true(length > 0);
	if (packet->payload_length)
		memcpy(out + length, packet->payload, packet->payload_length);
	length += packet->payload_length;
	memset(out + length, 0, packet->pad);
	length += packet->pad + ROCE_ICRC_SIZE;
	assert_true(length <= FORGE_MAX);
	forge_icrc(forger, out, length);
	return length;
}

void forge_send(const struct forger *forger, const void *bytes, size_t length)
{
	assert_int_equal(
		sendto(forger->fd, bytes, length, 0, &forger->to.any, address_length(&forger->to)),
		length);
}

void forge_data(const struct forger *forger, const struct gw_recv *recv, uint32_t number,
		const uint8_t *message, struct roce_packet *out)
{
	const struct gw_qp *qp = forger->qp;
	uint64_t offset = (uint64_t)number * recv->payload;
	uint32_t length =
		(uint32_t)(recv->capacity - offset < recv->payload ? recv->capacity - offset
								   : recv->payload);
	uint32_t slot = recv->msn & qp->rx.mask;

	roce_uc_write_imm(out, roce_qp(qp->fabric_qp)->qpn, 1, offset, recv->rkey,
			  fabric_imm(&qp->split, slot, number, 0), message + offset, length);
}

void forge_control(const struct forger *forger, const void *bytes, size_t length,
		   struct roce_packet *out)
{
	const struct roce_qp *qp = roce_qp(forger->qp->fabric_qp);

	roce_ud_send(out, qp->qpn, 1, qp->qkey, qp->peer_qpn, bytes, (uint32_t)length);
}

struct control_header forge_header(const struct forger *forger)
{
	const struct gw_qp *qp = forger->qp;

	return (struct control_header){ .token = qp->control.token,
					.announced = qp->tx.announce_acked,
					.granted = qp->rx.grants_acked,
					.completed = qp->tx.results_seen,
					.results = qp->rx.results_acked };
}
