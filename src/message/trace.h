/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h: what GODWIT_TRACE shows of a queue pair. Each call does nothing while tracing is off. Private to message/. */
#ifndef MESSAGE_TRACE_H
#define MESSAGE_TRACE_H

#include <stddef.h>

#include "base/trace.h"
#include "message/state.h"

/* One line for each message of a control datagram. */
void trace_datagram(const struct gw_qp *qp, const char *direction, const uint8_t *bytes,
		    size_t length);

#define TRACE_QP(qp, ...)                                                                          \
	do {                                                                                       \
		if (trace_is_on())                                                                 \
			trace_line((qp)->ctx->now, (qp)->control.token, __VA_ARGS__);              \
	} while (0)

#endif
