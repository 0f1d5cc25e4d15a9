/* What convolution and deconvolution have in common: their keys, and the members of a plan's shape
 * that follow from the keys alone. */
#pragma once

#include "layers/layer.h"
#include "layers/window.h"

struct sw_conv_conf {
    int64_t outputs, groups;
    struct sw_window_conf window;
    struct sw_dilation_conf dilation;
    bool bias;
};

/* Option rows for a conf that begins with a struct sw_conv_conf; `conf` is struct sw_conv_conf. */
#define SW_CONV_OPTS(conf)                                                                         \
    SW_OPT(INT, conf, outputs, "number of output channels (filters of a convolution)", .min = 1,   \
           .max = 1 << 20, .required = true),                                                      \
        SW_WINDOW_OPTS(conf, window, "1"), SW_DILATION_OPTS(conf, dilation),                       \
        SW_OPT(INT, conf, groups,                                                                  \
               "independent groups of channels; must divide channels and outputs", .def = "1",     \
               .min = 1, .max = 1 << 20),                                                          \
        SW_OPT(BOOL, conf, bias, "add one value per output channel", .def = "yes")

/* The shard of the layer that this worker computes: some of the outputs, or whole groups if the
 * convolution is grouped. */
struct sw_conv_part {
    int64_t first, outputs, groups; /* outputs [first, first + outputs), in `groups` groups */
};

/* Fills *w, *p, and *s except for the size of the output, for source 0. Errors: SW_ERR_INVALID if
 * groups do not divide the channels, and those of sw_window_resolve. */
int sw_conv_resolve(const struct sw_layer *l, const struct sw_conv_conf *c,
                    const struct sw_layer_setup *setup, struct sw_window *w,
                    struct sw_conv_shape *s, struct sw_conv_part *p,
                    struct sw_err *err) SW_MUST_CHECK;
/* Callbacks of the layer types. */
const char *sw_conv_refuses_split(const void *conf, int parts);
int64_t sw_conv_columns(const void *conf, const int64_t *src, int count, int64_t *begin);
int64_t sw_conv_groups(const void *conf);

/* Parameter names for the descriptor: weight and bias. */
extern const char *const sw_conv_params[];

/* Members that both descriptors have in common. */
#define SW_CONV_TYPE                                                                               \
    .split = SW_SPLIT_OUTPUTS, .refuses_split = sw_conv_refuses_split, .groups = sw_conv_groups,   \
    .columns = sw_conv_columns, SW_LAYER_FEATURES(1, 1, 4),                                        \
    .state_bytes = sizeof(struct sw_plan_state), .skips_frozen = true
