/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the checks of a pair of hosts; and arithmetic that several of them share. */
#include "pair.h"

#include <errno.h>
#include <stdarg.h>

/* DSCP 26 (RoCE data), 26 with ECT(0), 46 (expedited), 48 (CNPs); ECT(0), ECT(1) and CE without a DSCP. */
const uint8_t pair_marks[PAIR_MARKS] = { 0x68, 0x6a, 0xb8, 0xc0, 0x02, 0x01, 0x03 };

static const struct pair_check *at(size_t index)
{
	if (index < pair_checks_reach_count)
		return &pair_checks_reach[index];
	index -= pair_checks_reach_count;
	return index < pair_checks_quality_count ? &pair_checks_quality[index] : NULL;
}

const struct check *pair_check_at(size_t index)
{
	const struct pair_check *check = at(index);

	return check ? &check->words : NULL;
}

const char *pair_say(struct pair_exam *exam, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = scratch_vprint(&exam->diagnosis->scratch, format, args);
	va_end(args);
	return text;
}

static const char *object_of(struct pair_exam *exam, const struct pair_way *way)
{
	return way ? pair_say(exam, "%s -> %s", way->from->name, way->to->name) : "";
}

struct finding *pair_found(struct pair_exam *exam, const struct pair_way *way, const char *where,
			   const char *value, ...)
{
	struct finding *finding = check_finding(exam->check, exam->diagnosis);
	va_list args;

	va_start(args, value);
	finding->value = scratch_vprint(&exam->diagnosis->scratch, value, args);
	va_end(args);
	finding->where = where;
	finding->object = object_of(exam, way);
	return finding;
}

void pair_unseen(struct pair_exam *exam, const struct pair_way *way, const char *why)
{
	struct unknown *unknown = diagnosis_unknown(exam->diagnosis);

	unknown->check = exam->check->id;
	unknown->object = object_of(exam, way);
	unknown->where = "";
	unknown->why = why;
}

bool pair_heard_any(const struct pair_way *way)
{
	return way->to->heard.packets > 0;
}

double pair_loss(const struct pair_way *way)
{
	uint32_t sent = way->from->sent.packets, heard = way->to->heard.packets;

	return sent > heard ? (double)(sent - heard) / sent : 0;
}

uint64_t pair_jitter_ns(const struct pair_way *way)
{
	const struct pair_heard *heard = &way->to->heard;

	return heard->packets ? (uint64_t)(heard->delay_p90_ns - heard->delay_p10_ns) : 0;
}

bool pair_clock(const struct pair *pair, int64_t *offset_ns, uint64_t *error_ns)
{
	if (!pair->here.heard.packets || !pair->there.heard.packets || !pair->rtt_min_ns)
		return false;
	/* Delays that are measured with two clocks hold the offset, with opposite signs. */
	*offset_ns = (pair->there.heard.delay_min_ns - pair->here.heard.delay_min_ns) / 2;
	*error_ns = pair->rtt_min_ns / 2;
	return true;
}

uint64_t pair_bulk_bps(const struct pair_heard *heard)
{
	return heard->bulk_ns ? (uint64_t)((double)heard->bulk_bytes * 8e9 / (double)heard->bulk_ns)
			      : 0;
}

double pair_bulk_loss(const struct pair_way *way)
{
	uint32_t sent = way->from->sent.bulk_packets;
	uint64_t heard = (uint64_t)way->to->heard.bulk_packets + way->to->heard.overrun;

	return sent > heard ? (double)(sent - heard) / sent : 0;
}

uint64_t pair_rate_bps(const struct pair_way *way)
{
	const struct pair_heard *heard = &way->to->heard;
	uint64_t bulk = pair_bulk_bps(heard);

	/* More was sent than arrived: what arrived is what the path carries. */
	if (bulk && pair_bulk_loss(way) > pair_loss(way) + 0.1)
		return bulk;
	if (bulk < heard->train_bps)
		bulk = heard->train_bps;
	return bulk > heard->tcp_bps ? bulk : heard->tcp_bps;
}

static void run(struct pair_exam *exam, const struct pair_check *check)
{
	const struct pair *pair = exam->pair;

	if (check->pair)
		check->pair(exam);
	if (check->way) {
		check->way(exam, &(struct pair_way){ &pair->here, &pair->there });
		check->way(exam, &(struct pair_way){ &pair->there, &pair->here });
	}
}

int pair_judge(const struct pair *pair, const char *only, const char *skip,
	       struct diagnosis *diagnosis)
{
	struct pair_exam exam = { .pair = pair, .diagnosis = diagnosis };
	const struct pair_check *check;

	if (check_wanted(pair_check_at, only, skip, NULL) < 0)
		return -EINVAL;
	diagnosis->host = pair_say(&exam, "%s -> %s", pair->here.name, pair->there.name);
	for (size_t i = 0; (check = at(i)); i++) {
		if (!check_wanted(pair_check_at, only, skip, &check->words))
			continue;
		exam.check = &check->words;
		/* Without a peer only the first group has something to say. */
		if (pair->peer != PAIR_PEER_DOCTOR && i >= pair_checks_reach_count) {
			diagnosis->checks_skipped++;
			continue;
		}
		diagnosis->checks_run++;
		run(&exam, check);
	}
	diagnosis_sort(diagnosis);
	pair_notes(pair, diagnosis);
	return 0;
}
