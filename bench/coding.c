/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coding: how fast this processor codes, and what our calls add to ISA-L called bare.
 *
 * Pairs of measurements are taken in turns, so that a busy neighbour disturbs both alike; the ratio is the median over
 * the pairs. The peer of an encode is ec_encode_data() on tables made beforehand. A decode of e symbols is held against
 * an encode of all m, of which it should cost about e / m, and against ISA-L making e rows, which is what it asks of ISA-L.
 * Decoding one symbol is an exclusive or if the first parity row is there, so that it is measured without that one too.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <isa-l.h>

#include "base/rng.h"
#include "coding/cauchy.h"
#include "coding/reed_solomon.h"
#include "coding/registers.h"
#include "coding/xor.h"

#define K	    32
#define M	    8
#define PAIRS	    101
#define SLICE_BYTES (4u << 20) /* of data, in one measurement */
#define PAYLOAD_MAX 65536

struct bench {
	size_t payload;
	struct coding_group group;
	struct rs *rs;
	uint8_t tables[32 * K * M];
	uint8_t memory[(K + 2 * M) * PAYLOAD_MAX] __attribute__((aligned(64)));
	void *data[K];
	void *parity[M];
	void *spare[M];
	unsigned erasures;
};

struct figures {
	double ns;    /* of ours, a group; median */
	double ratio; /* ours against the peer; median over pairs */
};

static struct bench bench;

static void encode_bare(void)
{
	ec_encode_data((int)bench.payload, K, M, bench.tables, (unsigned char **)bench.data,
		       (unsigned char **)bench.spare);
}

static void encode_as_many(void)
{
	ec_encode_data((int)bench.payload, K, (int)bench.erasures, bench.tables,
		       (unsigned char **)bench.data, (unsigned char **)bench.spare);
}

static void encode_ours(void)
{
	rs_encode(bench.rs, &bench.group, (const void *const *)bench.data, 0, M, bench.parity);
}

static void fold_ours(void)
{
	for (unsigned i = 0; i < M; i++)
		memset(bench.spare[i], 0, bench.payload);
	for (unsigned j = 0; j < K; j++)
		rs_fold(bench.rs, j, bench.data[j], bench.payload, bench.spare);
}

static void decode_ours(void)
{
	static const uint8_t erased[M] = { 1, 5, 9, 13, 17, 21, 25, 29 };
	static const uint8_t rows[M] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	rs_decode(bench.rs, &bench.group, bench.data, erased, bench.erasures, rows,
		  (const void *const *)bench.parity);
}

/* One symbol, from the second parity row. */
static void decode_second(void)
{
	static const uint8_t erased = 1, row = 1;

	rs_decode(bench.rs, &bench.group, bench.data, &erased, 1, &row,
		  (const void *const *)bench.parity + 1);
}

static void xor_ours(void)
{
	xor_encode(&bench.group, M, (const void *const *)bench.data, bench.spare);
}

static void xor_bare(void)
{
	for (unsigned row = 0; row < M; row++) {
		void *vectors[K / M + 1];

		for (unsigned i = 0; i < K / M; i++)
			vectors[i] = bench.data[i * M + row];
		vectors[K / M] = bench.spare[row];
		xor_gen(K / M + 1, (int)bench.payload, vectors);
	}
}

static double time_ns(void (*work)(void))
{
	unsigned repeats = (unsigned)(SLICE_BYTES / (K * bench.payload));
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (unsigned i = 0; i < repeats; i++)
		work();
	registers_clean(); /* ISA-L called bare would slow down what comes next */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       repeats;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct figures compare(void (*ours)(void), void (*peer)(void))
{
	double times[PAIRS], ratios[PAIRS];

	time_ns(peer);
	time_ns(ours);
	for (unsigned i = 0; i < PAIRS; i++) {
		double other;

		/* Who goes first changes from pair to pair. */
		if (i % 2) {
			times[i] = time_ns(ours);
			other = time_ns(peer);
		} else {
			other = time_ns(peer);
			times[i] = time_ns(ours);
		}
		ratios[i] = times[i] / other;
	}
	qsort(times, PAIRS, sizeof(times[0]), by_size);
	qsort(ratios, PAIRS, sizeof(ratios[0]), by_size);
	return (struct figures){ .ns = times[PAIRS / 2], .ratio = ratios[PAIRS / 2] };
}

static void prepare(size_t payload)
{
	uint8_t matrix[K * M];
	struct cauchy cauchy;
	struct rng rng;

	cauchy_init(&cauchy);
	rng_seed(&rng, 1);
	rng_fill(&rng, bench.memory, sizeof(bench.memory));
	bench.payload = payload;
	bench.group = (struct coding_group){ .count = K, .length = payload, .last = payload };
	for (unsigned i = 0; i < K; i++)
		bench.data[i] = bench.memory + i * payload;
	for (unsigned i = 0; i < M; i++) {
		bench.parity[i] = bench.memory + (K + i) * payload;
		bench.spare[i] = bench.memory + (K + M + i) * payload;
		cauchy_row(&cauchy, i, K, matrix + (size_t)i * K);
	}
	ec_init_tables(K, M, matrix, bench.tables);
	encode_ours();
}

static double gigabytes(double ns, double rows)
{
	return (double)bench.payload * K * rows / ns;
}

static void print_ratios(const char *name, const struct figures figures[M])
{
	printf(", \"%s\": [", name);
	for (unsigned e = 1; e <= M; e++)
		printf("%s%.4f", e > 1 ? ", " : "", figures[e - 1].ratio);
	printf("]");
}

static void print_payload(size_t payload, bool json, bool first)
{
	struct figures encode, fold, code_xor, second, decode[M], rows[M];

	prepare(payload);
	encode = compare(encode_ours, encode_bare);
	fold = compare(fold_ours, encode_bare);
	code_xor = compare(xor_ours, xor_bare);
	second = compare(decode_second, encode_bare);
	for (unsigned e = 1; e <= M; e++) {
		bench.erasures = e;
		decode[e - 1] = compare(decode_ours, encode_bare);
		rows[e - 1] = compare(decode_ours, encode_as_many);
	}
	if (json) {
		printf("%s{\"payload\": %zu, \"encode_rows_bytes_a_second\": %.4g, \"encode_ratio\": %.4f, "
		       "\"fold_ratio\": %.4f, \"xor_bytes_a_second\": %.4g, \"xor_ratio\": %.4f, "
		       "\"decode_one_without_first_row_ratio\": %.4f",
		       first ? "" : ", ", payload, gigabytes(encode.ns, M) * 1e9, encode.ratio,
		       fold.ratio, gigabytes(code_xor.ns, 1) * 1e9, code_xor.ratio, second.ratio);
		print_ratios("decode_ratio", decode);
		print_ratios("decode_rows_ratio", rows);
		printf("}");
		return;
	}
	printf("packets of %zu bytes, k = %d, m = %d\n", payload, K, M);
	printf("  encode  %5.1f GB/s of data times rows, %.3f of ISA-L bare\n",
	       gigabytes(encode.ns, M), encode.ratio);
	printf("  fold    %.3f of encoding at once\n", fold.ratio);
	printf("  xor     %5.1f GB/s of data, %.3f of ISA-L bare\n", gigabytes(code_xor.ns, 1),
	       code_xor.ratio);
	for (unsigned e = 1; e <= M; e++)
		printf("  decode %u: %.3f of an encode; %u / %d is %.3f; %.2f of ISA-L making %u rows\n",
		       e, decode[e - 1].ratio, e, M, (double)e / M, rows[e - 1].ratio, e);
	printf("  decode 1 without the first parity row: %.3f of an encode\n", second.ratio);
}

int main(int argc, char **argv)
{
	static const size_t payloads[] = { 1024, 1436, 4096, 65536 };
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;

	if (argc > 2 || (argc == 2 && !json)) {
		fputs("usage: coding [--json]\n", stderr);
		return 2;
	}
	if (rs_create(K, M, &bench.rs)) {
		fputs("coding: no memory\n", stderr);
		return 1;
	}
	if (json)
		printf("{\"k\": %d, \"m\": %d, \"pairs\": %d, \"payloads\": [", K, M, PAIRS);
	for (unsigned i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++)
		print_payload(payloads[i], json, i == 0);
	if (json)
		puts("]}");
	rs_destroy(bench.rs);
	return 0;
}
