/* Synthetic text, counts and tags: hashes of (seed, class or position) determine everything, so any
 * record can be generated independently. Any thread. */
#include "data/synthetic_words.h"
#include <stdbool.h>

/* Indices in the hash of a class: words by position, tags from TAG_BASE on. */
enum { CLASS_TAGS = 8, TAG_BASE = 1 << 30 };

/* 0 .. n-1, from the upper half of a hash. */
static int64_t below(uint64_t hash, int64_t n)
{
    return (int64_t)((hash >> 32) * (uint64_t)n >> 32);
}

/* The four successors differ if there are at least four tokens: a first one, and steps too small to
 * wrap around to it. */
static int64_t successor(const struct sw_synthetic_words *w, int64_t token, int which)
{
    const uint64_t h = sw_mix64(w->class_key ^ sw_mix64((uint64_t)token));
    const int64_t steps = (w->tokens - 1) / 3, step = steps > 1 ? 1 + below(h << 16, steps) : 1;
    return (below(h, w->tokens) + which * step) % w->tokens;
}

static int64_t next_token(const struct sw_synthetic_words *w, int64_t token, int64_t place)
{
    const uint64_t draw = sw_mix64(w->split_key ^ (uint64_t)place);

    if (place % SW_SYNTHETIC_RUN == 0)
        return below(draw, w->tokens);

    const unsigned bits = draw >> 61; /* 0..7: half, a quarter, an eighth, an eighth */
    return successor(w, token, bits < 4 ? 0 : bits < 6 ? 1 : bits < 7 ? 2 : 3);
}

void sw_synthetic_text(const struct sw_synthetic_words *w, int64_t first, int64_t n, int32_t *out)
{
    int64_t token = 0;

    for (int64_t p = first - first % SW_SYNTHETIC_RUN; p < first + n; p++) {
        token = next_token(w, token, p);
        if (p >= first)
            out[p - first] = (int32_t)token;
    }
}

/* Hash of (class, index), the same in every split. */
static uint64_t of_class(const struct sw_synthetic_words *w, int64_t label, uint32_t which)
{
    return sw_mix64(w->class_key ^ sw_mix64((uint64_t)label << 32 | which));
}

/* Whether a word is one of a class. */
static bool is_own(const struct sw_synthetic_words *w, int64_t label, int64_t word)
{
    return below(of_class(w, label, (uint32_t)word), 4) == 0;
}

void sw_synthetic_counts(const struct sw_synthetic_words *w, uint64_t draw,
                         struct sw_synthetic_labels labels, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t h = sw_mix64(draw + (uint64_t)i);
        const bool own = is_own(w, labels.of[0], i) || is_own(w, labels.of[1], i);
        out[i] = (float)(own ? 2 + below(h, 4) : below(h, 8) == 0);
    }
}

void sw_synthetic_tags(const struct sw_synthetic_words *w, uint64_t draw,
                       struct sw_synthetic_labels labels, int64_t n, int32_t *out)
{
    const int64_t used = 1 + below(sw_mix64(draw), n);

    for (int64_t i = 0; i < n; i++) {
        const uint64_t h = sw_mix64(draw ^ sw_mix64((uint64_t)i + 1));
        const bool own = h >> 62;
        const int64_t label = labels.of[h >> 61 & 1];
        const uint64_t word =
            own ? of_class(w, label, TAG_BASE + (uint32_t)(h % CLASS_TAGS)) : sw_mix64(h);
        out[i] = i < used ? (int32_t)below(word, w->tokens) : -1;
    }
}
