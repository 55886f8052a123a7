/* Floating operations on values that are the signed integers of their bits. Every operation rounds once, to nearest even; every NaN that
   arithmetic gives is the same one. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__NO_SIGNED_ZEROS__) || defined(__RECIPROCAL_MATH__) \
    || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "floating formats need a compiler's exact mode: take -ffast-math and its parts out of TILEWRIGHT_CFLAGS"
#endif
#if FLT_EVAL_METHOD != 0
#error "floating formats need float arithmetic in float, not in wider registers"
#endif
#define TW_FLOAT static inline __attribute__((always_inline))
TW_FLOAT float tw_f32(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
TW_FLOAT int32_t tw_f32_bits(float x) { int32_t bits; memcpy(&bits, &x, 4); return x != x ? 0x7fc00000 : bits; }
TW_FLOAT int32_t tw_f32_add(int32_t a, int32_t b) { return tw_f32_bits(tw_f32(a) + tw_f32(b)); }
TW_FLOAT int32_t tw_f32_sub(int32_t a, int32_t b) { return tw_f32_bits(tw_f32(a) - tw_f32(b)); }
TW_FLOAT int32_t tw_f32_mul(int32_t a, int32_t b) { return tw_f32_bits(tw_f32(a) * tw_f32(b)); }
TW_FLOAT int32_t tw_f32_div(int32_t a, int32_t b) { return tw_f32_bits(tw_f32(a) / tw_f32(b)); }
TW_FLOAT int32_t tw_f32_sqrt(int32_t a) { return tw_f32_bits(sqrtf(tw_f32(a))); }
TW_FLOAT int32_t tw_f32_from_i32(int32_t x) { return tw_f32_bits((float)x); }
TW_FLOAT int32_t tw_f32_from_i64(int64_t x) { return tw_f32_bits((float)x); }
TW_FLOAT int32_t tw_f32_lt(int32_t a, int32_t b) { return tw_f32(a) < tw_f32(b); }
TW_FLOAT int32_t tw_f32_le(int32_t a, int32_t b) { return tw_f32(a) <= tw_f32(b); }
TW_FLOAT int32_t tw_f32_eq(int32_t a, int32_t b) { return tw_f32(a) == tw_f32(b); }
TW_FLOAT double tw_f32_number(int32_t bits) { return (double)tw_f32(bits); }
TW_FLOAT int32_t tw_f32_round(double x) { return tw_f32_bits((float)x); }

/* what bits alone decide; sign: all bits from the sign up, last: the last magnitude that is no NaN */
TW_FLOAT int32_t tw_float_neg(int32_t x, int32_t sign) { return (int32_t)((uint32_t)x ^ (uint32_t)sign); }
TW_FLOAT int32_t tw_float_is_nan(int32_t x, int32_t magnitude, int32_t last) { return (x & magnitude) > last; }
TW_FLOAT int32_t tw_float_order(int32_t x, int32_t magnitude) { return x < 0 ? -1 - (x & magnitude) : x; }
TW_FLOAT int32_t tw_float_extreme(int32_t a, int32_t b, int32_t greater, int32_t number, int32_t magnitude, int32_t last, int32_t nan)
{
    const int32_t no_a = (a & magnitude) > last, no_b = (b & magnitude) > last;
    const int32_t below = tw_float_order(a, magnitude) < tw_float_order(b, magnitude), best = below != greater ? a : b;
    if (number) return no_a ? (no_b ? nan : b) : no_b ? a : best;
    return no_a | no_b ? nan : best;
}

/* formats as doubles, which have all their values; saturated: past the greatest, the greatest */
TW_FLOAT uint64_t tw_words(double x) { uint64_t words; memcpy(&words, &x, 8); return words; }
TW_FLOAT double tw_number(uint64_t words) { double x; memcpy(&x, &words, 8); return x; }
TW_FLOAT double tw_float_number(int32_t bits, int fraction, int bias, int32_t magnitude, int32_t greatest, int infinities)
{
    const int32_t code = bits & magnitude;
    double size = tw_number((uint64_t)code << (52 - fraction)) * tw_number((uint64_t)(2046 - bias) << 52);
    if (code > greatest) size = infinities && code == greatest + 1 ? INFINITY : NAN;
    return bits < 0 ? -size : size;
}
TW_FLOAT int32_t tw_float_round(double x, int fraction, int bias, int32_t magnitude, int32_t greatest, int infinities, int32_t nan, int saturated)
{
    const uint64_t words = tw_words(x) & INT64_MAX;
    const int64_t least = 1 - bias, own = (int64_t)(words >> 52) - 1023, unit = (own > least ? own : least) - fraction;
    const int32_t beyond = saturated ? greatest : infinities ? greatest + 1 : nan;
    const double count = nearbyint(fabs(x) * tw_number((uint64_t)(1023 - unit) << 52));
    int64_t code = own > 512 ? beyond : ((unit + fraction + bias - 1) << fraction) + (int64_t)count;
    if (code > greatest) code = beyond;
    if (x != x || code == nan) return nan;
    return (int32_t)(tw_words(x) >> 63 ? code - magnitude - 1 : code);
}
/* the same between formats and float, which has all their values too, in lanes of 32 bits */
TW_FLOAT int32_t tw_float_single(int32_t bits, int fraction, int bias, int32_t magnitude, int32_t greatest, int infinities)
{
    const int32_t code = bits & magnitude, sign = bits < 0 ? INT32_MIN : 0;
    const int32_t size = tw_f32_bits(tw_f32((int32_t)((uint32_t)code << (23 - fraction))) * tw_f32((254 - bias) << 23));
    return code <= greatest ? size | sign : infinities && code == greatest + 1 ? 0x7f800000 | sign : 0x7fc00000;
}
TW_FLOAT int32_t tw_float_narrow(int32_t bits, int fraction, int bias, int32_t magnitude, int32_t greatest, int infinities, int32_t nan, int saturated)
{
    const int32_t size = bits & INT32_MAX, cut = 23 - fraction, beyond = saturated ? greatest : infinities ? greatest + 1 : nan;
    const int32_t unit = (128 - bias + cut) << 23; /* a float of which the last bit is the least subnormal */
    const int32_t small = tw_f32_bits(tw_f32(size) + tw_f32(unit)) - unit;
    const int32_t odd = size >> cut & 1, large = (int32_t)(((uint32_t)size + ((UINT32_C(1) << (cut - 1)) - 1) + (uint32_t)odd) >> cut) - ((127 - bias) << fraction);
    const int32_t rounded = size < (128 - bias) << 23 ? small : large, code = rounded > greatest ? beyond : rounded;
    return size > 0x7f800000 || code == nan ? nan : bits < 0 ? code - magnitude - 1 : code;
}
TW_FLOAT double tw_float_from_i64(int64_t x)
{
    const int64_t odd = (x & ~INT64_C(0xfff)) | (x & 0x800) | (x & 0x7ff ? 0x800 : 0);
    return (double)(x > -(INT64_C(1) << 52) && x < INT64_C(1) << 52 ? x : odd);
}

/* a sum and the sign of what rounding lost as the double with an odd last bit: rounding once more to fewer bits is then exact */
TW_FLOAT double tw_odd(double total, double error)
{
    const uint64_t words = tw_words(total);
    return (error > 0 || error < 0) && !(words & 1) && fabs(error) <= DBL_MAX ? tw_number((error > 0) == (total > 0) ? words + 1 : words - 1) : total;
}
TW_FLOAT double tw_fused(double a, double b, double c)
{
    const double product = a * b, total = product + c, part = total - product;
    return tw_odd(total, (product - (total - part)) + (c - part));
}

/* exact sums of products of two values: a fixed point number from 2**-384 up, in limbs of 32 bits */
#define TW_LIMBS 24
typedef struct { int64_t limb[TW_LIMBS]; double special; int some, positive; } tw_exact;
static void tw_exact_add(tw_exact *sum, double x)
{
    if (x - x != 0) { sum->special += x; sum->some = 1; return; }
    const uint64_t words = tw_words(x) & INT64_MAX;
    sum->positive |= words != 0 || !(tw_words(x) >> 63);
    if (!words) return;
    const int at = (int)(words >> 52) - 1075 + 384;
    const uint64_t size = (words & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1) << 52);
    const unsigned __int128 wide = (unsigned __int128)size << (at % 32);
    const int64_t sign = x < 0 ? -1 : 1;
    for (int k = 0; k < 3; k++) sum->limb[at / 32 + k] += sign * (int64_t)(uint32_t)(wide >> (32 * k));
}
static double tw_exact_number(tw_exact *sum)
{
    if (sum->some) return sum->special;
    for (int k = 0; k + 1 < TW_LIMBS; k++) { sum->limb[k + 1] += sum->limb[k] >> 32; sum->limb[k] &= UINT32_MAX; }
    const int negative = sum->limb[TW_LIMBS - 1] < 0;
    if (negative) {
        for (int k = 0; k < TW_LIMBS; k++) sum->limb[k] = -sum->limb[k];
        for (int k = 0; k + 1 < TW_LIMBS; k++) { sum->limb[k + 1] += sum->limb[k] >> 32; sum->limb[k] &= UINT32_MAX; }
    }
    int top = TW_LIMBS - 1;
    while (top >= 0 && !sum->limb[top]) top--;
    if (top < 0) return sum->positive ? 0.0 : -0.0;
    unsigned __int128 head = 0;
    for (int k = 0; k < 3; k++) head = head << 32 | (uint64_t)(top >= k ? sum->limb[top - k] : 0);
    int sticky = 0, shift = 0;
    for (int k = 0; k + 2 < top; k++) sticky |= sum->limb[k] != 0;
    while (head >> shift > (UINT64_C(1) << 53) - 1) shift++;
    sticky |= (head & (((unsigned __int128)1 << shift) - 1)) != 0;
    const double size = ldexp((double)((uint64_t)(head >> shift) | (uint64_t)sticky), shift + (top - 2) * 32 - 384);
    return negative ? -size : size;
}

/* sum[j] = a[0] * b[0][j] + a[1] * b[1][j] + ..., rounded after each operation and from the first on: sums side by side keep their order */
typedef float tw_floats __attribute__((vector_size(64)));
TW_FLOAT void tw_ordered_block(float *sum, const float *a, const float *b, int terms, int sums, int count)
{
    tw_floats x[2], y;
    for (int k = 0; k < count; k++) { memcpy(&y, b + 16 * k, sizeof y); x[k] = a[0] * y; }
    for (int t = 1; t < terms; t++) {
        TW_UNROLL(2) for (int k = 0; k < count; k++) { memcpy(&y, b + (int64_t)t * sums + 16 * k, sizeof y); x[k] = x[k] + a[t] * y; }
    }
    for (int k = 0; k < count; k++) memcpy(sum + 16 * k, &x[k], sizeof y);
}
TW_FLOAT void tw_ordered(float *sum, const float *a, const float *b, int terms, int sums)
{
    int at = 0;
    for (; at + 32 <= sums; at += 32) tw_ordered_block(sum + at, a, b + at, terms, sums, 2);
    for (; at + 16 <= sums; at += 16) tw_ordered_block(sum + at, a, b + at, terms, sums, 1);
    for (; at < sums; at++) {
        float x = a[0] * b[at];
        for (int t = 1; t < terms; t++) x = x + a[t] * b[(int64_t)t * sums + at];
        sum[at] = x;
    }
}

/* to integers: halves of a float are exact in a double */
TW_FLOAT double tw_round_half_even(double x) { return nearbyint(x); }
TW_FLOAT double tw_round_half_up(double x) { return floor(x + 0.5); }
TW_FLOAT double tw_round_half_away(double x) { return copysign(floor(fabs(x) + 0.5), x); }
TW_FLOAT double tw_round_floor(double x) { return floor(x); }
TW_FLOAT double tw_round_truncate(double x) { return trunc(x); }
TW_FLOAT int32_t tw_into_i32(double x, int32_t low, int32_t high)
{
    return x >= (double)high + 1 ? high : x < (double)low ? low : x != x ? 0 : (int32_t)x;
}
TW_FLOAT int64_t tw_into_i64(double x, int64_t low, int64_t high)
{
    return x >= (double)high + 1 ? high : x < (double)low ? low : x != x ? 0 : (int64_t)x;
}
{% for kind in floats %}

#define TW_{{ kind.name }} {{ kind.fraction }}, {{ kind.bias }}, {{ kind.magnitude }}, {{ kind.greatest }}, {{ kind.infinities|int }}
{% if kind.bits < 32 %}
TW_FLOAT double tw_{{ kind.name }}_number(int32_t bits) { return tw_float_number(bits, TW_{{ kind.name }}); }
TW_FLOAT int32_t tw_{{ kind.name }}_round(double x) { return tw_float_round(x, TW_{{ kind.name }}, {{ kind.nan }}, 0); }
TW_FLOAT int32_t tw_{{ kind.name }}_single(int32_t bits) { return tw_float_single(bits, TW_{{ kind.name }}); }
TW_FLOAT int32_t tw_{{ kind.name }}_narrow(int32_t bits, int saturated) { return tw_float_narrow(bits, TW_{{ kind.name }}, {{ kind.nan }}, saturated); }
{% for name, sign in [("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")] %}
TW_FLOAT int32_t tw_{{ kind.name }}_{{ name }}(int32_t a, int32_t b)
{ return tw_{{ kind.name }}_round(tw_{{ kind.name }}_number(a) {{ sign }} tw_{{ kind.name }}_number(b)); }
{% endfor %}
{% for name, sign in [("lt", "<"), ("le", "<="), ("eq", "==")] %}
TW_FLOAT int32_t tw_{{ kind.name }}_{{ name }}(int32_t a, int32_t b) { return tw_{{ kind.name }}_number(a) {{ sign }} tw_{{ kind.name }}_number(b); }
{% endfor %}
TW_FLOAT int32_t tw_{{ kind.name }}_sqrt(int32_t a) { return tw_{{ kind.name }}_round(sqrt(tw_{{ kind.name }}_number(a))); }
TW_FLOAT int32_t tw_{{ kind.name }}_from_i32(int32_t x) { return tw_{{ kind.name }}_round((double)x); }
TW_FLOAT int32_t tw_{{ kind.name }}_from_i64(int64_t x) { return tw_{{ kind.name }}_round(tw_float_from_i64(x)); }
{% endif %}
TW_FLOAT int32_t tw_{{ kind.name }}_saturated(double x) { return tw_float_round(x, TW_{{ kind.name }}, {{ kind.nan }}, 1); }
TW_FLOAT int32_t tw_{{ kind.name }}_fma(int32_t a, int32_t b, int32_t c)
{ return tw_{{ kind.name }}_round(tw_fused(tw_{{ kind.name }}_number(a), tw_{{ kind.name }}_number(b), tw_{{ kind.name }}_number(c))); }
{% endfor %}
{% for table in float_tables %}
static const int{{ table.bits }}_t {{ table.name }}[] = { {{ table.codes }} };
{% endfor %}
