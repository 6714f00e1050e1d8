/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what follows "verbs:" in a fabric's name; see verbs.h. Pure: needs no libibverbs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/verbs.h"

#define RATE_MAX_BPS UINT64_C(10000000000000)

/* Reads a number of digits only, at most `most`, and moves `text` behind it. */
static bool number(const char **text, unsigned long most, unsigned *out)
{
	char *end;
	unsigned long value;

	if (**text < '0' || **text > '9')
		return false;
	value = strtoul(*text, &end, 10);
	if (value > most)
		return false;
	*text = end;
	*out = (unsigned)value;
	return true;
}

/* Reads a rate in bits a second: a number from 1 on, which K, M or G may follow (10^3, 10^6, 10^9). */
static bool rate(const char **text, uint64_t *out)
{
	static const char units[] = "KMG";
	unsigned value;
	const char *unit;

	if (!number(text, UINT32_MAX, &value) || !value)
		return false;
	*out = value;
	unit = **text ? strchr(units, **text) : NULL;
	for (const char *u = units; unit && u <= unit; u++)
		*out *= 1000;
	*text += unit != NULL;
	return *out <= RATE_MAX_BPS;
}

static bool option(const char **text, struct verbs_name *name)
{
	if (!strncmp(*text, "lanes=", 6)) {
		*text += 6;
		return number(text, VERBS_LANES_MAX, &name->lanes) && name->lanes;
	}
	if (!strncmp(*text, "tc=", 3)) {
		*text += 3;
		return number(text, 255, &name->traffic_class);
	}
	if (!strncmp(*text, "sl=", 3)) {
		*text += 3;
		return number(text, 15, &name->service_level);
	}
	if (!strncmp(*text, "rate=", 5)) {
		*text += 5;
		return rate(text, &name->rate_bps);
	}
	if (!strncmp(*text, "srq", 3)) {
		*text += 3;
		name->srq = true;
		return true;
	}
	if (!strncmp(*text, "ud", 2)) {
		*text += 2;
		name->ud = true;
		return true;
	}
	return false;
}

int verbs_name_parse(const char *text, struct verbs_name *out)
{
	struct verbs_name name = { .gid_index = -1, .lanes = 1 };
	size_t length = strcspn(text, "/@,");
	unsigned index;

	if (!length || length >= sizeof(name.device))
		return -EINVAL;
	memcpy(name.device, text, length);
	text += length;
	if (*text == '/') {
		text++;
		if (!number(&text, 255, &name.port) || !name.port)
			return -EINVAL;
	}
	if (*text == '@') {
		text++;
		if (!number(&text, 65535, &index))
			return -EINVAL;
		name.gid_index = (int)index;
	}
	while (*text == ',') {
		text++;
		if (!option(&text, &name))
			return -EINVAL;
	}
	if (*text)
		return -EINVAL;
	*out = name;
	return 0;
}
