/* SPDX-License-Identifier: BSD-3-Clause */
/* See trace.h. */
#include "message/trace.h"

#include "wire/control_text.h"

#define TEXT_BYTES 900

void trace_datagram(const struct gw_qp *qp, const char *direction, const uint8_t *bytes,
		    size_t length)
{
	char text[TEXT_BYTES];
	int first;

	while (length && (first = control_first(bytes, length)) > 0) {
		struct control_message message;

		if (!control_decode(bytes, (size_t)first, &message))
			TRACE_QP(qp, "%s %s", direction,
				 control_text(&message, text, sizeof(text)));
		bytes += first;
		length -= (size_t)first;
	}
}
