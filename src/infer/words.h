/* Texts that users write as values of the field `tags` (data/formats/pairs.c): each word becomes
 * its number in the vocabulary that the trained net knows, and words that it does not know are
 * dropped, as in training. Any thread. */
#pragma once

#include "data/spec.h"

struct sw_word_ids {
    int64_t count, width; /* texts, and numbers of each: the most that one has */
    int32_t *ids;         /* owned [count][width], padded with -1 */
};

/* Converts texts of words between blanks. report is called for each word that is dropped. Free with
 * sw_word_ids_fini, also after an error. Errors: SW_ERR_INVALID for a spec without such a
 * vocabulary and for a text of which no word is known, SW_ERR_FORMAT (damaged vocabulary),
 * SW_ERR_NOMEM. */
int sw_word_ids_read(struct sw_word_ids *w, const struct sw_data_spec *spec,
                     const char *const *texts, int count,
                     void (*report)(void *user, const char *text), void *user,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_word_ids_fini(struct sw_word_ids *w); /* a zeroed one is accepted */
