/* SPDX-License-Identifier: BSD-3-Clause */
#include "no_isal.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CRC_POLYNOMIAL	 0xedb88320u /* reflected */
#define FIELD_POLYNOMIAL 0x11d
/* A coefficient's table: its products with 0 to 15, then with 0, 16, 32 and so on. */
#define TABLE 32
/* Bytes that are coded at a time, and most rows in one call: a group has at most 255 symbols. */
#define BLOCK	 64
#define ROWS_MAX 256

/* ---- CRC-32 ------------------------------------------------------------------------------------------------------ */

static uint32_t crc_table[8][256];
static bool has_multiplication;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC_POLYNOMIAL : 0);
		crc_table[0][i] = crc;
	}
	for (int step = 1; step < 8; step++) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t before = crc_table[step - 1][i];

			crc_table[step][i] = before >> 8 ^ crc_table[0][before & 0xff];
		}
	}
#if defined(__x86_64__)
	__builtin_cpu_init();
	has_multiplication = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

/* Eight bytes at a time, by tables. `crc` is inverted. */
static uint32_t crc_by_tables(uint32_t crc, const uint8_t *data, uint64_t length)
{
	for (; length >= 8; data += 8, length -= 8) {
		uint32_t low, high;

		memcpy(&low, data, 4);
		memcpy(&high, data + 4, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		low = __builtin_bswap32(low);
		high = __builtin_bswap32(high);
#endif
		low ^= crc;
		crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^
		      crc_table[5][low >> 16 & 0xff] ^ crc_table[4][low >> 24] ^
		      crc_table[3][high & 0xff] ^ crc_table[2][high >> 8 & 0xff] ^
		      crc_table[1][high >> 16 & 0xff] ^ crc_table[0][high >> 24];
	}
	while (length--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *data++) & 0xff];
	return crc;
}

#if defined(__x86_64__)
#define MULTIPLIES __attribute__((target("pclmul,sse4.1")))

/* Moves 128 bits forward by the distance that `by` stands for, and adds what is there. */
MULTIPLIES static inline __m128i fold(__m128i value, __m128i by, __m128i there)
{
	__m128i low = _mm_clmulepi64_si128(value, by, 0x00);
	__m128i high = _mm_clmulepi64_si128(value, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

MULTIPLIES static inline __m128i load(const uint8_t *data)
{
	return _mm_loadu_si128((const __m128i *)(const void *)data);
}

/*
 * At least 64 bytes, a multiple of 16. The message is a polynomial; a block is added to a later one after multiplication with
 * x^n modulo the CRC's polynomial, n the distance in bits plus or minus 32. The constants are those remainders, reflected; the
 * last two are the polynomial and the quotient of x^64 by it, for Barrett's reduction.
 */
MULTIPLIES static uint32_t crc_by_multiplication(uint32_t crc, const uint8_t *data, uint64_t length)
{
	const __m128i by64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i by16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	const __m128i by8 = _mm_set_epi64x(0, 0x163cd6124);
	const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
	const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
	__m128i sum[4], rest;

	for (int i = 0; i < 4; i++)
		sum[i] = load(data + 16 * i);
	sum[0] = _mm_xor_si128(sum[0], _mm_cvtsi32_si128((int)crc));
	for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
		for (int i = 0; i < 4; i++)
			sum[i] = fold(sum[i], by64, load(data + 16 * i));
	}
	for (int i = 1; i < 4; i++)
		sum[0] = fold(sum[0], by16, sum[i]);
	for (; length >= 16; data += 16, length -= 16)
		sum[0] = fold(sum[0], by16, load(data));
	/* 128 bits to 96, to 64, to 32. */
	rest = _mm_xor_si128(_mm_clmulepi64_si128(sum[0], by16, 0x10), _mm_srli_si128(sum[0], 8));
	rest = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(rest, low32), by8, 0x00),
			     _mm_srli_si128(rest, 4));
	sum[0] = _mm_clmulepi64_si128(_mm_and_si128(rest, low32), barrett, 0x10);
	sum[0] = _mm_clmulepi64_si128(_mm_and_si128(sum[0], low32), barrett, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(rest, sum[0]), 1);
}
#endif

uint32_t crc32_gzip_refl(uint32_t crc, const unsigned char *data, uint64_t length)
{
	pthread_once(&prepared, prepare);
	crc = ~crc;
#if defined(__x86_64__)
	if (has_multiplication && length >= 64) {
		uint64_t whole = length / 16 * 16;

		crc = crc_by_multiplication(crc, data, whole);
		data += whole;
		length -= whole;
	}
#endif
	return ~crc_by_tables(crc, data, length);
}

/* ---- the field of 256 elements ----------------------------------------------------------------------------------- */

unsigned char gf_mul(unsigned char a, unsigned char b)
{
	unsigned product = 0, factor = a;

	for (unsigned bits = b; bits; bits >>= 1) {
		product ^= bits & 1 ? factor : 0;
		factor = factor << 1 ^ (factor & 0x80 ? FIELD_POLYNOMIAL : 0);
	}
	return (unsigned char)product;
}

void ec_init_tables(int columns, int rows, unsigned char *matrix, unsigned char *tables)
{
	for (int i = 0; i < columns * rows; i++, tables += TABLE) {
		for (unsigned n = 0; n < 16; n++) {
			tables[n] = gf_mul(matrix[i], (unsigned char)n);
			tables[16 + n] = gf_mul(matrix[i], (unsigned char)(n << 4));
		}
	}
}

static void add_product(int length, const unsigned char *table, const unsigned char *data,
			unsigned char *sum)
{
	for (int i = 0; i < length; i++)
		sum[i] ^= table[data[i] & 15] ^ table[16 + (data[i] >> 4)];
}

void ec_encode_data_update(int length, int columns, int rows, int column, unsigned char *tables,
			   unsigned char *data, unsigned char **coding)
{
	for (int row = 0; row < rows; row++)
		add_product(length, tables + (row * columns + column) * TABLE, data, coding[row]);
}

/* Like ISA-L, both functions below read a block of all vectors before they write it: an output may be an input's memory. */

void ec_encode_data(int length, int columns, int rows, unsigned char *tables, unsigned char **data,
		    unsigned char **coding)
{
	for (int at = 0; at < length; at += BLOCK) {
		int n = length - at < BLOCK ? length - at : BLOCK;
		unsigned char sum[ROWS_MAX][BLOCK] = { { 0 } };

		for (int row = 0; row < rows; row++) {
			for (int column = 0; column < columns; column++)
				add_product(n, tables + (row * columns + column) * TABLE,
					    data[column] + at, sum[row]);
		}
		for (int row = 0; row < rows; row++)
			memcpy(coding[row] + at, sum[row], (size_t)n);
	}
}

int xor_gen(int vectors, int length, void **array)
{
	for (int at = 0; at < length; at += BLOCK) {
		int n = length - at < BLOCK ? length - at : BLOCK;
		unsigned char sum[BLOCK] = { 0 };

		for (int v = 0; v < vectors - 1; v++) {
			const unsigned char *data = (const unsigned char *)array[v] + at;

			for (int i = 0; i < n; i++)
				sum[i] ^= data[i];
		}
		memcpy((unsigned char *)array[vectors - 1] + at, sum, (size_t)n);
	}
	return 0;
}
