/* Windows over height and width: the keys that convolution and pooling share, and their arithmetic.
 * Defaults outside the range of a key mean "not given". */
#ifndef SW_LAYERS_WINDOW_H
#define SW_LAYERS_WINDOW_H

#include "base/err.h"
#include "recipe/option.h"

struct sw_window_conf {
    int64_t kernel, kernel_x, kernel_y; /* 0: not given */
    int64_t stride, stride_x, stride_y;
    int64_t pad, pad_x, pad_y; /* pad_x, pad_y -1: not given */
};

/* The six _x and _y keys plus the three plain ones; member is the conf's struct sw_window_conf. */
#define SW_WINDOW_OPTS(conf, member, stride_default)                                               \
    SW_WINDOW_OPT(conf, member, kernel, "window size in pixels, both axes", "0", 1),               \
        SW_WINDOW_OPT(conf, member, kernel_x, "window width; default: kernel", "0", 1),            \
        SW_WINDOW_OPT(conf, member, kernel_y, "window height; default: kernel", "0", 1),           \
        SW_WINDOW_OPT(conf, member, stride, "step of the window in pixels, both axes",             \
                      stride_default, 1),                                                          \
        SW_WINDOW_OPT(conf, member, stride_x, "step along the width; default: stride", "0", 1),    \
        SW_WINDOW_OPT(conf, member, stride_y, "step along the height; default: stride", "0", 1),   \
        SW_WINDOW_OPT(conf, member, pad, "zeros added at every border, in pixels", "0", 0),        \
        SW_WINDOW_OPT(conf, member, pad_x, "zeros added left and right; default: pad", "-1", 0),   \
        SW_WINDOW_OPT(conf, member, pad_y, "zeros added above and below; default: pad", "-1", 0)

#define SW_WINDOW_OPT(conf, member, key_, help_, def_, min_)                                       \
    {                                                                                              \
        .key = #key_, .help = help_, .type = SW_OPT_INT, .offset = offsetof(conf, member.key_),    \
        .def = def_, .min = min_, .max = 1 << 16                                                   \
    }

/* Resolved: everything given, h for the height (y), w for the width (x). */
struct sw_window {
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

/* The pixels that a window spans along one axis when its taps are `dilation` apart. */
static inline int64_t sw_window_extent(int64_t kernel, int64_t dilation)
{
    return dilation * (kernel - 1) + 1;
}

/* Errors: SW_ERR_INVALID when the kernel is not given or a pad is not smaller than its extent. */
static inline int sw_window_resolve(const struct sw_window_conf *c, int64_t dilation,
                                    struct sw_window *w, struct sw_err *err)
{
    *w = (struct sw_window){
        .kernel_h = c->kernel_y ? c->kernel_y : c->kernel,
        .kernel_w = c->kernel_x ? c->kernel_x : c->kernel,
        .stride_h = c->stride_y ? c->stride_y : c->stride,
        .stride_w = c->stride_x ? c->stride_x : c->stride,
        .pad_h = c->pad_y >= 0 ? c->pad_y : c->pad,
        .pad_w = c->pad_x >= 0 ? c->pad_x : c->pad,
    };
    if (!w->kernel_h || !w->kernel_w)
        return sw_err_set(err, SW_ERR_INVALID,
                          "kernel is missing: give kernel, or kernel_x and kernel_y");
    int64_t extent_h = sw_window_extent(w->kernel_h, dilation);
    int64_t extent_w = sw_window_extent(w->kernel_w, dilation);
    if (w->pad_h >= extent_h || w->pad_w >= extent_w)
        return sw_err_set(err, SW_ERR_INVALID,
                          "pad %lld x %lld must be smaller than the kernel %lld x %lld, or a "
                          "window would see only zeros",
                          (long long)w->pad_h, (long long)w->pad_w, (long long)extent_h,
                          (long long)extent_w);
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

#endif
