/* What flatten and reshape share: the same values under other dimensions, in row-major order. A
 * plain source is only seen otherwise (a view); any other is made plain on its way to the output,
 * and its gradient takes its layout again. The layer's state is a struct sw_reshaped. */
#pragma once

#include "layers/layer.h"

struct sw_reshaped {
    struct sw_plan *read, *give; /* of the layer; NULL for a view */
};

/* dim: the output's dimensions, of as many elements as the source. Errors: as the device's reorder.
 */
int sw_reshaped_setup(struct sw_layer *l, const struct sw_layer_setup *s, int ndim,
                      const int64_t *dim, struct sw_err *err) SW_MUST_CHECK;
/* The callbacks. */
int sw_reshaped_forward(struct sw_layer *l, const struct sw_pass *r,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_reshaped_backward(struct sw_layer *l, const struct sw_pass *r,
                         struct sw_err *err) SW_MUST_CHECK;
