/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys from a secret and two public texts. derive_openssl.c does it with OpenSSL; tls_none.c stands in where that was not
 * there.
 */
#ifndef GODWIT_RENDEZVOUS_DERIVE_H
#define GODWIT_RENDEZVOUS_DERIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secret.h"

enum { DERIVED_BYTES = 32 };

struct text {
	const void *bytes;
	size_t length;
};

/*
 * The key of one direction: HKDF (RFC 5869) with SHA-512, the secret as input key material, the label "godwit secret keys 1"
 * as salt, and as info the SHA-512 hashes of the sender's text and of the receiver's.
 * -ENOTSUP  built without OpenSSL
 * -EPROTO   OpenSSL failed
 */
int derive_key(const struct secret *secret, struct text sender, struct text receiver,
	       uint8_t out[DERIVED_BYTES]);

#endif
