/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_pingpong: how long a small packet takes through two UDP sockets, there and back, halved.
 *
 * Usage: udp_pingpong --serve [--bind ADDRESS]
 *	  udp_pingpong HOST [--count N] [--size SIZE] [--poll | --sleep]
 *	  both: [--port N]
 *
 * A packet is as large as Godwit's with the same payload. Polling, an end asks its socket again
 * and again; sleeping, it blocks and the kernel wakes it. The client says which, and both ends do
 * the same. An answer that stays away for a while was lost: it is counted and the next one goes.
 */
#include <errno.h>
#include <getopt.h>
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

struct options {
	struct ends ends;
	uint64_t count;
	uint64_t size;
	uint64_t poll;
};

enum { HELLO_SIZE, HELLO_POLL, HELLO_PORT, HELLO_WORDS };

static ssize_t receive(int udp, void *packet, size_t size, bool poll)
{
	for (uint64_t begin = poll ? now_ns() : 0;;) {
		ssize_t n = recv(udp, packet, size, poll ? MSG_DONTWAIT : 0);

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
	uint8_t packet[ROCE_OVERHEAD + SIZE_MAX_BYTES];
	int udp = udp_beside(control, o->ends.port);

	if (!hear(control, hello, HELLO_WORDS) || hello[HELLO_SIZE] > SIZE_MAX_BYTES)
		die_text("the other end", "not a udp_pingpong");
	udp_connect(udp, control, (uint16_t)hello[HELLO_PORT]);
	set_timeout(udp, LOST_NS / 1000000);
	tell(control, &number, 1);
	while (number != END) {
		ssize_t n = receive(udp, packet, sizeof(packet), hello[HELLO_POLL]);

		if (n < 0) {
			check_still_there(control);
			continue;
		}
		if (send(udp, packet, (size_t)n, 0) < 0)
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

static void print_result(const struct options *o, uint64_t *times, uint64_t count, uint64_t lost,
			 uint64_t cpu, uint64_t other_cpu)
{
	qsort(times, count, sizeof(*times), compare);
	printf("{\"peer\": \"udp_pingpong\", \"wait\": \"%s\", \"payload_bytes\": %lu, "
	       "\"packet_bytes\": %lu, \"messages\": %lu, \"lost\": %lu",
	       o->poll ? "poll" : "sleep", o->size, o->size + ROCE_OVERHEAD, count, lost);
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
	uint64_t hello[HELLO_WORDS] = {
		[HELLO_SIZE] = o->size, [HELLO_POLL] = o->poll, [HELLO_PORT] = udp_port(udp)
	};
	uint64_t *times = calloc(o->count, sizeof(*times));
	uint64_t word, cpu, counted = 0, lost = 0;
	uint64_t warm_up = o->count / 10 < WARM_UP ? o->count / 10 : WARM_UP;
	uint8_t packet[ROCE_OVERHEAD + SIZE_MAX_BYTES] = { 0 }, answer[sizeof(packet)];
	size_t length = ROCE_OVERHEAD + o->size;

	if (!times)
		die("times", ENOMEM);
	udp_connect(udp, control, o->ends.port);
	set_timeout(udp, LOST_NS / 1000000);
	tell(control, hello, HELLO_WORDS);
	if (!hear(control, &word, 1))
		die_text(o->ends.host, "the server went away");

	cpu = cpu_ns();
	for (uint64_t number = 0; counted < o->count; number++) {
		uint64_t begin = now_ns(), heard = 0;
		ssize_t n;

		memcpy(packet, &number, sizeof(number));
		if (send(udp, packet, length, 0) < 0)
			die("send", errno);
		/* An answer that was given up may still come. */
		do {
			n = receive(udp, answer, sizeof(answer), o->poll);
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
		if (send(udp, packet, length, 0) < 0 && errno != ECONNREFUSED)
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
