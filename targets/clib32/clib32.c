/* The reference library: plain loops that a compiler can vectorise without changing the order of a sum. See clib32.h. */
#include "clib32.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define DEPTH 64   /* terms of one sum that are laid out at once */
#define PIXELS 128 /* neighbouring results of which sums are built side by side */
#define LANES 16   /* partial sums of a product of two rows */

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t clamp(int32_t a, int32_t low, int32_t high) { return a < low ? low : a > high ? high : a; }

/* y[p] += w[0] * x[p] + w[1] * x[p + x_row] + ... for four rows of y, four terms at once. */
static void products4(int32_t n, const float *restrict x, ptrdiff_t x_row, const float *restrict w, ptrdiff_t w_row, float *restrict y, ptrdiff_t y_row)
{
    const float *x0 = x, *x1 = x + x_row, *x2 = x + 2 * x_row, *x3 = x + 3 * x_row;
    const float *a = w, *b = w + w_row, *c = w + 2 * w_row, *d = w + 3 * w_row;
    const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
    const float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
    float *restrict y0 = y, *restrict y1 = y + y_row, *restrict y2 = y + 2 * y_row, *restrict y3 = y + 3 * y_row;
    for (int32_t p = 0; p < n; p++) {
        const float u = x0[p], v = x1[p], s = x2[p], t = x3[p];
        y0[p] = y0[p] + a0 * u + a1 * v + a2 * s + a3 * t;
        y1[p] = y1[p] + b0 * u + b1 * v + b2 * s + b3 * t;
        y2[p] = y2[p] + c0 * u + c1 * v + c2 * s + c3 * t;
        y3[p] = y3[p] + d0 * u + d1 * v + d2 * s + d3 * t;
    }
}

static void product(int32_t n, const float *restrict x, float w, float *restrict y)
{
    for (int32_t p = 0; p < n; p++) y[p] += w * x[p];
}

/* rows of y, each the sum over `depth` terms; every sum has its terms in the same order, however rows and terms are grouped. */
static void products(int32_t rows, int32_t depth, int32_t n, const float *x, ptrdiff_t x_row, const float *w, ptrdiff_t w_row, float *y, ptrdiff_t y_row)
{
    int32_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        int32_t k = 0;
        for (; k + 4 <= depth; k += 4) products4(n, x + k * x_row, x_row, w + r * w_row + k, w_row, y + r * y_row, y_row);
        for (; k < depth; k++)
            for (int32_t j = r; j < r + 4; j++) product(n, x + k * x_row, w[j * w_row + k], y + j * y_row);
    }
    for (; r < rows; r++)
        for (int32_t k = 0; k < depth; k++) product(n, x + k * x_row, w[r * w_row + k], y + r * y_row);
}

/* `count` output pixels from `pixel` on: the element of x that each reads for row u and column v of its window. */
static void gather(const struct clib32_conv_arguments *a, const float *x, int32_t u, int32_t v, int32_t pixel, int32_t count, float *to)
{
    while (count > 0) {
        const int32_t q = pixel % a->out_width, run = least(count, a->out_width - q), h = pixel / a->out_width * a->sh + u * a->dh - a->pad_top;
        const int32_t left = q * a->sw + v * a->dw - a->pad_left;
        if (h < 0 || h >= a->height) {
            for (int32_t k = 0; k < run; k++) to[k] = 0;
        } else if (a->sw == 1) {
            const int32_t begin = clamp(-left, 0, run), end = clamp(a->width - left, begin, run);
            const float *row = x + (ptrdiff_t)h * a->width;
            for (int32_t k = 0; k < begin; k++) to[k] = 0;
            if (end > begin) memcpy(to + begin, row + left + begin, (size_t)(end - begin) * sizeof *to);
            for (int32_t k = end; k < run; k++) to[k] = 0;
        } else {
            const float *row = x + (ptrdiff_t)h * a->width;
            for (int32_t k = 0, w = left; k < run; k++, w += a->sw) to[k] = w >= 0 && w < a->width ? row[w] : 0;
        }
        to += run, pixel += run, count -= run;
    }
}

/* One group of one picture. */
static void conv_group(const struct clib32_conv_arguments *a, const float *x, const float *w, const float *b, float *y)
{
    float patches[DEPTH * PIXELS];
    const int32_t pixels = a->out_height * a->out_width, filters = a->out_channels / a->groups, taps = a->kh * a->kw;
    const int32_t depth = a->in_channels / a->groups * taps;
    const int plain = taps == 1 && a->sh == 1 && a->sw == 1 && !a->pad_top && !a->pad_left && pixels == a->height * a->width;
    for (int32_t pixel = 0; pixel < pixels; pixel += PIXELS) {
        const int32_t count = least(PIXELS, pixels - pixel);
        for (int32_t o = 0; o < filters; o++)
            for (int32_t p = 0; p < count; p++) y[(ptrdiff_t)o * pixels + pixel + p] = b ? b[o] : 0;
        for (int32_t first = 0; first < depth; first += DEPTH) {
            const int32_t n = least(DEPTH, depth - first);
            for (int32_t k = first; k < first + n && !plain; k++)
                gather(a, x + (ptrdiff_t)(k / taps) * a->height * a->width, k % taps / a->kw, k % a->kw, pixel, count, patches + (k - first) * PIXELS);
            const float *from = plain ? x + (ptrdiff_t)first * pixels + pixel : patches;
            products(filters, n, count, from, plain ? pixels : PIXELS, w + first, depth, y + pixel, pixels);
        }
    }
}

void clib32_conv(const struct clib32_conv_arguments *a)
{
    const ptrdiff_t in = (ptrdiff_t)a->in_channels / a->groups * a->height * a->width, filters = a->out_channels / a->groups;
    const ptrdiff_t out = filters * a->out_height * a->out_width, weights = filters * (a->in_channels / a->groups) * a->kh * a->kw;
    for (int32_t k = 0; k < a->batch * a->groups; k++) {
        const int32_t g = k % a->groups;
        conv_group(a, a->x + k * in, a->w + g * weights, a->b ? a->b + g * filters : NULL, a->y + k * out);
    }
}

/* One output channel of one picture, from the input channels of its group; w: of the first of these, `row` apart. */
static void conv_transpose_plane(const struct clib32_conv_transpose_arguments *a, const float *x, const float *w, ptrdiff_t row, float *y)
{
    for (int32_t i = 0; i < a->in_channels / a->groups; i++, x += a->height * a->width, w += row)
        for (int32_t h = 0; h < a->height; h++)
            for (int32_t u = 0; u < a->kh; u++) {
                const int32_t p = h * a->sh + u * a->dh - a->pad_top;
                for (int32_t c = 0; p >= 0 && p < a->out_height && c < a->width; c++)
                    for (int32_t v = 0; v < a->kw; v++) {
                        const int32_t q = c * a->sw + v * a->dw - a->pad_left;
                        if (q >= 0 && q < a->out_width) y[p * a->out_width + q] += x[h * a->width + c] * w[u * a->kw + v];
                    }
            }
}

void clib32_conv_transpose(const struct clib32_conv_transpose_arguments *a)
{
    const int32_t inner = a->in_channels / a->groups, filters = a->out_channels / a->groups, taps = a->kh * a->kw, plane = a->out_height * a->out_width;
    for (int32_t n = 0; n < a->batch; n++)
        for (int32_t o = 0; o < a->out_channels; o++) {
            const int32_t g = o / filters;
            float *y = a->y + ((ptrdiff_t)n * a->out_channels + o) * plane;
            for (int32_t p = 0; p < plane; p++) y[p] = a->b ? a->b[o] : 0;
            const float *x = a->x + ((ptrdiff_t)n * a->in_channels + g * inner) * a->height * a->width;
            conv_transpose_plane(a, x, a->w + ((ptrdiff_t)g * inner * filters + o % filters) * taps, (ptrdiff_t)filters * taps, y);
        }
}

/* The product of two rows, as LANES partial sums. */
static float dot(int32_t n, const float *restrict x, const float *restrict w)
{
    float lanes[LANES] = {0}, sum = 0;
    int32_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int32_t j = 0; j < LANES; j++) lanes[j] += x[k + j] * w[k + j];
    for (int32_t j = 0; j < LANES; j++) sum += lanes[j];
    for (; k < n; k++) sum += x[k] * w[k];
    return sum;
}

static void scaled(float *restrict y, const float *restrict c, int32_t n, int32_t step, float alpha, float beta)
{
    for (int32_t j = 0; j < n; j++) y[j] = alpha * y[j] + (c ? beta * c[j * step] : 0);
}

void clib32_gemm(const struct clib32_gemm_arguments *a)
{
    for (int32_t i = 0; i < a->m; i++) {
        float *y = a->y + (ptrdiff_t)i * a->n;
        for (int32_t j = 0; j < a->n; j++) y[j] = 0;
        if (a->trans_w && !a->trans_x)
            for (int32_t j = 0; j < a->n; j++) y[j] = dot(a->k, a->x + (ptrdiff_t)i * a->k, a->w + (ptrdiff_t)j * a->k);
        else
            for (int32_t k = 0; k < a->k; k++) {
                const float x = a->trans_x ? a->x[(ptrdiff_t)k * a->m + i] : a->x[(ptrdiff_t)i * a->k + k];
                for (int32_t j = 0; j < a->n; j++) y[j] += x * (a->trans_w ? a->w[(ptrdiff_t)j * a->k + k] : a->w[(ptrdiff_t)k * a->n + j]);
            }
        scaled(y, a->c ? a->c + i * a->c_steps[0] : NULL, a->n, a->c_steps[1], a->alpha, a->beta);
    }
}

void clib32_matmul(const struct clib32_matmul_arguments *a)
{
    const int32_t *e = a->extents, *s = a->x_steps, *t = a->w_steps;
    float *y = a->y;
    for (int32_t i = 0; i < e[0]; i++)
        for (int32_t j = 0; j < e[1]; j++)
            for (int32_t k = 0; k < e[2]; k++)
                for (int32_t l = 0; l < e[3]; l++, y += (ptrdiff_t)a->m * a->n) {
                    const float *x = a->x + (ptrdiff_t)i * s[0] + (ptrdiff_t)j * s[1] + (ptrdiff_t)k * s[2] + (ptrdiff_t)l * s[3];
                    const float *w = a->w + (ptrdiff_t)i * t[0] + (ptrdiff_t)j * t[1] + (ptrdiff_t)k * t[2] + (ptrdiff_t)l * t[3];
                    for (ptrdiff_t p = 0; p < (ptrdiff_t)a->m * a->n; p++) y[p] = 0;
                    for (int32_t n = 0; n < a->n; n += PIXELS) products(a->m, a->k, least(PIXELS, a->n - n), w + n, a->n, x, a->k, y + n, a->n);
                }
}

/* One window, whose first pixel is row `top` and column `left`. */
static float pooled(const struct clib32_pool_arguments *a, const float *x, int32_t top, int32_t left)
{
    float sum = 0, largest = -FLT_MAX;
    int32_t count = 0, padded = 0;
    for (int32_t u = 0; u < a->kh; u++)
        for (int32_t v = 0; v < a->kw; v++) {
            const int32_t h = top + u * a->dh, w = left + v * a->dw;
            padded += h < a->height + a->pad_bottom && w < a->width + a->pad_right;
            if (h < 0 || h >= a->height || w < 0 || w >= a->width) continue;
            const float one = x[h * a->width + w];
            sum += one, count++;
            largest = one > largest || one != one ? one : largest;
        }
    if (!a->average) return largest;
    return count ? sum / (float)(a->count_padding ? padded : count) : 0;
}

void clib32_pool(const struct clib32_pool_arguments *a)
{
    float *y = a->y;
    for (int32_t k = 0; k < a->planes; k++)
        for (int32_t p = 0; p < a->out_height; p++)
            for (int32_t q = 0; q < a->out_width; q++)
                *y++ = pooled(a, a->x + (ptrdiff_t)k * a->height * a->width, p * a->sh - a->pad_top, q * a->sw - a->pad_left);
}

/* In double: where numbers are nearly equal, what is left of them less their mean is all rounding otherwise. */
static double total(const float *x, int32_t n)
{
    double sum = 0;
    for (int32_t k = 0; k < n; k++) sum += x[k];
    return sum;
}

void clib32_mean(const struct clib32_rows_arguments *a)
{
    for (int32_t r = 0; r < a->rows; r++) a->y[r] = (float)(total(a->x + (ptrdiff_t)r * a->count, a->count) / a->count);
}

void clib32_largest(const struct clib32_rows_arguments *a)
{
    for (int32_t r = 0; r < a->rows; r++) {
        const float *x = a->x + (ptrdiff_t)r * a->count;
        float largest = x[0];
        for (int32_t k = 1; k < a->count; k++) largest = x[k] > largest || x[k] != x[k] ? x[k] : largest;
        a->y[r] = largest;
    }
}

/* Elements of y from one element of x to the next along each axis, 0 along those that go; the number of elements of y. */
static int32_t kept_steps(const struct clib32_reduce_arguments *a, int32_t *steps)
{
    int32_t step = 1, gone[CLIB32_AXES] = {0};
    for (int32_t k = 0; k < a->rank; k++) gone[k] = a->count == 0;
    for (int32_t j = 0; j < a->count; j++) gone[a->axes[j] < 0 ? a->axes[j] + a->rank : a->axes[j]] = 1;
    for (int32_t k = a->rank - 1; k >= 0; step *= gone[k] ? 1 : a->sizes[k], k--) steps[k] = gone[k] ? 0 : step;
    return step;
}

void clib32_reduce(const struct clib32_reduce_arguments *a)
{
    int32_t steps[CLIB32_AXES], at[CLIB32_AXES] = {0}, elements = 1;
    const int32_t kept = kept_steps(a, steps);
    for (int32_t k = 0; k < a->rank; k++) elements *= a->sizes[k];
    for (int32_t p = 0; p < kept; p++) a->y[p] = a->kind == CLIB32_MAX ? -INFINITY : 0;
    for (int32_t p = 0, to = 0; p < elements; p++) {
        const float x = a->x[p], y = a->y[to];
        a->y[to] = a->kind != CLIB32_MAX ? y + x : x > y || x != x ? x : y;
        for (int32_t k = a->rank - 1; k >= 0; k--) {
            to += steps[k];
            if (++at[k] < a->sizes[k]) break;
            to -= at[k] * steps[k], at[k] = 0;
        }
    }
    for (int32_t p = 0; a->kind == CLIB32_MEAN && p < kept; p++) a->y[p] /= (float)(elements / kept);
}

void clib32_batch_norm(const struct clib32_batch_norm_arguments *a)
{
    for (int32_t k = 0; k < a->batch * a->channels; k++) {
        const int32_t c = k % a->channels;
        const float factor = a->scale[c] / sqrtf(a->variance[c] + a->epsilon), mean = a->mean[c], bias = a->bias[c];
        const float *x = a->x + (ptrdiff_t)k * a->count;
        float *y = a->y + (ptrdiff_t)k * a->count;
        for (int32_t p = 0; p < a->count; p++) y[p] = (x[p] - mean) * factor + bias;
    }
}

void clib32_layer_norm(const struct clib32_layer_norm_arguments *a)
{
    for (int32_t r = 0; r < a->rows; r++) {
        const float *x = a->x + (ptrdiff_t)r * a->count;
        float *y = a->y + (ptrdiff_t)r * a->count;
        const double mean = total(x, a->count) / a->count;
        double squares = 0;
        for (int32_t k = 0; k < a->count; k++) squares += (x[k] - mean) * (x[k] - mean);
        const double factor = 1 / sqrt(squares / a->count + (double)a->epsilon);
        for (int32_t k = 0; k < a->count; k++) y[k] = (float)((x[k] - mean) * factor) * a->scale[k] + (a->bias ? a->bias[k] : 0);
    }
}

void clib32_softmax(const struct clib32_softmax_arguments *a)
{
    for (int32_t r = 0; r < a->before * a->after; r++) {
        const ptrdiff_t first = (ptrdiff_t)(r / a->after) * a->at * a->after + r % a->after, step = a->after;
        const float *x = a->x + first;
        float *y = a->y + first, largest = -INFINITY, sum = 0;
        for (int32_t k = 0; k < a->at; k++) largest = x[k * step] > largest ? x[k * step] : largest;
        for (int32_t k = 0; k < a->at; k++) sum += expf(x[k * step] - largest);
        for (int32_t k = 0; k < a->at; k++) y[k * step] = a->logarithmic ? x[k * step] - largest - logf(sum) : expf(x[k * step] - largest) / sum;
    }
}

#define UNARY(name, result)                                    \
    void clib32_##name(const struct clib32_unary_arguments *a) \
    {                                                          \
        for (int32_t k = 0; k < a->count; k++) {               \
            const float x = a->x[k];                           \
            a->y[k] = result;                                  \
        }                                                      \
    }

UNARY(relu, x < 0 ? 0 : x)
UNARY(leaky_relu, x < 0 ? a->alpha *x : x)
UNARY(elu, x < 0 ? a->alpha *expm1f(x) : x)
UNARY(selu, a->beta *(x < 0 ? a->alpha * expm1f(x) : x))
UNARY(sigmoid, 1 / (1 + expf(-x)))
UNARY(hard_sigmoid, x != x ? x : fmaxf(0, fminf(1, a->alpha *x + a->beta)))
UNARY(hard_swish, x *fmaxf(0, fminf(1, x / 6 + 0.5f)))
UNARY(softplus, x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)))
UNARY(tanh, tanhf(x))
UNARY(erf, erff(x))
UNARY(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)))
UNARY(exp, expf(x))
UNARY(log, logf(x))
UNARY(sqrt, sqrtf(x))
UNARY(abs, fabsf(x))
UNARY(neg, -x)

void clib32_clip(const struct clib32_unary_arguments *a)
{
    const float low = a->least ? *a->least : -INFINITY, high = a->most ? *a->most : INFINITY;
    for (int32_t k = 0; k < a->count; k++) {
        const float raised = a->x[k] < low ? low : a->x[k];
        a->y[k] = raised > high ? high : raised;
    }
}

#define BINARY(name, result)                                                                                                 \
    static void name##_row(int32_t n, const float *restrict xs, int32_t i, const float *restrict zs, int32_t j, float *restrict ys) \
    {                                                                                                                        \
        for (int32_t k = 0; k < n; k++) {                                                                                    \
            const float x = xs[k * i], z = zs[k * j];                                                                        \
            ys[k] = result;                                                                                                  \
        }                                                                                                                    \
    }                                                                                                                        \
    void clib32_##name(const struct clib32_binary_arguments *a) { binary(a, name##_row); }

typedef void row_function(int32_t n, const float *restrict xs, int32_t i, const float *restrict zs, int32_t j, float *restrict ys);

static void binary(const struct clib32_binary_arguments *a, row_function *row)
{
    const int32_t last = CLIB32_AXES - 1;
    ptrdiff_t rows = 1;
    for (int32_t k = 0; k < last; k++) rows *= a->extents[k];
    for (ptrdiff_t r = 0; r < rows; r++) {
        ptrdiff_t x = 0, z = 0, left = r;
        for (int32_t k = last - 1; k >= 0; left /= a->extents[k--]) x += left % a->extents[k] * a->x_steps[k], z += left % a->extents[k] * a->z_steps[k];
        row(a->extents[last], a->x + x, a->x_steps[last], a->z + z, a->z_steps[last], a->y + r * a->extents[last]);
    }
}

BINARY(add, x + z)
BINARY(sub, x - z)
BINARY(mul, x *z)
BINARY(div, x / z)
BINARY(pow, powf(x, z))
BINARY(min, x < z || x != x ? x : z)
BINARY(max, x > z || x != x ? x : z)
BINARY(prelu, x < 0 ? x * z : x)

void clib32_concat(const struct clib32_concat_arguments *a)
{
    float *y = a->y;
    for (int32_t r = 0; r < a->rows; r++)
        for (int32_t k = 0; k < a->count; k++, y += a->lengths[k - 1]) memcpy(y, a->x[k] + (ptrdiff_t)r * a->lengths[k], (size_t)a->lengths[k] * sizeof *y);
}

void clib32_copy(const struct clib32_copy_arguments *a) { memcpy(a->y, a->x, (size_t)a->count * sizeof *a->y); }

void clib32_transpose(const struct clib32_transpose_arguments *a)
{
    int32_t turned = 1, steps[CLIB32_AXES], at[CLIB32_AXES] = {0}, perm[CLIB32_AXES], count = 1;
    for (int32_t k = a->rank - 1, step = 1; k >= 0; step *= a->sizes[k--]) steps[k] = step;
    for (int32_t k = 0; k < a->rank; k++) turned = turned && !a->perm[k], count *= a->sizes[k];
    for (int32_t k = 0; k < a->rank; k++) perm[k] = turned ? a->rank - 1 - k : a->perm[k];
    for (int32_t p = 0, from = 0; p < count; p++) {
        a->y[p] = a->x[from];
        for (int32_t k = a->rank - 1; k >= 0; k--) { /* the next element of y, the last axis first */
            from += steps[perm[k]];
            if (++at[k] < a->sizes[perm[k]]) break;
            from -= at[k] * steps[perm[k]], at[k] = 0;
        }
    }
}

void clib32_upsample(const struct clib32_upsample_arguments *a)
{
    float *y = a->y;
    for (int32_t p = 0; p < a->planes * a->height * a->factor_h; p++)
        for (int32_t q = 0; q < a->width * a->factor_w; q++) *y++ = a->x[(ptrdiff_t)(p / a->factor_h) * a->width + q / a->factor_w];
}

/* The elements of y, along each axis from `starts` on in `steps`; `around` where x has none. */
static void pick(const float *x, float *y, int32_t rank, const int32_t *sizes, const int32_t *out_sizes, const int64_t *starts, const int64_t *steps, float around)
{
    int32_t count = 1;
    for (int32_t k = 0; k < rank; k++) count *= out_sizes[k];
    for (int32_t p = 0; p < count; p++) {
        int64_t from = 0, step = 1;
        int inside = 1;
        for (int32_t k = rank - 1, left = p; k >= 0; k--) {
            const int64_t place = starts[k] + left % out_sizes[k] * steps[k];
            inside = inside && place >= 0 && place < sizes[k];
            from += place * step, step *= sizes[k], left /= out_sizes[k];
        }
        y[p] = inside ? x[from] : around;
    }
}

void clib32_pad(const struct clib32_pad_arguments *a)
{
    int64_t starts[CLIB32_AXES], steps[CLIB32_AXES];
    for (int32_t k = 0; k < CLIB32_AXES; k++) starts[k] = -(int64_t)a->before[k], steps[k] = 1;
    pick(a->x, a->y, a->rank, a->sizes, a->out_sizes, starts, steps, a->value ? *a->value : 0);
}

void clib32_slice(const struct clib32_slice_arguments *a)
{
    int64_t starts[CLIB32_AXES] = {0}, steps[CLIB32_AXES] = {1, 1, 1, 1, 1, 1};
    for (int32_t j = 0; j < a->count; j++) {
        const int64_t axis = a->has_axes ? (a->axes[j] < 0 ? a->axes[j] + a->rank : a->axes[j]) : j, size = a->sizes[axis];
        const int64_t start = a->starts[j] < 0 ? a->starts[j] + size : a->starts[j], step = a->has_steps ? a->steps[j] : 1;
        const int64_t last = step < 0 ? size - 1 : size;
        starts[axis] = start < 0 ? 0 : start > last ? last : start, steps[axis] = step;
    }
    pick(a->x, a->y, a->rank, a->sizes, a->out_sizes, starts, steps, 0);
}
