/* What flatten and reshape have in common: the same values with other dimensions, in row-major
 * order. The output of a plain source is a view of it; any other source is reordered to plain for
 * the output, and the gradient is reordered back. The layer's state is a struct sw_reshaped. */
#pragma once

#include "layers/layer.h"

struct sw_reshaped {
    struct sw_plan *from_source, *to_source; /* owned by the layer; NULL for a view */
};

/* The setup of such a layer. dim: the output's dimensions, with as many elements as the source.
 * Errors: those of the device's reorder. */
int sw_reshaped_setup(struct sw_layer *l, const struct sw_layer_setup *s, int ndim,
                      const int64_t *dim, struct sw_err *err) SW_MUST_CHECK;
/* Callbacks of the layer types. */
int sw_reshaped_forward(struct sw_layer *l, const struct sw_pass *r,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_reshaped_backward(struct sw_layer *l, const struct sw_pass *r,
                         struct sw_err *err) SW_MUST_CHECK;
