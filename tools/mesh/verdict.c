/* SPDX-License-Identifier: BSD-3-Clause */
#include "verdict.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/text.h"

#define NAMES_MAX 8
/* A latency is worth a finding beyond so many times the usual one, and at least this much more. */
#define LATENCY_TIMES	2.0
#define LATENCY_MORE_US 100.0

static const char *const names[] = {
	[FINDING_DEAD] = "dead",
	[FINDING_GROUPS] = "slow-between-groups",
	[FINDING_SLOW_HOST] = "slow-host",
	[FINDING_ASYMMETRIC_HOST] = "asymmetric-host",
	[FINDING_SLOW_PAIR] = "slow-pair",
	[FINDING_ASYMMETRIC_PAIR] = "asymmetric-pair",
	[FINDING_SLOW_PATH] = "slow-path",
	[FINDING_LOSS] = "loss",
	[FINDING_HOST_LOSS] = "host-loss",
	[FINDING_PAIR_LOSS] = "pair-loss",
	[FINDING_TOGETHER] = "slow-together",
	[FINDING_LATENCY] = "latency",
};

const char *finding_name(enum finding_kind kind)
{
	return names[kind];
}

int verdict_add(struct verdict *verdict, struct finding finding, const char *format, ...)
{
	va_list args;
	int length;

	if (verdict->count == verdict->room) {
		unsigned room = verdict->room ? 2 * verdict->room : 16;
		struct finding *grown = realloc(verdict->findings, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		verdict->findings = grown;
		verdict->room = room;
	}
	va_start(args, format);
	length = vasprintf(&finding.text, format, args);
	va_end(args);
	if (length < 0)
		return -ENOMEM;
	verdict->findings[verdict->count++] = finding;
	return 0;
}

void verdict_close(struct verdict *verdict)
{
	for (unsigned i = 0; i < verdict->count; i++)
		free(verdict->findings[i].text);
	free(verdict->findings);
	*verdict = (struct verdict){ 0 };
}

const char *verdict_names(const struct matrix *matrix, const unsigned *hosts, unsigned count,
			  char *text, size_t size)
{
	unsigned shown = count > NAMES_MAX ? NAMES_MAX : count;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < shown && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 !i				  ? ""
					 : i + 1 < shown || count > shown ? ", "
									  : " and ",
					 matrix->host[hosts[i]].name);
	if (count > shown && used < size)
		snprintf(text + used, size - used, " and %u more", count - shown);
	return text;
}

/* Latencies are those of round trips, so that both directions of a pair have the same. */
static double host_latency(const struct matrix *matrix, unsigned host, double *scratch)
{
	for (unsigned j = 0; j < matrix->hosts; j++)
		scratch[j] = j == host ? NAN : matrix_at(matrix, host, j)->latency_us;
	return matrix_median(scratch, matrix->hosts);
}

static bool high(double latency, double usual)
{
	return latency > LATENCY_TIMES * usual && latency > usual + LATENCY_MORE_US;
}

static int add_latencies(const struct matrix *matrix, struct verdict *verdict, double *host,
			 double *scratch)
{
	char measured[TEXT_SIZE], expected[TEXT_SIZE];
	double usual;
	int rc = 0;

	for (unsigned i = 0; i < matrix->hosts; i++)
		host[i] = host_latency(matrix, i, scratch);
	for (unsigned i = 0; i < matrix->hosts; i++)
		scratch[i] = host[i];
	usual = matrix_median(scratch, matrix->hosts);
	for (unsigned i = 0; !rc && i < matrix->hosts; i++) {
		if (high(host[i], usual))
			rc = verdict_add(verdict,
					 (struct finding){ .kind = FINDING_LATENCY,
							   .from = (int)i,
							   .to = -1,
							   .measured = host[i],
							   .expected = usual },
					 "%s is far from the others: latency %s against %s",
					 matrix->host[i].name, text_time(host[i] * 1e3, measured),
					 text_time(usual * 1e3, expected));
		for (unsigned j = i + 1; !rc && j < matrix->hosts; j++) {
			double latency = matrix_at(matrix, i, j)->latency_us;

			if (!high(latency, fmax(host[i], host[j])))
				continue;
			rc = verdict_add(verdict,
					 (struct finding){ .kind = FINDING_LATENCY,
							   .from = (int)i,
							   .to = (int)j,
							   .measured = latency,
							   .expected = fmax(host[i], host[j]) },
					 "%s and %s are far from each other: latency %s against %s",
					 matrix->host[i].name, matrix->host[j].name,
					 text_time(latency * 1e3, measured),
					 text_time(fmax(host[i], host[j]) * 1e3, expected));
		}
	}
	return rc;
}

int verdict_latencies(const struct matrix *matrix, struct verdict *verdict)
{
	double *room;
	int rc;

	if (matrix->hosts < 3)
		return 0;
	room = malloc(2 * matrix->hosts * sizeof(*room));
	if (!room)
		return -ENOMEM;
	rc = add_latencies(matrix, verdict, room, room + matrix->hosts);
	free(room);
	return rc;
}

int verdict_reach(const struct matrix *matrix, struct verdict *out)
{
	int rc = verdict_rates(matrix, out);

	if (!rc)
		rc = verdict_losses(matrix, out);
	if (!rc)
		rc = verdict_paths(matrix, out);
	if (!rc)
		rc = verdict_together(matrix, out);
	if (!rc)
		rc = verdict_latencies(matrix, out);
	if (rc)
		verdict_close(out);
	return rc;
}
