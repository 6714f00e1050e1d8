/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our end of the wire test: RoCEv2 made and taken apart by src/wire on a plain UDP socket, against the
 * kernel's soft-RoCE.
 *
 *	udp_peer ADDRESS PATH_MTU DIRECTORY
 *
 * The socket is bound to RoCE's port and left unconnected, with path MTU discovery on: so IPv4
 * packets leave with DF and identification 0, or 0, 1, 2, ... in one UDP_SEGMENT send, which the ICRC
 * must say beforehand. One datagram is one contiguous buffer: this is a test, not a data path.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meet.h"
#include "plan.h"
#include "wire/icrc.h"
#include "wire/roce.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
/* From linux/udp.h, which cannot be included beside netinet/udp.h. */
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

/* Every byte differs from its neighbours, so that a wrong byte order shows. PSNs wrap in the test. */
#define OWN_UC_QPN   0x1a2b3c
#define OWN_UD_QPN   0x4d5e6f
#define OWN_UC_PSN   0xfffff6
#define OWN_RKEY     0x89abcdef
#define OWN_QKEY     0x2468ace1
#define OWN_VA	     0x0706050403020101u
#define NO_SUCH_QPN  0x800000 /* this bit of a QPN is clear in every one the kernel gives out */
#define DATAGRAM_MAX 65507
#define WRONG_IP_ID  0x5aa5
#define ARRIVAL_MS   10000

struct peer {
	int fd;
	struct sockaddr_storage address, other_address;
	socklen_t address_length;
	struct icrc_flow to_kernel;
	struct meet_end other;
	uint32_t path_mtu;
	const char *label;
};

static struct sockaddr_storage resolve(const char *text, socklen_t *length)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_DGRAM,
	};
	struct sockaddr_storage address = { 0 };
	struct addrinfo *found;

	if (getaddrinfo(text, "4791", &hints, &found) != 0)
		report_fatal("not an address: %s", text);
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	*length = found->ai_addrlen;
	freeaddrinfo(found);
	return address;
}

static void set_option(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)) != 0)
		report_fatal("setsockopt %d %d: %s", level, option, strerror(errno));
}

static void open_socket(struct peer *peer)
{
	peer->fd = socket(peer->address.ss_family, SOCK_DGRAM, 0);
	if (peer->fd < 0 || bind(peer->fd, (void *)&peer->address, peer->address_length) != 0)
		report_fatal("cannot bind: %s", strerror(errno));
	if (peer->address.ss_family == AF_INET) {
		set_option(peer->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	} else {
		set_option(peer->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
		/* The kernel's soft-RoCE, like a NIC, sends no UDP checksum. */
		set_option(peer->fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	}
	set_option(peer->fd, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20);
}

/* Header, payload, pad and ICRC as a whole datagram; its length. */
static size_t build(struct peer *peer, struct roce_packet *packet, const struct plan_step *step,
		    uint16_t ip_id, uint8_t *out)
{
	size_t headers, end, length;
	uint32_t crc;

	packet->fecn = step->congested;
	if (step->fault == FAULT_QPN)
		packet->dest_qpn ^= NO_SUCH_QPN;
	headers = roce_encode(packet, out, ROCE_HEADERS_MAX);
	end = headers + step->length + packet->pad;
	length = end + ROCE_ICRC_SIZE;
	memcpy(out + headers, packet->payload, step->length);
	memset(out + headers + step->length, 0, packet->pad);
	crc = icrc_begin(&peer->to_kernel, length, ip_id, true, out, headers);
	icrc_final(icrc_update(crc, out + headers, end - headers), out + end);
	if (step->fault == FAULT_ICRC)
		out[end] ^= 0x10;
	return length;
}

/* `segment` 0 sends one datagram, otherwise datagrams of that length. */
static bool transmit(struct peer *peer, const uint8_t *data, size_t length, uint16_t segment)
{
	union {
		char space[CMSG_SPACE(sizeof(segment))];
		struct cmsghdr aligned;
	} control = { 0 };
	struct iovec piece = { .iov_base = (void *)(uintptr_t)data, .iov_len = length };
	struct msghdr message = {
		.msg_name = &peer->other_address,
		.msg_namelen = peer->address_length,
		.msg_iov = &piece,
		.msg_iovlen = 1,
	};

	if (segment) {
		struct cmsghdr *header;

		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = IPPROTO_UDP;
		header->cmsg_type = UDP_SEGMENT;
		header->cmsg_len = CMSG_LEN(sizeof(segment));
		memcpy(CMSG_DATA(header), &segment, sizeof(segment));
	}
	return sendmsg(peer->fd, &message, 0) == (ssize_t)length;
}

static void make_write(const struct peer *peer, const struct plan_step *step, uint32_t psn,
		       const uint8_t *payload, struct roce_packet *out)
{
	uint32_t rkey = peer->other.rkey ^ (step->fault == FAULT_KEY);

	roce_uc_write_imm(out, peer->other.uc_qpn, psn, peer->other.va + step->offset, rkey,
			  step->imm, payload, step->length);
}

static void make_datagram(const struct peer *peer, const struct plan_step *step, uint32_t psn,
			  const uint8_t *payload, struct roce_packet *out)
{
	uint32_t qkey = peer->other.qkey ^ (step->fault == FAULT_KEY);

	if (step->has_imm)
		roce_ud_send_imm(out, peer->other.ud_qpn, psn, qkey, OWN_UD_QPN, step->imm, payload,
				 step->length);
	else
		roce_ud_send(out, peer->other.ud_qpn, psn, qkey, OWN_UD_QPN, payload, step->length);
}

typedef void maker(const struct peer *, const struct plan_step *, uint32_t, const uint8_t *,
		   struct roce_packet *);

static void send_plan(struct peer *peer, const struct plan_step *steps, size_t count, maker *make,
		      const char *what)
{
	static uint8_t buffer[DATAGRAM_MAX], payload[DATAGRAM_MAX];
	size_t filled = 0, segment = 0, sent = 0;
	uint16_t ip_id = 0;

	for (size_t i = 0; i < count; i++) {
		struct roce_packet packet;
		bool more = steps[i].batched && i + 1 < count && steps[i + 1].batched;

		plan_fill(&steps[i], payload);
		make(peer, &steps[i], OWN_UC_PSN + (uint32_t)i, payload, &packet);
		segment = build(peer, &packet, &steps[i], ip_id, buffer + filled);
		filled += segment;
		ip_id++;
		if (more)
			continue;
		if (transmit(peer, buffer, filled, steps[i].batched ? (uint16_t)segment : 0))
			sent += ip_id;
		filled = 0;
		ip_id = 0;
	}
	report(sent == count, "%s: %s to rxe: %zu of %zu sent", peer->label, what, sent, count);
}

/*
 * The next datagram from the kernel, checked and taken apart. False if none came, or not a sound one.
 * The kernel's IPv4 identification (it counts) is not to be seen here: start from a wrong
 * guess, so that the ICRC has to give it away.
 */
static bool next_packet(struct peer *peer, uint8_t *buffer, struct roce_packet *out)
{
	struct pollfd waiting = { .fd = peer->fd, .events = POLLIN };
	struct sockaddr_storage from;
	socklen_t from_length = sizeof(from);
	struct icrc_match match, again;
	struct icrc_flow flow;
	ssize_t length;

	if (poll(&waiting, 1, ARRIVAL_MS) <= 0)
		return false;
	length = recvfrom(peer->fd, buffer, DATAGRAM_MAX, 0, (void *)&from, &from_length);
	if (length <= 0 || icrc_flow_init((void *)&from, (void *)&peer->address, &flow) != 0)
		return false;
	if (icrc_verify(&flow, buffer, (size_t)length, WRONG_IP_ID, ICRC_ANY_ID, &match) !=
	    (flow.ipv6 ? ICRC_EXACT : ICRC_UP_TO_ID))
		return false;
	/* What was recovered must be right as a guess. */
	if (icrc_verify(&flow, buffer, (size_t)length, match.id, ICRC_ANY_ID, &again) != ICRC_EXACT)
		return false;
	/* A check that passes everything would have passed so far: a flipped bit must not. */
	buffer[length / 2] ^= 1;
	if (icrc_verify(&flow, buffer, (size_t)length, match.id, ICRC_ANY_ID, &again) == ICRC_EXACT)
		return false;
	buffer[length / 2] ^= 1;
	return roce_decode(buffer, (size_t)length, out) == 0 && out->pkey == ROCE_DEFAULT_PKEY;
}

static void receive_writes(struct peer *peer)
{
	static uint8_t buffer[DATAGRAM_MAX];
	struct plan_step steps[PLAN_MAX];
	size_t count = plan_writes(PLAN_FROM_KERNEL, peer->path_mtu, steps), good = 0;
	size_t size = plan_memory_size(peer->path_mtu);
	uint8_t *memory = malloc(size), *expected = malloc(size);
	struct roce_packet packet;

	if (!memory || !expected)
		report_fatal("no memory");
	plan_memory_before(memory, size);
	for (size_t i = 0; i < count; i++) {
		uint64_t offset;

		if (!next_packet(peer, buffer, &packet))
			break;
		offset = packet.reth.va - OWN_VA;
		if (packet.kind != ROCE_UC_WRITE_IMM || packet.dest_qpn != OWN_UC_QPN ||
		    packet.psn != ((peer->other.uc_psn + i) & ROCE_PSN_MASK) ||
		    packet.reth.rkey != OWN_RKEY || packet.imm != steps[i].imm ||
		    packet.payload_length != steps[i].length ||
		    offset > size - packet.payload_length)
			break;
		memcpy(memory + offset, packet.payload, packet.payload_length);
		good++;
	}
	plan_memory_after(steps, count, expected, size);
	report(good == count, "%s: writes from rxe: %zu of %zu arrived, in order, ICRC right",
	       peer->label, good, count);
	report(memcmp(memory, expected, size) == 0, "%s: writes from rxe: every byte in its place",
	       peer->label);
	free(memory);
	free(expected);
}

static void receive_datagrams(struct peer *peer)
{
	static uint8_t buffer[DATAGRAM_MAX];
	struct plan_step steps[PLAN_MAX];
	size_t count = plan_datagrams(PLAN_FROM_KERNEL, peer->path_mtu, steps), good = 0;
	struct roce_packet packet;

	for (size_t i = 0; i < count; i++) {
		if (!next_packet(peer, buffer, &packet))
			break;
		good += packet.kind == (steps[i].has_imm ? ROCE_UD_SEND_IMM : ROCE_UD_SEND) &&
			packet.dest_qpn == OWN_UD_QPN && packet.deth.qkey == OWN_QKEY &&
			packet.deth.src_qpn == peer->other.ud_qpn &&
			(!steps[i].has_imm || packet.imm == steps[i].imm) &&
			packet.payload_length == steps[i].length &&
			plan_matches(&steps[i], packet.payload);
	}
	report(good == count,
	       "%s: datagrams from rxe: %zu of %zu arrived, in order, ICRC and data right",
	       peer->label, good, count);
}

int main(int argc, char **argv)
{
	struct meet_end own = {
		.va = OWN_VA,
		.rkey = OWN_RKEY,
		.uc_qpn = OWN_UC_QPN,
		.uc_psn = OWN_UC_PSN,
		.ud_qpn = OWN_UD_QPN,
		.qkey = OWN_QKEY,
	};
	struct plan_step steps[PLAN_MAX];
	struct peer peer = { 0 };
	socklen_t other_length;
	size_t count;

	if (argc != 4)
		report_fatal("usage: udp_peer address path_mtu directory");
	peer.path_mtu = (uint32_t)strtoul(argv[2], NULL, 10);
	peer.label = basename(argv[3]);
	peer.address = resolve(argv[1], &peer.address_length);
	open_socket(&peer);
	strncpy(own.address, argv[1], sizeof(own.address) - 1);
	meet_publish(argv[3], "udp", &own);
	meet_await(argv[3], "rxe", &peer.other);
	peer.other_address = resolve(peer.other.address, &other_length);
	if (icrc_flow_init((void *)&peer.address, (void *)&peer.other_address, &peer.to_kernel) !=
	    0)
		report_fatal("the two addresses differ in family");

	count = plan_writes(PLAN_TO_KERNEL, peer.path_mtu, steps);
	send_plan(&peer, steps, count, make_write, "writes");
	count = plan_datagrams(PLAN_TO_KERNEL, peer.path_mtu, steps);
	send_plan(&peer, steps, count, make_datagram, "datagrams");
	receive_writes(&peer);
	receive_datagrams(&peer);
	close(peer.fd);
	return report_status();
}
