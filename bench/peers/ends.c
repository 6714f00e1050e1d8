/* SPDX-License-Identifier: BSD-3-Clause */
/* The meeting of two ends, their clocks and their command lines; see ends.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"

#define CONNECT_TRIES	    250
#define CONNECT_INTERVAL_US 20000
#define LISTEN_BACKLOG	    1024
#define UDP_BUFFER	    (32 << 20)

void die_text(const char *what, const char *text)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, text);
	exit(1);
}

void die(const char *what, int error)
{
	die_text(what, strerror(error));
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t timeval_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * 1000000000 + (uint64_t)tv.tv_usec * 1000;
}

uint64_t cpu_ns(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		die("getrusage", errno);
	return timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
}

uint64_t parse_size(const char *option, const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);
	unsigned shift = 0;

	switch (*end) {
	case 'G':
		shift = 30;
		break;
	case 'M':
		shift = 20;
		break;
	case 'K':
		shift = 10;
		break;
	}
	if (shift)
		end++;
	if (end == text || *end || value > (UINT64_MAX >> 1) >> shift)
		die_text(option, "wants a size such as 64K or 1M");
	return (uint64_t)value << shift;
}

double parse_seconds(const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > 3600)
		die_text(option, "wants seconds, more than 0 and at most 3600");
	return value;
}

uint16_t parse_port(const char *text)
{
	uint64_t port = parse_size("--port", text);

	if (!port || port > UINT16_MAX)
		die_text("--port", "wants 1 to 65535");
	return (uint16_t)port;
}

bool ends_take(struct ends *ends, int option)
{
	switch (option) {
	case 's':
		ends->server = true;
		return true;
	case 'b':
		ends->bind = optarg;
		return true;
	case 'p':
		ends->port = parse_port(optarg);
		return true;
	case 't':
		ends->seconds_ns = (uint64_t)(parse_seconds("--seconds", optarg) * 1e9);
		return true;
	case 'w':
		ends->working_set = parse_size("--working-set", optarg);
		return true;
	case 'M':
		ends->messages = parse_size("--messages", optarg);
		return true;
	case 'W':
		ends->warm_up_ns = (uint64_t)(parse_seconds("--warm-up", optarg) * 1e9);
		return true;
	default:
		return false;
	}
}

bool ends_settle(struct ends *ends, int argc, char **argv)
{
	ends->host = argv[optind];
	return ends->server != (optind < argc) && argc - optind <= 1;
}

uint8_t *working_set(size_t size)
{
	uint8_t *memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("working set", errno);
	for (size_t i = 0; i < size; i++)
		memory[i] = (uint8_t)(i * 131 >> 3);
	return memory;
}

void set_buffer(int fd, int option, int bytes)
{
	int force = option == SO_RCVBUF ? SO_RCVBUFFORCE : SO_SNDBUFFORCE;

	if (!setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)))
		return;
	if (setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes)))
		die("socket buffer", errno);
}

void set_timeout(int fd, uint64_t timeout_ms)
{
	struct timeval tv = { .tv_sec = (time_t)(timeout_ms / 1000),
			      .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000) };

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)))
		die("SO_RCVTIMEO", errno);
}

static struct addrinfo *resolve(const char *host, uint16_t port, int flags)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags };
	struct addrinfo *found;
	char service[8];
	int error;

	snprintf(service, sizeof(service), "%u", port);
	error = getaddrinfo(host, service, &hints, &found);
	if (error)
		die_text(host ? host : "any address", gai_strerror(error));
	return found;
}

static int tcp_socket(int buffer_bytes)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		die("socket", errno);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* Before the connection stands: it decides the window scale. */
	if (buffer_bytes) {
		set_buffer(fd, SO_RCVBUF, buffer_bytes);
		set_buffer(fd, SO_SNDBUF, buffer_bytes);
	}
	return fd;
}

int tcp_listen(const char *host, uint16_t port, int buffer_bytes)
{
	struct addrinfo *at = resolve(host, port, AI_PASSIVE);
	int fd = tcp_socket(buffer_bytes);

	if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, LISTEN_BACKLOG))
		die("listening", errno);
	freeaddrinfo(at);
	return fd;
}

static void send_at_once(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("TCP_NODELAY", errno);
}

int tcp_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		die("accept", errno);
	send_at_once(fd);
	return fd;
}

int tcp_connect(const char *host, uint16_t port, int buffer_bytes, const char *congestion)
{
	struct addrinfo *at = resolve(host, port, 0);

	for (int tries = 0;; tries++) {
		int fd = tcp_socket(buffer_bytes);

		if (!connect(fd, at->ai_addr, at->ai_addrlen)) {
			/* Not before: a route's own choice would take its place on connecting. */
			if (congestion && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion,
						     (socklen_t)strlen(congestion)))
				die(congestion, errno);
			send_at_once(fd);
			freeaddrinfo(at);
			return fd;
		}
		if (tries == CONNECT_TRIES)
			die(host, errno);
		close(fd);
		usleep(CONNECT_INTERVAL_US);
	}
}

int udp_beside(int connection, uint16_t port)
{
	struct sockaddr_in at;
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || getsockname(connection, (struct sockaddr *)&at, &length))
		die("UDP socket", errno);
	at.sin_port = htons(port);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die("UDP port", errno);
	set_buffer(fd, SO_RCVBUF, UDP_BUFFER);
	set_buffer(fd, SO_SNDBUF, UDP_BUFFER);
	return fd;
}

uint16_t udp_port(int udp)
{
	struct sockaddr_in at;
	socklen_t length = sizeof(at);

	if (getsockname(udp, (struct sockaddr *)&at, &length))
		die("UDP port", errno);
	return ntohs(at.sin_port);
}

void udp_connect(int udp, int connection, uint16_t port)
{
	struct sockaddr_in at;
	socklen_t length = sizeof(at);

	if (getpeername(connection, (struct sockaddr *)&at, &length))
		die("the other end", errno);
	at.sin_port = htons(port);
	if (connect(udp, (struct sockaddr *)&at, sizeof(at)))
		die("UDP connect", errno);
}

void tell(int connection, const uint64_t *words, size_t count)
{
	const uint8_t *at = (const uint8_t *)words;
	size_t left = count * sizeof(*words);

	while (left) {
		ssize_t n = send(connection, at, left, MSG_NOSIGNAL);

		if (n < 0)
			die("telling the other end", errno);
		at += n;
		left -= (size_t)n;
	}
}

bool hear(int connection, uint64_t *words, size_t count)
{
	size_t size = count * sizeof(*words);
	ssize_t n = recv(connection, words, size, MSG_WAITALL);

	if (n < 0)
		die("hearing the other end", errno);
	return (size_t)n == size;
}

void check_still_there(int connection)
{
	char byte;

	if (recv(connection, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
		die_text("the other end", "went away");
}

void print_seconds(const char *name, uint64_t ns)
{
	printf(", \"%s\": %.6f", name, (double)ns / 1e9);
}
