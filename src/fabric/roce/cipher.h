/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cipher.h: authenticated encryption of packets under one base key. Private to fabric/roce.
 *
 * AES-256-GCM, done by OpenSSL. A key encrypts CIPHER_EPOCH packets of each lane; then the next one is derived from the base
 * key, without a word to the peer, who sees from a packet's counter which key it needs. Everything is allocated when a
 * cipher opens; sealing and opening packets allocates nothing.
 */
#ifndef FABRIC_ROCE_CIPHER_H
#define FABRIC_ROCE_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CIPHER_KEY 32
#define CIPHER_TAG 16
/* Packets under one key and lane: 2^22. */
#define CIPHER_EPOCH_SHIFT 22

struct cipher;

/* A packet's place in the order of its lane. No two packets under one key may have the same. */
struct cipher_place {
	uint32_t lane;
	uint64_t counter;
};

/* Opens a cipher that encrypts, or one that decrypts. -ENOTSUP: the library was built without OpenSSL; -ENOMEM. */
int cipher_open(const uint8_t key[CIPHER_KEY], bool encrypts, struct cipher **out);
/* Overwrites the keys. Null is allowed. */
void cipher_close(struct cipher *cipher);

/* Derives a key from another one and a text that says what it is for. -ENOTSUP, -ENOMEM. */
int cipher_derive(const uint8_t key[CIPHER_KEY], const void *text, size_t length,
		  uint8_t out[CIPHER_KEY]);

/* Encrypts `length` bytes and makes the tag, which covers `header` too. False: OpenSSL failed. */
bool cipher_seal(struct cipher *cipher, struct cipher_place place, const uint8_t *header,
		 size_t header_length, const uint8_t *plain, size_t length, uint8_t *out,
		 uint8_t tag[CIPHER_TAG]);
/* Decrypts `length` bytes where they are. False: the tag is wrong; the bytes are then worthless. */
bool cipher_unseal(struct cipher *cipher, struct cipher_place place, const uint8_t *header,
		   size_t header_length, uint8_t *bytes, size_t length,
		   const uint8_t tag[CIPHER_TAG]);

#endif
