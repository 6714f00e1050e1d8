/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of `godwit perf` on its control connection.
 *
 *	client -> server	plan			for each size
 *	server -> client	accept
 *	client -> server	queue pair, ...		one message each
 *	server -> client	queue pair, ...		it has receives posted by now
 *	both			ready			before warm-up and measurement: nothing of the last phase is open
 *	both			go			then the clock of the sender of this message runs
 *	both			sent			under a scheme that repairs nothing: no packet is left to come
 *	both			counter, ..., share, ..., result; a share a thread, if there are several
 *	client -> server	the next plan, or end
 */
#ifndef TOOLS_PERF_RECORDS_H
#define TOOLS_PERF_RECORDS_H

#include "tools/control.h"

enum perf_kind {
	PERF_KIND_PLAN = GW_RENDEZVOUS_KIND_MIN,
	PERF_KIND_QP,
	PERF_KIND_READY,
	PERF_KIND_GO,
	PERF_KIND_COUNTER,
	PERF_KIND_RESULT,
	PERF_KIND_END,
	PERF_KIND_SENT,
	PERF_KIND_ACCEPT,
	PERF_KIND_SHARE,
};

/* control_recv() and control_expect(), without `sent`: to an end that waits for something else it is no news. */
int perf_recv(struct control *control);
int perf_expect(struct control *control, enum perf_kind kind);

#endif
