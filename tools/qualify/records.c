/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of `godwit qualify` as bytes: numbers big-endian, texts padded with zeros. */
#include "records.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define TEXT_MAX     65536 /* all pieces together */
#define OFFER_BYTES  (4 + sizeof(struct gw_qp_info) + QUALIFY_WHY)
#define RESULT_BYTES (6 * 4 + 4 * 8 + QUALIFY_WHY)

int qualify_send_json(struct control *control, const json_t *what,
		      const struct qualify_ready *ready)
{
	uint8_t body[QUALIFY_READY_BYTES] = { ready->devices, ready->ipv4, ready->ipv6, 0 };
	char *text = json_dumps(what, JSON_COMPACT);
	size_t length = text ? strlen(text) : 0;
	int rc = 0;

	for (size_t at = 0; at < length && rc == 0; at += GW_RENDEZVOUS_MESSAGE_MAX) {
		size_t piece = length - at < GW_RENDEZVOUS_MESSAGE_MAX ? length - at
								       : GW_RENDEZVOUS_MESSAGE_MAX;

		rc = control_send(control, QUALIFY_RECORD_TEXT, text + at, piece);
	}
	free(text);
	return rc ? rc : control_send(control, QUALIFY_RECORD_READY, body, sizeof(body));
}

int qualify_recv_json(struct control *control, json_t **out, struct qualify_ready *ready)
{
	static char text[TEXT_MAX];
	size_t length = 0;
	int rc;

	for (;;) {
		rc = control_recv(control);
		if (rc || control->kind != QUALIFY_RECORD_TEXT)
			break;
		if (control->length > sizeof(text) - length)
			return control_explain_nonsense(control);
		memcpy(text + length, control->body, control->length);
		length += control->length;
	}
	if (rc)
		return rc;
	if (control->kind != QUALIFY_RECORD_READY || control->length != QUALIFY_READY_BYTES)
		return control_explain_nonsense(control);
	*ready = (struct qualify_ready){ control->body[0], control->body[1], control->body[2] };
	*out = json_loadb(text, length, 0, NULL);
	return 0;
}

int qualify_send_offer(struct control *control, const struct qualify_offer *offer)
{
	uint8_t body[OFFER_BYTES];

	put_be32(body, (uint32_t)offer->status);
	memcpy(body + 4, &offer->qp, sizeof(offer->qp));
	memcpy(body + 4 + sizeof(offer->qp), offer->why, QUALIFY_WHY);
	return control_send(control, QUALIFY_RECORD_QP, body, sizeof(body));
}

int qualify_recv_offer(struct control *control, struct qualify_offer *out)
{
	int rc = control_expect(control, QUALIFY_RECORD_QP);

	if (rc)
		return rc;
	if (control->length != OFFER_BYTES)
		return control_explain_nonsense(control);
	out->status = (int32_t)get_be32(control->body);
	memcpy(&out->qp, control->body + 4, sizeof(out->qp));
	memcpy(out->why, control->body + 4 + sizeof(out->qp), QUALIFY_WHY);
	out->why[QUALIFY_WHY - 1] = '\0';
	return 0;
}

int qualify_send_result(struct control *control, const struct qualify_result *result)
{
	const uint32_t small[] = { (uint32_t)result->status, result->payload,
				   result->received,	     result->wrong,
				   result->marked,	     result->cnps };
	const uint64_t large[] = { result->bytes, result->sent, result->repeated, result->dropped };
	uint8_t body[RESULT_BYTES];

	for (unsigned i = 0; i < 6; i++)
		put_be32(body + 4 * i, small[i]);
	for (unsigned i = 0; i < 4; i++)
		put_be64(body + 24 + 8 * i, large[i]);
	memcpy(body + 56, result->why, QUALIFY_WHY);
	return control_send(control, QUALIFY_RECORD_RESULT, body, sizeof(body));
}

int qualify_recv_result(struct control *control, struct qualify_result *out)
{
	const uint8_t *body = control->body;
	int rc = control_expect(control, QUALIFY_RECORD_RESULT);

	if (rc)
		return rc;
	if (control->length != RESULT_BYTES)
		return control_explain_nonsense(control);
	*out = (struct qualify_result){
		.status = (int32_t)get_be32(body),
		.payload = get_be32(body + 4),
		.received = get_be32(body + 8),
		.wrong = get_be32(body + 12),
		.marked = get_be32(body + 16),
		.cnps = get_be32(body + 20),
		.bytes = get_be64(body + 24),
		.sent = get_be64(body + 32),
		.repeated = get_be64(body + 40),
		.dropped = get_be64(body + 48),
	};
	memcpy(out->why, body + 56, QUALIFY_WHY);
	out->why[QUALIFY_WHY - 1] = '\0';
	return 0;
}
