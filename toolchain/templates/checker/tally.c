#include <stdint.h>

/* Counts the top bits of float32 values: value k goes to table k % 4 of counts [4][bins], so that equal neighbours do not wait for each other. */
void tally(int64_t size, int64_t bins, int32_t shift, const uint32_t *bits, int64_t *counts) {
    int64_t k = 0;
    for (; k + 4 <= size; k += 4)
        for (int64_t part = 0; part < 4; part++) counts[part * bins + (bits[k + part] >> shift)]++;
    for (; k < size; k++) counts[bits[k] >> shift]++;
}
