/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.h: where a process that uses the plugin answers the question what it is waiting for. A Unix socket with an abstract
 * name; a connection is answered with text and closed. Only the same user and root get an answer.
 */
#ifndef PLUGINS_NCCL_ASK_H
#define PLUGINS_NCCL_ASK_H

/* The name, without the leading zero byte; the number is the process's. */
#define ASK_SOCKET "godwit-nccl-%d"
/* Bytes of an answer, at most. */
#define ASK_BYTES 65536

#endif
