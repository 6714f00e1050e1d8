/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.h: every RDMA and Ethernet port of a host, sampled again and again: rates from the differences of counters.
 *
 * A sample is read through a reader of its own, so that a host, a copy and a recording look alike. A value is known, or it is
 * not: a counter that is absent, unreadable, at the value where it stops, or that was reset has no rate, and no rate is 0.
 */
#ifndef DOCTOR_WATCH_H
#define DOCTOR_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "counter.h"
#include "reader.h"

/* Version of the JSON lines and of recordings. */
#define WATCH_SCHEMA 1

enum watch_kind { WATCH_RDMA, WATCH_ETHERNET };

struct watch_port {
	/* "mlx5_0/1", "eth0" */
	const char *name;
	enum watch_kind kind;
	/* interface of an RDMA port; "": unknown */
	const char *netdev;
	/* "active", "down", "unknown", ... */
	const char *state;
	bool up;
	/* line rate; 0: unknown */
	uint64_t rate_bps;
	/* of the port, and of its interface by ethtool */
	struct counters counters;
	struct counters ethtool;
	/* was there before, and is not now */
	bool gone;
};

/* Queue pairs of one process on one device. */
struct watch_queues {
	const char *device;
	/* 0: the kernel */
	unsigned pid;
	/* name of the process; "": unknown */
	const char *process;
	unsigned count;
};

struct watch_sample {
	/* what the texts live in; closed with the sample */
	struct reader *reader;
	/* nanoseconds since 1970 */
	int64_t time_ns;
	const char *host;
	struct watch_port *ports;
	size_t port_count;
	struct watch_queues *queues;
	size_t queue_count;
	/* why queue pairs are not known; null: they are, or there is no RDMA device */
	const char *queues_unknown;
};

/* Takes a sample; the reader is the sample's from now on. `everything`: loopback and virtual interfaces, too. */
void watch_read(struct reader *reader, int64_t time_ns, bool everything, struct watch_sample *out);
void watch_sample_free(struct watch_sample *sample);

/* Adds the ports of `before` that are missing in `now`, as gone: they are shown until they come back. */
void watch_carry(const struct watch_sample *before, struct watch_sample *now);

enum watch_metric {
	/* bits a second */
	WATCH_RX,
	WATCH_TX,
	/* packets a second */
	WATCH_RX_PACKETS,
	WATCH_TX_PACKETS,
	/* packets dropped at this port, in either direction */
	WATCH_LOST,
	/* retransmissions and what asks for them */
	WATCH_RETRANSMITTED,
	WATCH_CNP,
	/* packets that arrived with a mark of congestion */
	WATCH_ECN,
	/* share of the time for which this port was told to pause, 0 to 1 */
	WATCH_PAUSED,
	WATCH_METRICS,
};

struct watch_value {
	/* the port has such a counter */
	bool has;
	bool known;
	/* some of its counters are not known: it is this much at least */
	bool least;
	double value;
};

struct watch_row {
	const char *name;
	enum watch_kind kind;
	const char *netdev;
	const char *state;
	uint64_t rate_bps;
	struct watch_value values[WATCH_METRICS];
	/* the port is not there any more */
	bool gone;
	/* rank: more is worse; and why, in a word or two; "": nothing */
	double trouble;
	const char *reason;
};

struct watch_view {
	const struct watch_sample *sample;
	struct watch_row *rows;
	size_t row_count;
	/* time between the two samples; 0: there is one only */
	double seconds;
	/* memory of the rows */
	struct scratch scratch;
};

/* Compares two samples; `before` may be null. Rows are sorted by trouble, then by name. */
void watch_compare(const struct watch_sample *before, const struct watch_sample *now,
		   struct watch_view *out);
void watch_view_free(struct watch_view *view);

const char *watch_metric_name(enum watch_metric metric);

/* A table within 80 columns; what the processes have open below it. */
void watch_print(const struct watch_view *view, bool colour, FILE *out);
/* One line of JSON: docs/doctor.md describes it. */
json_t *watch_json(const struct watch_view *view);
/* The text format of Prometheus. Counters as they are, not rates: those are the server's to make. */
void watch_prometheus(const struct watch_sample *sample, FILE *out);

/*
 * A recording is a text: "== NANOSECONDS full" and a manifest (tree.h), then "== NANOSECONDS" and the lines that differ from
 * the last full one. Anybody can read it, cut it and make one by hand.
 */
struct watch_recorder;

/* Returns 0 or -errno. */
int watch_record_open(const char *path, struct watch_recorder **out);
int watch_record(struct watch_recorder *recorder, const struct watch_sample *sample);
/* Returns 0, or -errno: what could not be written. Null is allowed. */
int watch_record_close(struct watch_recorder *recorder);

struct watch_replay;

/* -EINVAL: not a recording. */
int watch_replay_open(const char *path, struct watch_replay **out);
/* The same from a text in memory, which is copied. */
int watch_replay_open_text(const char *text, struct watch_replay **out);
/* Reads the next sample. Returns 1, 0 at the end, or -EINVAL: it is damaged. */
int watch_replay_next(struct watch_replay *replay, bool everything, struct watch_sample *out);
void watch_replay_close(struct watch_replay *replay);

#endif
