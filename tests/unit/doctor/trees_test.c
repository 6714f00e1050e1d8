/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every check on every tree: silent when the tree is healthy, and speaking when its fault is planted.
 *
 * trees/faults has one section for each fault:
 *
 *	== found CHECK TREE [intent=lossless|lossy] [also=CHECK,CHECK] [severity=info|warning|error]
 *	== unknown CHECK TREE
 *
 * followed by the lines of an overlay. "found" demands a finding of the check, and of no other one of more weight than a
 * remark but those in also=; "unknown" demands that the check says what it could not see, and finds nothing. Every check
 * of the table needs a section of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trees.h"

static void print_findings(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		print_message("  %s %s [%s] %s: %s\n", severity_name(f->severity), f->object,
			      f->check, f->title, f->value);
	}
	for (size_t i = 0; i < diagnosis->unknown_count; i++)
		print_message("  unknown %s: %s: %s\n", diagnosis->unknowns[i].check,
			      diagnosis->unknowns[i].where, diagnosis->unknowns[i].why);
}

static void test_healthy(void **state)
{
	bool clean = true;

	for (size_t i = 0; i < TREE_COUNT; i++) {
		struct diagnosis diagnosis;

		tree_examine(trees[i], "", INTENT_UNKNOWN, &diagnosis);
		if (diagnosis_status(&diagnosis) != DIAGNOSIS_HEALTHY) {
			print_message("%s is not healthy:\n", trees[i]);
			print_findings(&diagnosis);
			clean = false;
		}
		assert_true(diagnosis.checks_run > 20);
		diagnosis_free(&diagnosis);
	}
	assert_true(clean);
}

/* One section of the file. */
struct fault {
	char kind[16];
	char check[32];
	char tree[32];
	char also[128];
	char severity[16];
	enum intent intent;
	/* lines of the overlay */
	char *overlay;
	unsigned line;
};

static void read_word(struct fault *fault, const char *word)
{
	if (strcmp(word, "intent=lossless") == 0)
		fault->intent = INTENT_LOSSLESS;
	else if (strcmp(word, "intent=lossy") == 0)
		fault->intent = INTENT_LOSSY;
	else if (sscanf(word, "also=%127s", fault->also) != 1 &&
		 sscanf(word, "severity=%15s", fault->severity) != 1)
		fail_msg("line %u: %s?", fault->line, word);
}

static void read_heading(char *heading, struct fault *out)
{
	char *save = NULL, *word;

	strtok_r(heading, " ", &save);
	for (unsigned i = 0; (word = strtok_r(NULL, " ", &save)); i++) {
		if (i == 0)
			snprintf(out->kind, sizeof(out->kind), "%s", word);
		else if (i == 1)
			snprintf(out->check, sizeof(out->check), "%s", word);
		else if (i == 2)
			snprintf(out->tree, sizeof(out->tree), "%s", word);
		else
			read_word(out, word);
	}
}

static bool in_list(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += length) {
		if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

static bool judge(const struct fault *fault, const struct diagnosis *diagnosis)
{
	const struct finding *finding = finding_of(diagnosis, fault->check);

	if (strcmp(fault->kind, "unknown") == 0)
		return !finding && unknown_of(diagnosis, fault->check);
	if (!finding || !finding->fix || !finding->fix[0] || !finding->why || !finding->where[0])
		return false;
	if (fault->severity[0] && strcmp(severity_name(finding->severity), fault->severity) != 0)
		return false;
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		if (f->severity > SEVERITY_INFO && strcmp(f->check, fault->check) != 0 &&
		    !in_list(fault->also, f->check))
			return false;
	}
	return true;
}

static bool try_fault(const struct fault *fault)
{
	struct diagnosis diagnosis;
	bool right;

	if (!check_find(check_at, fault->check, strlen(fault->check)))
		fail_msg("line %u: no check %s", fault->line, fault->check);
	tree_examine(fault->tree, fault->overlay, fault->intent, &diagnosis);
	right = judge(fault, &diagnosis);
	if (!right) {
		print_message("trees/faults:%u: %s %s on %s, instead:\n", fault->line, fault->kind,
			      fault->check, fault->tree);
		print_findings(&diagnosis);
	}
	diagnosis_free(&diagnosis);
	return right;
}

static void test_faults(void **state)
{
	static bool planted[256];
	char *text = tree_text("faults"), *at = strstr(text, "\n== ");
	unsigned wrong = 0, count = 0, missing = 0;
	const struct check *check;

	while (at) {
		char *heading = at + 1, *body = strchr(heading, '\n');
		struct fault fault = { .line = 1 };
		char *end = body ? strstr(body, "\n== ") : NULL;

		for (const char *c = text; c < heading; c++)
			fault.line += *c == '\n';
		if (!body)
			break;
		if (end)
			*end = '\0';
		*body = '\0';
		/* A section without lines ends where its heading does. */
		fault.overlay = end == body ? body : body + 1;
		read_heading(heading, &fault);
		wrong += !try_fault(&fault);
		count++;
		for (size_t i = 0; (check = check_at(i)); i++) {
			if (strcmp(check->id, fault.check) == 0)
				planted[i] = true;
		}
		if (end)
			*end = '\n';
		at = end;
	}
	for (size_t i = 0; (check = check_at(i)); i++) {
		/* Checks on logs and clusters have their own faults. */
		if (!planted[i] && check->scope < SCOPE_JOB) {
			print_message("no fault for %s\n", check->id);
			missing++;
		}
	}
	print_message("%u faults planted, %u wrong, %u checks without one\n", count, wrong,
		      missing);
	free(text);
	assert_int_equal(wrong + missing, 0);
}

/* What does not concern a host is not told as unknown, either. */
static void test_gates(void **state)
{
	static const struct {
		const char *tree;
		const char *check;
	} rows[] = {
		{ "vf", "pcie-link" },
		{ "vf", "pfc" },
		{ "vf", "acs" },
		{ "mlx5-ib", "pfc" },
		{ "mlx5-ib", "gid-choice" },
		{ "mlx5-ib", "mtu" },
		{ "bnxt-re", "dcqcn" },
		{ "irdma", "gpudirect" },
		{ "irdma", "job-transport" },
		{ "mlx5-roce", "subnet-manager" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct diagnosis diagnosis;

		tree_examine(rows[i].tree, "", INTENT_UNKNOWN, &diagnosis);
		if (unknown_of(&diagnosis, rows[i].check) || finding_of(&diagnosis, rows[i].check))
			fail_msg("%s speaks on %s", rows[i].check, rows[i].tree);
		diagnosis_free(&diagnosis);
	}
}

/* Each check has all its words, and a name that is its own. */
static void test_table(void **state)
{
	const struct check *check;

	for (size_t i = 0; (check = check_at(i)); i++) {
		assert_ptr_equal(check_find(check_at, check->id, strlen(check->id)), check);
		assert_true(check->impact >= 1 && check->impact <= 100);
		assert_true(check->title && check->healthy && check->why && check->fix &&
			    check->explain);
		assert_true(strlen(check->id) <= 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_gates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
