/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto.h: exact messages, each the way that will be fastest.
 *
 * Before a message is sent its time is predicted, by its size and by what was measured of the path (round trip, rate, loss,
 * bursts): repeated as Selective Repeat does it, or coded with one parity or another (erasure.h). The best is taken, with
 * some reluctance to change. While nothing is known to be lost it is Selective Repeat, packet for packet.
 *
 * The choice is the sender's. The receiver learns of it from the announcement, and has memory ready for either: a transfer
 * is two messages, as under gw_erasure, of which the second stays empty where nothing is coded. It costs an entry in
 * datagrams that are sent anyway, and a slot.
 */
#ifndef GODWIT_AUTO_H
#define GODWIT_AUTO_H

#include <godwit/erasure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The options of a transfer are a struct gw_erasure, and they are needed. What it leaves open is chosen. */
extern GW_API const struct gw_scheme gw_auto;

/* The latest choice of a sender's, and why, in a sentence for a person. Returns the length; cut if it does not fit. */
GW_API int gw_auto_explain(const struct gw_erasure *erasure, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
