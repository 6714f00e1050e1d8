/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader on trees that nobody meant well with, and a capture that is read back. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "trees.h"

static char directory[] = "/tmp/godwit-reader-XXXXXX";

static void put_file(const char *name, const char *text, size_t length)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), length);
	close(fd);
}

static void put_link(const char *name, const char *target)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(symlink(target, path), 0);
}

static int make_directory(void **state)
{
	char path[256];

	if (!mkdtemp(directory))
		return -1;
	put_file("plain", "value\n", 6);
	put_file("binary", "a\0b\xff", 4);
	put_file("not", "N/A (no PMA)\n", 13);
	put_link("loop-a", "loop-b");
	put_link("loop-b", "loop-a");
	put_link("out", "/etc/hostname");
	put_link("up", "../../../../../../etc/passwd");
	put_link("self", "/plain");
	snprintf(path, sizeof(path), "%s/fifo", directory);
	if (mkfifo(path, 0644) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/dir", directory);
	if (mkdir(path, 0755) != 0)
		return -1;
	put_link("dir/absolute", "/plain");
	put_link("dir/relative", "../plain");
	return 0;
}

static int remove_directory(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) ? -1 : 0;
}

static struct reader *open_directory(void)
{
	const struct reader_attr attr = { .root = directory };
	struct reader *reader;

	assert_int_equal(reader_open(&attr, &reader), 0);
	return reader;
}

static void assert_state(struct reader *reader, const char *path, enum fact_state state,
			 const char *text)
{
	const struct fact *fact = reader_read(reader, "%s", path);

	if (fact->state != state)
		fail_msg("%s has state %d, not %d", path, fact->state, state);
	assert_string_equal(fact->text, text);
}

static void test_hostile_directory(void **state)
{
	struct reader *reader = open_directory();

	assert_state(reader, "/plain", FACT_KNOWN, "value");
	assert_state(reader, "/self", FACT_KNOWN, "value");
	assert_state(reader, "/dir/absolute", FACT_KNOWN, "value");
	assert_state(reader, "/dir/relative", FACT_KNOWN, "value");
	assert_state(reader, "/nothing", FACT_ABSENT, "");
	assert_state(reader, "/not", FACT_NOT_APPLICABLE, "N/A (no PMA)");
	assert_state(reader, "/loop-a", FACT_MALFORMED, "");
	assert_state(reader, "/fifo", FACT_MALFORMED, "");
	assert_state(reader, "/dir", FACT_MALFORMED, "");
	/* Links do not leave the root: these names do not exist inside. */
	assert_state(reader, "/out", FACT_ABSENT, "");
	assert_state(reader, "/up", FACT_ABSENT, "");
	assert_state(reader, "/../../../../../etc/passwd", FACT_ABSENT, "");
	assert_int_equal(reader_read(reader, "/binary")->length, 4);
	assert_int_equal(reader_list(reader, "/plain")->count, 0);
	reader_close(reader);
}

static void test_huge_file(void **state)
{
	struct reader *reader;
	const struct fact *fact;
	char path[256];

	put_file("huge", "1", 1);
	snprintf(path, sizeof(path), "%s/huge", directory);
	assert_int_equal(truncate(path, (off_t)1 << 40), 0);
	reader = open_directory();
	fact = reader_read(reader, "/huge");
	assert_int_equal(fact->length, READER_FILE_MAX);
	assert_true(fact->truncated);
	reader_close(reader);
	unlink(path);
}

static void test_not_a_root(void **state)
{
	struct reader_attr attr = { .root = "/nonexistent" };
	struct reader *reader;
	char path[256];

	assert_int_equal(reader_open(&attr, &reader), -ENOENT);
	snprintf(path, sizeof(path), "%s/binary", directory);
	attr.root = path;
	assert_int_equal(reader_open(&attr, &reader), -EINVAL);
	snprintf(path, sizeof(path), "%s/fifo", directory);
	assert_int_equal(reader_open(&attr, &reader), -EINVAL);
}

/* All that an examination says, as one text. */
static char *words_of(const struct diagnosis *diagnosis)
{
	json_t *object = diagnosis_json(diagnosis);
	char *text = json_dumps(object, JSON_INDENT(1));

	json_decref(object);
	return text;
}

static char *examine(struct reader *reader)
{
	const struct exam_attr attr = { 0 };
	struct diagnosis diagnosis = { 0 };
	char *words;

	assert_int_equal(exam_run(reader, &attr, &diagnosis), 0);
	words = words_of(&diagnosis);
	diagnosis_free(&diagnosis);
	return words;
}

/* A capture of any tree, with its errors and its second samples, is examined with the same result: as tar and unpacked. */
static void test_capture(void **state)
{
	/* The first NIC of mlx5-roce loses packets between the samples; the other trees do not have it. */
	static const char overlay[] =
		"/.godwit/kmsg !EACCES\n/.godwit/netlink/dcb/ens1np0 !EOPNOTSUPP\n"
		"/.godwit/again/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/"
		"infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err 4003\n";

	for (size_t i = 0; i < TREE_COUNT; i++) {
		struct reader_attr attr = { 0 };
		struct reader *reader = tree_open(trees[i], overlay);
		char *first = examine(reader), *second, *third;
		char tar[256], unpacked[256], command[800];

		snprintf(tar, sizeof(tar), "%s/%s.tar", directory, trees[i]);
		snprintf(unpacked, sizeof(unpacked), "%s/%s", directory, trees[i]);
		assert_int_equal(reader_capture(reader, tar), 0);
		reader_close(reader);
		attr.root = tar;
		assert_int_equal(reader_open(&attr, &reader), 0);
		second = examine(reader);
		reader_close(reader);
		assert_string_equal(first, second);
		snprintf(command, sizeof(command), "mkdir %s && tar -C %s -xf %s", unpacked,
			 unpacked, tar);
		assert_int_equal(system(command), 0);
		attr.root = unpacked;
		assert_int_equal(reader_open(&attr, &reader), 0);
		third = examine(reader);
		reader_close(reader);
		assert_string_equal(first, third);
		free(first);
		free(second);
		free(third);
	}
}

/* Every length of a capture that was cut short is refused, or read without harm. */
static void test_cut_capture(void **state)
{
	struct reader *reader = tree_open("vf", "");
	char *words = examine(reader), *bytes = calloc(1, 1 << 20);
	struct reader_attr attr = { 0 };
	char path[256];
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "%s/cut.tar", directory);
	assert_int_equal(reader_capture(reader, path), 0);
	reader_close(reader);
	file = fopen(path, "rbe");
	length = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	for (size_t cut = 0; cut < length - 1024; cut += 211) {
		put_file("cut.tar", bytes, cut);
		attr.root = path;
		assert_int_equal(reader_open(&attr, &reader), -EINVAL);
	}
	free(words);
	free(bytes);
}

static void test_long_names(void **state)
{
	char overlay[1200] = "/sys", target[300];
	struct reader *reader;
	struct reader_attr attr = { 0 };
	char file[600], path[256];

	for (unsigned i = 0; i < 20; i++)
		strcat(overlay, "/0000:00:00.0");
	snprintf(file, sizeof(file), "%s", overlay);
	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = '\0';
	snprintf(overlay + strlen(overlay), 800, "/value 7\n/long -> %s\n", target);
	reader = tree_open("vf", overlay);
	assert_string_equal(reader_read(reader, "%s/value", file)->text, "7");
	assert_string_equal(reader_link(reader, "/long")->text, target);
	snprintf(path, sizeof(path), "%s/long.tar", directory);
	assert_int_equal(reader_capture(reader, path), 0);
	reader_close(reader);
	attr.root = path;
	assert_int_equal(reader_open(&attr, &reader), 0);
	assert_string_equal(reader_read(reader, "%s/value", file)->text, "7");
	assert_string_equal(reader_link(reader, "/long")->text, target);
	reader_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_directory), cmocka_unit_test(test_huge_file),
		cmocka_unit_test(test_not_a_root),	  cmocka_unit_test(test_capture),
		cmocka_unit_test(test_cut_capture),	  cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
