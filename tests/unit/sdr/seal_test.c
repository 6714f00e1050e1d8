/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealed packets: both ends have the secret in $GODWIT_SECRET_FILE, or nothing arrives. */
#include "duo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <godwit/rendezvous.h>

#define SECRET	"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER	"01112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define LENGTH	(8 * DUO_CHUNK)
#define SILENCE 0.3 /* seconds in which nothing has to arrive */
/* A random byte of a description. */
#define NONCE_BYTE 7

static char directory[] = "/tmp/godwit-sdr-seal-XXXXXX";

static const char *file(const char *name, const char *text, mode_t mode)
{
	static char path[2][sizeof(directory) + 16];
	static int turn;
	char *out = path[turn++ % 2];
	FILE *f;

	snprintf(out, sizeof(path[0]), "%s/%s", directory, name);
	unlink(out);
	f = fopen(out, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(out, mode), 0);
	return out;
}

static void use(const char *name, const char *text)
{
	if (text)
		setenv("GODWIT_SECRET_FILE", file(name, text, 0600), 1);
	else
		unsetenv("GODWIT_SECRET_FILE");
}

static void needs_openssl(void)
{
	struct gw_rendezvous_keys keys;

	if (gw_rendezvous_secret_keys(file("probe", SECRET, 0600), "a", 1, "b", 1, &keys) < 0 &&
	    strstr(gw_rendezvous_error(), "without"))
		skip();
}

/* Two ends with a secret each; null: none. */
static void open_both(struct duo *duo, const char *first, const char *second,
		      uint8_t info[2][DUO_INFO])
{
	use("first", first);
	duo_open_end(duo, 0, NULL, info[0]);
	use("second", second);
	duo_open_end(duo, 1, NULL, info[1]);
}

static bool arrives(struct duo *duo, double patience)
{
	struct sdr_recv_handle *recv = duo_recv(duo, 0, LENGTH);
	struct sdr_send_handle *send = duo_send(duo, 0, LENGTH, 0);
	double limit = duo_now() + patience;
	uint8_t *bitmap;
	size_t chunks;
	bool whole;

	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	while (duo_chunks(bitmap, chunks) < chunks && duo_now() < limit)
		duo_nap();
	whole = duo_chunks(bitmap, chunks) == chunks;
	if (whole) {
		assert_memory_equal(duo->memory[1], duo->memory[0], LENGTH);
	} else {
		assert_int_equal(duo_chunks(bitmap, chunks), 0);
		for (uint32_t i = 0; i < LENGTH; i++)
			assert_int_equal(duo->memory[1][i], 0xee);
	}
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	if (whole)
		duo_sent(send);
	return whole;
}

static void test_same_secret(void **state)
{
	uint8_t info[2][DUO_INFO], again[DUO_INFO];
	struct duo duo;

	(void)state;
	needs_openssl();
	open_both(&duo, SECRET, SECRET, info);
	/* Asked for twice, a description is the same: the keys follow from it. */
	assert_int_equal(sdr_qp_info_get(duo.qp[0], again), SDR_SUCCESS);
	assert_memory_equal(again, info[0], 144);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo.qp[i], info[!i]), SDR_SUCCESS);
	for (int i = 0; i < 20; i++)
		assert_true(arrives(&duo, DUO_PATIENCE_S));
	assert_int_equal(sdr_qp_connect(duo.qp[0], info[1]), SDR_ERROR);
	duo_close(&duo);
}

/* A secret at one end only is told at both, before anything is sent. */
static void test_one_secret(void **state)
{
	uint8_t info[2][DUO_INFO];
	struct duo duo;

	(void)state;
	needs_openssl();
	open_both(&duo, SECRET, NULL, info);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo.qp[i], info[!i]), SDR_ERROR);
	duo_close(&duo);
}

static void test_other_secret(void **state)
{
	uint8_t info[2][DUO_INFO];
	struct duo duo;

	(void)state;
	needs_openssl();
	open_both(&duo, SECRET, OTHER, info);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo.qp[i], info[!i]), SDR_SUCCESS);
	assert_false(arrives(&duo, SILENCE));
	duo_close(&duo);
}

/* A description that somebody changed on its way does not make the same keys. */
static void test_changed_description(void **state)
{
	uint8_t info[2][DUO_INFO];
	struct duo duo;

	(void)state;
	needs_openssl();
	open_both(&duo, SECRET, SECRET, info);
	info[1][NONCE_BYTE] ^= 1;
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo.qp[i], info[!i]), SDR_SUCCESS);
	assert_false(arrives(&duo, SILENCE));
	duo_close(&duo);
}

/* One's own description as the peer's: both directions would have one key. */
static void test_own_description(void **state)
{
	uint8_t info[2][DUO_INFO];
	struct duo duo;

	(void)state;
	needs_openssl();
	open_both(&duo, SECRET, SECRET, info);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo.qp[i], info[i]), SDR_ERROR);
	/* And the right one is still welcome. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo.qp[i], info[!i]), SDR_SUCCESS);
	assert_true(arrives(&duo, DUO_PATIENCE_S));
	duo_close(&duo);
}

static void test_bad_files(void **state)
{
	struct sdr_dev_attr attr = { .num_channels = 1, .log_max_qps = 2 };

	(void)state;
	setenv("GODWIT_SECRET_FILE", "/nonexistent/secret", 1);
	assert_null(sdr_context_create(DUO_DEVICE, &attr));
	setenv("GODWIT_SECRET_FILE", file("open", SECRET, 0644), 1);
	assert_null(sdr_context_create(DUO_DEVICE, &attr));
	setenv("GODWIT_SECRET_FILE", file("none", "", 0600), 1);
	assert_null(sdr_context_create(DUO_DEVICE, &attr));
	setenv("GODWIT_SECRET_FILE", directory, 1);
	assert_null(sdr_context_create(DUO_DEVICE, &attr));
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[sizeof(directory) + 16];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_secret),	cmocka_unit_test(test_one_secret),
		cmocka_unit_test(test_other_secret),	cmocka_unit_test(test_changed_description),
		cmocka_unit_test(test_own_description), cmocka_unit_test(test_bad_files),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
