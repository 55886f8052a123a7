/* The AVX-512 that clib.c takes, in plain C, for processors that have none: each function as Intel's guide describes the instruction. */
#ifndef STAND_IN_IMMINTRIN_H
#define STAND_IN_IMMINTRIN_H

#include <stdint.h>
#include <string.h>

typedef uint64_t __mmask64;
typedef struct { uint8_t bytes[64]; } __m512i;

static inline __m512i _mm512_setzero_si512(void)
{
    __m512i zero;
    memset(&zero, 0, sizeof zero);
    return zero;
}

static inline __m512i _mm512_loadu_si512(const void *from)
{
    __m512i to;
    memcpy(&to, from, sizeof to);
    return to;
}

static inline __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void *from)
{
    __m512i to = _mm512_setzero_si512();
    for (int k = 0; k < 64; k++)
        if (mask >> k & 1) to.bytes[k] = ((const uint8_t *)from)[k];
    return to;
}

/* Four products of an unsigned byte of a and a signed one of b are added to each 32 bits, which wrap around. */
static inline __m512i _mm512_dpbusd_epi32(__m512i sums, __m512i a, __m512i b)
{
    uint32_t words[16];
    memcpy(words, &sums, sizeof words);
    for (int k = 0; k < 64; k++) words[k / 4] += (uint32_t)(a.bytes[k] * (int8_t)b.bytes[k]);
    memcpy(&sums, words, sizeof words);
    return sums;
}

static inline void _mm512_storeu_si512(void *to, __m512i from) { memcpy(to, &from, sizeof from); }

static inline __m512i _mm512_add_epi32(__m512i a, __m512i b)
{
    uint32_t sums[16], words[16];
    memcpy(sums, &a, sizeof sums);
    memcpy(words, &b, sizeof words);
    for (int k = 0; k < 16; k++) sums[k] += words[k];
    memcpy(&a, sums, sizeof sums);
    return a;
}

/* Of each 128 bits, elements of `size` bytes in turn of a and of b: those from the half at byte `from` on. */
static inline __m512i interleaved(__m512i a, __m512i b, int size, int from)
{
    __m512i to;
    for (int k = 0; k < 64; k++) {
        const int place = k % 16, pair = place / (2 * size);
        to.bytes[k] = (place / size % 2 ? b : a).bytes[k - place + from + pair * size + place % size];
    }
    return to;
}

static inline __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) { return interleaved(a, b, 4, 0); }
static inline __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) { return interleaved(a, b, 4, 8); }
static inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) { return interleaved(a, b, 8, 0); }
static inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) { return interleaved(a, b, 8, 8); }

/* Two quarters of a, then two of b, each chosen by two bits. */
static inline __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int choice)
{
    __m512i to;
    for (int k = 0; k < 4; k++) memcpy(to.bytes + 16 * k, (k < 2 ? a : b).bytes + 16 * (choice >> 2 * k & 3), 16);
    return to;
}

#endif
