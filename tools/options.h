/* SPDX-License-Identifier: BSD-3-Clause */
/* What `godwit send` and `godwit recv` are told on the command line. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/godwit.h>

struct report;

/* Bounds of --block. The receiver holds a sender to them too, for its ring is made of such blocks. */
#define BLOCK_MIN     (UINT64_C(4) << 10)
#define BLOCK_MAX     (UINT64_C(16) << 20)
#define BLOCK_DEFAULT (UINT64_C(1) << 20)

struct options {
	const char *file;
	const char *host; /* send only */
	const char *bind; /* NULL: any */
	uint16_t port;
	uint16_t udp_port;
	bool udp_port_given;
	uint64_t timeout_ns;
	uint32_t block; /* send only */
	bool json;
	bool quiet;
	bool faulty; /* some fault was asked for */
	struct gw_faults faults;
};

/* Reads them. What is wrong goes into the report, as a usage error, and -EINVAL comes back. */
int options_parse(int argc, char **argv, bool sending, struct report *report, struct options *out);

/* The part of the usage text that both commands share. */
#define OPTIONS_USAGE                                                                              \
	"  --port P        TCP port of the rendezvous (default 4791)\n"                            \
	"  --udp-port P    UDP port for this end's packets, 0 for any (default 4791)\n"            \
	"  --timeout S     give up when the other end is silent for S seconds (default 10)\n"      \
	"  --json          print one JSON object instead of the final line, also on failure\n"     \
	"  --quiet         print nothing but errors\n"                                             \
	"  --drop P        lose this share of the packets sent, 0.05 or 5%\n"                      \
	"  --dup P         send this share twice\n"                                                \
	"  --reorder P     hold this share back behind the next few\n"                             \
	"  --seed N        where those faults begin (default 0)\n"

#endif
