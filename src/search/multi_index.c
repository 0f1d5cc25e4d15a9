/* Tables of substrings, and the search that looks their values up. Values at distance r of a
 * substring are made by flipping r of its bits, in all combinations. The contract is in
 * search/multi_index.h. */
#include "search/multi_index.h"

#include "base/os.h"
#include "search/exact.h"
#include "search/hamming.h"
#include "search/hamming_loop.h"
#include "search/parallel.h"
#include <string.h>

enum { WORD = 64 };

/* ---- Substrings -------------------------------------------------------------------------------
 */

struct part {
    int bit, bits;         /* of a code */
    const uint32_t *begin; /* [2^bits + 1] */
    const uint32_t *rows;
};

static int first_bit(int bits, int parts, int part)
{
    return (int)((int64_t)part * bits / parts);
}

static uint32_t substring(const uint64_t *code, int bit, int bits)
{
    const int word = bit / WORD, shift = bit % WORD;
    uint64_t value = code[word] >> shift;

    if (shift + bits > WORD)
        value |= code[word + 1] << (WORD - shift);
    return (uint32_t)(value & (((uint64_t)1 << bits) - 1));
}

int sw_multi_index_parts(int64_t count, int bits)
{
    int log = 1;
    while (log < SW_MULTI_INDEX_MOST_BITS && ((int64_t)1 << log) < count)
        log++;

    return (bits + log - 1) / log;
}

bool sw_multi_index_fits(int bits, int parts)
{
    return parts >= 1 && parts <= bits && (int64_t)parts * SW_MULTI_INDEX_MOST_BITS >= bits;
}

size_t sw_multi_index_begins(int bits, int parts)
{
    size_t sum = 0;

    for (int p = 0; p < parts; p++)
        sum += ((size_t)1 << (first_bit(bits, parts, p + 1) - first_bit(bits, parts, p))) + 1;
    return sum;
}

static struct part part_of(const struct sw_multi_index *x, int p, const uint32_t *begin)
{
    const int bit = first_bit(x->codes.bits, x->parts, p);
    return (struct part){bit, first_bit(x->codes.bits, x->parts, p + 1) - bit, begin,
                         x->rows + (int64_t)p * x->codes.count};
}

static const uint32_t *next_begin(const struct part *p)
{
    return p->begin + ((size_t)1 << p->bits) + 1;
}

void sw_multi_index_build(const struct sw_codes *c, int parts, uint32_t *begin, uint32_t *rows)
{
    for (int p = 0; p < parts; p++, rows += c->count) {
        const int bit = first_bit(c->bits, parts, p);
        const int bits = first_bit(c->bits, parts, p + 1) - bit;
        const size_t values = (size_t)1 << bits;

        /* A counting sort: begin[v + 1] counts, then begin[v] is where the next row of v goes, and
         * at last where those of v + 1 begin. */
        memset(begin, 0, (values + 1) * sizeof *begin);
        for (int64_t row = 0; row < c->count; row++)
            begin[substring(sw_code(c, row), bit, bits) + 1]++;
        for (size_t v = 0; v < values; v++)
            begin[v + 1] += begin[v];
        for (int64_t row = 0; row < c->count; row++)
            rows[begin[substring(sw_code(c, row), bit, bits)]++] = (uint32_t)row;

        memmove(begin + 1, begin, values * sizeof *begin);
        begin[0] = 0;
        begin += values + 1;
    }
}

int sw_multi_index_check(const struct sw_multi_index *x, const char *what, struct sw_err *err)
{
    const uint32_t *begin = x->begin;

    for (int p = 0; p < x->parts; p++) {
        const struct part part = part_of(x, p, begin);
        const size_t values = (size_t)1 << part.bits;
        bool good = begin[0] == 0 && begin[values] == (uint64_t)x->codes.count;

        for (size_t v = 0; good && v < values; v++)
            good = begin[v] <= begin[v + 1];
        for (int64_t i = 0; good && i < x->codes.count; i++)
            good = part.rows[i] < (uint64_t)x->codes.count;
        if (!good)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s: the table of substring %d does not list %lld rows in order",
                              what, p, (long long)x->codes.count);

        begin = next_begin(&part);
    }

    return SW_OK;
}

/* ---- Search -----------------------------------------------------------------------------------
 */

struct scratch {
    uint64_t *seen; /* [count / 64 + 1] bits: rows that were compared for this query */
    uint32_t *touched;
    int64_t touched_count;
    int64_t read;
};

struct search {
    const struct sw_multi_index *x;
    const struct sw_codes *queries;
    struct part *parts; /* [x->parts] */
    sw_hamming_next *next;
    int64_t k;
    struct sw_neighbor *out;
    struct scratch *scratch; /* [threads] */
};

/* Compares the rows of one value of a substring. A mapped file may change after its check: what it
 * says then is wrong, but stays in bounds. */
static void look_up(const struct search *s, const struct part *p, uint32_t value,
                    const uint64_t *query, struct scratch *w, struct sw_nearest *n)
{
    const int64_t count = s->x->codes.count;
    const uint32_t end = p->begin[value + 1];

    for (uint32_t i = p->begin[value]; i < end && i < count; i++) {
        const uint32_t row = p->rows[i];
        if (row >= count)
            continue;
        uint64_t *seen = &w->seen[row / WORD];
        const uint64_t bit = (uint64_t)1 << (row % WORD);

        if (*seen & bit)
            continue;

        *seen |= bit;
        w->touched[w->touched_count++] = row;
        sw_nearest_offer(n, hamming_words(sw_code(&s->x->codes, row), query, s->x->codes.words),
                         row);
    }
}

/* Looks up all values of a substring at exactly `radius` bits from the query's: the bits to flip
 * are the next larger number with as many ones, until they exceed the substring. */
static void look_up_ring(const struct search *s, const struct part *p, int radius,
                         const uint64_t *query, struct scratch *w, struct sw_nearest *n)
{
    const uint32_t value = substring(query, p->bit, p->bits);
    const uint64_t end = (uint64_t)1 << p->bits;

    if (radius == 0) {
        look_up(s, p, value, query, w, n);
        return;
    }

    for (uint64_t flip = ((uint64_t)1 << radius) - 1; flip < end;) {
        const uint64_t low = flip & -flip, next = flip + low;

        look_up(s, p, value ^ (uint32_t)flip, query, w, n);
        flip = next | ((flip ^ next) >> 2) / low;
    }
}

/* Values at distance `radius` of a substring, or `most` if there are more. */
static int64_t ring_size(int bits, int radius, int64_t most)
{
    int64_t size = 1;

    for (int i = 1; i <= radius && size < most; i++)
        size = size * (bits - radius + i) / i;
    return radius > bits ? 0 : size < most ? size : most;
}

static void scan(const struct search *s, const uint64_t *query, struct scratch *w,
                 struct sw_nearest *n)
{
    const struct sw_codes *c = &s->x->codes;
    int distance;

    n->count = 0;
    for (int64_t i = 0;; i++) {
        const int limit = n->count < n->k ? c->bits + 1 : (int)n->at[0].distance;

        i = s->next(c->at, i, c->count, c->words, query, limit, &distance);
        if (i >= c->count)
            break;
        sw_nearest_offer(n, distance, i);
    }

    w->read += c->count;
}

/* Returns whether the k nearest were found by looking up. */
static bool search_tables(const struct search *s, const uint64_t *query, struct scratch *w,
                          struct sw_nearest *n)
{
    const int parts = s->x->parts;
    int64_t budget = s->x->codes.count; /* of look-ups and comparisons: a scan costs as many */

    for (int covered = 0; covered <= s->x->codes.bits; covered++) {
        const struct part *p = &s->parts[covered % parts];
        const int radius = covered / parts;

        budget -= ring_size(p->bits, radius, budget + 1);
        if (budget < w->touched_count)
            return false;

        look_up_ring(s, p, radius, query, w, n);
        if (n->count == n->k && n->at[0].distance <= covered)
            return true;
    }

    return n->count == n->k;
}

static int run_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct search *s = user;
    struct scratch *w = &s->scratch[thread];
    const uint64_t *query = sw_code(s->queries, task);
    struct sw_nearest n = sw_nearest_in(s->out + task * s->k, s->k);

    w->touched_count = 0;

    const bool found = search_tables(s, query, w, &n);

    w->read += w->touched_count;
    for (int64_t i = 0; i < w->touched_count; i++)
        w->seen[w->touched[i] / WORD] = 0;

    if (!found)
        scan(s, query, w, &n);
    sw_nearest_sort(&n);

    return SW_OK;
}

static int open_search(struct search *s, int threads, struct sw_err *err)
{
    const size_t count = (size_t)s->x->codes.count;
    const uint32_t *begin = s->x->begin;

    s->scratch = sw_calloc((size_t)threads, sizeof *s->scratch);
    s->parts = sw_calloc((size_t)s->x->parts, sizeof *s->parts);
    if (!s->scratch || !s->parts)
        return sw_err_nomem(err, "a search", 0);

    for (int p = 0; p < s->x->parts; p++) {
        s->parts[p] = part_of(s->x, p, begin);
        begin = next_begin(&s->parts[p]);
    }

    for (int i = 0; i < threads; i++) {
        s->scratch[i].seen = sw_calloc(count / WORD + 1, sizeof *s->scratch[i].seen);
        s->scratch[i].touched = sw_calloc(count, sizeof *s->scratch[i].touched);
        if (!s->scratch[i].seen || !s->scratch[i].touched)
            return sw_err_nomem(err, "a search", count * sizeof *s->scratch[i].touched);
    }

    return SW_OK;
}

static void close_search(struct search *s, int threads)
{
    for (int i = 0; s->scratch && i < threads; i++) {
        sw_free(s->scratch[i].seen);
        sw_free(s->scratch[i].touched);
    }

    sw_free(s->scratch);
    sw_free(s->parts);
}

int sw_multi_index_search(const struct sw_multi_index *x, const struct sw_codes *queries, int64_t k,
                          int threads, struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    struct search s = {.x = x, .queries = queries, .next = sw_hamming_best(), .k = k, .out = out};
    int64_t total = 0;

    int rc = sw_search_check(x->codes.count, x->codes.bits, queries->bits, k, threads, err);
    if (rc != SW_OK)
        return rc;

    rc = open_search(&s, threads, err);
    if (rc == SW_OK)
        rc = sw_search_parallel(threads, queries->count, run_task, &s, err);

    for (int i = 0; rc == SW_OK && i < threads; i++)
        total += s.scratch[i].read;
    if (rc == SW_OK)
        *read = total;

    close_search(&s, threads);
    return rc;
}
