/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An RDMA device that is not there: the calls of libibverbs that the fabric makes, answered within the test program, which
 * comes before the library when it is linked. One device, `fake0`; every queue pair reaches every other by its number.
 * Requests are carried out when they are posted, or, held, when the test says so: what a NIC does late happens late.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum fake_stale { FAKE_DROPS, FAKE_LANDS, FAKE_BREAKS };

struct fake {
	/* what it is like */
	bool no_uc;
	bool no_windows;
	enum fake_stale stale;
	bool held;	    /* requests wait for fake_run() */
	unsigned bad_binds; /* the next so many fail */
	/* Binds from now on that are not even taken. */
	unsigned refused_binds;
	/* The device says that it has failed. */
	bool fatal;
	int max_cqe;
	int max_qp_wr;
	int max_srq_wr;
	uint8_t speed, width; /* of its port, as codes */
	bool no_multicast;    /* queue pairs cannot be attached */
	uint8_t *
		device_memory; /* behind every dma-buf: what the device reaches and the processor does not */
	size_t device_length;
	int dmabuf_error; /* what registering one fails with, if not 0 */
	/* what was seen */
	unsigned objects;    /* that exist */
	unsigned no_request; /* packets dropped for want of a receive request */
	bool overflowed;     /* a completion queue, or a queue pair's own */
	bool misused;	     /* a call that no device would take */
};

extern struct fake fake;

void fake_reset(void);

/* Carries out what waits on this queue pair, or on all of them (null). */
void fake_run(const struct ibv_qp *qp);

#endif
