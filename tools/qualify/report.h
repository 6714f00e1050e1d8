/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `godwit qualify` found: a table on stdout, and a JSON object to send in. The object names no host and no address
 * unless it is asked to, and it lists what was not verified.
 */
#ifndef TOOLS_QUALIFY_REPORT_H
#define TOOLS_QUALIFY_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "case.h"
#include "exchange.h"

enum qualify_outcome { QUALIFY_PASSED, QUALIFY_FAILED, QUALIFY_SKIPPED, QUALIFY_OUTCOMES };

struct qualify_findings {
	/* print the table */
	bool print;
	/* the object may hold addresses */
	bool with_addresses;
	unsigned counts[QUALIFY_OUTCOMES];
	/* kinds at both ends of a case that passed */
	bool kind_passed[QUALIFY_KINDS];
	/* IPv4 and IPv6, on a device */
	bool family_passed[2];
	uint64_t repeated, marked, cnps;
	json_t *cases;
	unsigned own_devices, peer_devices;
};

/* A case that ran, both ends' view; or one that did not, and why. */
void qualify_report_case(struct qualify_findings *findings, const struct qualify_case *what,
			 const char *label, const struct qualify_result *own,
			 const struct qualify_result *peer, const char *found);
void qualify_report_skip(struct qualify_findings *findings, const struct qualify_case *what,
			 const char *label, const char *why);

/* Lines that the other end sent, fit for the object. */
json_t *qualify_report_lines(const struct qualify_findings *findings, const json_t *lines);

/* What this run says nothing about. */
json_t *qualify_report_unverified(const struct qualify_findings *findings);

#endif
