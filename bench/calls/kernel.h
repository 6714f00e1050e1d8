/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel.h: the kernel's part of two UDP sockets, played by a queue in this process, and counted.
 *
 * The program's own sendmsg(), sendmmsg(), recvmsg() and recvmmsg() come before the C library's. A batch (UDP_SEGMENT) arrives in one
 * piece, as through a device that leaves it whole (UDP_GRO). Nothing is lost. Each end has a processor of its own and
 * time is virtual: it passes at the end that runs, with each call and with each byte copied, and a datagram takes a while to
 * the other end. Random bytes come from a fixed seed. So a run does the same on every machine, at any load.
 */
#ifndef BENCH_CALLS_KERNEL_H
#define BENCH_CALLS_KERNEL_H

#include <stdint.h>

struct kernel_calls {
	/* System calls that sent something, and packets with data that left by them. */
	uint64_t sends;
	uint64_t packets;
	/* Datagrams that they handed over, each perhaps a batch of packets: it is these that cost, more than the calls. */
	uint64_t batches;
	/* Packets sent that carry control. */
	uint64_t control;
	/* System calls that read something, and those that found nothing. */
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
/* The code of each end runs on a stack of its own, from this function on, which never returns. */
void kernel_start(int end, void (*body)(int end));
/* Runs the end that is next by its clock, so that neither sees the other's future, until it sleeps or yields. */
void kernel_step(void);
/* Of the end that runs: lets so much time pass, and the other end have its turn. */
void kernel_yield(uint64_t ns);

#endif
