/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.h: whether the peer's address has been validated. Private to message/.
 *
 * A description is bytes that somebody sent, and the address in it may be a third party's. Until a packet from that address
 * has shown that its owner reads what is sent there, this end sends no data and no padded probe, and bounds what it does
 * send: a few probes, and three bytes for each byte that came from there, as QUIC has it. The proof is a PROBE reply, which
 * repeats a number that was drawn at random and sent to that address only.
 *
 * No proof is asked for where the address is that of the host which the application met by other means (peer_host), or
 * where the fabric's addresses cannot be chosen by a peer (simulation).
 */
#ifndef MESSAGE_REACH_H
#define MESSAGE_REACH_H

#include <stdbool.h>
#include <stdint.h>

struct gw_qp;

/* Characters of a numeric address, its zone and the final zero. */
#define REACH_HOST_SIZE 64
/* Probes whose answers are accepted as a proof: the last ones. */
#define REACH_PROBES 8

struct reach {
	/* whether data and any amount of control may be sent */
	bool proven;
	/* address of the host that the application met; empty: not known */
	char host[REACH_HOST_SIZE];
	/* random number that is added to the time in probes */
	uint64_t salt;
	/* times of the last probes, with the salt; 0: none */
	uint64_t asked[REACH_PROBES];
	/* probes asked so far */
	uint32_t probes;
	/* bytes that came from the address, and that were sent to it, until it was proven */
	uint64_t heard;
	uint64_t sent;
	/* when the queue pair was connected */
	uint64_t since_ns;
};

/* Keeps the address of the host that the application met; null: none. -EINVAL: it is too long. */
int reach_init(struct reach *reach, const char *host);
/* The fabric has the peer's address. -errno when there is no entropy. */
int reach_connect(struct gw_qp *qp);
/* Packets with so many bytes each came from the peer. */
void reach_heard(struct gw_qp *qp, uint32_t bytes, uint32_t packets);
/* Whether a control datagram of so many bytes may be sent; it is then counted as sent. */
bool reach_may_send(struct gw_qp *qp, uint64_t bytes);
/* Those of the OWE_ bits that may be paid now: nothing but a probe to an address that nothing came from. */
uint32_t reach_payable(const struct gw_qp *qp, uint32_t owed);
/* The number to send in a probe that is asked now. */
uint64_t reach_ask(struct gw_qp *qp);
/* A probe was answered with this number. Returns the time at which it was asked; 0 when it never was. */
uint64_t reach_answered(struct gw_qp *qp, uint64_t number);

#endif
