/* The reference library: plain loops that a compiler can vectorise. See clib.h.
 *
 * Convolutions spend nearly all their time in `products` and `store`, which have variants for instruction sets, chosen by the compiler's macros (-march=...);
 * CLIB_PLAIN asks for plain C99. All variants give the same integers. */
#include "clib.h"

#include <stddef.h>
#include <string.h>
#if !defined CLIB_PLAIN && (defined __AVX2__ || (defined __AVX512BW__ && defined __AVX512VNNI__))
#include <immintrin.h>
#endif

#define DEPTH 1152  /* products of one sum that are laid out at once, a multiple of LANES */
#define ROW 1184    /* from one row of them to the next: no power of two, so that rows do not share the sets of a cache */
#define PIXELS 16   /* of a tile, a multiple of ROWS */
#define FILTERS 256 /* whose sums of a tile are kept, a multiple of COLUMNS */
#define ROWS 4      /* pixels of one call of products */
#define LANES 64    /* rows of a window are padded to multiples of this many */
#define CHANNELS 256
#define OFFSET(pixel, pitch) ((ptrdiff_t)(pixel) * (pitch))

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* C99 leaves >> of a negative number to the implementation, so 2^62 is added before and what is left of it taken away: |sum * multiplier| is less. */
static int8_t stored(int64_t sum, int64_t multiplier, int32_t shift, int32_t zero, int32_t low, int32_t high)
{
    const uint64_t offset = (uint64_t)1 << 62, half = ((uint64_t)1 << shift) >> 1;
    const int64_t whole = (int64_t)(((uint64_t)(sum * multiplier) + half + offset) >> shift) - (int64_t)(offset >> shift) + zero;
    return (int8_t)(whole < low ? low : whole > high ? high : whole);
}

#if !defined CLIB_PLAIN && defined __AVX2__

/* `stored` before zero is added, for the even ones of eight sums; low and high are less zero. */
static __m256i stored_even(__m256i sums, __m256i multipliers, __m256i shifts, __m256i low, __m256i high)
{
    const __m256i offset = _mm256_set1_epi64x((int64_t)1 << 62), count = _mm256_and_si256(shifts, _mm256_set1_epi64x(UINT32_MAX));
    const __m256i half = _mm256_srli_epi64(_mm256_sllv_epi64(_mm256_set1_epi64x(1), count), 1);
    const __m256i raised = _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epi32(sums, multipliers), half), offset);
    const __m256i whole = _mm256_sub_epi64(_mm256_srlv_epi64(raised, count), _mm256_srlv_epi64(offset, count));
    const __m256i above = _mm256_blendv_epi8(whole, low, _mm256_cmpgt_epi64(low, whole));
    return _mm256_blendv_epi8(above, high, _mm256_cmpgt_epi64(above, high));
}

/* Eight neighbouring results. */
static void store_eight(int8_t *y, const int32_t *sums, const int32_t *multipliers, const int32_t *shifts, int32_t zero, int32_t low, int32_t high)
{
    const __m256i s = _mm256_loadu_si256((const __m256i *)sums), m = _mm256_loadu_si256((const __m256i *)multipliers);
    const __m256i shift = _mm256_loadu_si256((const __m256i *)shifts), least = _mm256_set1_epi64x(low - zero), most = _mm256_set1_epi64x(high - zero);
    const __m256i even = stored_even(s, m, shift, least, most);
    const __m256i odd = stored_even(_mm256_srli_epi64(s, 32), _mm256_srli_epi64(m, 32), _mm256_srli_epi64(shift, 32), least, most);
    const __m256i words = _mm256_add_epi32(_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa), _mm256_set1_epi32(zero));
    const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storel_epi64((__m128i *)y, _mm_packs_epi16(halves, halves));
}

#endif

/* n neighbouring results, each with the ending of its channel. */
static void store(int8_t *restrict y, const int32_t *restrict sums, const int32_t *restrict multipliers, const int32_t *restrict shifts, int32_t n,
                  int32_t zero, int32_t low, int32_t high)
{
    int32_t k = 0;
#if !defined CLIB_PLAIN && defined __AVX2__
    for (; k + 8 <= n; k += 8) store_eight(y + k, sums + k, multipliers + k, shifts + k, zero, low, high);
#endif
    for (; k < n; k++) y[k] = stored(sums[k], multipliers[k], shifts[k], zero, low, high);
}

/* The variants. Each has `element`, the type of a window's elements when they are laid out; RAISED, by how much more than x - zero_x they are;
 * COLUMNS, filters of one call; and products: the sums of products of ROWS rows of x, each padded to LANES, with COLUMNS rows of n weights. */
#if !defined CLIB_PLAIN && defined __AVX512BW__ && defined __AVX512VNNI__

/* VPDPBUSD multiplies unsigned with signed bytes, so x + 128 is laid out. It wraps around and does not saturate: `sums_begin` takes away the surplus. */
typedef uint8_t element;
#define RAISED(zero_x) (128 + (zero_x))
#define COLUMNS 4

/* In each 128 bits, the totals of a's, b's, c's and d's words there. */
static __m512i four_totals(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* a's four quarters in pairs, then b's. */
static __m512i quarters(__m512i a, __m512i b) { return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd)); }

static void products(int32_t n, const element *x, const int8_t *const w[COLUMNS], int32_t sums[ROWS][COLUMNS])
{
    __m512i s[ROWS][COLUMNS], t[ROWS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) s[i][j] = _mm512_setzero_si512();
    const int8_t *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
    do { /* n > 0; with pointers that move and the test at the end, GCC 12 copies no sums from register to register */
        const __mmask64 there = ~(__mmask64)0 >> (n < 64 ? 64 - n : 0);
        const __m512i f0 = _mm512_maskz_loadu_epi8(there, w0), f1 = _mm512_maskz_loadu_epi8(there, w1);
        const __m512i f2 = _mm512_maskz_loadu_epi8(there, w2), f3 = _mm512_maskz_loadu_epi8(there, w3);
        for (int i = 0; i < ROWS; i++) {
            const __m512i pixel = _mm512_loadu_si512(x + i * ROW);
            s[i][0] = _mm512_dpbusd_epi32(s[i][0], pixel, f0);
            s[i][1] = _mm512_dpbusd_epi32(s[i][1], pixel, f1);
            s[i][2] = _mm512_dpbusd_epi32(s[i][2], pixel, f2);
            s[i][3] = _mm512_dpbusd_epi32(s[i][3], pixel, f3);
        }
        n -= 64, x += 64, w0 += 64, w1 += 64, w2 += 64, w3 += 64;
    } while (n > 0);
    for (int i = 0; i < ROWS; i++) t[i] = four_totals(s[i][0], s[i][1], s[i][2], s[i][3]);
    _mm512_storeu_si512(sums, quarters(quarters(t[0], t[1]), quarters(t[2], t[3])));
}

#else

typedef int16_t element;
#define RAISED(zero_x) 0
#define COLUMNS 2

#if !defined CLIB_PLAIN && defined __AVX2__

/* Stores the totals of four sums. */
static void totals(__m256i s0, __m256i s1, __m256i s2, __m256i s3, int32_t *to)
{
    const __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(s0, s1), _mm256_hadd_epi32(s2, s3));
    _mm_storeu_si128((__m128i *)to, _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

/* Adds 16 products of 16 bits, exact in 32 (VPMADDWD). */
static inline __m256i add(__m256i sum, const element *x, __m256i w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *)x), w));
}

static void products(int32_t n, const element *x, const int8_t *const w[COLUMNS], int32_t sums[ROWS][COLUMNS])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i s00 = zero, s01 = zero, s10 = zero, s11 = zero, s20 = zero, s21 = zero, s30 = zero, s31 = zero;
    const int8_t *w0 = w[0], *w1 = w[1];
    int8_t last[COLUMNS][16] = {{0}};
    const size_t rest = (size_t)n % 16;
    if (rest) memcpy(last[0], w0 + n - rest, rest), memcpy(last[1], w1 + n - rest, rest);
    for (ptrdiff_t steps = n / 16, parts = rest ? 2 : 1; parts > 0; parts--, steps = 1, w0 = last[0], w1 = last[1])
        for (; steps > 0; steps--, x += 16, w0 += 16, w1 += 16) {
            const __m256i f0 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w0)), f1 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w1));
            s00 = add(s00, x, f0), s01 = add(s01, x, f1);
            s10 = add(s10, x + ROW, f0), s11 = add(s11, x + ROW, f1);
            s20 = add(s20, x + 2 * ROW, f0), s21 = add(s21, x + 2 * ROW, f1);
            s30 = add(s30, x + 3 * ROW, f0), s31 = add(s31, x + 3 * ROW, f1);
        }
    totals(s00, s01, s10, s11, sums[0]);
    totals(s20, s21, s30, s31, sums[2]);
}

#else

static void products(int32_t n, const element *x, const int8_t *const w[COLUMNS], int32_t sums[ROWS][COLUMNS])
{
    const element *x0 = x, *x1 = x + ROW, *x2 = x + 2 * ROW, *x3 = x + 3 * ROW;
    const int8_t *w0 = w[0], *w1 = w[1];
    int32_t s00 = 0, s01 = 0, s10 = 0, s11 = 0, s20 = 0, s21 = 0, s30 = 0, s31 = 0;
    for (int32_t k = 0; k < n; k++) {
        s00 += x0[k] * w0[k];
        s01 += x0[k] * w1[k];
        s10 += x1[k] * w0[k];
        s11 += x1[k] * w1[k];
        s20 += x2[k] * w0[k];
        s21 += x2[k] * w1[k];
        s30 += x3[k] * w0[k];
        s31 += x3[k] * w1[k];
    }
    sums[0][0] = s00, sums[0][1] = s01;
    sums[1][0] = s10, sums[1][1] = s11;
    sums[2][0] = s20, sums[2][1] = s21;
    sums[3][0] = s30, sums[3][1] = s31;
}

#endif
#endif

/* n elements of x as they are laid out. */
static void lay(element *restrict to, const int8_t *restrict from, int32_t n, int32_t zero)
{
    for (int32_t k = 0; k < n; k++) to[k] = (element)(from[k] - zero + RAISED(zero));
}

/* n elements that stand for pixels outside x. */
static void blank(element *to, int32_t n, int32_t raised)
{
    for (int32_t k = 0; k < n; k++) to[k] = (element)raised;
}

/* Elements `from` to `to` - 1 of one row of a window, whose first pixel is column `left` of row `x`. */
static void gather_row(const struct clib_conv2d_arguments *a, const int8_t *x, int32_t left, int32_t from, int32_t to, element *out)
{
    const int32_t c = a->in_channels;
    if (a->dw == 1 && a->x_pitch == c) { /* one stretch, with zeros where it leaves the picture */
        const int32_t begin = most(from, least(-left * c, to)), end = most(begin, least((a->width - left) * c, to));
        blank(out, begin - from, RAISED(a->zero_x));
        lay(out + begin - from, x + (ptrdiff_t)left * c + begin, end - begin, a->zero_x);
        blank(out + end - from, to - end, RAISED(a->zero_x));
        return;
    }
    while (from < to) {
        const int32_t w = left + from / c * a->dw, i = from % c, run = least(to - from, c - i);
        if (w < 0 || w >= a->width)
            blank(out, run, RAISED(a->zero_x));
        else
            lay(out, x + OFFSET(w, a->x_pitch) + i, run, a->zero_x);
        out += run, from += run;
    }
}

/* Elements `first` to `first + n - 1` of the window of an output pixel, in the order of a filter's weights, with zeros up to `whole`. */
static void gather(const struct clib_conv2d_arguments *a, int32_t pixel, int32_t first, int32_t n, int32_t whole, element *to)
{
    const int32_t top = pixel / a->out_width * a->sh - a->pad_top, left = pixel % a->out_width * a->sw - a->pad_left, row = a->kw * a->in_channels;
    memset(to + n, 0, (size_t)(whole - n) * sizeof *to);
    while (n > 0) {
        const int32_t h = top + first / row * a->dh, from = first % row, run = least(n, row - from);
        if (h < 0 || h >= a->height)
            blank(to, run, RAISED(a->zero_x));
        else
            gather_row(a, a->x + OFFSET(h * a->width, a->x_pitch), left, from, from + run, to);
        to += run, first += run, n -= run;
    }
}

/* Where the sums of `filters` filters from `o` on begin: their biases, less what elements raised by RAISED add. */
static void sums_begin(const struct clib_conv2d_arguments *a, int32_t o, int32_t filters, uint32_t *begin)
{
    const int32_t depth = a->kh * a->kw * a->in_channels;
    for (int32_t f = 0; f < filters; f++) {
        const int8_t *w = a->weight + OFFSET(o + f, depth);
        int32_t sum = 0;
        for (int32_t k = 0; RAISED(a->zero_x) != 0 && k < depth; k++) sum += w[k];
        begin[f] = (uint32_t)a->bias[o + f] - (uint32_t)sum * (uint32_t)RAISED(a->zero_x);
    }
}

/* Adds to sums, [PIXELS][FILTERS], those of `filters` filters from `o` on, for `count` pixels. Unsigned, since raised elements may wrap them around. */
static void conv2d_sums(const struct clib_conv2d_arguments *a, int32_t pixel, int32_t count, int32_t o, int32_t filters, element *patches, uint32_t *sums)
{
    const int32_t depth = a->kh * a->kw * a->in_channels;
    for (int32_t first = 0; first < depth; first += DEPTH) {
        const int32_t n = least(DEPTH, depth - first), whole = (n + LANES - 1) / LANES * LANES;
        for (int32_t k = 0; k < count; k++) gather(a, pixel + k, first, n, whole, patches + k * ROW);
        for (int32_t f = 0; f < filters; f += COLUMNS) {
            const int8_t *w[COLUMNS];
            for (int32_t g = 0; g < COLUMNS; g++) w[g] = a->weight + OFFSET(o + least(f + g, filters - 1), depth) + first;
            for (int32_t k = 0; k < count; k += ROWS) {
                int32_t found[ROWS][COLUMNS];
                products(n, patches + k * ROW, w, found);
                for (int i = 0; i < ROWS; i++)
                    for (int j = 0; j < COLUMNS; j++) sums[(k + i) * FILTERS + f + j] += (uint32_t)found[i][j];
            }
        }
    }
}

void clib_conv2d(const struct clib_conv2d_arguments *a)
{
    element patches[PIXELS * ROW];
    uint32_t begin[FILTERS] = {0}, sums[PIXELS * FILTERS];
    const int32_t pixels = a->out_height * a->out_width;
    memset(patches, 0, sizeof patches);
    for (int32_t o = 0; o < a->out_channels; o += FILTERS) {
        const int32_t filters = least(FILTERS, a->out_channels - o);
        sums_begin(a, o, filters, begin);
        for (int32_t pixel = 0; pixel < pixels; pixel += PIXELS) {
            const int32_t count = least(PIXELS, pixels - pixel);
            for (int32_t k = 0; k < PIXELS; k++) memcpy(sums + k * FILTERS, begin, sizeof begin);
            conv2d_sums(a, pixel, count, o, filters, patches, sums);
            for (int32_t k = 0; k < count; k++)
                store(a->y + OFFSET(pixel + k, a->y_pitch) + o, (const int32_t *)(sums + k * FILTERS), a->multipliers + o, a->shifts + o, filters, a->zero_y,
                      a->low, a->high);
        }
    }
}

/* The row of x that a window's row u reads for output row p, or -1 outside. */
static int32_t inside(int32_t p, int32_t stride, int32_t u, int32_t dilation, int32_t pad, int32_t extent)
{
    const int32_t row = p * stride + u * dilation - pad;
    return row >= 0 && row < extent ? row : -1;
}

static void accumulate(int32_t *restrict sums, const int8_t *restrict x, const int8_t *restrict weight, int32_t n, int32_t zero)
{
    for (int32_t k = 0; k < n; k++) sums[k] += (x[k] - zero) * weight[k];
}

/* The sums of one output pixel for `count` channels from `c` on. */
static void depthwise_sums(const struct clib_depthwise_arguments *a, int32_t p, int32_t q, int32_t c, int32_t count, int32_t *restrict sums)
{
    memcpy(sums, a->bias + c, (size_t)count * sizeof *sums);
    for (int32_t u = 0; u < a->kh; u++)
        for (int32_t v = 0; v < a->kw; v++) {
            const int32_t h = inside(p, a->sh, u, a->dh, a->pad_top, a->height), w = inside(q, a->sw, v, a->dw, a->pad_left, a->width);
            if (h < 0 || w < 0) continue;
            const int8_t *x = a->x + OFFSET(h * a->width + w, a->x_pitch) + c, *weight = a->weight + OFFSET(u * a->kw + v, a->channels) + c;
            accumulate(sums, x, weight, count, a->zero_x);
        }
}

void clib_depthwise(const struct clib_depthwise_arguments *a)
{
    int32_t sums[CHANNELS];
    for (int32_t p = 0; p < a->out_height; p++)
        for (int32_t q = 0; q < a->out_width; q++)
            for (int32_t c = 0; c < a->channels; c += CHANNELS) {
                const int32_t count = least(CHANNELS, a->channels - c);
                int8_t *y = a->y + OFFSET(p * a->out_width + q, a->y_pitch) + c;
                depthwise_sums(a, p, q, c, count, sums);
                store(y, sums, a->multipliers + c, a->shifts + c, count, a->zero_y, a->low, a->high);
            }
}

static void larger(int8_t *restrict y, const int8_t *restrict x, int32_t n)
{
    for (int32_t k = 0; k < n; k++) y[k] = x[k] > y[k] ? x[k] : y[k];
}

void clib_max_pool(const struct clib_max_pool_arguments *a)
{
    for (int32_t p = 0; p < a->out_height; p++)
        for (int32_t q = 0; q < a->out_width; q++) {
            int8_t *y = a->y + OFFSET(p * a->out_width + q, a->y_pitch);
            memset(y, INT8_MIN, (size_t)a->channels);
            for (int32_t u = 0; u < a->kh; u++)
                for (int32_t v = 0; v < a->kw; v++) {
                    const int32_t h = inside(p, a->sh, u, a->dh, a->pad_top, a->height), w = inside(q, a->sw, v, a->dw, a->pad_left, a->width);
                    if (h < 0 || w < 0) continue;
                    const int8_t *x = a->x + OFFSET(h * a->width + w, a->x_pitch);
                    larger(y, x, a->channels);
                }
        }
}

/* The sums of one output pixel for `count` channels from `c` on. */
static void average_sums(const struct clib_average_pool_arguments *a, int32_t p, int32_t q, int32_t c, int32_t count, int32_t *restrict sums)
{
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int32_t u = 0; u < a->kh; u++)
        for (int32_t v = 0; v < a->kw; v++) {
            const int32_t h = inside(p, a->sh, u, a->dh, a->pad_top, a->height), w = inside(q, a->sw, v, a->dw, a->pad_left, a->width);
            if (h < 0 || w < 0) continue;
            const int8_t *x = a->x + OFFSET(h * a->width + w, a->x_pitch) + c;
            for (int32_t k = 0; k < count; k++) sums[k] += x[k] - a->zero_x;
        }
}

void clib_average_pool(const struct clib_average_pool_arguments *a)
{
    int32_t sums[CHANNELS];
    for (int32_t p = 0; p < a->out_height; p++)
        for (int32_t q = 0; q < a->out_width; q++)
            for (int32_t c = 0; c < a->channels; c += CHANNELS) {
                const int32_t count = least(CHANNELS, a->channels - c);
                int8_t *y = a->y + OFFSET(p * a->out_width + q, a->y_pitch) + c;
                average_sums(a, p, q, c, count, sums);
                for (int32_t k = 0; k < count; k++)
                    y[k] = stored((int64_t)sums[k] * a->multiply, a->multiplier, a->shift, a->zero_y, a->low, a->high);
            }
}

void clib_add(const struct clib_add_arguments *arguments)
{
    const struct clib_add_arguments a = *arguments; /* a copy, so that no store changes it */
    for (int32_t k = 0; k < a.pixels; k++) {
        const int8_t *x = a.x + OFFSET(k, a.x_pitch), *z = a.z + OFFSET(k, a.z_pitch);
        int8_t *y = a.y + OFFSET(k, a.y_pitch);
        for (int32_t c = 0; c < a.channels; c++) {
            const int32_t sum = (x[c] - a.zero_x) * a.multiply_x + (z[c] - a.zero_z) * a.multiply_z;
            y[c] = stored(sum, a.multiplier, a.shift, a.zero_y, a.low, a.high);
        }
    }
}

void clib_multiply(const struct clib_multiply_arguments *arguments)
{
    const struct clib_multiply_arguments a = *arguments;
    for (int32_t k = 0; k < a.pixels; k++) {
        const int8_t *x = a.x + OFFSET(k, a.x_pitch), *z = a.z + OFFSET(k % a.z_pixels, a.z_pitch);
        int8_t *y = a.y + OFFSET(k, a.y_pitch);
        for (int32_t c = 0; c < a.channels; c++)
            y[c] = stored((x[c] - a.zero_x) * (z[c] - a.zero_z), a.multiplier, a.shift, a.zero_y, a.low, a.high);
    }
}

void clib_table(const struct clib_table_arguments *a)
{
    const int8_t *const table = a->table + 128;
    for (int32_t k = 0; k < a->pixels; k++) {
        const int8_t *x = a->x + OFFSET(k, a->x_pitch);
        int8_t *y = a->y + OFFSET(k, a->y_pitch);
        for (int32_t c = 0, channels = a->channels; c < channels; c++) y[c] = table[x[c]];
    }
}

void clib_upsample(const struct clib_upsample_arguments *a)
{
    for (int32_t p = 0; p < a->height * a->factor_h; p++)
        for (int32_t q = 0; q < a->width * a->factor_w; q++) {
            const int8_t *x = a->x + OFFSET(p / a->factor_h * a->width + q / a->factor_w, a->x_pitch);
            memcpy(a->y + OFFSET(p * a->width * a->factor_w + q, a->y_pitch), x, (size_t)a->channels);
        }
}
