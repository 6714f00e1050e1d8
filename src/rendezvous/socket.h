/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets and addresses: the system calls of the rendezvous that know no protocol. */
#ifndef GODWIT_RENDEZVOUS_SOCKET_H
#define GODWIT_RENDEZVOUS_SOCKET_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of a numeric address as text, with a scope such as %eth0. */
#define ADDRESS_TEXT (INET6_ADDRSTRLEN + 32)

/* Looks up the name of a host, or, if `passive`, of an address of this host. Sets the sentence. May block on a name. */
int socket_resolve(const char *name, uint16_t port, bool passive, int family,
		   struct addrinfo **out);

/* Has the connection fail when the other host is silent for so long; 0 changes nothing. Connections that are accepted inherit it
 * from the socket that listens. */
void socket_set_silence(int fd, uint64_t silence_ns);

/* Begins to connect: the socket is writable when that has ended. `from` may be null. */
int socket_connect(const struct addrinfo *to, const struct addrinfo *from, int *out);

/* How a connection attempt ended: 0 or -errno. */
int socket_connected(int fd);

/* Listens on `bind`, or on every address. Sets the sentence. */
int socket_listen(const char *bind, uint16_t port, int *out, uint16_t *bound);

/* An address as text; IPv4 as such, also if it is mapped into IPv6. */
void socket_name_address(const struct sockaddr_storage *address, char out[ADDRESS_TEXT]);

/* The addresses of both ends as text. -ENOTCONN: it hung up already. */
int socket_name(int fd, char local[ADDRESS_TEXT], char remote[ADDRESS_TEXT]);

#endif
