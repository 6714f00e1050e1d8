/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32 by carry-less multiplication in registers of 256 bits, where the processor has it (VPCLMULQDQ). ISA-L has versions for
 * 128 bits and, where there is AVX-512, for 512. Processors without AVX-512 are left with the first, which takes a quarter of a
 * transfer's time at either end.
 *
 * The message is a polynomial, of which the CRC is the remainder. 16 bytes may be added to 16 others that are n bits behind them
 * if each half of them is first multiplied by x^n, modulo the CRC's polynomial, which leaves the remainder as it is. So four
 * registers hold eight such sums, which run through the message 128 bytes at a time and are added up in the end; ISA-L does
 * the last 16 to 47 bytes. A constant is the remainder of x^(n + 32), or of x^(n - 32) for the later half, reflected and
 * shifted by one: a product of reflected numbers is one bit short.
 */
#include "wire/crc32.h"

#include <isa-l.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Fewer bytes than this are not worth it. */
#define WIDE_LEAST 256
#define BLOCK	   128
#define HALVES	   2
/* Bytes between what is added up and what is fetched from memory meanwhile. */
#define AHEAD 1024

#define WIDE __attribute__((target("avx2,pclmul,vpclmulqdq")))

/* Constants for n = 1024, 256 and 128 bits, of the earlier half and of the later. */
static const int64_t by_block[HALVES] = { 0x1e88ef372, 0x14a7fe880 };
static const int64_t by_32_bytes[HALVES] = { 0x0f1da05aa, 0x15a546366 };
static const int64_t by_16_bytes[HALVES] = { 0x1751997d0, 0x0ccaa009e };

WIDE static inline __m256i load(const uint8_t *data)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)data);
}

/* Adds a sum to what is so many bits behind it. */
WIDE static inline __m256i fold(__m256i sum, __m256i by, __m256i there)
{
	__m256i earlier = _mm256_clmulepi64_epi128(sum, by, 0x00);
	__m256i later = _mm256_clmulepi64_epi128(sum, by, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(earlier, later), there);
}

WIDE static uint32_t update_wide(uint32_t crc, const uint8_t *data, size_t length)
{
	const __m256i block = _mm256_broadcastsi128_si256(_mm_set_epi64x(by_block[1], by_block[0]));
	const __m256i bytes32 =
		_mm256_broadcastsi128_si256(_mm_set_epi64x(by_32_bytes[1], by_32_bytes[0]));
	const __m128i bytes16 = _mm_set_epi64x(by_16_bytes[1], by_16_bytes[0]);
	__m256i sum0 = load(data), sum1 = load(data + 32), sum2 = load(data + 64),
		sum3 = load(data + 96);
	uint8_t rest[16 + 32];
	__m128i first, last;

	sum0 = _mm256_xor_si256(sum0, _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)~crc)));
	for (data += BLOCK, length -= BLOCK; length >= BLOCK; data += BLOCK, length -= BLOCK) {
		/* Tensors are not in a cache, and the processor itself fetches no further than a page. */
		_mm_prefetch(data + AHEAD, _MM_HINT_T0);
		_mm_prefetch(data + AHEAD + 64, _MM_HINT_T0);
		sum0 = fold(sum0, block, load(data));
		sum1 = fold(sum1, block, load(data + 32));
		sum2 = fold(sum2, block, load(data + 64));
		sum3 = fold(sum3, block, load(data + 96));
	}
	sum0 = fold(fold(fold(sum0, bytes32, sum1), bytes32, sum2), bytes32, sum3);
	for (; length >= 32; data += 32, length -= 32)
		sum0 = fold(sum0, bytes32, load(data));
	first = _mm256_castsi256_si128(sum0);
	last = _mm256_extracti128_si256(sum0, 1);
	last = _mm_xor_si128(last, _mm_xor_si128(_mm_clmulepi64_si128(first, bytes16, 0x00),
						 _mm_clmulepi64_si128(first, bytes16, 0x11)));
	_mm_storeu_si128((__m128i *)(void *)rest, last);
	memcpy(rest + 16, data, length);
	/* The sum holds what came before it, so that nothing else does: ISA-L inverts this to 0. */
	return crc32_gzip_refl(UINT32_MAX, rest, 16 + length);
}

static inline int has_wide(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}
#else
#define WIDE_LEAST SIZE_MAX

static inline int has_wide(void)
{
	return 0;
}

static uint32_t update_wide(uint32_t crc, const uint8_t *data, size_t length)
{
	return crc32_gzip_refl(crc, data, length);
}
#endif

uint32_t crc32_update(uint32_t crc, const void *data, size_t length)
{
	if (length >= WIDE_LEAST && has_wide())
		return update_wide(crc, data, length);
	return length ? crc32_gzip_refl(crc, data, length) : crc;
}
