/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of every peer program share. They meet on a TCP connection: the client says
 * what will be measured, the server says when it is ready and, at the end, what it saw and what
 * it cost. So the client alone prints the whole result. Both ends run on machines of one kind;
 * what they tell each other is an array of 64-bit words as they lie in memory.
 *
 * Calls end the program with one line when they fail: a benchmark has nobody to return to.
 */
#ifndef BENCH_PEERS_ENDS_H
#define BENCH_PEERS_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* What Godwit's data packet adds to its payload within UDP: BTH, RETH, immediate, ICRC. */
#define ROCE_OVERHEAD 36

#define PORT_DEFAULT 18600

/* What every one of them is told; the last four where something is streamed, or some of them. */
struct ends {
	bool server;
	const char *host; /* of the client */
	const char *bind; /* of the server; NULL: any */
	uint16_t port;
	uint64_t seconds_ns;
	uint64_t working_set;
	/* of a stream: so many messages one by one instead, or what is not counted at its beginning */
	uint64_t messages;
	uint64_t warm_up_ns;
};

#define ENDS_DEFAULTS                                                                              \
	{                                                                                          \
		.port = PORT_DEFAULT, .seconds_ns = 2000000000, .working_set = 1 << 20             \
	}

/* Their lines in a getopt_long() table. */
#define ENDS_OPTIONS                                                                               \
	{ "serve", no_argument, NULL, 's' }, { "bind", required_argument, NULL, 'b' },             \
	{                                                                                          \
		"port", required_argument, NULL, 'p'                                               \
	}
#define ENDS_STREAM_OPTIONS                                                                        \
	{ "seconds", required_argument, NULL, 't' },                                               \
	{                                                                                          \
		"working-set", required_argument, NULL, 'w'                                        \
	}

#define ENDS_MESSAGES_OPTIONS                                                                      \
	{ "messages", required_argument, NULL, 'M' },                                              \
	{                                                                                          \
		"warm-up", required_argument, NULL, 'W'                                            \
	}

/* Takes one of those that getopt_long() returned; false for any other. */
bool ends_take(struct ends *ends, int option);
/* Which end it is, from what getopt_long() left; false where that is not said, or twice. */
bool ends_settle(struct ends *ends, int argc, char **argv);

_Noreturn void die(const char *what, int error);
_Noreturn void die_text(const char *what, const char *text);

uint64_t now_ns(void);
/* Processor time of this process, user and system, all threads. */
uint64_t cpu_ns(void);

/* "64K", "1M", "2G": multiples of 1024. */
uint64_t parse_size(const char *option, const char *text);
double parse_seconds(const char *option, const char *text);
uint16_t parse_port(const char *text);

/* Every page is there before the clock starts. */
uint8_t *working_set(size_t size);

/* host is NULL for any. The client tries for five seconds: the server may be starting. */
int tcp_listen(const char *host, uint16_t port, int buffer_bytes);
int tcp_accept(int listener);
int tcp_connect(const char *host, uint16_t port, int buffer_bytes, const char *congestion);

/* A UDP socket with large buffers on the address of the connection, any port if 0. */
int udp_beside(int connection, uint16_t port);
uint16_t udp_port(int udp);
/* Connects it to a port of the connection's other end. */
void udp_connect(int udp, int connection, uint16_t port);

void tell(int connection, const uint64_t *words, size_t count);
/* false at the end of the stream. */
bool hear(int connection, uint64_t *words, size_t count);

/* Ends the program if the other end has gone. Not for every turn: it is a system call. */
void check_still_there(int connection);

void set_buffer(int fd, int option, int bytes);
void set_timeout(int fd, uint64_t timeout_ms);

/* "name": seconds, with a comma before it. */
void print_seconds(const char *name, uint64_t ns);

#endif
