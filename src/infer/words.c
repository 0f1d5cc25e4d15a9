/* Converts texts to the numbers of their words. The contract is in infer/words.h. */
#include "infer/words.h"

#include "base/os.h"
#include "base/str.h"
#include "data/bags.h"
#include "data/vocabulary.h"
#include <string.h>

/* Replaces words by their numbers in the vocabulary. */
static int number_words(struct sw_bags *bags, const struct sw_vocabulary *v,
                        void (*report)(void *user, const char *text), void *user,
                        struct sw_err *err)
{
    const size_t words = (size_t)bags->words.count;
    int32_t *number = sw_calloc(words + 1, sizeof *number);
    if (!number)
        return sw_err_nomem(err, "the numbers of words", words * sizeof *number);

    for (int32_t w = 0; w < bags->words.count; w++) {
        size_t n = 0;
        const char *word = sw_lexicon_word(&bags->words, w, &n);

        number[w] = sw_vocabulary_find(v, word, n);
        if (number[w] >= 0 || !report)
            continue;

        char *text = sw_format("'%s' is not among the %lld words of the net and is ignored", word,
                               (long long)sw_vocabulary_count(v));
        if (text)
            report(user, text);
        sw_free(text);
    }

    sw_bags_number(bags, number);
    sw_free(number);
    return SW_OK;
}

static int fill(struct sw_word_ids *w, const struct sw_bags *bags, const char *const *texts,
                struct sw_err *err)
{
    w->count = bags->count;
    w->width = sw_bags_most(bags);

    for (int64_t i = 0; i < w->count; i++) {
        int64_t n = 0;

        sw_bags_get(bags, i, &n);
        if (n == 0)
            return sw_err_set(err, SW_ERR_INVALID, "'%s': the net knows none of these words",
                              texts[i]);
    }

    w->ids = sw_calloc((size_t)w->count, (size_t)w->width * sizeof *w->ids);
    if (!w->ids)
        return sw_err_nomem(err, "words", (size_t)w->count * (size_t)w->width * sizeof *w->ids);

    for (int64_t i = 0; i < w->count; i++) {
        int64_t n = 0;
        const int32_t *id = sw_bags_get(bags, i, &n);

        for (int64_t k = 0; k < w->width; k++)
            w->ids[i * w->width + k] = k < n ? id[k] : -1;
    }

    return SW_OK;
}

int sw_word_ids_read(struct sw_word_ids *w, const struct sw_data_spec *spec,
                     const char *const *texts, int count,
                     void (*report)(void *user, const char *text), void *user, struct sw_err *err)
{
    struct sw_vocabulary v = {.unknown = -1, .line_end = -1};
    struct sw_bags bags = {0};

    *w = (struct sw_word_ids){0};

    if (!spec || !spec->tags)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "the weights hold no vocabulary of words, which those of nets do that were "
            "trained on tags in words (format pairs): use --input FIELD=FILE.npy");

    int rc =
        sw_vocabulary_parse(&v, "the words of the net", spec->tags, strlen(spec->tags), NULL, err);
    for (int i = 0; rc == SW_OK && i < count; i++)
        rc = sw_bags_add(&bags, texts[i], err);
    if (rc == SW_OK)
        rc = number_words(&bags, &v, report, user, err);
    if (rc == SW_OK)
        rc = fill(w, &bags, texts, err);

    sw_bags_fini(&bags);
    sw_vocabulary_fini(&v);
    return rc;
}

void sw_word_ids_fini(struct sw_word_ids *w)
{
    sw_free(w->ids);
    *w = (struct sw_word_ids){0};
}
