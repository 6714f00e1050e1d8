/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link model. A packet draws the same random values whatever happens to it, so that another value of one probability
 * does not change what happens to later packets. Where a probability is zero its draw is left out: most links of a large
 * simulation lose nothing, and the draws would take most of their time.
 */
#include "link/link.h"

#define NS_A_SECOND UINT64_C(1000000000)

void link_init(struct link *link, const struct link_attr *attr, uint64_t seed)
{
	*link = (struct link){ .attr = *attr };
	rng_seed(&link->rng, seed);
}

/* The time that the link takes to send this many bytes. */
static uint64_t transmission_ns(const struct link *link, uint32_t bytes)
{
	return link->attr.rate_bps ? (uint64_t)bytes * 8 * NS_A_SECOND / link->attr.rate_bps : 0;
}

uint64_t link_queued_bytes(const struct link *link, uint64_t now_ns)
{
	uint64_t left = link->busy_until_ns > now_ns ? link->busy_until_ns - now_ns : 0;
	unsigned __int128 bits = (unsigned __int128)left * link->attr.rate_bps;

	return (uint64_t)(bits / 8 / NS_A_SECOND);
}

static bool draw(struct link *link, double p)
{
	return p > 0 && rng_chance(&link->rng, p);
}

static bool lost_at_random(struct link *link, uint64_t now_ns)
{
	const struct link_attr *attr = &link->attr;
	bool lost = draw(link, attr->loss);

	if (attr->burst_enter > 0) {
		bool change, burst;

		if (attr->burst_max_ns && now_ns - link->bad_since_ns > attr->burst_max_ns)
			link->bad = false;
		change = draw(link, link->bad ? attr->burst_leave : attr->burst_enter);
		burst = draw(link, attr->burst_loss);

		if (change) {
			link->bad = !link->bad;
			link->bad_since_ns = now_ns;
		}
		lost |= link->bad && burst;
	}
	return lost;
}

struct link_verdict link_enter(struct link *link, uint64_t now_ns, uint32_t bytes)
{
	const struct link_attr *attr = &link->attr;
	struct link_verdict verdict = { 0 };
	bool lost = lost_at_random(link, now_ns);
	bool twice = draw(link, attr->duplicate);
	bool corrupt = draw(link, attr->corrupt);
	bool late = draw(link, attr->reorder);
	uint64_t extra = attr->jitter_ns ? rng_below(&link->rng, attr->jitter_ns + 1) : 0;
	uint64_t held = attr->reorder > 0 ? 1 + rng_below(&link->rng, attr->reorder_ns + 1) : 0;
	uint64_t queued;

	if (link->down) {
		link->stats.cut++;
		return verdict;
	}
	queued = attr->queue_bytes || attr->ecn_bytes ? link_queued_bytes(link, now_ns) : 0;
	if (attr->queue_bytes && queued + bytes > attr->queue_bytes) {
		link->stats.overflow++;
		return verdict;
	}
	if (link->busy_until_ns < now_ns)
		link->busy_until_ns = now_ns;
	link->busy_until_ns += transmission_ns(link, bytes);
	if (lost) {
		link->stats.lost++;
		return verdict;
	}
	link->stats.forwarded++;
	link->stats.bytes += bytes;
	verdict.copies = 1;
	verdict.at_ns[0] = link->busy_until_ns + attr->delay_ns + extra;
	if (attr->ecn_bytes && queued > attr->ecn_bytes) {
		verdict.ce = true;
		link->stats.marked++;
	}
	if (corrupt) {
		verdict.corrupt = true;
		link->stats.corrupted++;
	}
	if (late) {
		verdict.at_ns[0] += held;
		link->stats.reordered++;
	}
	if (twice) {
		verdict.copies = 2;
		verdict.at_ns[1] = verdict.at_ns[0] + 1;
		link->stats.duplicated++;
	}
	return verdict;
}

double link_mean_loss(const struct link_attr *attr)
{
	double bad = attr->burst_enter > 0
			     ? attr->burst_enter / (attr->burst_enter + attr->burst_leave)
			     : 0;

	return 1 - (1 - attr->loss) * (1 - bad * attr->burst_loss);
}
