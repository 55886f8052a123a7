#include <math.h>
#include <stdint.h>

#define ROWS 8

/* One sweep over columns [columns, rows] of weights. inner [columns][pitch]: H; diagonal [columns], room [ROWS + 1][columns]. All numbers are whole
 * and below 2**53. */
void descend(int64_t columns, int64_t rows, int64_t pitch, const double *stored, const double *left, const int16_t *inner, const double *diagonal,
             double fine, double low, double high, double *steps, double *room) {
    double *push = room + ROWS * columns;
    for (int64_t first = 0; first < rows; first += ROWS) {
        int64_t some = rows - first < ROWS ? rows - first : ROWS;
        for (int64_t k = 0; k < columns; k++)
            for (int64_t r = 0; r < some; r++) room[r * columns + k] = left[k * rows + first + r];
        for (int64_t k = 0; k < columns; k++) {
            int64_t moved = 0;
            for (int64_t r = 0; r < some; r++) {
                double *slope = room + r * columns;
                if (fabs(slope[k]) <= 0.5 * diagonal[k]) continue; /* a quotient of a half rounds to zero */
                double held = stored[k * rows + first + r], wanted = held - rint(slope[k] / diagonal[k]);
                double step = (wanted < low ? low : wanted > high ? high : wanted) - held;
                if (step == 0) continue;
                steps[k * rows + first + r] = step;
                step *= fine;
                if (!moved++) /* converted once for all rows that move */
                    for (int64_t j = k + 1; j < columns; j++) push[j] = inner[k * pitch + j];
                for (int64_t j = k + 1; j < columns; j++) slope[j] += push[j] * step;
            }
        }
    }
}
