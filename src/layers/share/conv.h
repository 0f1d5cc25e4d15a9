/* What convolution and deconvolution share: their keys, and what of a plan's shape follows from
 * these alone. */
#pragma once

#include "layers/layer.h"
#include "layers/window.h"

struct sw_conv_conf {
    int64_t outputs, groups;
    struct sw_window_conf window;
    struct sw_dilation_conf dilation;
    bool bias;
};

/* Of a conf that begins with a struct sw_conv_conf, which is what `conf` names. */
#define SW_CONV_OPTS(conf)                                                                         \
    SW_OPT(INT, conf, outputs, "number of output channels, of a convolution: of filters",          \
           .min = 1, .max = 1 << 20, .required = true),                                            \
        SW_WINDOW_OPTS(conf, window, "1"), SW_DILATION_OPTS(conf, dilation),                       \
        SW_OPT(INT, conf, groups,                                                                  \
               "channel groups that do not see one another; divides channels and outputs",         \
               .def = "1", .min = 1, .max = 1 << 20),                                              \
        SW_OPT(BOOL, conf, bias, "add one value per output channel", .def = "yes")

/* What of the layer this worker has: some of the outputs, or whole groups, where there are some. */
struct sw_conv_part {
    int64_t first, outputs, groups; /* outputs [first, first + outputs), in so many groups */
};

/* Fills all of *s but the size of the output, *w, and *p, for source 0. Errors: SW_ERR_INVALID when
 * groups do not divide the channels, and those of sw_window_resolve. */
int sw_conv_resolve(const struct sw_layer *l, const struct sw_conv_conf *c,
                    const struct sw_layer_setup *setup, struct sw_window *w,
                    struct sw_conv_shape *s, struct sw_conv_part *p,
                    struct sw_err *err) SW_MUST_CHECK;
/* The callbacks. */
const char *sw_conv_refuses_split(const void *conf, int parts);
int64_t sw_conv_columns(const void *conf, const int64_t *src, int count, int64_t *begin);
int64_t sw_conv_groups(const void *conf);

/* Of the descriptor's params: also those of other layers with a weight and a bias. */
extern const char *const sw_conv_params[];

/* What the descriptors have in common. */
#define SW_CONV_TYPE                                                                               \
    .role = SW_ROLE_NEURON, .split = SW_SPLIT_OUTPUTS, .refuses_split = sw_conv_refuses_split,     \
    .groups = sw_conv_groups, .columns = sw_conv_columns, SW_LAYER_SOURCES(1, 1),                  \
    .state_bytes = sizeof(struct sw_plan_state), .skips_frozen = true
