/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters for whoever graphs them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "message/state.h"

int gw_counters_text(const struct gw_context *ctx, enum gw_text_format format, char *text,
		     size_t size)
{
	static const char *const open[] = { "{", "" };
	static const char *const close[] = { "}\n", "" };
	size_t used = 0;

	if (!ctx || !text || (format != GW_TEXT_JSON && format != GW_TEXT_PROMETHEUS))
		return -EINVAL;
	for (unsigned i = 0; i <= gw_counter_count(); i++) {
		const char *name = gw_counter_name(i);
		const char *before = i ? "," : open[format];
		uint64_t value = 0;
		int length;

		if (name)
			gw_counter_read(ctx, i, &value);
		if (!name)
			length = snprintf(text + used, size - used, "%s", close[format]);
		else if (format == GW_TEXT_JSON)
			length = snprintf(text + used, size - used, "%s\"%s\":%" PRIu64, before,
					  name, value);
		else
			length = snprintf(text + used, size - used,
					  "# TYPE godwit_%s_total counter\ngodwit_%s_total %" PRIu64
					  "\n",
					  name, name, value);
		if (length < 0 || (size_t)length >= size - used)
			return -ENOSPC;
		used += (size_t)length;
	}
	return (int)used;
}
