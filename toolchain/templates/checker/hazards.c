// Races and unwritten reads over a shadow of every memory; toolchain/analysis/races.py says the same with numpy.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RAW, WAR, WAW, UNWRITTEN };
enum { PAGE_BITS = 12, PAGE = 1 << PAGE_BITS };

// writer, reader: instruction + 1, 0 is none; a reader below 0 is minus the head of a list of readers, one a queue.
typedef struct { int32_t writer, reader; } Granule;
typedef struct { int32_t instruction, next; } Node;
typedef struct { int64_t first, second, kind, memory, start, stop; } Record;

typedef struct {
    int64_t n, queues, memories;
    const int64_t *order, *first, *memory, *start, *stop, *queue, *place, *granules;
    const uint8_t *write;
    const int32_t *clock;
    Record *records;
    int64_t count;
} Task;

typedef struct {
    Task *task;
    Granule ***pages;
    Node *nodes;
    int64_t room, node_room, node_count, spare;
    int failed;
} Work;

static void record(Work *w, int64_t first, int64_t second, int64_t kind, int64_t memory, int64_t at) {
    Task *t = w->task;
    Record *last = t->count ? t->records + t->count - 1 : NULL;
    if (last && last->first == first && last->second == second && last->kind == kind && last->memory == memory && last->stop == at) {
        last->stop = at + 1;
        return;
    }
    if (t->count == w->room) {
        int64_t room = w->room ? 2 * w->room : 1024;
        Record *grown = realloc(t->records, (size_t)room * sizeof *grown);
        if (!grown) { w->failed = 1; return; }
        t->records = grown;
        w->room = room;
    }
    t->records[t->count++] = (Record){first, second, kind, memory, at, at + 1};
}

static int unordered(const Task *t, int64_t first, int64_t second) {
    return t->clock[second * t->queues + t->queue[first]] <= t->place[first];
}

static Granule *page_of(Work *w, int64_t memory, int64_t at) {
    Granule **slot = &w->pages[memory][at >> PAGE_BITS];
    if (!*slot) *slot = calloc(PAGE, sizeof **slot);
    if (!*slot) w->failed = 1;
    return *slot;
}

static int32_t new_node(Work *w, int32_t instruction, int32_t next) {
    int64_t k = w->spare;
    if (k) {
        w->spare = w->nodes[k].next;
    } else {
        if (w->node_count + 1 >= w->node_room) {
            int64_t room = w->node_room ? 2 * w->node_room : 4096;
            Node *grown = realloc(w->nodes, (size_t)room * sizeof *grown);
            if (!grown) { w->failed = 1; return 0; }
            w->nodes = grown;
            w->node_room = room;
        }
        k = ++w->node_count;
    }
    w->nodes[k] = (Node){instruction, next};
    return (int32_t)k;
}

static void add_reader(Work *w, Granule *g, int64_t i) {
    const int64_t *queue = w->task->queue;
    if (g->reader == 0 || (g->reader > 0 && queue[g->reader - 1] == queue[i])) {
        g->reader = (int32_t)(i + 1);
        return;
    }
    if (g->reader > 0) {
        int32_t old = new_node(w, g->reader - 1, 0);
        if (!w->failed) g->reader = -old;
    }
    if (w->failed) return;
    for (int32_t k = -g->reader; k; k = w->nodes[k].next)
        if (queue[w->nodes[k].instruction] == queue[i]) {
            w->nodes[k].instruction = (int32_t)i;
            return;
        }
    int32_t head = new_node(w, (int32_t)i, -g->reader);
    if (!w->failed) g->reader = -head;
}

static void check_readers(Work *w, Granule *g, int64_t i, int64_t memory, int64_t at) {
    if (g->reader > 0) {
        if (unordered(w->task, g->reader - 1, i)) record(w, g->reader - 1, i, WAR, memory, at);
    } else {
        for (int32_t k = -g->reader; k;) {
            int32_t next = w->nodes[k].next;
            if (unordered(w->task, w->nodes[k].instruction, i)) record(w, w->nodes[k].instruction, i, WAR, memory, at);
            w->nodes[k].next = (int32_t)w->spare;
            w->spare = k;
            k = next;
        }
    }
    g->reader = 0;
}

// phase 0: reads against writers; 1: writes; 2: reads are noted where the instruction has not written over them.
static void walk(Work *w, int64_t i, int64_t run, int phase) {
    Task *t = w->task;
    int64_t memory = t->memory[run], at = t->start[run], stop = t->stop[run];
    int32_t known = -1;
    int bad = 0;
    while (at < stop && !w->failed) {
        Granule *page = page_of(w, memory, at);
        if (!page) return;
        int64_t end = (at | (PAGE - 1)) + 1;
        for (end = end < stop ? end : stop; at < end; at++) {
            Granule *g = page + (at & (PAGE - 1));
            if (phase == 2) {
                if (g->writer != i + 1) add_reader(w, g, i);
                continue;
            }
            if (g->writer != known) {
                known = g->writer;
                bad = known && unordered(t, known - 1, i);
            }
            if (bad) record(w, known - 1, i, phase ? WAW : RAW, memory, at);
            if (phase == 0) {
                if (!known) record(w, -1, i, UNWRITTEN, memory, at);
            } else {
                if (g->reader) check_readers(w, g, i, memory, at);
                g->writer = (int32_t)(i + 1);
            }
        }
    }
}

static void instruction(Work *w, int64_t i) {
    const Task *t = w->task;
    for (int phase = 0; phase < 3; phase++)
        for (int64_t run = t->first[i]; run < t->first[i + 1]; run++)
            if (t->write[run] == (phase == 1)) walk(w, i, run, phase);
}

// 0, or 1 when there was not enough memory. The caller frees task->records with hazards_free.
int hazards(Task *task) {
    Work w = {.task = task};
    w.pages = calloc((size_t)task->memories, sizeof *w.pages);
    if (!w.pages) return 1;
    for (int64_t m = 0; m < task->memories; m++) {
        w.pages[m] = calloc((size_t)((task->granules[m] >> PAGE_BITS) + 1), sizeof **w.pages);
        if (!w.pages[m]) w.failed = 1;
    }
    for (int64_t k = 0; k < task->n && !w.failed; k++) instruction(&w, task->order[k]);
    for (int64_t m = 0; m < task->memories; m++) {
        for (int64_t p = 0; w.pages[m] && p <= task->granules[m] >> PAGE_BITS; p++) free(w.pages[m][p]);
        free(w.pages[m]);
    }
    free(w.pages);
    free(w.nodes);
    return w.failed;
}

void hazards_free(Task *task) { free(task->records); }
