/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.h: everything of sdr_write_bw that does not concern SDR: options, the connection between the two ends, results.
 *
 * The caller decides what is measured and sends its plan over a rendezvous, which then carries the descriptions of the queue
 * pairs, the start and the results.
 */
#ifndef EXAMPLES_SDR_WRITE_BW_SESSION_H
#define EXAMPLES_SDR_WRITE_BW_SESSION_H

#include <stddef.h>
#include <stdint.h>

enum { SIZES_MAX = 16, QPS_MAX = 64, WINDOW_MAX = 4096 };

/* How an end waits for the other. */
enum poll {
	/* naps between two looks at the bitmap */
	POLL_NAP,
	/* spins on the bytes of the bitmap */
	POLL_SPIN,
	/* calls the library in a loop */
	POLL_CALL,
};

/* What the caller decides, as it travels: 32-bit big-endian numbers. */
struct plan {
	uint32_t magic;
	uint32_t qps;
	/* receives posted on each queue pair */
	uint32_t window;
	/* messages of each size on each queue pair */
	uint32_t messages;
	uint32_t channels;
	/* logarithm of the bytes in a chunk */
	uint32_t chunk_log;
	/* enum sdr_mtu */
	uint32_t mtu;
	/* whether data is compared */
	uint32_t check;
	/* time without an arrival after which a receive is completed with holes, in ms */
	uint32_t patience_ms;
	/* enum poll */
	uint32_t poll;
	uint32_t sizes;
	uint32_t size[SIZES_MAX];
};

struct result {
	uint32_t microseconds;
	uint32_t messages;
	uint32_t missing_chunks;
	uint32_t wrong_chunks;
};

struct session {
	struct plan plan;
	struct gw_rendezvous *peer;
	/* host to call; NULL: this end waits, and receives */
	const char *host;
	const char *device;
	uint16_t port;
	int json;
};

/* Prints the reason to stderr and ends the program. */
__attribute__((noreturn)) void die(const char *what);

/* Reads the options, meets the other end and agrees on the plan. Ends the program if that fails. */
void session_open(struct session *session, int argc, char **argv);
void session_close(struct session *session);

/* Sends and receives a message of a known length. */
void tell(const struct session *session, const void *data, size_t length);
void hear(const struct session *session, void *data, size_t length);

/* Sends the result to the sender, or receives it there, and prints it. */
void session_result(const struct session *session, uint32_t size, struct result *result);

#endif
