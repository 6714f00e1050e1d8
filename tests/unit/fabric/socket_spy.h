/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * socket_spy.h: the system calls by which a socket endpoint sends and sleeps, counted and refused at will. The test
 * program's own sendmsg(), sendmmsg() and ppoll() come before the C library's.
 */
#ifndef TESTS_UNIT_FABRIC_SOCKET_SPY_H
#define TESTS_UNIT_FABRIC_SOCKET_SPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a call sends: a batch that the kernel cuts, one data packet, or control (all else). */
enum spy_kind { SPY_BATCH, SPY_DATA, SPY_CONTROL, SPY_KINDS };

struct socket_spy {
	/* Calls that sent something of each kind; one sendmmsg() counts once, as its first message. */
	unsigned calls[SPY_KINDS];
	/* Calls whose first message had a time of departure, and the latest one. */
	unsigned timed;
	uint64_t depart_ns;
	/* Times that ppoll() was called. */
	unsigned sleeps;
	/* What calls fail with instead of sending, by kind, if not 0; and how many more do. */
	int refuse[SPY_KINDS];
	unsigned refusals[SPY_KINDS];
};

extern struct socket_spy spy;

/* From now on so many sends of this kind fail with this errno. */
void spy_refuse(enum spy_kind kind, int error, unsigned times);
void spy_reset(void);

#endif
