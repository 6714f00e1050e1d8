/* SPDX-License-Identifier: BSD-3-Clause */
#include "duo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS (10000 * MS)

uint64_t duo_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static void note_ignored(void *arg, const char *address, const char *why)
{
	struct duo *duo = arg;

	duo->ignored++;
	snprintf(duo->ignored_why, sizeof(duo->ignored_why), "%s", why);
	snprintf(duo->ignored_address, sizeof(duo->ignored_address), "%s", address);
}

void duo_prepare(struct duo *duo)
{
	*duo = (struct duo){
		.listening = { .flags = GW_RENDEZVOUS_ANY_PORT,
			       .service = "test server",
			       .peer_service = "test client",
			       .ignored = note_ignored,
			       .arg = duo },
		.connecting = { .host = "127.0.0.1",
				.service = "test client",
				.peer_service = "test server" },
		.directory = "/tmp/godwit-rendezvous-XXXXXX",
	};
	assert_non_null(mkdtemp(duo->directory));
}

void duo_listen(struct duo *duo)
{
	int rc = gw_rendezvous_listen(&duo->listening, &duo->listener);

	if (rc)
		print_message("listen: %s\n", gw_rendezvous_error());
	assert_int_equal(rc, 0);
	duo->connecting.port = gw_rendezvous_listener_port(duo->listener);
	assert_int_not_equal(duo->connecting.port, 0);
}

static void client_failed(struct duo *duo, int error)
{
	duo->client_error = error;
	snprintf(duo->client_why, sizeof(duo->client_why), "%s", gw_rendezvous_error());
	gw_rendezvous_close(duo->client);
	duo->client = NULL;
}

/* Sends the first message when connected, and looks for an answer, which must not come before it was accepted. */
static void step_client(struct duo *duo, const char *first, int *sent)
{
	struct gw_rendezvous_message message;
	int rc = gw_rendezvous_step(duo->client);

	if (rc == 1 && !*sent) {
		rc = gw_rendezvous_try_send(duo->client, GW_RENDEZVOUS_DESCRIPTION, first,
					    strlen(first));
		*sent = rc == 0;
	}
	if (rc >= 0 || rc == -EAGAIN)
		rc = gw_rendezvous_try_recv(duo->client, &message);
	assert_int_not_equal(rc, 0);
	if (rc != -EAGAIN)
		client_failed(duo, rc);
}

void duo_meet(struct duo *duo, const char *first)
{
	uint64_t deadline = duo_now() + PATIENCE_NS;
	int sent = 0, rc;

	rc = gw_rendezvous_start(&duo->connecting, &duo->client);
	if (rc) {
		duo->client = NULL;
		client_failed(duo, rc);
		return;
	}
	while (!duo->server && duo->client && duo_now() < deadline) {
		struct pollfd fds[2] = { { .fd = gw_rendezvous_fd(duo->client), .events = POLLIN },
					 { .fd = gw_rendezvous_listener_fd(duo->listener),
					   .events = POLLIN } };

		step_client(duo, first, &sent);
		rc = gw_rendezvous_try_accept(duo->listener, &duo->server);
		assert_true(rc == 0 || rc == -EAGAIN);
		/* The descriptors alone say when to go on. */
		if (duo->client && rc == -EAGAIN)
			poll(fds, 2, 10000);
	}
	assert_true(duo->server || !duo->client);
	if (duo->server)
		duo_expect(duo, duo->server, GW_RENDEZVOUS_DESCRIPTION, first, strlen(first));
}

void duo_expect(struct duo *duo, struct gw_rendezvous *at, uint32_t kind, const void *data,
		size_t length)
{
	struct gw_rendezvous *other = at == duo->client ? duo->server : duo->client;
	uint64_t deadline = duo_now() + PATIENCE_NS;
	struct gw_rendezvous_message message;
	int rc;

	while ((rc = gw_rendezvous_try_recv(at, &message)) == -EAGAIN && duo_now() < deadline)
		gw_rendezvous_step(other);
	if (rc)
		print_message("receive: %s\n", gw_rendezvous_error());
	assert_int_equal(rc, 0);
	assert_int_equal(message.kind, kind);
	assert_int_equal(message.length, length);
	assert_memory_equal(message.data, data, length);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

void duo_close(struct duo *duo)
{
	gw_rendezvous_close(duo->client);
	gw_rendezvous_close(duo->server);
	gw_rendezvous_listener_close(duo->listener);
	nftw(duo->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *duo_file(struct duo *duo, const char *name, const char *text, unsigned mode)
{
	static char path[2][128];
	static unsigned turn;
	char *out = path[turn++ % 2];
	FILE *file;

	snprintf(out, sizeof(path[0]), "%s/%s", duo->directory, name);
	file = fopen(out, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(out, mode), 0);
	return out;
}

int duo_stranger(const struct duo *duo, const void *data, size_t length)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(duo->connecting.port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	if (length)
		assert_int_equal(send(fd, data, length, MSG_NOSIGNAL), length);
	return fd;
}

void duo_serve(struct duo *duo, unsigned count, uint64_t ns)
{
	uint64_t deadline = duo_now() + ns;

	while (duo->ignored < count && duo_now() < deadline) {
		struct pollfd fd = { .fd = gw_rendezvous_listener_fd(duo->listener),
				     .events = POLLIN };
		struct gw_rendezvous *r;

		poll(&fd, 1, ns < 20 * MS ? 1 : 20);
		assert_int_equal(gw_rendezvous_try_accept(duo->listener, &r), -EAGAIN);
	}
}
