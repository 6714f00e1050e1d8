/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The diagnosis as text. Findings of one check with one value are one entry that names its objects: a host with eight NICs
 * that all lack the same thing has one problem. The same goes for what could not be seen, by reason.
 */
#include <string.h>

#include "diagnosis.h"

#define FINDINGS_SHOWN 5u
#define OBJECTS_SHOWN  4u
/* Remarks of one topic: the NICs of a host are alike most often. */
#define NOTES_SHOWN 2u
#define INDENT	    9u
#define COLUMNS	    80u

static const char *colour_of(const struct diagnosis_style *style, enum severity severity)
{
	static const char *const colours[] = { "\033[36m", "\033[33m", "\033[31m" };

	return style->colour ? colours[severity] : "";
}

static const char *plain(const struct diagnosis_style *style)
{
	return style->colour ? "\033[0m" : "";
}

void print_wrapped(FILE *out, unsigned indent, unsigned columns, const char *text)
{
	unsigned column = indent;

	while (*text) {
		size_t length = strcspn(text, " \n");

		if (column > indent && column + 1 + length > columns) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		/* What comes from files and from other hosts is shown, and not sent to the terminal as it is. */
		for (size_t i = 0; i < length; i++)
			fputc(text[i] < ' ' && text[i] >= 0 ? '?' : text[i], out);
		column += (unsigned)length;
		text += length;
		if (*text == '\n') {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
		text += *text != '\0';
	}
	fputc('\n', out);
}

static void print_field(FILE *out, const struct diagnosis_style *style, const char *name,
			const char *text)
{
	if (!text || !text[0])
		return;
	fprintf(out, "  %-*s", (int)INDENT - 2, name);
	print_wrapped(out, INDENT, style->columns ? style->columns : COLUMNS, text);
}

static bool alike(const struct finding *one, const struct finding *two)
{
	return strcmp(one->check, two->check) == 0 && one->severity == two->severity &&
	       strcmp(one->title, two->title) == 0 && strcmp(one->value, two->value) == 0;
}

/* Returns the number of findings from `from` on that are one entry. */
static size_t group_length(const struct diagnosis *diagnosis, size_t from)
{
	size_t length = 1;

	while (from + length < diagnosis->finding_count &&
	       alike(&diagnosis->findings[from], &diagnosis->findings[from + length]))
		length++;
	return length;
}

static void print_objects(FILE *out, const struct diagnosis *diagnosis, size_t from, size_t count,
			  const struct diagnosis_style *style)
{
	struct builder line = { 0 };

	for (size_t i = 0; i < count && (style->verbose || i < OBJECTS_SHOWN); i++)
		builder_print(&line, "%s%s", i ? ", " : "", diagnosis->findings[from + i].object);
	if (!style->verbose && count > OBJECTS_SHOWN)
		builder_print(&line, " and %zu more", count - OBJECTS_SHOWN);
	print_field(out, style, "on", line.text);
	builder_free(&line);
}

static void print_finding(const struct diagnosis *diagnosis, size_t from, size_t count,
			  const struct diagnosis_style *style, FILE *out)
{
	static const char *const words[] = { "NOTE", "WARN", "ERROR" };
	const struct finding *finding = &diagnosis->findings[from];
	char read[1024];

	fprintf(out, "\n%s%s%s%*s", colour_of(style, finding->severity), words[finding->severity],
		plain(style), (int)(INDENT - 2 - strlen(words[finding->severity])), "");
	snprintf(read, sizeof(read), "%s [%s]", finding->title, finding->check);
	print_wrapped(out, INDENT - 2, style->columns ? style->columns : COLUMNS, read);
	if (finding->object[0])
		print_objects(out, diagnosis, from, count, style);
	if (finding->healthy && finding->healthy[0])
		snprintf(read, sizeof(read), "%s (healthy: %s)", finding->value, finding->healthy);
	else
		snprintf(read, sizeof(read), "%s", finding->value);
	print_field(out, style, "found", read);
	print_field(out, style, "in", finding->where);
	print_field(out, style, "why", finding->why);
	snprintf(read, sizeof(read), "%s%s", finding->fix ? finding->fix : "",
		 count > 1 ? " (likewise for the others)" : "");
	print_field(out, style, "fix", read);
}

static void print_findings(const struct diagnosis *diagnosis, const struct diagnosis_style *style,
			   FILE *out)
{
	size_t shown = 0, hidden = 0, count;

	for (size_t i = 0; i < diagnosis->finding_count; i += count) {
		count = group_length(diagnosis, i);
		/* Remarks are for those who ask. */
		if (!style->verbose &&
		    (shown == FINDINGS_SHOWN || diagnosis->findings[i].severity == SEVERITY_INFO)) {
			hidden++;
			continue;
		}
		print_finding(diagnosis, i, count, style, out);
		shown++;
	}
	if (hidden)
		fprintf(out, "\n%zu more of less weight: --verbose shows all.\n", hidden);
}

static bool said_before(const struct diagnosis *diagnosis, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (strcmp(diagnosis->unknowns[i].why, diagnosis->unknowns[at].why) == 0)
			return true;
	}
	return false;
}

/* Lists the checks that one reason kept from seeing, each once. */
static void print_unknown_group(const struct diagnosis *diagnosis, size_t at, unsigned columns,
				FILE *out)
{
	const char *why = diagnosis->unknowns[at].why, *last = "";
	struct builder line = { 0 };

	builder_print(&line, "%s:", why);
	for (size_t i = at; i < diagnosis->unknown_count; i++) {
		const struct unknown *unknown = &diagnosis->unknowns[i];

		if (strcmp(unknown->why, why) != 0 || strcmp(unknown->check, last) == 0)
			continue;
		builder_print(&line, "%s %s", last[0] ? "," : "", unknown->check);
		last = unknown->check;
	}
	fputs("  ", out);
	print_wrapped(out, 4, columns, line.text);
	builder_free(&line);
}

static void print_unknowns(const struct diagnosis *diagnosis, const struct diagnosis_style *style,
			   FILE *out)
{
	unsigned columns = style->columns ? style->columns : COLUMNS;

	if (!diagnosis->unknown_count)
		return;
	fputs("\nnot visible, and therefore not judged:\n", out);
	for (size_t i = 0; i < diagnosis->unknown_count; i++) {
		const struct unknown *unknown = &diagnosis->unknowns[i];

		if (style->verbose) {
			struct builder line = { 0 };

			builder_print(&line, "%s%s%s: %s%s%s", unknown->check,
				      unknown->object[0] ? " of " : "", unknown->object,
				      unknown->where, unknown->where[0] ? ": " : "", unknown->why);
			fputs("  ", out);
			print_wrapped(out, 4, columns, line.text);
			builder_free(&line);
		} else if (!said_before(diagnosis, i)) {
			print_unknown_group(diagnosis, i, columns, out);
		}
	}
}

/* Returns how many notes before this one have its topic. */
static size_t same_topic_before(const struct diagnosis *diagnosis, size_t at)
{
	size_t count = 0;

	for (size_t i = 0; i < at; i++)
		count += strcmp(diagnosis->notes[i].topic, diagnosis->notes[at].topic) == 0;
	return count;
}

static void print_notes(const struct diagnosis *diagnosis, const struct diagnosis_style *style,
			FILE *out)
{
	unsigned columns = style->columns ? style->columns : COLUMNS;

	for (size_t i = 0; i < diagnosis->note_count; i++) {
		const struct note *note = &diagnosis->notes[i];
		struct builder line = { 0 };

		if (!style->verbose && same_topic_before(diagnosis, i) >= NOTES_SHOWN)
			continue;

		builder_print(&line, "%s%s%s", note->object, note->object[0] ? ": " : "",
			      note->text);
		fprintf(out, "%s%-*s", i == 0 ? "\n" : "", (int)INDENT + 1, note->topic);
		print_wrapped(out, INDENT + 1, columns, line.text);
		builder_free(&line);
	}
}

static void print_count(FILE *out, unsigned count, const char *what, bool more)
{
	fprintf(out, "%u %s%s%s", count, what, count == 1 ? "" : "s", more ? ", " : "");
}

static void print_verdict(const struct diagnosis *diagnosis, const struct diagnosis_style *style,
			  FILE *out)
{
	unsigned errors = diagnosis_count(diagnosis, SEVERITY_ERROR);
	unsigned warnings = diagnosis_count(diagnosis, SEVERITY_WARNING);
	enum severity worst = errors ? SEVERITY_ERROR : warnings ? SEVERITY_WARNING : SEVERITY_INFO;

	fprintf(out, "%s: %s", diagnosis->host, worst ? colour_of(style, worst) : "");
	if (errors)
		print_count(out, errors, "error", warnings > 0);
	if (warnings)
		print_count(out, warnings, "warning", false);
	if (!errors && !warnings && !diagnosis->summary)
		fputs("healthy", out);
	if (diagnosis->summary)
		fprintf(out, "%s%s", worst ? "; " : "", diagnosis->summary);
	fprintf(out, "%s (%u checks; %zu not visible)\n", worst ? plain(style) : "",
		diagnosis->checks_run, diagnosis->unknown_count);
}

void diagnosis_print(const struct diagnosis *diagnosis, const struct diagnosis_style *style,
		     FILE *out)
{
	print_verdict(diagnosis, style, out);
	if (diagnosis->lead)
		print_wrapped(out, 0, style->columns ? style->columns : COLUMNS, diagnosis->lead);
	print_findings(diagnosis, style, out);
	print_notes(diagnosis, style, out);
	print_unknowns(diagnosis, style, out);
	if (diagnosis->conclusion) {
		fputc('\n', out);
		print_wrapped(out, 0, style->columns ? style->columns : COLUMNS,
			      diagnosis->conclusion);
	}
	if (diagnosis->next) {
		fputs("\nnext: ", out);
		print_wrapped(out, 6, style->columns ? style->columns : COLUMNS, diagnosis->next);
	}
}
