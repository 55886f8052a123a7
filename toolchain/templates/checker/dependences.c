// Which instructions must wait for which, over the pieces of one memory; toolchain/analysis/dependences.py says the same with numpy.
#include <stdint.h>

// runs: accesses low..high - 1 in pieces, sorted by instruction (who). last: int32 [pieces, 2 * units], the last writer and then the last reader of
// each unit, -1 for none. needs: int32 [instructions, units].
typedef struct {
    int64_t runs, units;
    const int64_t *who, *low, *high, *unit;
    const uint8_t *write;
    int32_t *last, *needs;
} Task;

static void raise_to(int32_t *needs, const int32_t *seen, int64_t units) {
    for (int64_t u = 0; u < units; u++)
        if (seen[u] > needs[u])
            needs[u] = seen[u];
}

void sweep(const Task *t) {
    int64_t units = t->units, stop;
    for (int64_t first = 0; first < t->runs; first = stop) {
        int64_t index = t->who[first], unit = t->unit[index];
        int32_t *needs = t->needs + index * units;
        for (stop = first; stop < t->runs && t->who[stop] == index; stop++)
            for (int64_t piece = t->low[stop]; piece < t->high[stop]; piece++) {
                const int32_t *last = t->last + piece * 2 * units;
                raise_to(needs, last, units);
                if (t->write[stop])
                    raise_to(needs, last + units, units);
            }
        for (int64_t k = first; k < stop; k++)
            for (int64_t piece = t->low[k]; piece < t->high[k]; piece++)
                t->last[piece * 2 * units + unit + (t->write[k] ? 0 : units)] = (int32_t)index;
    }
}
