/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes the place of the verbs fabric in a build without libibverbs. */
#include <errno.h>
#include <stdio.h>

#include "fabric/refuse.h"
#include "fabric/verbs/verbs.h"

int verbs_open(const char *where, struct fabric **out)
{
	(void)out;
	return open_refuse(
		LOG_LEVEL_ERROR, -ENOTSUP,
		"\"verbs:%s\": this Godwit was built without libibverbs; install its development package and build again",
		where);
}

bool verbs_find(char device[VERBS_DEVICE_MAX], char *why, size_t why_size)
{
	(void)device;
	snprintf(why, why_size, "this Godwit was built without libibverbs");
	return false;
}
