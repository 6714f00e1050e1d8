/* SPDX-License-Identifier: BSD-3-Clause */
#include "holding.h"

#include <string.h>

struct holding host;

static uint64_t ahead(struct fabric_qp *qp, uint64_t now_ns, bool *room)
{
	(void)qp;
	(void)now_ns;
	*room = !host.full;
	return AHEAD_NS;
}

static int hold(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		const struct fabric_write *writes, unsigned count)
{
	if (!target->depart_ns)
		return host.duo->real->write(qp, lane, target, writes, count);
	assert_true(target->depart_ns > duo_now(host.duo));
	assert_true(target->depart_ns - duo_now(host.duo) <= AHEAD_NS);
	for (unsigned i = 0; i < count; i++) {
		assert_true(host.count < HELD_MAX);
		host.held[host.count++] = (struct held){
			.at_ns = target->depart_ns, .qp = qp, .target = *target, .write = writes[i]
		};
	}
	assert_true(target->depart_ns >= host.last_ns);
	if (!host.early)
		host.first_ns = host.last_ns = target->depart_ns;
	if (target->depart_ns - host.last_ns > host.longest_ns)
		host.longest_ns = target->depart_ns - host.last_ns;
	host.last_ns = target->depart_ns;
	host.early += count;
	return (int)count;
}

/* Index of the packet that leaves next. */
static unsigned next_held(void)
{
	unsigned first = 0;

	for (unsigned i = 1; i < host.count; i++)
		if (host.held[i].at_ns < host.held[first].at_ns)
			first = i;
	return first;
}

static void let_go(void)
{
	while (host.count) {
		unsigned i = next_held();
		struct held held = host.held[i];

		if (held.at_ns > duo_now(host.duo))
			break;
		host.count--;
		memmove(&host.held[i], &host.held[i + 1], (host.count - i) * sizeof(held));
		assert_int_equal(host.duo->real->write(held.qp, 0, &held.target, &held.write, 1),
				 1);
	}
}

void run_on(struct duo *duo, uint64_t ns)
{
	uint64_t until = duo_now(duo) + ns;

	while (duo_now(duo) < until) {
		uint64_t next = until;

		if (host.count && host.held[next_held()].at_ns < next)
			next = host.held[next_held()].at_ns;
		duo_step(duo, next);
		let_go();
	}
}

void run_late(struct duo *duo, uint64_t ns)
{
	uint64_t until = duo_now(duo) + ns, wake = duo_now(duo);

	while (duo_now(duo) < until) {
		uint64_t next = wake;

		if (host.count && host.held[next_held()].at_ns < next)
			next = host.held[next_held()].at_ns;
		duo_step(duo, next);
		let_go();
		if (duo_now(duo) < wake)
			continue;
		world_stall(&duo->world, 0, false);
		world_settle(&duo->world);
		world_stall(&duo->world, 0, true);
		wake += WAKES_NS;
	}
	world_stall(&duo->world, 0, false);
}

void begin_at(struct duo *duo, bool holds, uint64_t start_ns, struct gw_flow **flow)
{
	struct gw_flow_attr attr = { .congestion = "none", .rate_bps = RATE_BPS };
	struct duo_attr world = { .link = { .delay_ns = DELAY_NS },
				  .memory_bytes = LENGTH,
				  .start_ns = start_ns };

	duo_open(duo, &world);
	memset(&host, 0, sizeof(host));
	host.duo = duo;
	if (holds) {
		duo->ops.ahead_ns = ahead;
		duo->ops.write = hold;
	}
	/* Until the round-trip time is known. */
	duo_run(duo, 50 * MS);
	assert_int_equal(gw_flow_open(duo->qp[0], &attr, flow), 0);
}

void begin(struct duo *duo, bool holds, struct gw_flow **flow)
{
	begin_at(duo, holds, 0, flow);
}
