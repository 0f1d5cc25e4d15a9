/* Windows over height and width: the keys that convolution, deconvolution and pooling have in
 * common, and the arithmetic of window sizes. Plain values, any thread. Defaults outside the range
 * of a key mean "not given". */
#pragma once

#include "base/err.h"
#include "recipe/option.h"

struct sw_window_conf {
    int64_t kernel, kernel_x, kernel_y; /* 0: not given */
    int64_t stride, stride_x, stride_y;
    int64_t pad, pad_x, pad_y; /* pad_x, pad_y -1: not given */
};
struct sw_dilation_conf {
    int64_t dilation, dilation_x, dilation_y; /* dilation_x, dilation_y 0: not given */
};

/* Option rows of kernel, stride and pad, each plain and with _x and _y; member is the conf's struct
 * sw_window_conf. */
#define SW_WINDOW_OPTS(conf, member, stride_default)                                               \
    SW_WINDOW_OPT(conf, member, kernel, "window size in pixels, both axes", "0", 1),               \
        SW_WINDOW_OPT(conf, member, kernel_x, "window width; default: kernel", "0", 1),            \
        SW_WINDOW_OPT(conf, member, kernel_y, "window height; default: kernel", "0", 1),           \
        SW_WINDOW_OPT(conf, member, stride, "step of the window in pixels, both axes",             \
                      stride_default, 1),                                                          \
        SW_WINDOW_OPT(conf, member, stride_x, "step along the width; default: stride", "0", 1),    \
        SW_WINDOW_OPT(conf, member, stride_y, "step along the height; default: stride", "0", 1),   \
        SW_WINDOW_OPT(conf, member, pad, "padding at every border, in pixels", "0", 0),            \
        SW_WINDOW_OPT(conf, member, pad_x, "padding left and right; default: pad", "-1", 0),       \
        SW_WINDOW_OPT(conf, member, pad_y, "padding above and below; default: pad", "-1", 0)

/* Option rows of the three dilation keys; member is the conf's struct sw_dilation_conf. */
#define SW_DILATION_OPTS(conf, member)                                                             \
    SW_WINDOW_OPT(conf, member, dilation, "distance between adjacent filter taps, in pixels", "1", \
                  1),                                                                              \
        SW_WINDOW_OPT(conf, member, dilation_x, "along the width; default: dilation", "0", 1),     \
        SW_WINDOW_OPT(conf, member, dilation_y, "along the height; default: dilation", "0", 1)

#define SW_WINDOW_OPT(conf, member, key, help_, def_, min_)                                        \
    SW_OPT_KEY(INT, #key, conf, member.key, help_, .def = def_, .min = min_, .max = 1 << 16)

/* Resolved values of all keys: h for the height (y), w for the width (x). extent is the number of
 * pixels that a window spans, which is the size of the dilated kernel. */
struct sw_window {
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int64_t extent_h, extent_w;
};

/* Resolves the keys of a window; d NULL: no dilation. Errors: SW_ERR_INVALID if the kernel is not
 * given or a pad is not smaller than its extent. */
static inline int sw_window_resolve(const struct sw_window_conf *c,
                                    const struct sw_dilation_conf *d, struct sw_window *w,
                                    struct sw_err *err)
{
    *w = (struct sw_window){
        .kernel_h = c->kernel_y ? c->kernel_y : c->kernel,
        .kernel_w = c->kernel_x ? c->kernel_x : c->kernel,
        .stride_h = c->stride_y ? c->stride_y : c->stride,
        .stride_w = c->stride_x ? c->stride_x : c->stride,
        .pad_h = c->pad_y >= 0 ? c->pad_y : c->pad,
        .pad_w = c->pad_x >= 0 ? c->pad_x : c->pad,
        .dilation_h = !d              ? 1
                      : d->dilation_y ? d->dilation_y
                                      : d->dilation,
        .dilation_w = !d              ? 1
                      : d->dilation_x ? d->dilation_x
                                      : d->dilation,
    };
    if (!w->kernel_h || !w->kernel_w)
        return sw_err_set(err, SW_ERR_INVALID,
                          "kernel is missing: set kernel, or kernel_x and kernel_y");

    w->extent_h = w->dilation_h * (w->kernel_h - 1) + 1;
    w->extent_w = w->dilation_w * (w->kernel_w - 1) + 1;
    if (w->pad_h >= w->extent_h || w->pad_w >= w->extent_w)
        return sw_err_set(err, SW_ERR_INVALID,
                          "pad %lld x %lld must be smaller than the kernel %lld x %lld: "
                          "otherwise a window would contain only zeros",
                          (long long)w->pad_h, (long long)w->pad_w, (long long)w->extent_h,
                          (long long)w->extent_w);

    return SW_OK;
}

/* Number of windows over `size` pixels: floor((size + 2 pad - extent) / stride) + 1, where extent
 * is the dilated kernel. With ceil rounding as Caffe: the last window must still start inside the
 * image or its left padding. 0 or less: the kernel does not fit. */
static inline int64_t sw_window_count(int64_t size, int64_t extent, int64_t stride, int64_t pad,
                                      bool ceil)
{
    int64_t room = size + 2 * pad - extent;
    if (room < 0)
        return ceil && room > -stride && size + pad > 0 ? 1 : 0;

    int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (count - 1) * stride >= size + pad)
        count--;

    return count;
}
