/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal.h: sealed packets, encrypted and authenticated, between two user-space ends that share keys. Private to fabric/roce.
 *
 * A sealed packet has the form of a clear one. Its headers are readable and authenticated; SEAL_EXTRA bytes of the tag
 * follow the encrypted data, as part of the payload, and the tag's last four stand where the ICRC would. The lane is in
 * the three lowest of the BTH's reserved bits behind the ack request, so that address translation does no harm.
 *
 * Packets of each (queue pair, direction, data or control) have a key of their own, and those of each lane a 64-bit counter,
 * of which the PSN is the low 24 bits. It makes the nonce, and goes up with every encryption, also when the packet could not
 * be sent: none is ever used twice. The receiver expands the PSN around the highest counter that was authenticated, and
 * takes each counter once.
 */
#ifndef FABRIC_ROCE_SEAL_H
#define FABRIC_ROCE_SEAL_H

#include "fabric/fabric.h"
#include "fabric/roce/cipher.h"
#include "wire/roce.h"

/* Bytes of a tag that a packet is longer by. */
#define SEAL_EXTRA (CIPHER_TAG - ROCE_ICRC_SIZE)

enum seal_kind { SEAL_DATA, SEAL_CONTROL, SEAL_KINDS };

/* Counters below the highest one that are still told apart. */
#define SEAL_WINDOW_DATA    65536u
#define SEAL_WINDOW_CONTROL 1024u

/* Counters of a lane that were taken. */
struct replay {
	/* The counter after the highest one; 0: none yet. */
	uint64_t next;
	/* Bits of the last `window` counters, at counter mod window. */
	uint64_t *bits;
};

struct seal {
	/* The keys that those of the queue pair are derived from; zeros once it is connected. */
	struct fabric_seal keys;
	bool connected;
	struct cipher *tx[SEAL_KINDS];
	struct cipher *rx[SEAL_KINDS];
	/* Counter of the next packet. */
	uint64_t counters[SEAL_KINDS][FABRIC_LANES_MAX];
	struct replay seen[SEAL_KINDS][FABRIC_LANES_MAX];
	uint64_t bits[FABRIC_LANES_MAX * (SEAL_WINDOW_DATA + SEAL_WINDOW_CONTROL) / 64];
};

/* What both ends know of a queue pair and nobody else uses: numbers and keys of both. */
struct seal_names {
	uint32_t own_qpn;
	uint32_t own_qkey;
	uint32_t peer_qpn;
	uint32_t peer_qkey;
};

/* Allocates all that sealing will need. -ENOMEM, -ENOTSUP (no OpenSSL). */
int seal_open(const struct fabric_seal *keys, struct seal **out);
/* Replaces the keys that it was opened with. -EISCONN after seal_connect(). */
int seal_set_keys(struct seal *seal, const struct fabric_seal *keys);
/* Derives the queue pair's keys, and forgets those it was opened with. -ENOMEM; -EISCONN: done before, and the keys are gone. */
int seal_connect(struct seal *seal, const struct seal_names *names);
/* Overwrites the keys. Null is allowed. */
void seal_close(struct seal *seal);

/* Seals a packet: `headers` are as roce_encode() writes them for its length, SEAL_EXTRA bytes of the payload included, and get
 * their PSN and lane here. `out` gets the payload with its part of the tag, `end` the rest of that. False: OpenSSL failed. */
bool seal_packet(struct seal *seal, enum seal_kind kind, uint32_t lane, uint8_t *headers,
		 size_t headers_length, const uint8_t *plain, size_t length, uint8_t *out,
		 uint8_t end[ROCE_ICRC_SIZE]);

enum seal_verdict { SEAL_GOOD, SEAL_FORGED, SEAL_REPLAYED };

/* Checks a packet of `length` bytes that was taken apart, and decrypts its payload where it lies, SEAL_EXTRA bytes shorter.
 * Only a good packet changes anything else. */
enum seal_verdict seal_check(struct seal *seal, enum seal_kind kind, uint8_t *bytes, size_t length,
			     struct roce_packet *packet, uint8_t *lane);

#endif
