/* SPDX-License-Identifier: BSD-3-Clause */
/* Without OpenSSL no cipher can be opened. */
#include <errno.h>

#include "fabric/roce/cipher.h"

int cipher_open(const uint8_t key[CIPHER_KEY], bool encrypts, struct cipher **out)
{
	(void)key;
	(void)encrypts;
	(void)out;
	return -ENOTSUP;
}

void cipher_close(struct cipher *cipher)
{
	(void)cipher;
}

int cipher_derive(const uint8_t key[CIPHER_KEY], const void *text, size_t length,
		  uint8_t out[CIPHER_KEY])
{
	(void)key;
	(void)text;
	(void)length;
	(void)out;
	return -ENOTSUP;
}

bool cipher_seal(struct cipher *cipher, struct cipher_place place, const uint8_t *header,
		 size_t header_length, const uint8_t *plain, size_t length, uint8_t *out,
		 uint8_t tag[CIPHER_TAG])
{
	(void)cipher;
	(void)place;
	(void)header;
	(void)header_length;
	(void)plain;
	(void)length;
	(void)out;
	(void)tag;
	return false;
}

bool cipher_unseal(struct cipher *cipher, struct cipher_place place, const uint8_t *header,
		   size_t header_length, uint8_t *bytes, size_t length,
		   const uint8_t tag[CIPHER_TAG])
{
	(void)cipher;
	(void)place;
	(void)header;
	(void)header_length;
	(void)bytes;
	(void)length;
	(void)tag;
	return false;
}
