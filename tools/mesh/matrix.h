/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matrix.h: what `godwit mesh` measured: one cell for each ordered pair of hosts. A number that was not measured is NAN,
 * and is no zero.
 */
#ifndef TOOLS_MESH_MATRIX_H
#define TOOLS_MESH_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#define MATRIX_PORTS_MAX 8
#define MATRIX_NAME	 96
#define MATRIX_ADDRESS	 64

struct matrix_host {
	char name[MATRIX_NAME];
	char address[MATRIX_ADDRESS];
};

/* One UDP source port of the sender: a path of its own where switches choose paths by ports. */
struct matrix_port {
	/* 0: not known */
	uint16_t number;
	/* rate of one flow while no other pair uses these two hosts, bits of data a second */
	double bps;
	/* data packets sent at half that rate, and how many of them the network lost */
	uint64_t sent, lost;
};

struct matrix_cell {
	/* half of the shortest round trip of a small message, us; the same in both directions */
	double latency_us;
	/* bits of data a second: from the best port while no other pair uses these two hosts; while all hosts send and receive */
	double alone_bps, together_bps;
	/* over all ports */
	uint64_t sent, lost;
	struct matrix_port ports[MATRIX_PORTS_MAX];
};

struct matrix {
	unsigned hosts;
	/* source ports that each pair was measured with */
	unsigned ports;
	struct matrix_host *host;
	/* hosts * hosts of them, sender by sender */
	struct matrix_cell *cells;
};

/* Allocates a matrix in which nothing was measured. -ENOMEM. */
int matrix_open(struct matrix *matrix, unsigned hosts, unsigned ports);
void matrix_close(struct matrix *matrix);

struct matrix_cell *matrix_at(const struct matrix *matrix, unsigned from, unsigned to);

/* Sums up the ports of every cell: rate of the best, packets of all. What disturbs a measurement makes it slower. */
void matrix_sum(struct matrix *matrix);

/* Share of packets that the pair lost; NAN: not measured. */
double matrix_loss(const struct matrix_cell *cell);

/* The element in the middle, the larger of two; NANs are left out, and NAN if there are only those. Sorts `values`. */
double matrix_median(double *values, unsigned count);

#endif
