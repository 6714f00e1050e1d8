/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the counts of each body lie, from the start of the message. Shared by the control encoder,
 * which increments them in place, and the decoder; nobody else needs them.
 */
#ifndef WIRE_CONTROL_LAYOUT_H
#define WIRE_CONTROL_LAYOUT_H

#include "wire/control.h"

enum {
	CONTROL_LENGTH_AT = 2,
	CONTROL_TOKEN_AT = 4,
	CONTROL_LIST_COUNT_AT = CONTROL_HEADER_SIZE + 4,
	CONTROL_REPORT_LANES_AT = CONTROL_HEADER_SIZE + 36,
	CONTROL_REPORT_RESULTS_AT = CONTROL_HEADER_SIZE + 37,
	CONTROL_REPORT_RUNS_AT = CONTROL_HEADER_SIZE + 38,
	CONTROL_NACK_BELOW_AT = CONTROL_HEADER_SIZE + 8,
	CONTROL_NACK_RUNS_AT = CONTROL_HEADER_SIZE + 12,
	CONTROL_FLAG_HAS_IMM = 1,
	/* The header's size: its unit in bytes, and the bit that says that it is settled. */
	CONTROL_SIZE_UNIT = 4,
	CONTROL_SIZE_SETTLED = 0x8000,
};

#endif
