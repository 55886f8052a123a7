// List scheduling of bundles on their units; toolchain/schedule/synchronisation/list_clock.py says the same in Python.
#include <stdint.h>

typedef struct {
    int64_t cycle, rank, bundle;
} Entry;

// One of the two heaps of a unit: those that are ready from some cycle on, those that are ready now.
typedef struct {
    Entry *at;
    int64_t count;
} Heap;

// bundles: of all units, numbered in the program's order. members: those of each unit in that order, from first[unit] on. after: those behind each,
// from start_after[bundle] on. missing: how many each still waits for. rank: who goes first in a unit whose order is free. ready, open: room for a heap
// of each unit, from first[unit] on. start: of each bundle, -1 before it starts. since: when its last predecessor's result shows.
typedef struct {
    int64_t bundles, units;
    const int64_t *unit, *first, *members, *start_after, *after, *held, *latency, *rank;
    const uint8_t *free;
    int64_t *missing, *since, *start, *at, *done, *ready_count, *open_count;
    Entry *ready, *open;
    int64_t end;
} Clock;

static int precedes(Entry a, Entry b) {
    if (a.cycle != b.cycle)
        return a.cycle < b.cycle;
    return a.rank != b.rank ? a.rank < b.rank : a.bundle < b.bundle;
}

static void push(Entry *heap, int64_t *count, Entry entry) {
    int64_t place = (*count)++;
    for (; place > 0 && precedes(entry, heap[(place - 1) / 2]); place = (place - 1) / 2)
        heap[place] = heap[(place - 1) / 2];
    heap[place] = entry;
}

static Entry pop(Entry *heap, int64_t *count) {
    Entry top = heap[0], last = heap[--*count];
    int64_t place = 0;
    for (int64_t child; (child = 2 * place + 1) < *count; place = child) {
        child += child + 1 < *count && precedes(heap[child + 1], heap[child]);
        if (!precedes(heap[child], last))
            break;
        heap[place] = heap[child];
    }
    heap[place] = last;
    return top;
}

static void offer(Clock *t, int64_t bundle) {
    int64_t unit = t->unit[bundle];
    if (t->free[unit])
        push(t->ready + t->first[unit], t->ready_count + unit, (Entry){t->since[bundle], t->rank[bundle], bundle});
}

// When a unit starts which of its bundles; a negative bundle where none is ready.
static Entry next(Clock *t, int64_t unit) {
    int64_t first = t->first[unit], *ready = t->ready_count + unit, *open = t->open_count + unit;
    if (!t->free[unit]) {
        int64_t place = first + t->done[unit];
        int64_t bundle = place < t->first[unit + 1] ? t->members[place] : -1;
        if (bundle < 0 || t->missing[bundle])
            return (Entry){0, unit, -1};
        return (Entry){t->at[unit] > t->since[bundle] ? t->at[unit] : t->since[bundle], unit, bundle};
    }
    while (*ready && t->ready[first].cycle <= t->at[unit]) {
        Entry entry = pop(t->ready + first, ready);
        push(t->open + first, open, (Entry){0, entry.rank, entry.bundle});
    }
    if (*open)
        return (Entry){t->at[unit], unit, t->open[first].bundle};
    return *ready ? (Entry){t->ready[first].cycle, unit, t->ready[first].bundle} : (Entry){0, unit, -1};
}

static void begin(Clock *t, Entry chosen) {
    int64_t unit = chosen.rank, bundle = chosen.bundle, first = t->first[unit];
    if (!t->free[unit])
        t->done[unit]++;
    else if (t->open_count[unit])
        pop(t->open + first, t->open_count + unit);
    else
        pop(t->ready + first, t->ready_count + unit);
    t->start[bundle] = chosen.cycle;
    t->at[unit] = chosen.cycle + t->held[bundle];
    int64_t shown = t->at[unit] + t->latency[bundle];
    t->end = shown > t->end ? shown : t->end;
    for (int64_t k = t->start_after[bundle]; k < t->start_after[bundle + 1]; k++) {
        int64_t other = t->after[k];
        t->since[other] = shown > t->since[other] ? shown : t->since[other];
        if (!--t->missing[other])
            offer(t, other);
    }
}

// Whether every bundle gets its turn: always the unit that can start first.
int run_clock(Clock *t) {
    for (int64_t bundle = 0; bundle < t->bundles; bundle++)
        if (!t->missing[bundle])
            offer(t, bundle);
    for (int64_t turn = 0; turn < t->bundles; turn++) {
        Entry least = {0, 0, -1};
        for (int64_t unit = 0; unit < t->units; unit++) {
            Entry found = next(t, unit);
            if (found.bundle >= 0 && (least.bundle < 0 || precedes(found, least)))
                least = found;
        }
        if (least.bundle < 0)
            return 0;
        begin(t, least);
    }
    return 1;
}

// By bundle, the first one of a unit that keeps its order which needs it, through others or not; `bundles` where none does, which the caller fills in.
// order: the bundles, those that end last in the program first.
void find_urgency(int64_t bundles, const int64_t *order, const int64_t *unit, const uint8_t *free, const int64_t *start_after, const int64_t *after,
                  int64_t *urgency) {
    for (int64_t place = 0; place < bundles; place++) {
        int64_t bundle = order[place], least = bundles;
        for (int64_t k = start_after[bundle]; k < start_after[bundle + 1]; k++)
            least = urgency[after[k]] < least ? urgency[after[k]] : least;
        urgency[bundle] = free[unit[bundle]] ? least : bundle;
    }
}
