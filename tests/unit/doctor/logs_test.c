/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logs of a job: every check speaks when its fault is planted in a healthy log, and no healthy log raises anything.
 *
 * logs/ has healthy logs of four ranks on two hosts, written after the formats of NCCL 2.18 to 2.28 and of launchers.
 * logs/faults has one section for each fault:
 *
 *	== found CHECK LOG [also=CHECK,CHECK] [severity=info|warning|error]
 *	== unknown CHECK LOG
 *	== silent CHECK LOG
 *
 * followed by edits, in order:
 *
 *	s|OLD|NEW|		replace OLD in every line
 *	@WORD s|OLD|NEW|	the same in lines that contain WORD
 *	d|WORD|			take out lines that contain WORD
 *	a|LINE			add a line at the end
 *	?|WORD|			the finding must say WORD
 *
 * "found" demands a finding of the check, and of no other one of more weight than a remark but those in also=; "silent" that
 * nothing of more weight than a remark is found, the check itself named for what could be taken for a fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor/job.h"
#include "trees.h"

static const char *const healthy[] = { "ib-2.18", "slurm-2.21", "torchrun-2.24", "mpi-2.27",
				       "file-2.28" };

static char *log_text(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "../logs/%s", name);
	return tree_text(path);
}

static void examine(const char *text, struct diagnosis *out)
{
	const struct exam_attr attr = { 0 };
	struct joblog log = { 0 };

	*out = (struct diagnosis){ 0 };
	joblog_read_bytes(&log, "log", text, strlen(text));
	joblog_seal(&log);
	assert_int_equal(job_run(&log, &attr, out), 0);
	joblog_free(&log);
	diagnosis_read(out);
}

static void print_findings(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		print_message("  %s %s [%s] %s: %s\n", severity_name(f->severity), f->object,
			      f->check, f->title, f->value);
	}
	for (size_t i = 0; i < diagnosis->unknown_count; i++)
		print_message("  unknown %s: %s\n", diagnosis->unknowns[i].check,
			      diagnosis->unknowns[i].why);
}

static void test_healthy(void **state)
{
	bool clean = true;

	for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
		struct diagnosis diagnosis;
		char name[64];
		char *text;

		snprintf(name, sizeof(name), "%s.log", healthy[i]);
		text = log_text(name);
		examine(text, &diagnosis);
		if (diagnosis.finding_count || diagnosis.unknown_count) {
			print_message("%s is not healthy:\n", healthy[i]);
			print_findings(&diagnosis);
			clean = false;
		}
		assert_string_equal(diagnosis.host,
				    "job of 4 ranks (4 processes on 2 hosts in 1 log)");
		assert_non_null(strstr(diagnosis.lead, "Nothing is wrong"));
		diagnosis_free(&diagnosis);
		free(text);
	}
	assert_true(clean);
}

/* Replaces text by a copy in which lines that contain `only` have `new` for each `old`. */
static char *replace(char *text, const char *only, const char *old, const char *new)
{
	struct builder out = { 0 };
	char *line = text;

	while (*line) {
		size_t length = strcspn(line, "\n");
		char kept = line[length];

		line[length] = '\0';
		if (only && !strstr(line, only)) {
			builder_add(&out, line, length);
		} else {
			const char *at = line, *hit;

			while ((hit = strstr(at, old))) {
				builder_add(&out, at, (size_t)(hit - at));
				builder_add(&out, new, strlen(new));
				at = hit + strlen(old);
			}
			builder_add(&out, at, strlen(at));
		}
		builder_add(&out, "\n", 1);
		line += length + (kept == '\n');
	}
	free(text);
	builder_add(&out, "", 1);
	return out.text;
}

static char *take_out(char *text, const char *word)
{
	struct builder out = { 0 };

	for (char *line = text; *line;) {
		size_t length = strcspn(line, "\n");
		char *copy = strndup(line, length);

		if (!strstr(copy, word)) {
			builder_add(&out, copy, length);
			builder_add(&out, "\n", 1);
		}
		free(copy);
		line += length + (line[length] == '\n');
	}
	free(text);
	builder_add(&out, "", 1);
	return out.text;
}

static char *add_line(char *text, const char *line)
{
	struct builder out = { 0 };

	builder_add(&out, text, strlen(text));
	builder_add(&out, line, strlen(line));
	builder_add(&out, "\n", 2);
	free(text);
	return out.text;
}

/* One edit; returns the text after it. */
static char *edit(char *text, char *line)
{
	char *only = NULL, *save = NULL, *old, *new;

	if (line[0] == '@') {
		only = line + 1;
		line = strstr(only, " s|");
		assert_non_null(line);
		*line++ = '\0';
	}
	if (strncmp(line, "a|", 2) == 0)
		return add_line(text, line + 2);
	old = strtok_r(line + 2, "|", &save);
	assert_non_null(old);
	if (line[0] == 'd')
		return take_out(text, old);
	assert_int_equal(line[0], 's');
	new = strtok_r(NULL, "|", &save);
	return replace(text, only, old, new ? new : "");
}

static bool in_list(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; at && (at = strstr(at, name)); at += length) {
		if ((at == list || at[-1] == ',' || at[-1] == '=') &&
		    (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

/* Whether the finding, or another of the same check, says the word. */
static bool says(const struct diagnosis *diagnosis, const char *check, const char *word)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		if (strcmp(f->check, check) == 0 &&
		    (strstr(f->value, word) || strstr(f->object, word) || strstr(f->title, word) ||
		     strstr(f->fix, word) || (f->brief && strstr(f->brief, word))))
			return true;
	}
	return diagnosis->lead && strstr(diagnosis->lead, word);
}

static bool judge(const struct diagnosis *diagnosis, const char *kind, const char *check,
		  const char *also, const char *severity)
{
	const struct finding *finding = finding_of(diagnosis, check);

	if (strcmp(kind, "unknown") == 0)
		return !finding && unknown_of(diagnosis, check);
	if (strcmp(kind, "silent") == 0)
		return !finding && diagnosis_status(diagnosis) == DIAGNOSIS_HEALTHY;
	if (!finding || !finding->fix[0] || !finding->where[0] || !finding->object[0])
		return false;
	if (severity && strcmp(severity_name(finding->severity), severity) != 0)
		return false;
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		if (f->severity > SEVERITY_INFO && strcmp(f->check, check) != 0 &&
		    !in_list(also, f->check))
			return false;
	}
	return true;
}

struct words {
	const char *word[8];
	unsigned count;
};

static char *edited(const char *log, char *body, struct words *words)
{
	char name[64];
	char *text, *save = NULL;

	snprintf(name, sizeof(name), "%s.log", log);
	text = log_text(name);
	for (char *line = strtok_r(body, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (line[0] == '#')
			continue;
		if (line[0] == '?') {
			assert_true(words->count < 8);
			line[strlen(line) - 1] = '\0';
			words->word[words->count++] = line + 2;
			continue;
		}
		text = edit(text, line);
	}
	return text;
}

static bool try_fault(char *heading, char *body, char check_name[32])
{
	char *save = NULL, *kind, *check, *log, *word, *also = NULL, *severity = NULL, *text;
	struct words words = { 0 };
	struct diagnosis diagnosis;
	bool right;

	strtok_r(heading, " ", &save);
	kind = strtok_r(NULL, " ", &save);
	check = strtok_r(NULL, " ", &save);
	log = strtok_r(NULL, " ", &save);
	while ((word = strtok_r(NULL, " ", &save))) {
		if (strncmp(word, "also=", 5) == 0)
			also = word + 5;
		else if (strncmp(word, "severity=", 9) == 0)
			severity = word + 9;
		else
			fail_msg("%s?", word);
	}
	snprintf(check_name, 32, "%s", check);
	if (!check_find(check_at, check, strlen(check)))
		fail_msg("no check %s", check);
	text = edited(log, body, &words);
	examine(text, &diagnosis);
	right = judge(&diagnosis, kind, check, also, severity);
	for (unsigned i = 0; i < words.count; i++) {
		if (!says(&diagnosis, check, words.word[i])) {
			print_message("%s does not say \"%s\"\n", check, words.word[i]);
			right = false;
		}
	}
	if (!right) {
		print_message("logs/faults: %s %s in %s, instead:\n", kind, check, log);
		print_findings(&diagnosis);
		print_message("  %s\n", diagnosis.lead);
	}
	diagnosis_free(&diagnosis);
	free(text);
	return right;
}

static void test_faults(void **state)
{
	char *text = log_text("faults"), *at = strstr(text, "\n== ");
	char planted[256][32];
	unsigned wrong = 0, count = 0, missing = 0;
	const struct check *check;

	while (at) {
		char *heading = at + 1, *body = strchr(heading, '\n'), *end;

		assert_non_null(body);
		end = strstr(body, "\n== ");
		if (end)
			*end = '\0';
		*body = '\0';
		assert_true(count < 256);
		wrong += !try_fault(heading, end == body ? body : body + 1, planted[count]);
		count++;
		at = end;
		if (end)
			*end = '\n';
	}
	for (size_t i = 0; (check = check_at(i)); i++) {
		bool found_it = check->scope != SCOPE_JOB;

		for (unsigned j = 0; j < count && !found_it; j++)
			found_it = strcmp(planted[j], check->id) == 0;
		if (!found_it)
			print_message("no fault for %s\n", check->id);
		missing += !found_it;
	}
	print_message("%u faults planted, %u wrong, %u checks without one\n", count, wrong,
		      missing);
	free(text);
	assert_int_equal(wrong + missing, 0);
}

/* A note about the connections from one rank to another. */
static const char *pair_text(const struct diagnosis *diagnosis, const char *object)
{
	for (size_t i = 0; i < diagnosis->note_count; i++) {
		if (strcmp(diagnosis->notes[i].topic, "pair") == 0 &&
		    strcmp(diagnosis->notes[i].object, object) == 0)
			return diagnosis->notes[i].text;
	}
	return "";
}

static void test_pairs(void **state)
{
	for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
		struct diagnosis diagnosis;
		char name[64];
		char *text;

		snprintf(name, sizeof(name), "%s.log", healthy[i]);
		text = log_text(name);
		examine(text, &diagnosis);
		assert_non_null(strstr(pair_text(&diagnosis, "rank 1 (node1) -> rank 2 (node2)"),
				       "/GDRDMA, 2 channels, communicator 0x6a3f9d2210c4e7b1"));
		assert_non_null(strstr(pair_text(&diagnosis, "rank 3 (node2) -> rank 0 (node1)"),
				       "/GDRDMA, 2 channels"));
		assert_non_null(
			strstr(pair_text(&diagnosis, "rank 0 (node1) -> rank 1 (node1)"), "P2P/"));
		diagnosis_free(&diagnosis);
		free(text);
	}
}

/* One process with a rank for each of its GPUs, as nccl-tests has it: ranks are still told apart. */
static void test_threads(void **state)
{
	struct diagnosis diagnosis;
	char *text = log_text("file-2.28.log");

	text = replace(text, NULL, "node1:4102:", "node1:4101:");
	text = replace(text, NULL, "node2:5202:", "node2:5201:");
	examine(text, &diagnosis);
	assert_string_equal(diagnosis.host, "job of 4 ranks (2 processes on 2 hosts in 1 log)");
	assert_non_null(strstr(pair_text(&diagnosis, "rank 0 (node1) -> rank 1 (node1)"), "P2P/"));
	assert_non_null(
		strstr(pair_text(&diagnosis, "rank 1 (node1) -> rank 2 (node2)"), "GDRDMA"));
	assert_non_null(
		strstr(pair_text(&diagnosis, "rank 3 (node2) -> rank 0 (node1)"), "GDRDMA"));
	diagnosis_free(&diagnosis);
	free(text);
}

/* Groups without a communicator of all ranks: their ranks are not the job's. The same GPUs again: another run. */
static void test_groups_and_runs(void **state)
{
	struct diagnosis diagnosis;
	char *text = log_text("file-2.28.log"), *again = log_text("file-2.28.log");

	/* Each process has a GPU of its own, and the largest communicator has two of the four. */
	text = take_out(text, "0x6a3f9d2210c4e7b1");
	text = replace(text, "node1:4101", "busId 18000", "busId 17000");
	examine(text, &diagnosis);
	assert_string_equal(diagnosis.host, "job of 4 ranks (4 processes on 2 hosts in 1 log)");
	assert_non_null(strstr(pair_text(&diagnosis, "node1 process 4101 -> node2 process 5201"),
			       "color 0"));
	diagnosis_free(&diagnosis);
	free(text);

	text = log_text("file-2.28.log");
	again = replace(again, NULL, "node1:41", "node1:61");
	again = replace(again, NULL, "node2:52", "node2:62");
	again = replace(again, NULL, "0x6a3f9d2210c4e7b1", "0x6a3f9d2210c4e7b2");
	text = add_line(text, again);
	examine(text, &diagnosis);
	assert_string_equal(diagnosis.host, "job of 4 ranks (8 processes on 2 hosts in 1 log)");
	assert_int_equal(diagnosis_status(&diagnosis), DIAGNOSIS_HEALTHY);
	assert_string_equal(diagnosis.notes[1].topic, "runs");
	diagnosis_free(&diagnosis);
	free(text);
	free(again);
}

/* The line of a place is the file's, also behind carriage returns. */
static void test_places(void **state)
{
	static const char text[] = "x\r\ny\rz\nnode1:7:7 [0] a.cc:1 NCCL WARN trouble\n";
	struct joblog log = { 0 };

	joblog_read_bytes(&log, "log", text, sizeof(text) - 1);
	assert_int_equal(log.event_count, 1);
	assert_int_equal(log.events[0].place.line, 3);
	joblog_free(&log);
}

/* The two halves of a split belong to different communicators, and their ranks are named by the job's. */
static void test_split(void **state)
{
	struct diagnosis diagnosis;
	char *text = log_text("file-2.28.log");

	examine(text, &diagnosis);
	assert_non_null(
		strstr(pair_text(&diagnosis, "rank 0 (node1) -> rank 2 (node2)"), "color 0"));
	assert_non_null(
		strstr(pair_text(&diagnosis, "rank 3 (node2) -> rank 1 (node1)"), "color 1"));
	diagnosis_free(&diagnosis);
	free(text);
}

/* Headers behind labels of launchers, and lines that only look like one. */
static void test_header(void **state)
{
	static const struct {
		const char *line;
		const char *host;
		long pid;
		long rank;
	} rows[] = {
		{ "node1:7:8 [0] NCCL INFO x", "node1", 7, -1 },
		{ "3: node1:7:8 [0] NCCL INFO x", "node1", 7, 3 },
		{ "[rank5]:node1:7:8 [0] NCCL INFO x", "node1", 7, 5 },
		{ "[1,4]<stderr>:node1:7:8 [0] NCCL INFO x", "node1", 7, 4 },
		{ "[default3]:node1:7:8 [0] NCCL INFO x", "node1", 7, -1 },
		{ "[2026-11-16 08:04:49] vm:9:10 [0] misc/socket.cc:72 NCCL WARN x", "vm", 9, -1 },
		{ "worker-0 | node1.example.org:7:8 [15] NCCL INFO x", "node1.example.org", 7, -1 },
		{ "node1:7 [0] NCCL INFO x", NULL, 0, -1 },
		{ "NCCL INFO x", NULL, 0, -1 },
		{ "[0] NCCL WARN x", NULL, 0, -1 },
		{ ":7:8 [0] NCCL INFO x", NULL, 0, -1 },
		{ "node1:7:8 [0] NCCL TRACE x", NULL, 0, -1 },
		{ "a:99999999999999999999:1 [0] NCCL INFO x", NULL, 0, -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct joblog_line line;
		bool parsed = joblog_line_parse(rows[i].line, &line);

		if (parsed != (rows[i].host != NULL))
			fail_msg("%s", rows[i].line);
		if (!parsed)
			continue;
		assert_int_equal(line.host_length, strlen(rows[i].host));
		assert_memory_equal(line.host, rows[i].host, line.host_length);
		assert_int_equal(line.pid, rows[i].pid);
		assert_int_equal(line.launcher_rank, rows[i].rank);
		assert_string_equal(line.text, "x");
	}
}

/* Two processes that write at once, colours, and a progress bar before a line. */
static void test_mangled(void **state)
{
	static const char text[] =
		"node1:7:7 [0] NCCL INFO Using network IB\nnode2:8:8 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.2<0>\n"
		"node1:7:7 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>node2:8:8 [0] NCCL INFO Using network IB\n"
		" 12%|##  | 3/9\rnode1:7:7 [0] NCCL INFO \033[32mNCCL version 2.28.9+cuda13.0\033[0m\n"
		"node1:7:7 [0] NCCL INFO cut in the mid";
	struct joblog log = { 0 };

	joblog_read_bytes(&log, "log", text, sizeof(text) - 1);
	joblog_seal(&log);
	assert_int_equal(log.process_count, 2);
	assert_string_equal(log.processes[0].bootstrap, "eth0:10.0.0.1<0>");
	assert_string_equal(log.processes[0].version, "2.28.9+cuda13.0");
	assert_string_equal(log.processes[1].network, "IB");
	joblog_free(&log);
}

/* What is kept does not grow with the log: the same lines again, and ever new processes and threads. */
static void test_bounds(void **state)
{
	struct joblog log = { 0 };
	char *text = log_text("file-2.28.log");
	struct builder flood = { 0 };
	uint32_t texts;

	joblog_read_bytes(&log, "log", text, strlen(text));
	texts = log.text_count;
	for (unsigned i = 0; i < 50; i++)
		joblog_read_bytes(&log, "log", text, strlen(text));
	assert_int_equal(log.text_count, texts);
	assert_int_equal(log.process_count, 4);
	for (unsigned i = 0; i < JOBLOG_PROCESSES_MAX + 1000; i++)
		builder_print(&flood, "h%u:%u:1 [0] NCCL INFO Using network N%u\n", i, i, i);
	joblog_read_bytes(&log, "flood", flood.text, flood.length);
	assert_int_equal(log.process_count, JOBLOG_PROCESSES_MAX);
	assert_true(log.text_count <= JOBLOG_TEXTS_MAX);
	assert_true(log.dropped > 0);
	joblog_seal(&log);
	builder_free(&flood);
	free(text);
	joblog_free(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy), cmocka_unit_test(test_faults),
		cmocka_unit_test(test_pairs),	cmocka_unit_test(test_split),
		cmocka_unit_test(test_header),	cmocka_unit_test(test_mangled),
		cmocka_unit_test(test_bounds),	cmocka_unit_test(test_threads),
		cmocka_unit_test(test_places),	cmocka_unit_test(test_groups_and_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
