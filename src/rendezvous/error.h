/* SPDX-License-Identifier: BSD-3-Clause */
/* The sentence that gw_rendezvous_error() returns: one for each thread. */
#ifndef GODWIT_RENDEZVOUS_ERROR_H
#define GODWIT_RENDEZVOUS_ERROR_H

/* Bytes of the longest sentence, with its final zero. */
#define ERROR_TEXT 512

/* Keeps the sentence and returns `error`, a -errno, so that a caller can fail in one line. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
