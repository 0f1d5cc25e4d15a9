/* A trained net, or as much of it as leads to one layer, that is run forward by hand: on one
 * worker, in evaluation mode, with weights straight from a file; no training net, parameter table
 * or threads. What `predict` and `sample` stand on.
 *
 * One owner: the job's main thread. */
#pragma once

#include "net/net.h"
#include "recipe/recipe.h"

struct sw_worker;

/* Zero-initialise; free with sw_inference_end in every case. */
struct sw_inference {
    struct sw_worker *w;        /* borrowed: keeps net, stream and arena */
    const char *layer;          /* borrowed from the recipe */
    int64_t rows;               /* of a pass */
    struct sw_tensor **tensors; /* owned, each too: parameters, then states */
    int tensor_count;
    void *carries; /* owned device memory */
    size_t carry_bytes;
    float *plain; /* owned: the layer's output of one pass */
};

struct sw_inference_args {
    const char *layer, *weights; /* weights: a safetensors file */
    int64_t rows;
    const struct sw_net_field *fields; /* with so many rows */
    int field_count;
    const char *source; /* of the fields, for messages */
    bool carry;         /* recurrent layers go on from pass to pass, whatever stateful says */
    int64_t steps;      /* of every unrolled layer; 0: as it says */
};

/* The layer that is meant: `name`, or for NULL what the last loss reads, else the last layer.
 * Errors: SW_ERR_INVALID. */
int sw_inference_choose(const struct sw_recipe *recipe, const char *name, const char **layer,
                        struct sw_err *err) SW_MUST_CHECK;

/* w: the first worker of a job that was opened with `predict`. *step: of the checkpoint, 0 unknown.
 * Errors: SW_ERR_INVALID from the recipe (its diags say more) or of a layer without rows,
 * SW_ERR_NOTFOUND, SW_ERR_FORMAT, SW_ERR_NOMEM. */
int sw_inference_begin(struct sw_inference *f, struct sw_worker *w, struct sw_recipe *recipe,
                       const struct sw_inference_args *args, int64_t *step,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_inference_end(struct sw_inference *f);

/* The layer, and its rows for each row of a pass. */
const struct sw_layer *sw_inference_layer(const struct sw_inference *f);
int64_t sw_inference_each(const struct sw_inference *f);

/* One pass over names[i] = data[i], host memory; sequences begin, or go on from the last pass.
 * Done when it returns; *out then has the layer's valid rows as floats in plain order, until the
 * next pass. */
int sw_inference_pass(struct sw_inference *f, const char *const *names, void *const *data,
                      int count, int64_t valid, bool sequences_begin, const float **out,
                      struct sw_err *err) SW_MUST_CHECK;
