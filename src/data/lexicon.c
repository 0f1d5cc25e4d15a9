/* A set of words: an open-addressing hash table of ids, the concatenated bytes of the words, and
 * their counts. Ranking sorts ids by bytes or by frequency, so it does not depend on the order of
 * arrival. */
#include "data/lexicon.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_WORDS = 64, FIRST_TEXT = 1024 };

struct sw_lexicon_word {
    size_t at, bytes; /* in text */
    int64_t times;
    uint64_t hash;
};

void sw_lexicon_fini(struct sw_lexicon *l)
{
    sw_free(l->word);
    sw_free(l->slot);
    sw_free(l->text);
    *l = (struct sw_lexicon){0};
}

/* The slot of a word, or the empty slot where it belongs. There is always an empty slot. */
static uint32_t find_slot(const struct sw_lexicon *l, const char *bytes, size_t n, uint64_t hash)
{
    uint32_t s = (uint32_t)hash & (l->slots - 1);

    for (; l->slot[s]; s = (s + 1) & (l->slots - 1)) {
        const struct sw_lexicon_word *w = &l->word[l->slot[s] - 1];
        if (w->hash == hash && w->bytes == n && !memcmp(l->text + w->at, bytes, n))
            break;
    }

    return s;
}

int32_t sw_lexicon_find(const struct sw_lexicon *l, const char *bytes, size_t n)
{
    return l->slots ? l->slot[find_slot(l, bytes, n, sw_hash_bytes64(bytes, n))] - 1 : -1;
}

static int too_many(const struct sw_lexicon *l, struct sw_err *err)
{
    return sw_err_set(
        err, SW_ERR_FORMAT,
        "its %d distinct words take more than max_bytes = %llu bytes of memory; raise "
        "max_bytes in the [data] section if the file is valid",
        l->count, (unsigned long long)l->max_bytes);
}

/* There are at least twice as many slots as words, so that probe sequences stay short. */
static int grow_words(struct sw_lexicon *l, struct sw_err *err)
{
    if (l->count < l->capacity)
        return SW_OK;
    if (l->count > INT32_MAX / 8)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "more than %d distinct words", l->count);

    const int32_t capacity = l->capacity ? 2 * l->capacity : FIRST_WORDS;
    const uint32_t slots = 2 * (uint32_t)capacity;
    if (l->max_bytes && (size_t)capacity * sizeof *l->word + slots * sizeof *l->slot > l->max_bytes)
        return too_many(l, err);

    struct sw_lexicon_word *word = sw_realloc_array(l->word, (size_t)capacity, sizeof *word);
    if (word)
        l->word = word;

    int32_t *slot = word ? sw_calloc(slots, sizeof *slot) : NULL;
    if (!slot)
        return sw_err_nomem(err, "a list of words", slots * sizeof *slot);

    sw_free(l->slot);
    l->slot = slot;
    l->slots = slots;

    l->capacity = capacity;
    for (int32_t i = 0; i < l->count; i++) {
        uint32_t s = (uint32_t)word[i].hash & (slots - 1);
        while (slot[s])
            s = (s + 1) & (slots - 1);
        slot[s] = i + 1;
    }

    return SW_OK;
}

static int grow_text(struct sw_lexicon *l, size_t more, struct sw_err *err)
{
    if (more > INT32_MAX - l->text_bytes)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "more than 2 GiB of distinct words");
    if (l->text_bytes + more <= l->text_capacity)
        return SW_OK;

    size_t capacity = l->text_capacity ? l->text_capacity : FIRST_TEXT;
    while (capacity < l->text_bytes + more)
        capacity *= 2;
    if (l->max_bytes && capacity > l->max_bytes)
        return too_many(l, err);

    char *text = sw_realloc_array(l->text, capacity, 1);
    if (!text)
        return sw_err_nomem(err, "a list of words", capacity);

    l->text = text;
    l->text_capacity = capacity;
    return SW_OK;
}

int sw_lexicon_add(struct sw_lexicon *l, const char *bytes, size_t n, int64_t times, int32_t *id,
                   struct sw_err *err)
{
    const uint64_t hash = sw_hash_bytes64(bytes, n);

    *id = l->slots ? l->slot[find_slot(l, bytes, n, hash)] - 1 : -1;
    if (*id < 0) {
        int rc = grow_words(l, err);

        if (!rc)
            rc = grow_text(l, n + 1, err);
        if (rc)
            return rc;

        *id = l->count++;
        l->word[*id] = (struct sw_lexicon_word){.at = l->text_bytes, .bytes = n, .hash = hash};
        memcpy(l->text + l->text_bytes, bytes, n);
        l->text[l->text_bytes + n] = '\0';
        l->text_bytes += n + 1;
        l->slot[find_slot(l, bytes, n, hash)] = *id + 1;
    }

    l->word[*id].times += times;
    return SW_OK;
}

const char *sw_lexicon_word(const struct sw_lexicon *l, int32_t id, size_t *n)
{
    if (n)
        *n = l->word[id].bytes;
    return l->text + l->word[id].at;
}

int64_t sw_lexicon_times(const struct sw_lexicon *l, int32_t id)
{
    return l->word[id].times;
}

void sw_lexicon_set_times(struct sw_lexicon *l, int32_t id, int64_t times)
{
    l->word[id].times = times;
}

static int compare_bytes(const void *a, const void *b, void *lexicon)
{
    const struct sw_lexicon *l = lexicon;
    const struct sw_lexicon_word *x = &l->word[*(const int32_t *)a],
                                 *y = &l->word[*(const int32_t *)b];
    const int c =
        memcmp(l->text + x->at, l->text + y->at, x->bytes < y->bytes ? x->bytes : y->bytes);

    return c ? c : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int compare_times(const void *a, const void *b, void *lexicon)
{
    const struct sw_lexicon *l = lexicon;
    const int64_t x = l->word[*(const int32_t *)a].times, y = l->word[*(const int32_t *)b].times;
    return x > y ? -1 : x < y ? 1 : compare_bytes(a, b, lexicon);
}

void sw_lexicon_rank(const struct sw_lexicon *l, enum sw_lexicon_order how, int32_t *order)
{
    for (int32_t i = 0; i < l->count; i++)
        order[i] = i;

    if (l->count)
        qsort_r(order, (size_t)l->count, sizeof *order,
                how == SW_LEXICON_BY_BYTES ? compare_bytes : compare_times, (void *)l);
}

uint64_t sw_lexicon_identity(const struct sw_lexicon *l, const int32_t *order)
{
    uint64_t h = (uint64_t)l->count;
    for (int32_t k = 0; k < l->count; k++)
        h = sw_mix64(h) ^ l->word[order ? order[k] : k].hash;
    return h ? h : 1;
}
