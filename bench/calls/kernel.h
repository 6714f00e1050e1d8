/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel.h: the kernel's part of two UDP sockets, played by a queue in this process, and counted.
 *
 * The program's own sendmsg(), sendmmsg() and recvmmsg() come before the C library's. A batch (UDP_SEGMENT) arrives in one
 * piece, as through a device that leaves it whole (UDP_GRO). Nothing is lost. Each end has a processor of its own and
 * time is virtual: it passes at the end that runs, with each call and with each byte copied, and a datagram takes a while to
 * the other end. Random bytes come from a fixed seed. So a run does the same on every machine, at any load.
 */
#ifndef BENCH_CALLS_KERNEL_H
#define BENCH_CALLS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct kernel_calls {
	/* System calls that sent something, and batches and datagrams that left by them. */
	uint64_t sends;
	uint64_t datagrams;
	/* Datagrams sent that carry control. */
	uint64_t control;
	/* System calls that read, and how many of them found nothing. */
	uint64_t reads;
	uint64_t empty_reads;
	/* Times that the end slept until something came or was due. */
	uint64_t sleeps;
};

/* Of the socket bound first, and of the one bound second. */
extern struct kernel_calls kernel_calls[2];

/* MTU that interfaces seem to have, bytes. */
extern int kernel_mtu;

/* Forgets all sockets, datagrams and counts, and starts clocks and random bytes again. */
void kernel_reset(void);
/* The end whose code runs from now on: its clock is read and moved. The one that is behind, so that neither sees the
 * other's future. Returns it. */
int kernel_run_next(void);
/* Lets time pass at the end that runs. */
void kernel_pass(uint64_t ns);
/* The end that runs sleeps until a datagram comes or until this time, but no longer than until the other end has had its
 * turn. True: it was woken. */
bool kernel_sleep(uint64_t until_ns);

#endif
