/* Losses of a row of values (source 1) against a row of targets of the same size (source 2): the
 * common part of euclidean_loss, sigmoid_cross_entropy and poisson_loss. Sources may have any
 * layout and any number of dimensions; targets may be integers. The layer's state begins with a
 * struct sw_target_loss. */
#pragma once

#include "kernels/ops/row_loss.h"
#include "layers/share/plain.h"

/* Option row of the key that every loss has; `member` of struct `conf` is a double. */
#define SW_LOSS_WEIGHT_OPT(conf, member)                                                           \
    SW_OPT_KEY(REAL, "weight", conf, member, "factor of this loss in the sum of all losses",       \
               .def = "1", .min = 0, .max = 1e6)

/* The conf of types without other keys; a type without any has the weight 1. */
struct sw_target_loss_conf {
    double weight;
};
extern const struct sw_opt sw_target_loss_opts[];

struct sw_target_loss {
    enum sw_loss kind;
    float weight;
    struct sw_plain value, target;
};

/* Callbacks of the layer types. The output is plain and has the shape of source 1. Errors:
 * SW_ERR_INVALID naming both shapes, and those of sw_plain_init. */
int sw_target_loss_setup(struct sw_layer *l, const struct sw_layer_setup *s,
                         struct sw_err *err) SW_MUST_CHECK;
int sw_target_loss_forward(struct sw_layer *l, const struct sw_pass *r,
                           struct sw_err *err) SW_MUST_CHECK;
int sw_target_loss_backward(struct sw_layer *l, const struct sw_pass *r,
                            struct sw_err *err) SW_MUST_CHECK;

/* Members of a descriptor: a loss of this kind. */
#define SW_TARGET_LOSS_TYPE(kind)                                                                  \
    .role = SW_ROLE_LOSS, .variant = kind, SW_LAYER_FEATURES(2, 2, 0),                             \
    .state_bytes = sizeof(struct sw_target_loss),                                                  \
    SW_LAYER_CALLS(sw_target_loss_setup, sw_target_loss_forward, sw_target_loss_backward)

/* For setup: checks that sources a and b have the same number of rows and of values per row.
 * Errors: SW_ERR_INVALID. */
int sw_layer_need_same_rows(const struct sw_layer *l, int a, int b,
                            struct sw_err *err) SW_MUST_CHECK;
