/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair or the channel behind a flow. */
#ifndef TOOLS_PERF_FLOW_H
#define TOOLS_PERF_FLOW_H

#include <stddef.h>
#include <stdint.h>

struct perf_flow;
struct perf_shot;

enum { PERF_INFO_MAX = 320 };

struct gw_seal;

/* `peer_host` is the address of the host that was met, `seal` the keys of packets that are to be sealed, or null. */
int perf_flow_open(struct perf_flow *flow, uint64_t timeout_ns, const char *peer_host,
		   const struct gw_seal *seal);
void perf_flow_close(struct perf_flow *flow);

/* What the other end must know to connect to it. */
int perf_flow_info(const struct perf_flow *flow, uint8_t out[PERF_INFO_MAX], size_t *length);
/* -EPROTO: no such description; else as gw_qp_connect(). */
int perf_flow_connect(struct perf_flow *flow, const uint8_t *info, size_t length);

/* 0 when it is not known. */
uint64_t perf_flow_rtt_ns(const struct perf_flow *flow);

/* A channel's messages have no immediate: its flags, and as much of its sequence as fits, stand in the first bytes. */
uint32_t perf_head_bytes(uint64_t size);
/* The immediate of a message that a channel has received, and which bits of its sequence are known. */
uint32_t perf_head_read(const uint8_t *message, uint64_t size, uint32_t *known);

int perf_flow_post_send(struct perf_shot *shot, uint8_t *addr, uint64_t length, uint32_t imm);
int perf_flow_post_recv(struct perf_shot *shot, uint8_t *addr, uint64_t length);

/* Gives the request back, once it ended or its flow is closed. */
void perf_shot_close(struct perf_shot *shot);

#endif
