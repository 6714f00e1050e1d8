/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a command came to, gathered while it runs and said once at the end: one line, or one JSON
 * object, on stdout, and one line on stderr for what went wrong.
 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/control.h>

struct report {
	const char *command;
	const char *file;
	bool json;
	bool quiet;
	bool usage; /* the failure is one of the command line */
	bool have_crc32;
	bool have_packets;
	bool icrc; /* the packets had one */
	uint8_t traffic_class;
	uint32_t lanes; /* that data left by */
	int signal;	/* that ended it, or 0 */
	uint32_t crc32;
	uint64_t bytes; /* of the file, delivered so far */
	double seconds;
	uint64_t packets; /* data packets: sent, or landed */
	char peer[256];
	char outcome[512]; /* the final line, without the command's name; "" when there is none */
	char error[512];   /* "" as long as all is well */
	struct gw_estimate estimate;
	json_t *dropped;
	json_t *counters;
	json_t *body; /* instead of all that is about a file: what else there is to say in JSON */
};

/*
 * Says why it failed; the first reason stands, for later ones are its consequences. Both return
 * `error`, a -errno, so that a caller can fail in one line.
 */
int report_fail(struct report *report, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int report_usage(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A line on stderr that ends nothing. */
void report_warn(const struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads counters and estimates while there is a context to ask. Null is nothing to ask. */
void report_sample(struct report *report, const struct gw_context *ctx, const struct gw_qp *qp);

/* A JSON string of any text. */
json_t *report_text(const char *text);

/* Prints, frees, and returns the exit status. */
int report_finish(struct report *report);

#endif
