/* SPDX-License-Identifier: BSD-3-Clause */
/* One colon outside of brackets ends the host; more than one belong to an IPv6 address. */
#include "address.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "lab/units.h"

int address_split(char *text, char **host, uint16_t *port)
{
	char *start = text, *end, *colon;
	uint64_t value = 0;

	if (text[0] == '[') {
		start++;
		end = strchr(start, ']');
		if (!end || (end[1] != '\0' && end[1] != ':'))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':'))
			colon = NULL;
		end = colon ? colon : text + strlen(text);
	}
	if (end == start)
		return -EINVAL;
	if (colon && units_count(colon + 1, 1, UINT16_MAX, &value))
		return -ERANGE;
	*end = '\0';
	*host = start;
	*port = (uint16_t)value;
	return 0;
}
