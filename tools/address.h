/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as people write them: HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
#ifndef TOOLS_ADDRESS_H
#define TOOLS_ADDRESS_H

#include <stdint.h>

/*
 * Splits the text in place. *port is 0 if there is none. Two colons without brackets make an IPv6 address without a port.
 * -EINVAL  an empty host, a bracket that is not closed, or something behind it that is not a port
 * -ERANGE  the host is followed by something that is not a port from 1 to 65535
 */
int address_split(char *text, char **host, uint16_t *port);

#endif
