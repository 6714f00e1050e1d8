/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * private.h: what libgodwit exports to libgodwit-sim and to nobody else.
 *
 * The simulator's library has no message layer of its own: there is one copy of that code and of its state in a process,
 * libgodwit's. It opens its contexts through these calls. They carry a symbol version that names the exact release, so that
 * the two libraries of different releases, whose struct fabric may differ, do not load together.
 */
#ifndef MESSAGE_PRIVATE_H
#define MESSAGE_PRIVATE_H

#include <godwit/godwit.h>

#include "fabric/fabric.h"

#define GW_PRIVATE __attribute__((visibility("default")))

/* context_open_on(), context_deadline_ns() and context_quiet() of message/context.h. */
GW_PRIVATE int gw_private_context_open(struct fabric *fabric, const struct gw_context_attr *attr,
				       struct gw_context **out);
GW_PRIVATE uint64_t gw_private_deadline_ns(const struct gw_context *ctx);
GW_PRIVATE bool gw_private_quiet(const struct gw_context *ctx);

#endif
