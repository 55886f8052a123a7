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

// Pairs that must keep their order, in which the first instruction is one of `own`. who, low, high, write: as above, sorted by instruction, of which
// there are `count`. The caller fills writer and readers (by piece) and stamp (by instruction) with -1. links: int32 [2, reads], room for the reads of
// `own` by piece. first, second: room for `most` pairs, each of which comes once.
typedef struct {
    int64_t runs, most;
    const int64_t *who, *low, *high;
    const uint8_t *write, *own;
    int32_t *writer, *readers, *stamp, *reader, *next;
    int64_t *first, *second;
    int64_t found, links;
} Conflicts;

static void meet(Conflicts *t, int32_t before, int64_t index) {
    if (before < 0 || before == index || !t->own[before] || t->stamp[before] == index)
        return;
    t->stamp[before] = (int32_t)index;
    if (t->found < t->most) {
        t->first[t->found] = before;
        t->second[t->found] = index;
    }
    t->found++;
}

static void read_piece(Conflicts *t, int64_t piece, int64_t index) {
    int32_t last = t->readers[piece];
    if (!t->own[index] || (last >= 0 && t->reader[last] == index))
        return;
    t->reader[t->links] = (int32_t)index;
    t->next[t->links] = last;
    t->readers[piece] = (int32_t)t->links++;
}

static void write_piece(Conflicts *t, int64_t piece, int64_t index) {
    for (int32_t link = t->readers[piece]; link >= 0; link = t->next[link])
        meet(t, t->reader[link], index);
    t->readers[piece] = -1;
    t->writer[piece] = (int32_t)index;
}

// An instruction reads before it writes. `found` says how many pairs there are, also where there is no room for all.
void conflicts(Conflicts *t) {
    int64_t stop;
    for (int64_t first = 0; first < t->runs; first = stop) {
        int64_t index = t->who[first];
        for (stop = first; stop < t->runs && t->who[stop] == index; stop++) {}
        for (int write = 0; write < 2; write++)
            for (int64_t k = first; k < stop; k++)
                for (int64_t piece = t->low[k]; t->write[k] == write && piece < t->high[k]; piece++) {
                    meet(t, t->writer[piece], index);
                    if (write)
                        write_piece(t, piece, index);
                    else
                        read_piece(t, piece, index);
                }
    }
}
