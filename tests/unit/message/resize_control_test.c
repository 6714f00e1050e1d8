/* SPDX-License-Identifier: BSD-3-Clause */
/* A path that shrinks under an open stream: what each end makes of control that is late or not honest. */
#include "shrinking.h"

#include <errno.h>
#include <string.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_control_is_ignored),
		cmocka_unit_test(sizes_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
