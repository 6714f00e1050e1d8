/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks meet, and what each of them is told when they do not. Every rank is a process. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <godwit/rendezvous.h>

#include "collective/hub_record.h"
#include "crew.h"

static void expect(const struct crew *crew, uint32_t slot, int rc, const char *part)
{
	const struct member *member = &crew->members[slot];

	if (member->rc != rc || !strstr(member->why, part))
		print_message("process %u: %d, \"%s\"; wanted %d, \"%s\"\n", slot, member->rc,
			      member->why, rc, part);
	assert_int_equal(member->rc, rc);
	assert_non_null(strstr(member->why, part));
}

static void note_address(struct crew *crew, uint32_t rank, struct mail *mail)
{
	for (uint32_t r = 0; r < crew->size; r++) {
		if (strcmp(mail->ops->address(mail, r), "127.0.0.1") != 0)
			crew->members[rank].note++;
	}
	crew->members[rank].rtt_ns = mail->ops->rtt_ns(mail);
	/* so that no one leaves before all have come here */
	crew->members[rank].point = 1;
	CREW_UNTIL(mail, *crew->stage == 1);
}

/* Ranks that start before rank 0 listens wait for it. */
static void test_ranks_meet_in_any_order(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 8);
	for (uint32_t rank = 7; rank > 0; rank--)
		crew_start(&crew, rank, note_address);
	/* longer than a rendezvous is tried again by default */
	crew_sleep_ms(1500);
	crew_start(&crew, 0, note_address);
	for (uint32_t rank = 0; rank < 8; rank++)
		CREW_AWAIT(crew.members[rank].point == 1);
	*crew.stage = 1;
	for (uint32_t rank = 0; rank < 8; rank++) {
		crew_join(&crew, rank, 0);
		expect(&crew, rank, 0, "");
		assert_int_equal(crew.members[rank].note, 0);
		assert_in_range(crew.members[rank].rtt_ns, 1000, 1000 * MS);
		assert_int_equal(crew.members[rank].rtt_ns, crew.members[0].rtt_ns);
		assert_int_equal(crew.members[rank].losses, 0);
	}
	crew_free(&crew);
}

static void test_missing_ranks_are_named_everywhere(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 8);
	crew.meet_ns = 700 * MS;
	for (uint32_t rank = 0; rank < 8; rank++) {
		if (rank != 3 && rank != 5 && rank != 7)
			crew_start(&crew, rank, NULL);
	}
	for (uint32_t rank = 0; rank < 8; rank++) {
		if (rank == 3 || rank == 5 || rank == 7)
			continue;
		crew_join(&crew, rank, 0);
		expect(&crew, rank, -ETIMEDOUT, "ranks 3, 5 and 7 of 8 did not come within 0.7 s");
	}
	crew_free(&crew);
}

static void test_a_rank_that_comes_twice_ends_the_meeting(void **state)
{
	struct crew crew;
	char text[64];

	crew_prepare(&crew, 4);
	for (uint32_t rank = 0; rank < 3; rank++)
		crew_start(&crew, rank, NULL);
	crew_sleep_ms(100);
	crew_start_as(&crew, 3, 2, 4, NULL, NULL);
	for (uint32_t slot = 0; slot < 4; slot++)
		crew_join(&crew, slot, 0);
	for (uint32_t slot = 0; slot < 4; slot++) {
		expect(&crew, slot, -EEXIST, "rank 2 came twice: ");
		snprintf(text, sizeof(text), "process %d on 127.0.0.1", crew.members[2].pid);
		expect(&crew, slot, -EEXIST, text);
		snprintf(text, sizeof(text), "process %d on 127.0.0.1", crew.members[3].pid);
		expect(&crew, slot, -EEXIST, text);
	}
	crew_free(&crew);
}

static void test_different_sizes_end_the_meeting(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	crew_start(&crew, 0, NULL);
	crew_start(&crew, 1, NULL);
	crew_sleep_ms(100);
	crew_start_as(&crew, 3, 3, 16, NULL, NULL);
	for (uint32_t slot = 0; slot < 4; slot++) {
		if (slot == 2)
			continue;
		crew_join(&crew, slot, 0);
		expect(&crew, slot, -EPROTO, "rank 3 (process");
		expect(&crew, slot, -EPROTO, "one of 16 ranks, rank 0 as one of 4");
	}
	crew_free(&crew);
}

/* Sends rank 0 a first message of `length` bytes, and reads its answers until it hangs up. */
static void call(const struct crew *crew, const void *data, size_t length)
{
	struct gw_rendezvous_attr attr = { .host = "127.0.0.1",
					   .port = crew->port,
					   .service = "rank",
					   .peer_service = "rank 0",
					   .retry_ns = 10000 * MS };
	struct gw_rendezvous_message message;
	struct gw_rendezvous *r;

	assert_int_equal(gw_rendezvous_connect(&attr, &r), 0);
	assert_int_equal(gw_rendezvous_send(r, GW_RENDEZVOUS_KIND_MIN, data, length), 0);
	while (gw_rendezvous_recv(r, &message) == 0)
		;
	gw_rendezvous_close(r);
}

static void test_another_version_ends_the_meeting(void **state)
{
	struct hub_record_join join = { .rank = 2, .version = 77, .size = 3, .process = 4711 };
	uint8_t bytes[HUB_JOIN_MAX];
	size_t length;
	struct crew crew;

	crew_prepare(&crew, 3);
	crew_start(&crew, 0, NULL);
	crew_start(&crew, 1, NULL);
	crew_sleep_ms(100);
	length = hub_record_encode_join(&join, bytes);
	call(&crew, bytes, length);
	for (uint32_t slot = 0; slot < 2; slot++) {
		crew_join(&crew, slot, 0);
		expect(&crew, slot, -EPROTO,
		       "rank 2 (process 4711 on 127.0.0.1) has version 77 of");
	}
	crew_free(&crew);
}

/* Connections that are no rank's do not disturb. */
static void test_strangers_do_not_end_the_meeting(void **state)
{
	struct hub_record_join join = { .rank = 9, .version = HUB_VERSION, .size = 2 };
	uint8_t bytes[HUB_JOIN_MAX];
	size_t length;
	struct crew crew;

	crew_prepare(&crew, 2);
	crew_start(&crew, 0, NULL);
	call(&crew, "nonsense", 8);
	call(&crew, "", 0);
	length = hub_record_encode_join(&join, bytes);
	call(&crew, bytes, length);
	call(&crew, bytes, length - 1);
	join.rank = 0;
	length = hub_record_encode_join(&join, bytes);
	call(&crew, bytes, length);
	crew_start(&crew, 1, NULL);
	for (uint32_t slot = 0; slot < 2; slot++) {
		crew_join(&crew, slot, 0);
		expect(&crew, slot, 0, "");
	}
	crew_free(&crew);
}

static void write_secret(char path[32], char digit)
{
	FILE *file;
	int fd;

	snprintf(path, 32, "/tmp/godwit-hub-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	for (unsigned i = 0; i < 64; i++)
		fputc(digit, file);
	fclose(file);
}

static void test_the_secret_is_needed(void **state)
{
	char right[32], wrong[32];
	struct crew crew;

	write_secret(right, 'a');
	write_secret(wrong, 'b');
	crew_prepare(&crew, 3);
	crew.secret_file = right;
	crew_start(&crew, 0, NULL);
	crew_start(&crew, 1, NULL);
	crew_start_as(&crew, 4, 2, 3, wrong, NULL);
	crew_start_as(&crew, 5, 2, 3, NULL, NULL);
	crew_join(&crew, 4, 0);
	crew_join(&crew, 5, 0);
	if (crew.members[4].rc == -ENOTSUP) {
		/* built without OpenSSL */
		crew_join(&crew, 0, 0);
		crew_join(&crew, 1, 0);
		crew_free(&crew);
		return;
	}
	expect(&crew, 4, -EACCES, "secret");
	expect(&crew, 5, -ECONNREFUSED, "a secret is needed here");
	assert_false(crew.members[0].open);
	crew_start(&crew, 2, NULL);
	for (uint32_t slot = 0; slot < 3; slot++) {
		crew_join(&crew, slot, 0);
		expect(&crew, slot, 0, "");
	}
	unlink(right);
	unlink(wrong);
	crew_free(&crew);
}

static void test_a_refused_stranger_is_mentioned(void **state)
{
	char right[32];
	struct crew crew;

	write_secret(right, 'a');
	crew_prepare(&crew, 2);
	crew.secret_file = right;
	crew.meet_ns = 700 * MS;
	crew_start(&crew, 0, NULL);
	crew_start_as(&crew, 1, 1, 2, NULL, NULL);
	crew_join(&crew, 0, 0);
	crew_join(&crew, 1, 0);
	if (crew.members[0].rc != -ENOTSUP)
		expect(&crew, 0, -ETIMEDOUT,
		       "rank 1 of 2 did not come within 0.7 s; a connection from 127.0.0.1 was refused: it has no secret");
	unlink(right);
	crew_free(&crew);
}

static void test_a_rank_that_ends_while_others_are_awaited(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	for (uint32_t rank = 0; rank < 3; rank++)
		crew_start(&crew, rank, NULL);
	crew_sleep_ms(300);
	kill(crew.members[2].pid, SIGKILL);
	crew_join(&crew, 2, SIGKILL);
	for (uint32_t slot = 0; slot < 2; slot++) {
		crew_join(&crew, slot, 0);
		expect(&crew, slot, -ECONNRESET, "rank 2 (process");
		expect(&crew, slot, -ECONNRESET,
		       "ended without a goodbye before all 4 ranks had come");
	}
	crew_free(&crew);
}

static void test_rank_0_ends_while_others_are_awaited(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	for (uint32_t rank = 0; rank < 3; rank++)
		crew_start(&crew, rank, NULL);
	crew_sleep_ms(300);
	kill(crew.members[0].pid, SIGKILL);
	crew_join(&crew, 0, SIGKILL);
	for (uint32_t slot = 1; slot < 3; slot++) {
		crew_join(&crew, slot, 0);
		expect(&crew, slot, -ECONNRESET, "rank 0 (process");
	}
	crew_free(&crew);
}

static void test_rank_0_does_not_come(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 2);
	crew.meet_ns = 300 * MS;
	crew_start(&crew, 1, NULL);
	crew_join(&crew, 1, 0);
	expect(&crew, 1, -ETIMEDOUT, "rank 0 did not come within 0.3 s: ");
	expect(&crew, 1, -ETIMEDOUT, "connection refused; is `rank 0` running there?");
	crew_free(&crew);
}

/* The name server does not answer at first, as when a thousand ranks ask it at once. */
static unsigned unanswered;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	typedef int function(const char *, const char *, const struct addrinfo *,
			     struct addrinfo **);
	function *real = (function *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");

	if (!unanswered)
		return real(name, service, hints, out);
	unanswered--;
	return EAI_AGAIN;
}

static void test_a_name_server_that_answers_late(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 2);
	crew_start(&crew, 0, NULL);
	unanswered = 3;
	crew_start(&crew, 1, NULL);
	crew.meet_ns = 300 * MS;
	unanswered = 1000;
	crew_start_as(&crew, 2, 1, 2, NULL, NULL);
	unanswered = 0;
	for (uint32_t slot = 0; slot < 3; slot++)
		crew_join(&crew, slot, 0);
	expect(&crew, 0, 0, "");
	expect(&crew, 1, 0, "");
	expect(&crew, 2, -ETIMEDOUT, "rank 0 did not come within 0.3 s: unknown host 127.0.0.1: ");
	crew_free(&crew);
}

static void test_a_port_that_is_taken(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 2);
	crew.meet_ns = 1000 * MS;
	crew_start(&crew, 0, NULL);
	crew_sleep_ms(200);
	crew_start_as(&crew, 5, 0, 2, NULL, NULL);
	crew_join(&crew, 5, 0);
	expect(&crew, 5, -EADDRINUSE, "rank 0 cannot wait for others: TCP port");
	crew_join(&crew, 0, 0);
	crew_free(&crew);
}

static const struct mail_handler no_handler;

static void test_one_rank_needs_no_network(void **state)
{
	struct hub_attr attr = { .rank = 0, .size = 1 };
	char why[HUB_WHY];
	struct mail *mail;

	assert_int_equal(hub_open(&attr, &no_handler, NULL, why, &mail), 0);
	assert_int_equal(mail->ops->send(mail, MAIL_ALL, "x", 1), 0);
	assert_int_equal(mail->ops->send(mail, 1, "x", 1), -EINVAL);
	assert_int_equal(mail->ops->progress(mail, 0), 0);
	assert_int_equal(mail->ops->fd(mail), -1);
	assert_string_equal(mail->ops->address(mail, 0), "");
	mail->ops->close(mail);
}

static void test_bad_attributes(void **state)
{
	static const struct hub_attr bad[] = {
		{ .rank = 0, .size = 0 },
		{ .rank = 2, .size = 2, .root = "127.0.0.1", .port = 1 },
		{ .rank = 0, .size = 2 },
		{ .rank = 1, .size = 2, .port = 1 },
		{ .rank = 1, .size = 2, .port = 1, .root = "" },
		{ .rank = 0, .size = 4097, .port = 1 },
	};
	char why[HUB_WHY];
	struct mail *mail;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = '\0';
		assert_int_equal(hub_open(&bad[i], &no_handler, NULL, why, &mail), -EINVAL);
		assert_string_not_equal(why, "");
	}
}

static void test_too_few_files(void **state)
{
	struct hub_attr attr = { .rank = 0, .size = 1024, .port = 1 };
	struct rlimit before, low = { .rlim_cur = 512, .rlim_max = 512 };
	char why[HUB_WHY];
	struct mail *mail;
	pid_t pid = fork();

	if (pid == 0) {
		getrlimit(RLIMIT_NOFILE, &before);
		setrlimit(RLIMIT_NOFILE, &low);
		if (hub_open(&attr, &no_handler, NULL, why, &mail) != -EMFILE ||
		    !strstr(why, "may open 512"))
			_exit(1);
		_exit(0);
	}
	struct crew crew = { .members = &(struct member){ .pid = pid } };

	crew_join(&crew, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_meet_in_any_order),
		cmocka_unit_test(test_missing_ranks_are_named_everywhere),
		cmocka_unit_test(test_a_rank_that_comes_twice_ends_the_meeting),
		cmocka_unit_test(test_different_sizes_end_the_meeting),
		cmocka_unit_test(test_another_version_ends_the_meeting),
		cmocka_unit_test(test_strangers_do_not_end_the_meeting),
		cmocka_unit_test(test_the_secret_is_needed),
		cmocka_unit_test(test_a_refused_stranger_is_mentioned),
		cmocka_unit_test(test_a_rank_that_ends_while_others_are_awaited),
		cmocka_unit_test(test_rank_0_ends_while_others_are_awaited),
		cmocka_unit_test(test_rank_0_does_not_come),
		cmocka_unit_test(test_a_name_server_that_answers_late),
		cmocka_unit_test(test_a_port_that_is_taken),
		cmocka_unit_test(test_one_rank_needs_no_network),
		cmocka_unit_test(test_bad_attributes),
		cmocka_unit_test(test_too_few_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
