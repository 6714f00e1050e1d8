/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto.h: exact messages, each under the scheme that is predicted to be fastest.
 *
 * Before a message is sent, its completion time is predicted under Selective Repeat and under several codes (erasure.h),
 * from its size and from the measured round-trip time, rate, loss and bursts. The fastest is used; the previous choice
 * stays if the difference is small. As long as no loss was measured this is Selective Repeat.
 *
 * The sender chooses, and the announcement tells the receiver, which has memory for both. A transfer is two messages, as
 * under gw_erasure; the second one is empty if nothing is coded. It then costs a slot, and an entry in control datagrams
 * that are sent anyway.
 */
#ifndef GODWIT_AUTO_H
#define GODWIT_AUTO_H

#include <godwit/erasure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The options of a transfer are a struct gw_erasure, which must be given. Its attributes that are 0 are chosen. */
extern GW_API const struct gw_scheme gw_auto;

/* Returns 1 if a message of this length would be coded now, 0 if it would be sent under Selective Repeat, or -errno. A caller
 * can post receives that have memory for parity where its peer's sends would use it. */
GW_API int gw_auto_codes(struct gw_erasure *erasure, struct gw_qp *qp, uint64_t length);

/* Writes a sentence for people with the sender's latest choice and the reason. Returns its length; the text is truncated if
 * it does not fit. */
GW_API int gw_auto_explain(const struct gw_erasure *erasure, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
