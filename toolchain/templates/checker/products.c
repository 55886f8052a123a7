#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define ROWS 6
#define COLUMNS 16 /* of a tile: its sums stay in registers */
#define BLOCK 256  /* columns whose numbers stay in the nearer caches */

/* Two neighbouring numbers of a sum. along: numbers from the one to the other. */
static inline int32_t pair(const int16_t *from, int64_t along) {
    return (int32_t)((uint32_t)(uint16_t)from[0] | (uint32_t)(uint16_t)from[along] << 16);
}

/* `width` rows of numbers beside each other, pair by pair; zeros where there are none. across, along: numbers from row to row, and in a row. */
static inline void pack(int64_t width, int64_t rows, int64_t depth, int64_t across, int64_t along, const int16_t *from, int32_t *to) {
    int64_t whole = depth / 2;
    if (rows < width) memset(to, 0, sizeof *to * width * ((depth + 1) / 2));
    else rows = width;
    if (along == 1)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < whole; k++) to[k * width + r] = pair(from + r * across + 2 * k, 1);
    else if (across == 1 && rows == width)
        for (int64_t k = 0; k < whole; k++)
            for (int64_t r = 0; r < width; r++) to[k * width + r] = pair(from + 2 * k * along + r, along);
    else
        for (int64_t k = 0; k < whole; k++)
            for (int64_t r = 0; r < rows; r++) to[k * width + r] = pair(from + 2 * k * along + r * across, along);
    for (int64_t r = 0; r < rows && depth % 2; r++) to[whole * width + r] = (uint16_t)from[2 * whole * along + r * across];
}

/* The sums of a tile: ROWS x COLUMNS, over some pairs. */
static void tile(int64_t pairs, const int32_t *one, const int32_t *other, int32_t *sums) {
#ifdef __AVX2__
    __m256i left[ROWS], right[ROWS];
    for (int r = 0; r < ROWS; r++) left[r] = right[r] = _mm256_setzero_si256();
    for (int64_t k = 0; k < pairs; k++, one += ROWS, other += COLUMNS) {
        __m256i first = _mm256_loadu_si256((const __m256i *)other), second = _mm256_loadu_si256((const __m256i *)(other + 8));
        for (int r = 0; r < ROWS; r++) {
            __m256i both = _mm256_set1_epi32(one[r]);
            left[r] = _mm256_add_epi32(left[r], _mm256_madd_epi16(both, first));
            right[r] = _mm256_add_epi32(right[r], _mm256_madd_epi16(both, second));
        }
    }
    for (int r = 0; r < ROWS; r++) {
        _mm256_storeu_si256((__m256i *)(sums + r * COLUMNS), left[r]);
        _mm256_storeu_si256((__m256i *)(sums + r * COLUMNS + 8), right[r]);
    }
#else
    memset(sums, 0, sizeof *sums * ROWS * COLUMNS);
    for (int64_t k = 0; k < pairs; k++, one += ROWS, other += COLUMNS)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                sums[r * COLUMNS + c] += (int32_t)(int16_t)one[r] * (int16_t)other[c] + (one[r] >> 16) * (other[c] >> 16);
#endif
}

/* found [m][n] += one [m][k] times other [k][n]. depth: so many products of two numbers add up to less than 2^31. steps: numbers from row to row and
 * from column to column, of one and of other. Returns 0 where there is no room. */
int32_t products(int64_t m, int64_t n, int64_t k, int64_t depth, const int16_t *one, const int16_t *other, const int64_t *steps, double *found) {
    int64_t most = ((depth < k ? depth : k) + 1) / 2;
    int32_t *rows = malloc(sizeof *rows * (m + ROWS) * most), *columns = malloc(sizeof *columns * BLOCK * most), sums[ROWS * COLUMNS];
    for (int64_t first = 0; rows && columns && first < k; first += depth) {
        int64_t some = k - first < depth ? k - first : depth, pairs = (some + 1) / 2;
        for (int64_t i = 0; i < m; i += ROWS) pack(ROWS, m - i, some, steps[0], steps[1], one + i * steps[0] + first * steps[1], rows + i * pairs);
        for (int64_t block = 0; block < n; block += BLOCK) {
            int64_t end = block + BLOCK < n ? block + BLOCK : n;
            for (int64_t j = block; j < end; j += COLUMNS)
                pack(COLUMNS, end - j, some, steps[3], steps[2], other + j * steps[3] + first * steps[2], columns + (j - block) * pairs);
            for (int64_t i = 0; i < m; i += ROWS)
                for (int64_t j = block; j < end; j += COLUMNS) {
                    tile(pairs, rows + i * pairs, columns + (j - block) * pairs, sums);
                    for (int64_t r = 0; r < ROWS && i + r < m; r++)
                        for (int64_t c = 0; c < COLUMNS && j + c < end; c++) found[(i + r) * n + j + c] += sums[r * COLUMNS + c];
                }
        }
    }
    int32_t done = rows && columns;
    free(rows);
    free(columns);
    return done;
}
