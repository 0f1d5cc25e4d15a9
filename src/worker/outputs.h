/* Files of output layers, which an evaluation writes. Call sw_outputs_plan after the evaluation
 * nets are built and sw_outputs_allocate before workers run. In an evaluation every worker calls:
 * begin; per batch collect after each layer's forward pass, and hand_over when the batch is
 * computed; end, with the result of the evaluation. */
#pragma once

#include "layers/layer.h"

struct sw_worker;

/* An output layer of the evaluation net. */
struct sw_output {
    int layer;                         /* index in every evaluation net */
    size_t at[2][SW_LAYER_SRCS];       /* bytes: offsets of the two buffers that gather rows */
    size_t (*stage_at)[SW_LAYER_SRCS]; /* owned [groups][microbatches]: offsets of the staging
                                          buffers */
};

/* Reads the rows of the sources of a layer, as an output layer does; src is as there. */
struct sw_row_reader {
    int layer; /* index in the evaluation nets */
    int (*rows)(void *user, const void *const *src, int64_t count, struct sw_err *err);
    void *user;
};

struct sw_outputs {
    const struct sw_row_reader *reader; /* borrowed, set before sw_outputs_plan; NULL: none */
    struct sw_output *items;            /* owned */
    int count;
    struct sw_device *host; /* borrowed: of memory */
    void *memory;           /* owned; its parts are written by their workers */
    size_t bytes;
};

int sw_outputs_plan(struct sw_outputs *out, const struct sw_worker *workers,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_allocate(struct sw_outputs *out, struct sw_device *host,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_outputs_fini(struct sw_outputs *out);
int sw_outputs_begin(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_collect(struct sw_worker *w, int layer, int64_t batch,
                       struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_hand_over(struct sw_worker *w, int64_t batch, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_end(struct sw_worker *w, int rc, struct sw_err *err) SW_MUST_CHECK;
