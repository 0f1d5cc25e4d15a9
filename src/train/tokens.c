/* The vocabulary of a model of text, in checkpoints: which token is which number. With another one
 * the same numbers are other words, and nothing else would say so. Metadata "vocabulary" is its
 * identity as 16 hex digits, behind it the number of tokens; models of other data have none. */
#include "data/vocabulary.h"
#include "train/job_private.h"
#include "train/saved.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 64, IDENTITY = 16 };

static void write_identity(const struct sw_source *s, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "%016" PRIx64 " %lld", s->naming,
             (long long)sw_vocabulary_count(s->vocabulary));
}

int sw_tokens_write(const struct sw_job *job, struct sw_st_writer *w, struct sw_err *err)
{
    const struct sw_source *s = job->source[SW_SPLIT_TRAIN];
    char text[TEXT_BYTES];
    if (!s || !s->vocabulary)
        return SW_OK;
    write_identity(s, text);
    return sw_st_writer_metadata(w, "vocabulary", text, err);
}

int sw_tokens_check(const struct sw_job *job, const struct sw_st_file *f, const char *path,
                    struct sw_err *err)
{
    const char *theirs = sw_st_metadata(f, "vocabulary");
    for (int split = 0; split < SW_SPLITS && theirs; split++) {
        const struct sw_source *s = job->source[split];
        char ours[TEXT_BYTES];
        if (!s || !s->vocabulary)
            continue;
        write_identity(s, ours);
        if (strncmp(ours, theirs, IDENTITY) == 0)
            continue;
        const char *count = strchr(theirs, ' ');
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: its model was trained with another vocabulary, of%s tokens; that of "
                          "data %s has %lld in their order: the texts that it is made from have "
                          "changed (keys vocabulary, vocabulary_from, max_tokens, unknown)",
                          path, count ? count : " other", s->name,
                          (long long)sw_vocabulary_count(s->vocabulary));
    }
    return SW_OK;
}
