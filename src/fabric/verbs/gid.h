/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gid.h: which of a port's addresses to use, and why, in words. A RoCE port lists every address of its interface, each
 * as RoCE v1 and v2; the wrong one works on the bench and fails behind the first router. Pure: the list is handed in.
 */
#ifndef FABRIC_VERBS_GID_H
#define FABRIC_VERBS_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gid_entry {
	uint32_t index;
	bool roce_v2;
	uint8_t bytes[16];
	char interface[16]; /* "" where it is not known */
};

/* Chooses among the entries of one port; with `wanted` >= 0 that index or none. Returns the place in the list, or
 * -ENOENT; `why` says what was chosen and for what reason, or what is wrong, in either case. */
int gid_choose(const struct gid_entry *entries, size_t count, int wanted, char *why,
	       size_t why_size);

bool gid_is_ipv4(const uint8_t bytes[16]);

#endif
