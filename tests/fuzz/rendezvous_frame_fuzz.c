/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stranger may send to a rendezvous: the bytes go to the decoders, and then over a socket to a listening and to a
 * connecting end, without and with a secret, as far as those listen. The stranger does not know the secret: what it says
 * is never handed out then.
 */
#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/connection.h"
#include "rendezvous/origin.h"

/* As far as one write into a socket's buffer goes. */
#define INPUT_MAX     16384
#define NETWORKS_TEXT 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size)
{
	struct frame_header header;
	struct frame_hello hello;
	char text[FRAME_TEXT + 1];

	if (frame_decode(data, size, &header) == 1)
		assert(header.length <= size - FRAME_HEADER);
	if (frame_decode_hello(data, size, &hello) == 0)
		assert(strlen(hello.service) <= GW_RENDEZVOUS_SERVICE_MAX);
	frame_decode_refusal(data, size, text);
	assert(strlen(text) <= FRAME_TEXT);
}

static void read_networks(const uint8_t *data, size_t size)
{
	struct origin_filter filter;
	char text[NETWORKS_TEXT];

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (origin_filter_read(text, &filter) == 0)
		assert(filter.count >= 1 && filter.count <= ORIGIN_NETWORKS);
}

/* Null where the build has no TLS. */
static struct tls_config *secret_config(void)
{
	static const struct secret secret = { .bytes = "0123456789abcdef0123456789abcde",
					      .length = SECRET_MIN };
	static struct tls_config *config;

	if (!config && tls_config_open(&secret, &config))
		config = NULL;
	return config;
}

static void meet(const uint8_t *data, size_t size, bool server, struct tls_config *config)
{
	struct identity identity = { .service = "fuzz", .peer_service = "fuzz" };
	struct gw_rendezvous *r = connection_new(&identity, server);
	struct gw_rendezvous_message message;
	int fds[2];

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds))
		return;
	r->fd = fds[0];
	r->config = config;
	connection_begin(r);
	if (send(fds[1], data, size, MSG_NOSIGNAL) == (ssize_t)size) {
		shutdown(fds[1], SHUT_WR);
		while (connection_step(r) >= 0 && connection_next(r, &message) == 0)
			assert(message.length <= GW_RENDEZVOUS_MESSAGE_MAX && !config);
		assert(!config || !r->greeted);
	}
	connection_free(r);
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_MAX)
		return 0;
	decode(data, size);
	read_networks(data, size);
	meet(data, size, true, NULL);
	meet(data, size, false, NULL);
	if (secret_config()) {
		meet(data, size, true, secret_config());
		meet(data, size, false, secret_config());
	}
	return 0;
}
