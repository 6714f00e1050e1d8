/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that the host holds have not left: not for the probe timeout, not for reports, and not for the gate. */
#include "holding.h"

#include <string.h>

/* A stream of which all that was put is read by nobody, with round trips measured. */
static struct gw_send *begin_stream(struct duo *duo, uint32_t packets)
{
	struct gw_send *stream;

	duo_recv(duo, (uint64_t)packets * DUO_PAYLOAD);
	stream = duo_stream(duo, (uint64_t)packets * DUO_PAYLOAD);
	duo_run(duo, 50 * MS);
	return stream;
}

static void end_stream(struct duo *duo, struct gw_send *stream, struct gw_flow *flow)
{
	run_late(duo, 100 * MS);
	assert_int_equal(gw_stream_abort(stream), 0);
	duo_run(duo, 50 * MS);
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(duo);
}

/* A window full of packets that the host still holds: their echo is awaited from when the last of them leaves. */
static void a_probe_timeout_begins_at_the_departure(void **state)
{
	struct gw_send *stream;
	struct feedback *f;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	stream = begin_stream(&duo, 64);
	f = &duo.qp[0]->feedback;
	f->window = 30;
	duo_put(&duo, stream, 64);
	duo_run(&duo, US);
	assert_int_equal(f->sequence - f->echoed, 30);
	assert_true(f->sent_ns > duo_now(&duo));
	assert_int_equal(f->timeout_at, f->sent_ns + feedback_pto_ns(duo.qp[0]));
	end_stream(&duo, stream, flow);
}

/* Packets are handed over again just before the report on their first copies comes. The log then knows the second copies,
 * which have not left, so that the report is not about them: on a host that has been up for longer than the 2^48 ns that the log
 * tells apart they would have left three days ago. */
static void what_the_host_holds_has_not_arrived(void **state)
{
	struct gw_send *stream;
	struct feedback *f;
	struct gw_flow *flow;
	struct duo duo;
	uint32_t arrived, in_flight;

	(void)state;
	begin_at(&duo, true, (UINT64_C(1) << 48) + S, &flow);
	stream = begin_stream(&duo, 36);
	f = &duo.qp[0]->feedback;
	duo_put(&duo, stream, 36);
	/* The first report tells of some of them, and one that waits for a quarter of a round trip of the others. */
	run_on(&duo, 2 * DELAY_NS + 4 * MS);
	in_flight = f->sequence - f->echoed;
	assert_true(in_flight > 0 && in_flight < 36);
	arrived = f->peer_arrived;
	duo_put(&duo, stream, 36);
	for (int i = 0; i < 10 && f->peer_arrived == arrived; i++)
		run_on(&duo, MS / 10);
	assert_true(f->peer_arrived != arrived && host.count > 0);
	assert_int_equal(f->sequence - f->echoed, in_flight + 36);
	end_stream(&duo, stream, flow);
}

/* A gate that can be asked about the future is told when packets leave, and not when they are handed over. */
static struct {
	uint64_t asked_ns;
	uint64_t next_ns;
	unsigned early;
} future;

static uint32_t allow_then(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
			   uint64_t *again_ns)
{
	(void)arg;
	(void)in_flight;
	(void)payload;
	future.asked_ns = now;
	*again_ns = future.next_ns;
	return now >= future.next_ns;
}

static void left_then(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	struct duo *duo = arg;

	(void)packets;
	(void)bytes;
	assert_int_equal(now, future.asked_ns);
	future.early += now > duo_now(duo);
	future.next_ns = now + MS / 4;
}

static void a_gate_is_told_of_departures(void **state)
{
	static const struct gw_gate gate = { .allow = allow_then,
					     .sent = left_then,
					     .flags = GW_GATE_AHEAD };
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	assert_int_equal(gw_flow_close(flow), 0);
	memset(&future, 0, sizeof(future));
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &gate, &duo), 0);
	duo_start(&duo, 40 * DUO_PAYLOAD, &transfer);
	run_late(&duo, 100 * MS);
	assert_true(future.early > 20);
	assert_int_equal(future.early, host.early);
	duo_finish(&transfer, S);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_probe_timeout_begins_at_the_departure),
		cmocka_unit_test(what_the_host_holds_has_not_arrived),
		cmocka_unit_test(a_gate_is_told_of_departures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
