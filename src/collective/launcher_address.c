/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective/launcher_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum {
	/* bytes of a host's name with its final zero */
	NAME_BYTES = 256,
	/* addresses of a description that are looked at */
	ADDRESSES_MAX = 16,
};

struct address {
	int family;
	uint8_t bytes[16];
};

static size_t bytes_of(int family)
{
	return family == AF_INET ? 4 : 16;
}

/* Reads a socket's address. False: another family, or an address that is of use on one link only. */
static bool read_socket(const struct sockaddr *from, struct address *out)
{
	*out = (struct address){ .family = from ? from->sa_family : AF_UNSPEC };
	if (out->family == AF_INET) {
		memcpy(out->bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
		return true;
	}
	if (out->family != AF_INET6)
		return false;
	memcpy(out->bytes, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
	return !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)from)->sin6_addr);
}

static bool read_text(const char *text, struct address *out)
{
	out->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(out->family, text, out->bytes) == 1;
}

static bool same_network(const struct address *a, const struct address *b,
			 const struct address *mask)
{
	for (size_t i = 0; i < bytes_of(a->family); i++) {
		if ((a->bytes[i] ^ b->bytes[i]) & mask->bytes[i])
			return false;
	}
	return true;
}

/* Whether an interface other than loopback has this address, or (with `network`) one of the same network. */
static bool is_here(const struct ifaddrs *interfaces, const struct address *address, bool network)
{
	struct address own, mask;

	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		if (i->ifa_flags & IFF_LOOPBACK || !(i->ifa_flags & IFF_UP) ||
		    !read_socket(i->ifa_addr, &own) || own.family != address->family)
			continue;
		if (!network || !read_socket(i->ifa_netmask, &mask))
			memset(mask.bytes, 0xff, sizeof(mask.bytes));
		if (same_network(&own, address, &mask))
			return true;
	}
	return false;
}

int launcher_addresses(char out[LAUNCHER_ADDRESSES])
{
	char name[NAME_BYTES] = "", text[INET6_ADDRSTRLEN];
	struct ifaddrs *interfaces;
	struct address address;
	size_t used, none;

	gethostname(name, sizeof(name) - 1);
	if (getifaddrs(&interfaces))
		return -errno;
	used = none = (size_t)snprintf(out, LAUNCHER_ADDRESSES, "%s", name[0] ? name : "?");
	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		if (i->ifa_flags & IFF_LOOPBACK || !(i->ifa_flags & IFF_UP) ||
		    !read_socket(i->ifa_addr, &address))
			continue;
		inet_ntop(address.family, address.bytes, text, sizeof(text));
		if (used + strlen(text) + 2 > LAUNCHER_ADDRESSES)
			break;
		used += (size_t)snprintf(out + used, LAUNCHER_ADDRESSES - used, " %s", text);
	}
	/* All ranks are on this host, then. */
	if (used == none)
		snprintf(out + used, LAUNCHER_ADDRESSES - used, " 127.0.0.1");
	freeifaddrs(interfaces);
	return 0;
}

int launcher_choose_on(const char *name, const struct ifaddrs *interfaces, const char *description,
		       char *out, size_t size)
{
	char copy[LAUNCHER_ADDRESSES], *rest, *word;
	const char *first = NULL, *near = NULL;
	struct address address;
	bool same_host;

	if (strlen(description) >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, description, strlen(description) + 1);
	word = strtok_r(copy, " ", &rest);
	same_host = word && strcmp(word, name) == 0;
	for (unsigned i = 0; i < ADDRESSES_MAX && word && !near; i++) {
		word = strtok_r(NULL, " ", &rest);
		if (!word || !read_text(word, &address) ||
		    (!same_host && is_here(interfaces, &address, false)))
			continue;
		first = first ? first : word;
		near = is_here(interfaces, &address, true) ? word : NULL;
	}
	first = near ? near : first;
	if (!first || strlen(first) >= size)
		return -EINVAL;
	memcpy(out, first, strlen(first) + 1);
	return 0;
}

int launcher_choose(const char *description, char *out, size_t size)
{
	struct ifaddrs *interfaces;
	char name[NAME_BYTES] = "";
	int rc;

	gethostname(name, sizeof(name) - 1);
	if (getifaddrs(&interfaces))
		return -errno;
	rc = launcher_choose_on(name[0] ? name : "?", interfaces, description, out, size);
	freeifaddrs(interfaces);
	return rc;
}
