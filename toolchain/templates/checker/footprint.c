// Runs of granules, traffic and bad addresses of every instruction; the nests of a machine's accesses are generated below.
// toolchain/isa/footprint/vector.py and footprints.py say the same with numpy.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RANGE, BANK, INSTANCE, ALIGN, BUDGET };
enum { FAULT_KINDS = 5 };

typedef struct { int64_t instruction, access, kind, low, high; } Fault;
typedef struct { uint64_t key; int64_t stop; } Piece;
typedef struct { int64_t count, room, *instruction, *memory, *start, *stop; uint8_t *write; } Runs;
typedef struct { Fault *at; int64_t count, room; } Faults;

typedef struct {
    int64_t banks, ring, element, granule, bytes;
    const int64_t *depth, *base;
} Memory;

typedef struct {
    int64_t n, memories;
    const int64_t *order, *kind, *row;
    const int64_t *const *const *columns;
    uint8_t *const *control;
    const uint8_t *const *source;
    int64_t *traffic_read, *traffic_written;
    Runs runs, feeds;
    Faults faults;
    int64_t failed;
} Task;

typedef struct {
    Task *task;
    int64_t instruction, count, room, first_fault;
    Piece *pieces, *scratch;
} Work;

static void *grown(Task *t, void *at, int64_t count, int64_t *room, size_t size) {
    if (count < *room) return at;
    int64_t wanted = *room ? 2 * *room : 4096;
    void *found = realloc(at, (size_t)wanted * size);
    if (!found) { t->failed = 1; return NULL; }
    *room = wanted;
    return found;
}

static void piece(Work *w, int64_t memory, int64_t write, int64_t start, int64_t stop) {
    uint64_t key = (uint64_t)(memory * 2 + write) << 54 | (uint64_t)start;
    if (w->count) {
        Piece *last = w->pieces + w->count - 1;
        if (key >= last->key && key >> 54 == last->key >> 54 && start <= last->stop) {
            if (stop > last->stop) last->stop = stop;
            return;
        }
    }
    if (w->count == w->room) {
        int64_t room = w->room;
        Piece *other = grown(w->task, w->scratch, w->count, &room, sizeof *other);
        if (!other) return;
        w->scratch = other;
        other = grown(w->task, w->pieces, w->count, &w->room, sizeof *other);
        if (!other) return;
        w->pieces = other;
    }
    w->pieces[w->count++] = (Piece){key, stop};
}

static void fault(Work *w, int64_t access, int64_t kind, int64_t low, int64_t high) {
    Task *t = w->task;
    for (int64_t k = w->first_fault; k < t->faults.count; k++) {
        Fault *f = t->faults.at + k;
        if (f->access == access && f->kind == kind) {
            if (low < f->low) f->low = low;
            if (high > f->high) f->high = high;
            return;
        }
    }
    Fault *found = grown(t, t->faults.at, t->faults.count, &t->faults.room, sizeof *found);
    if (!found) return;
    t->faults.at = found;
    t->faults.at[t->faults.count++] = (Fault){w->instruction, access, kind, low, high};
}

static inline int64_t floordiv(int64_t a, int64_t b) { return a / b - ((a % b != 0) & ((a < 0) != (b < 0))); }
static inline int64_t upwards(int64_t a, int64_t b) { return -floordiv(-a, b); }

static void append(Task *t, Runs *runs, int64_t instruction, int64_t memory, int64_t write, int64_t start, int64_t stop) {
    if (runs->count == runs->room) {
        int64_t **columns[] = {&runs->instruction, &runs->memory, &runs->start, &runs->stop}, wanted = runs->room ? 2 * runs->room : 4096;
        for (int k = 0; k < 4; k++) {
            int64_t *found = realloc(*columns[k], (size_t)wanted * sizeof *found);
            if (!found) { t->failed = 1; return; }
            *columns[k] = found;
        }
        uint8_t *found = realloc(runs->write, (size_t)wanted);
        if (!found) { t->failed = 1; return; }
        runs->write = found;
        runs->room = wanted;
    }
    int64_t k = runs->count++;
    runs->instruction[k] = instruction;
    runs->memory[k] = memory;
    runs->write[k] = (uint8_t)write;
    runs->start[k] = start;
    runs->stop[k] = stop;
}

// `count` neighbouring elements from `address` on, `spacing` index steps apart. access below 0: a feed, not a footprint.
static inline __attribute__((always_inline)) void touch(Work *w, const Memory *m, int64_t number, int64_t unit, int64_t size, int64_t write,
                                                        int64_t access, int64_t instance, int64_t bank, int64_t address, int64_t count,
                                                        int64_t spacing) {
    if (bank < 0 || bank >= m->banks) {
        if (access >= 0) fault(w, access, BANK, bank, bank);
        return;
    }
    int64_t room = m->depth[bank] * m->element, offset = address * unit, length = count * size, last = address + (count - 1) * spacing;
    if (!m->ring) {
        int64_t top = floordiv(room - size, unit);
        if (address < 0 || last > top) {
            int64_t low = address < 0 ? address : address + upwards(top + 1 - address > 0 ? top + 1 - address : 0, spacing) * spacing;
            int64_t high = last > top ? last : last - upwards(last + 1 > 0 ? last + 1 : 0, spacing) * spacing;
            if (access >= 0) fault(w, access, RANGE, low, high);
            return;
        }
    }
    int64_t mask = m->granule - 1, pow2 = (m->granule & mask) == 0;
    if (pow2 ? ((offset | size) & mask) != 0 : offset % m->granule || size % m->granule) {
        if (access >= 0) fault(w, access, ALIGN, address, last);
        return;
    }
    if (m->ring) {
        offset %= room;
        if (offset < 0) offset += room;
        if (length > room) length = room;
    }
    int64_t start = instance * m->bytes + m->base[bank], end = offset + length, kept = end > room ? room : end;
    int64_t a = (start + offset) / m->granule, b = (start + kept) / m->granule;
    if (access < 0) {
        append(w->task, &w->task->feeds, w->instruction, number, 0, a, b);
        if (end > room) append(w->task, &w->task->feeds, w->instruction, number, 0, start / m->granule, (start + end - room) / m->granule);
        return;
    }
    piece(w, number, write, a, b);
    if (end > room) piece(w, number, write, start / m->granule, (start + end - room) / m->granule);
}

static inline uint64_t element(const uint8_t *at, int64_t bytes) {
    uint64_t value = 0;
    for (int64_t k = 0; k < bytes; k++) value |= (uint64_t)at[k] << 8 * k;
    return value;
}

static inline int64_t clipped(int64_t value, int64_t high) { return value < 0 ? 0 : value > high ? high : value; }

static void sort_pieces(Work *w) {
    int64_t n = w->count;
    Piece *from = w->pieces, *to = w->scratch;
    if (n <= 24) {
        for (int64_t i = 1; i < n; i++) {
            Piece p = from[i];
            int64_t k = i;
            for (; k && from[k - 1].key > p.key; k--) from[k] = from[k - 1];
            from[k] = p;
        }
        return;
    }
    int64_t i = 1;
    while (i < n && from[i - 1].key <= from[i].key) i++;
    if (i == n) return;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
            int64_t a = low, b = middle, k = low;
            if (middle == high || from[middle - 1].key <= from[middle].key) {
                memcpy(to + low, from + low, (size_t)(high - low) * sizeof *to);
                continue;
            }
            while (a < middle && b < high) to[k++] = from[b].key < from[a].key ? from[b++] : from[a++];
            while (a < middle) to[k++] = from[a++];
            while (b < high) to[k++] = from[b++];
        }
        Piece *swap = from;
        from = to;
        to = swap;
    }
    w->pieces = from;
    w->scratch = to;
}

static void flush(Work *w) {
    Task *t = w->task;
    sort_pieces(w);
    int64_t group = -1;
    for (int64_t k = 0; k < w->count; k++) {
        int64_t here = (int64_t)(w->pieces[k].key >> 54), start = (int64_t)(w->pieces[k].key & (((uint64_t)1 << 54) - 1));
        int64_t *last = t->runs.stop + t->runs.count - 1;
        if (here == group && start <= *last) {
            if (w->pieces[k].stop > *last) *last = w->pieces[k].stop;
            continue;
        }
        append(t, &t->runs, w->instruction, here >> 1, here & 1, start, w->pieces[k].stop);
        if (t->failed) return;
        group = here;
    }
    w->count = 0;
}
