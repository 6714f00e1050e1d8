/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair_probe.h: the UDP side of `godwit doctor HOST`: two sockets at each end, probes out, probes in.
 *
 * A probe is taken only if it carries the token that this end told the other over TCP. Packets go to the address at the
 * other end of that TCP connection only: whoever forges a source gets nothing sent anywhere. The port may change: a NAT
 * chooses its own.
 */
#ifndef TOOLS_DOCTOR_PAIR_PROBE_H
#define TOOLS_DOCTOR_PAIR_PROBE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "doctor/pair.h"
#include "doctor/pair_stream.h"

#define PROBE_TOKEN 8u

/* Short trains of packets, and packets in each: their numbers count on. */
#define PROBE_TRAINS	    3u
#define PROBE_TRAIN_PACKETS 32u

enum probe_kind {
	PROBE_STREAM = 1,
	/* between the two other ports */
	PROBE_OTHER,
	PROBE_MARK,
	PROBE_SIZE,
	PROBE_TRAIN,
	PROBE_BULK,
	/* opens the way through a NAT and shows its port; not counted */
	PROBE_OPEN,
};

union probe_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Packets of one kind that arrived at a high rate. */
struct probe_burst {
	uint32_t packets;
	uint64_t bytes;
	/* bytes of the first packet: the time counts from its arrival */
	uint32_t first_bytes;
	int64_t first_ns;
	int64_t last_ns;
	/* sum of the delays by two clocks */
	double delay_sum_ns;
};

struct probe {
	/* ports of a transfer, and two free ones; -1: not open */
	int fd[2];
	union probe_address peer[2];
	/* bytes of the headers of IP and UDP */
	uint32_t headers;
	/* token in what this end receives, and in what it sends */
	uint8_t token_in[PROBE_TOKEN];
	uint8_t token_out[PROBE_TOKEN];
	/* this end; `sent` and `heard` are filled in */
	struct pair_end *own;
	struct pair_stream stream;
	struct pair_mark_counts marks;
	/* round trips, and how many */
	int64_t rtt_ns[PAIR_STREAM_MAX];
	uint32_t rtt_count;
	/* the other end's last probe: when it left by its clock, when it arrived by ours; 0: none */
	int64_t echo_tx_ns;
	int64_t echo_rx_ns;
	/* sizes of IP packets that arrived in this round */
	uint32_t sizes[2 * PAIR_SIZES_MAX];
	unsigned size_count;
	struct probe_burst trains[PROBE_TRAINS];
	struct probe_burst bulk;
	/* the kernel's count of packets that found no room, for both sockets */
	uint32_t dropped[2];
	/* which of the two sockets large and many probes take: the other one if the first is blocked */
	unsigned use;
};

/* The time of day, as the kernel stamps packets with it. */
int64_t probe_now(void);

/* Opens both sockets on `local`, a numeric address, towards `remote`. A port that is in use is replaced by a free one.
 * Returns 0 or -errno. */
int probe_open(struct probe *probe, struct pair_end *own, const char *local, uint16_t port,
	       const char *remote);
/* Sets the address to send to. Returns 0, or -EINVAL. */
int probe_connect(struct probe *probe, const char *remote, uint16_t port, uint16_t other_port);
void probe_close(struct probe *probe);

/* Sends one probe as an IP packet of `size` bytes at least. Returns whether the kernel took it. */
bool probe_send(struct probe *probe, unsigned socket, enum probe_kind kind, uint32_t number,
		uint32_t size, unsigned mark);

/* Takes all that has arrived. */
void probe_take(struct probe *probe);

/* Writes the figures of the stream, the marks and the round trip. */
void probe_finish_stream(struct probe *probe, uint64_t *rtt_min_ns, uint64_t *rtt_ns);
/* Rate at which trains arrived, the median of those that were long enough to say; 0: none was. */
uint64_t probe_train_bps(const struct probe *probe);

/*
 * Asks the kernel of a host where nobody answers: probes of several sizes to UDP ports where nobody listens come back as
 * ICMP. Sets *size to the largest IP packet that was answered for.
 */
enum pair_icmp probe_icmp(const char *host, uint32_t *size);

#endif
