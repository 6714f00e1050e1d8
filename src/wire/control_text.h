/* SPDX-License-Identifier: BSD-3-Clause */
/* control_text.h: a control message as one line of text, for traces. */
#ifndef WIRE_CONTROL_TEXT_H
#define WIRE_CONTROL_TEXT_H

#include <stddef.h>

#include "wire/control.h"

/* Writes the message's type and fields as key=value pairs, cut to fit; always terminated. Returns `text`. */
const char *control_text(const struct control_message *message, char *text, size_t size);

#endif
