/* A source as plain rows of floats, whatever its layout and type: for layers that look at a row as
 * a whole, such as losses and metrics; or in any other layout that a layer wants to see. Reorders
 * and conversions happen only where they are needed, in the layer's scratch. Part of a layer's
 * state; one owner: the worker of the stream. */
#pragma once

#include "layers/layer.h"

struct sw_plain {
    int src;
    int64_t rows, columns;                 /* columns: all dimensions but the first */
    struct sw_desc desc;                   /* what the layer sees: f32, plain or as asked for */
    struct sw_plan *read;                  /* of the layer; from the source's layout, or NULL */
    struct sw_plan *give;                  /* of the layer; to it, for the gradient, or NULL */
    bool convert;                          /* the source holds whole numbers */
    size_t value_at, gradient_at, plan_at; /* in the layer's scratch */
};

/* For setup, once per source: makes what is needed and adds to l->scratch_bytes. The source is f32
 * in any layout, or plain i32. Errors: as the device's reorder. */
int sw_plain_init(struct sw_plain *p, struct sw_layer *l, int src, const struct sw_layer_setup *s,
                  struct sw_err *err) SW_MUST_CHECK;
/* The same with a layout of the layer's choice in place of the plain one; the source is f32. */
int sw_plain_init_as(struct sw_plain *p, struct sw_layer *l, int src, const struct sw_desc *desc,
                     const struct sw_layer_setup *s, struct sw_err *err) SW_MUST_CHECK;

/* *out: the source's rows, until the pass is over. Forward, or backward where the layer said that
 * it reads this source then. */
int sw_plain_values(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                    const float **out, struct sw_err *err) SW_MUST_CHECK;
/* Where backward writes the gradient by this source as plain rows; NULL: it is not wanted. */
float *sw_plain_gradient(const struct sw_plain *p, const struct sw_layer *l);
/* Brings what was written there to l->src_grad. */
int sw_plain_give(const struct sw_plain *p, const struct sw_layer *l,
                  struct sw_err *err) SW_MUST_CHECK;
