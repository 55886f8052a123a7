/* What every engine needs, whatever the machine. */
/* TW_UNROLL(N): a loop of at most N turns, whose number is known when it is inlined: sums stay in registers only without it. */
#if defined(__clang__)
#define TW_LOOP
#define TW_UNROLL(N) _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define TW_PRAGMA(TEXT) _Pragma(#TEXT)
#define TW_LOOP _Pragma("GCC unroll 1")
#define TW_UNROLL(N) TW_PRAGMA(GCC unroll N)
#else
#define TW_LOOP
#define TW_UNROLL(N)
#endif
typedef int8_t int8_u __attribute__((aligned(1), may_alias));
typedef uint8_t uint8_u __attribute__((aligned(1), may_alias));
typedef int16_t int16_u __attribute__((aligned(1), may_alias));
typedef uint16_t uint16_u __attribute__((aligned(1), may_alias));
typedef int32_t int32_u __attribute__((aligned(1), may_alias));
typedef uint32_t uint32_u __attribute__((aligned(1), may_alias));
typedef int64_t int64_u __attribute__((aligned(1), may_alias));
typedef uint64_t uint64_u __attribute__((aligned(1), may_alias));

enum { TW_SCRATCH = 13 };
typedef struct {
    uint8_t *const *memory;
    int64_t *const *host;
    int64_t *const *latched;
    uint8_t *const *written;
    const int64_t *const *const *field; /* by kind, then by field */
    struct { void *start; size_t size; } scratch[TW_SCRATCH];
    uint8_t *zeros; /* never written: reading it costs no memory */
    size_t zeros_size;
    double iterations; /* that the loops of the executing instruction have asked for */
} tw_context;

/* Whether `more` iterations are too many for one instruction; the fault says so. */
static inline int tw_too_many(tw_context *c, double more)
{
    c->iterations += more;
    if (c->iterations > TW_MOST_ITERATIONS) tw_fault = 6;
    return c->iterations > TW_MOST_ITERATIONS;
}

/* At least `size` bytes, kept between calls, not cleared; without memory the fault says so and the answer is NULL. */
static void *tw_scratch(tw_context *c, int slot, size_t size)
{
    if (c->scratch[slot].size < size) {
        free(c->scratch[slot].start);
        size = (size + size / 2 + 4095) & ~(size_t)4095;
        c->scratch[slot].start = aligned_alloc(64, size);
        c->scratch[slot].size = c->scratch[slot].start ? size : 0;
        if (!c->scratch[slot].start) tw_fault = 10;
    }
    return c->scratch[slot].start;
}
/* Marks `count` pieces from `at` on; 0 where one of them was marked before. */
static inline int tw_fresh(uint64_t *seen, int64_t at, int64_t count)
{
    int fresh = 1;
    for (int64_t end = at + count; at < end; at++) {
        const uint64_t bit = UINT64_C(1) << (at & 63);
        fresh &= !(seen[at >> 6] & bit);
        seen[at >> 6] |= bit;
    }
    return fresh;
}
/* Whether one of `count` pieces from `at` on is marked. */
static inline int tw_marked(const uint64_t *seen, int64_t at, int64_t count)
{
    int marked = 0;
    for (int64_t end = at + count; at < end; at++) marked |= seen[at >> 6] >> (at & 63) & 1;
    return marked;
}
static const uint8_t *tw_no_data(tw_context *c, size_t size)
{
    if (c->zeros_size < size) {
        free(c->zeros);
        c->zeros = calloc(1, size);
        c->zeros_size = c->zeros ? size : 0;
        if (!c->zeros) tw_fault = 10;
    }
    return c->zeros;
}
void tw_release(tw_context *c)
{
    free(c->zeros);
    c->zeros = NULL;
    c->zeros_size = 0;
    for (int i = 0; i < TW_SCRATCH; i++) free(c->scratch[i].start);
    memset(c->scratch, 0, sizeof c->scratch);
}
static inline int64_t tw_place(int64_t at, int64_t count)
{
    if ((uint64_t)at >= (uint64_t)count) { tw_fault = 1; return 0; }
    return at;
}
static inline int64_t tw_inside(int64_t at, int64_t count) { return (uint64_t)at < (uint64_t)count ? at : 0; }
static inline int64_t tw_host(const int64_t *rows, int64_t at, int64_t depth) { return rows[tw_place(at, depth)]; }
static inline int64_t tw_latched(const int64_t *rows, const uint8_t *written, int64_t at, int64_t depth, int64_t columns, int64_t column)
{
    at = tw_place(at, depth);
    if (!written[at]) { tw_fault = 2; return rows[at * columns + column]; }
    return rows[at * columns + column];
}
static inline int64_t tw_bits(const uint8_t *at, int bytes, int lsb, int bits, int sign)
{
    uint64_t word = 0;
    memcpy(&word, at, bytes > 8 ? 8 : bytes);
    return sign ? (int64_t)(word << (64 - lsb - bits)) >> (64 - bits) : (int64_t)((word >> lsb) & (~(uint64_t)0 >> (64 - bits)));
}
static inline int64_t tw_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tw_max(int64_t a, int64_t b) { return a > b ? a : b; }
/* Elements that may run past the end of a ring of `size` bytes and go on at its start. */
static inline void tw_ring_read(uint8_t *to, const uint8_t *ring, int64_t at, int64_t size, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) to[i] = ring[(at + i) % size];
}
static inline void tw_ring_write(const uint8_t *from, uint8_t *ring, int64_t at, int64_t size, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) ring[(at + i) % size] = from[i];
}
