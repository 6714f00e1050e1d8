/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refuse.h: why an endpoint or a context could not be opened, in a sentence for a person. There is no context yet that
 * could keep it, so that each thread keeps the last one.
 */
#ifndef FABRIC_REFUSE_H
#define FABRIC_REFUSE_H

#include "base/log.h"

/* Keeps the sentence, logs it at this level, and returns `error`. Called once a failure, where it is born. */
int open_refuse(enum log_level level, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The last sentence of this thread; "" when there was none. */
const char *open_refusal(void);

#endif
