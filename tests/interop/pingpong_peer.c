/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's half of rdma-core's ibv_uc_pingpong and ibv_ud_pingpong, on a plain UDP socket: the server is their
 * program, unchanged, on soft-RoCE.
 *
 *	pingpong_peer uc|ud ADDRESS SERVER SERVER_TCP SIZE ROUNDS
 *
 * The two exchange a line of text over TCP, as the programs do among themselves (IPv4: their server listens nowhere
 * else), then play. src/wire makes and checks the
 * datagrams of UD. It knows no UC sends, which Godwit has no use for: their twelve bytes of header are laid out here, and
 * what src/wire lends to them is the ICRC.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "meet.h"
#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/roce.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#define TCP_PORT     "18515"
#define GREETING     "0000:000000:000000:00000000000000000000000000000000"
#define OWN_QPN	     0x2b3c4d
#define OWN_PSN	     0xfffffa /* wraps soon */
#define THEIR_QKEY   0x11111111
#define THEIR_BYTE   0x7b
#define UC_SEND_ONLY 0x24
#define BTH_SIZE     12
#define PACKET_MAX   4200
#define ARRIVAL_MS   3000

struct player {
	bool ud;
	int fd;
	struct sockaddr_storage own, theirs;
	socklen_t length;
	struct icrc_flow to_them;
	uint32_t qpn;
	uint32_t size;
	const char *label;
};

static void resolve(const char *text, const char *port, struct sockaddr_storage *out,
		    socklen_t *length)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;

	if (getaddrinfo(text, port, &hints, &found) != 0)
		report_fatal("not an address: %s", text);
	memcpy(out, found->ai_addr, found->ai_addrlen);
	*length = found->ai_addrlen;
	freeaddrinfo(found);
}

static void gid_text(const struct sockaddr_storage *address, char out[33])
{
	uint8_t gid[16] = { [10] = 0xff, [11] = 0xff };

	if (address->ss_family == AF_INET)
		memcpy(gid + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
	else
		memcpy(gid, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
	for (int i = 0; i < 16; i++)
		sprintf(out + 2 * i, "%02x", gid[i]);
}

static int call(const char *server)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	struct sockaddr_storage address;
	socklen_t length;

	resolve(server, TCP_PORT, &address, &length);
	for (int i = 0; i < 250; i++) {
		int fd = socket(address.ss_family, SOCK_STREAM, 0);

		if (!connect(fd, (void *)&address, length))
			return fd;
		close(fd);
		nanosleep(&nap, NULL);
	}
	report_fatal("the server does not answer");
}

static void greet(struct player *player, const char *server)
{
	char text[sizeof(GREETING)], gid[33];
	unsigned lid, qpn, psn;
	int fd = call(server);

	gid_text(&player->own, gid);
	snprintf(text, sizeof(text), "%04x:%06x:%06x:%s", 0, OWN_QPN, OWN_PSN, gid);
	if (write(fd, text, sizeof(text)) != sizeof(text) ||
	    recv(fd, text, sizeof(text), MSG_WAITALL) != sizeof(text) ||
	    sscanf(text, "%x:%x:%x:", &lid, &qpn, &psn) != 3 ||
	    write(fd, "done", sizeof("done")) != sizeof("done"))
		report_fatal("%s: the server's greeting is not understood", player->label);
	player->qpn = qpn;
	close(fd);
}

static void open_socket(struct player *player)
{
	bool v4 = player->own.ss_family == AF_INET;
	int discover = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO, on = 1;

	player->fd = socket(player->own.ss_family, SOCK_DGRAM, 0);
	if (player->fd < 0 || bind(player->fd, (void *)&player->own, player->length) ||
	    setsockopt(player->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
		       v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover)) ||
	    (!v4 && setsockopt(player->fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on))))
		report_fatal("cannot open the socket: %s", strerror(errno));
}

static size_t uc_header(const struct player *player, uint32_t psn, uint8_t *out)
{
	memset(out, 0, BTH_SIZE);
	out[0] = UC_SEND_ONLY;
	out[1] = (uint8_t)(0x40 | (-player->size & 3) << 4);
	put_be16(out + 2, ROCE_DEFAULT_PKEY);
	put_be24(out + 5, player->qpn);
	put_be24(out + 9, psn & ROCE_PSN_MASK);
	return BTH_SIZE;
}

static bool serve(struct player *player, uint32_t psn)
{
	static uint8_t packet[PACKET_MAX], payload[PACKET_MAX];
	size_t headers, end;
	uint32_t crc;

	memset(payload, THEIR_BYTE, player->size);
	if (player->ud) {
		struct roce_packet datagram;

		roce_ud_send(&datagram, player->qpn, psn, THEIR_QKEY, OWN_QPN, payload,
			     player->size);
		headers = roce_encode(&datagram, packet, ROCE_HEADERS_MAX);
	} else {
		headers = uc_header(player, psn, packet);
	}
	memcpy(packet + headers, payload, player->size);
	end = headers + player->size;
	while ((end - headers) % 4)
		packet[end++] = 0;
	crc = icrc_begin(&player->to_them, end + ROCE_ICRC_SIZE, 0, true, packet, headers);
	icrc_final(icrc_update(crc, packet + headers, end - headers), packet + end);
	end += ROCE_ICRC_SIZE;
	return sendto(player->fd, packet, end, 0, (const void *)&player->theirs, player->length) ==
	       (ssize_t)end;
}

static bool all_theirs(const uint8_t *payload, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (payload[i] != THEIR_BYTE)
			return false;
	return true;
}

static bool sound(struct player *player, const uint8_t *packet, size_t length)
{
	size_t pad = -player->size & 3;
	struct roce_packet datagram;

	if (player->ud)
		return roce_decode(packet, length, &datagram) == 0 &&
		       datagram.kind == ROCE_UD_SEND && datagram.dest_qpn == OWN_QPN &&
		       datagram.deth.qkey == THEIR_QKEY && datagram.deth.src_qpn == player->qpn &&
		       datagram.payload_length == player->size &&
		       all_theirs(datagram.payload, datagram.payload_length);
	return length == BTH_SIZE + player->size + pad + ROCE_ICRC_SIZE &&
	       packet[0] == UC_SEND_ONLY && (packet[1] >> 4 & 3) == pad &&
	       get_be24(packet + 5) == OWN_QPN && all_theirs(packet + BTH_SIZE, player->size);
}

static bool take(struct player *player)
{
	static uint8_t packet[PACKET_MAX];
	struct pollfd waiting = { .fd = player->fd, .events = POLLIN };
	struct sockaddr_storage from;
	socklen_t from_length = sizeof(from);
	struct icrc_match match;
	struct icrc_flow flow;
	ssize_t length;

	if (poll(&waiting, 1, ARRIVAL_MS) <= 0)
		return false;
	length = recvfrom(player->fd, packet, sizeof(packet), 0, (void *)&from, &from_length);
	return length > 0 &&
	       icrc_flow_init((void *)&from, (const void *)&player->own, &flow) == 0 &&
	       icrc_verify(&flow, packet, (size_t)length, 0, 65535, &match) != ICRC_BAD &&
	       sound(player, packet, (size_t)length);
}

int main(int argc, char **argv)
{
	struct player player = { 0 };
	uint32_t rounds, good = 0;
	char label[64];

	if (argc != 7)
		report_fatal("usage: pingpong_peer uc|ud address server server_tcp size rounds");
	player.ud = !strcmp(argv[1], "ud");
	player.size = (uint32_t)strtoul(argv[5], NULL, 10);
	rounds = (uint32_t)strtoul(argv[6], NULL, 10);
	snprintf(label, sizeof(label), "ibv_%s_pingpong, %s, %u bytes", argv[1],
		 strchr(argv[2], ':') ? "IPv6" : "IPv4", player.size);
	player.label = label;
	resolve(argv[2], "4791", &player.own, &player.length);
	resolve(argv[3], "4791", &player.theirs, &player.length);
	open_socket(&player);
	if (icrc_flow_init((void *)&player.own, (void *)&player.theirs, &player.to_them))
		report_fatal("the two addresses differ in family");
	greet(&player, argv[4]);
	while (good < rounds && serve(&player, OWN_PSN + good) && take(&player))
		good++;
	report(good == rounds, "%s: %u of %u rounds played", label, good, rounds);
	return report_status();
}
