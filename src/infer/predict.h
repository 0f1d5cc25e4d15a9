/* Prediction: the output of one layer of a trained net for a split or for arrays, in evaluation
 * mode, through a net that ends with the layer. Each row is delivered once, in the order of the
 * data; padding is never delivered. No training net is built and no training data is opened.
 *
 * One owner: the job's main thread. */
#pragma once

#include "infer/inputs.h"
#include "layers/layer.h"
#include "run/job.h"

/* An array in place of a data field. Dimension 0 is rows; values are used without transforms,
 * except for an `image` of integers, which is transformed like the data; a `label` is one integer
 * or a row of reals. */
struct sw_predict_input {
    const char *field; /* NULL: the only field that the net reads */
    const char *path;  /* .npy */
};

struct sw_predict_args {
    const char *weights; /* a safetensors file */
    const char *layer;   /* NULL: the source of the last loss, or without a loss the last layer */
    const char *split;   /* NULL: val if it exists, else test. Not with what follows */
    const struct sw_predict_input *inputs;
    int input_count;
    const char *const *files; /* in place of the field that is read (infer/inputs.h) */
    int file_count;
    const char *const *texts; /* of words, in place of the field `tags` (infer/words.h) */
    int text_count;
    /* An image that cannot be read, or a word that the net does not know; any thread. */
    void (*report)(void *user, const char *text);
    void *report_user;
};

struct sw_predict_info {
    const char *layer, *type; /* borrowed from the job's recipe */
    const char *split;        /* NULL: arrays */
    int64_t rows;             /* in all */
    int ndim;                 /* of one row */
    int64_t dim[SW_MAX_DIMS];
    int64_t picture[3];   /* C, H, W of the field `image`; 0: no such field */
    int64_t step;         /* of the checkpoint, 0 unknown */
    const char *fallback; /* messages of a recipe that uses fallback data, or "" */
    enum sw_layer_scores scores;
    bool classes;                         /* a row has one value for each class */
    const struct sw_lexicon *class_names; /* of the net; empty: numbers */
    const struct sw_inputs *files;        /* during the pass; NULL: no files */
};

/* Replaces the scores of a row by probabilities, where they have any. */
void sw_predict_probabilities(enum sw_layer_scores scores, float *values, int64_t count);

/* Receives the rows; those of files that could not be read are NaN. */
struct sw_predict_sink {
    int (*begin)(void *user, const struct sw_predict_info *info, struct sw_err *err);
    int (*rows)(void *user, int64_t count, const float *values, struct sw_err *err);
    void *user;
};

/* The job must be opened with `predict`. Errors: SW_ERR_INVALID from the recipe (see sw_job_recipe
 * for its diagnostics) or for a wrong name, SW_ERR_NOTFOUND, SW_ERR_FORMAT, SW_ERR_NOMEM, those of
 * the sink. */
int sw_job_predict(struct sw_job *job, const struct sw_predict_args *args,
                   const struct sw_predict_sink *sink, struct sw_predict_info *info,
                   struct sw_err *err) SW_MUST_CHECK;
