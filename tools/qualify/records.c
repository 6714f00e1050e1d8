/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of `godwit qualify` as bytes: numbers big-endian, texts padded with zeros. */
#include "records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bytes.h"
#include "tools/report.h"

#define TEXT_MAX     65536 /* all pieces together */
#define OFFER_BYTES  (4 + sizeof(struct gw_qp_info) + QUALIFY_WHY)
#define RESULT_BYTES (6 * 4 + 4 * 8 + QUALIFY_WHY)

static int nonsense(struct perf_talk *talk)
{
	return report_fail(talk->report, -EPROTO, "%s said something that makes no sense",
			   talk->report->peer);
}

int qualify_say_json(struct perf_talk *talk, const json_t *what, const struct qualify_ready *ready)
{
	uint8_t body[QUALIFY_READY_BYTES] = { ready->devices, ready->ipv4, ready->ipv6, 0 };
	char *text = json_dumps(what, JSON_COMPACT);
	size_t length = text ? strlen(text) : 0;
	int rc = 0;

	for (size_t at = 0; at < length && rc == 0; at += PROTOCOL_BODY_MAX) {
		size_t piece = length - at < PROTOCOL_BODY_MAX ? length - at : PROTOCOL_BODY_MAX;

		rc = perf_talk_say(talk, PROTOCOL_KIND_QUALIFY_TEXT, text + at, piece);
	}
	free(text);
	return rc ? rc : perf_talk_say(talk, PROTOCOL_KIND_QUALIFY_READY, body, sizeof(body));
}

int qualify_hear_json(struct perf_talk *talk, json_t **out, struct qualify_ready *ready)
{
	static char text[TEXT_MAX];
	size_t length = 0;
	int rc;

	for (;;) {
		rc = perf_talk_hear(talk);
		if (rc || talk->header.kind != PROTOCOL_KIND_QUALIFY_TEXT)
			break;
		if (talk->header.length > sizeof(text) - length)
			return nonsense(talk);
		memcpy(text + length, talk->body, talk->header.length);
		length += talk->header.length;
	}
	if (rc)
		return rc;
	if (talk->header.kind != PROTOCOL_KIND_QUALIFY_READY ||
	    talk->header.length != QUALIFY_READY_BYTES)
		return nonsense(talk);
	*ready = (struct qualify_ready){ talk->body[0], talk->body[1], talk->body[2] };
	*out = json_loadb(text, length, 0, NULL);
	return 0;
}

int qualify_say_offer(struct perf_talk *talk, const struct qualify_offer *offer)
{
	uint8_t body[OFFER_BYTES];

	put32(body, (uint32_t)offer->status);
	memcpy(body + 4, &offer->qp, sizeof(offer->qp));
	memcpy(body + 4 + sizeof(offer->qp), offer->why, QUALIFY_WHY);
	return perf_talk_say(talk, PROTOCOL_KIND_QUALIFY_QP, body, sizeof(body));
}

int qualify_hear_offer(struct perf_talk *talk, struct qualify_offer *out)
{
	int rc = perf_talk_hear_kind(talk, PROTOCOL_KIND_QUALIFY_QP);

	if (rc)
		return rc;
	if (talk->header.length != OFFER_BYTES)
		return nonsense(talk);
	out->status = (int32_t)get32(talk->body);
	memcpy(&out->qp, talk->body + 4, sizeof(out->qp));
	memcpy(out->why, talk->body + 4 + sizeof(out->qp), QUALIFY_WHY);
	out->why[QUALIFY_WHY - 1] = '\0';
	return 0;
}

int qualify_say_result(struct perf_talk *talk, const struct qualify_result *result)
{
	const uint32_t small[] = { (uint32_t)result->status, result->payload,
				   result->received,	     result->wrong,
				   result->marked,	     result->cnps };
	const uint64_t large[] = { result->bytes, result->sent, result->repeated, result->dropped };
	uint8_t body[RESULT_BYTES];

	for (unsigned i = 0; i < 6; i++)
		put32(body + 4 * i, small[i]);
	for (unsigned i = 0; i < 4; i++)
		put64(body + 24 + 8 * i, large[i]);
	memcpy(body + 56, result->why, QUALIFY_WHY);
	return perf_talk_say(talk, PROTOCOL_KIND_QUALIFY_RESULT, body, sizeof(body));
}

int qualify_hear_result(struct perf_talk *talk, struct qualify_result *out)
{
	const uint8_t *body = talk->body;
	int rc = perf_talk_hear_kind(talk, PROTOCOL_KIND_QUALIFY_RESULT);

	if (rc)
		return rc;
	if (talk->header.length != RESULT_BYTES)
		return nonsense(talk);
	*out = (struct qualify_result){
		.status = (int32_t)get32(body),
		.payload = get32(body + 4),
		.received = get32(body + 8),
		.wrong = get32(body + 12),
		.marked = get32(body + 16),
		.cnps = get32(body + 20),
		.bytes = get64(body + 24),
		.sent = get64(body + 32),
		.repeated = get64(body + 40),
		.dropped = get64(body + 48),
	};
	memcpy(out->why, body + 56, QUALIFY_WHY);
	out->why[QUALIFY_WHY - 1] = '\0';
	return 0;
}
