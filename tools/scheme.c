/* SPDX-License-Identifier: BSD-3-Clause */
#include "scheme.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <godwit/auto.h>
#include <godwit/erasure.h>

static const struct scheme schemes[] = {
	{ .name = "auto", .library = &gw_auto, .automatic = true },
	{ .name = "sr", .library = &gw_selective_repeat },
	{ .name = "ec", .library = &gw_erasure, .coded = true },
};

#define SCHEME_COUNT (sizeof(schemes) / sizeof(schemes[0]))

const struct scheme *scheme_find(const char *name)
{
	for (size_t i = 0; i < SCHEME_COUNT; i++) {
		if (strcmp(schemes[i].name, name) == 0)
			return &schemes[i];
	}
	return NULL;
}

const struct scheme *scheme_by_id(uint8_t id)
{
	for (size_t i = 0; i < SCHEME_COUNT; i++) {
		if (schemes[i].library->id == id)
			return &schemes[i];
	}
	return NULL;
}

const struct scheme *scheme_default(void)
{
	return &schemes[0];
}

const char *scheme_names(void)
{
	static char names[64];
	size_t used = 0;

	for (size_t i = 0; i < SCHEME_COUNT; i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 schemes[i].name);
	return names;
}
