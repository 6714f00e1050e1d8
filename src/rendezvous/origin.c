/* SPDX-License-Identifier: BSD-3-Clause */
#include "origin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { BITS_IPV4 = 32, BITS_IPV6 = 128, BITS_MAPPED = BITS_IPV6 - BITS_IPV4, BYTES_KEY = 8 };

static struct in6_addr map_ipv4(const struct in_addr *address)
{
	struct in6_addr mapped = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	memcpy(mapped.s6_addr + 12, address, sizeof(*address));
	return mapped;
}

struct in6_addr origin_address(const struct sockaddr_storage *from)
{
	if (from->ss_family == AF_INET)
		return map_ipv4(&((const struct sockaddr_in *)from)->sin_addr);
	return ((const struct sockaddr_in6 *)from)->sin6_addr;
}

struct in6_addr origin_key(const struct in6_addr *address)
{
	struct in6_addr key = *address;

	if (!IN6_IS_ADDR_V4MAPPED(address))
		memset(key.s6_addr + BYTES_KEY, 0, sizeof(key.s6_addr) - BYTES_KEY);
	return key;
}

/* One network, `length` characters at `text`. */
static int read_network(const char *text, size_t length, struct origin_network *out)
{
	char copy[INET6_ADDRSTRLEN + 4], *slash, *end;
	struct in_addr ipv4;
	unsigned long bits = BITS_IPV6;
	bool is_ipv4;

	if (length >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	is_ipv4 = inet_pton(AF_INET, copy, &ipv4) == 1;
	if (is_ipv4)
		out->address = map_ipv4(&ipv4);
	else if (inet_pton(AF_INET6, copy, &out->address) != 1)
		return -EINVAL;
	if (slash) {
		/* strtoul() would take a sign. */
		if (slash[0] < '0' || slash[0] > '9')
			return -EINVAL;
		bits = strtoul(slash, &end, 10);
		if (*end || bits > (is_ipv4 ? BITS_IPV4 : BITS_IPV6))
			return -EINVAL;
		bits += is_ipv4 ? BITS_MAPPED : 0;
	}
	out->length = (unsigned)bits;
	return 0;
}

int origin_filter_read(const char *text, struct origin_filter *out)
{
	struct origin_filter filter = { .count = 0 };

	for (const char *at = text; at;) {
		size_t length = strcspn(at, ",");

		if (filter.count == ORIGIN_NETWORKS)
			return error_set(-EINVAL, "more than %d networks that may connect",
					 ORIGIN_NETWORKS);
		if (read_network(at, length, &filter.networks[filter.count++]))
			return error_set(
				-EINVAL,
				"\"%.*s\" is not a network that may connect: write ADDRESS or ADDRESS/LENGTH, such as 10.1.0.0/16 or fd00::/8",
				(int)length, at);
		at = at[length] ? at + length + 1 : NULL;
	}
	*out = filter;
	return 0;
}

static bool within(const struct origin_network *network, const struct in6_addr *address)
{
	unsigned bytes = network->length / 8, bits = network->length % 8;

	if (memcmp(network->address.s6_addr, address->s6_addr, bytes) != 0)
		return false;
	return bits == 0 ||
	       (network->address.s6_addr[bytes] ^ address->s6_addr[bytes]) >> (8 - bits) == 0;
}

bool origin_filter_allows(const struct origin_filter *filter, const struct in6_addr *address)
{
	for (unsigned i = 0; i < filter->count; i++) {
		if (within(&filter->networks[i], address))
			return true;
	}
	return filter->count == 0;
}
