/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path that shrinks, piece by piece: what each end does about it, and what it makes of control that is late or not honest.
 * size_test.c has whole transfers. The sizes here do not divide each other, so that packets of two sizes overlap.
 */
#include "../reliability/duo.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

#define FLOOR	 700u
#define SHRUNK	 1000u
#define LENGTH	 300001u
#define LIMIT	 (20 * S)
#define DATAGRAM 8192

/* What the hooks lose, and the last control message of each type that each end sent. */
static struct {
	/* One bit for each type of control, for each end. */
	uint32_t types[2];
	bool data;
	/* One past the highest data packet that was sent. */
	uint32_t sent;
	struct said {
		struct control_message message;
		uint8_t bytes[DATAGRAM];
		size_t length;
	} last[2][CONTROL_DATA + 1];
} tap;

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

static struct duo_attr path(void)
{
	return (struct duo_attr){ .link = { .rate_bps = 20000000, .delay_ns = 5 * MS },
				  .host = { .queue = 32 },
				  .rungs = { 1500, FLOOR },
				  .memory_bytes = 2 << 20 };
}

static void carry(struct duo *duo, uint64_t length)
{
	struct duo_transfer transfer;

	duo_start(duo, length, &transfer);
	duo_finish(&transfer, LIMIT);
}

/* A message has passed, and the largest packets are in use. */
static void open_tapped(struct duo *duo, const struct duo_attr *attr)
{
	memset(&tap, 0, sizeof(tap));
	duo_open(duo, attr);
	duo->lose_control = lose_control;
	duo->lose_data = lose_data;
	carry(duo, 1000);
	duo_run(duo, S);
	assert_int_equal(duo->qp[0]->size.proven, DUO_PAYLOAD);
}

static void say(struct duo *duo, int end, const struct said *said)
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

/* A request for smaller grants that end 0 did not make. */
static size_t forge_cut(const struct duo *duo, uint32_t msn, uint8_t *bytes)
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

static void say_grant(struct duo *duo, uint32_t msn, uint32_t payload)
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

static uint32_t payload_of(const struct gw_send *send)
{
	uint32_t payload = 0;

	gw_send_payload(send, &payload);
	return payload;
}

/* ---- a stream that is caught ----------------------------------------------------------------------------------- */

/* Its receive, and one more that was granted and that no send has taken. */
struct scene {
	struct duo duo;
	struct gw_send *send;
	struct gw_recv *recv, *next;
	unsigned nacks, told_sender, told_receiver, recuts;
};

static void on_nack(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	(void)send;
	(void)nack;
	(void)now;
	((struct scene *)arg)->nacks++;
}

static void on_send_control(struct gw_send *send, void *arg, const void *data, size_t length,
			    uint64_t now)
{
	(void)send;
	(void)data;
	(void)length;
	(void)now;
	((struct scene *)arg)->told_sender++;
}

static void on_recv_control(struct gw_recv *recv, void *arg, const void *data, size_t length,
			    uint64_t now)
{
	(void)recv;
	(void)data;
	(void)length;
	(void)now;
	((struct scene *)arg)->told_receiver++;
}

static void on_recut(struct gw_send *send, void *arg, uint64_t now)
{
	(void)send;
	(void)now;
	((struct scene *)arg)->recuts++;
}

static const struct gw_send_handler send_handler = { .nack = on_nack,
						     .control = on_send_control,
						     .recut = on_recut };
static const struct gw_recv_handler recv_handler = { .control = on_recv_control };

static void scene_open(struct scene *scene)
{
	struct duo_attr attr = path();
	struct duo *duo = &scene->duo;
	struct gw_run hole = { 1, 1 };
	struct gw_nack nack = { .round = 1, .below = 4, .runs = &hole, .count = 1 };

	memset(scene, 0, sizeof(*scene));
	open_tapped(duo, &attr);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			gw_recv_post(duo->qp[1],
				     &(struct gw_recv_attr){ .addr = duo->memory[1] + i * LENGTH,
							     .length = LENGTH,
							     .mr = duo->mr[1],
							     .handler = &recv_handler,
							     .arg = scene },
				     i ? &scene->next : &scene->recv),
			0);
	world_touch(&duo->world, 1);
	assert_int_equal(gw_stream_start(duo->qp[0],
					 &(struct gw_send_attr){ .length = LENGTH,
								 .handler = &send_handler,
								 .arg = scene },
					 &scene->send),
			 0);
	world_touch(&duo->world, 0);
	duo_until(duo, S, payload_of(scene->send) == DUO_PAYLOAD);
	duo_put(duo, scene->send, 10);
	duo_run(duo, 200 * MS);
	/* Each end's scheme speaks about packets of this size. */
	assert_int_equal(gw_recv_nack(scene->recv, &nack), 0);
	assert_int_equal(gw_recv_control(scene->recv, "r", 1), 0);
	assert_int_equal(gw_send_control(scene->send, "s", 1), 0);
	world_touch(&duo->world, 0);
	world_touch(&duo->world, 1);
	duo_run(duo, 50 * MS);
	assert_int_equal(scene->nacks + scene->told_sender + scene->told_receiver, 3);
	assert_int_equal(duo->qp[0]->tx.grants_seen, scene->send->msn + 2);
}

/* Until the sender has found out and asks for smaller grants, which do not arrive. */
static void scene_shrink(struct scene *scene)
{
	struct duo *duo = &scene->duo;

	sim_path_payload(duo->world.sim, SHRUNK);
	tap.types[1] |= 1u << CONTROL_GRANT;
	for (int i = 0; i < 40 && duo->qp[0]->size.state != SIZE_CUTTING; i++) {
		gw_stream_put(scene->send, 0, duo->memory[0], UINT64_C(20) * DUO_PAYLOAD,
			      duo->mr[0]);
		world_touch(&duo->world, 0);
		duo_run(duo, 100 * MS);
	}
	assert_int_equal(duo->qp[0]->size.state, SIZE_CUTTING);
}

static void scene_close(struct scene *scene)
{
	struct duo *duo = &scene->duo;

	gw_stream_abort(scene->send);
	gw_send_close(scene->send);
	gw_recv_complete(scene->recv);
	gw_recv_complete(scene->next);
	world_touch(&duo->world, 0);
	world_touch(&duo->world, 1);
	duo_run(duo, S);
	duo_close(duo);
}

/* Control from before a cut counts packets of another size. */
static void old_control_is_ignored(void **state)
{
	static struct said old[2][CONTROL_DATA + 1];
	struct gw_recv_status status;
	struct scene scene;
	struct duo *duo = &scene.duo;
	struct gw_send *send;
	uint32_t echoed;

	(void)state;
	scene_open(&scene);
	memcpy(old, tap.last, sizeof(old));
	assert_int_equal(old[1][CONTROL_SIZE].message.size.kind, CONTROL_SIZE_ARRIVED);
	assert_int_equal(old[1][CONTROL_SIZE].message.size.payload, DUO_PAYLOAD);
	assert_int_not_equal(old[1][CONTROL_REPORT].message.report.hold_ns, CONTROL_NO_ECHO);
	assert_int_equal(old[1][CONTROL_REPORT].message.report.echo_msn, scene.send->msn);
	scene_shrink(&scene);
	/* Nothing leaves in the old size, and the grant that was forgotten stays so. */
	assert_int_equal(gw_stream_put(scene.send, 0, duo->memory[0], DUO_PAYLOAD, duo->mr[0]),
			 -EAGAIN);
	assert_int_equal(duo->qp[0]->tx.grants_seen, scene.send->msn + 1);
	say(duo, 1, &old[1][CONTROL_GRANT]);
	assert_int_equal(duo->qp[0]->tx.grants_seen, scene.send->msn + 1);
	tap.types[1] = 0;
	duo_until(duo, 5 * S, scene.recuts == 1);
	assert_int_equal(payload_of(scene.send), FLOOR);
	assert_int_equal(gw_recv_status(scene.recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	say(duo, 1, &old[1][CONTROL_NACK]);
	assert_int_equal(scene.nacks, 1);
	say(duo, 1, &old[1][CONTROL_SCHEME]);
	assert_int_equal(scene.told_sender, 1);
	say(duo, 0, &old[0][CONTROL_SCHEME]);
	assert_int_equal(scene.told_receiver, 1);
	say(duo, 1, &old[1][CONTROL_SIZE]);
	assert_int_equal(duo->qp[0]->size.proven, FLOOR);
	/* Packets with the old numbers leave once more and are lost: no report of before is about them. */
	tap.data = true;
	assert_int_equal(
		gw_stream_put(scene.send, 0, duo->memory[0], UINT64_C(10) * FLOOR, duo->mr[0]), 0);
	world_touch(&duo->world, 0);
	duo_run(duo, 20 * MS);
	echoed = duo->qp[0]->feedback.echoed;
	assert_int_equal(duo->qp[0]->feedback.sequence - echoed, 10);
	say(duo, 1, &old[1][CONTROL_REPORT]);
	assert_int_equal(duo->qp[0]->feedback.echoed, echoed);
	tap.data = false;
	tap.types[1] = 0;
	/* The receive behind it was granted anew. */
	assert_int_equal(gw_send_post(duo->qp[0],
				      &(struct gw_send_attr){ .addr = duo->memory[0],
							      .length = 5000,
							      .mr = duo->mr[0] },
				      &send),
			 0);
	world_touch(&duo->world, 0);
	duo_until(duo, S, !gw_recv_status(scene.next, &status) && status.flags & GW_RECV_FULL);
	assert_int_equal(status.payload, FLOOR);
	gw_send_close(send);
	scene_close(&scene);
}

static void expect_claims(struct duo *duo, int end, uint64_t claims)
{
	assert_int_equal(duo_counter(duo, end, "drop_claim"), claims);
	duo->ctx[end]->counters[COUNT_DROP_CLAIM] = 0;
}

/* A size is the receiver's to choose when it grants, and not afterwards. */
static void sizes_that_cannot_be(void **state)
{
	static const uint32_t wrong[] = { 4, FLOOR - 4, FLOOR + 2, DUO_PAYLOAD + 4 };
	struct scene scene;
	struct duo *duo = &scene.duo;
	uint8_t bytes[DATAGRAM];
	uint32_t seen;

	(void)state;
	scene_open(&scene);
	say_grant(duo, scene.send->msn, FLOOR);
	assert_int_equal(payload_of(scene.send), DUO_PAYLOAD);
	seen = duo->qp[0]->tx.grants_seen;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		say_grant(duo, seen, wrong[i]);
		expect_claims(duo, 0, 1);
		assert_int_equal(duo->qp[0]->tx.grants_seen, seen);
	}
	/* Smaller grants from one on that was never made. */
	duo_say(duo, 0, bytes, forge_cut(duo, duo->qp[1]->rx.granted + 1, bytes));
	duo_run(duo, 20 * MS);
	expect_claims(duo, 1, 1);
	assert_int_equal(duo->qp[1]->size.applied, 0);
	scene_close(&scene);
}

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

/* Its window opens when smaller packets have been asked for. */
static void opens_after_the_cut(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv_status status;
	uint8_t bytes[DATAGRAM];
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	recv = duo_recv(&duo, LENGTH);
	assert_int_equal(duo.qp[1]->rx.slots[recv->msn & duo.qp[1]->rx.mask].state, SLOT_EXPOSING);
	control_received(duo.qp[1], bytes, (uint32_t)forge_cut(&duo, duo.qp[1]->rx.granted, bytes));
	duo_run(&duo, 100 * MS);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	duo_close(&duo);
}

/* Of a message whose length is not known, a packet that is not full says nothing about the bytes behind it; and a packet
 * counts as landed only if all of its bytes have. */
static void landed_bytes_only(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv_status status;
	uint8_t bytes[DATAGRAM];
	struct gw_recv *recv;
	struct gw_send *send;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	tap.types[0] = 1u << CONTROL_ANNOUNCE;
	recv = duo_recv(&duo, 20000);
	assert_int_equal(gw_send_post(duo.qp[0],
				      &(struct gw_send_attr){ .addr = duo.memory[0],
							      .length = 2 * DUO_PAYLOAD + 100,
							      .mr = duo.mr[0] },
				      &send),
			 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 100 * MS);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.landed, 3);
	control_received(duo.qp[1], bytes, (uint32_t)forge_cut(&duo, recv->msn, bytes));
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	assert_int_equal(status.landed, 2 * DUO_PAYLOAD / FLOOR);
	assert_int_equal(status.highest, 2 * DUO_PAYLOAD / FLOOR);
	gw_send_close(send);
	duo_close(&duo);
}

/* ---- the sender ------------------------------------------------------------------------------------------------ */

/* A one-shot send goes on with the first byte that has not left: the hole ends there. */
static void one_shot_leaves_nothing_out(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv_status status;
	struct gw_send *send;
	struct gw_recv *recv;
	struct gw_run hole;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	recv = duo_recv(&duo, 1500001);
	tap.sent = 0;
	assert_int_equal(gw_send_post(duo.qp[0],
				      &(struct gw_send_attr){ .addr = duo.memory[0],
							      .length = 1500001,
							      .mr = duo.mr[0] },
				      &send),
			 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 60 * MS);
	sim_path_payload(duo.world.sim, SHRUNK);
	duo_until(&duo, LIMIT, duo.qp[0]->size.state == SIZE_CUTTING);
	assert_in_range(tap.sent, 17, 1500001 / DUO_PAYLOAD);
	hole.first = tap.sent;
	duo_until(&duo, LIMIT, gw_send_test(send));
	duo_run(&duo, S);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	{
		uint32_t resumed = (uint32_t)((uint64_t)hole.first * DUO_PAYLOAD / FLOOR);

		assert_int_equal(gw_recv_next_hole(recv, 0, status.packets, &hole), 1);
		assert_int_equal(hole.first + hole.count, resumed);
		assert_int_equal(gw_recv_next_hole(recv, resumed, status.packets, &hole), 0);
	}
	gw_send_close(send);
	duo_close(&duo);
}

/* The message that was caught is given up before the peer has heard of the cut. The peer has to hear of it all the same: it
 * would go on granting large packets, and what it says of sizes would be of another epoch for ever. */
static void a_cut_that_nobody_waits_for(void **state)
{
	struct duo_attr attr = path();
	struct gw_send *stream;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	recv = duo_recv(&duo, LENGTH);
	stream = duo_stream(&duo, LENGTH);
	duo_run(&duo, 50 * MS);
	duo_put(&duo, stream, 70);
	sim_path_payload(duo.world.sim, SHRUNK);
	tap.types[0] = 1u << CONTROL_SIZE;
	duo_until(&duo, LIMIT, duo.qp[0]->size.state == SIZE_DOUBTED);
	tap.types[0] = 0;
	duo_until(&duo, LIMIT, duo.qp[0]->size.state == SIZE_CUTTING);
	tap.types[0] = 1u << CONTROL_SIZE;
	gw_stream_abort(stream);
	gw_send_close(stream);
	gw_recv_complete(recv);
	world_touch(&duo.world, 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, S);
	tap.types[0] = 0;
	carry(&duo, LENGTH);
	assert_int_equal(duo.qp[1]->size.applied, duo.qp[0]->size.epoch);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_that_nobody_waits_for),
		cmocka_unit_test(old_control_is_ignored),
		cmocka_unit_test(sizes_that_cannot_be),
		cmocka_unit_test(opens_after_the_cut),
		cmocka_unit_test(landed_bytes_only),
		cmocka_unit_test(one_shot_leaves_nothing_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
