/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place: what it costs to read batches of packets into a staging buffer and copy each payload to its place, beside reading them
 * by the kernel's scatter list straight to the places where they are expected.
 *
 * Usage: place PAYLOAD WORKING_SET_MIB
 *
 * One thread sends batches over loopback (UDP_SEGMENT) and reads them whole (UDP_GRO), by either way in turns. Only the reading is
 * timed, in processor time. Nothing is checked and every guess is right: this is the most that reading in place can gain.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define HEADERS	      36u
#define PACKETS_MOST  64u
#define BATCH_BYTES   65000u
#define DATAGRAM_MOST 65536u
#define SOURCE_BYTES  (64u << 20)
/* Batches that wait in the socket before they are read, which that of an ordinary user holds, and batches in all by each way. */
#define AHEAD	2u
#define BATCHES 8000u

enum { STAGED, IN_PLACE, WAYS };

struct scene {
	int from, to;
	uint32_t payload, packets;
	uint8_t *source, *memory;
	uint64_t memory_bytes, source_at, memory_at;
	uint8_t stages[AHEAD][DATAGRAM_MOST];
	uint8_t headers[PACKETS_MOST][HEADERS];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void open_sockets(struct scene *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int segment = (int)(s->payload + HEADERS), on = 1;
	socklen_t length = sizeof(at);

	s->from = socket(AF_INET, SOCK_DGRAM, 0);
	s->to = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(s->to, (struct sockaddr *)&at, length) ||
	    getsockname(s->to, (struct sockaddr *)&at, &length) ||
	    connect(s->from, (struct sockaddr *)&at, length) ||
	    setsockopt(s->from, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)) ||
	    setsockopt(s->to, SOL_UDP, UDP_GRO, &on, sizeof(on)))
		die("sockets");
}

static void send_batch(struct scene *s)
{
	struct iovec parts[2 * PACKETS_MOST];
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 * (size_t)s->packets };

	for (size_t i = 0; i < s->packets; i++) {
		parts[2 * i] = (struct iovec){ s->headers[i], HEADERS };
		parts[2 * i + 1] = (struct iovec){ s->source + s->source_at, s->payload };
		s->source_at = (s->source_at + s->payload) % (SOURCE_BYTES - s->payload);
	}
	if (sendmsg(s->from, &message, 0) < 0)
		die("sendmsg");
}

static void read_staged(struct scene *s, unsigned stage, uint8_t *place)
{
	struct iovec part = { s->stages[stage], DATAGRAM_MOST };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (recvmsg(s->to, &message, 0) < 0)
		die("recvmsg");
	for (size_t i = 0; i < s->packets; i++)
		memcpy(place + i * s->payload,
		       s->stages[stage] + i * (s->payload + HEADERS) + HEADERS, s->payload);
}

static void read_in_place(struct scene *s, uint8_t *place)
{
	struct iovec parts[2 * PACKETS_MOST];
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 * (size_t)s->packets };

	for (size_t i = 0; i < s->packets; i++) {
		parts[2 * i] = (struct iovec){ s->headers[i], HEADERS };
		parts[2 * i + 1] = (struct iovec){ place + i * s->payload, s->payload };
	}
	if (recvmsg(s->to, &message, 0) < 0)
		die("recvmsg");
}

static void read_batch(struct scene *s, int way, unsigned stage)
{
	uint64_t bytes = (uint64_t)s->packets * s->payload;

	if (s->memory_at + bytes > s->memory_bytes)
		s->memory_at = 0;
	if (way == STAGED)
		read_staged(s, stage, s->memory + s->memory_at);
	else
		read_in_place(s, s->memory + s->memory_at);
	s->memory_at += bytes;
}

int main(int argc, char **argv)
{
	static struct scene s;
	uint64_t spent_ns[WAYS] = { 0 };
	double gigabytes;

	s.payload = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	s.memory_bytes = argc == 3 ? strtoull(argv[2], NULL, 10) << 20 : 0;
	if (!s.payload || s.payload + HEADERS > BATCH_BYTES || !s.memory_bytes) {
		fputs("usage: place PAYLOAD WORKING_SET_MIB\n", stderr);
		return 2;
	}
	s.packets = BATCH_BYTES / (s.payload + HEADERS);
	if (s.packets > PACKETS_MOST)
		s.packets = PACKETS_MOST;
	s.memory = malloc(s.memory_bytes);
	s.source = malloc(SOURCE_BYTES);
	if (!s.memory || !s.source)
		die("memory");
	memset(s.memory, 1, s.memory_bytes);
	memset(s.source, 2, SOURCE_BYTES);
	open_sockets(&s);
	for (unsigned i = 0; i < WAYS * BATCHES / AHEAD; i++) {
		int way = (int)(i / 50 % WAYS);
		uint64_t began;

		for (unsigned j = 0; j < AHEAD; j++)
			send_batch(&s);
		began = cpu_ns();
		for (unsigned j = 0; j < AHEAD; j++)
			read_batch(&s, way, j);
		spent_ns[way] += cpu_ns() - began;
	}
	gigabytes = 1e-9 * BATCHES * s.packets * s.payload;
	printf("{\"payload\": %u, \"working_set_mib\": %lu, \"staged_s_per_gb\": %.4f, \"in_place_s_per_gb\": %.4f}\n",
	       s.payload, (unsigned long)(s.memory_bytes >> 20),
	       1e-9 * (double)spent_ns[STAGED] / gigabytes,
	       1e-9 * (double)spent_ns[IN_PLACE] / gigabytes);
	return 0;
}
