/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loss.c: a stream stores the number of units up to the next loss, drawn at once: a million packets of which ten are lost
 * take eleven draws.
 */
#include "plan/loss.h"

#include <assert.h>
#include <math.h>

#define FOR_EVER   (UINT64_MAX / 2)
#define IMPOSSIBLE 1e-60

struct loss_model loss_model(double mean, double burst)
{
	struct loss_model model = { .mean = mean, .burst = burst > 1 ? burst : 1 };

	if (model.burst > 1) {
		model.leave = 1 / burst;
		model.enter = fmin(1, mean * model.leave / (1 - mean));
	}
	return model;
}

struct loss_model loss_of_chunks(const struct loss_model *packets, unsigned chunk)
{
	if (chunk <= 1)
		return *packets;
	/* A burst touches its own length in chunks and, on average, nearly one more. */
	return loss_model(1 - loss_none(packets, chunk),
			  packets->burst > 1 ? 1 + (packets->burst - 1) / chunk : 1);
}

double loss_none(const struct loss_model *model, double units)
{
	if (units <= 0)
		return 1;
	if (model->burst > 1)
		return (1 - model->mean) * exp((units - 1) * log1p(-model->enter));
	return exp(units * log1p(-model->mean));
}

void loss_counts(const struct loss_model *model, unsigned n, unsigned apart, double *out)
{
	/* Probabilities of b losses so far, with the last unit arrived (good) or lost (bad). */
	double good[LOSS_UNITS_MAX + 1] = { 0 }, bad[LOSS_UNITS_MAX + 1] = { 0 };
	double memory = 0, to_bad, stay_bad;
	unsigned most = 0;

	assert(n <= LOSS_UNITS_MAX);
	if (model->burst > 1)
		memory = pow(1 - model->enter - model->leave, apart);
	to_bad = model->mean * (1 - memory);
	stay_bad = model->mean + (1 - model->mean) * memory;
	good[0] = 1 - model->mean;
	bad[0] = model->mean;
	/* Before the first unit the path is in its mean state and nothing is counted. Numbers of losses above `most` are so
	 * unlikely that they count as impossible. */
	for (unsigned unit = 0; unit < n; unit++) {
		most++;
		for (unsigned b = most; b > 0; b--) {
			good[b] = good[b] * (1 - to_bad) + bad[b] * (1 - stay_bad);
			bad[b] = good[b - 1] * to_bad + bad[b - 1] * stay_bad;
		}
		good[0] = good[0] * (1 - to_bad) + bad[0] * (1 - stay_bad);
		bad[0] = 0;
		if (good[most] + bad[most] < IMPOSSIBLE) {
			good[most] = bad[most] = 0;
			most--;
		}
	}
	for (unsigned b = 0; b <= n; b++)
		out[b] = good[b] + bad[b];
}

/* Draws the number of units that arrive before the next loss, if each is lost with this probability. */
static uint64_t geometric(struct rng *rng, double chance)
{
	double units;

	if (chance <= 0)
		return FOR_EVER;
	if (chance >= 1)
		return 0;
	units = log1p(-rng_unit(rng)) / log1p(-chance);
	return units < (double)FOR_EVER ? (uint64_t)units : FOR_EVER;
}

static uint64_t after_loss(struct loss_stream *stream)
{
	const struct loss_model *model = stream->model;

	if (model->burst <= 1)
		return geometric(&stream->rng, model->mean);
	if (!rng_chance(&stream->rng, model->leave))
		return 0;
	return 1 + geometric(&stream->rng, model->enter);
}

void loss_stream_start(struct loss_stream *stream, const struct loss_model *model, uint64_t seed)
{
	stream->model = model;
	rng_seed(&stream->rng, seed);
	loss_stream_renew(stream);
}

void loss_stream_renew(struct loss_stream *stream)
{
	const struct loss_model *model = stream->model;

	if (model->burst > 1 && rng_chance(&stream->rng, model->mean))
		stream->arriving = after_loss(stream);
	else
		stream->arriving =
			geometric(&stream->rng, model->burst > 1 ? model->enter : model->mean);
}

bool loss_stream_next(struct loss_stream *stream)
{
	if (stream->arriving > 0) {
		stream->arriving--;
		return false;
	}
	stream->arriving = after_loss(stream);
	return true;
}
