/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a GID. Only RoCE v2 ones; among them IPv4 first, which most routed RoCE networks use, then global IPv6,
 * unique-local IPv6, and last link-local IPv6, which no router forwards. Among equals the lowest index, so that every run
 * makes the same choice.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/verbs/gid.h"

enum reach { REACH_NONE, REACH_LINK, REACH_LOCAL, REACH_GLOBAL, REACH_IPV4 };

static const char *const reasons[] = {
	[REACH_NONE] = "no address",
	[REACH_LINK] = "link-local IPv6, which no router forwards: nothing better is there",
	[REACH_LOCAL] = "unique-local IPv6",
	[REACH_GLOBAL] = "global IPv6",
	[REACH_IPV4] = "IPv4",
};

bool gid_is_ipv4(const uint8_t bytes[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(bytes, mapped, sizeof(mapped));
}

static enum reach reach_of(const struct gid_entry *entry)
{
	static const uint8_t zero[16];

	if (!memcmp(entry->bytes, zero, sizeof(zero)))
		return REACH_NONE;
	if (gid_is_ipv4(entry->bytes))
		return REACH_IPV4;
	if (entry->bytes[0] == 0xfe && (entry->bytes[1] & 0xc0) == 0x80)
		return REACH_LINK;
	if ((entry->bytes[0] & 0xfe) == 0xfc)
		return REACH_LOCAL;
	return REACH_GLOBAL;
}

static void print_choice(const struct gid_entry *entry, const char *reason, char *why,
			 size_t why_size)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (gid_is_ipv4(entry->bytes))
		inet_ntop(AF_INET, entry->bytes + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, entry->bytes, text, sizeof(text));
	snprintf(why, why_size, "GID %u = %s%s%s (RoCE v2, %s)", entry->index, text,
		 entry->interface[0] ? " of " : "", entry->interface, reason);
}

static int choose_wanted(const struct gid_entry *entries, size_t count, int wanted, char *why,
			 size_t why_size)
{
	for (size_t i = 0; i < count; i++) {
		if (entries[i].index != (uint32_t)wanted)
			continue;
		if (reach_of(&entries[i]) == REACH_NONE)
			break;
		if (!entries[i].roce_v2) {
			snprintf(why, why_size, "GID %d is not RoCE v2", wanted);
			return -ENOENT;
		}
		print_choice(&entries[i], "as asked", why, why_size);
		return (int)i;
	}
	snprintf(why, why_size, "there is no GID %d", wanted);
	return -ENOENT;
}

int gid_choose(const struct gid_entry *entries, size_t count, int wanted, char *why,
	       size_t why_size)
{
	enum reach best = REACH_NONE;
	int chosen = -ENOENT;

	if (wanted >= 0)
		return choose_wanted(entries, count, wanted, why, why_size);
	for (size_t i = 0; i < count; i++) {
		enum reach reach = entries[i].roce_v2 ? reach_of(&entries[i]) : REACH_NONE;

		if (reach > best || (reach == best && reach != REACH_NONE &&
				     entries[i].index < entries[chosen].index)) {
			best = reach;
			chosen = (int)i;
		}
	}
	if (chosen < 0)
		snprintf(why, why_size,
			 "no RoCE v2 GID: give its interface an IP address, or see that it is up");
	else
		print_choice(&entries[chosen], reasons[best], why, why_size);
	return chosen;
}
