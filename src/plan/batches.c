/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batches.c: divides a process into batches, and computes the probability that a group is incomplete after a number of
 * repair rounds. There are separate batches for groups sent before and after the first repairs start, for the tail, for an
 * incomplete last group, and for the announcement and the result, which must arrive too.
 */
#include "plan/batches.h"

#include <assert.h>
#include <math.h>

/* Returns the time that so many repair rounds take. */
static double cost_ns(const struct batch *batch, unsigned rounds)
{
	if (batch->told)
		return process_told_ns(batch->told, batch->again_ns, rounds);
	if (rounds < 2)
		return rounds * batch->repair_ns;
	return batch->repair_ns + batch->again_ns + (rounds - 2) * batch->later_ns;
}

/*
 * Probability that a group which misses d units still misses one after n repair rounds. Each round whose request arrives
 * loses each unit with the same probability p, so j such rounds repair the group with probability (1 - p^j)^d. The number
 * of requests that arrive is binomial; three or more lost requests are counted as two. A group of one unit is Selective
 * Repeat, whose repairs after the first may be sent twice.
 */
static double not_mended(const struct process *p, double lack, unsigned rounds)
{
	double heard = 1 - p->request_loss, lost = p->loss.mean, chances[3], chance = 0;

	if (lack == 1) {
		double never = pow(p->request_loss, rounds);
		double again = lost * (1 - p->twice * (1 - lost));

		return again > 0 ? never + (pow(p->request_loss + heard * again, rounds) - never) *
						   lost / again
				 : never;
	}
	chances[0] = pow(heard, rounds);
	chances[1] = rounds * p->request_loss * pow(heard, rounds - 1.0);
	chances[2] = fmax(0, 1 - chances[0] - chances[1]);
	for (unsigned unheard = 0; unheard < 3 && chances[unheard] > 0; unheard++) {
		double all_lost = rounds > unheard ? pow(lost, rounds - unheard) : 1;

		chance += chances[unheard] * (all_lost < 1 ? -expm1(lack * log1p(-all_lost)) : 1);
	}
	return chance;
}

/* What a group of this many units loses, and how often it is incomplete after each number of repair rounds. Several batches have
 * groups of one size: these are computed once, as far as they are asked for. */
struct odds {
	unsigned size;
	/* groups that one burst hits together */
	double together;
	/* probability of each number of losses */
	double counts[LOSS_UNITS_MAX + 1];
	/* with bursts, by number of losses: probability that a round fails, since a burst begins among its units (those of this
	 * group, and of the other groups that the same burst hit), and that all rounds so far did */
	double round_fails[LOSS_UNITS_MAX + 1];
	double fails[LOSS_UNITS_MAX + 1];
	/* probability of being incomplete after each number of rounds, and how many of them are known */
	double not_done[ROUNDS_MAX];
	unsigned known;
};

/*
 * Mean number of groups that one burst hits together: several small groups that follow one another, or groups of one block,
 * whose units are sent in turn.
 */
static double groups_alike(const struct process *p, unsigned size)
{
	double burst = p->loss.burst;

	if (burst <= 1)
		return 1;
	return fmax(fmax(1, burst / size), burst * (1 - pow(1 - 1 / burst, p->spread)));
}

/* Splits the last batch in two if a first repair whose request was lost is repeated at another time than one that was
 * lost itself. */
static void split(struct batches *batches, const struct process *p, double unheard)
{
	struct batch *lost = &batches->list[batches->count - 1], *unasked = lost + 1;
	double asked = (1 - unheard) * (1 - p->request_loss);
	double share = (1 - asked) / (1 - asked + asked * p->loss.mean);

	if (p->unheard_ns == p->again_ns || asked >= 1)
		return;
	assert(batches->count < BATCHES_MAX);
	batches->count++;
	*unasked = *lost;
	unasked->again_ns = p->unheard_ns + p->unit_ns;
	unasked->groups *= share;
	unasked->weight *= share;
	lost->groups *= 1 - share;
	lost->weight *= 1 - share;
}

static void odds_make(const struct process *p, unsigned size, struct odds *odds)
{
	const struct loss_model *loss = &p->loss;
	double none = log1p(-loss->enter);

	odds->size = size;
	odds->known = 0;
	odds->together = groups_alike(p, size);
	loss_counts(loss, size, p->spread, odds->counts);
	for (unsigned b = p->spare + 1; b <= size && loss->burst > 1; b++) {
		odds->fails[b] = 1;
		odds->round_fails[b] =
			1 - (1 - p->request_loss) * exp((b - p->spare) * odds->together * none);
	}
}

/* Probability that a group is incomplete after one repair round more than are known. */
static double one_round_more(const struct process *p, struct odds *odds)
{
	bool bursts = p->loss.burst > 1;
	unsigned rounds = odds->known;
	double chance = 0;

	for (unsigned b = p->spare + 1; b <= odds->size; b++) {
		double fails = 1;

		/* Far from the mean number of losses, on either side of it, nothing adds up. */
		if (b > p->spare + 2 && odds->counts[b] <= NEGLIGIBLE / odds->size)
			continue;
		if (rounds > 0 && bursts)
			fails = odds->fails[b] *= odds->round_fails[b];
		else if (rounds > 0)
			fails = not_mended(p, b - p->spare, rounds);
		chance += odds->counts[b] * fails;
	}
	return fmin(chance, 1);
}

static double odds_not_done(const struct process *p, struct odds *odds, unsigned rounds)
{
	for (; odds->known <= rounds; odds->known++)
		odds->not_done[odds->known] = one_round_more(p, odds);
	return odds->not_done[rounds];
}

/* Adds a batch. With probability `unheard` the first request is lost, which makes one round less. */
static void add_batch(struct batches *batches, const struct process *p, struct odds *odds,
		      double groups, double first_ns, double last_ns, double repair_ns,
		      double unheard)
{
	double together = odds->together, before = 1;
	struct batch *batch;

	if (groups <= 0)
		return;
	assert(batches->count < BATCHES_MAX);
	batch = &batches->list[batches->count++];
	/* At least as many as one burst hits, but no more than there are; a batch may be a fraction of a group. */
	batch->groups = fmax(fmin(1, groups), groups / together);
	batch->weight = groups;
	batch->first_ns = first_ns;
	batch->last_ns = last_ns;
	batch->repair_ns = repair_ns + p->unit_ns;
	batch->again_ns = p->again_ns + p->unit_ns;
	batch->later_ns = p->later_ns + p->unit_ns;
	batch->told = NULL;
	batch->log_early = 0;
	if (p->lead) {
		double counts[LOSS_UNITS_MAX + 1];

		loss_counts(&p->loss, odds->size - p->turn, p->spread, counts);
		batch->log_early = log(fmax(counts[0], 1e-16));
	}
	for (batch->rounds = 0; batch->rounds < ROUNDS_MAX; batch->rounds++) {
		double now = odds_not_done(p, odds, batch->rounds);
		double fails = batch->rounds ? (1 - unheard) * now + unheard * before : now;

		before = now;
		if (fails * batch->groups < NEGLIGIBLE && batch->rounds > 0)
			break;
		batch->log_done[batch->rounds] = log1p(-fmin(fails, 1 - 1e-16));
	}
	if (!p->lead)
		batches->start_ns = fmax(batches->start_ns, last_ns);
	split(batches, p, unheard);
}

/* Describes an announcement or a result: sent at this time, and repeated until it arrives. */
static void set_told(struct batch *batch, const struct process *p, double at_ns, double again_ns,
		     bool result)
{
	double lost = p->control_loss;

	/* Member by member: the arrays are long, and filled below as far as they are used. */
	batch->first_ns = batch->last_ns = at_ns;
	batch->groups = 1;
	batch->again_ns = again_ns;
	batch->told = p;
	batch->weight = batch->log_early = 0;
	batch->repair_ns = batch->later_ns = 0;
	batch->rounds = 0;
	while (lost > NEGLIGIBLE && batch->rounds < ROUNDS_MAX) {
		batch->log_done[batch->rounds++] = log1p(-lost);
		lost *= result ? process_result_loss(p, batch->rounds) : p->control_loss;
	}
}

/* A receiver that does not know the length cannot know that it has everything. The batch has no weight, since it is not
 * data. */
static void add_announcement(struct batches *batches, const struct process *p)
{
	if (p->control_loss <= 0 || p->announce_ns <= 0)
		return;
	assert(batches->count < BATCHES_MAX);
	set_told(&batches->list[batches->count++], p, 0, p->announce_ns, false);
}

/*
 * The result may be lost and is then repeated. Its delay adds to that of the groups. For the quantiles it is treated as one
 * more group, an approximation where both are late; the mean is exact.
 */
static void add_result(struct batches *batches, const struct process *p)
{
	double clean = 0, last_ns = batches->start_ns, at_ns;

	for (unsigned i = 0; i < batches->count; i++) {
		clean += batches->list[i].groups * batches->list[i].log_early;
		last_ns = fmax(last_ns, batches->list[i].last_ns);
	}
	/* The mean time: with parity behind all data, the message is complete when the data has left or when the parity has. */
	at_ns = last_ns - exp(clean) * (last_ns - batches->start_ns);
	set_told(&batches->result, p, at_ns, p->result_ns, true);
	/* The first result may be lost whenever it is sent. */
	batches->result.log_early = batches->result.log_done[0];
}

double batches_mean_result_ns(const struct process *p)
{
	double lost = p->control_loss, sum = 0;

	for (unsigned n = 1; lost > NEGLIGIBLE && n < ROUNDS_MAX; n++) {
		sum += lost * (process_told_ns(p, p->result_ns, n) -
			       process_told_ns(p, p->result_ns, n - 1));
		lost *= process_result_loss(p, n);
	}
	return sum;
}

double batches_group_fails(const struct process *p)
{
	struct odds odds;

	odds_make(p, p->size, &odds);
	return odds_not_done(p, &odds, 0);
}

/* Mean number of repair units for each new unit. */
static double repair_load(const struct process *p, const double *counts)
{
	double lack = 0;

	for (unsigned b = p->spare + 1; b <= p->size; b++)
		lack += counts[b] * (b - p->spare);
	return lack / p->turn / (1 - p->loss.mean);
}

double batches_no_repair(const struct batches *batches)
{
	double sum = 0;

	for (unsigned i = 0; i < batches->count; i++)
		if (batches->list[i].weight > 0)
			sum += batches->list[i].groups * batches->list[i].log_done[0];
	return exp(sum);
}

static void set_costs(struct batch *batch)
{
	for (unsigned n = 0; n <= batch->rounds; n++)
		batch->cost_ns[n] = cost_ns(batch, n);
}

/*
 * Once the first repairs are sent they use part of the bandwidth, and new units leave more slowly. So groups before and
 * after that time are separate batches, followed by those of the message's end.
 */
void batches_make(const struct process *p, struct batches *batches)
{
	uint64_t tail = p->tail < p->groups ? p->tail : p->groups;
	double body = (double)(p->groups - tail), step = p->turn * p->unit_ns;
	double lead_ns = (double)p->lead * p->unit_ns;
	double body_ns = body * step, load;
	/* Groups of a block are checked when the whole block has left. */
	double spread_ns = fmin(p->spread - 1, body) * step;
	double quiet_ns = fmin(body_ns, p->first_ns), end_ns, quiet = body, mended;
	struct odds odds;

	odds_make(p, p->size, &odds);
	load = repair_load(p, odds.counts);
	batches->count = 0;
	batches->start_ns = lead_ns;
	if (body_ns > p->first_ns)
		quiet = body * quiet_ns / body_ns;
	end_ns = quiet_ns + (body_ns - quiet_ns) * (1 + load);
	add_batch(batches, p, &odds, quiet, lead_ns + fmin(spread_ns, quiet_ns), lead_ns + quiet_ns,
		  p->first_ns, 0);
	add_batch(batches, p, &odds, body - quiet, lead_ns + quiet_ns, lead_ns + end_ns,
		  p->first_ns, 0);
	end_ns += lead_ns + (double)tail * step;
	/* The sender asks about the tail when it has nothing else to send: on short paths that is after the repairs, in the
	 * share of messages that need any. */
	mended = p->tail_waits ? 1 - batches_no_repair(batches) : 0;
	add_batch(batches, p, &odds, (double)tail * (1 - mended), end_ns, end_ns, p->tail_ns,
		  p->tail_loss);
	add_batch(batches, p, &odds, (double)tail * mended, end_ns, end_ns,
		  p->tail_ns + p->first_ns, p->tail_loss);
	if (p->last_groups > 0) {
		end_ns += p->last_groups * (p->lead ? p->turn : p->last_size) * p->unit_ns;
		odds_make(p, p->last_size, &odds);
		add_batch(batches, p, &odds, p->last_groups, end_ns, end_ns, p->first_ns, 0);
	}
	add_announcement(batches, p);
	add_result(batches, p);
	for (unsigned i = 0; i < batches->count; i++)
		set_costs(&batches->list[i]);
	set_costs(&batches->result);
}
