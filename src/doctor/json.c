/* SPDX-License-Identifier: BSD-3-Clause */
/* The diagnosis as a JSON object. docs/doctor.md describes it; DIAGNOSIS_SCHEMA is its version. */
#include "diagnosis.h"

#include <string.h>

/* A string of any bytes: what is not UTF-8 becomes question marks. */
static json_t *text(const char *bytes)
{
	json_t *string = json_string(bytes ? bytes : "");
	char copy[1024];

	if (string)
		return string;
	snprintf(copy, sizeof(copy), "%s", bytes);
	for (char *c = copy; *c; c++) {
		if ((unsigned char)*c > '~')
			*c = '?';
	}
	return json_string(copy);
}

static json_t *findings_json(const struct diagnosis *diagnosis)
{
	json_t *list = json_array();

	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
					"check", f->check, "severity", severity_name(f->severity),
					"impact", (int)f->impact, "object", text(f->object),
					"title", text(f->title), "where", text(f->where), "value",
					text(f->value), "healthy", text(f->healthy), "why",
					text(f->why), "fix", text(f->fix)));
	}
	return list;
}

static json_t *unknowns_json(const struct diagnosis *diagnosis)
{
	json_t *list = json_array();

	for (size_t i = 0; i < diagnosis->unknown_count; i++) {
		const struct unknown *u = &diagnosis->unknowns[i];

		json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "check", u->check,
						      "object", text(u->object), "where",
						      text(u->where), "why", text(u->why)));
	}
	return list;
}

static json_t *notes_json(const struct diagnosis *diagnosis)
{
	json_t *list = json_array();

	for (size_t i = 0; i < diagnosis->note_count; i++) {
		const struct note *n = &diagnosis->notes[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:o}", "topic", n->topic, "object",
						text(n->object), "text", text(n->text)));
	}
	return list;
}

json_t *diagnosis_json(const struct diagnosis *diagnosis)
{
	static const char *const verdicts[] = { "healthy", "warnings", "errors" };

	const char *summary = diagnosis->lead ? diagnosis->lead : diagnosis->summary;

	return json_pack("{s:i, s:s, s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o*, s:o*}",
			 "schema", DIAGNOSIS_SCHEMA, "godwit", GODWIT_VERSION, "host",
			 text(diagnosis->host), "verdict", verdicts[diagnosis_status(diagnosis)],
			 "checks_run", (int)diagnosis->checks_run, "checks_skipped",
			 (int)diagnosis->checks_skipped, "errors",
			 (int)diagnosis_count(diagnosis, SEVERITY_ERROR), "warnings",
			 (int)diagnosis_count(diagnosis, SEVERITY_WARNING), "interval_ms",
			 (int)diagnosis->interval_ms, "findings", findings_json(diagnosis),
			 "unknown", unknowns_json(diagnosis), "notes", notes_json(diagnosis),
			 "summary", summary ? text(summary) : NULL, "conclusion",
			 diagnosis->conclusion ? text(diagnosis->conclusion) : NULL);
}
