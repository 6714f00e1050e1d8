/* SPDX-License-Identifier: BSD-3-Clause */
/* roce.h: RoCEv2 in user space, on a plain UDP socket, without privileges. */
#ifndef FABRIC_ROCE_ROCE_H
#define FABRIC_ROCE_ROCE_H

#include "fabric/open.h"

/* Opens an endpoint at ADDRESS or ADDRESS@PORT; says why it failed (refuse.h). */
int roce_open(const char *where, const struct fabric_options *options, struct fabric **out);

#endif
