/* Floating operations on values that are the signed integers of their bits. Every operation rounds once, to nearest even; every NaN that
   arithmetic gives is the same one. */
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
TW_FLOAT int32_t tw_f32_from_i32(int32_t x) { return tw_f32_bits((float)x); }
TW_FLOAT int32_t tw_f32_from_i64(int64_t x) { return tw_f32_bits((float)x); }
TW_FLOAT int32_t tw_f32_lt(int32_t a, int32_t b) { return tw_f32(a) < tw_f32(b); }
TW_FLOAT int32_t tw_f32_le(int32_t a, int32_t b) { return tw_f32(a) <= tw_f32(b); }
TW_FLOAT int32_t tw_f32_eq(int32_t a, int32_t b) { return tw_f32(a) == tw_f32(b); }
TW_FLOAT double tw_f32_number(int32_t bits) { return (double)tw_f32(bits); }

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
