/* SPDX-License-Identifier: BSD-3-Clause */
#include "shrinking.h"

#include <string.h>

struct tap tap;

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	uint8_t type = message->header.type;

	(void)duo;
	if (message->header.length <= DATAGRAM) {
		tap.last[end][type].message = *message;
		tap.last[end][type].length = message->header.length;
		memcpy(tap.last[end][type].bytes, bytes, message->header.length);
	}
	return tap.types[end] & 1u << type;
}

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	(void)again;
	if (packet >= tap.sent)
		tap.sent = packet + 1;
	return tap.data;
}

struct duo_attr path(void)
{
	return (struct duo_attr){ .link = { .rate_bps = 20000000, .delay_ns = 5 * MS },
				  .host = { .queue = 32 },
				  .rungs = { 1500, FLOOR },
				  .memory_bytes = 2 << 20 };
}

void carry(struct duo *duo, uint64_t length)
{
	struct duo_transfer transfer;

	duo_start(duo, length, &transfer);
	duo_finish(&transfer, LIMIT);
}

void open_tapped(struct duo *duo, const struct duo_attr *attr)
{
	memset(&tap, 0, sizeof(tap));
	duo_open(duo, attr);
	duo->lose_control = lose_control;
	duo->lose_data = lose_data;
	carry(duo, 1000);
	duo_run(duo, S);
	assert_int_equal(duo->qp[0]->size.proven, DUO_PAYLOAD);
}

void say(struct duo *duo, int end, const struct said *said)
{
	assert_true(said->length > 0);
	duo_say(duo, end, said->bytes, said->length);
	duo_run(duo, 20 * MS);
}

/* What an end may say now: as its last message, and not of before a cut. */
static struct control_header header_of(const struct duo *duo, int end)
{
	const struct gw_qp *qp = duo->qp[end];

	return (struct control_header){ .token = qp->control.peer_token,
					.announced = qp->rx.announced,
					.granted = qp->tx.grants_seen,
					.completed = qp->rx.completed,
					.results = qp->tx.results_seen,
					.size = qp->size.proven,
					.epoch = qp->size.epoch,
					.epoch_applied = qp->size.applied };
}

size_t forge_cut(const struct duo *duo, uint32_t msn, uint8_t *bytes)
{
	struct control_size size = { .kind = CONTROL_SIZE_CUT, .payload = FLOOR, .msn = msn };
	struct control_header header = header_of(duo, 0);
	struct control_writer writer;

	header.epoch++;
	header.size = FLOOR;
	assert_int_equal(control_begin(&writer, bytes, DATAGRAM, CONTROL_SIZE, &header), 0);
	assert_int_equal(control_put_size(&writer, &size, 0), 0);
	return control_end(&writer);
}

void say_grant(struct duo *duo, uint32_t msn, uint32_t payload)
{
	const struct gw_qp *qp = duo->qp[1];
	struct control_grant_entry entry = { .slot = (uint16_t)(msn & qp->rx.mask),
					     .generation = 7,
					     .rkey = 7,
					     .capacity = LENGTH,
					     .payload = payload };
	struct control_header header = header_of(duo, 1);
	struct control_writer writer;
	uint8_t bytes[DATAGRAM];

	assert_int_equal(control_begin(&writer, bytes, sizeof(bytes), CONTROL_GRANT, &header), 0);
	assert_int_equal(control_put_grant(&writer, msn), 0);
	assert_int_equal(control_put_grant_entry(&writer, &entry), 0);
	duo_say(duo, 1, bytes, control_end(&writer));
	duo_run(duo, 20 * MS);
}

uint32_t payload_of(const struct gw_send *send)
{
	uint32_t payload = 0;

	gw_send_payload(send, &payload);
	return payload;
}
