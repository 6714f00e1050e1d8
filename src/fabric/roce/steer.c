/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steering: a classic BPF program which the kernel runs for each packet to a shared port, and which returns the place of
 * the socket that gets it among those that share the port.
 *
 * The socket of a class has the place of the same number unless a table in the program says otherwise. When a process
 * ends, the kernel moves the last socket into its place and tells nobody. So every process sends itself a packet of its
 * class every 200 ms. When that does not arrive, either the socket has moved or another process has attached a program
 * with an older table. The process then sends a probe to every place to find its own, tells the other processes, and
 * attaches a program with the new table. It needs no other process to be awake for that. A process that a new program
 * leaves out notices and does the same; since each announces its place before it attaches, the tables become equal.
 */
#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <string.h>

#include "base/log.h"
#include "fabric/roce/share.h"
#include "base/bytes.h"

/* Probes have opcodes from the range left to manufacturers, so that they are no packets of RoCE. */
#define PROBE_SIZE 24
/* Opcode of a probe that goes to the place it names, and of one that goes where packets of its class go. */
#define PROBE_PLACE 0xff
#define PROBE_CLASS 0xfe
/* Offset of the place or class that a probe names. */
#define PROBE_NAMES 16

#define JOIN_ATTEMPTS 3
#define JOIN_WAIT_MS  20
#define CHECK_NS      UINT64_C(200000000)
#define ANSWER_NS     UINT64_C(20000000)

static int attach_program(const struct roce_endpoint *endpoint)
{
	const struct share *share = endpoint->share;
	struct sock_filter code[2 * CLASSES + 8] = {
		/* The packet starts at the BTH; its destination is the low 24 bits of the second word. */
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROBE_PLACE, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROBE_NAMES),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ROCE_QPN_MASK),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, CLASS_SHIFT),
	};
	struct sock_fprog program = { .len = 7, .filter = code };

	for (uint32_t class = 0; class < CLASSES; class ++) {
		if (share->places[class] == class)
			continue;
		code[program.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, class, 0, 1);
		code[program.len++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, share->places[class]);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	return setsockopt(endpoint->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
			  sizeof(program))
		       ? -errno
		       : 0;
}

static void send_probe(const struct roce_endpoint *endpoint, uint8_t opcode, uint32_t names)
{
	uint8_t probe[PROBE_SIZE] = { opcode };

	put_be24(probe + 5, endpoint->class << CLASS_SHIFT);
	put_be64(probe + 8, endpoint->share->nonce);
	put_be32(probe + PROBE_NAMES, names);
	sendto(endpoint->fd, probe, sizeof(probe), MSG_DONTWAIT, &endpoint->local.any,
	       endpoint->local_length);
}

static void look(struct roce_endpoint *endpoint)
{
	endpoint->share->found = CLASSES;
	for (uint32_t place = 0; place < CLASSES; place++)
		send_probe(endpoint, PROBE_PLACE, place);
}

bool steer_probe(struct roce_endpoint *endpoint, const union socket_address *from,
		 const uint8_t *bytes, size_t length)
{
	struct share *share = endpoint->share;
	uint32_t names;

	if (!share || length != PROBE_SIZE || bytes[0] < PROBE_CLASS ||
	    !same_host(from, &endpoint->local) ||
	    address_port(from) != address_port(&endpoint->local))
		return false;
	if (get_be64(bytes + 8) != share->nonce)
		return true;
	names = get_be32(bytes + PROBE_NAMES);
	/* Probes to places that do not exist are spread by a hash: the lowest one that arrives is ours. */
	if (bytes[0] == PROBE_PLACE && names < share->found)
		share->found = names;
	if (bytes[0] == PROBE_CLASS && share->state == STEER_CHECKING) {
		share->state = STEER_FINE;
		share->until_ns = share->checked_ns + CHECK_NS;
	}
	return true;
}

int steer_join(struct roce_endpoint *endpoint)
{
	struct share *share = endpoint->share;
	/* A program that serves other processes stays: its table may know of sockets that have moved. */
	int error = share_company(endpoint) ? 0 : attach_program(endpoint);

	share->nonce =
		(uint64_t)entropy_u32(&endpoint->entropy) << 32 | entropy_u32(&endpoint->entropy);
	for (int i = 0; i < JOIN_ATTEMPTS && !error; i++) {
		struct pollfd poll_fd = { .fd = endpoint->fd, .events = POLLIN };

		look(endpoint);
		if (poll(&poll_fd, 1, JOIN_WAIT_MS) > 0)
			rx_drain(endpoint);
		if (share->found < CLASSES) {
			share->state = STEER_FINE;
			return (int)share->found;
		}
		error = attach_program(
			endpoint); /* the last process may have ended, and its program with it */
	}
	log_info("no steering on the shared port (%s): packets are handed on instead",
		 error ? strerror(-error) : "probes do not come back");
	return -1;
}

void steer_told(struct roce_endpoint *endpoint, uint32_t class, uint32_t place)
{
	if (class < CLASSES && place < CLASSES && class != endpoint->class)
		endpoint->share->places[class] = (uint8_t)place;
}

/* Announces the place that was found and attaches a program. In this order: others then know the place when they attach
 * theirs. */
static void settle(struct roce_endpoint *endpoint)
{
	struct share *share = endpoint->share;

	share->places[endpoint->class] = (uint8_t)share->found;
	share_announce(endpoint);
	attach_program(endpoint);
	endpoint->fabric.counters[FABRIC_RX_STEERED]++;
}

void steer_tick(struct roce_endpoint *endpoint, uint64_t now_ns, bool drained)
{
	struct share *share = endpoint->share;

	if (!share || share->state == STEER_OFF || now_ns < share->until_ns)
		return;
	switch (share->state) {
	case STEER_CHECKING:
		/* The probe may still wait behind other packets. */
		if (!drained)
			return;
		look(endpoint);
		share->state = STEER_LOOKING;
		share->until_ns = now_ns + ANSWER_NS;
		break;
	case STEER_LOOKING:
		if (!drained)
			return;
		if (share->found < CLASSES)
			settle(endpoint);
		share->state = STEER_FINE;
		share->until_ns = now_ns; /* check at once */
		break;
	default:
		send_probe(endpoint, PROBE_CLASS, endpoint->class);
		share->state = STEER_CHECKING;
		share->checked_ns = now_ns;
		share->until_ns = now_ns + ANSWER_NS;
		break;
	}
}

uint64_t steer_deadline_ns(const struct roce_endpoint *endpoint)
{
	const struct share *share = endpoint->share;

	return !share || share->state == STEER_OFF || !endpoint->qps ? UINT64_MAX : share->until_ns;
}
