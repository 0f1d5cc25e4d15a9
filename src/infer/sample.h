/* Text written by a trained language model: it reads a beginning, then token by token draws what
 * comes next from its own scores and reads that. Recurrent layers carry their state along, whatever
 * `stateful` says; a net without one knows the last token only.
 *
 * One owner: the job's main thread. */
#pragma once

#include "run/job.h"

struct sw_sample_args {
    const char *weights; /* a safetensors file */
    const char *prime;   /* the text it begins with; NULL or "": a line end, else the most frequent
                            token, which is read and not written */
    int64_t length;      /* tokens to write behind it */
    double temperature;  /* scores are divided by it: below 1 safer, above 1 bolder; 0: always the
                            best one */
    uint64_t seed;       /* the same text for the same seed, weights and machine */
};

/* Gets the beginning and then every token, as it is drawn. Errors end the text. */
typedef int sw_sample_sink(void *user, const char *text, size_t n, struct sw_err *err);

/* The job was opened with `predict`, and [data train] is a text. *step: of the checkpoint, 0
 * unknown. Errors: SW_ERR_INVALID for a net that does not go from tokens to their scores, a prime
 * with unknown tokens, or data that is no text; those of sw_job_predict and the sink. */
int sw_job_sample(struct sw_job *job, const struct sw_sample_args *args, sw_sample_sink *sink,
                  void *user, int64_t *step, struct sw_err *err) SW_MUST_CHECK;
