// Token simulation of in-order queues that meet at counters; toolchain/analysis/order.py says the same in Python.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTING, FLAG, ALL_PRIOR };

typedef struct {
    int64_t n, queues, counters, streams;
    const int64_t *queue, *queue_start, *queue_item;
    const int64_t *stream, *room, *first;  // of each queue: its stream, what it holds (-1: all); of each stream: its instructions
    const int64_t *wait_start, *wait_counter, *wait_amount;
    const int64_t *post_start, *post_counter, *post_amount;
    const int64_t *depth, *mode;
    int64_t *tokens, *order, *head, *fetched, *lost;
    uint8_t *posted;
} Net;

typedef struct {
    int64_t *ready, *waiter, *next, *blocked, *waiting;
    int64_t readies, blocks;
    uint64_t random;
} Work;

static int64_t lacking(const Net *net, int64_t i) {
    for (int64_t k = net->wait_start[i]; k < net->wait_start[i + 1]; k++)
        if (net->tokens[net->wait_counter[k]] < net->wait_amount[k]) return net->wait_counter[k];
    return -1;
}

// The head of a queue, once fetched, becomes ready, or its queue is hung on the first counter that lacks tokens.
static void consider(const Net *net, Work *work, int64_t q) {
    int64_t at = net->queue_start[q] + net->head[q];
    if (at == net->queue_start[q + 1] || net->queue_item[at] >= net->fetched[net->stream[q]]) return;
    int64_t c = lacking(net, net->queue_item[at]);
    if (c < 0) {
        work->ready[work->readies++] = q;
    } else {
        work->next[q] = work->waiter[c];
        work->waiter[c] = q;
    }
}

static void wake(const Net *net, Work *work, int64_t c) {
    int64_t q = work->waiter[c];
    work->waiter[c] = -1;
    while (q >= 0) {
        int64_t after = work->next[q];
        consider(net, work, q);
        q = after;
    }
}

static int64_t head_of(const Net *net, int64_t q) { return net->queue_item[net->queue_start[q] + net->head[q]]; }

// A stream is fetched in order, as far as its queues have room.
static void fetch(const Net *net, Work *work, int64_t s) {
    while (net->fetched[s] < net->first[s + 1]) {
        int64_t i = net->fetched[s], q = net->queue[i];
        if (net->room[q] >= 0 && work->waiting[q] >= net->room[q]) return;
        net->fetched[s]++;
        work->waiting[q]++;
        if (head_of(net, q) == i) consider(net, work, q);
    }
}

// Posts what there is room for; 1 when everything is posted, -1 when a flag loses a token.
static int post(const Net *net, Work *work, int64_t i) {
    int all = 1;
    for (int64_t k = net->post_start[i]; k < net->post_start[i + 1]; k++) {
        int64_t c = net->post_counter[k], after = net->tokens[c] + net->post_amount[k];
        if (net->posted[k]) continue;
        if (net->mode[c] == FLAG && after > 1) {
            net->lost[0] = i;
            net->lost[1] = c;
            return -1;
        }
        if (net->mode[c] == COUNTING && net->depth[c] >= 0 && after > net->depth[c]) {
            all = 0;
            continue;
        }
        net->posted[k] = 1;
        net->tokens[c] = after;
        wake(net, work, c);
    }
    return all;
}

static void advance(const Net *net, Work *work, int64_t q) {
    net->head[q]++;
    consider(net, work, q);
}

// Counters gave room: queues held by a post go on, in the order in which they were held.
static int release(const Net *net, Work *work) {
    int64_t kept = 0, count = work->blocks;
    for (int64_t b = 0; b < count; b++) {
        int64_t q = work->blocked[b];
        int done = post(net, work, head_of(net, q));
        if (done < 0) return -1;
        if (done) advance(net, work, q);
        else work->blocked[kept++] = q;
    }
    work->blocks = kept;
    return 0;
}

static int run_head(const Net *net, Work *work, int64_t q) {
    int64_t i = head_of(net, q);
    int room = 0;
    work->waiting[q]--;
    fetch(net, work, net->stream[q]);
    for (int64_t k = net->wait_start[i]; k < net->wait_start[i + 1]; k++) {
        int64_t c = net->wait_counter[k];
        if (net->mode[c] == ALL_PRIOR) continue;
        net->tokens[c] -= net->wait_amount[k];
        room |= net->depth[c] >= 0;
    }
    if (room && work->blocks && release(net, work) < 0) return -1;
    int done = post(net, work, i);
    if (done < 0) return -1;
    if (done) advance(net, work, q);
    else work->blocked[work->blocks++] = q;
    return 0;
}

static int64_t pick(const Net *net, Work *work, int seeded) {
    int64_t at = 0;
    if (seeded) {
        uint64_t z = (work->random += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        at = (int64_t)((z ^ (z >> 31)) % (uint64_t)work->readies);
    } else {
        for (int64_t r = 1; r < work->readies; r++)
            if (head_of(net, work->ready[r]) < head_of(net, work->ready[at])) at = r;
    }
    int64_t q = work->ready[at];
    work->ready[at] = work->ready[--work->readies];
    return q;
}

static int64_t simulate(const Net *net, Work *work, int seeded) {
    int64_t issued = 0;
    for (int64_t s = 0; s < net->streams; s++) fetch(net, work, s);
    while (work->readies) {
        int64_t q = pick(net, work, seeded), i = head_of(net, q), c = lacking(net, i);
        if (c >= 0) {  // another queue took the tokens
            work->next[q] = work->waiter[c];
            work->waiter[c] = q;
            continue;
        }
        net->order[issued++] = i;
        if (run_head(net, work, q) < 0) return issued;
    }
    return issued;
}

// Returns how many instructions were issued, -1 without memory. tokens holds the initial counts; fetched the first instructions; head, posted zeros; lost -1.
int64_t issue_order(const Net *net, int seeded, uint64_t seed) {
    size_t q = (size_t)net->queues, c = (size_t)net->counters;
    int64_t *memory = calloc(4 * q + c + 1, sizeof(int64_t));
    if (!memory) return -1;
    Work work = {memory, memory + 4 * q, memory + q, memory + 2 * q, memory + 3 * q, 0, 0, seed};
    for (size_t k = 0; k < c; k++) work.waiter[k] = -1;
    int64_t issued = simulate(net, &work, seeded);
    free(memory);
    return issued;
}
