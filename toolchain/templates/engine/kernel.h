/* Blocks of a matrix product: rows of 16 sums kept in registers, one weight element after the other.
   A step adds A[row][0..C) times a packed element of B, C x 16. Everything but the pointers is constant after inlining. */
#define TW_INLINE static inline __attribute__((always_inline))
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512F__) && !defined(TW_PLAIN)
#define TW_VNNI 1
/* vpdpbusd and vpermb by the compiler's own names where they are known: reading <immintrin.h> takes longer than compiling a small machine. */
#if defined(__has_builtin) && !defined(__clang__) && !defined(TW_INTRINSICS)
#if __has_builtin(__builtin_ia32_vpdpbusd_v16si)
#define TW_DOT __builtin_ia32_vpdpbusd_v16si
#define TW_PICK __builtin_shuffle
#endif
#endif
#ifndef TW_DOT
#include <immintrin.h>
#define TW_DOT(sums, bytes, weights) ((tw_sums)_mm512_dpbusd_epi32((__m512i)(sums), (__m512i)(bytes), (__m512i)(weights)))
#define TW_PICK(bytes, at) ((tw_bytes)_mm512_permutexvar_epi8((__m512i)(at), (__m512i)(bytes)))
#endif
typedef uint8_t tw_bytes __attribute__((vector_size(64)));
TW_INLINE tw_bytes tw_bytes_at(const void *from, const int count)
{
    tw_bytes x = {0};
    memcpy(&x, from, count);
    return x;
}
TW_INLINE tw_bytes tw_all_bytes(uint8_t x) { return x - (tw_bytes){0}; }
typedef int32_t tw_sums __attribute__((vector_size(64)));
typedef int32_t tw_anywhere __attribute__((vector_size(64), aligned(1), may_alias));
TW_INLINE tw_sums tw_load(const void *from) { return *(const tw_anywhere *)from; }
TW_INLINE void tw_store(void *to, tw_sums x) { *(tw_anywhere *)to = x; }
TW_INLINE tw_sums tw_all(int32_t x) { return x - (tw_sums){0}; }

/* vpdpbusd multiplies unsigned by signed: a signed A is moved up by 128 (x ^ 0x80), which `tw_excess` takes back. */
TW_INLINE void tw_step_bytes(tw_sums *acc, const int pixels, const int rows, const int columns, const uint8_t *const *a, const int64_t row_step,
                             const int8_t *const *w, const int quads, const int is_signed)
{
    const tw_sums flip = tw_all(is_signed ? (int)0x80808080u : 0);
    for (int q = 0; q < quads; q++) {
        tw_sums weights[4];
        TW_UNROLL(4)
        for (int k = 0; k < columns; k++) weights[k] = tw_load(w[k] + q * 64);
        TW_UNROLL(16)
        for (int p = 0; p < pixels; p++) {
            TW_UNROLL(8)
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, a[p] + r * row_step + q * 4, 4);
                tw_sums x = tw_all(four);
                if (is_signed) x ^= flip;
                TW_UNROLL(4)
                for (int k = 0; k < columns; k++) acc[(p * rows + r) * columns + k] = TW_DOT(acc[(p * rows + r) * columns + k], x, weights[k]);
            }
        }
    }
}
/* What the shift by 128 has added to the sums of one packed element (16 columns), to be subtracted. */
TW_INLINE tw_sums tw_excess(tw_sums before, const int8_t *w, const int quads)
{
    for (int q = 0; q < quads; q++) before = TW_DOT(before, tw_all((int)0x80808080u), tw_load(w + q * 64));
    return before;
}
TW_INLINE tw_sums tw_load_lanes(const uint8_t *from, const int lanes)
{
    tw_sums x = {0};
    memcpy(&x, from, lanes * 4);
    return x;
}
TW_INLINE void tw_store_lanes(uint8_t *to, tw_sums x, const int lanes) { memcpy(to, &x, lanes * 4); }

/* tile[p * pixel_step + k * column_step + r * row_gap] = init + the sum over T steps; table[t][p] is the byte of A. */
TW_INLINE void tw_window_bytes(const int pixels, const int rows, const int columns, const int64_t row_step, const int pixel_step, const int column_step,
                               const int row_gap, const int quads, const int is_signed, int32_t *tile, const int32_t *init, int64_t init_step,
                               const uint8_t *a, const int64_t *table, int64_t steps, const int8_t *w, int64_t w_step, const int32_t *fix)
{
    tw_sums acc[32];
    TW_UNROLL(16)
    for (int p = 0; p < pixels; p++)
        TW_UNROLL(8)
        for (int r = 0; r < rows; r++)
            TW_UNROLL(4)
            for (int k = 0; k < columns; k++)
                acc[(p * rows + r) * columns + k] = tw_load(init + p * init_step + k * column_step + r * row_gap) + tw_load(fix + k * 16);
    for (int64_t t = 0; t < steps; t++) {
        const uint8_t *at[16];
        const int8_t *weights[4];
        TW_UNROLL(16)
        for (int p = 0; p < pixels; p++) at[p] = a + table[t * pixels + p];
        TW_UNROLL(4)
        for (int k = 0; k < columns; k++) weights[k] = w + k * w_step + t * (quads * 64);
        tw_step_bytes(acc, pixels, rows, columns, at, row_step, weights, quads, is_signed);
    }
    TW_UNROLL(16)
    for (int p = 0; p < pixels; p++)
        TW_UNROLL(8)
        for (int r = 0; r < rows; r++)
            TW_UNROLL(4)
            for (int k = 0; k < columns; k++) tw_store(tile + p * pixel_step + k * column_step + r * row_gap, acc[(p * rows + r) * columns + k]);
}
/* d[pixel] += the sum over T steps of A[pixel + step] times b[step]; `fix` is added once. */
TW_INLINE void tw_accumulate_bytes(const int pixels, const int lanes, const int quads, const int is_signed, uint8_t *d, const int64_t *d_pixel,
                                   const uint8_t *a, const int64_t *a_pixel, int64_t steps, const int64_t *a_step, const int8_t *const *b, int64_t b_at,
                                   const int32_t *fix)
{
    tw_sums acc[16];
    TW_UNROLL(16)
    for (int p = 0; p < pixels; p++) acc[p] = tw_load_lanes(d + d_pixel[p], lanes) + tw_load(fix);
    for (int64_t t = 0; t < steps; t++) {
        const uint8_t *at[16];
        const int8_t *weights[1] = {b[t] + b_at};
        TW_UNROLL(16)
        for (int p = 0; p < pixels; p++) at[p] = a + a_step[t] + a_pixel[p];
        tw_step_bytes(acc, pixels, 1, 1, at, 0, weights, quads, is_signed);
    }
    TW_UNROLL(16)
    for (int p = 0; p < pixels; p++) tw_store_lanes(d + d_pixel[p], acc[p], lanes);
}
#else
#define TW_VNNI 0
#endif

/* Any scalar types: A and the packed B ([c][16]) as they are stored, 32-bit sums modulo 2^32. Plain C, in vectors that the CPU has:
   both factors are widened first, then four rows at a time keep their sums in registers. */
#if defined(__AVX512F__)
enum { TW_LANES = 16 };
#elif defined(__AVX2__)
enum { TW_LANES = 8 };
#else
enum { TW_LANES = 4 };
#endif
typedef int32_t tw_wide __attribute__((vector_size(TW_LANES * 4), aligned(4), may_alias));

TW_INLINE void tw_rows_plain(const int rows, int32_t *acc, const int32_t *a, const int32_t *w, const int count)
{
    for (int h = 0; h < 16; h += TW_LANES) {
        tw_wide sums[4];
        for (int r = 0; r < rows; r++) sums[r] = *(const tw_wide *)(acc + r * 16 + h);
        for (int c = 0; c < count; c++) {
            const tw_wide x = *(const tw_wide *)(w + c * 16 + h);
            for (int r = 0; r < rows; r++) sums[r] += x * a[r * count + c];
        }
        for (int r = 0; r < rows; r++) *(tw_wide *)(acc + r * 16 + h) = sums[r];
    }
}
#define TW_STEP_PLAIN(NAME, TA, TB, COUNT) \
TW_INLINE void NAME(int32_t *acc, const int rows, const uint8_t *const *a, const TB *w) \
{ \
    int32_t wide[COUNT * 16] __attribute__((aligned(64))), left[16 * COUNT]; \
    for (int i = 0; i < COUNT * 16; i++) wide[i] = w[i]; \
    for (int r = 0; r < rows; r++) { \
        TA one[COUNT]; \
        memcpy(one, a[r], sizeof one); \
        for (int c = 0; c < COUNT; c++) left[r * COUNT + c] = one[c]; \
    } \
    int r = 0; \
    for (; r + 4 <= rows; r += 4) tw_rows_plain(4, acc + r * 16, left + r * COUNT, wide, COUNT); \
    for (; r < rows; r++) tw_rows_plain(1, acc + r * 16, left + r * COUNT, wide, COUNT); \
}

/* The same two blocks without the byte instruction. */
#define TW_PRODUCT_PLAIN(N, TA, TB, PIXELS, ROWS, ROW_STEP, PIXEL_STEP, COLUMN_STEP, ROW_GAP, COUNT) \
TW_STEP_PLAIN(step_##N, TA, TB, COUNT) \
static void window_##N(int columns, int32_t *tile, const int32_t *init, int64_t init_step, const uint8_t *a, const int64_t *table, int64_t steps, \
                       const int8_t *w, int64_t w_step, const int32_t *fix) \
{ \
    (void)fix; \
    for (int k = 0; k < columns; k++) { \
        int32_t acc[PIXELS * ROWS * 16] __attribute__((aligned(64))); \
        for (int i = 0; i < PIXELS * ROWS; i++) \
            memcpy(acc + i * 16, init + k * COLUMN_STEP + i / ROWS * init_step + i % ROWS * ROW_GAP, 64); \
        for (int64_t t = 0; t < steps; t++) { \
            const uint8_t *at[PIXELS * ROWS]; \
            for (int i = 0; i < PIXELS * ROWS; i++) at[i] = a + table[t * PIXELS + i / ROWS] + i % ROWS * ROW_STEP; \
            step_##N(acc, PIXELS * ROWS, at, (const TB *)(w + k * w_step) + t * COUNT * 16); \
        } \
        for (int i = 0; i < PIXELS * ROWS; i++) memcpy(tile + k * COLUMN_STEP + i / ROWS * PIXEL_STEP + i % ROWS * ROW_GAP, acc + i * 16, 64); \
    } \
}
#define TW_ACCUMULATE_PLAIN(N, TA, TB, COUNT) \
TW_STEP_PLAIN(step_##N, TA, TB, COUNT) \
static void accumulate_##N(int64_t pixels, int lanes, uint8_t *d, const int64_t *d_pixel, const uint8_t *a, const int64_t *a_pixel, int64_t steps, \
                           const int64_t *a_step, const int8_t *const *b, int64_t b_at, const int32_t *fix) \
{ \
    (void)fix; \
    for (int64_t p = 0; p < pixels; p += 8) { /* the lists go on past the last pixel, with that pixel */ \
        int32_t acc[8 * 16] __attribute__((aligned(64))) = {0}; \
        for (int i = 0; i < 8; i++) memcpy(acc + i * 16, d + d_pixel[p + i], lanes * 4); \
        for (int64_t t = 0; t < steps; t++) { \
            const uint8_t *at[8]; \
            for (int i = 0; i < 8; i++) at[i] = a + a_step[t] + a_pixel[p + i]; \
            step_##N(acc, 8, at, (const TB *)(b[t] + b_at)); \
        } \
        for (int i = 0; i < 8; i++) memcpy(d + d_pixel[p + i], acc + i * 16, lanes * 4); \
    } \
}

/* Keeps those loops whose steps reach distinct elements; the others must not run inside one block of sums. */
static void tw_injective(int count, const int64_t *step, const int64_t *times, int *chosen, int64_t element)
{
    int64_t reach = element;
    for (int round = 0; round < count; round++) {
        int best = -1;
        for (int i = 0; i < count; i++)
            if (chosen[i] == 1 && (best < 0 || llabs(step[i]) < llabs(step[best]))) best = i;
        if (best < 0) break;
        if (llabs(step[best]) < reach) { chosen[best] = 0; continue; }
        reach += llabs(step[best]) * (times[best] - 1);
        chosen[best] = 2;
    }
    for (int i = 0; i < count; i++) chosen[i] = chosen[i] == 2;
}
/* The slot of `key` in an open hash table of 2^bits slots (-1 is free); the caller fills a free one. */
static inline int32_t *tw_find(int32_t *table, int bits, const int64_t *keys, int64_t key)
{
    uint64_t at = ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - bits);
    while (table[at] >= 0 && keys[table[at]] != key) at = (at + 1) & ((UINT64_C(1) << bits) - 1);
    return table + at;
}
