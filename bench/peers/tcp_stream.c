/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_stream: what the kernel's TCP carries from one host to another, in one flow or in many.
 *
 * Usage: tcp_stream --serve [--bind ADDRESS]
 *	  tcp_stream HOST [--seconds S | --bytes N] [--flows N] [--congestion NAME] ...
 *	  both: [--port N] [--buffer SIZE]
 *
 * A flow is a thread with a blocking socket at either end. A sender takes the next message of the
 * shared working set, and the receiver reads into a working set of the same size, so that a large
 * one is as cold for TCP as tensors are for anyone. All flows draw on one count of bytes: a slow
 * flow does not hold up the end. Time runs from the moment all flows stand to the server's word
 * that it has read everything; that is the completion time of a fixed number of bytes.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

#define FLOWS_MAX 4096

struct options {
	struct ends ends;
	const char *congestion;
	int buffer_bytes;
	uint64_t bytes;
	uint64_t message;
	uint64_t flows;
};

enum { HELLO_FLOWS, HELLO_MESSAGE, HELLO_WORKING_SET, HELLO_WORDS };
enum { REPORT_CPU_NS, REPORT_WORDS }; /* then the bytes of each flow */

struct run {
	uint8_t *memory;
	uint64_t size;
	uint64_t message;
	uint64_t deadline_ns;
	_Atomic uint64_t claimed; /* bytes that some flow has sent or is sending */
	uint64_t bytes;		  /* of which there are so many; UINT64_MAX: until the deadline */
};

struct flow {
	struct run *run;
	int fd;
	uint64_t moved;
	pthread_t thread;
};

static void *send_flow(void *argument)
{
	struct flow *flow = argument;
	struct run *run = flow->run;

	while (now_ns() < run->deadline_ns) {
		uint64_t at = atomic_fetch_add(&run->claimed, run->message);
		uint64_t end = at + run->message < run->bytes ? at + run->message : run->bytes;

		if (at >= run->bytes)
			break;
		while (at < end) {
			uint64_t place = at % run->size;
			uint64_t length =
				end - at < run->size - place ? end - at : run->size - place;
			ssize_t n = send(flow->fd, run->memory + place, length, MSG_NOSIGNAL);

			if (n < 0)
				die("send", errno);
			at += (uint64_t)n;
			flow->moved += (uint64_t)n;
		}
	}
	if (shutdown(flow->fd, SHUT_WR))
		die("shutdown", errno);
	return NULL;
}

static void *receive_flow(void *argument)
{
	struct flow *flow = argument;
	struct run *run = flow->run;
	uint64_t at = 0;

	for (;;) {
		uint64_t room = run->size - at < run->message ? run->size - at : run->message;
		ssize_t n = recv(flow->fd, run->memory + at, room, 0);

		if (n < 0)
			die("recv", errno);
		if (!n)
			return NULL;
		flow->moved += (uint64_t)n;
		at = (at + (uint64_t)n) % run->size;
	}
}

static void start(struct flow *flows, uint64_t count, void *(*body)(void *))
{
	for (uint64_t i = 0; i < count; i++) {
		int error = pthread_create(&flows[i].thread, NULL, body, &flows[i]);

		if (error)
			die("thread", error);
	}
}

static void join(struct flow *flows, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		pthread_join(flows[i].thread, NULL);
}

static struct flow *make_flows(struct run *run, uint64_t count)
{
	struct flow *flows = calloc(count, sizeof(*flows));

	if (!flows)
		die("flows", ENOMEM);
	for (uint64_t i = 0; i < count; i++)
		flows[i].run = run;
	return flows;
}

static void serve(const struct options *o)
{
	int listener = tcp_listen(o->ends.bind, o->ends.port, o->buffer_bytes);
	int control = tcp_accept(listener);
	uint64_t hello[HELLO_WORDS], word = 0, cpu;
	struct run run = { 0 };
	struct flow *flows;

	if (!hear(control, hello, HELLO_WORDS) || !hello[HELLO_FLOWS] ||
	    hello[HELLO_FLOWS] > FLOWS_MAX)
		die_text("the other end", "not a tcp_stream");
	run.message = hello[HELLO_MESSAGE];
	run.size = hello[HELLO_WORKING_SET];
	run.memory = working_set(run.size);
	flows = make_flows(&run, hello[HELLO_FLOWS]);
	for (uint64_t i = 0; i < hello[HELLO_FLOWS]; i++)
		flows[i].fd = tcp_accept(listener);

	tell(control, &word, 1);
	cpu = cpu_ns();
	start(flows, hello[HELLO_FLOWS], receive_flow);
	join(flows, hello[HELLO_FLOWS]);
	word = cpu_ns() - cpu;
	tell(control, &word, 1);
	for (uint64_t i = 0; i < hello[HELLO_FLOWS]; i++)
		tell(control, &flows[i].moved, 1);
	free(flows);
}

/* What the kernel knows of a connection that just carried the load. */
static struct tcp_info info_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		die("TCP_INFO", errno);
	return info;
}

static void print_result(const struct options *o, const struct flow *flows, uint64_t wall_ns,
			 uint64_t sender_cpu_ns, const uint64_t *report)
{
	const uint64_t *moved = report + REPORT_WORDS;
	uint64_t bytes = 0, retransmits = 0;
	char congestion[16] = "";
	socklen_t length = sizeof(congestion);

	getsockopt(flows[0].fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &length);
	for (uint64_t i = 0; i < o->flows; i++) {
		bytes += moved[i];
		retransmits += info_of(flows[i].fd).tcpi_total_retrans;
	}
	printf("{\"peer\": \"tcp_stream\", \"congestion\": \"%.16s\", \"flows\": %lu, "
	       "\"message_bytes\": %lu, \"working_set_bytes\": %lu, \"buffer_bytes\": %d, "
	       "\"bytes\": %lu, \"retransmits\": %lu",
	       congestion, o->flows, o->message, o->ends.working_set, o->buffer_bytes, bytes,
	       retransmits);
	print_seconds("seconds", wall_ns);
	print_seconds("sender_cpu_s", sender_cpu_ns);
	print_seconds("receiver_cpu_s", report[REPORT_CPU_NS]);
	printf(", \"flow_bytes\": [");
	for (uint64_t i = 0; i < o->flows; i++)
		printf("%s%lu", i ? ", " : "", moved[i]);
	printf("]}\n");
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	uint64_t hello[HELLO_WORDS] = { [HELLO_FLOWS] = o->flows,
					[HELLO_MESSAGE] = o->message,
					[HELLO_WORKING_SET] = o->ends.working_set };
	uint64_t report[REPORT_WORDS + FLOWS_MAX], begin, cpu;
	struct run run = { .message = o->message,
			   .size = o->ends.working_set,
			   .bytes = o->bytes ? o->bytes : UINT64_MAX };
	struct flow *flows = make_flows(&run, o->flows);

	run.memory = working_set(o->ends.working_set);
	tell(control, hello, HELLO_WORDS);
	for (uint64_t i = 0; i < o->flows; i++)
		flows[i].fd =
			tcp_connect(o->ends.host, o->ends.port, o->buffer_bytes, o->congestion);
	if (!hear(control, report, 1))
		die_text(o->ends.host, "the server went away");

	begin = now_ns();
	cpu = cpu_ns();
	run.deadline_ns = o->bytes ? UINT64_MAX : begin + o->ends.seconds_ns;
	start(flows, o->flows, send_flow);
	join(flows, o->flows);
	cpu = cpu_ns() - cpu;
	if (!hear(control, report, REPORT_WORDS + o->flows))
		die_text(o->ends.host, "the server went away");
	print_result(o, flows, now_ns() - begin, cpu, report);
	free(flows);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		{ "buffer", required_argument, NULL, 'B' },
		ENDS_STREAM_OPTIONS,
		{ "bytes", required_argument, NULL, 'n' },
		{ "message", required_argument, NULL, 'm' },
		{ "flows", required_argument, NULL, 'f' },
		{ "congestion", required_argument, NULL, 'C' },
		{ 0 },
	};
	struct options o = { .ends = ENDS_DEFAULTS, .message = 256 << 10, .flows = 1 };
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'B':
			o.buffer_bytes = (int)parse_size("--buffer", optarg);
			break;
		case 'n':
			o.bytes = parse_size("--bytes", optarg);
			break;
		case 'm':
			o.message = parse_size("--message", optarg);
			break;
		case 'f':
			o.flows = parse_size("--flows", optarg);
			break;
		case 'C':
			o.congestion = optarg;
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv) || !o.message || !o.ends.working_set || !o.flows ||
	    o.flows > FLOWS_MAX)
		die_text("usage",
			 "tcp_stream --serve | HOST [options]; flows 1 to 4096, sizes above 0");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
