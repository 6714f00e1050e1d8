/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h: congestion control for a bare queue pair.
 *
 * By itself a queue pair sends as much as the receiver can buffer, whatever the network between them carries. A flow adds
 * a congestion controller and a pacer. Programs that use messages or schemes directly need it; a channel has its own.
 */
#ifndef GODWIT_FLOW_H
#define GODWIT_FLOW_H

#include <godwit/control.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_flow;

/* As a rate: no limit. */
#define GW_RATE_UNLIMITED UINT64_MAX

struct gw_flow_attr {
	/* controller: "default", "long-haul", "swift" or "none"; null: "default" */
	const char *congestion;
	/* rate limit in bits of data per second; 0: none */
	uint64_t rate_bps;
	uint64_t reserved[4];
};

/* Returns the name of a controller, numbered from 0; null after the last. */
GW_API const char *gw_congestion_name(unsigned index);

/*
 * Puts a flow in front of a connected queue pair, in place of its gate. Close the flow before the queue pair and before the
 * context. `attr` may be null. Returns 0, or
 * -EINVAL    no such controller, or a reserved field is not zero
 * -ENOMEM
 * -ENOTCONN  the queue pair is not connected
 * or the status of a queue pair that has failed.
 */
GW_API int gw_flow_open(struct gw_qp *qp, const struct gw_flow_attr *attr, struct gw_flow **out);
GW_API int gw_flow_close(struct gw_flow *flow);

/* Sets the rate limit; GW_RATE_UNLIMITED removes it. At 0 no data leaves until it is set again, and the connection stays
 * open. */
GW_API int gw_flow_set_rate(struct gw_flow *flow, uint64_t bits_per_second);

struct gw_flow_stats {
	/* rate of the pacer; UINT64_MAX: no pacing */
	uint64_t rate_bps;
	/* window: most bytes in flight */
	uint64_t window_bytes;
	/* bytes sent and neither delivered nor lost, as the peer reported */
	uint64_t in_flight_bytes;
	uint64_t reserved[5];
};
GW_API int gw_flow_stats(const struct gw_flow *flow, struct gw_flow_stats *out);

/* Writes a line for people that says what the controller is doing. Returns its length; the line is truncated if it does not
 * fit. */
GW_API int gw_flow_explain(const struct gw_flow *flow, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
