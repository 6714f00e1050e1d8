/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_pingpong: how long a small packet takes through two UDP sockets, there and back, halved.
 *
 * Usage: udp_pingpong --serve [--bind ADDRESS]
 *	  udp_pingpong HOST [--count N] [--size SIZE] [--poll | --sleep] [--as-godwit]
 *	  both: [--port N]
 *
 * A packet is as large as Godwit's with the same payload. Polling, an end asks its socket again
 * and again; sleeping, it blocks and the kernel wakes it. The client says which, and both ends do
 * the same. An answer that stays away for a while was lost: it is counted and the next one goes.
 *
 * With --as-godwit the kernel is asked what Godwit has to ask it: to send to an address, for no socket
 * is connected; where a packet came from, when, how it was marked and how many were dropped; and,
 * sleeping, to wait until one can be read. The packet is as large as that of a Godwit ping. What Godwit takes
 * longer than that is its own work.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

#define SIZE_MAX_BYTES 1400
#define WARM_UP	       200	 /* round trips that are not counted, or a tenth if that is less */
#define LOST_NS	       200000000 /* and so is an answer after this long */
#define COUNT_MAX      10000000
#define END	       UINT64_MAX /* the number that ends the server */
/* What a Godwit ping on a queue pair adds to its payload: headers, announcement, result and report. */
#define GODWIT_OVERHEAD 224
/* Room for what the kernel says of a packet. */
#define ANCILLARY 112
#define ECN_ECT0  2

struct options {
	struct ends ends;
	uint64_t count;
	uint64_t size;
	uint64_t poll;
	uint64_t as_godwit;
};

enum { HELLO_SIZE, HELLO_POLL, HELLO_PORT, HELLO_AS_GODWIT, HELLO_WORDS };

/* The socket, and how it is asked. */
struct line {
	int udp;
	bool poll;
	bool as_godwit;
	struct sockaddr_in peer;
};

static void set_option(int udp, int level, int name, int value)
{
	if (setsockopt(udp, level, name, &value, sizeof(value)))
		die("setsockopt", errno);
}

static struct line line_open(int udp, int control, uint16_t port, bool poll, bool as_godwit)
{
	struct line line = { .udp = udp, .poll = poll, .as_godwit = as_godwit };
	socklen_t length = sizeof(line.peer);

	set_timeout(udp, LOST_NS / 1000000);
	if (!as_godwit) {
		udp_connect(udp, control, port);
		return line;
	}
	if (getpeername(control, (struct sockaddr *)&line.peer, &length))
		die("the other end", errno);
	line.peer.sin_port = htons(port);
	set_option(udp, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	set_option(udp, IPPROTO_IP, IP_TOS, ECN_ECT0);
	set_option(udp, IPPROTO_IP, IP_RECVTOS, 1);
	set_option(udp, SOL_SOCKET, SO_RXQ_OVFL, 1);
	set_option(udp, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	set_option(udp, SOL_UDP, UDP_GRO, 1);
	return line;
}

static ssize_t line_send(struct line *line, void *packet, size_t size)
{
	struct iovec part = { packet, size };
	struct msghdr message = { .msg_name = &line->peer,
				  .msg_namelen = sizeof(line->peer),
				  .msg_iov = &part,
				  .msg_iovlen = 1 };

	return line->as_godwit ? sendmsg(line->udp, &message, MSG_DONTWAIT)
			       : send(line->udp, packet, size, 0);
}

static ssize_t line_read(struct line *line, void *packet, size_t size)
{
	struct timespec timeout = { .tv_nsec = LOST_NS };
	struct pollfd readable = { .fd = line->udp, .events = POLLIN };
	_Alignas(struct cmsghdr) uint8_t ancillary[ANCILLARY];
	struct sockaddr_in6 from;
	struct iovec part = { packet, size };
	struct msghdr message = { .msg_name = &from,
				  .msg_namelen = sizeof(from),
				  .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = ancillary,
				  .msg_controllen = sizeof(ancillary) };

	if (!line->as_godwit)
		return recv(line->udp, packet, size, line->poll ? MSG_DONTWAIT : 0);
	if (!line->poll)
		ppoll(&readable, 1, &timeout, NULL);
	return recvmsg(line->udp, &message, MSG_DONTWAIT);
}

static ssize_t receive(struct line *line, void *packet, size_t size)
{
	bool poll = line->poll;

	for (uint64_t begin = poll ? now_ns() : 0;;) {
		ssize_t n = line_read(line, packet, size);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			die("recv", errno);
		if (!poll || now_ns() - begin > LOST_NS)
			return -1;
	}
}

static void serve(const struct options *o)
{
	int control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0));
	uint64_t hello[HELLO_WORDS], number = 0;
	uint8_t packet[GODWIT_OVERHEAD + SIZE_MAX_BYTES];
	int udp = udp_beside(control, o->ends.port);
	struct line line;

	if (!hear(control, hello, HELLO_WORDS) || hello[HELLO_SIZE] > SIZE_MAX_BYTES)
		die_text("the other end", "not a udp_pingpong");
	line = line_open(udp, control, (uint16_t)hello[HELLO_PORT], hello[HELLO_POLL],
			 hello[HELLO_AS_GODWIT]);
	tell(control, &number, 1);
	while (number != END) {
		ssize_t n = receive(&line, packet, sizeof(packet));

		if (n < 0) {
			check_still_there(control);
			continue;
		}
		if (line_send(&line, packet, (size_t)n) < 0)
			die("send", errno);
		memcpy(&number, packet, sizeof(number));
	}
	number = cpu_ns();
	tell(control, &number, 1);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double half_us(const uint64_t *sorted, uint64_t count, double share)
{
	return (double)sorted[(uint64_t)(share * (double)(count - 1))] / 2e3;
}

static size_t packet_bytes(const struct options *o)
{
	return o->size + (o->as_godwit ? GODWIT_OVERHEAD : ROCE_OVERHEAD);
}

static void print_result(const struct options *o, uint64_t *times, uint64_t count, uint64_t lost,
			 uint64_t cpu, uint64_t other_cpu)
{
	qsort(times, count, sizeof(*times), compare);
	printf("{\"peer\": \"udp_pingpong\", \"wait\": \"%s\", \"payload_bytes\": %lu, "
	       "\"packet_bytes\": %lu, \"messages\": %lu, \"lost\": %lu",
	       o->poll ? "poll" : "sleep", o->size, packet_bytes(o), count, lost);
	printf(", \"half_round_trip_us\": {\"least\": %.3f, \"p50\": %.3f, \"p90\": %.3f",
	       half_us(times, count, 0), half_us(times, count, 0.5), half_us(times, count, 0.9));
	/* A 99th percentile of fewer is one message's luck. */
	if (count >= 1000)
		printf(", \"p99\": %.3f", half_us(times, count, 0.99));
	if (count >= 10000)
		printf(", \"p999\": %.3f", half_us(times, count, 0.999));
	printf(", \"most\": %.3f}", half_us(times, count, 1));
	print_seconds("sender_cpu_s", cpu);
	print_seconds("receiver_cpu_s", other_cpu);
	printf("}\n");
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	int udp = udp_beside(control, 0);
	uint64_t hello[HELLO_WORDS] = { [HELLO_SIZE] = o->size,
					[HELLO_POLL] = o->poll,
					[HELLO_PORT] = udp_port(udp),
					[HELLO_AS_GODWIT] = o->as_godwit };
	struct line line = line_open(udp, control, o->ends.port, o->poll, o->as_godwit);
	uint64_t *times = calloc(o->count, sizeof(*times));
	uint64_t word, cpu, counted = 0, lost = 0;
	uint64_t warm_up = o->count / 10 < WARM_UP ? o->count / 10 : WARM_UP;
	uint8_t packet[GODWIT_OVERHEAD + SIZE_MAX_BYTES] = { 0 }, answer[sizeof(packet)];
	size_t length = packet_bytes(o);

	if (!times)
		die("times", ENOMEM);
	tell(control, hello, HELLO_WORDS);
	if (!hear(control, &word, 1))
		die_text(o->ends.host, "the server went away");

	cpu = cpu_ns();
	for (uint64_t number = 0; counted < o->count; number++) {
		uint64_t begin = now_ns(), heard = 0;
		ssize_t n;

		memcpy(packet, &number, sizeof(number));
		if (line_send(&line, packet, length) < 0)
			die("send", errno);
		/* An answer that was given up may still come. */
		do {
			n = receive(&line, answer, sizeof(answer));
			if (n >= (ssize_t)sizeof(heard))
				memcpy(&heard, answer, sizeof(heard));
		} while (n >= 0 && heard != number);
		if (n < 0)
			lost++;
		else if (number >= warm_up)
			times[counted++] = now_ns() - begin;
		if (lost > o->count)
			die_text(o->ends.host, "does not answer");
	}
	cpu = cpu_ns() - cpu;
	memset(packet, 0xff, sizeof(uint64_t));
	set_timeout(control, 50);
	do {
		if (line_send(&line, packet, length) < 0 && errno != ECONNREFUSED)
			die("send", errno);
	} while (recv(control, &word, sizeof(word), MSG_WAITALL) != sizeof(word));
	print_result(o, times, counted, lost, cpu, word);
	free(times);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		{ "count", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 'm' },
		{ "poll", no_argument, NULL, 'P' },
		{ "sleep", no_argument, NULL, 'S' },
		{ "as-godwit", no_argument, NULL, 'G' },
		{ 0 },
	};
	struct options o = { .ends = ENDS_DEFAULTS, .count = 10000, .size = 64, .poll = true };
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'n':
			o.count = parse_size("--count", optarg);
			break;
		case 'm':
			o.size = parse_size("--size", optarg);
			break;
		case 'P':
		case 'S':
			o.poll = option == 'P';
			break;
		case 'G':
			o.as_godwit = true;
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv) || o.size > SIZE_MAX_BYTES || !o.count ||
	    o.count > COUNT_MAX)
		die_text(
			"usage",
			"udp_pingpong --serve | HOST [options]; size to 1400, count 1 to 10000000");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
