/* SPDX-License-Identifier: BSD-3-Clause */
/* Without OpenSSL: a secret cannot be used, and nothing behind that is ever reached. */
#include "tls.h"

#include <errno.h>

#include "derive.h"
#include "error.h"

int derive_key(const struct secret *secret, struct text sender, struct text receiver,
	       uint8_t out[DERIVED_BYTES])
{
	(void)secret;
	(void)sender;
	(void)receiver;
	(void)out;
	return -ENOTSUP;
}

int tls_config_open(const struct secret *secret, struct tls_config **out)
{
	(void)secret;
	(void)out;
	return error_set(
		-ENOTSUP,
		"a secret needs TLS, and this Godwit was built without OpenSSL: build it again with libssl-dev installed");
}

void tls_config_close(struct tls_config *config)
{
	(void)config;
}

int tls_open(struct tls_config *config, bool server, struct tls **out)
{
	(void)config;
	(void)server;
	(void)out;
	return -ENOTSUP;
}

void tls_close(struct tls *tls)
{
	(void)tls;
}

int tls_feed(struct tls *tls, const uint8_t *bytes, size_t length)
{
	(void)tls;
	(void)bytes;
	(void)length;
	return -ENOTSUP;
}

size_t tls_take(struct tls *tls, uint8_t *out, size_t size)
{
	(void)tls;
	(void)out;
	(void)size;
	return 0;
}

size_t tls_pending(const struct tls *tls)
{
	(void)tls;
	return 0;
}

int tls_handshake(struct tls *tls)
{
	(void)tls;
	return -ENOTSUP;
}

int tls_read(struct tls *tls, uint8_t *out, size_t size)
{
	(void)tls;
	(void)out;
	(void)size;
	return -ENOTSUP;
}

int tls_write(struct tls *tls, const uint8_t *data, size_t length)
{
	(void)tls;
	(void)data;
	(void)length;
	return -ENOTSUP;
}

int tls_export(struct tls *tls, const void *context, size_t context_length, uint8_t *out,
	       size_t length)
{
	(void)tls;
	(void)context;
	(void)context_length;
	(void)out;
	(void)length;
	return -ENOTSUP;
}
