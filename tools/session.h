/* SPDX-License-Identifier: BSD-3-Clause */
/* What commands with two ends have in common. */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/service.h>

#include "options.h"

struct report;

/* A file is cut into blocks of equal size, but for the last one; an empty file has none. */
uint64_t session_blocks(uint64_t size, uint32_t block);
uint64_t session_block_length(uint64_t size, uint32_t block, uint64_t index);

/* Nanoseconds of the monotonic clock. */
uint64_t session_now(void);

double session_seconds(uint64_t ns);

/* Signals, and the library's own log: $GODWIT_LOG names the level, `error` unless set. */
int session_prepare(struct report *report);

/* Opens a context on `local`, an address of this host, with the faults, lanes and marks of the options. `limits` may set pool sizes. */
int session_open_context(struct report *report, const struct options *options, const char *local,
			 const struct gw_context_attr *limits, struct gw_context **out);

/* The same for the contexts of a service, whose other attributes are `how`. */
int session_open_service(struct report *report, const struct options *options, const char *local,
			 const struct gw_context_attr *limits, const struct gw_service_attr *how,
			 struct gw_service **out);

/* Whether the packets of its queue pairs carry an ICRC: known when they are connected. */
bool session_icrc(const struct gw_context *ctx);

#define SESSION_SEAL_ONE_SIDED "one end has --seal and the other has not: give it to both"

/* Reports why gw_qp_connect() failed. */
int session_explain_connect(struct report *report, const char *peer, int error);

enum session_heard {
	SESSION_HEARD_NOTHING,
	/* packets of the peer's from an address that is not the one it named, and no others */
	SESSION_HEARD_STRANGERS,
	SESSION_HEARD_PEER,
};

/* Says what this context has ever received. */
enum session_heard session_heard(const struct gw_context *ctx);

/* Room for the longest text of session_describe_loss(). */
#define SESSION_LOSS_SIZE 256

/*
 * "HOST went silent for 10 s", "HOST gave up", or what else ended the queue pair. Of a peer that was never heard it says
 * what to look at, with this end's UDP port and address.
 */
void session_describe_loss(char out[SESSION_LOSS_SIZE], const struct report *report,
			   const char *peer, int error, const struct options *options,
			   const struct gw_context *ctx);

/* Reports a signal if `error`, with which the command ended, is its doing. */
void session_explain_signal(struct report *report, int error);

#endif
