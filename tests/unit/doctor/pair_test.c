/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path as figures: a healthy pair has nothing to say, and each planted fault is found, in its direction and alone. Streams
 * of numbered probes: what is lost, repeated and overtaken. Sizes that close in on a path's MTU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/pair.h"
#include "doctor/pair_stream.h"

#define MS INT64_C(1000000)

static struct pair_end healthy_end(const char *name, const char *address)
{
	struct pair_end end = { .udp_port = 4791,
				.other_port = 40000,
				.mtu = 1500,
				.receive_buffer = 4 << 20,
				.send_buffer = 4 << 20 };

	snprintf(end.name, sizeof(end.name), "%s", name);
	snprintf(end.address, sizeof(end.address), "%s", address);
	snprintf(end.seen, sizeof(end.seen), "%s", address);
	end.sent = (struct pair_sent){ .packets = 750,
				       .other_packets = 47,
				       .size_arrived = 1500,
				       .bulk_packets = 2000,
				       .bulk_bytes = 3000000,
				       .bulk_ns = 300 * MS };
	end.heard = (struct pair_heard){ .packets = 750,
					 .other_packets = 47,
					 .delay_min_ns = 5 * MS,
					 .delay_p10_ns = 5 * MS,
					 .delay_p50_ns = 5 * MS,
					 .delay_p90_ns = 6 * MS,
					 .source_port = 4791,
					 .train_bps = 100000000,
					 .bulk_packets = 2000,
					 .bulk_bytes = 3000000,
					 .bulk_ns = 300 * MS,
					 .bulk_delay_ns = 5 * MS,
					 .tcp_bps = 80000000 };
	for (unsigned i = 0; i < PAIR_MARKS; i++) {
		end.sent.marked[i] = end.heard.marked[i] = 26;
		end.heard.mark_arrived[i] = pair_marks[i];
	}
	return end;
}

static struct pair healthy(void)
{
	struct pair pair = { .port = 4791,
			     .sentence = "",
			     .back = PAIR_BACK_WORKS,
			     .back_port = 4791,
			     .rtt_min_ns = 10 * MS,
			     .rtt_ns = 10 * MS,
			     .tcp_rtt_ns = 11 * MS };

	pair.here = healthy_end("a", "10.0.0.1");
	pair.there = healthy_end("b", "10.0.0.2");
	snprintf(pair.here.heard.source, PAIR_TEXT, "10.0.0.2");
	snprintf(pair.there.heard.source, PAIR_TEXT, "10.0.0.1");
	return pair;
}

/* Judges, and compares "check object" of the findings with `wanted`, which has them in order with commas between. */
static void judge(const struct pair *pair, const char *wanted)
{
	struct diagnosis diagnosis = { 0 };
	char found[1024] = "";

	assert_int_equal(pair_judge(pair, NULL, NULL, &diagnosis), 0);
	for (size_t i = 0; i < diagnosis.finding_count; i++) {
		const struct finding *f = &diagnosis.findings[i];

		assert_true(f->fix && f->fix[0] && f->value[0] && f->why[0]);
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s%s%s",
			 i ? ", " : "", f->check, f->object[0] ? " " : "", f->object);
	}
	assert_string_equal(found, wanted);
	assert_non_null(diagnosis.next);
	diagnosis_free(&diagnosis);
}

static void test_healthy(void **state)
{
	struct pair pair = healthy();

	judge(&pair, "");
	/* A lost probe or two, and a queue that marks, are no fault. */
	pair.there.heard.packets = 748;
	pair.there.heard.mark_arrived[4] = 3;
	pair.there.heard.mark_arrived[5] = 3;
	judge(&pair, "");
}

static void test_udp(void **state)
{
	struct pair pair = healthy();
	struct pair_heard *there = &pair.there.heard;

	*there = (struct pair_heard){ .other_packets = 0 };
	pair.here.sent.size_arrived = 0;
	pair.here.sent.bulk_packets = 0;
	judge(&pair, "path-udp a -> b");
	there->other_packets = 40;
	judge(&pair, "path-udp a -> b");
	pair = healthy();
	pair.here.heard = (struct pair_heard){ .other_packets = 0 };
	judge(&pair, "path-udp b -> a");
}

static void test_nat(void **state)
{
	struct pair pair = healthy();

	pair.there.heard.source_port = 61000;
	judge(&pair, "path-nat a -> b");
	pair = healthy();
	snprintf(pair.here.seen, PAIR_TEXT, "192.0.2.1");
	judge(&pair, "path-nat a -> b");
	snprintf(pair.there.heard.source, PAIR_TEXT, "192.0.2.1");
	judge(&pair, "path-nat a -> b");
}

static void test_tcp(void **state)
{
	struct pair pair = healthy();

	pair.back = PAIR_BACK_SILENT;
	judge(&pair, "path-tcp-back b -> a");
	pair.back = PAIR_BACK_REFUSED;
	judge(&pair, "path-tcp-back b -> a");
	memset(&pair.there.heard, 0, sizeof(pair.there.heard));
	pair.sentence = "no answer";
	pair.peer = PAIR_PEER_SILENT;
	judge(&pair, "path-tcp");
	pair.peer = PAIR_PEER_UNREACHABLE;
	judge(&pair, "path-tcp");
	pair.peer = PAIR_PEER_REFUSED;
	judge(&pair, "path-peer");
	pair.peer = PAIR_PEER_OTHER;
	judge(&pair, "path-peer");
	pair.peer = PAIR_PEER_SECRET;
	judge(&pair, "path-peer");
}

static void test_sizes_of_packets(void **state)
{
	struct pair pair = healthy();

	pair.there.mtu = 9000;
	pair.there.sent.size_lost = 1501;
	judge(&pair, "path-black-hole b -> a");
	pair.there.sent.icmp_mtu = 1500;
	judge(&pair, "path-mtu b -> a");
}

static void test_quality(void **state)
{
	struct pair pair = healthy();

	pair.here.heard.packets = 720;
	judge(&pair, "path-loss b -> a");
	pair = healthy();
	pair.there.heard.reordered = 30;
	judge(&pair, "path-reordering a -> b");
	pair = healthy();
	pair.there.heard.duplicates = 30;
	judge(&pair, "path-duplication a -> b");
	pair = healthy();
	pair.there.heard.delay_p90_ns = 20 * MS;
	judge(&pair, "path-jitter a -> b");
}

static void test_rate(void **state)
{
	struct pair pair = healthy();
	struct pair_heard *there = &pair.there.heard;

	/* Lost without waiting: a policer. */
	there->bulk_packets = 500;
	there->bulk_bytes = 750000;
	there->bulk_delay_ns = 5 * MS;
	judge(&pair, "path-rate-limit a -> b");
	/* Lost after a queue had filled: a slow link, unless TCP gets more. */
	there->bulk_delay_ns = 25 * MS;
	there->tcp_bps = 15000000;
	judge(&pair, "");
	there->tcp_bps = 80000000;
	judge(&pair, "path-rate-limit a -> b");
	/* Lost in the receiver's own buffer: not the network's doing. */
	there->bulk_delay_ns = 5 * MS;
	there->overrun = 1500;
	judge(&pair, "");
	pair = healthy();
	pair.there.receive_buffer = 200 << 10;
	judge(&pair, "");
	pair.there.heard.train_bps = UINT64_C(1000000000);
	judge(&pair, "path-buffers a -> b");
}

static void test_clock(void **state)
{
	struct pair pair = healthy();
	int64_t offset;
	uint64_t error;

	/* Directions that differ look like an offset of at most half a round trip. */
	pair.there.heard.delay_min_ns = 9 * MS;
	pair.here.heard.delay_min_ns = 1 * MS;
	judge(&pair, "");
	pair.rtt_min_ns = 1000 * MS;
	pair.there.heard.delay_min_ns = pair.there.heard.bulk_delay_ns = 900 * MS;
	pair.here.heard.delay_min_ns = pair.here.heard.bulk_delay_ns = 100 * MS;
	judge(&pair, "");
	pair.rtt_min_ns = 10 * MS;
	pair.there.heard.delay_min_ns = 2005 * MS;
	pair.there.heard.bulk_delay_ns = 2005 * MS;
	pair.here.heard.delay_min_ns = -1995 * MS;
	pair.here.heard.bulk_delay_ns = -1995 * MS;
	judge(&pair, "path-clock");
	assert_true(pair_clock(&pair, &offset, &error));
	assert_int_equal(offset, 2000 * MS);
	assert_int_equal(error, 5 * MS);
}

static void test_marks(void **state)
{
	struct pair pair = healthy();
	struct pair_heard *there = &pair.there.heard;

	for (unsigned i = 0; i < PAIR_MARKS; i++)
		there->mark_arrived[i] = pair_marks[i] & 3;
	judge(&pair, "path-dscp a -> b");
	for (unsigned i = 0; i < PAIR_MARKS; i++)
		there->mark_arrived[i] = pair_marks[i] & 0xfc;
	judge(&pair, "path-ecn a -> b");
	for (unsigned i = 0; i < PAIR_MARKS; i++)
		there->mark_arrived[i] = 0;
	judge(&pair, "path-dscp a -> b, path-ecn a -> b");
	/* Dropped, not changed. */
	pair = healthy();
	there->marked[4] = 0;
	judge(&pair, "path-ecn a -> b");
	pair = healthy();
	there->marked[2] = 0;
	judge(&pair, "path-dscp a -> b");
}

/* A number of any size, small ones as likely as large ones. */
static uint64_t draw(uint64_t most)
{
	static uint64_t seed = 1;
	uint64_t value;

	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	value = (seed >> 8) >> (seed >> 58) % 56;
	return value % (most + 1);
}

static void draw_end(struct pair_end *end)
{
	const uint64_t counts = 1 << 24, bytes = UINT64_C(1) << 34, times = UINT64_C(1) << 60;

	end->mtu = (uint32_t)draw(65535);
	end->receive_buffer = draw(UINT32_MAX);
	end->sent.packets = (uint32_t)draw(counts);
	end->sent.size_arrived = (uint32_t)draw(65535);
	end->sent.size_lost = (uint32_t)draw(65535);
	end->sent.bulk_packets = (uint32_t)draw(counts);
	end->sent.bulk_bytes = draw(bytes);
	end->sent.bulk_ns = draw(1) ? 1000 + draw(times) : 0;
	end->heard.packets = (uint32_t)draw(counts);
	end->heard.duplicates = (uint32_t)draw(counts);
	end->heard.reordered = (uint32_t)draw(counts);
	end->heard.delay_min_ns = (int64_t)draw(2 * times) - (int64_t)times;
	end->heard.delay_p10_ns = (int64_t)draw(2 * times) - (int64_t)times;
	end->heard.delay_p90_ns = (int64_t)draw(2 * times) - (int64_t)times;
	end->heard.bulk_delay_ns = (int64_t)draw(2 * times) - (int64_t)times;
	end->heard.train_bps = draw(UINT64_C(1) << 46);
	end->heard.tcp_bps = draw(UINT64_C(1) << 46);
	end->heard.bulk_packets = (uint32_t)draw(counts);
	end->heard.bulk_bytes = draw(bytes);
	end->heard.bulk_ns = draw(1) ? 1000 + draw(times) : 0;
	end->heard.overrun = (uint32_t)draw(counts);
	for (unsigned i = 0; i < PAIR_MARKS; i++) {
		end->sent.marked[i] = (uint32_t)draw(counts);
		end->heard.marked[i] = (uint32_t)draw(counts);
		end->heard.mark_arrived[i] = (uint8_t)draw(255);
	}
}

/* Whatever the other end says, within the bounds of what is read: it is judged, and told. */
static void test_any_figures(void **state)
{
	for (unsigned i = 0; i < 200; i++) {
		struct pair pair = healthy();
		struct diagnosis diagnosis = { 0 };
		json_t *object;

		draw_end(&pair.there);
		if (i % 2)
			draw_end(&pair.here);
		pair.rtt_min_ns = draw(UINT64_C(1) << 40);
		pair.rtt_ns = draw(UINT64_C(1) << 40);
		assert_int_equal(pair_judge(&pair, NULL, NULL, &diagnosis), 0);
		object = diagnosis_json(&diagnosis);
		assert_non_null(object);
		json_decref(object);
		diagnosis_free(&diagnosis);
	}
}

static void test_lists(void **state)
{
	struct pair pair = healthy();
	struct diagnosis diagnosis = { 0 };

	pair.here.heard.packets = 700;
	assert_int_equal(pair_judge(&pair, "path-loss,nonsense", NULL, &diagnosis), -22);
	assert_int_equal(pair_judge(&pair, NULL, "nonsense", &diagnosis), -22);
	assert_int_equal(pair_judge(&pair, "path-dscp", NULL, &diagnosis), 0);
	assert_int_equal(diagnosis.finding_count, 0);
	assert_int_equal(diagnosis.checks_run, 1);
	diagnosis_free(&diagnosis);
	assert_int_equal(pair_judge(&pair, NULL, "path-loss", &diagnosis), 0);
	assert_int_equal(diagnosis.finding_count, 0);
	diagnosis_free(&diagnosis);
}

static void test_stream(void **state)
{
	static struct pair_stream stream;
	struct pair_heard heard = { 0 };

	pair_stream_finish(&stream, &heard);
	assert_int_equal(heard.packets, 0);
	/* 0 to 99, of which 10 is lost, 20 comes behind 22, and 30 twice. */
	for (uint32_t i = 0; i < 100; i++) {
		if (i == 10 || i == 20)
			continue;
		pair_stream_arrive(&stream, i, 1000 + i);
		if (i == 22)
			pair_stream_arrive(&stream, 20, 5000);
		if (i == 30)
			pair_stream_arrive(&stream, 30, 1);
	}
	pair_stream_arrive(&stream, PAIR_STREAM_MAX, 1);
	pair_stream_arrive(&stream, UINT32_MAX, 1);
	pair_stream_finish(&stream, &heard);
	assert_int_equal(heard.packets, 99);
	assert_int_equal(heard.reordered, 1);
	assert_int_equal(heard.duplicates, 1);
	assert_int_equal(heard.delay_min_ns, 1000);
	assert_in_range(heard.delay_p10_ns, 1008, 1011);
	assert_in_range(heard.delay_p90_ns, 1088, 1091);
}

/* Follows a path that carries `carries` bytes; returns what is found in `rounds` rounds. */
static uint32_t search(uint32_t carries, uint32_t interface, unsigned rounds)
{
	uint32_t arrived = 0, lost = 0, sizes[PAIR_SIZES_MAX];

	while (rounds--) {
		unsigned count = pair_sizes(arrived, lost, interface, sizes);

		assert_in_range(count, 0, PAIR_SIZES_MAX);
		for (unsigned i = 0; i < count; i++) {
			assert_true(sizes[i] <= interface && (!i || sizes[i] > sizes[i - 1]));
			if (sizes[i] <= carries)
				arrived = sizes[i];
			else if (!lost || sizes[i] < lost)
				lost = sizes[i];
		}
	}
	return arrived;
}

static void test_sizes(void **state)
{
	static const uint32_t interfaces[] = { 1280, 1500, 4200, 9000, 9216 };

	for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++) {
		uint32_t interface = interfaces[i];

		assert_int_equal(search(interface, interface, 1), interface);
		for (uint32_t carries = 576; carries <= interface; carries += 37)
			assert_int_equal(search(carries, interface, 4), carries);
	}
	assert_int_equal(search(1500, 9000, 3), 1500);
	assert_int_equal(search(65535, 65535, 1), 65535);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_udp),
		cmocka_unit_test(test_nat),
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_sizes_of_packets),
		cmocka_unit_test(test_quality),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_any_figures),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
