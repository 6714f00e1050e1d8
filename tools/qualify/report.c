/* SPDX-License-Identifier: BSD-3-Clause */
/* One row and one JSON object a case. */
#include "report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/output.h"
#include "tools/report.h"
#include "tools/text.h"

static const char *const outcomes[QUALIFY_OUTCOMES] = { "passed", "FAILED", "skipped" };

static bool in_address(char c)
{
	return isxdigit((unsigned char)c) || c == ':' || c == '.';
}

/* Words of digits with three dots or two colons are addresses, which the report leaves out. */
static void hide_addresses(const char *text, char *out, size_t size)
{
	size_t used = 0;

	while (*text && used + 1 < size) {
		size_t length = 0, dots = 0, colons = 0;

		for (; in_address(text[length]); length++) {
			dots += text[length] == '.';
			colons += text[length] == ':';
		}
		if (length && (dots == 3 || colons >= 2)) {
			int n = snprintf(out + used, size - used, "(address)");

			used += (size_t)n < size - used ? (size_t)n : size - used - 1;
			text += length;
		} else {
			length = length ? length : 1;
			for (; length && used + 1 < size; length--)
				out[used++] = *text++;
			text += length;
		}
	}
	out[used] = '\0';
}

static json_t *text_for(const struct qualify_findings *findings, const char *text)
{
	char hidden[512];

	if (findings->with_addresses)
		return report_text(text);
	hide_addresses(text, hidden, sizeof(hidden));
	return report_text(hidden);
}

static json_t *case_json(const struct qualify_case *what, enum qualify_outcome outcome)
{
	json_t *object = json_object();

	json_object_set_new(object, "outcome",
			    json_string(outcome == QUALIFY_FAILED ? "failed" : outcomes[outcome]));
	json_object_set_new(object, "this_end", json_string(qualify_kind_name(what->kind[0])));
	json_object_set_new(object, "other_end", json_string(qualify_kind_name(what->kind[1])));
	json_object_set_new(object, "ip", json_integer(what->family));
	json_object_set_new(object, "payload_asked", json_integer(what->payload));
	json_object_set_new(object, "sealed", json_boolean(what->sealed));
	return object;
}

static json_t *result_json(const struct qualify_findings *findings,
			   const struct qualify_result *result)
{
	json_t *object = json_pack(
		"{s:i s:i s:i s:i s:I s:I s:I s:I s:i s:i}", "status", result->status, "payload",
		(int)result->payload, "messages_right", (int)result->received, "messages_wrong",
		(int)result->wrong, "bytes", (json_int_t)result->bytes, "packets_sent",
		(json_int_t)result->sent, "packets_repeated", (json_int_t)result->repeated,
		"packets_dropped", (json_int_t)result->dropped, "marked", (int)result->marked,
		"cnps", (int)result->cnps);

	if (result->why[0])
		json_object_set_new(object, "why", text_for(findings, result->why));
	return object;
}

static void row(const struct qualify_findings *findings, const char *label,
		enum qualify_outcome outcome, const char *detail)
{
	if (findings->print) {
		printf("%-52s %-8s %s\n", label, outcomes[outcome], detail);
		output_flush();
	}
}

void qualify_report_case(struct qualify_findings *findings, const struct qualify_case *what,
			 const char *label, const struct qualify_result *own,
			 const struct qualify_result *peer, const char *found)
{
	bool whole = own->received == QUALIFY_MESSAGES && peer->received == QUALIFY_MESSAGES;
	enum qualify_outcome outcome =
		!own->status && !peer->status && whole ? QUALIFY_PASSED : QUALIFY_FAILED;
	json_t *object = case_json(what, outcome);
	char detail[256], bytes[TEXT_SIZE];

	findings->counts[outcome]++;
	findings->repeated += own->repeated + peer->repeated;
	findings->marked += own->marked + peer->marked;
	findings->cnps += own->cnps + peer->cnps;
	if (outcome == QUALIFY_PASSED) {
		findings->kind_passed[what->kind[0]] = findings->kind_passed[what->kind[1]] = true;
		if (what->kind[0] != QUALIFY_USER)
			findings->family_passed[what->family == 6] = true;
	}
	json_object_set_new(object, "here", result_json(findings, own));
	json_object_set_new(object, "there", result_json(findings, peer));
	if (found[0])
		json_object_set_new(object, "fabric_says", text_for(findings, found));
	json_array_append_new(findings->cases, object);
	if (outcome == QUALIFY_PASSED)
		snprintf(detail, sizeof(detail), "%s, packets of %u, %" PRIu64 " repeated",
			 text_bytes(own->bytes + peer->bytes, bytes), own->payload,
			 own->repeated + peer->repeated);
	else
		snprintf(detail, sizeof(detail), "here: %s; there: %s",
			 own->why[0] ? own->why : "well", peer->why[0] ? peer->why : "well");
	row(findings, label, outcome, detail);
}

void qualify_report_skip(struct qualify_findings *findings, const struct qualify_case *what,
			 const char *label, const char *why)
{
	json_t *object = case_json(what, QUALIFY_SKIPPED);

	findings->counts[QUALIFY_SKIPPED]++;
	json_object_set_new(object, "why", text_for(findings, why));
	json_array_append_new(findings->cases, object);
	row(findings, label, QUALIFY_SKIPPED, why);
}

json_t *qualify_report_lines(const struct qualify_findings *findings, const json_t *lines)
{
	json_t *array = json_array();

	for (size_t i = 0; i < json_array_size(lines); i++) {
		const char *line = json_string_value(json_array_get(lines, i));

		if (line)
			json_array_append_new(array, text_for(findings, line));
	}
	return array;
}

static void note(json_t *array, bool applies, const char *text)
{
	if (applies)
		json_array_append_new(array, json_string(text));
}

json_t *qualify_report_unverified(const struct qualify_findings *findings)
{
	json_t *array = json_array();

	note(array, !findings->own_devices,
	     "RDMA devices at this end: none was found that can be used, so user space was tried here");
	note(array, !findings->peer_devices,
	     "RDMA devices at the other end: none was found that can be used, so user space was tried there");
	note(array, !findings->kind_passed[QUALIFY_UC], "UC writes under memory windows");
	note(array, !findings->kind_passed[QUALIFY_UD], "UD datagrams placed by software");
	note(array, !findings->family_passed[0], "IPv4 on a device");
	note(array, !findings->family_passed[1], "IPv6 on a device");
	note(array, !findings->repeated, "repair: nothing was lost");
	note(array, !findings->marked, "congestion marks: none was seen");
	note(array, !findings->cnps, "congestion notification packets: none was seen");
	note(array, true, "GPU memory, multicast, several lanes, speed, and what only hours show");
	return array;
}
