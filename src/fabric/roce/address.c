/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses: comparing them, reading them from text, and finding the interface that has one. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fabric/roce/endpoint.h"

#define ADDRESS_TEXT 64
#define DEFAULT_MTU  1500

uint16_t address_port(const union socket_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port
						       : address->v6.sin6_port);
}

socklen_t address_length(const union socket_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

bool same_host(const union socket_address *a, const union socket_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

int address_parse(const char *where, union socket_address *out)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE,
				  .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	char text[ADDRESS_TEXT];
	const char *at = strchr(where, '@');
	size_t length = at ? (size_t)(at - where) : strlen(where);
	unsigned long port = ROCE_PORT;
	char *end;

	if (length >= sizeof(text) || !length)
		return -EINVAL;
	memcpy(text, where, length);
	text[length] = '\0';
	if (at) {
		port = strtoul(at + 1, &end, 10);
		/* strtoul() would also take blanks and a sign. */
		if (at[1] < '0' || at[1] > '9' || *end || port > 65535)
			return -EINVAL;
	}
	if (getaddrinfo(text, NULL, &hints, &found))
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (out->any.sa_family == AF_INET)
		out->v4.sin_port = htons((uint16_t)port);
	else
		out->v6.sin6_port = htons((uint16_t)port);
	if ((out->any.sa_family == AF_INET && out->v4.sin_addr.s_addr == htonl(INADDR_ANY)) ||
	    (out->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&out->v6.sin6_addr)))
		return -EINVAL; /* the ICRC covers the source: it has to be one address */
	/* A socket may be bound to these, but no packet can come from them. */
	if ((out->any.sa_family == AF_INET &&
	     (IN_MULTICAST(ntohl(out->v4.sin_addr.s_addr)) ||
	      out->v4.sin_addr.s_addr == htonl(INADDR_BROADCAST))) ||
	    (out->any.sa_family == AF_INET6 && IN6_IS_ADDR_MULTICAST(&out->v6.sin6_addr)))
		return -EADDRNOTAVAIL;
	return 0;
}

/* Finds the name of the interface that has the address; false where none has. */
static bool interface_name(const union socket_address *local, char name[IF_NAMESIZE])
{
	struct ifaddrs *all, *item;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (item = all; item && !found; item = item->ifa_next) {
		union socket_address address;

		if (!item->ifa_addr ||
		    (item->ifa_addr->sa_family != AF_INET && item->ifa_addr->sa_family != AF_INET6))
			continue;
		memset(&address, 0, sizeof(address));
		memcpy(&address, item->ifa_addr,
		       item->ifa_addr->sa_family == AF_INET ? sizeof(address.v4)
							    : sizeof(address.v6));
		found = same_host(&address, local);
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", item->ifa_name);
	}
	freeifaddrs(all);
	return found;
}

uint32_t address_mtu(int fd, const union socket_address *local)
{
	struct ifreq request;

	memset(&request, 0, sizeof(request));
	if (!interface_name(local, request.ifr_name) || ioctl(fd, SIOCGIFMTU, &request) ||
	    request.ifr_mtu <= 0)
		return DEFAULT_MTU;
	return (uint32_t)request.ifr_mtu;
}

unsigned address_interface(const union socket_address *local)
{
	char name[IF_NAMESIZE];

	return interface_name(local, name) ? if_nametoindex(name) : 0;
}

/* In the form that a fabric's name has it: ADDRESS@PORT. */
void roce_qp_peer(const struct fabric_qp *qp, char *text, size_t size)
{
	const union socket_address *peer = &roce_qp(qp)->peer;
	const void *host = peer->any.sa_family == AF_INET ? (const void *)&peer->v4.sin_addr
							  : (const void *)&peer->v6.sin6_addr;
	char name[INET6_ADDRSTRLEN];

	if (inet_ntop(peer->any.sa_family, host, name, sizeof(name)))
		snprintf(text, size, "%s@%u", name, address_port(peer));
}
