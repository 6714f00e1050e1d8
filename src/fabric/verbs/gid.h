/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gid.h: which of a port's addresses to use, and why. A RoCE port lists every address of its interface, each as RoCE v1 and
 * v2; a wrong one works within one switch and fails behind the first router. Pure: the list is passed in.
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
	/* Name of the interface; "": not known. */
	char interface[16];
};

/* Chooses among the entries of one port; with `wanted` >= 0 only that index. Returns the place in the list, or -ENOENT.
 * `why` gets the reason for the choice, or what is wrong. */
int gid_choose(const struct gid_entry *entries, size_t count, int wanted, char *why,
	       size_t why_size);

/* Whether it stands for an IPv4 address. */
bool gid_is_ipv4(const uint8_t bytes[16]);

#endif
