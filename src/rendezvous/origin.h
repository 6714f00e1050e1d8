/* SPDX-License-Identifier: BSD-3-Clause */
/* Where connections come from: one key for each network that counts as one, and the networks that may connect at all. */
#ifndef GODWIT_RENDEZVOUS_ORIGIN_H
#define GODWIT_RENDEZVOUS_ORIGIN_H

#include <netinet/in.h>
#include <stdbool.h>

enum {
	/* networks that a listener can be told */
	ORIGIN_NETWORKS = 16,
};

/* `length` leading bits of an IPv6 address; IPv4 is mapped into IPv6. */
struct origin_network {
	struct in6_addr address;
	unsigned length;
};

struct origin_filter {
	/* 0: everybody may connect */
	unsigned count;
	struct origin_network networks[ORIGIN_NETWORKS];
};

/* The address of a connection's other end; IPv4 is mapped into IPv6. */
struct in6_addr origin_address(const struct sockaddr_storage *from);

/* Whoever has one IPv4 address, or one IPv6 network of 64 bits, is taken for one: it can have all addresses in there. */
struct in6_addr origin_key(const struct in6_addr *address);

/* Reads "ADDRESS[/LENGTH]", several of them with commas between; null is everybody. -EINVAL with a sentence. */
int origin_filter_read(const char *text, struct origin_filter *out);

bool origin_filter_allows(const struct origin_filter *filter, const struct in6_addr *address);

#endif
