/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of a command, collected while it runs and printed once at the end: one line, or one JSON
 * object, on stdout, and one line on stderr for what went wrong.
 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/channel.h>

struct report {
	const char *command;
	const char *file;
	bool json;
	bool quiet;
	/* standard output is for data: the result goes to standard error */
	bool stdout_is_data;
	/* the command line is at fault */
	bool usage;
	bool have_crc32;
	/* the packets had an ICRC */
	bool icrc;
	uint8_t traffic_class;
	/* source ports that packets of this end left by */
	uint32_t lanes;
	/* name of the reliability scheme; null: not known yet */
	const char *scheme;
	/* signal that ended the command, or 0 */
	int signal;
	uint32_t crc32;
	/* bytes of the file delivered so far */
	uint64_t bytes;
	double seconds;
	/* data packets sent at the sender, received at the receiver */
	uint64_t packets;
	/* data packets sent again */
	uint64_t retransmitted;
	/* smoothed round-trip time; 0: not measured */
	uint64_t rtt_ns;
	/* share of packets lost */
	double loss;
	char peer[256];
	/* address of this host that packets use; "" until it is known */
	char local[64];
	/* final line without the name of the command; "" when there is none */
	char outcome[512];
	/* why it failed; "" as long as it has not */
	char error[512];
	json_t *dropped;
	json_t *counters;
	/* members of the JSON object in place of those about a file; null for a file */
	json_t *body;
};

/*
 * Says why it failed; the first reason stands, for later ones are its consequences. Both return
 * `error`, a -errno, so that a caller can fail in one line.
 */
int report_fail(struct report *report, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int report_usage(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints a warning on stderr. */
void report_warn(const struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads counters and estimates, as long as the context is open. Either may be null. `packets` is the counter's name that
 * counts the data packets of this end. Estimates of a channel that has ended are left as they were. */
void report_sample(struct report *report, const struct gw_context *ctx,
		   const struct gw_channel *channel, const char *packets);

/* A JSON string of any text. */
json_t *report_text(const char *text);

/* Prints, frees, and returns the exit status. */
int report_finish(struct report *report);

#endif
