/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that commands with two ends share: where the other end is, how long to wait, which faults to inject. The
 * command lines of `send` and `recv` are parsed here; other commands parse their own and call this for the shared ones.
 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include <godwit/godwit.h>

#include "lab/units.h"

struct report;
struct scheme;

/* Bounds of --block. The receiver holds a sender to them too, for its ring is made of such blocks. */
#define BLOCK_MIN     (UINT64_C(4) << 10)
#define BLOCK_MAX     (UINT64_C(16) << 20)
#define BLOCK_DEFAULT (UINT64_C(1) << 20)

#define CONGESTION_BYTES 17 /* the longest name of a controller, and its zero */

#define LANES_MAX 8 /* the library's own bound */

/* Packets have no ICRC only if both ends say so. */
enum icrc_choice { ICRC_UNSAID, ICRC_ON, ICRC_OFF };

struct options {
	/* command that runs at the other end */
	const char *counterpart;
	const char *file;
	/* host to connect to; null at the end that waits */
	const char *host;
	/* address of this host to use; null: any */
	char *bind;
	/* TCP port of the rendezvous */
	uint16_t port;
	bool port_given;
	uint16_t udp_port;
	bool udp_port_given;
	uint64_t timeout_ns;
	/* file with the secret of both ends; null: none */
	const char *secret_file;
	/* who may connect to an end that waits; null: everybody */
	const char *from;
	/* recv only: bytes of the largest file that is taken */
	uint64_t max_size;
	/* packets are sealed; the secret is there */
	bool seal;
	/* send only */
	uint32_t block;
	const struct scheme *scheme;
	/* controller's name */
	char congestion[CONGESTION_BYTES];
	/* cap on the rate; 0: none */
	uint64_t rate_bps;
	/* source ports for data; 0: not given */
	uint32_t lanes;
	uint8_t traffic_class;
	enum icrc_choice icrc;
	bool json;
	bool quiet;
	/* some fault was asked for */
	bool faulty;
	struct gw_faults faults;
};

/* Identifiers of the shared options; a command's own begin at OPTION_OWN. */
enum option_id {
	OPTION_BIND = 256,
	OPTION_DROP,
	OPTION_DSCP,
	OPTION_DUP,
	OPTION_FROM,
	OPTION_ICRC,
	OPTION_JSON,
	OPTION_LANES,
	OPTION_PORT,
	OPTION_QUIET,
	OPTION_REORDER,
	OPTION_SEAL,
	OPTION_SECRET_FILE,
	OPTION_SEED,
	OPTION_TIMEOUT,
	OPTION_TRAFFIC_CLASS,
	OPTION_UDP_PORT,
	OPTION_OWN,
};

/* Their lines in a getopt_long() table. */
#define OPTIONS_SHARED                                                                             \
	{ "bind", required_argument, NULL, OPTION_BIND },                                          \
		{ "drop", required_argument, NULL, OPTION_DROP },                                  \
		{ "dscp", required_argument, NULL, OPTION_DSCP },                                  \
		{ "dup", required_argument, NULL, OPTION_DUP },                                    \
		{ "from", required_argument, NULL, OPTION_FROM },                                  \
		{ "icrc", required_argument, NULL, OPTION_ICRC },                                  \
		{ "json", no_argument, NULL, OPTION_JSON },                                        \
		{ "lanes", required_argument, NULL, OPTION_LANES },                                \
		{ "port", required_argument, NULL, OPTION_PORT },                                  \
		{ "quiet", no_argument, NULL, OPTION_QUIET },                                      \
		{ "reorder", required_argument, NULL, OPTION_REORDER },                            \
		{ "seal", no_argument, NULL, OPTION_SEAL },                                        \
		{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },                    \
		{ "seed", required_argument, NULL, OPTION_SEED },                                  \
		{ "timeout", required_argument, NULL, OPTION_TIMEOUT },                            \
		{ "traffic-class", required_argument, NULL, OPTION_TRAFFIC_CLASS },                \
	{                                                                                          \
		"udp-port", required_argument, NULL, OPTION_UDP_PORT                               \
	}

/* The defaults, before the first option is read. */
void options_begin(int argc, char **argv, struct report *report, struct options *out);

/* Reads a shared option, or says what is wrong with one that getopt_long() did not take. */
int options_read(int id, char **argv, struct report *report, struct options *options);

/* "--option "value" is not ...": a usage error about the option being read. */
int options_bad_value(struct report *report, const char *option, const char *expected);

/* Reads the option's value, which must lie between the bounds; `expected` names them: "a size from 4K to 16M". */
int options_quantity(struct report *report, const char *option, enum units_kind kind,
		     const char *expected, uint64_t min, uint64_t max, uint64_t *out);

/* --congestion: the name of a controller, copied out. */
int options_read_congestion(struct report *report, char *out, size_t size);
/* --rate: bits a second, not 0. */
int options_read_rate(struct report *report, uint64_t *out);
/* -ENOENT: there is none of that name. */
int options_find_congestion(const char *name);

/*
 * Puts the host that was given, null at an end that waits, and --bind into the options, and a port that comes with either
 * into options->port. Reports a usage error where a text is not an address or two ports differ.
 */
int options_place(struct report *report, struct options *options, char *host);

/* Reads them. What is wrong goes into the report, as a usage error, and -EINVAL comes back. */
int options_parse(int argc, char **argv, bool sending, struct report *report, struct options *out);

/* The parts of the usage text that several share: how packets travel, and the rest. */
#define OPTIONS_USAGE_WIRE                                                                         \
	"  --lanes N       spread the data over N source ports, 1 to 8 (default 1)\n"              \
	"  --dscp N        mark packets with this DSCP, 0 to 63 (default 0)\n"                     \
	"  --traffic-class N  the same as a whole byte, a multiple of 4: --dscp 26 is 104\n"

/* An end that waits. */
#define OPTIONS_USAGE_FROM                                                                         \
	"  --from NETWORK  take connections from there only: ADDRESS or ADDRESS/LEN, or a list A,B\n"

#define OPTIONS_USAGE_SEAL                                                                         \
	"  --seal          encrypt and authenticate every packet; both ends, with a secret\n"

#define OPTIONS_USAGE_ICRC                                                                         \
	"  --icrc on|off   off: no ICRC in the packets, if the other end says so too (default on)\n"

#define OPTIONS_USAGE                                                                                    \
	"  --port P        TCP port of the rendezvous (default 4791); also HOST:P, [IPV6]:P\n"           \
	"  --secret-file F refuse an end that does not hold the secret in file F; see `godwit secret`\n" \
	"  --udp-port P    UDP port for this end's packets, 0 for any (default 4791)\n"                  \
	"  --timeout T     give up when the other end is silent for T: 10s (default), 500ms\n"           \
	"  --json          print one JSON object instead of the final line, also on failure\n"           \
	"  --quiet         print nothing but errors\n"                                                   \
	"  --drop P        lose this share of the packets sent, 0.05 or 5%\n"                            \
	"  --dup P         send this share twice\n"                                                      \
	"  --reorder P     hold this share back behind the next few\n"                                   \
	"  --seed N        where those faults begin (default 0)\n"

#endif
