/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.h: the environment variables GODWIT_..., read once. docs/nccl.md has the table. */
#ifndef PLUGINS_NCCL_SETTINGS_H
#define PLUGINS_NCCL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Engine threads of a device at most. */
#define THREADS_MAX 16

struct settings {
	/* name of the controller */
	const char *congestion;
	/* limit for each connection in bit/s; 0: none */
	uint64_t rate_bps;
	/* silence after which a peer is given up */
	uint64_t timeout_ns;
	/* time that an engine's thread polls before it sleeps */
	uint64_t spin_ns;
	/* bytes of a message that NCCL's own thread moves; UINT64_MAX: all, because processors are few */
	uint64_t inline_bytes;
	/* processors of the engine threads: a list, or null: those near the device */
	const char *processors;
	/* file for statistics, or null */
	const char *statistics;
	/* file with a secret, or null; packets are sealed with keys from it */
	const char *secret_file;
	/* selection of interfaces, or null */
	const char *interfaces;
	/* losses made on purpose, for tests */
	double drop, reorder;
	uint32_t lanes;
	uint32_t threads;
	/* speed to report in Mbit/s; 0: the interface's */
	uint32_t speed;
	/* enum gw_log_level */
	int log_level;
	/* an RDMA device places packets; false: UDP sockets */
	bool verbs;
	/* repair: Selective Repeat, or the better of that and parity */
	bool parity;
	/* engine threads run wherever the system likes */
	bool anywhere;
	bool seal;
	bool icrc;
};

/* Reads them. Returns 0, or -EINVAL and a sentence about the first that is wrong. */
int settings_read(struct settings *out, char *why, size_t size);

/* Finds the first variable of the environment that looks like a setting and is none, as a misspelt one does. */
bool settings_unknown(const char *const *environment, char *out, size_t size);

/* Two bytes that both ends of a connection must have alike, and which setting differs. */
uint16_t settings_mark(const struct settings *settings);
const char *settings_difference(uint16_t a, uint16_t b);

#endif
