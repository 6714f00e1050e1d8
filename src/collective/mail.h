/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mail.h: small messages between the ranks of a communicator, before and beside its channels.
 *
 * Mail carries descriptions of channels, agreements about sub-communicators, goodbyes and bad news; no data of an operation. It
 * is reliable and ordered between any two ranks, slower than a channel, and exists from the moment that all ranks have met.
 * The communicator sees it through this table, so that the same code runs over TCP (hub.c) and in simulation.
 */
#ifndef COLLECTIVE_MAIL_H
#define COLLECTIVE_MAIL_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a letter, at most. */
#define MAIL_MAX 2048

/* Addressee: every other rank. */
#define MAIL_ALL UINT32_MAX

/* What the mail tells its owner. Called inside `progress` only; `data` is valid during the call. */
struct mail_handler {
	/* A letter of `length` bytes from a rank. */
	void (*letter)(void *arg, uint32_t from, const void *data, size_t length);
	/* A rank has ended, or was not heard of for too long, without a goodbye; `why` is a sentence. Told once for each. */
	void (*lost)(void *arg, uint32_t rank, const char *why);
	/* A rank has said goodbye. Told once for each. */
	void (*left)(void *arg, uint32_t rank);
};

struct mail;

struct mail_ops {
	/* Posts a letter; it is copied. -EMSGSIZE, -ENOBUFS (too much is waiting to leave), -EPIPE (the mail has ended). */
	int (*send)(struct mail *mail, uint32_t to, const void *data, size_t length);
	/* Moves letters without blocking, and calls the handler. Returns how many things it did, or -errno once the mail as a
	 * whole has failed (`lost` was called for rank 0 before). */
	int (*progress)(struct mail *mail, uint64_t now_ns);
	/* A descriptor that is readable when `progress` has something to do; -1: none, as in simulation. */
	int (*fd)(const struct mail *mail);
	/* The time at which `progress` is to be called even if the descriptor is not readable; UINT64_MAX: never. */
	uint64_t (*deadline_ns)(const struct mail *mail);
	/* Numeric address of a rank as it was seen by rank 0; "" if not known. */
	const char *(*address)(const struct mail *mail, uint32_t rank);
	/* Longest round-trip time between rank 0 and another rank when they met, in ns, the same at all ranks; 0: not known. */
	uint64_t (*rtt_ns)(const struct mail *mail);
	/* Says goodbye, so that no other rank is told of a loss, and frees the mail. Letters that were posted before arrive. May
	 * block, for a second at most. */
	void (*close)(struct mail *mail);
};

/* Implementations embed this at their start. */
struct mail {
	const struct mail_ops *ops;
	const struct mail_handler *handler;
	void *arg;
};

#endif
