/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_stream: what the kernel's TCP carries from one host to another, in one flow or in many.
 *
 * Usage: tcp_stream --serve [--bind ADDRESS]
 *	  tcp_stream HOST [--seconds S | --bytes N] [--warm-up S] [--flows N] [--congestion NAME] ...
 *	  tcp_stream HOST --messages N [--seconds S] [--message SIZE] [--flows N] ...
 *	  both: [--port N] [--buffer SIZE]
 *
 * A flow is a thread with a blocking socket at either end. A sender takes the next message of the
 * shared working set, and the receiver reads into a working set of the same size, so that a large
 * one is as cold for TCP as tensors are for anyone. All flows draw on one count of bytes: a slow
 * flow does not hold up the end. Time runs from the moment all flows stand to the server's word
 * that it has read everything; that is the completion time of a fixed number of bytes. With a
 * warm-up, bytes and time count at the server and from then on.
 *
 * With --messages they go one by one: each is divided among the flows, and the next begins when
 * the server has answered every part of it with a byte.
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
#include "times.h"

#define FLOWS_MAX 4096

struct options {
	struct ends ends;
	const char *congestion;
	int buffer_bytes;
	uint64_t bytes;
	uint64_t message;
	uint64_t flows;
};

enum { HELLO_FLOWS, HELLO_MESSAGE, HELLO_WORKING_SET, HELLO_ANSWER, HELLO_WARM_UP_NS, HELLO_WORDS };
enum {
	REPORT_CPU_NS,
	REPORT_WARM_BYTES,
	REPORT_WARM_NS,
	REPORT_WORDS
}; /* then the bytes of each flow */

struct run {
	uint8_t *memory;
	uint64_t size;
	uint64_t message;
	uint64_t deadline_ns;
	_Atomic uint64_t claimed; /* bytes that some flow has sent or is sending */
	uint64_t bytes;		  /* of which there are so many; UINT64_MAX: until the deadline */
	/* at the server */
	uint64_t warm_ns;	     /* when the warm-up is to be over; 0: there is none */
	uint64_t warmed_ns;	     /* and when it was */
	_Atomic uint64_t received;   /* by all flows */
	_Atomic uint64_t warm_bytes; /* of which so many by then; 0: not known yet */
	/* one by one */
	pthread_barrier_t turn; /* of all flows and the one who keeps time */
	bool over;
};

struct flow {
	struct run *run;
	int fd;
	uint64_t moved;
	uint64_t part; /* of each message, where they go one by one */
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

static void receive_exactly(struct flow *flow, uint64_t bytes)
{
	struct run *run = flow->run;

	for (uint64_t at = 0; at < bytes;) {
		uint64_t room = bytes - at < run->size ? bytes - at : run->size;
		ssize_t n = recv(flow->fd, run->memory, room, 0);

		if (n < 0)
			die("recv", errno);
		if (!n)
			return;
		at += (uint64_t)n;
		flow->moved += (uint64_t)n;
	}
	if (send(flow->fd, "", 1, MSG_NOSIGNAL) < 0)
		die("send", errno);
}

static void *answer_flow(void *argument)
{
	struct flow *flow = argument;
	uint8_t byte;

	while (recv(flow->fd, &byte, 1, MSG_PEEK) == 1)
		receive_exactly(flow, flow->part);
	return NULL;
}

/* One part of each message, when it is its turn. */
static void *message_flow(void *argument)
{
	struct flow *flow = argument;
	struct run *run = flow->run;
	uint8_t byte;

	for (;;) {
		pthread_barrier_wait(&run->turn);
		if (run->over)
			break;
		for (uint64_t at = 0; at < flow->part;) {
			uint64_t left = flow->part - at;
			ssize_t n = send(flow->fd, run->memory, left < run->size ? left : run->size,
					 MSG_NOSIGNAL);

			if (n < 0)
				die("send", errno);
			at += (uint64_t)n;
		}
		if (flow->part && recv(flow->fd, &byte, 1, 0) != 1)
			die_text("the other end", "went away");
		pthread_barrier_wait(&run->turn);
	}
	if (shutdown(flow->fd, SHUT_WR))
		die("shutdown", errno);
	return NULL;
}

static void note_arrival(struct run *run, uint64_t bytes)
{
	uint64_t unknown = 0, all = atomic_fetch_add(&run->received, bytes) + bytes, now;

	if (!run->warm_ns || atomic_load(&run->warm_bytes))
		return;
	now = now_ns();
	if (now >= run->warm_ns && atomic_compare_exchange_strong(&run->warm_bytes, &unknown, all))
		run->warmed_ns = now;
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
		note_arrival(run, (uint64_t)n);
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

/* `message`: to be divided among them; 0 in a stream */
static struct flow *make_flows(struct run *run, uint64_t count, uint64_t message)
{
	struct flow *flows = calloc(count, sizeof(*flows));

	if (!flows)
		die("flows", ENOMEM);
	for (uint64_t i = 0; i < count; i++)
		flows[i] = (struct flow){ .run = run,
					  .part = message / count + (i < message % count) };
	return flows;
}

static void serve(const struct options *o)
{
	int listener = tcp_listen(o->ends.bind, o->ends.port, o->buffer_bytes);
	int control = tcp_accept(listener);
	uint64_t hello[HELLO_WORDS], word = 0, report[REPORT_WORDS] = { 0 }, cpu;
	struct run run = { 0 };
	struct flow *flows;

	if (!hear(control, hello, HELLO_WORDS) || !hello[HELLO_FLOWS] ||
	    hello[HELLO_FLOWS] > FLOWS_MAX)
		die_text("the other end", "not a tcp_stream");
	run.message = hello[HELLO_MESSAGE];
	run.size = hello[HELLO_WORKING_SET];
	run.memory = working_set(run.size);
	flows = make_flows(&run, hello[HELLO_FLOWS], hello[HELLO_ANSWER] ? run.message : 0);
	for (uint64_t i = 0; i < hello[HELLO_FLOWS]; i++)
		flows[i].fd = tcp_accept(listener);

	tell(control, &word, 1);
	cpu = cpu_ns();
	if (hello[HELLO_WARM_UP_NS])
		run.warm_ns = now_ns() + hello[HELLO_WARM_UP_NS];
	start(flows, hello[HELLO_FLOWS], hello[HELLO_ANSWER] ? answer_flow : receive_flow);
	join(flows, hello[HELLO_FLOWS]);
	report[REPORT_CPU_NS] = cpu_ns() - cpu;
	report[REPORT_WARM_BYTES] = run.warm_bytes;
	report[REPORT_WARM_NS] = run.warm_bytes ? now_ns() - run.warmed_ns : 0;
	tell(control, report, REPORT_WORDS);
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
			 uint64_t sender_cpu_ns, const uint64_t *report, struct times *times)
{
	const uint64_t *moved = report + REPORT_WORDS;
	uint64_t bytes = 0, retransmits = 0;
	char congestion[16] = "";
	socklen_t length = sizeof(congestion);

	if (report[REPORT_WARM_BYTES]) {
		bytes -= report[REPORT_WARM_BYTES];
		wall_ns = report[REPORT_WARM_NS];
	}
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
	if (times->wanted)
		times_print(times);
	printf(", \"flow_bytes\": [");
	for (uint64_t i = 0; i < o->flows; i++)
		printf("%s%lu", i ? ", " : "", moved[i]);
	printf("]}\n");
}

static void one_by_one(struct run *run, struct flow *flows, const struct options *o,
		       struct times *times)
{
	pthread_barrier_init(&run->turn, NULL, (unsigned)o->flows + 1);
	start(flows, o->flows, message_flow);
	times_open(times, o->ends.messages, o->ends.seconds_ns);
	while (times_next(times)) {
		pthread_barrier_wait(&run->turn);
		pthread_barrier_wait(&run->turn);
		times_end(times);
	}
	run->over = true;
	pthread_barrier_wait(&run->turn);
	join(flows, o->flows);
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	uint64_t hello[HELLO_WORDS] = { [HELLO_FLOWS] = o->flows,
					[HELLO_MESSAGE] = o->message,
					[HELLO_WORKING_SET] = o->ends.working_set,
					[HELLO_ANSWER] = o->ends.messages > 0,
					[HELLO_WARM_UP_NS] = o->ends.warm_up_ns };
	uint64_t report[REPORT_WORDS + FLOWS_MAX], begin, cpu;
	struct run run = { .message = o->message,
			   .size = o->ends.working_set,
			   .bytes = o->bytes ? o->bytes : UINT64_MAX };
	struct flow *flows = make_flows(&run, o->flows, o->ends.messages ? o->message : 0);
	struct times times = { 0 };

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
	if (o->ends.messages) {
		one_by_one(&run, flows, o, &times);
	} else {
		start(flows, o->flows, send_flow);
		join(flows, o->flows);
	}
	cpu = cpu_ns() - cpu;
	if (!hear(control, report, REPORT_WORDS + o->flows))
		die_text(o->ends.host, "the server went away");
	print_result(o, flows, now_ns() - begin, cpu, report, &times);
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
		ENDS_MESSAGES_OPTIONS,
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
