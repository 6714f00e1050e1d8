/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 with an external pre-shared key and an ephemeral Diffie-Hellman exchange, as bytes in and bytes out: who owns the
 * socket is left to the caller. tls_openssl.c does it with OpenSSL; tls_none.c stands in where that was not there.
 */
#ifndef GODWIT_RENDEZVOUS_TLS_H
#define GODWIT_RENDEZVOUS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secret.h"

/* First byte of a TLS connection: a handshake record. */
#define TLS_FIRST_BYTE 0x16

/* Bytes that TLS adds to a message, at most. */
#define TLS_OVERHEAD 64

/* What all connections of one listener or connector share: the secret. */
struct tls_config;
/* One connection. */
struct tls;

/* -ENOTSUP (built without OpenSSL), -ENOMEM. Both set the sentence. */
int tls_config_open(const struct secret *secret, struct tls_config **out);
void tls_config_close(struct tls_config *config);

/* The config must outlive the handshake. */
int tls_open(struct tls_config *config, bool server, struct tls **out);
void tls_close(struct tls *tls);

/* Bytes that came from the network. -ENOMEM. */
int tls_feed(struct tls *tls, const uint8_t *bytes, size_t length);

/* Bytes for the network: takes up to `size` and returns how many. */
size_t tls_take(struct tls *tls, uint8_t *out, size_t size);

/* Bytes that wait for tls_take(). */
size_t tls_pending(const struct tls *tls);

/* 1: done. 0: needs more bytes of the other end. -EACCES: it does not hold the same secret. */
int tls_handshake(struct tls *tls);

/* How many bytes were decrypted; 0: needs more of the other end. -ECONNRESET: it closed. -EPROTO: no TLS. */
int tls_read(struct tls *tls, uint8_t *out, size_t size);

/* Encrypts all of it, for tls_take(). */
int tls_write(struct tls *tls, const uint8_t *data, size_t length);

/* Fills `out` with `length` bytes that both ends, and nobody else, can derive (RFC 8446, section 7.5); other bytes for each
 * context. Only after the handshake. -EPROTO: OpenSSL failed. */
int tls_export(struct tls *tls, const void *context, size_t context_length, uint8_t *out,
	       size_t length);

#endif
