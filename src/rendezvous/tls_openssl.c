/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * OpenSSL between two memory BIOs: `in` holds what came from the network, `out` what is to go there. The sockets stay with
 * the caller, who sends without SIGPIPE and looks at the first byte before TLS does.
 *
 * There are no certificates. A server has none, and a client trusts none and also checks that the pre-shared key was used,
 * so that the key is the one way in for either end.
 */
#include "tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* The one cipher suite, and its number: the key belongs to its hash. */
#define SUITE "TLS_AES_256_GCM_SHA384"
static const uint8_t suite_id[2] = { 0x13, 0x02 };

/* The key's name in the handshake. It is not secret, and there is one key. */
static const uint8_t identity[] = { 'g', 'o', 'd', 'w', 'i', 't', '-', 'p', 's', 'k' };

/* The label of exported keys. The prefix is the one for labels that are not registered (RFC 5705, section 4). */
static const char export_label[] = "EXPERIMENTAL-godwit-keys";

struct tls_config {
	SSL_CTX *ctx;
	struct secret secret;
};

struct tls {
	SSL *ssl;
	/* owned by `ssl` */
	BIO *in;
	BIO *out;
	bool server;
};

/* A session whose resumption secret is the shared one: how OpenSSL takes an external key. */
static SSL_SESSION *make_session(SSL *ssl)
{
	const struct tls_config *config = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite_id);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher &&
	    SSL_SESSION_set1_master_key(session, config->secret.bytes, config->secret.length) &&
	    SSL_SESSION_set_cipher(session, cipher) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int find_session(SSL *ssl, const unsigned char *name, size_t length, SSL_SESSION **out)
{
	*out = NULL;
	if (length == sizeof(identity) && memcmp(name, identity, length) == 0)
		*out = make_session(ssl);
	return 1;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **name, size_t *length,
		       SSL_SESSION **out)
{
	(void)digest;
	*name = identity;
	*length = sizeof(identity);
	*out = make_session(ssl);
	return *out != NULL;
}

int tls_config_open(const struct secret *secret, struct tls_config **out)
{
	struct tls_config *config = calloc(1, sizeof(*config));

	if (!config)
		return error_set(-ENOMEM, "no memory for TLS");
	config->secret = *secret;
	config->ctx = SSL_CTX_new(TLS_method());
	if (!config->ctx || !SSL_CTX_set_min_proto_version(config->ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_max_proto_version(config->ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(config->ctx, SUITE)) {
		tls_config_close(config);
		ERR_clear_error();
		return error_set(-ENOTSUP, "OpenSSL here has no TLS 1.3 with " SUITE);
	}
	SSL_CTX_set_app_data(config->ctx, config);
	SSL_CTX_set_options(config->ctx, SSL_OP_NO_TICKET);
	/* The system's openssl.cnf may have set it: without Diffie-Hellman, who learns the secret reads old connections. */
	SSL_CTX_clear_options(config->ctx, SSL_OP_ALLOW_NO_DHE_KEX);
	SSL_CTX_set_num_tickets(config->ctx, 0);
	SSL_CTX_set_session_cache_mode(config->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_psk_find_session_callback(config->ctx, find_session);
	SSL_CTX_set_psk_use_session_callback(config->ctx, use_session);
	*out = config;
	return 0;
}

void tls_config_close(struct tls_config *config)
{
	if (!config)
		return;
	SSL_CTX_free(config->ctx);
	secret_wipe(&config->secret);
	free(config);
}

int tls_open(struct tls_config *config, bool server, struct tls **out)
{
	struct tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return -ENOMEM;
	tls->server = server;
	tls->ssl = SSL_new(config->ctx);
	tls->in = BIO_new(BIO_s_mem());
	tls->out = BIO_new(BIO_s_mem());
	if (!tls->ssl || !tls->in || !tls->out) {
		BIO_free(tls->in);
		BIO_free(tls->out);
		SSL_free(tls->ssl);
		free(tls);
		return -ENOMEM;
	}
	SSL_set_bio(tls->ssl, tls->in, tls->out);
	if (server) {
		SSL_set_accept_state(tls->ssl);
	} else {
		SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
		SSL_set_connect_state(tls->ssl);
	}
	*out = tls;
	return 0;
}

void tls_close(struct tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	free(tls);
}

int tls_feed(struct tls *tls, const uint8_t *bytes, size_t length)
{
	return BIO_write(tls->in, bytes, (int)length) == (int)length ? 0 : -ENOMEM;
}

size_t tls_take(struct tls *tls, uint8_t *out, size_t size)
{
	int n = BIO_read(tls->out, out, size > INT_MAX ? INT_MAX : (int)size);

	return n > 0 ? (size_t)n : 0;
}

size_t tls_pending(const struct tls *tls)
{
	return BIO_ctrl_pending(tls->out);
}

int tls_handshake(struct tls *tls)
{
	int rc;

	ERR_clear_error();
	rc = SSL_do_handshake(tls->ssl);
	if (rc == 1)
		return tls->server || SSL_session_reused(tls->ssl) ? 1 : -EACCES;
	rc = SSL_get_error(tls->ssl, rc);
	ERR_clear_error();
	return rc == SSL_ERROR_WANT_READ || rc == SSL_ERROR_WANT_WRITE ? 0 : -EACCES;
}

int tls_read(struct tls *tls, uint8_t *out, size_t size)
{
	int n, rc;

	ERR_clear_error();
	n = SSL_read(tls->ssl, out, size > INT_MAX ? INT_MAX : (int)size);
	if (n > 0)
		return n;
	rc = SSL_get_error(tls->ssl, n);
	ERR_clear_error();
	if (rc == SSL_ERROR_WANT_READ || rc == SSL_ERROR_WANT_WRITE)
		return 0;
	return rc == SSL_ERROR_ZERO_RETURN ? -ECONNRESET : -EPROTO;
}

int tls_write(struct tls *tls, const uint8_t *data, size_t length)
{
	int n;

	ERR_clear_error();
	n = SSL_write(tls->ssl, data, (int)length);
	ERR_clear_error();
	return n == (int)length ? 0 : -EPROTO;
}

int tls_export(struct tls *tls, const void *context, size_t context_length, uint8_t *out,
	       size_t length)
{
	int rc = SSL_export_keying_material(tls->ssl, out, length, export_label,
					    sizeof(export_label) - 1, context, context_length, 1);

	ERR_clear_error();
	return rc == 1 ? 0 : -EPROTO;
}
