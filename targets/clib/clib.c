/* The reference library: plain loops that a compiler can vectorise. See clib.h. */
#include "clib.h"

#include <stddef.h>
#include <string.h>

#define DEPTH 512   /* products of one sum that are laid out at once, a multiple of LANES */
#define ROW 544     /* from one row of them to the next: no power of two, so that rows do not share the sets of a cache */
#define PIXELS 16   /* of a tile, a multiple of 4 */
#define FILTERS 256 /* whose sums of a tile are kept, an even number */
#define LANES 16    /* sums of products are padded with zeros to multiples of this many */
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

/* n neighbouring results, each with the ending of its channel. */
static void store(int8_t *restrict y, const int32_t *restrict sums, const int32_t *restrict multipliers, const int32_t *restrict shifts, int32_t n,
                  int32_t zero, int32_t low, int32_t high)
{
    for (int32_t k = 0; k < n; k++) y[k] = stored(sums[k], multipliers[k], shifts[k], zero, low, high);
}

/* n elements less `zero`, as 16 bits. */
static void widen(int16_t *restrict to, const int8_t *restrict from, int32_t n, int32_t zero)
{
    for (int32_t k = 0; k < n; k++) to[k] = (int16_t)(from[k] - zero);
}

/* Adds the sums of products of four rows of x with two of w; n is a multiple of LANES. */
static void products(int32_t n, const int16_t *restrict x, const int16_t *restrict w, int32_t *restrict sums)
{
    const int16_t *x0 = x, *x1 = x + ROW, *x2 = x + 2 * ROW, *x3 = x + 3 * ROW, *w0 = w, *w1 = w + ROW;
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
    sums[0] += s00, sums[1] += s01;
    sums[FILTERS] += s10, sums[FILTERS + 1] += s11;
    sums[2 * FILTERS] += s20, sums[2 * FILTERS + 1] += s21;
    sums[3 * FILTERS] += s30, sums[3 * FILTERS + 1] += s31;
}

/* Elements `from` to `to` - 1 of one row of a window, whose first pixel is column `left` of row `x`. */
static void gather_row(const struct clib_conv2d_arguments *a, const int8_t *x, int32_t left, int32_t from, int32_t to, int16_t *out)
{
    const int32_t c = a->in_channels;
    if (a->dw == 1 && a->x_pitch == c) { /* one stretch, with zeros where it leaves the picture */
        const int32_t begin = most(from, least(-left * c, to)), end = most(begin, least((a->width - left) * c, to));
        memset(out, 0, (size_t)(begin - from) * sizeof *out);
        widen(out + begin - from, x + (ptrdiff_t)left * c + begin, end - begin, a->zero_x);
        memset(out + end - from, 0, (size_t)(to - end) * sizeof *out);
        return;
    }
    while (from < to) {
        const int32_t w = left + from / c * a->dw, i = from % c, run = least(to - from, c - i);
        if (w < 0 || w >= a->width)
            memset(out, 0, (size_t)run * sizeof *out);
        else
            widen(out, x + OFFSET(w, a->x_pitch) + i, run, a->zero_x);
        out += run, from += run;
    }
}

/* Elements `first` to `first + n - 1` of the window of an output pixel, in the order of a filter's weights, with zeros up to `whole`. */
static void gather(const struct clib_conv2d_arguments *a, int32_t pixel, int32_t first, int32_t n, int32_t whole, int16_t *to)
{
    const int32_t top = pixel / a->out_width * a->sh - a->pad_top, left = pixel % a->out_width * a->sw - a->pad_left, row = a->kw * a->in_channels;
    memset(to + n, 0, (size_t)(whole - n) * sizeof *to);
    while (n > 0) {
        const int32_t h = top + first / row * a->dh, from = first % row, run = least(n, row - from);
        if (h < 0 || h >= a->height)
            memset(to, 0, (size_t)run * sizeof *to);
        else
            gather_row(a, a->x + OFFSET(h * a->width, a->x_pitch), left, from, from + run, to);
        to += run, first += run, n -= run;
    }
}

/* The sums of up to FILTERS filters, from `o` on, for `count` pixels: [PIXELS][FILTERS]. patches: what was gathered of the window's last part. */
static void conv2d_sums(const struct clib_conv2d_arguments *a, int32_t pixel, int32_t count, int32_t o, int16_t *patches, int32_t *sums)
{
    int16_t filters[2 * ROW];
    const int32_t depth = a->kh * a->kw * a->in_channels, filters_here = least(FILTERS, a->out_channels - o);
    for (int32_t first = 0; first < depth; first += DEPTH) {
        const int32_t n = least(DEPTH, depth - first), whole = (n + LANES - 1) / LANES * LANES;
        if (depth > DEPTH || o == 0)
            for (int32_t k = 0; k < count; k++) gather(a, pixel + k, first, n, whole, patches + k * ROW);
        memset(filters, 0, sizeof filters);
        for (int32_t f = 0; f < filters_here; f += 2) {
            for (int32_t g = 0; g < least(2, filters_here - f); g++) widen(filters + g * ROW, a->weight + OFFSET(o + f + g, depth) + first, n, 0);
            for (int32_t k = 0; k < count; k += 4) products(whole, patches + k * ROW, filters, sums + k * FILTERS + f);
        }
    }
}

void clib_conv2d(const struct clib_conv2d_arguments *a)
{
    int16_t patches[PIXELS * ROW];
    int32_t sums[PIXELS * FILTERS];
    const int32_t pixels = a->out_height * a->out_width;
    memset(patches, 0, sizeof patches);
    for (int32_t pixel = 0; pixel < pixels; pixel += PIXELS)
        for (int32_t o = 0; o < a->out_channels; o += FILTERS) {
            const int32_t count = least(PIXELS, pixels - pixel), filters = least(FILTERS, a->out_channels - o);
            for (int32_t k = 0; k < PIXELS; k++) memcpy(sums + k * FILTERS, a->bias + o, (size_t)filters * sizeof *sums);
            conv2d_sums(a, pixel, count, o, patches, sums);
            for (int32_t k = 0; k < count; k++)
                store(a->y + OFFSET(pixel + k, a->y_pitch) + o, sums + k * FILTERS, a->multipliers + o, a->shifts + o, filters, a->zero_y, a->low, a->high);
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
