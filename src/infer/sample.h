/* Sampling text from a trained language model: it reads a prime text, then repeatedly draws the
 * next token from its scores and reads that. Recurrent layers keep their state, whatever `stateful`
 * says; a net without recurrent layers sees the last token only.
 *
 * One owner: the job's main thread. */
#pragma once

#include "data/vocabulary.h"
#include "run/job.h"

struct sw_sample_args {
    const char *weights; /* a safetensors file */
    const char *prime;   /* the prime text; NULL or "": a line end, else the most frequent token,
                            which is read and not written */
    int64_t length;      /* number of tokens to write after it */
    double temperature; /* scores are divided by it: below 1 more conservative, above 1 more random;
                           0: always the highest score */
    uint64_t seed;      /* same seed, weights and machine give the same text */
};

/* Receives the prime text and then every token as it is drawn. An error ends the text. */
typedef int sw_sample_sink(void *user, const char *text, size_t n, struct sw_err *err);

/* The job must be opened with `predict`; the vocabulary is that of the checkpoint, or, for a file
 * without one, that of [data train], which must be text. *step gets the step of the
 * checkpoint, 0: unknown. Errors: SW_ERR_INVALID for a net that does not map tokens to token
 * scores, a prime with unknown tokens, or data that is not text; those of sw_job_predict and the
 * sink. */
int sw_job_sample(struct sw_job *job, const struct sw_sample_args *args, sw_sample_sink *sink,
                  void *user, int64_t *step, struct sw_err *err) SW_MUST_CHECK;

/* Whether the layer (NULL: as for sw_job_predict) reads the tokens of a text and nothing else. */
bool sw_job_reads_text(const struct sw_job *job, const char *layer);
/* Whether sw_job_sample can use the net of a job that is opened for training. */
bool sw_job_writes_text(const struct sw_job *job);

/* Receives the scores of the token that follows a text: [count], valid during the call. */
typedef int sw_next_sink(void *user, const char *text, const float *scores, int64_t count,
                         const struct sw_vocabulary *vocabulary, struct sw_err *err);

/* Reads each text from its beginning, and passes on the scores after its last token. Errors: as
 * sw_job_sample, SW_ERR_INVALID for a text without tokens. */
int sw_job_predict_next(struct sw_job *job, const char *weights, const char *const *texts,
                        int count, sw_next_sink *sink, void *user,
                        struct sw_err *err) SW_MUST_CHECK;
