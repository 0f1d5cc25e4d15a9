/* Helpers of layers that read tokens: sources of integers, one or a list of them per sample. */
#pragma once

#include "kernels/ops/embedding.h"
#include "layers/layer.h"

/* Checks that source 0 is int32 [N, T] or, unless `lists`, [N]; sets *rows to N and *per_row to the
 * tokens per row. Errors: SW_ERR_INVALID naming the shape. */
static inline int sw_layer_need_tokens(const struct sw_layer *l, bool lists, int64_t *rows,
                                       int64_t *per_row, struct sw_err *err)
{
    const struct sw_desc *d = &l->src[0]->desc;
    char text[128];

    if (d->dtype != SW_I32 || d->ndim > 2 || (lists && d->ndim != 2))
        return sw_err_set(err, SW_ERR_INVALID,
                          "source 1 is %s: it must be whole numbers, %s (an input layer of labels "
                          "or tokens)",
                          sw_desc_text(d, text),
                          lists ? "a list per row" : "one or a list of them per row");

    *rows = d->dim[0];
    *per_row = d->ndim == 2 ? d->dim[1] : 1;
    return SW_OK;
}

/* Returns the layout of a vector per token: [N, width] for one token per row, else [N, T,
 * width]. */
static inline struct sw_desc sw_layer_token_vectors(const struct sw_desc *tokens, int64_t width)
{
    int64_t dim[3] = {tokens->dim[0], tokens->ndim == 2 ? tokens->dim[1] : width, width};
    return sw_desc_plain(SW_F32, tokens->ndim + 1, dim);
}

/* Returns why a layer over sequences cannot be split by columns, or NULL: the columns are steps,
 * which all read the whole table. */
static inline const char *sw_layer_refuse_sequences(const struct sw_desc *tokens)
{
    return tokens->ndim > 1 ? "its columns are the steps of a sequence" : NULL;
}
