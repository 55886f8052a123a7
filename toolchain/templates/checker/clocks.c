// Vector clocks along an order of execution; toolchain/analysis/clocks.py says the same in Python.
#include <stdint.h>
#include <string.h>

typedef struct {
    int64_t n, queues;
    const int64_t *order, *queue, *position;
    const uint8_t *overlaps;
    const int64_t *start, *poster, *room, *held_start, *held;
    int64_t *last;   // [queues]: the latest instruction of each queue, -1 before the first
    int32_t *now;    // [queues, queues]: what the next instruction of each queue knows
    int32_t *clock;  // [n, queues]
} Clocks;

static void join(int32_t *into, const int32_t *from, int64_t queues) {
    for (int64_t q = 0; q < queues; q++)
        if (from[q] > into[q]) into[q] = from[q];
}

static void at_least(int32_t *value, int64_t count) {
    if (*value < count) *value = (int32_t)count;
}

void happens_before(const Clocks *c) {
    for (int64_t k = 0; k < c->n; k++) {
        int64_t i = c->order[k], q = c->queue[i];
        int32_t *row = c->clock + i * c->queues, *now = c->now + q * c->queues;
        int64_t before = c->last[q];
        for (int64_t e = before < 0 ? 0 : c->held_start[before]; before >= 0 && e < c->held_start[before + 1]; e++)
            join(now, c->clock + c->held[e] * c->queues, c->queues);
        for (int64_t e = c->start[i]; e < c->start[i + 1]; e++) {
            int64_t p = c->poster[e];
            join(now, c->clock + p * c->queues, c->queues);
            at_least(now + c->queue[p], c->position[p] + 1);
            if (c->room[e] >= 0) join(now, c->clock + c->room[e] * c->queues, c->queues);
        }
        memcpy(row, now, (size_t)c->queues * sizeof(int32_t));
        c->last[q] = i;
        if (!c->overlaps[q]) at_least(now + q, c->position[i] + 1);
    }
}
