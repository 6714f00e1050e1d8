/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include <godwit/rendezvous.h>

static _Thread_local char sentence[ERROR_TEXT];

int error_set(int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	return error;
}

const char *gw_rendezvous_error(void)
{
	return sentence;
}
