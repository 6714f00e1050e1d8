/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_blast: the floor. What UDP sockets carry when nothing is done but sending, receiving and
 * copying each payload to its place once: no reliability, no ICRC, no state but a count.
 *
 * Usage: udp_blast --serve [--bind ADDRESS] [--eager]
 *	  udp_blast HOST [--seconds S | --packets N] [--payload SIZE] [--window SIZE] ...
 *	  both: [--port N]
 *
 * Packets are the size of Godwit's: 36 bytes, of which the first 8 are the packet's number, and a
 * payload gathered from the working set. They leave by UDP_SEGMENT, as many as fit one send, and
 * arrive by UDP_GRO and recvmmsg in a staging buffer. The receiver tells the highest number it
 * saw (credit), and the sender never runs more than the window ahead of that; where credit stays
 * away it takes the window for lost and goes on. What is missing at the end was lost. An eager receiver is always ahead of the sender:
 * it does not sleep, and leaves the payload in the staging buffer.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#define SEGMENTS_MAX  64
#define GSO_BYTES_MAX 65507
#define STAGES	      8
#define STAGE_SIZE    65536
#define QUIET_MS      100 /* nothing for this long after the sender's end: nothing will come */

struct options {
	struct ends ends;
	uint64_t packets;
	uint64_t payload;
	uint64_t window;
	uint64_t segments;
	bool eager;
};

enum { HELLO_PAYLOAD, HELLO_WORKING_SET, HELLO_WINDOW, HELLO_PORT, HELLO_WORDS };
enum { REPORT_PACKETS, REPORT_LATE, REPORT_WALL_NS, REPORT_CPU_NS, REPORT_WORDS };

struct receiver {
	int udp;
	int control;
	uint8_t *memory;
	uint64_t payload;
	uint64_t places;       /* payloads the working set holds */
	uint64_t credit_every; /* packets */
	uint64_t next;	       /* one more than the highest number seen */
	uint64_t credited;
	uint64_t packets;
	uint64_t late; /* behind a higher number */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t cpu_at_first;
	uint64_t cpu_at_last;
	uint8_t *stages;
	bool eager;
};

static void land(struct receiver *r, const uint8_t *packet, size_t length)
{
	uint64_t number;

	if (length != ROCE_OVERHEAD + r->payload)
		die_text("packet", "of another size than agreed");
	memcpy(&number, packet, sizeof(number));
	if (!r->eager)
		memcpy(r->memory + number % r->places * r->payload, packet + ROCE_OVERHEAD,
		       r->payload);
	r->packets++;
	if (number < r->next)
		r->late++;
	else
		r->next = number + 1;
}

static size_t segment_of(struct msghdr *msg, size_t length)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int segment;

		if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(c), sizeof(segment));
		return (size_t)segment;
	}
	return length;
}

/* false when nothing came for a while. */
static bool receive_some(struct receiver *r)
{
	struct mmsghdr messages[STAGES];
	struct iovec iov[STAGES];
	char control[STAGES][CMSG_SPACE(sizeof(int))];
	int count;

	for (int i = 0; i < STAGES; i++) {
		iov[i] = (struct iovec){ r->stages + (size_t)i * STAGE_SIZE, STAGE_SIZE };
		messages[i].msg_hdr = (struct msghdr){
			.msg_iov = &iov[i],
			.msg_iovlen = 1,
			.msg_control = control[i],
			.msg_controllen = sizeof(control[i]),
		};
	}
	do
		count = recvmmsg(r->udp, messages, STAGES, r->eager ? MSG_DONTWAIT : MSG_WAITFORONE,
				 NULL);
	while (count < 0 && errno == EAGAIN && r->eager &&
	       now_ns() - r->last_ns < QUIET_MS * 1000000);
	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (count < 0)
		die("recvmmsg", errno);
	if (!r->packets) {
		r->first_ns = now_ns();
		r->cpu_at_first = cpu_ns();
	}
	for (int i = 0; i < count; i++) {
		size_t left = messages[i].msg_len;
		size_t segment = segment_of(&messages[i].msg_hdr, left);
		const uint8_t *at = iov[i].iov_base;

		for (; left; at += segment) {
			size_t length = left < segment ? left : segment;

			land(r, at, length);
			left -= length;
		}
	}
	if (r->next - r->credited >= r->credit_every) {
		r->credited = r->next;
		if (send(r->udp, &r->next, sizeof(r->next), 0) < 0)
			die("credit", errno);
	}
	return true;
}

static void serve(const struct options *o)
{
	struct receiver r = { .control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0)),
			      .eager = o->eager };
	uint64_t hello[HELLO_WORDS], sent = UINT64_MAX;
	int one = 1;

	if (!hear(r.control, hello, HELLO_WORDS) || !hello[HELLO_PAYLOAD] ||
	    hello[HELLO_WORKING_SET] < hello[HELLO_PAYLOAD])
		die_text("the other end", "not a udp_blast");
	r.payload = hello[HELLO_PAYLOAD];
	r.places = hello[HELLO_WORKING_SET] / r.payload;
	r.credit_every = hello[HELLO_WINDOW] / r.payload / 4 + 1;
	r.memory = working_set(hello[HELLO_WORKING_SET]);
	r.stages = working_set((size_t)STAGES * STAGE_SIZE);
	r.udp = udp_beside(r.control, o->ends.port);
	udp_connect(r.udp, r.control, (uint16_t)hello[HELLO_PORT]);
	if (setsockopt(r.udp, SOL_UDP, UDP_GRO, &one, sizeof(one)))
		die("UDP_GRO", errno);
	set_timeout(r.udp, QUIET_MS);
	tell(r.control, &r.packets, 1);

	while (r.packets < sent) {
		if (receive_some(&r)) {
			r.last_ns = now_ns();
			r.cpu_at_last = cpu_ns();
		} else if (sent != UINT64_MAX) {
			break;
		}
		/* The sender's end comes once; asking for it costs a system call a batch. */
		if (sent == UINT64_MAX && recv(r.control, &sent, sizeof(sent), MSG_DONTWAIT) == 0)
			die_text("the other end", "went away");
	}
	tell(r.control,
	     (uint64_t[REPORT_WORDS]){ [REPORT_PACKETS] = r.packets,
				       [REPORT_LATE] = r.late,
				       [REPORT_WALL_NS] = r.last_ns - r.first_ns,
				       [REPORT_CPU_NS] = r.cpu_at_last - r.cpu_at_first },
	     REPORT_WORDS);
}

struct sender {
	int udp;
	uint8_t *memory;
	uint64_t payload;
	uint64_t places;
	uint64_t window; /* packets */
	uint64_t sent;
	uint64_t credited;
	uint64_t stalls; /* times that credit stayed away */
	uint8_t headers[SEGMENTS_MAX][ROCE_OVERHEAD];
};

static void send_batch(struct sender *s, uint64_t count)
{
	char control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct iovec iov[2 * SEGMENTS_MAX];
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = 2 * count,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	uint16_t segment = (uint16_t)(s->payload + ROCE_OVERHEAD);

	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t number = s->sent + i;

		memcpy(s->headers[i], &number, sizeof(number));
		iov[2 * i] = (struct iovec){ s->headers[i], ROCE_OVERHEAD };
		iov[2 * i + 1] =
			(struct iovec){ s->memory + number % s->places * s->payload, s->payload };
	}
	if (sendmsg(s->udp, &msg, 0) < 0)
		die("sendmsg", errno);
	s->sent += count;
}

/* Reads what credit there is, and waits for it while the window is used up. */
static void take_credit(struct sender *s)
{
	while (s->sent - s->credited >= s->window) {
		uint64_t next;
		ssize_t n = recv(s->udp, &next, sizeof(next), 0);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			die("credit", errno);
		if (n == sizeof(next) && next > s->credited && next <= s->sent)
			s->credited = next;
		if (n < 0) {
			s->credited = s->sent;
			s->stalls++;
		}
	}
}

static void measure(const struct options *o)
{
	int connection = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	int udp = udp_beside(connection, 0);
	uint64_t hello[HELLO_WORDS] = { [HELLO_PORT] = udp_port(udp),
					[HELLO_PAYLOAD] = o->payload,
					[HELLO_WORKING_SET] = o->ends.working_set,
					[HELLO_WINDOW] = o->window };
	uint64_t report[REPORT_WORDS], begin, cpu,
		fit = GSO_BYTES_MAX / (o->payload + ROCE_OVERHEAD);
	struct sender *s = calloc(1, sizeof(*s));

	if (!s)
		die("sender", ENOMEM);
	fit = fit < o->segments ? fit : o->segments;
	s->payload = o->payload;
	s->places = o->ends.working_set / o->payload;
	s->window = o->window / o->payload + 1;
	s->memory = working_set(o->ends.working_set);
	s->udp = udp;
	udp_connect(s->udp, connection, o->ends.port);
	set_timeout(s->udp, QUIET_MS);
	tell(connection, hello, HELLO_WORDS);
	if (!hear(connection, report, 1))
		die_text(o->ends.host, "the server went away");

	begin = now_ns();
	cpu = cpu_ns();
	while (o->packets ? s->sent < o->packets : now_ns() - begin < o->ends.seconds_ns) {
		uint64_t count =
			o->packets && o->packets - s->sent < fit ? o->packets - s->sent : fit;

		take_credit(s);
		send_batch(s, count);
	}
	cpu = cpu_ns() - cpu;
	tell(connection, &s->sent, 1);
	if (!hear(connection, report, REPORT_WORDS))
		die_text(o->ends.host, "the server went away");

	printf("{\"peer\": \"udp_blast\", \"payload_bytes\": %lu, \"segments\": %lu, "
	       "\"window_bytes\": %lu, \"working_set_bytes\": %lu, \"packets_sent\": %lu, "
	       "\"packets_received\": %lu, \"packets_lost\": %ld, \"packets_late\": %lu, "
	       "\"stalls\": %lu, \"bytes\": %lu",
	       o->payload, fit, o->window, o->ends.working_set, s->sent, report[REPORT_PACKETS],
	       (long)(s->sent - report[REPORT_PACKETS]), report[REPORT_LATE], s->stalls,
	       report[REPORT_PACKETS] * o->payload);
	print_seconds("seconds", report[REPORT_WALL_NS]);
	print_seconds("sender_cpu_s", cpu);
	print_seconds("receiver_cpu_s", report[REPORT_CPU_NS]);
	printf("}\n");
	free(s);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		ENDS_STREAM_OPTIONS,
		{ "packets", required_argument, NULL, 'n' },
		{ "payload", required_argument, NULL, 'm' },
		{ "window", required_argument, NULL, 'W' },
		{ "segments", required_argument, NULL, 'g' },
		{ "eager", no_argument, NULL, 'e' },
		{ 0 },
	};
	struct options o = {
		.ends = ENDS_DEFAULTS, .payload = 1436, .window = 1 << 20, .segments = SEGMENTS_MAX
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'n':
			o.packets = parse_size("--packets", optarg);
			break;
		case 'm':
			o.payload = parse_size("--payload", optarg);
			break;
		case 'W':
			o.window = parse_size("--window", optarg);
			break;
		case 'g':
			o.segments = parse_size("--segments", optarg);
			break;
		case 'e':
			o.eager = true;
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv))
		die_text("usage", "udp_blast --serve | HOST [options]");
	if (!o.payload || o.payload + ROCE_OVERHEAD > GSO_BYTES_MAX ||
	    o.ends.working_set < o.payload || !o.segments || o.segments > SEGMENTS_MAX)
		die_text("usage", "payload 1 to 65471, working set no smaller, segments 1 to 64");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
