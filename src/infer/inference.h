/* Forward passes of a trained net, or of the part that leads to one layer: on one worker, in
 * evaluation mode, with weights read from a file; no training net, parameter table or threads. Used
 * by `predict` and `sample`.
 *
 * One owner: the job's main thread. */
#pragma once

#include "data/scaling.h"
#include "net/net.h"
#include "recipe/recipe.h"

struct sw_worker;

/* Zero-initialise; free with sw_inference_end in every case. */
struct sw_inference {
    struct sw_worker *w;        /* borrowed: owns net, stream and arena */
    const char *layer;          /* borrowed from the recipe */
    int64_t rows;               /* of a pass */
    struct sw_tensor **tensors; /* owned with its elements: parameters, then buffers */
    int tensor_count;
    void *recurrent; /* owned device memory: recurrent state */
    size_t recurrent_bytes;
    float *plain;            /* owned: the layer's output of one pass */
    struct sw_scaling units; /* owned: of the layer's output, which is given in the units of the
                                data; count 0: it has no units, or they are not standardized */
};

struct sw_inference_args {
    const char *layer, *weights; /* weights: a safetensors file */
    int64_t rows;
    const struct sw_net_field *fields; /* with `rows` rows */
    int field_count;
    const char *source; /* of the fields, for messages */
    bool keep_state; /* recurrent layers keep their state from pass to pass, whatever their stateful
                   key says */
    int64_t steps;   /* overrides the time steps of every unrolled layer; 0: use its key */
};

/* Chooses the layer: `name`, or if NULL the source of the last loss, else the last layer. Errors:
 * SW_ERR_INVALID. */
int sw_inference_choose(const struct sw_recipe *recipe, const char *name, const char **layer,
                        struct sw_err *err) SW_MUST_CHECK;
/* Does the value of the layer depend on the field? Shared parameters do not count, and a layer that
 * reads a loss uses only the loss' parameters (class_softmax). */
bool sw_inference_depends_on(const struct sw_recipe *recipe, const char *layer, const char *field);

/* w: the first worker of a job opened with `predict`. *step gets the step of the checkpoint, 0:
 * unknown. Errors: SW_ERR_INVALID from the recipe (see its diagnostics) or for a layer without
 * rows, SW_ERR_NOTFOUND, SW_ERR_FORMAT, SW_ERR_NOMEM. */
int sw_inference_begin(struct sw_inference *f, struct sw_worker *w, struct sw_recipe *recipe,
                       const struct sw_inference_args *args, int64_t *step,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_inference_end(struct sw_inference *f);

/* The layer, and its output rows per input row. */
const struct sw_layer *sw_inference_layer(const struct sw_inference *f);
int64_t sw_inference_each(const struct sw_inference *f);

struct sw_inference_input {
    const char *const *names; /* of the fields */
    void *const *data;        /* of the fields, in host memory */
    int count;
    int64_t valid;        /* rows */
    bool sequences_begin; /* resets the recurrent state */
    uint64_t pass;        /* a number: layers that sample draw others in a pass with another one */
};
/* Runs one pass. Synchronous. *out gets the layer's valid rows as floats in plain
 * order, valid until the next pass. */
int sw_inference_pass(struct sw_inference *f, const struct sw_inference_input *input,
                      const float **out, struct sw_err *err) SW_MUST_CHECK;
