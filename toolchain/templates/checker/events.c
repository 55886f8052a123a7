// Event simulation of units, counters and shared resources; toolchain/timing/event_run.py says the same in Python.
// Times are doubles; every operation on them stands in the same order there, so both give the same bits.
#include <stdint.h>
#include <stdlib.h>

enum { ALL_PRIOR = 2, NOT_FETCHED = -2 };
enum { REQUEST, COMPUTED, MOVED, VISIBLE, BEGUN, REACH, REACHED };
enum { OWED, ACCEPTED, SEEN };

typedef struct {
    int64_t n, queues, counters, streams, ports, transfers, posts, banks, ranks;
    const int64_t *queue, *queue_start, *queue_item, *stream, *room, *stream_first;
    const int64_t *wait_start, *wait_counter, *wait_amount, *post_start, *post_counter, *post_amount;
    const int64_t *depth, *mode, *initial;
    const int64_t *lag, *end_start, *end_counter, *end_amount, *post_owner;  // of coupled units; no lag without them
    const double *setup, *cycles, *latency;
    const int64_t *first, *port, *rank;
    const double *work;
    const uint8_t *fair;
    const int64_t *bank_first, *bank_port, *bank_rank;  // of banks whose ports are limited; null where none is
    const double *bank_room, *alone;
    double *start, *end, *released, *freed;
    int64_t *order, *counter, *producer, *slowest, *room_counter, *room_by;
} Job;

typedef struct {
    double time;
    int64_t sequence, kind, which, version;
} Event;

typedef struct {
    double key;
    int64_t sequence, queue;
    double work;
} Move;

typedef struct {
    Move *heap;
    int64_t count, version, current;
    double shared, since;
} Port;

// A unit's way to the ports of banks: cycles that are left as of `since`, `speed` of them done in one.
typedef struct {
    double left, since, speed, wanted;
    int64_t version, active;
} Reach;

typedef struct {
    Event *heap;
    int64_t events, space, sequence, issued, readies, helds;
    int64_t *tokens, *taken_room, *head, *pending, *ready, *waiter, *next, *held, *cause_counter, *cause_by, *waiting, *fetched;
    double *free_at, *seen_at;
    uint8_t *state;
    Port *ports;
    int64_t *users;
    Reach *reach;
    int failed;
} Work;

static int before(const Event *a, const Event *b) { return a->time < b->time || (a->time == b->time && a->sequence < b->sequence); }

static void schedule(Work *w, double time, int64_t kind, int64_t which, int64_t version) {
    if (w->events == w->space) {
        Event *more = realloc(w->heap, (size_t)(w->space * 2) * sizeof(Event));
        if (!more) {
            w->failed = 1;
            return;
        }
        w->heap = more;
        w->space *= 2;
    }
    Event event = {time, w->sequence++, kind, which, version};
    int64_t at = w->events++;
    while (at && before(&event, &w->heap[(at - 1) / 2])) {
        w->heap[at] = w->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->heap[at] = event;
}

static Event next_event(Work *w) {
    Event top = w->heap[0], last = w->heap[--w->events];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < w->events) {
        if (child + 1 < w->events && before(&w->heap[child + 1], &w->heap[child])) child++;
        if (!before(&w->heap[child], &last)) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

static int sooner(const Move *a, const Move *b) { return a->key < b->key || (a->key == b->key && a->sequence < b->sequence); }

static void push_move(Port *port, Move move) {
    int64_t at = port->count++;
    while (at && sooner(&move, &port->heap[(at - 1) / 2])) {
        port->heap[at] = port->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    port->heap[at] = move;
}

static Move pop_move(Port *port) {
    Move top = port->heap[0], last = port->heap[--port->count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < port->count) {
        if (child + 1 < port->count && sooner(&port->heap[child + 1], &port->heap[child])) child++;
        if (!sooner(&port->heap[child], &last)) break;
        port->heap[at] = port->heap[child];
        at = child;
    }
    port->heap[at] = last;
    return top;
}

static int64_t head_of(const Job *j, const Work *w, int64_t q) { return j->queue_item[j->queue_start[q] + w->head[q]]; }

static int64_t lacking(const Job *j, const Work *w, int64_t i) {
    for (int64_t k = j->wait_start[i]; k < j->wait_start[i + 1]; k++)
        if (w->tokens[j->wait_counter[k]] < j->wait_amount[k]) return j->wait_counter[k];
    return -1;
}

static void consider(const Job *j, Work *w, int64_t q) {
    int64_t at = j->queue_start[q] + w->head[q];
    if (at == j->queue_start[q + 1] || j->queue_item[at] >= w->fetched[j->stream[q]]) return;
    int64_t c = lacking(j, w, j->queue_item[at]);
    if (c < 0) {
        w->ready[w->readies++] = q;
    } else {
        w->next[q] = w->waiter[c];
        w->waiter[c] = q;
    }
}

// A stream is fetched in order, as far as its queues have room; `by` started and made some.
static void fetch(const Job *j, Work *w, int64_t s, int64_t by) {
    while (w->fetched[s] < j->stream_first[s + 1]) {
        int64_t i = w->fetched[s], q = j->queue[i];
        if (j->room[q] >= 0 && w->waiting[q] >= j->room[q]) return;
        w->fetched[s]++;
        w->waiting[q]++;
        if (head_of(j, w, q) != i) continue;
        if (by >= 0) w->cause_counter[q] = NOT_FETCHED, w->cause_by[q] = by;
        consider(j, w, q);
    }
}

// The unit takes up its next instruction: nothing holds it any more.
static void advance(const Job *j, Work *w, int64_t q, double now) {
    w->head[q]++;
    w->free_at[q] = now;
    w->cause_counter[q] = -1;
    w->cause_by[q] = -1;
    consider(j, w, q);
}

// Whether those that feed a coupled instruction are done.
static int fed(const Job *j, const Work *w, int64_t i) {
    if (!j->lag) return 1;
    for (int64_t k = j->end_start[i]; k < j->end_start[i + 1]; k++)
        if (w->tokens[j->end_counter[k]] < j->end_amount[k]) {
            j->room_counter[i] = j->end_counter[k];
            return 0;
        }
    return 1;
}

// Accepts the posts that have room; they show `latency` after the end, never before those of the instruction before.
static int accept(const Job *j, Work *w, int64_t q, int64_t i, double now) {
    int all = 1, some = 0;
    if (!fed(j, w, i)) return 0;
    for (int64_t k = j->post_start[i]; k < j->post_start[i + 1]; k++) {
        int64_t c = j->post_counter[k];
        if (w->state[k] != OWED) continue;
        if (j->mode[c] != ALL_PRIOR && j->depth[c] >= 0) {
            if (w->taken_room[c] + j->post_amount[k] > j->depth[c]) {
                all = 0;
                j->room_counter[i] = c;
                continue;
            }
            w->taken_room[c] += j->post_amount[k];
        }
        w->state[k] = ACCEPTED;
        some = 1;
    }
    if (some) {
        double seen = j->end[i] + j->latency[i];
        if (seen < now) seen = now;
        if (seen < w->seen_at[q]) seen = w->seen_at[q];
        w->seen_at[q] = seen;
        schedule(w, seen, VISIBLE, i, 0);
    }
    if (all) j->released[i] = now;
    return all;
}

static void finish(const Job *j, Work *w, int64_t q, double now) {
    int64_t i = head_of(j, w, q);
    j->end[i] = now;
    if (accept(j, w, q, i, now)) advance(j, w, q, now);
    else w->held[w->helds++] = q;
}

static void part_done(const Job *j, Work *w, int64_t q, double now) {
    if (--w->pending[q] == 0) finish(j, w, q, now);
}

static void release(const Job *j, Work *w, int64_t by, double now) {
    int64_t kept = 0, count = w->helds;
    for (int64_t h = 0; h < count; h++) {
        int64_t q = w->held[h], i = head_of(j, w, q);
        if (accept(j, w, q, i, now)) {
            j->room_by[i] = by;
            advance(j, w, q, now);
        } else {
            w->held[kept++] = q;
        }
    }
    w->helds = kept;
}

static void start(const Job *j, Work *w, int64_t q, double now) {
    int64_t i = head_of(j, w, q), room = 0;
    j->order[w->issued++] = i;
    j->start[i] = now;
    j->freed[i] = w->free_at[q];
    j->counter[i] = w->cause_counter[q];
    j->producer[i] = w->cause_by[q];
    w->waiting[q]--;
    fetch(j, w, j->stream[q], i);
    for (int64_t k = j->wait_start[i]; k < j->wait_start[i + 1]; k++) {
        int64_t c = j->wait_counter[k];
        if (j->mode[c] == ALL_PRIOR) continue;
        w->tokens[c] -= j->wait_amount[k];
        if (j->depth[c] >= 0) {
            w->taken_room[c] -= j->wait_amount[k];
            room = 1;
        }
    }
    int64_t moves = j->first[i + 1] - j->first[i], reaches = j->banks && j->bank_first[i + 1] > j->bank_first[i] && j->alone[i] > 0;
    w->pending[q] = 1 + moves + reaches;
    double working = now + j->setup[i];
    if (moves) schedule(w, working, REQUEST, q, 0);
    schedule(w, working + j->cycles[i], COMPUTED, q, 0);
    if (reaches) schedule(w, working, REACH, q, 0);
    if (j->lag)
        for (int64_t k = j->post_start[i]; k < j->post_start[i + 1]; k++)
            if (j->lag[j->post_counter[k]] >= 0) schedule(w, now + (double)j->lag[j->post_counter[k]], BEGUN, k, 0);
    if (room && w->helds) release(j, w, i, now);
}

static void start_ready(const Job *j, Work *w, double now) {
    while (w->readies) {
        int64_t at = 0;
        for (int64_t r = 1; r < w->readies; r++)
            if (head_of(j, w, w->ready[r]) < head_of(j, w, w->ready[at])) at = r;
        int64_t q = w->ready[at], c = lacking(j, w, head_of(j, w, q));
        w->ready[at] = w->ready[--w->readies];
        if (c < 0) {
            start(j, w, q, now);
        } else {
            w->next[q] = w->waiter[c];
            w->waiter[c] = q;
        }
    }
}

static void show_one(const Job *j, Work *w, int64_t k, int64_t i) {
    int64_t c = j->post_counter[k], q = w->waiter[c];
    if (w->state[k] == SEEN) return;
    w->state[k] = SEEN;
    w->tokens[c] += j->post_amount[k];
    w->waiter[c] = -1;
    while (q >= 0) {
        int64_t after = w->next[q];
        w->cause_counter[q] = c;
        w->cause_by[q] = i;
        consider(j, w, q);
        q = after;
    }
}

static void show(const Job *j, Work *w, int64_t i, double now) {
    for (int64_t k = j->post_start[i]; k < j->post_start[i + 1]; k++)
        if (w->state[k] == ACCEPTED) show_one(j, w, k, i);
    if (j->lag && w->helds) release(j, w, i, now);
}

static void plan_fair(Work *w, Port *port, int64_t p, double now) {
    port->version++;
    if (port->count) schedule(w, now + (port->heap[0].key - port->shared) * (double)port->count, MOVED, p, port->version);
}

static void begin(Work *w, Port *port, int64_t p, double now) {
    Move move = pop_move(port);
    port->current = move.queue;
    schedule(w, now + move.work, MOVED, p, port->version);
}

static void request(const Job *j, Work *w, int64_t q, double now) {
    int64_t i = head_of(j, w, q);
    for (int64_t k = j->first[i]; k < j->first[i + 1]; k++) {
        int64_t p = j->port[k];
        Port *port = &w->ports[p];
        if (j->fair[p]) {
            if (port->count) port->shared += (now - port->since) / (double)port->count;
            port->since = now;
            push_move(port, (Move){port->shared + j->work[k], w->sequence++, q, j->work[k]});
            plan_fair(w, port, p, now);
        } else {
            push_move(port, (Move){(double)j->rank[k], w->sequence++, q, j->work[k]});
            if (port->current < 0) begin(w, port, p, now);
        }
    }
}

static void moved(const Job *j, Work *w, int64_t p, int64_t version, double now) {
    Port *port = &w->ports[p];
    if (version != port->version) return;
    int64_t q = port->current;
    if (j->fair[p]) {
        Move move = pop_move(port);
        q = move.queue;
        port->shared = move.key;
        port->since = now;
        plan_fair(w, port, p, now);
    } else {
        port->current = -1;
        if (port->count) begin(w, port, p, now);
    }
    j->slowest[head_of(j, w, q)] = p;
    part_done(j, w, q, now);
}

static void count_users(const Job *j, Work *w, int64_t i, int64_t more) {
    for (int64_t k = j->bank_first[i]; k < j->bank_first[i + 1]; k++) w->users[j->bank_port[k] * j->ranks + j->bank_rank[k]] += more;
}

// The part of each cycle in which a port serves a unit of this rank.
static double share(const Job *j, const Work *w, int64_t port, int64_t rank) {
    const int64_t *users = w->users + port * j->ranks;
    int64_t first = 0;
    for (int64_t r = 0; r < rank; r++) first += users[r];
    double left = j->bank_room[port] - (double)first;
    return (left > 0.0 ? left : 0.0) / (double)users[rank];
}

// Units of one rank take turns in the cycles of a port that those before them leave; a unit does as much as its most wanted port lets it. Where each
// waits for another, as ranks that differ from port to port can have it, the first one goes alone.
static void share_ports(const Job *j, Work *w, double now) {
    Reach *first = NULL;
    int stuck = 1;
    for (int64_t q = 0; q < j->queues; q++) {
        Reach *reach = &w->reach[q];
        if (!reach->active) continue;
        int64_t i = head_of(j, w, q);
        reach->wanted = 1.0;
        for (int64_t k = j->bank_first[i]; k < j->bank_first[i + 1]; k++) {
            double part = share(j, w, j->bank_port[k], j->bank_rank[k]);
            if (part < reach->wanted) reach->wanted = part;
        }
        if (!first) first = reach;
        if (reach->wanted > 0.0) stuck = 0;
    }
    if (first && stuck) first->wanted = 1.0;
    for (int64_t q = 0; q < j->queues; q++) {
        Reach *reach = &w->reach[q];
        if (!reach->active) continue;
        double speed = reach->wanted;
        if (speed == reach->speed) continue;
        reach->left = reach->left - (now - reach->since) * reach->speed;
        if (reach->left < 0.0) reach->left = 0.0;
        reach->since = now, reach->speed = speed;
        reach->version++;
        if (speed > 0.0) schedule(w, now + reach->left / speed, REACHED, q, reach->version);
    }
}

static void take_ports(const Job *j, Work *w, int64_t q, double now) {
    int64_t i = head_of(j, w, q);
    Reach *reach = &w->reach[q];
    reach->left = j->alone[i], reach->since = now, reach->speed = 0.0, reach->active = 1;
    count_users(j, w, i, 1);
    share_ports(j, w, now);
}

static void leave_ports(const Job *j, Work *w, int64_t q, int64_t version, double now) {
    if (version != w->reach[q].version) return;
    w->reach[q].active = 0;
    j->slowest[head_of(j, w, q)] = -1;
    count_users(j, w, head_of(j, w, q), -1);
    share_ports(j, w, now);
    part_done(j, w, q, now);
}

static void run(const Job *j, Work *w) {
    for (int64_t s = 0; s < j->streams; s++) w->fetched[s] = j->stream_first[s], fetch(j, w, s, -1);
    start_ready(j, w, 0.0);
    while (w->events && !w->failed) {
        Event event = next_event(w);
        if (event.kind == REQUEST) request(j, w, event.which, event.time);
        else if (event.kind == COMPUTED) part_done(j, w, event.which, event.time);
        else if (event.kind == MOVED) moved(j, w, event.which, event.version, event.time);
        else if (event.kind == REACH) take_ports(j, w, event.which, event.time);
        else if (event.kind == REACHED) leave_ports(j, w, event.which, event.version, event.time);
        else if (event.kind == BEGUN) show_one(j, w, event.which, j->post_owner[event.which]);
        else show(j, w, event.which, event.time);
        if (!w->events || w->heap[0].time > event.time) start_ready(j, w, event.time);
    }
}

static void *zeros(Work *w, int64_t count, size_t size) {
    void *memory = calloc((size_t)(count > 0 ? count : 1), size);
    if (!memory) w->failed = 1;
    return memory;
}

// Returns how many instructions have started, or -1 without memory. Result arrays hold -1 (indices) and 0 (times) before.
int64_t simulate(const Job *j) {
    Work w = {.space = 1024};
    int64_t q = j->queues, c = j->counters;
    w.heap = zeros(&w, w.space, sizeof(Event));
    int64_t *numbers = zeros(&w, 3 * c + 8 * q + j->streams, sizeof(int64_t));
    double *times = zeros(&w, 2 * q, sizeof(double));
    Move *moves = zeros(&w, j->ports * q, sizeof(Move));
    w.ports = zeros(&w, j->ports, sizeof(Port));
    w.state = zeros(&w, j->posts, 1);
    w.users = zeros(&w, j->banks * j->ranks, sizeof(int64_t));
    w.reach = zeros(&w, q, sizeof(Reach));
    if (!w.failed) {
        w.tokens = numbers, w.taken_room = numbers + c, w.waiter = numbers + 2 * c;
        int64_t **per_queue[] = {&w.head, &w.pending, &w.ready, &w.next, &w.held, &w.cause_counter, &w.cause_by, &w.waiting};
        for (int64_t k = 0; k < 8; k++) *per_queue[k] = numbers + 3 * c + k * q;
        w.fetched = numbers + 3 * c + 8 * q;
        w.free_at = times, w.seen_at = times + q;
        for (int64_t k = 0; k < c; k++) w.tokens[k] = w.taken_room[k] = j->initial[k], w.waiter[k] = -1;
        for (int64_t k = 0; k < q; k++) w.cause_counter[k] = w.cause_by[k] = -1;
        for (int64_t k = 0; k < j->ports; k++) w.ports[k].heap = moves + k * q, w.ports[k].current = -1;
        run(j, &w);
    }
    free(w.heap), free(numbers), free(times), free(moves), free(w.ports), free(w.state), free(w.users), free(w.reach);
    return w.failed ? -1 : w.issued;
}
