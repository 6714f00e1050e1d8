/* SPDX-License-Identifier: BSD-3-Clause */
/* The secret that two ends share, read from a file. */
#ifndef GODWIT_RENDEZVOUS_SECRET_H
#define GODWIT_RENDEZVOUS_SECRET_H

#include <stddef.h>
#include <stdint.h>

enum { SECRET_MIN = 32, SECRET_MAX = 64 };

struct secret {
	uint8_t bytes[SECRET_MAX];
	size_t length;
};

/*
 * Reads hexadecimal digits. Every failure sets the sentence.
 * -EACCES  others than its owner may access the file, or this process may not
 * -EINVAL  it does not hold a secret
 * -errno
 */
int secret_read(const char *path, struct secret *out);

/* Overwrites the bytes, so that they do not stay in memory that is given back. */
void secret_wipe(struct secret *secret);

#endif
