/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective/nodelist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_host_char(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' || c == ':';
}

/* Adds `length` characters. */
static int append(char *out, size_t size, const char *from, size_t length)
{
	size_t used = strlen(out);

	if (used + length >= size)
		return -EINVAL;
	memcpy(out + used, from, length);
	out[used + length] = '\0';
	return 0;
}

int nodelist_first(const char *list, char *out, size_t size)
{
	char name[256] = "";

	for (const char *at = list; *at && *at != ',';) {
		size_t length = 1;

		if (*at == '[') {
			/* The first number of the bracket, with its zeros. What follows it is for other hosts. */
			const char *end = strchr(at, ']');

			length = strspn(at + 1, "0123456789");
			if (!end || length == 0 || !strchr("-,]", at[1 + length]) ||
			    append(name, sizeof(name), at + 1, length))
				return -EINVAL;
			at = end + 1;
			continue;
		}
		while (is_host_char(at[length]) && is_host_char(*at))
			length++;
		if (!is_host_char(*at) || append(name, sizeof(name), at, length))
			return -EINVAL;
		at += length;
	}
	if (!name[0] || strlen(name) >= size)
		return -EINVAL;
	memcpy(out, name, strlen(name) + 1);
	return 0;
}
