/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include <errno.h>
#include <stdio.h>

int output_flush(void)
{
	static int first;

	if ((fflush(stdout) != 0 || ferror(stdout)) && !first)
		first = errno ? -errno : -EIO;
	return first;
}
