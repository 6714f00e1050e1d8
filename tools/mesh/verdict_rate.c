/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rates alone. What a host sends is the median over those that it sends to, what it receives likewise, and the usual rate is the
 * median over hosts of the second best rate that each has with anybody: high even where most pairs cross a slow link between
 * racks. Hosts that reach each other at the usual rate form groups; the median of a host is taken over its own group, so
 * that a slow link between groups makes no host of either slow. A host without a group is slow with everybody.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/text.h"
#include "verdict.h"

/* Slow hosts whose rates differ by no more than this are named together. */
#define ALIKE	   0.2
#define GROUP_TEXT 400

struct rates {
	const struct matrix *matrix;
	struct verdict *verdict;
	unsigned hosts;
	double usual;
	/* by host: medians of what it sends and receives; group, which is the lowest host in it; hosts in that group */
	double *sends, *receives;
	unsigned *group, *group_size;
	/* room for two values of each host */
	double *scratch;
	unsigned *list;
};

static double rate(const struct rates *r, unsigned from, unsigned to)
{
	return from == to ? NAN : matrix_at(r->matrix, from, to)->alone_bps;
}

static int descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? 1 : x < y || x > y ? -1 : 0;
}

static double second_best(const struct rates *r, unsigned host)
{
	unsigned count = 0;

	for (unsigned j = 0; j < r->hosts; j++) {
		if (!isnan(rate(r, host, j)))
			r->scratch[count++] = rate(r, host, j);
		if (!isnan(rate(r, j, host)))
			r->scratch[count++] = rate(r, j, host);
	}
	qsort(r->scratch, count, sizeof(*r->scratch), descending);
	return !count ? NAN : r->scratch[count > 2 ? 1 : 0];
}

static void find_usual(struct rates *r)
{
	for (unsigned i = 0; i < r->hosts; i++)
		r->sends[i] = second_best(r, i);
	r->usual = matrix_median(r->sends, r->hosts);
}

static void find_groups(struct rates *r)
{
	bool changed = true;

	for (unsigned i = 0; i < r->hosts; i++)
		r->group[i] = i;
	while (changed) {
		changed = false;
		for (unsigned i = 0; i < r->hosts; i++) {
			for (unsigned j = 0; j < r->hosts; j++) {
				if (rate(r, i, j) >= VERDICT_SLOW * r->usual &&
				    r->group[i] != r->group[j]) {
					unsigned low = r->group[i] < r->group[j] ? r->group[i]
										 : r->group[j];

					r->group[i] = r->group[j] = low;
					changed = true;
				}
			}
		}
	}
	for (unsigned i = 0; i < r->hosts; i++) {
		r->group_size[i] = 0;
		for (unsigned j = 0; j < r->hosts; j++)
			r->group_size[i] += r->group[j] == r->group[i];
	}
}

static double median_of(const struct rates *r, unsigned host, bool sends)
{
	for (unsigned j = 0; j < r->hosts; j++) {
		bool counts = r->group_size[host] < 2 || r->group[j] == r->group[host];

		r->scratch[j] = !counts ? NAN : sends ? rate(r, host, j) : rate(r, j, host);
	}
	return matrix_median(r->scratch, r->hosts);
}

static bool slow(const struct rates *r, double value)
{
	return value < VERDICT_SLOW * r->usual;
}

/* What a host is: 0 as others, 1 slow to send, 2 slow to receive, 3 both. */
static int class_of(const struct rates *r, unsigned host)
{
	return slow(r, r->sends[host]) | slow(r, r->receives[host]) << 1;
}

static double worst_of(const struct rates *r, unsigned host)
{
	return class_of(r, host) == 3 ? fmax(r->sends[host], r->receives[host])
				      : fmin(r->sends[host], r->receives[host]);
}

static int add_hosts(struct rates *r, unsigned count)
{
	unsigned first = r->list[0];
	int class = class_of(r, first);
	double value = worst_of(r, first),
	       other = class == 1 ? r->receives[first] : r->sends[first];
	bool one = count == 1;
	char who[GROUP_TEXT], is[TEXT_SIZE], was[TEXT_SIZE];
	struct finding finding = { .kind = class == 3 ? FINDING_SLOW_HOST : FINDING_ASYMMETRIC_HOST,
				   .from = one && class != 2 ? (int)first : -1,
				   .to = one && class != 1 ? (int)first : -1,
				   .measured = value,
				   .expected = class == 3 ? r->usual : other };

	verdict_names(r->matrix, r->list, count, who, sizeof(who));
	text_rate(value, is);
	text_rate(finding.expected, was);
	if (value <= 0) {
		finding.kind = FINDING_DEAD;
		return verdict_add(r->verdict, finding, "nothing gets through %s %s",
				   class == 1	? "from"
				   : class == 2 ? "to"
						: "from or to",
				   who);
	}
	if (class == 3)
		return verdict_add(
			r->verdict, finding, "%s %s at %.2f of the usual rate: %s against %s%s",
			who, one ? "sends and receives" : "send and receive", value / r->usual, is,
			was, one ? "" : "; what do they share: a switch, a rack?");
	return verdict_add(r->verdict, finding, "%s %s slower than %s %s: %s against %s%s", who,
			   class == 1 ? one ? "sends" : "send"
			   : one      ? "receives"
				      : "receive",
			   one ? "it" : "they",
			   class == 1 ? one ? "receives" : "receive"
			   : one      ? "sends"
				      : "send",
			   is, was, one ? "" : "; what do they share: a switch, a rack?");
}

/* Names slow hosts, those that are alike in one sentence. `done` marks hosts that were named. */
static int add_slow_hosts(struct rates *r, bool *done)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < r->hosts; i++) {
		unsigned count = 0;

		if (done[i] || !class_of(r, i))
			continue;
		for (unsigned j = i; j < r->hosts; j++) {
			if (!done[j] && class_of(r, j) == class_of(r, i) &&
			    fabs(worst_of(r, j) - worst_of(r, i)) <= ALIKE * worst_of(r, i)) {
				done[j] = true;
				r->list[count++] = j;
			}
		}
		rc = add_hosts(r, count);
	}
	return rc;
}

/* Whether a slow rate is that of the link between two groups. */
static bool between_groups(const struct rates *r, unsigned i, unsigned j)
{
	return r->group[i] != r->group[j] && r->group_size[i] > 1 && r->group_size[j] > 1;
}

static int add_groups(struct rates *r)
{
	char text[GROUP_TEXT] = "", who[GROUP_TEXT / 2], is[TEXT_SIZE], was[TEXT_SIZE];
	size_t pairs = 0, used = 0;
	unsigned groups = 0;
	double *cross = calloc((size_t)r->hosts * r->hosts + 1, sizeof(*cross)), median;
	int rc;

	if (!cross)
		return -ENOMEM;
	for (unsigned i = 0; i < r->hosts; i++) {
		unsigned count = 0;

		for (unsigned j = 0; j < r->hosts; j++) {
			if (between_groups(r, i, j) && !isnan(rate(r, i, j)))
				cross[pairs++] = rate(r, i, j);
			if (r->group[j] == i)
				r->list[count++] = j;
		}
		if (r->group[i] != i || count < 2)
			continue;
		groups++;
		verdict_names(r->matrix, r->list, count, who, sizeof(who));
		if (used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s(%s)",
						 used ? ", " : "", who);
	}
	median = matrix_median(cross, (unsigned)pairs);
	free(cross);
	if (!pairs)
		return 0;
	rc = verdict_add(
		r->verdict,
		(struct finding){ .kind = FINDING_GROUPS,
				  .from = -1,
				  .to = -1,
				  .measured = median,
				  .expected = r->usual },
		"%u groups of hosts reach each other at %.2f of the rate within a group: %s against %s; the links between these racks or switches are slow: %s",
		groups, median / r->usual, text_rate(median, is), text_rate(r->usual, was), text);
	return rc;
}

/* What a pair would have if only its two hosts limited it. */
static double expected(const struct rates *r, unsigned i, unsigned j)
{
	return r->hosts == 2 ? r->usual : fmin(r->sends[i], r->receives[j]);
}

static bool slow_pair(const struct rates *r, unsigned i, unsigned j)
{
	return i != j && !between_groups(r, i, j) &&
	       rate(r, i, j) < VERDICT_SLOW * expected(r, i, j);
}

static int add_pair(const struct rates *r, unsigned i, unsigned j)
{
	const char *from = r->matrix->host[i].name, *to = r->matrix->host[j].name;
	double value = rate(r, i, j), back = rate(r, j, i);
	bool both = slow_pair(r, j, i);
	struct finding finding = { .kind = both ? FINDING_SLOW_PAIR : FINDING_ASYMMETRIC_PAIR,
				   .from = (int)i,
				   .to = (int)j,
				   .measured = value,
				   .expected = expected(r, i, j) };
	char is[TEXT_SIZE], was[TEXT_SIZE], other[TEXT_SIZE];

	text_rate(value, is);
	text_rate(finding.expected, was);
	text_rate(back, other);
	if (value <= 0) {
		finding.kind = FINDING_DEAD;
		return verdict_add(r->verdict, finding, "nothing gets through %s %s %s", from,
				   both ? "<->" : "->", to);
	}
	if (both)
		return verdict_add(
			r->verdict, finding,
			"%s <-> %s is slow: %s there and %s back, against %s with other hosts",
			from, to, is, other, was);
	/* The other direction may be nearly as slow without being below what its hosts do with others. */
	if (!(value < VERDICT_SLOW * back)) {
		finding.kind = FINDING_SLOW_PAIR;
		return verdict_add(r->verdict, finding,
				   "%s -> %s is slow: %s against %s with other hosts", from, to, is,
				   was);
	}
	return verdict_add(r->verdict, finding, "%s -> %s is slower than %s -> %s: %s against %s",
			   from, to, to, from, is, other);
}

static int add_slow_pairs(const struct rates *r)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < r->hosts; i++) {
		for (unsigned j = 0; !rc && j < r->hosts; j++) {
			/* Named once, from the lower host, if it is slow in both directions. */
			if (slow_pair(r, i, j) && !(j < i && slow_pair(r, j, i)))
				rc = add_pair(r, i, j);
		}
	}
	return rc;
}

static int judge(struct rates *r, bool *done)
{
	int rc;

	find_usual(r);
	if (isnan(r->usual))
		return 0;
	if (r->usual <= 0)
		return verdict_add(r->verdict,
				   (struct finding){ .kind = FINDING_DEAD,
						     .from = -1,
						     .to = -1,
						     .measured = 0,
						     .expected = NAN },
				   "nothing gets through between any two of these hosts");
	find_groups(r);
	/* Two hosts have nobody to compare with but each other. */
	if (r->hosts == 2)
		return add_slow_pairs(r);
	for (unsigned i = 0; i < r->hosts; i++) {
		r->sends[i] = median_of(r, i, true);
		r->receives[i] = median_of(r, i, false);
	}
	rc = add_groups(r);
	if (!rc)
		rc = add_slow_hosts(r, done);
	return rc ? rc : add_slow_pairs(r);
}

int verdict_rates(const struct matrix *matrix, struct verdict *verdict)
{
	size_t n = matrix->hosts;
	struct rates r = { .matrix = matrix, .verdict = verdict, .hosts = matrix->hosts };
	bool *done = calloc(n, sizeof(*done));
	double *numbers = calloc(4 * n, sizeof(*numbers));
	unsigned *indices = calloc(3 * n, sizeof(*indices));
	int rc = -ENOMEM;

	if (done && numbers && indices) {
		r.sends = numbers;
		r.receives = numbers + n;
		r.scratch = numbers + 2 * n;
		r.group = indices;
		r.group_size = indices + n;
		r.list = indices + 2 * n;
		rc = matrix->hosts < 2 ? 0 : judge(&r, done);
	}
	free(done);
	free(numbers);
	free(indices);
	return rc;
}
