/* SPDX-License-Identifier: BSD-3-Clause */
/* entropy.h: unpredictable bytes from the kernel, for keys that an attacker must not guess. */
#ifndef GODWIT_BASE_ENTROPY_H
#define GODWIT_BASE_ENTROPY_H

#include <stddef.h>

/* Fills the whole buffer and returns 0, or -errno with the buffer in any state. */
int entropy_fill(void *buffer, size_t length);

#endif
