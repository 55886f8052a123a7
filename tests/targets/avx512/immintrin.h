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

static inline int32_t _mm512_reduce_add_epi32(__m512i sums)
{
    uint32_t words[16], total = 0;
    memcpy(words, &sums, sizeof words);
    for (int k = 0; k < 16; k++) total += words[k];
    return (int32_t)total;
}

#endif
