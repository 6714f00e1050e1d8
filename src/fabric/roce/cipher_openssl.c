/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See cipher.h. The key of epoch e and its IV are the first 44 bytes of the key stream of AES-256-CTR under the base key, with
 * e (u64) and eight zero bytes as the initial counter block: unlike an HMAC that allocates nothing. Keys of the last few
 * epochs stay set up, at place e mod KEYS: lanes may be some epochs apart, and packets arrive out of order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "fabric/roce/cipher.h"
#include "base/bytes.h"

#define KEYS	  8
#define IV_SIZE	  12
#define HMAC_SIZE 64
#define TEXT_MAX  64
#define NO_EPOCH  UINT64_MAX

struct epoch_key {
	/* Epoch that the context is set up for; NO_EPOCH: none. */
	uint64_t epoch;
	EVP_CIPHER_CTX *ctx;
	uint8_t iv[IV_SIZE];
};

struct cipher {
	bool encrypts;
	/* AES-256-CTR under the base key. */
	EVP_CIPHER_CTX *stream;
	struct epoch_key keys[KEYS];
};

/* HKDF-Expand with one block of SHA-512 (RFC 5869). */
int cipher_derive(const uint8_t key[CIPHER_KEY], const void *text, size_t length,
		  uint8_t out[CIPHER_KEY])
{
	uint8_t info[TEXT_MAX + 1], bytes[HMAC_SIZE];
	bool done;

	if (length > TEXT_MAX)
		return -EINVAL;
	memcpy(info, text, length);
	info[length] = 1;
	done = HMAC(EVP_sha512(), key, CIPHER_KEY, info, length + 1, bytes, NULL) != NULL;
	memcpy(out, bytes, CIPHER_KEY);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return done ? 0 : -ENOMEM;
}

static bool set_up(struct cipher *cipher, struct epoch_key *key, uint64_t epoch)
{
	static const uint8_t zeros[CIPHER_KEY + IV_SIZE];
	uint8_t block[16] = { 0 }, bytes[CIPHER_KEY + IV_SIZE] = { 0 };
	bool done;
	int n;

	put_be64(block, epoch);
	key->epoch = NO_EPOCH;
	done = EVP_EncryptInit_ex(cipher->stream, NULL, NULL, NULL, block) &&
	       EVP_EncryptUpdate(cipher->stream, bytes, &n, zeros, sizeof(zeros)) &&
	       (cipher->encrypts ? EVP_EncryptInit_ex(key->ctx, NULL, NULL, bytes, NULL)
				 : EVP_DecryptInit_ex(key->ctx, NULL, NULL, bytes, NULL));
	memcpy(key->iv, bytes + CIPHER_KEY, IV_SIZE);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	if (done)
		key->epoch = epoch;
	return done;
}

int cipher_open(const uint8_t key[CIPHER_KEY], bool encrypts, struct cipher **out)
{
	struct cipher *cipher = calloc(1, sizeof(*cipher));
	bool done;

	if (!cipher)
		return -ENOMEM;
	cipher->encrypts = encrypts;
	cipher->stream = EVP_CIPHER_CTX_new();
	done = cipher->stream &&
	       EVP_EncryptInit_ex(cipher->stream, EVP_aes_256_ctr(), NULL, key, NULL);
	for (unsigned i = 0; done && i < KEYS; i++) {
		struct epoch_key *slot = &cipher->keys[i];

		slot->ctx = EVP_CIPHER_CTX_new();
		done = slot->ctx &&
		       (encrypts
				? EVP_EncryptInit_ex(slot->ctx, EVP_aes_256_gcm(), NULL, NULL, NULL)
				: EVP_DecryptInit_ex(slot->ctx, EVP_aes_256_gcm(), NULL, NULL,
						     NULL)) &&
		       set_up(cipher, slot, i);
	}
	if (!done) {
		cipher_close(cipher);
		return -ENOMEM;
	}
	*out = cipher;
	return 0;
}

void cipher_close(struct cipher *cipher)
{
	if (!cipher)
		return;
	for (unsigned i = 0; i < KEYS; i++)
		EVP_CIPHER_CTX_free(cipher->keys[i].ctx);
	EVP_CIPHER_CTX_free(cipher->stream);
	OPENSSL_cleanse(cipher, sizeof(*cipher));
	free(cipher);
}

/* The key for a place, and the nonce: the key's IV xor (lane, counter). */
static EVP_CIPHER_CTX *key_for(struct cipher *cipher, struct cipher_place place,
			       uint8_t nonce[IV_SIZE])
{
	uint64_t epoch = place.counter >> CIPHER_EPOCH_SHIFT;
	struct epoch_key *key = &cipher->keys[epoch % KEYS];
	uint8_t number[IV_SIZE];

	if (key->epoch != epoch && !set_up(cipher, key, epoch))
		return NULL;
	put_be32(number, place.lane);
	put_be64(number + 4, place.counter);
	for (unsigned i = 0; i < IV_SIZE; i++)
		nonce[i] = key->iv[i] ^ number[i];
	return key->ctx;
}

bool cipher_seal(struct cipher *cipher, struct cipher_place place, const uint8_t *header,
		 size_t header_length, const uint8_t *plain, size_t length, uint8_t *out,
		 uint8_t tag[CIPHER_TAG])
{
	uint8_t nonce[IV_SIZE];
	EVP_CIPHER_CTX *ctx = key_for(cipher, place, nonce);
	int n = 0;

	return ctx && EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, nonce) &&
	       EVP_EncryptUpdate(ctx, NULL, &n, header, (int)header_length) &&
	       (!length || EVP_EncryptUpdate(ctx, out, &n, plain, (int)length)) &&
	       EVP_EncryptFinal_ex(ctx, out + length, &n) &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, CIPHER_TAG, tag);
}

bool cipher_unseal(struct cipher *cipher, struct cipher_place place, const uint8_t *header,
		   size_t header_length, uint8_t *bytes, size_t length,
		   const uint8_t tag[CIPHER_TAG])
{
	uint8_t nonce[IV_SIZE];
	EVP_CIPHER_CTX *ctx = key_for(cipher, place, nonce);
	int n = 0;

	return ctx && EVP_DecryptInit_ex(ctx, NULL, NULL, NULL, nonce) &&
	       EVP_DecryptUpdate(ctx, NULL, &n, header, (int)header_length) &&
	       (!length || EVP_DecryptUpdate(ctx, bytes, &n, bytes, (int)length)) &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, CIPHER_TAG, (void *)(uintptr_t)tag) &&
	       EVP_DecryptFinal_ex(ctx, bytes + length, &n) > 0;
}
