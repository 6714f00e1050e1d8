/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h: what was measured between two hosts, and the checks that judge it.
 *
 * Each end sends probes to the other and counts what it hears; `godwit doctor HOST` (tools/doctor) does that. Here is no
 * I/O: pair_judge() turns the figures of both ends into a diagnosis. A figure that was not measured is marked as such, and
 * no check takes it for 0.
 */
#ifndef DOCTOR_PAIR_H
#define DOCTOR_PAIR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "diagnosis.h"
#include "exam.h"

/* Characters of a host's name or address, and a zero byte. */
#define PAIR_TEXT 64

/* Values of the byte that holds DSCP and ECN that are tried on the path; pair_marks[0] may be replaced by the user's DSCP. */
#define PAIR_MARKS 7u
extern const uint8_t pair_marks[PAIR_MARKS];

/* What an end sent. */
struct pair_sent {
	/* probes of the even stream, from the port that a transfer uses */
	uint32_t packets;
	/* probes between the two other ports */
	uint32_t other_packets;
	/* probes with each mark */
	uint32_t marked[PAIR_MARKS];
	/* bytes of the largest IP packet that arrived, and of the smallest larger one that did not; 0: not measured, none */
	uint32_t size_arrived;
	uint32_t size_lost;
	/* MTU that a router named by ICMP; 0: none did */
	uint32_t icmp_mtu;
	/* probes sent at a high rate, bytes on the wire and how long that took */
	uint32_t bulk_packets;
	uint64_t bulk_bytes;
	uint64_t bulk_ns;
};

/* What an end heard from the other. */
struct pair_heard {
	/* probes of the even stream: different ones, repeated ones, those behind a later one */
	uint32_t packets;
	uint32_t duplicates;
	uint32_t reordered;
	uint32_t other_packets;
	/* probes with each mark, and the mark that most of them arrived with */
	uint32_t marked[PAIR_MARKS];
	uint8_t mark_arrived[PAIR_MARKS];
	/* time from departure by the sender's clock to arrival by this end's: the least, and quantiles */
	int64_t delay_min_ns;
	int64_t delay_p10_ns;
	int64_t delay_p50_ns;
	int64_t delay_p90_ns;
	/* address and port that probes came from, as this end sees them; "" and 0: none came */
	char source[PAIR_TEXT];
	uint16_t source_port;
	/* rate at which packets of a short train left the narrowest link; 0: not measured */
	uint64_t train_bps;
	/* probes at a high rate that arrived, their bytes, and the time from the first to the last */
	uint32_t bulk_packets;
	uint64_t bulk_bytes;
	uint64_t bulk_ns;
	/* their mean delay, by two clocks as above */
	int64_t bulk_delay_ns;
	/* probes that found the socket's buffer full: they crossed the network */
	uint32_t overrun;
	/* rate at which TCP delivered; 0: not measured */
	uint64_t tcp_bps;
};

struct pair_end {
	/* name for people */
	char name[PAIR_TEXT];
	/* address that this end has, and that the other sees on its TCP connection */
	char address[PAIR_TEXT];
	char seen[PAIR_TEXT];
	/* ports that probes were sent from and to; 0: could not be opened */
	uint16_t udp_port;
	uint16_t other_port;
	/* MTU of the interface; 0: unknown */
	uint32_t mtu;
	/* bytes of the socket buffers that this user gets */
	uint64_t receive_buffer;
	uint64_t send_buffer;
	struct pair_sent sent;
	struct pair_heard heard;
};

enum pair_back {
	/* not tried */
	PAIR_BACK_UNKNOWN,
	PAIR_BACK_WORKS,
	PAIR_BACK_REFUSED,
	/* no answer */
	PAIR_BACK_SILENT,
};

/* Who answered at the port. */
enum pair_peer {
	PAIR_PEER_DOCTOR,
	/* another godwit command, or another program */
	PAIR_PEER_OTHER,
	/* the host refused the connection */
	PAIR_PEER_REFUSED,
	/* nothing came back */
	PAIR_PEER_SILENT,
	/* no route, or a router or firewall said so */
	PAIR_PEER_UNREACHABLE,
	/* it or we do not hold the secret */
	PAIR_PEER_SECRET,
};

/* Whether the host answered a UDP probe to a port where nobody listens, with ICMP: all that can be learned without a peer. */
enum pair_icmp { PAIR_ICMP_UNTRIED, PAIR_ICMP_SILENT, PAIR_ICMP_ANSWERED };

struct pair {
	enum pair_peer peer;
	/* the library's sentence about it; "" if there is none */
	const char *sentence;
	/* TCP port that was tried */
	uint16_t port;
	struct pair_end here, there;
	/* TCP connections from there to here, on this port */
	enum pair_back back;
	uint16_t back_port;
	/* the least and the median round trip of UDP probes; 0: not measured */
	uint64_t rtt_min_ns;
	uint64_t rtt_ns;
	/* the least round trip over the TCP connection; 0: not measured */
	uint64_t tcp_rtt_ns;
	/* without a peer: ICMP's answers, and the largest IP packet so answered */
	enum pair_icmp icmp;
	uint32_t icmp_size;
	/* UDP port that the user asked for; 0: none */
	uint16_t udp_option;
	/* DSCP that the user is going to use, for the commands at the end */
	uint8_t dscp;
	/* a secret was used */
	bool secret;
};

/* One direction. */
struct pair_way {
	const struct pair_end *from;
	const struct pair_end *to;
};

/* Fills an empty diagnosis. Returns 0, or -EINVAL: no check of a name in only or skip. */
int pair_judge(const struct pair *pair, const char *only, const char *skip,
	       struct diagnosis *diagnosis);

/* The checks of a pair of hosts. */
check_list pair_check_at;

/* ---- for the files of checks ----------------------------------------------------------------------------------- */

struct pair_exam {
	const struct pair *pair;
	const struct check *check;
	struct diagnosis *diagnosis;
};

struct pair_check {
	struct check words;
	/* once for the pair, or once for each direction */
	void (*pair)(struct pair_exam *exam);
	void (*way)(struct pair_exam *exam, const struct pair_way *way);
};

extern const struct pair_check pair_checks_reach[], pair_checks_quality[];
extern const size_t pair_checks_reach_count, pair_checks_quality_count;

/* Adds a finding of the running check; `way` null: about both. */
struct finding *pair_found(struct pair_exam *exam, const struct pair_way *way, const char *where,
			   const char *value, ...) __attribute__((format(printf, 4, 5)));
void pair_unseen(struct pair_exam *exam, const struct pair_way *way, const char *why);
const char *pair_say(struct pair_exam *exam, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Returns whether probes between the ports of a transfer arrived in this direction. */
bool pair_heard_any(const struct pair_way *way);
/* Share of the even stream that was lost; only if some arrived. */
double pair_loss(const struct pair_way *way);
/* How unevenly probes arrive: from the first to the last tenth of delays. */
uint64_t pair_jitter_ns(const struct pair_way *way);
/* Returns whether a clock offset (there less here) was measured; *error_ns is the most that unequal delays account for. */
bool pair_clock(const struct pair *pair, int64_t *offset_ns, uint64_t *error_ns);
/* The rate that the direction is known to have; 0: unknown. */
uint64_t pair_rate_bps(const struct pair_way *way);

/* Rate at which probes sent at a high rate arrived; 0: unknown. */
uint64_t pair_bulk_bps(const struct pair_heard *heard);
/* Share of those that the network lost; 0 if none were sent. */
double pair_bulk_loss(const struct pair_way *way);

/* Adds the remarks: what was measured, and the commands to use. */
void pair_notes(const struct pair *pair, struct diagnosis *diagnosis);

#endif
