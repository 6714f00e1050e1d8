/* SPDX-License-Identifier: BSD-3-Clause */
/* What `godwit mesh` says about made-up meshes: each fault is named once, and healthy meshes are healthy. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/mesh/tournament.h"
#include "tools/mesh/verdict.h"

#define RATE	1e9
#define PORTS	4
#define PACKETS 500 /* of each port */

static uint64_t state;

/* From 0 to 1. */
static double chance(void)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(state >> 40) / (double)(1 << 24);
}

/* A healthy mesh whose rates differ by up to `noise`. */
static struct matrix make(unsigned hosts, double noise)
{
	struct matrix m;

	assert_int_equal(matrix_open(&m, hosts, PORTS), 0);
	for (unsigned i = 0; i < hosts; i++) {
		snprintf(m.host[i].name, sizeof(m.host[i].name), "node%u", i);
		for (unsigned j = 0; j < hosts; j++) {
			struct matrix_cell *cell = matrix_at(&m, i, j);

			if (i == j)
				continue;
			cell->latency_us = 20 + 10 * chance();
			for (unsigned p = 0; p < PORTS; p++)
				cell->ports[p] = (struct matrix_port){
					.number = (uint16_t)(50000 + p),
					.bps = RATE * (1 - noise * chance()),
					.sent = PACKETS,
				};
			cell->together_bps = RATE * (0.9 - noise * chance());
		}
	}
	return m;
}

static void scale(struct matrix *m, unsigned i, unsigned j, double times)
{
	struct matrix_cell *cell = matrix_at(m, i, j);

	for (unsigned p = 0; p < PORTS; p++)
		cell->ports[p].bps *= times;
	cell->together_bps *= times;
}

static void lose(struct matrix *m, unsigned i, unsigned j, double share)
{
	for (unsigned p = 0; p < PORTS; p++)
		matrix_at(m, i, j)->ports[p].lost = (uint64_t)(share * PACKETS);
}

/* Compares the findings with sentences, in order, and frees everything. */
static void expect(struct matrix *m, unsigned count, const char *const *sentences)
{
	struct verdict verdict = { 0 };

	matrix_sum(m);
	assert_int_equal(verdict_reach(m, &verdict), 0);
	for (unsigned i = 0; i < verdict.count || i < count; i++) {
		if (i >= verdict.count)
			fail_msg("not found: %s", sentences[i]);
		if (i >= count)
			fail_msg("found: %s", verdict.findings[i].text);
		if (!strstr(verdict.findings[i].text, sentences[i]))
			fail_msg("\"%s\" is not in \"%s\"", sentences[i], verdict.findings[i].text);
	}
	verdict_close(&verdict);
	matrix_close(m);
}

#define EXPECT(m, ...)                                                                             \
	do {                                                                                       \
		static const char *const sentences_[] = { __VA_ARGS__ };                           \
		expect(m, sizeof(sentences_) / sizeof(sentences_[0]), sentences_);                 \
	} while (0)

static void test_healthy(void **unused)
{
	(void)unused;
	for (unsigned seed = 0; seed < 200; seed++) {
		struct matrix m;

		state = seed;
		m = make(1 + seed % 17, 0.15);
		expect(&m, 0, NULL);
	}
}

/* Losses that chance explains, and packets of a mesh that measured none. */
static void test_stray_losses(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	matrix_at(&m, 1, 2)->ports[0].lost = 1;
	matrix_at(&m, 3, 2)->ports[3].lost = 2;
	for (unsigned p = 0; p < PORTS; p++)
		matrix_at(&m, 5, 6)->ports[p].sent = 0;
	expect(&m, 0, NULL);
}

static void test_slow_host(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	for (unsigned j = 0; j < 8; j++) {
		scale(&m, 6, j, 0.5);
		scale(&m, j, 6, 0.5);
	}
	EXPECT(&m, "node6 sends and receives at 0.5");
}

static void test_slow_host_of_three(void **unused)
{
	struct matrix m = make(3, 0.05);

	(void)unused;
	for (unsigned j = 0; j < 3; j++) {
		scale(&m, 0, j, 0.5);
		scale(&m, j, 0, 0.5);
	}
	EXPECT(&m, "node0 sends and receives at 0.5");
}

static void test_slow_pair(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	scale(&m, 2, 5, 0.5);
	scale(&m, 5, 2, 0.4);
	EXPECT(&m, "node2 <-> node5 is slow");
	/* Slow there, and a little less than slow back. */
	m = make(8, 0);
	scale(&m, 2, 5, 0.7);
	scale(&m, 5, 2, 0.8);
	EXPECT(&m, "node2 -> node5 is slow: 700 Mbit/s against 1.00 Gbit/s with other hosts");
}

static void test_asymmetric(void **unused)
{
	struct matrix m = make(8, 0.02);

	(void)unused;
	scale(&m, 7, 1, 0.3);
	for (unsigned j = 0; j < 8; j++) {
		scale(&m, 2, j, 0.5);
		if (j != 2)
			scale(&m, j, 4, 0.6);
	}
	EXPECT(&m, "node2 sends slower than it receives: 4",
	       "node4 receives slower than it sends: 5",
	       "node7 -> node1 is slower than node1 -> node7: 2");
}

static void test_losses(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	for (unsigned i = 0; i < 8; i++)
		lose(&m, i, 5, i == 5 ? 0 : 0.01);
	for (unsigned j = 0; j < 8; j++)
		lose(&m, 1, j, j == 1 ? 0 : 0.02);
	lose(&m, 3, 0, 0.01);
	EXPECT(&m, "node1 -> * drops 2 % of packets, to 7 of 7 hosts",
	       "* -> node5 drops 1.1 % of packets, from 7 of 7 hosts",
	       "node3 -> node0 drops 1 % of packets (20 of 2000)");
}

static void test_network_loss(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	for (unsigned i = 0; i < 64; i++)
		lose(&m, i / 8, i % 8, i / 8 == i % 8 ? 0 : 0.01);
	lose(&m, 4, 6, 0.1);
	/* Slow because of the losses, which are named. */
	matrix_at(&m, 4, 6)->together_bps *= 0.3;
	for (unsigned j = 0; j < 8; j++)
		matrix_at(&m, 2, j)->together_bps *= 0.3;
	EXPECT(&m, "the network drops 1.2 % of packets, between 56 of 56",
	       "node4 -> node6 drops 10 %");
}

/* One of the paths that switches choose by source port. */
static void test_dropping_path(void **unused)
{
	struct matrix m = make(6, 0.05);

	(void)unused;
	matrix_at(&m, 3, 5)->ports[2].lost = 20;
	EXPECT(&m,
	       "node3 -> node5 drops 1 % of packets (20 of 2000), nearly all with 1 of 4 source ports, which loses 4.0 %");
	m = make(6, 0.05);
	for (unsigned i = 0; i < 36; i++)
		matrix_at(&m, i / 6, i % 6)->ports[i % PORTS].lost = i / 6 == i % 6 ? 0 : 20;
	EXPECT(&m,
	       "the network drops 1 % of packets, between 30 of 30 pairs of hosts, nearly all with 1 of 4");
}

static void test_slow_path(void **unused)
{
	struct matrix m = make(6, 0.05);

	(void)unused;
	matrix_at(&m, 1, 4)->ports[3].bps = 0.2 * RATE;
	EXPECT(&m, "node1 -> node4 is slow from source port 50003: 200 Mbit/s");
}

/* Hosts of a rack with a slow switch; and two racks whose link is slow. */
static void test_racks(void **unused)
{
	struct matrix m = make(12, 0.05);

	(void)unused;
	for (unsigned i = 8; i < 12; i++) {
		for (unsigned j = 0; j < 12; j++) {
			scale(&m, i, j, 0.4);
			if (j < 8)
				scale(&m, j, i, 0.4);
		}
	}
	EXPECT(&m, "node8, node9, node10 and node11 send and receive at 0.4");
	m = make(8, 0.05);
	for (unsigned i = 0; i < 64; i++)
		scale(&m, i / 8, i % 8, i / 32 != i % 8 / 4 ? 0.25 : 1);
	EXPECT(&m, "2 groups of hosts reach each other at 0.25 of the rate within a group");
}

static void test_together(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	for (unsigned i = 0; i < 64; i++)
		matrix_at(&m, i / 8, i % 8)->together_bps *= i / 32 != i % 8 / 4 ? 0.25 : 1;
	EXPECT(&m, "while all hosts send, 32 of 56 pairs reach less than half");
	m = make(8, 0.05);
	for (unsigned j = 0; j < 8; j++)
		matrix_at(&m, j, 2)->together_bps *= 0.3;
	EXPECT(&m, "while all hosts send, node2 receives with 7 of 7 hosts");
	/* A host whose link up is slow sends its acknowledgements late: that is the same fault. */
	m = make(8, 0.05);
	for (unsigned j = 0; j < 8; j++) {
		scale(&m, 6, j, 0.5);
		matrix_at(&m, j, 6)->together_bps *= 0.3;
	}
	EXPECT(&m, "node6 sends slower than it receives");
}

static void test_latency(void **unused)
{
	struct matrix m = make(8, 0.05);

	(void)unused;
	for (unsigned j = 0; j < 8; j++)
		matrix_at(&m, 3, j)->latency_us = matrix_at(&m, j, 3)->latency_us = 500;
	matrix_at(&m, 1, 2)->latency_us = matrix_at(&m, 2, 1)->latency_us = 300;
	EXPECT(&m, "node1 and node2 are far from each other",
	       "node3 is far from the others: latency 500");
}

static void test_dead(void **unused)
{
	struct matrix m = make(5, 0.05);

	(void)unused;
	scale(&m, 1, 3, 0);
	scale(&m, 3, 1, 0);
	EXPECT(&m, "nothing gets through node1 <-> node3");
	m = make(5, 0.05);
	for (unsigned j = 0; j < 5; j++) {
		scale(&m, 2, j, 0);
		scale(&m, j, 2, 0);
	}
	EXPECT(&m, "nothing gets through from or to node2");
	m = make(4, 0);
	for (unsigned i = 0; i < 16; i++)
		scale(&m, i / 4, i % 4, 0);
	EXPECT(&m, "nothing gets through between any two");
}

/* Two hosts have only each other to be compared with. */
static void test_two(void **unused)
{
	struct matrix m = make(2, 0.05);

	(void)unused;
	expect(&m, 0, NULL);
	m = make(2, 0.05);
	scale(&m, 1, 0, 0.5);
	lose(&m, 0, 1, 0.01);
	EXPECT(&m, "node1 -> node0 is slower than node0 -> node1: 4", "node0 -> node1 drops 1 %");
}

/* Every two ranks meet once, and nobody has two partners in a round. */
static void test_tournament(void **unused)
{
	(void)unused;
	for (unsigned ranks = 1; ranks < 40; ranks++) {
		unsigned char met[40][40] = { 0 };

		for (unsigned round = 0; round < tournament_rounds(ranks); round++) {
			for (unsigned i = 0; i < ranks; i++) {
				unsigned partner = tournament_partner(ranks, round, i);

				assert_true(partner < ranks);
				assert_int_equal(tournament_partner(ranks, round, partner), i);
				met[i][partner]++;
			}
		}
		for (unsigned i = 0; i < ranks; i++) {
			for (unsigned j = 0; j < ranks; j++)
				assert_true(i == j || met[i][j] == 1);
		}
		assert_true(tournament_rounds(ranks) <= ranks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),	      cmocka_unit_test(test_stray_losses),
		cmocka_unit_test(test_slow_host),     cmocka_unit_test(test_slow_host_of_three),
		cmocka_unit_test(test_slow_pair),     cmocka_unit_test(test_asymmetric),
		cmocka_unit_test(test_losses),	      cmocka_unit_test(test_network_loss),
		cmocka_unit_test(test_dropping_path), cmocka_unit_test(test_slow_path),
		cmocka_unit_test(test_racks),	      cmocka_unit_test(test_together),
		cmocka_unit_test(test_latency),	      cmocka_unit_test(test_dead),
		cmocka_unit_test(test_two),	      cmocka_unit_test(test_tournament),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
