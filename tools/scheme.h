/* SPDX-License-Identifier: BSD-3-Clause */
/* The reliability schemes under which every byte arrives, by the names that commands give them. */
#ifndef TOOLS_SCHEME_H
#define TOOLS_SCHEME_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/scheme.h>

/* More than the bytes of data that any packet carries: the size for which memory for parity is made. */
#define SCHEME_PAYLOAD_MAX 9000

struct scheme {
	/* name on the command line */
	const char *name;
	const struct gw_scheme *library;
	/* each transfer needs a struct gw_erasure */
	bool coded;
	/* the channel's own choice: its operations name no scheme */
	bool automatic;
};

/* Null: there is none of that name. */
const struct scheme *scheme_find(const char *name);

/* Null: the number, as in struct gw_scheme, is none of theirs. */
const struct scheme *scheme_by_id(uint8_t id);

const struct scheme *scheme_default(void);

/* "auto, sr, ec": for messages. */
const char *scheme_names(void);

#endif
