/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tls_stream: what TLS 1.3 over the kernel's TCP carries from one host to another, in one flow.
 *
 * Usage: tls_stream --serve [--bind ADDRESS] [--port N] [--ktls]
 *	  tls_stream HOST [--seconds S] [--port N] [--ktls]
 *
 * The cipher is AES-256-GCM, which sealed packets have, too. A key that both ends know takes the place of certificates: the
 * handshake is not measured. With --ktls the kernel encrypts and decrypts, where it can; the result says whether it did.
 * Time runs from the first byte to the server's word that it has read everything. The client prints the result.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

#define BLOCK 1048576

enum { REPORT_BYTES, REPORT_CPU_NS, REPORT_KTLS, REPORT_WORDS };

static const unsigned char suite[2] = { 0x13, 0x02 };
static const unsigned char name[] = { 'b', 'e', 'n', 'c', 'h' };

static SSL_SESSION *make_session(SSL *ssl)
{
	static const unsigned char key[32] = { 1 };
	SSL_SESSION *session = SSL_SESSION_new();

	if (!session || !SSL_SESSION_set1_master_key(session, key, sizeof(key)) ||
	    !SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) ||
	    !SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		die_text("OpenSSL", "cannot use a pre-shared key");
	return session;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t length, SSL_SESSION **out)
{
	(void)id;
	(void)length;
	*out = make_session(ssl);
	return 1;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *length,
		       SSL_SESSION **out)
{
	(void)digest;
	*id = name;
	*length = sizeof(name);
	*out = make_session(ssl);
	return 1;
}

static SSL *open_tls(int fd, bool server, bool kernel)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	SSL *ssl;

	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(ctx, "TLS_AES_256_GCM_SHA384"))
		die_text("OpenSSL", "no TLS 1.3 with AES-256-GCM");
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_psk_find_session_callback(ctx, find_session);
	SSL_CTX_set_psk_use_session_callback(ctx, use_session);
#ifdef SSL_OP_ENABLE_KTLS
	if (kernel)
		SSL_CTX_set_options(ctx, SSL_OP_ENABLE_KTLS);
#else
	(void)kernel;
#endif
	ssl = SSL_new(ctx);
	if (!ssl || !SSL_set_fd(ssl, fd) || (server ? SSL_accept(ssl) : SSL_connect(ssl)) != 1)
		die_text("OpenSSL", "the handshake failed");
	return ssl;
}

static bool in_kernel(SSL *ssl, bool sending)
{
#ifdef SSL_OP_ENABLE_KTLS
	return sending ? BIO_get_ktls_send(SSL_get_wbio(ssl))
		       : BIO_get_ktls_recv(SSL_get_rbio(ssl));
#else
	(void)ssl;
	(void)sending;
	return false;
#endif
}

static void serve(const struct ends *ends, bool kernel)
{
	int fd = tcp_accept(tcp_listen(ends->bind, ends->port, 0));
	uint8_t *memory = working_set(BLOCK);
	SSL *ssl = open_tls(fd, true, kernel);
	uint64_t report[REPORT_WORDS] = { 0 }, cpu = cpu_ns();
	int n;

	while ((n = SSL_read(ssl, memory, BLOCK)) > 0)
		report[REPORT_BYTES] += (uint64_t)n;
	if (SSL_get_error(ssl, n) != SSL_ERROR_ZERO_RETURN)
		die_text("OpenSSL", "the stream broke off");
	report[REPORT_CPU_NS] = cpu_ns() - cpu;
	report[REPORT_KTLS] = in_kernel(ssl, false);
	if (SSL_write(ssl, report, sizeof(report)) != sizeof(report))
		die_text("OpenSSL", "cannot answer");
}

static void send_all(const struct ends *ends, bool kernel)
{
	int fd = tcp_connect(ends->host, ends->port, 0, NULL);
	uint8_t *memory = working_set(BLOCK);
	SSL *ssl = open_tls(fd, false, kernel);
	uint64_t report[REPORT_WORDS], cpu = cpu_ns(), began = now_ns();

	while (now_ns() < began + ends->seconds_ns)
		if (SSL_write(ssl, memory, BLOCK) != BLOCK)
			die_text("OpenSSL", "cannot send");
	if (SSL_shutdown(ssl) < 0 || SSL_read(ssl, report, sizeof(report)) != sizeof(report))
		die_text("OpenSSL", "no answer");
	printf("{\"bytes\": %" PRIu64
	       ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"ktls_send\": %s, \"ktls_recv\": %s}\n",
	       report[REPORT_BYTES], (double)(now_ns() - began) / 1e9,
	       (double)(cpu_ns() - cpu + report[REPORT_CPU_NS]) / 1e9,
	       in_kernel(ssl, true) ? "true" : "false", report[REPORT_KTLS] ? "true" : "false");
}

int main(int argc, char **argv)
{
	static const struct option options[] = { ENDS_OPTIONS,
						 { "seconds", required_argument, NULL, 't' },
						 { "ktls", no_argument, NULL, 'k' },
						 { NULL, 0, NULL, 0 } };
	struct ends ends = ENDS_DEFAULTS;
	bool kernel = false, right = true;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'k')
			kernel = true;
		else
			right = right && ends_take(&ends, option);
	}
	if (!right || !ends_settle(&ends, argc, argv)) {
		fputs("usage: tls_stream --serve | HOST [--seconds S] [--port N] [--ktls]\n",
		      stderr);
		return 2;
	}
	if (ends.server)
		serve(&ends, kernel);
	else
		send_all(&ends, kernel);
	return 0;
}
