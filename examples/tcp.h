/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.h: one TCP connection between the two ends of an example, for what they must tell each other beside the data.
 * Whatever goes wrong ends the program with a line that says what.
 */
#ifndef EXAMPLES_TCP_H
#define EXAMPLES_TCP_H

#include <stddef.h>

/* Calls the host, giving it a little time to be started; or, without one, waits for one caller. */
int tcp_meet(const char *host, const char *port);

void tcp_tell(int fd, const void *data, size_t length);
void tcp_hear(int fd, void *data, size_t length);

/* 32-bit numbers between this host's order and the wire's. */
void tcp_swap(void *numbers, size_t length);

void die(const char *what) __attribute__((noreturn));

#endif
