/* SPDX-License-Identifier: BSD-3-Clause */
#include "diagnosis.h"

#include <stdlib.h>
#include <string.h>

/* Findings beyond this are one host's only if something floods; they are dropped. */
#define ENTRIES_MAX 4096u

/* Returns a place behind the last of `*count` entries. The array doubles whenever the count reaches a power of two. */
static void *grow(struct diagnosis *diagnosis, void *entries, size_t *count, size_t size)
{
	char *all = entries;

	if (*count == ENTRIES_MAX)
		--*count;
	if ((*count & (*count - 1)) == 0) {
		all = scratch_alloc(&diagnosis->scratch, (*count ? *count * 2 : 1) * size);
		if (*count)
			memcpy(all, entries, *count * size);
	}
	memset(all + *count * size, 0, size);
	++*count;
	return all;
}

struct finding *diagnosis_finding(struct diagnosis *diagnosis)
{
	struct finding *finding;

	diagnosis->findings = grow(diagnosis, diagnosis->findings, &diagnosis->finding_count,
				   sizeof(diagnosis->findings[0]));
	finding = &diagnosis->findings[diagnosis->finding_count - 1];
	finding->object = finding->where = finding->value = "";
	return finding;
}

struct unknown *diagnosis_unknown(struct diagnosis *diagnosis)
{
	struct unknown *unknown;

	diagnosis->unknowns = grow(diagnosis, diagnosis->unknowns, &diagnosis->unknown_count,
				   sizeof(diagnosis->unknowns[0]));
	unknown = &diagnosis->unknowns[diagnosis->unknown_count - 1];
	unknown->object = unknown->where = "";
	return unknown;
}

struct note *diagnosis_note(struct diagnosis *diagnosis, const char *topic, const char *object,
			    const char *text)
{
	struct note *note;

	diagnosis->notes = grow(diagnosis, diagnosis->notes, &diagnosis->note_count,
				sizeof(diagnosis->notes[0]));
	note = &diagnosis->notes[diagnosis->note_count - 1];
	*note = (struct note){ .topic = topic, .object = object, .text = text };
	return note;
}

static int by_weight(const void *a, const void *b)
{
	const struct finding *one = a, *two = b;
	int order;

	if (one->severity != two->severity)
		return one->severity > two->severity ? -1 : 1;
	if (one->impact != two->impact)
		return one->impact > two->impact ? -1 : 1;
	order = strcmp(one->check, two->check);
	return order ? order : strverscmp(one->object, two->object);
}

void diagnosis_sort(struct diagnosis *diagnosis)
{
	if (diagnosis->finding_count)
		qsort(diagnosis->findings, diagnosis->finding_count, sizeof(diagnosis->findings[0]),
		      by_weight);
}

unsigned diagnosis_count(const struct diagnosis *diagnosis, enum severity severity)
{
	unsigned count = 0;

	for (size_t i = 0; i < diagnosis->finding_count; i++)
		count += diagnosis->findings[i].severity == severity;
	return count;
}

int diagnosis_status(const struct diagnosis *diagnosis)
{
	if (diagnosis_count(diagnosis, SEVERITY_ERROR))
		return DIAGNOSIS_ERRORS;
	return diagnosis_count(diagnosis, SEVERITY_WARNING) ? DIAGNOSIS_WARNINGS
							    : DIAGNOSIS_HEALTHY;
}

const char *severity_name(enum severity severity)
{
	static const char *const names[] = { "info", "warning", "error" };

	return names[severity];
}

void diagnosis_free(struct diagnosis *diagnosis)
{
	scratch_free(&diagnosis->scratch);
	*diagnosis = (struct diagnosis){ 0 };
}
