/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srt_stream: what SRT carries from one host to another, over UDP with its own repair.
 *
 * Usage: srt_stream --serve [--bind ADDRESS]
 *	  srt_stream HOST [--seconds S] [--warm-up S] [--message SIZE] [--working-set SIZE] ...
 *	  srt_stream HOST --messages N [--seconds S] [--message SIZE] ...
 *	  client: [--rate BYTES-A-SECOND] [--buffer SIZE] [--mss N] [--live]
 *	  both: [--port N]
 *
 * In file mode SRT finds the rate by itself. With --live it sends at the given rate whatever is
 * lost, as it does for video, but drops nothing and delivers at once: for whoever knows the rate
 * of the path. The client decides for both ends. Bytes count at the server, from the end of the
 * warm-up on; messages one by one are answered there with a packet of their own.
 *
 * SRT's packets have 1500 bytes at most, whatever the link carries: a handshake with a larger
 * SRTO_MSS is refused, and so is an SRTO_PAYLOADSIZE over SRT_LIVE_MAX_PLSIZE (1456). In file
 * mode SRTO_PAYLOADSIZE stays 0, and SRT cuts what it is given itself.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <srt/srt.h>

#include "ends.h"
#include "times.h"

#define LIVE_OVERHEAD 44   /* of IP, UDP and SRT in a packet */
#define MSS_MAX	      1500 /* SRT_LIVE_MAX_PLSIZE and these; the header has it as a variable */
#define CONNECT_TRIES 50

struct options {
	struct ends ends;
	uint64_t message;
	uint64_t rate_bytes;
	uint64_t buffer;
	uint64_t mss;
	uint64_t live;
};

enum {
	HELLO_MESSAGE,
	HELLO_WORKING_SET,
	HELLO_MESSAGES,
	HELLO_WARM_UP_NS,
	HELLO_RATE,
	HELLO_BUFFER,
	HELLO_MSS,
	HELLO_LIVE,
	HELLO_WORDS
};
enum { REPORT_BYTES, REPORT_NS, REPORT_CPU_NS, REPORT_WORDS };

static void check(const char *what, int rc)
{
	if (rc == SRT_ERROR)
		die_text(what, srt_getlasterror_str());
}

static void set_int(SRTSOCKET sock, SRT_SOCKOPT option, const char *name, int value)
{
	check(name, srt_setsockflag(sock, option, &value, sizeof(value)));
}

static void set_bool(SRTSOCKET sock, SRT_SOCKOPT option, const char *name, bool value)
{
	check(name, srt_setsockflag(sock, option, &value, sizeof(value)));
}

/* Both ends alike, so that neither holds the other back. */
static SRTSOCKET make_socket(const uint64_t *hello)
{
	SRTSOCKET sock = srt_create_socket();
	int64_t rate = hello[HELLO_RATE] ? (int64_t)hello[HELLO_RATE] : -1;
	int buffer = (int)hello[HELLO_BUFFER], mss = (int)hello[HELLO_MSS];
	bool live = hello[HELLO_LIVE];
	struct linger linger = { 1, 60 };

	check("srt_create_socket", sock);
	set_int(sock, SRTO_TRANSTYPE, "SRTO_TRANSTYPE", live ? SRTT_LIVE : SRTT_FILE);
	set_int(sock, SRTO_MSS, "SRTO_MSS", mss);
	/* Packets in flight, and buffers that hold them. The flight may not be less than the buffer. */
	set_int(sock, SRTO_FC, "SRTO_FC", buffer / (mss - LIVE_OVERHEAD) * 2);
	set_int(sock, SRTO_SNDBUF, "SRTO_SNDBUF", buffer);
	set_int(sock, SRTO_RCVBUF, "SRTO_RCVBUF", buffer);
	set_int(sock, SRTO_UDP_SNDBUF, "SRTO_UDP_SNDBUF", buffer);
	set_int(sock, SRTO_UDP_RCVBUF, "SRTO_UDP_RCVBUF", buffer);
	check("SRTO_MAXBW", srt_setsockflag(sock, SRTO_MAXBW, &rate, sizeof(rate)));
	check("SRTO_LINGER", srt_setsockflag(sock, SRTO_LINGER, &linger, sizeof(linger)));
	if (live) {
		set_bool(sock, SRTO_TSBPDMODE, "SRTO_TSBPDMODE", false);
		set_bool(sock, SRTO_TLPKTDROP, "SRTO_TLPKTDROP", false);
		set_bool(sock, SRTO_NAKREPORT, "SRTO_NAKREPORT", true);
		set_int(sock, SRTO_PAYLOADSIZE, "SRTO_PAYLOADSIZE", mss - LIVE_OVERHEAD);
	}
	return sock;
}

/* A live socket takes a packet at a time. */
static int piece_of(const uint64_t *hello)
{
	return hello[HELLO_LIVE] ? (int)hello[HELLO_MSS] - LIVE_OVERHEAD : 1 << 20;
}

static void send_all(SRTSOCKET sock, const uint8_t *from, uint64_t length, int piece)
{
	for (uint64_t at = 0; at < length;) {
		uint64_t left = length - at;
		int n = srt_send(sock, (const char *)from + at,
				 left < (uint64_t)piece ? (int)left : piece);

		check("srt_send", n);
		at += (uint64_t)n;
	}
}

/* false when the other end has closed. A live socket wants room for the largest packet, `packet`; 0: a stream. */
static bool receive_all(SRTSOCKET sock, uint8_t *to, uint64_t length, uint64_t packet)
{
	for (uint64_t at = 0; at < length;) {
		uint64_t left = length - at;
		uint64_t room = left < packet ? packet : left;
		int n = srt_recv(sock, (char *)to + at, (int)(room < 1 << 20 ? room : 1 << 20));

		if (n <= 0)
			return false;
		at += (uint64_t)n;
	}
	return true;
}

static struct sockaddr_in beside(int connection, bool peer, uint16_t port)
{
	struct sockaddr_in at;
	socklen_t length = sizeof(at);
	int rc = peer ? getpeername(connection, (struct sockaddr *)&at, &length)
		      : getsockname(connection, (struct sockaddr *)&at, &length);

	if (rc)
		die("the connection", errno);
	at.sin_port = htons(port);
	return at;
}

static SRTSOCKET accept_one(int control, uint16_t port, const uint64_t *hello)
{
	struct sockaddr_in at = beside(control, false, port);
	SRTSOCKET listener = make_socket(hello), sock;
	uint64_t word = 0;

	check("srt_bind", srt_bind(listener, (struct sockaddr *)&at, sizeof(at)));
	check("srt_listen", srt_listen(listener, 1));
	tell(control, &word, 1);
	sock = srt_accept(listener, NULL, NULL);
	check("srt_accept", sock);
	return sock;
}

static void serve(const struct options *o)
{
	int control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0));
	uint64_t hello[HELLO_WORDS], report[REPORT_WORDS] = { 0 }, cpu, begin = 0, at = 0;
	uint64_t message, places;
	SRTSOCKET sock;
	uint8_t *memory;

	if (!hear(control, hello, HELLO_WORDS) || !hello[HELLO_MESSAGE] ||
	    hello[HELLO_WORKING_SET] < hello[HELLO_MESSAGE])
		die_text("the other end", "not an srt_stream");
	message = hello[HELLO_MESSAGE];
	places = hello[HELLO_WORKING_SET] / message;
	memory = working_set(hello[HELLO_WORKING_SET] + hello[HELLO_MSS]);
	sock = accept_one(control, o->ends.port, hello);
	cpu = cpu_ns();
	while (receive_all(sock, memory + at++ % places * message, message,
			   hello[HELLO_LIVE] ? hello[HELLO_MSS] : 0)) {
		uint64_t now = now_ns();

		if (hello[HELLO_MESSAGES])
			send_all(sock, memory, 1, 1);
		if (!begin)
			begin = now + hello[HELLO_WARM_UP_NS];
		/* The message that ends the warm-up begins the measurement and is not part of it. */
		if (now < begin)
			continue;
		if (!report[REPORT_NS]) {
			begin = now;
			report[REPORT_NS] = 1;
			continue;
		}
		report[REPORT_BYTES] += message;
		report[REPORT_NS] = now - begin;
	}
	report[REPORT_CPU_NS] = cpu_ns() - cpu;
	tell(control, report, REPORT_WORDS);
	srt_close(sock);
}

static SRTSOCKET connect_one(int control, uint16_t port, const uint64_t *hello)
{
	struct sockaddr_in at = beside(control, true, port);

	for (int tries = 0;; tries++) {
		SRTSOCKET sock = make_socket(hello);

		if (srt_connect(sock, (struct sockaddr *)&at, sizeof(at)) != SRT_ERROR)
			return sock;
		if (tries == CONNECT_TRIES)
			check("srt_connect", SRT_ERROR);
		srt_close(sock);
	}
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	uint64_t hello[HELLO_WORDS] = { [HELLO_MESSAGE] = o->message,
					[HELLO_WORKING_SET] = o->ends.working_set,
					[HELLO_MESSAGES] = o->ends.messages,
					[HELLO_WARM_UP_NS] = o->ends.warm_up_ns,
					[HELLO_RATE] = o->rate_bytes,
					[HELLO_BUFFER] = o->buffer,
					[HELLO_MSS] = o->mss,
					[HELLO_LIVE] = o->live };
	uint64_t report[REPORT_WORDS], places = o->ends.working_set / o->message, cpu, begin;
	uint8_t *memory = working_set(o->ends.working_set), answer[MSS_MAX];
	int piece = piece_of(hello);
	struct times times = { 0 };
	SRT_TRACEBSTATS stats;
	SRTSOCKET sock;

	tell(control, hello, HELLO_WORDS);
	if (!hear(control, report, 1))
		die_text(o->ends.host, "the server went away");
	sock = connect_one(control, o->ends.port, hello);
	cpu = cpu_ns();
	begin = now_ns();
	if (o->ends.messages) {
		times_open(&times, o->ends.messages, o->ends.seconds_ns);
		while (times_next(&times)) {
			send_all(sock, memory, o->message, piece);
			if (!receive_all(sock, answer, 1, o->live ? o->mss : 0))
				die_text(o->ends.host, "closed");
			times_end(&times);
		}
	}
	for (uint64_t at = 0; !o->ends.messages && now_ns() - begin < o->ends.seconds_ns; at++)
		send_all(sock, memory + at % places * o->message, o->message, piece);
	check("srt_bstats", srt_bstats(sock, &stats, 0));
	/* Lingers until all of it is there. */
	srt_close(sock);
	cpu = cpu_ns() - cpu;
	if (!hear(control, report, REPORT_WORDS))
		die_text(o->ends.host, "the server went away");
	printf("{\"peer\": \"srt_stream\", \"mode\": \"%s\", \"message_bytes\": %lu, "
	       "\"working_set_bytes\": %lu, \"buffer_bytes\": %lu, \"bytes\": %lu, "
	       "\"retransmits\": %ld",
	       o->live ? "live" : "file", o->message, o->ends.working_set, o->buffer,
	       report[REPORT_BYTES], (long)stats.pktRetransTotal);
	print_seconds("seconds", report[REPORT_NS]);
	print_seconds("sender_cpu_s", cpu);
	print_seconds("receiver_cpu_s", report[REPORT_CPU_NS]);
	if (o->ends.messages)
		times_print(&times);
	printf("}\n");
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		ENDS_STREAM_OPTIONS,
		{ "message", required_argument, NULL, 'm' },
		ENDS_MESSAGES_OPTIONS,
		{ "rate", required_argument, NULL, 'r' },
		{ "buffer", required_argument, NULL, 'B' },
		{ "mss", required_argument, NULL, 'S' },
		{ "live", no_argument, NULL, 'L' },
		{ 0 },
	};
	struct options o = {
		.ends = ENDS_DEFAULTS, .message = 256 << 10, .buffer = 16 << 20, .mss = 1500
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'm':
			o.message = parse_size("--message", optarg);
			break;
		case 'r':
			o.rate_bytes = parse_size("--rate", optarg);
			break;
		case 'B':
			o.buffer = parse_size("--buffer", optarg);
			break;
		case 'S':
			o.mss = parse_size("--mss", optarg);
			break;
		case 'L':
			o.live = true;
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv) || !o.message || o.ends.working_set < o.message ||
	    o.mss < 100 || o.mss > MSS_MAX || o.buffer > 1 << 30)
		die_text("usage", "srt_stream --serve | HOST [options]; mss 100 to 1500");
	srt_startup();
	srt_setloglevel(0);
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	srt_cleanup();
	return 0;
}
