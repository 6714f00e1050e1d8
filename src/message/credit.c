/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive credit: how much a receiver lets its peers have in flight.
 *
 * The host buffers packets until this process reads them. What a process that keeps up needs is room for its own delays, not
 * for what is under way on a long path. So the credit follows what the process reads, and the buffer only says where to
 * begin. All amounts are in the fabric's units: bytes as the kernel charges them, or receive requests (`struct fabric_caps`).
 *
 *   pool    units that all peers together may have in flight. It begins at the size B of the buffer. After each round trip in
 *           which nothing overran and the process found the buffer empty at least once it is at least four times what was
 *           used: the process keeps up. A sender that doubles its window each round trip has doubled it twice before
 *           it is told what landed now. Above `ease` the pool grows only if half of it was used, and by an eighth of itself
 *           and B / 4.
 *   overrun the process reads what landed in this round trip or the last, and no more. The pool becomes that and B / 2:
 *           whatever the peers send, half of the buffer stays free. `ease` becomes three quarters of what the pool was.
 *           Data that left before the peers knew arrives for another round trip; its overruns do not count again.
 *   level   units that one peer may have in flight. The pool is shared max-min: a peer takes twice what it used in the last
 *           round trip or the level, whichever is less, and the level is such that all of them together take the pool.
 *           A peer that has sent nothing for a second, or nothing yet, gets an even part of the buffer.
 *
 * The credit travels in packets, because a sender counts packets; it is told again in each round trip that has a report,
 * since any datagram may be lost.
 */
#include "base/log.h"
#include "message/state.h"

#define ROUND_MIN_NS	 UINT64_C(1000000)
#define ROUND_MAX_NS	 UINT64_C(1000000000)
#define ROUND_UNKNOWN_NS UINT64_C(50000000)
#define IDLE_NS		 UINT64_C(1000000000)
#define PACKETS_MIN	 2u
/* The pool after a round trip without overrun, in what was used in it. */
#define AHEAD	    4u
#define PACKETS_MAX (1u << 24)
#define LEVEL_STEPS 8
/* Overruns that lowered the credit before the owner of the host is told. */
#define CUTS_TOLD 4u

void credit_open(struct gw_context *ctx)
{
	struct credit *c = &ctx->credit;

	c->pool = c->level = ctx->fabric->caps.buffer;
	c->ease = UINT64_MAX;
	list_init(&c->receivers);
}

static uint64_t round_ns(uint64_t rtt_ns)
{
	if (!rtt_ns)
		return ROUND_UNKNOWN_NS;
	if (rtt_ns < ROUND_MIN_NS)
		return ROUND_MIN_NS;
	return rtt_ns < ROUND_MAX_NS ? rtt_ns : ROUND_MAX_NS;
}

void credit_join(struct gw_qp *qp)
{
	struct credit *c = &qp->ctx->credit;

	if (qp->state != QP_CONNECTED)
		return;
	if (list_empty(&c->receivers)) {
		c->began_ns = qp->ctx->now;
		c->ends_ns = qp->ctx->now + round_ns(qp->feedback.rtt_ns);
	}
	qp->credit.landed = qp->feedback.landed - 1;
	qp->credit.landed_ns = qp->ctx->now;
	qp->credit.used = 0;
	list_add_tail(&c->receivers, &qp->credit.link);
}

/* Units that a data packet to this queue pair takes at most. */
static uint64_t packet_units(const struct gw_qp *qp)
{
	const struct fabric_caps *caps = &qp->ctx->fabric->caps;
	uint32_t payload = qp->size.named ? qp->size.named : qp->size.floor;

	return caps->buffer_packet + (uint64_t)caps->buffer_byte * payload;
}

uint32_t credit_packets(const struct gw_qp *qp)
{
	const struct credit *c = &qp->ctx->credit;
	uint64_t buffer = qp->ctx->fabric->caps.buffer;
	uint64_t units =
		(c->pool < buffer ? c->pool : buffer) / (qp->ctx->qps.used ? qp->ctx->qps.used : 1);
	uint64_t packets;

	if (!list_empty(&qp->credit.link) && c->level > units)
		units = c->level;
	packets = units / packet_units(qp);
	if (packets < PACKETS_MIN)
		return PACKETS_MIN;
	return packets < PACKETS_MAX ? (uint32_t)packets : PACKETS_MAX;
}

/* Returns the round trip without what varies of it: on a short path that is the delay of processes, not of the network. */
static uint64_t steady_rtt_ns(const struct feedback *f)
{
	uint64_t varies_ns = 2 * f->rtt_var_ns;

	return f->rtt_ns > f->rtt_min_ns + varies_ns ? f->rtt_ns - varies_ns : f->rtt_min_ns;
}

/* Takes what landed on a queue pair in the round that ends, as units in flight: what landed in one of its round trips. */
static uint64_t take_used(struct gw_qp *qp, uint64_t elapsed_ns, bool overran)
{
	uint64_t rtt_ns = steady_rtt_ns(&qp->feedback);
	uint32_t packets = qp->feedback.landed - qp->credit.landed;
	double units = (double)packets * (double)packet_units(qp);

	qp->credit.landed = qp->feedback.landed;
	if (packets)
		qp->credit.landed_ns = qp->ctx->now;
	if (rtt_ns && rtt_ns < elapsed_ns)
		units *= (double)rtt_ns / (double)elapsed_ns;
	/* A round that an overrun ended early may be too short to tell. */
	if (!overran || (uint64_t)units > qp->credit.used)
		qp->credit.used = (uint64_t)units;
	return qp->credit.used;
}

/* Returns the level at which the peers together take the pool: from an even share upwards, as those that take less leave
 * more to the others. */
static uint64_t share_out(const struct credit *c, uint32_t peers)
{
	uint64_t level = c->pool / (peers ? peers : 1);

	for (int i = 0; i < LEVEL_STEPS; i++) {
		uint64_t rest = c->pool;
		uint32_t others = 0;
		struct list *item;

		list_for_each (item, &c->receivers) {
			const struct gw_qp *qp = container_of(item, struct gw_qp, credit.link);

			if (2 * qp->credit.used >= level)
				others++;
			else
				rest -= 2 * qp->credit.used;
		}
		if (!others)
			return c->pool;
		if (rest / others == level)
			break;
		level = rest / others;
	}
	return level;
}

/* Tells the owner of the host, once, that its buffer is too small. */
static void complain(struct gw_context *ctx)
{
	const struct fabric_caps *caps = &ctx->fabric->caps;

	if (++ctx->credit.cuts == CUTS_TOLD && caps->buffer_advice)
		log_warn(
			"the receive buffer overran again and again (%llu datagrams were lost there): %s",
			(unsigned long long)ctx->fabric->counters[FABRIC_DROP_OVERRUN],
			caps->buffer_advice);
}

static void set_pool(struct gw_context *ctx, uint64_t used, bool overran)
{
	const struct fabric_caps *caps = &ctx->fabric->caps;
	struct credit *c = &ctx->credit;
	uint64_t buffer = caps->buffer;

	if (overran) {
		/* Within a round trip of the last cut the peers did not know of it. */
		if (c->cut) {
			c->cut = false;
			return;
		}
		c->cut = true;
		c->ease = c->pool - c->pool / 4;
		if (used + buffer / 2 < c->pool) {
			c->pool = used + buffer / 2;
			complain(ctx);
		}
		return;
	}
	c->cut = false;
	if (!ctx->fabric->emptied)
		return;
	if (c->pool < c->ease && c->pool < AHEAD * used)
		c->pool = AHEAD * used < c->ease ? AHEAD * used : c->ease;
	else if (c->pool >= c->ease && 2 * used >= c->pool)
		c->pool += c->pool / 8 + buffer / 4 + 1;
	if (c->pool > caps->buffer_most)
		c->pool = caps->buffer_most;
}

static void end_round(struct gw_context *ctx, bool overran)
{
	struct credit *c = &ctx->credit;
	uint64_t elapsed_ns = ctx->now > c->began_ns ? ctx->now - c->began_ns : 1;
	uint64_t used = 0, longest_ns = 0;
	struct list *item, *after;
	uint32_t peers = 0;

	list_for_each_safe (item, after, &c->receivers) {
		struct gw_qp *qp = container_of(item, struct gw_qp, credit.link);
		uint64_t ns = round_ns(qp->feedback.rtt_ns);

		used += take_used(qp, elapsed_ns, overran);
		peers++;
		if (ns > longest_ns)
			longest_ns = ns;
		if (ctx->now - qp->credit.landed_ns > IDLE_NS) {
			list_del(item);
			qp_owe(qp, OWE_ACK); /* tells it its smaller credit */
		}
	}
	set_pool(ctx, used, overran);
	c->level = share_out(c, peers);
	ctx->fabric->emptied = false;
	ctx->overruns = ctx->fabric->counters[FABRIC_DROP_OVERRUN];
	c->round++;
	c->began_ns = ctx->now;
	c->ends_ns = ctx->now + longest_ns;
}

void credit_update(struct gw_context *ctx)
{
	struct credit *c = &ctx->credit;
	bool overran = ctx->fabric->counters[FABRIC_DROP_OVERRUN] != ctx->overruns;

	/* An overrun lowers the credit at once, so that the report that tells of it can excuse the loss. */
	if (!list_empty(&c->receivers) && (ctx->now >= c->ends_ns || (overran && !c->cut)))
		end_round(ctx, overran);
}
