/* A source as plain rows of floats, whatever its layout and type, for layers that need whole rows,
 * such as losses and metrics; or in another layout that a layer requests. Reorders and conversions
 * run only if needed, in the layer's scratch memory. Part of a layer's state; used by the worker
 * that owns the layer. */
#pragma once

#include "device/op.h"
#include "layers/layer.h"

struct sw_plain {
    int src;
    int64_t rows, columns; /* columns: product of all dimensions but the first */
    struct sw_desc desc;   /* the layout that the layer reads: f32, plain or as requested */
    struct sw_plan
        *from_source; /* reorders from the source's layout; owned by the layer; NULL: not needed */
    struct sw_plan *to_source; /* reorders the gradient to the source's layout; owned by the layer;
                                  NULL: not needed */
    bool convert;              /* the source has integers, which are converted to floats */
    size_t value_at, gradient_at, plan_at; /* offsets in the layer's scratch */
};

/* Call in setup, once per source: creates the reorders and reserves scratch memory. The source is
 * f32 in any layout, or plain i32. Errors: SW_ERR_INVALID for another source; those of the device's
 * reorder. */
int sw_plain_init(struct sw_plain *p, struct sw_layer *l, int src, const struct sw_layer_setup *s,
                  struct sw_err *err) SW_MUST_CHECK;
/* Like sw_plain_init, but reads an f32 source in the layout `desc` instead of the plain one. */
int sw_plain_init_as(struct sw_plain *p, struct sw_layer *l, int src, const struct sw_desc *desc,
                     const struct sw_layer_setup *s, struct sw_err *err) SW_MUST_CHECK;

/* Sets *out to the rows of the source, valid until the end of the pass. For forward, and for
 * backward if backward_reads_src includes this source. */
int sw_plain_values(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                    const float **out, struct sw_err *err) SW_MUST_CHECK;
/* Runs an operation over the rows of the source, which *x, a member of its arguments, is set to. */
int sw_plain_forward(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                     const float **x, const struct sw_op *op, const void *args,
                     struct sw_err *err) SW_MUST_CHECK;
/* Returns where backward writes the gradient of this source as plain rows; NULL: the source needs
 * no gradient. */
float *sw_plain_gradient(const struct sw_plain *p, const struct sw_layer *l);
/* Runs an operation that writes this gradient, and reorders that into l->src_grad if needed. */
int sw_plain_backward(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                      const struct sw_op *op, const void *args, struct sw_err *err) SW_MUST_CHECK;
/* Only reorders it. */
int sw_plain_write(const struct sw_plain *p, const struct sw_layer *l,
                   struct sw_err *err) SW_MUST_CHECK;
