/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h: congestion control for a bare queue pair.
 *
 * What a queue pair sends is limited by the receiver's buffer alone, whatever stands in between. A flow puts a controller
 * and a pacer in front of it. A channel has its own: this is for those who use messages or schemes directly.
 */
#ifndef GODWIT_FLOW_H
#define GODWIT_FLOW_H

#include <godwit/control.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_flow;

#define GW_RATE_UNLIMITED UINT64_MAX

struct gw_flow_attr {
	const char *congestion; /* controller: "default", "long-haul", "swift" or "none" */
	uint64_t rate_bps;	/* never faster than this; 0: no cap */
	uint64_t reserved[4];
};

/* The controllers there are, by number from 0 on; null beyond the last. */
GW_API const char *gw_congestion_name(unsigned index);

/* The queue pair must be connected, and has no other gate. Close the flow before it, and before its context.
 * -EINVAL (also: no controller of that name), -ENOMEM, -ENOTCONN or the status of one that is gone. */
GW_API int gw_flow_open(struct gw_qp *qp, const struct gw_flow_attr *attr, struct gw_flow **out);
GW_API int gw_flow_close(struct gw_flow *flow);

/* A cap on what leaves; 0 is a kill switch: no data leaves until it is set again, and the peer is kept. */
GW_API int gw_flow_set_rate(struct gw_flow *flow, uint64_t bits_per_second);

struct gw_flow_stats {
	uint64_t rate_bps; /* that the pacer holds; UINT64_MAX: unpaced */
	uint64_t window_bytes;
	uint64_t in_flight_bytes;
	uint64_t reserved[5];
};
GW_API int gw_flow_stats(const struct gw_flow *flow, struct gw_flow_stats *out);

/* What the controller is doing, in a line for a person. Returns the length; cut if it does not fit. */
GW_API int gw_flow_explain(const struct gw_flow *flow, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
