/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal.h: sealed packets between ranks that share a secret. Private to collective/.
 *
 * Each channel has keys of its own. They follow from the secret and from what both ends mail each other when the channel is made:
 * the communicator, the track, the two ranks, the channel's description and a random number. The mail of ranks with a secret goes
 * over TLS with a fresh key exchange, so that whoever learns the secret later cannot read what was recorded.
 */
#ifndef COLLECTIVE_SEAL_H
#define COLLECTIVE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include <godwit/channel.h>

#define SEAL_NONCE_BYTES 32

/* One end of a channel: what its keys depend on. */
struct seal_end {
	/* number of the communicator */
	uint64_t comm;
	uint32_t track;
	/* ranks in the communicator: of this end, and of the other one */
	uint32_t from;
	uint32_t to;
	const struct gw_channel_info *info;
	const uint8_t *nonce;
};

/* Draws a random number for a channel. -errno of the system. */
int seal_draw(uint8_t nonce[SEAL_NONCE_BYTES]);

/* Keys for a channel until those of both ends are known: it only says that packets are going to be sealed. */
int seal_placeholder(struct gw_seal *out);

/* The keys of a channel. As gw_rendezvous_secret_keys(). The caller overwrites them when they are not needed. */
int seal_keys(const char *secret_file, const struct seal_end *mine, const struct seal_end *theirs,
	      struct gw_seal *out);

#endif
