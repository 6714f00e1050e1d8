/* SPDX-License-Identifier: BSD-3-Clause */
#include "derive.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define HASH_BYTES 64

static const char label[] = "godwit secret keys 1";

int derive_key(const struct secret *secret, struct text sender, struct text receiver,
	       uint8_t out[DERIVED_BYTES])
{
	uint8_t extracted[HASH_BYTES], expanded[HASH_BYTES];
	/* Two hashes and the number of the block, which is the first and only one. */
	uint8_t info[2 * HASH_BYTES + 1];
	bool done;

	info[2 * HASH_BYTES] = 1;
	done = EVP_Digest(sender.bytes, sender.length, info, NULL, EVP_sha512(), NULL) &&
	       EVP_Digest(receiver.bytes, receiver.length, info + HASH_BYTES, NULL, EVP_sha512(),
			  NULL) &&
	       HMAC(EVP_sha512(), label, sizeof(label) - 1, secret->bytes, secret->length,
		    extracted, NULL) &&
	       HMAC(EVP_sha512(), extracted, sizeof(extracted), info, sizeof(info), expanded, NULL);
	if (done)
		memcpy(out, expanded, DERIVED_BYTES);
	OPENSSL_cleanse(extracted, sizeof(extracted));
	OPENSSL_cleanse(expanded, sizeof(expanded));
	return done ? 0 : -EPROTO;
}
