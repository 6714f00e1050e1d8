/* SPDX-License-Identifier: BSD-3-Clause */
/* entropy.c: getrandom() may return early on a signal or above 256 bytes, so it is called in a loop. */
#include "base/entropy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int entropy_fill(void *buffer, size_t length)
{
	unsigned char *next = buffer;

	while (length > 0) {
		ssize_t got = getrandom(next, length, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		next += got;
		length -= (size_t)got;
	}
	return 0;
}

uint32_t entropy_u32(struct entropy *entropy)
{
	uint32_t value;

	if (entropy->left < sizeof(value)) {
		if (entropy_fill(entropy->bytes, sizeof(entropy->bytes)))
			abort();
		entropy->left = sizeof(entropy->bytes);
	}
	entropy->left -= (uint32_t)sizeof(value);
	memcpy(&value, entropy->bytes + entropy->left, sizeof(value));
	return value;
}
