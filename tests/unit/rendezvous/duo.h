/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener and a connector in one thread: each is stepped in turn, so that nothing here may block. */
#ifndef TESTS_RENDEZVOUS_DUO_H
#define TESTS_RENDEZVOUS_DUO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <godwit/rendezvous.h>

#define MS UINT64_C(1000000)

struct duo {
	struct gw_rendezvous_attr listening;
	struct gw_rendezvous_attr connecting;
	struct gw_rendezvous_listener *listener;
	struct gw_rendezvous *client;
	struct gw_rendezvous *server;
	/* what each end failed with, and its sentence */
	int client_error;
	char client_why[512];
	unsigned ignored;
	char ignored_why[512];
	char ignored_address[128];
	/* directory for secret files, removed at the end */
	char directory[64];
};

/* Attributes that fit each other, on a free port; nothing is opened. */
void duo_prepare(struct duo *duo);
void duo_listen(struct duo *duo);

/* Steps both ends until the client's first message was accepted or the client failed. The client sends `first`. */
void duo_meet(struct duo *duo, const char *first);

/* Receives one message at either end and compares it. The other end is stepped meanwhile. */
void duo_expect(struct duo *duo, struct gw_rendezvous *at, uint32_t kind, const void *data,
		size_t length);

void duo_close(struct duo *duo);

/* Writes a file into the duo's directory; the path is valid until the next call. */
const char *duo_file(struct duo *duo, const char *name, const char *text, unsigned mode);

/* A plain TCP connection to the listener. */
int duo_stranger(const struct duo *duo, const void *data, size_t length);

/* Steps the listener for so long, or until `count` connections were ignored. */
void duo_serve(struct duo *duo, unsigned count, uint64_t ns);

uint64_t duo_now(void);

#endif
