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

/* member is the layer's struct sw_conv_conf. */
#define SW_CONV_OPTS(conf, member)                                                                 \
    SW_OPT_KEY(INT, "outputs", conf, member.outputs,                                               \
               "number of output channels, of a convolution: of filters", .min = 1,                \
               .max = 1 << 20, .required = true),                                                  \
        SW_WINDOW_OPTS(conf, member.window, "1"), SW_DILATION_OPTS(conf, member.dilation),         \
        SW_OPT_KEY(INT, "groups", conf, member.groups,                                             \
                   "channel groups that do not see one another; divides channels and outputs",     \
                   .def = "1", .min = 1, .max = 1 << 20),                                          \
        SW_OPT_KEY(BOOL, "bias", conf, member.bias, "add one value per output channel",            \
                   .def = "yes")

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
/* Why it cannot be split into so many parts, or NULL. */
const char *sw_conv_refuses_split(const struct sw_conv_conf *c, int parts);
