/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealed packets; see seal.h. The replay window is a ring of bits, one for each of the last counters of a lane. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/roce/seal.h"
#include "base/bytes.h"

#define WORD_BITS 64u
/* Bytes of BTH that may change on the way (FECN, BECN), and that have lane and PSN. */
#define BTH_MUTABLE 4
#define BTH_LANE    8
#define BTH_PSN	    9
#define LANE_MASK   7u
#define PSN_SPAN    (UINT64_C(1) << 24)

static const uint32_t windows[SEAL_KINDS] = { SEAL_WINDOW_DATA, SEAL_WINDOW_CONTROL };

static void forget(struct seal *seal)
{
	explicit_bzero(seal->keys.tx, sizeof(seal->keys.tx));
	explicit_bzero(seal->keys.rx, sizeof(seal->keys.rx));
}

int seal_open(const struct fabric_seal *keys, struct seal **out)
{
	struct seal *seal = calloc(1, sizeof(*seal));
	uint8_t probe[CIPHER_KEY];
	uint64_t *bits;
	int error;

	if (!seal)
		return -ENOMEM;
	seal->keys = *keys;
	bits = seal->bits;
	for (unsigned kind = 0; kind < SEAL_KINDS; kind++) {
		for (unsigned lane = 0; lane < FABRIC_LANES_MAX; lane++) {
			seal->seen[kind][lane].bits = bits;
			bits += windows[kind] / WORD_BITS;
		}
	}
	error = cipher_derive(keys->tx, "", 0, probe); /* is there a cipher at all? */
	if (error) {
		seal_close(seal);
		return error;
	}
	*out = seal;
	return 0;
}

/* The key of one direction and kind, named by its sender first. */
static int open_cipher(const uint8_t base[CIPHER_KEY], enum seal_kind kind,
		       const struct seal_names *n, bool encrypts, struct cipher **out)
{
	uint8_t text[32] = "godwit seal 1:", key[CIPHER_KEY];
	int error;

	text[14] = (uint8_t)kind;
	put_be32(text + 16, encrypts ? n->own_qpn : n->peer_qpn);
	put_be32(text + 20, encrypts ? n->own_qkey : n->peer_qkey);
	put_be32(text + 24, encrypts ? n->peer_qpn : n->own_qpn);
	put_be32(text + 28, encrypts ? n->peer_qkey : n->own_qkey);
	error = cipher_derive(base, text, sizeof(text), key);
	if (!error)
		error = cipher_open(key, encrypts, out);
	explicit_bzero(key, sizeof(key));
	return error;
}

static void close_ciphers(struct seal *seal)
{
	for (unsigned kind = 0; kind < SEAL_KINDS; kind++) {
		cipher_close(seal->tx[kind]);
		cipher_close(seal->rx[kind]);
		seal->tx[kind] = seal->rx[kind] = NULL;
	}
}

int seal_set_keys(struct seal *seal, const struct fabric_seal *keys)
{
	if (seal->connected)
		return -EISCONN;
	seal->keys = *keys;
	return 0;
}

int seal_connect(struct seal *seal, const struct seal_names *names)
{
	int error = seal->connected ? -EISCONN : 0;

	if (error)
		return error;
	for (unsigned kind = 0; !error && kind < SEAL_KINDS; kind++) {
		error = open_cipher(seal->keys.tx, kind, names, true, &seal->tx[kind]);
		if (!error)
			error = open_cipher(seal->keys.rx, kind, names, false, &seal->rx[kind]);
	}
	if (error) {
		close_ciphers(seal);
		return error;
	}
	seal->connected = true;
	forget(seal);
	return 0;
}

void seal_close(struct seal *seal)
{
	if (!seal)
		return;
	close_ciphers(seal);
	forget(seal);
	free(seal);
}

/* The headers as the tag covers them. Returns them. */
static const uint8_t *masked(const uint8_t *headers, size_t length, uint8_t out[ROCE_HEADERS_MAX])
{
	memcpy(out, headers, length);
	out[BTH_MUTABLE] = 0;
	return out;
}

bool seal_packet(struct seal *seal, enum seal_kind kind, uint32_t lane, uint8_t *headers,
		 size_t headers_length, const uint8_t *plain, size_t length, uint8_t *out,
		 uint8_t end[ROCE_ICRC_SIZE])
{
	struct cipher_place place = { lane, seal->counters[kind][lane]++ };
	uint8_t covered[ROCE_HEADERS_MAX], tag[CIPHER_TAG];

	headers[BTH_LANE] = (uint8_t)((headers[BTH_LANE] & ~LANE_MASK) | lane);
	put_be24(headers + BTH_PSN, (uint32_t)(place.counter & (PSN_SPAN - 1)));
	if (!cipher_seal(seal->tx[kind], place, masked(headers, headers_length, covered),
			 headers_length, plain, length, out, tag))
		return false;
	memcpy(out + length, tag, SEAL_EXTRA);
	memcpy(end, tag + SEAL_EXTRA, ROCE_ICRC_SIZE);
	return true;
}

/* The counter with these low bits that is nearest to those seen. */
static uint64_t expand(const struct replay *seen, uint32_t psn)
{
	uint64_t counter = (seen->next & ~(PSN_SPAN - 1)) | psn;

	if (counter > seen->next + PSN_SPAN / 2 && counter >= PSN_SPAN)
		return counter - PSN_SPAN;
	if (counter + PSN_SPAN / 2 < seen->next)
		return counter + PSN_SPAN;
	return counter;
}

static bool was_seen(const struct replay *seen, uint32_t window, uint64_t counter)
{
	uint32_t at = (uint32_t)(counter % window);

	if (counter >= seen->next)
		return false;
	return seen->next - counter > window || seen->bits[at / WORD_BITS] >> at % WORD_BITS & 1;
}

static void note(struct replay *seen, uint32_t window, uint64_t counter)
{
	uint32_t at = (uint32_t)(counter % window);

	if (counter >= seen->next && counter - seen->next >= window)
		memset(seen->bits, 0, window / 8);
	else
		for (; seen->next <= counter; seen->next++)
			seen->bits[seen->next % window / WORD_BITS] &=
				~(UINT64_C(1) << seen->next % WORD_BITS);
	if (counter >= seen->next)
		seen->next = counter + 1;
	seen->bits[at / WORD_BITS] |= UINT64_C(1) << at % WORD_BITS;
}

enum seal_verdict seal_check(struct seal *seal, enum seal_kind kind, uint8_t *bytes, size_t length,
			     struct roce_packet *packet, uint8_t *lane)
{
	size_t headers = (size_t)(packet->payload - bytes);
	uint8_t covered[ROCE_HEADERS_MAX], tag[CIPHER_TAG];
	struct cipher_place place = { .lane = bytes[BTH_LANE] & LANE_MASK };
	struct replay *seen = &seal->seen[kind][place.lane];

	if (packet->payload_length < SEAL_EXTRA)
		return SEAL_FORGED;
	packet->payload_length -= SEAL_EXTRA;
	place.counter = expand(seen, packet->psn);
	if (was_seen(seen, windows[kind], place.counter))
		return SEAL_REPLAYED;
	memcpy(tag, packet->payload + packet->payload_length, SEAL_EXTRA);
	memcpy(tag + SEAL_EXTRA, bytes + length - ROCE_ICRC_SIZE, ROCE_ICRC_SIZE);
	if (!cipher_unseal(seal->rx[kind], place, masked(bytes, headers, covered), headers,
			   bytes + headers, packet->payload_length, tag))
		return SEAL_FORGED;
	note(seen, windows[kind], place.counter);
	*lane = (uint8_t)place.lane;
	return SEAL_GOOD;
}
