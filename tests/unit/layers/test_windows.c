/* Layers with windows over images, and lrn, against their formulas. */
#include "formula_support.h"

/* ---- convolution ---- */

/* A window along the two axes: 0 height, 1 width. */
struct window {
    int64_t in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];
    int64_t rows, channels, outputs, groups;
    bool bias, max;
    enum { PADDED, INSIDE, KERNEL, DIVISORS } divide_by;
};

/* Index of a pixel of an image of the given channels, or -1 in the padding. */
static int64_t pixel_at(const struct window *w, int64_t n, int64_t c, int64_t y, int64_t x)
{
    if (y < 0 || y >= w->in[0] || x < 0 || x >= w->in[1])
        return -1;
    return ((n * w->channels + c) * w->in[0] + y) * w->in[1] + x;
}

static void convolve_one(const struct window *w, const struct values *v, struct exact *e, int64_t n,
                         int64_t m, int64_t oy, int64_t ox)
{
    int64_t o = ((n * w->outputs + m) * w->out[0] + oy) * w->out[1] + ox;
    int64_t channels = w->channels / w->groups, first = m / (w->outputs / w->groups) * channels;
    double dy = (double)v->dst_grad[o];
    if (w->bias) {
        e->dst[o] += (double)v->param[1][m];
        e->bias_grad[m] += dy;
    }
    for (int64_t t = 0; t < channels * w->kernel[0] * w->kernel[1]; t++) {
        int64_t j = t % w->kernel[1], i = t / w->kernel[1] % w->kernel[0];
        int64_t c = t / w->kernel[1] / w->kernel[0];
        int64_t p = pixel_at(w, n, first + c, oy * w->stride[0] - w->pad[0] + i * w->dilation[0],
                             ox * w->stride[1] - w->pad[1] + j * w->dilation[1]);
        int64_t k = m * channels * w->kernel[0] * w->kernel[1] + t;
        if (p < 0)
            continue;
        e->dst[o] += (double)v->src[0][p] * (double)v->param[0][k];
        e->src_grad[p] += dy * (double)v->param[0][k];
        e->weight_grad[k] += dy * (double)v->src[0][p];
    }
}

static void convolve(const void *shape, const struct values *v, struct exact *e)
{
    const struct window *w = shape;
    for (int64_t n = 0; n < w->rows; n++)
        for (int64_t m = 0; m < w->outputs; m++)
            for (int64_t oy = 0; oy < w->out[0]; oy++)
                for (int64_t ox = 0; ox < w->out[1]; ox++)
                    convolve_one(w, v, e, n, m, oy, ox);
}

static bool conv_fits(struct window *w)
{
    for (int a = 0; a < 2; a++) {
        int64_t extent = w->dilation[a] * (w->kernel[a] - 1) + 1;
        w->out[a] = (w->in[a] + 2 * w->pad[a] - extent) / w->stride[a] + 1;
        if (w->in[a] + 2 * w->pad[a] < extent || w->pad[a] >= extent)
            return false;
    }
    return true;
}

static struct window random_conv(struct rng *r)
{
    struct window w;
    do {
        w = (struct window){.rows = rng_int(r, 1, 3),
                            .groups = rng_int(r, 1, 3),
                            .dilation = {rng_int(r, 1, 3), rng_int(r, 1, 3)},
                            .bias = rng_word(r) & 1};
        w.channels = w.groups * rng_int(r, 1, 9);
        w.outputs = w.groups * rng_int(r, 1, 9);
        for (int a = 0; a < 2; a++) {
            w.in[a] = rng_int(r, 3, 11);
            w.kernel[a] = rng_int(r, 1, 4);
            w.stride[a] = rng_int(r, 1, 3);
            w.pad[a] = rng_int(r, 0, 4);
        }
    } while (!conv_fits(&w));
    return w;
}

static struct sw_layer_example example_of(const char *recipe, const struct window *w)
{
    return (struct sw_layer_example){.recipe = recipe,
                                     .src = {{4, {w->rows, w->channels, w->in[0], w->in[1]}, 0}}};
}

static int window_text(char *text, size_t bytes, const struct window *w)
{
    return snprintf(text, bytes,
                    "kernel_y = %d\nkernel_x = %d\nstride_y = %d\nstride_x = %d\npad_y = %d\n"
                    "pad_x = %d\n",
                    (int)w->kernel[0], (int)w->kernel[1], (int)w->stride[0], (int)w->stride[1],
                    (int)w->pad[0], (int)w->pad[1]);
}

static void convolution_matches_its_formula(void **state)
{
    struct rng r = rng_of(5);
    for (int i = 0; i < 25; i++) {
        struct window w = random_conv(&r);
        char text[512];
        int n = window_text(text, sizeof text, &w);
        snprintf(text + n, sizeof text - (size_t)n,
                 "outputs = %d\ngroups = %d\ndilation_y = %d\ndilation_x = %d\nbias = %s\n",
                 (int)w.outputs, (int)w.groups, (int)w.dilation[0], (int)w.dilation[1],
                 w.bias ? "yes" : "no");
        struct sw_layer_example ex = example_of(text, &w);
        check("convolution", &ex, convolve, &w, false);
    }
}

/* ---- deconvolution ---- */

/* Spreads pixel (y, x) of a source over the window at its position times stride minus the padding.
 * `in` and `channels` are those of the source, `out` and `outputs` those of the larger image. */
static void spread_one(const struct window *w, const struct values *v, struct exact *e, int64_t n,
                       int64_t c, int64_t y, int64_t x)
{
    int64_t p = ((n * w->channels + c) * w->in[0] + y) * w->in[1] + x;
    int64_t outputs = w->outputs / w->groups, first = c / (w->channels / w->groups) * outputs;
    for (int64_t t = 0; t < outputs * w->kernel[0] * w->kernel[1]; t++) {
        int64_t j = t % w->kernel[1], i = t / w->kernel[1] % w->kernel[0];
        int64_t m = first + t / w->kernel[1] / w->kernel[0];
        int64_t oy = y * w->stride[0] - w->pad[0] + i * w->dilation[0];
        int64_t ox = x * w->stride[1] - w->pad[1] + j * w->dilation[1];
        if (oy < 0 || oy >= w->out[0] || ox < 0 || ox >= w->out[1])
            continue;
        int64_t o = ((n * w->outputs + m) * w->out[0] + oy) * w->out[1] + ox;
        int64_t k = c * outputs * w->kernel[0] * w->kernel[1] + t;
        e->dst[o] += (double)v->src[0][p] * (double)v->param[0][k];
        e->src_grad[p] += (double)v->dst_grad[o] * (double)v->param[0][k];
        e->weight_grad[k] += (double)v->dst_grad[o] * (double)v->src[0][p];
    }
}

static void spread(const void *shape, const struct values *v, struct exact *e)
{
    const struct window *w = shape;
    for (int64_t n = 0; n < w->rows; n++)
        for (int64_t c = 0; c < w->channels; c++)
            for (int64_t y = 0; y < w->in[0]; y++)
                for (int64_t x = 0; x < w->in[1]; x++)
                    spread_one(w, v, e, n, c, y, x);
    for (int64_t o = 0; w->bias && o < v->dst_n; o++) {
        int64_t m = o / w->out[1] / w->out[0] % w->outputs;
        e->dst[o] += (double)v->param[1][m];
        e->bias_grad[m] += (double)v->dst_grad[o];
    }
}

static void deconvolution_matches_its_formula(void **state)
{
    struct rng r = rng_of(15);
    for (int i = 0; i < 25; i++) {
        struct window w = random_conv(&r);
        int64_t more[2];
        char text[512];
        int n = window_text(text, sizeof text, &w);
        for (int a = 0; a < 2; a++) {
            more[a] = rng_int(&r, 0, w.stride[a] - 1);
            w.in[a] = rng_int(&r, 3, 6);
            w.out[a] = w.stride[a] * (w.in[a] - 1) + w.dilation[a] * (w.kernel[a] - 1) + 1 -
                       2 * w.pad[a] + more[a];
        }
        if (w.out[0] < 1 || w.out[1] < 1)
            continue;
        snprintf(text + n, sizeof text - (size_t)n,
                 "outputs = %d\ngroups = %d\ndilation_y = %d\ndilation_x = %d\nbias = %s\n"
                 "output_pad_y = %d\noutput_pad_x = %d\n",
                 (int)w.outputs, (int)w.groups, (int)w.dilation[0], (int)w.dilation[1],
                 w.bias ? "yes" : "no", (int)more[0], (int)more[1]);
        struct sw_layer_example ex = example_of(text, &w);
        check("deconvolution", &ex, spread, &w, false);
    }
}

/* ---- pooling ---- */

static const char *const divisors[] = {"padded", "inside", "kernel"};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the divisor of an average over the window that begins at y0, x0. */
static double divisor_of(const struct window *w, int64_t y0, int64_t x0)
{
    const int64_t start[] = {y0, x0};
    double area = 1;
    for (int a = 0; a < 2; a++) {
        int64_t from = w->divide_by == INSIDE && start[a] < 0 ? 0 : start[a];
        int64_t end = w->divide_by == INSIDE   ? w->in[a]
                      : w->divide_by == PADDED ? w->in[a] + w->pad[a]
                                               : start[a] + w->kernel[a];
        area *= (double)(least(start[a] + w->kernel[a], end) - from);
    }
    return area;
}

/* Computes the first of equal maxima, or the sum divided by the divisor. */
static void pool_one(const struct window *w, const struct values *v, struct exact *e, int64_t o)
{
    int64_t ox = o % w->out[1], oy = o / w->out[1] % w->out[0], plane = o / w->out[1] / w->out[0];
    int64_t n = plane / w->channels, c = plane % w->channels;
    int64_t y0 = oy * w->stride[0] - w->pad[0], x0 = ox * w->stride[1] - w->pad[1];
    int64_t y1 =
        y0 + w->kernel[0] < w->in[0] + w->pad[0] ? y0 + w->kernel[0] : w->in[0] + w->pad[0];
    int64_t x1 =
        x0 + w->kernel[1] < w->in[1] + w->pad[1] ? x0 + w->kernel[1] : w->in[1] + w->pad[1];
    double dy = (double)v->dst_grad[o], area = divisor_of(w, y0, x0);
    int64_t best = -1;
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) {
            int64_t p = pixel_at(w, n, c, y, x);
            if (p >= 0 && (best < 0 || v->src[0][p] > v->src[0][best]))
                best = p;
            if (p >= 0 && !w->max) {
                e->dst[o] += (double)v->src[0][p] / area;
                e->src_grad[p] += dy / area;
            }
        }
    if (w->max) {
        e->dst[o] = (double)v->src[0][best];
        e->src_grad[best] += dy;
    }
}

static void pool(const void *shape, const struct values *v, struct exact *e)
{
    const struct window *w = shape;
    for (int64_t o = 0; o < w->rows * w->channels * w->out[0] * w->out[1]; o++)
        pool_one(w, v, e, o);
}

/* When rounding up, the additional window must start inside the image or the padding before it. */
static bool pool_fits(struct window *w, bool ceil)
{
    for (int a = 0; a < 2; a++) {
        int64_t room = w->in[a] + 2 * w->pad[a] - w->kernel[a];
        if (room < 0 || w->pad[a] >= w->kernel[a])
            return false;
        w->out[a] = room / w->stride[a] + 1;
        if (ceil && room % w->stride[a] && w->out[a] * w->stride[a] < w->in[a] + w->pad[a])
            w->out[a]++;
    }
    return true;
}

static void pooling_matches_its_formula(void **state)
{
    struct rng r = rng_of(6);
    for (int i = 0; i < 72; i++) {
        struct window w;
        bool ceil = i / 2 % 2 == 0;
        char text[512];
        do {
            w = (struct window){.rows = 2, .channels = rng_int(&r, 1, 20), .max = i % 2};
            for (int a = 0; a < 2; a++) {
                w.in[a] = rng_int(&r, 2, 9);
                w.kernel[a] = rng_int(&r, 1, 5);
                w.stride[a] = rng_int(&r, 1, 4);
                w.pad[a] = i / 4 % 3 ? rng_int(&r, 0, 4) : 0;
            }
        } while (!pool_fits(&w, ceil));
        w.divide_by = w.max ? PADDED : i / 12 % DIVISORS;
        int n = window_text(text, sizeof text, &w);
        snprintf(text + n, sizeof text - (size_t)n, "method = %s\nround = %s\ndivide_by = %s\n",
                 w.max ? "max" : "avg", ceil ? "ceil" : "floor", divisors[w.divide_by]);
        struct sw_layer_example ex = example_of(text, &w);
        check("pooling", &ex, pool, &w, i % 4 == 1);
    }
}

static void global_pooling_uses_the_whole_image(void **state)
{
    for (int max = 0; max < 2; max++) {
        struct window w = {.rows = 3, .channels = 5, .in = {4, 7}, .max = max};
        w.kernel[0] = 4, w.kernel[1] = 7;
        w.stride[0] = w.stride[1] = w.out[0] = w.out[1] = 1;
        struct sw_layer_example ex =
            example_of(max ? "global = yes\nmethod = max\n" : "global = yes\nmethod = avg\n", &w);
        check("pooling", &ex, pool, &w, false);
    }
}

/* ---- lrn ---- */

struct lrn {
    int64_t rows, channels, pixels, size;
    double alpha, beta, k;
};

/* With s_i = k + alpha/size sum x_j^2: y_i = x_i s_i^-beta, and x_j is in the sums of adjacent
 * channels: dx_j = dy_j s_j^-beta - 2 alpha beta / size x_j sum_i dy_i x_i s_i^(-beta-1). */
static void normalize(const void *shape, const struct values *v, struct exact *e)
{
    const struct lrn *l = shape;
    int64_t half = l->size / 2;
    for (int64_t o = 0; o < l->rows * l->channels * l->pixels; o++) {
        int64_t c = o / l->pixels % l->channels;
        int64_t from = c < half ? -c : -half,
                to = c + half < l->channels ? half : l->channels - 1 - c;
        double s = l->k, x = (double)v->src[0][o], dy = (double)v->dst_grad[o];
        for (int64_t d = from; d <= to; d++)
            s += l->alpha / (double)l->size * (double)v->src[0][o + d * l->pixels] *
                 (double)v->src[0][o + d * l->pixels];
        e->dst[o] = x * pow(s, -l->beta);
        e->src_grad[o] += dy * pow(s, -l->beta);
        for (int64_t d = from; d <= to; d++)
            e->src_grad[o + d * l->pixels] -= 2 * l->alpha * l->beta / (double)l->size *
                                              (double)v->src[0][o + d * l->pixels] * dy * x *
                                              pow(s, -l->beta - 1);
    }
}

static void lrn_across_channels_matches_its_formula(void **state)
{
    const struct lrn shapes[] = {
        {2, 7, 12, 5, 0.5, 0.75, 1}, {2, 32, 9, 5, 1e-4, 0.75, 2}, {1, 20, 4, 9, 2, 0.5, 1},
        {3, 3, 6, 7, 1, 1.25, 1},    {2, 16, 6, 1, 1, 0.75, 1},    {2, 5, 1, 3, 1, 2, 3},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct lrn *l = &shapes[i];
        char text[256];
        snprintf(text, sizeof text, "size = %d\nalpha = %g\nbeta = %g\nk = %g\n", (int)l->size,
                 l->alpha, l->beta, l->k);
        struct sw_layer_example ex = {.recipe = text,
                                      .src = {{4, {l->rows, l->channels, 1, l->pixels}, 0}}};
        check("lrn", &ex, normalize, l, false);
    }
}

/* The same within a channel: the window is size x size pixels, n = size^2. */
struct within {
    int64_t rows, channels, height, width, size;
    double alpha, beta, k;
};

static void normalize_one(const struct within *l, const struct values *v, struct exact *e,
                          int64_t o)
{
    int64_t half = l->size / 2, x0 = o % l->width, y0 = o / l->width % l->height;
    int64_t plane = o / l->width / l->height * l->width * l->height;
    double n = (double)(l->size * l->size), s = l->k;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t y = y0 - half; y <= y0 + half; y++)
            for (int64_t x = x0 - half; x <= x0 + half; x++) {
                if (y < 0 || y >= l->height || x < 0 || x >= l->width)
                    continue;
                int64_t j = plane + y * l->width + x;
                double near_x = (double)v->src[0][j];
                if (pass == 0)
                    s += l->alpha / n * near_x * near_x;
                else
                    e->src_grad[j] -= 2 * l->alpha * l->beta / n * near_x * (double)v->dst_grad[o] *
                                      (double)v->src[0][o] * pow(s, -l->beta - 1);
            }
    }
    e->dst[o] = (double)v->src[0][o] * pow(s, -l->beta);
    e->src_grad[o] += (double)v->dst_grad[o] * pow(s, -l->beta);
}

static void normalize_within(const void *shape, const struct values *v, struct exact *e)
{
    const struct within *l = shape;
    for (int64_t o = 0; o < l->rows * l->channels * l->height * l->width; o++)
        normalize_one(l, v, e, o);
}

static void lrn_within_channels_matches_its_formula(void **state)
{
    const struct within shapes[] = {
        {2, 5, 7, 6, 3, 5e-5, 0.75, 1}, {2, 17, 4, 5, 5, 2, 0.75, 1},  {1, 3, 2, 3, 9, 4, 0.5, 2},
        {2, 16, 3, 40, 7, 3, 1.25, 1},  {1, 2, 5, 300, 3, 1, 0.75, 1}, {2, 8, 1, 1, 3, 1, 2, 3},
        {1, 33, 6, 2, 1, 1, 0.75, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct within *l = &shapes[i];
        char text[256];
        snprintf(text, sizeof text,
                 "region = within_channel\nsize = %d\nalpha = %g\nbeta = %g\nk = %g\n",
                 (int)l->size, l->alpha, l->beta, l->k);
        struct sw_layer_example ex = {.recipe = text,
                                      .src = {{4, {l->rows, l->channels, l->height, l->width}, 0}}};
        check("lrn", &ex, normalize_within, l, false);
    }
}

/* ---- Invalid shapes ---- */

static void invalid_shapes_are_refused(void **state)
{
    assert_refused("convolution", "outputs = 4\n", "kernel is missing");
    assert_refused("convolution", "outputs = 4\nkernel_x = 3\n", "kernel is missing");
    assert_refused("convolution", "outputs = 4\nkernel = 6\n",
                   "the kernel 6 x 6 does not fit its source of 5 x 4 pixels");
    assert_refused("convolution", "outputs = 4\nkernel = 3\ndilation = 3\n", "7 x 7 does not fit");
    assert_refused("convolution", "outputs = 4\nkernel = 3\ngroups = 4\n",
                   "groups = 4 must divide the 6 input channels and the 4 outputs");
    assert_refused("convolution", "outputs = 4\nkernel = 3\ngroups = 3\n", "groups = 3");
    assert_refused("convolution", "outputs = 4\nkernel = 3\npad = 3\n",
                   "must be smaller than the kernel 3 x 3");
    assert_refused("convolution", "outputs = 4\nkernel = 3\ndilation_x = 2\n",
                   "the kernel 3 x 5 does not fit its source of 5 x 4 pixels");
    assert_refused("deconvolution", "outputs = 4\n", "kernel is missing");
    assert_refused("deconvolution", "outputs = 4\nkernel = 3\ngroups = 4\n",
                   "groups = 4 must divide the 6 input channels and the 4 outputs");
    assert_refused("deconvolution", "outputs = 4\nkernel = 3\nstride = 2\noutput_pad_x = 2\n",
                   "output_pad 2 along the width must be less than the stride 2");
    assert_refused("deconvolution", "outputs = 4\nkernel = 7\npad = 6\n",
                   "the height of the output is empty");
    assert_refused("pooling", "kernel = 3\npad_x = 3\n", "must be smaller than the kernel");
    assert_refused("pooling", "kernel = 3\ndivide_by = inside\n", "requires method = avg");
    assert_refused("pooling", "stride = 2\n", "kernel is missing");
    assert_refused("pooling", "kernel = 9\nround = floor\n", "9 x 9 does not fit");
    assert_refused("pooling", "global = yes\nkernel = 2\n", "remove kernel");
    assert_refused("pooling", "global = yes\nstride_y = 2\n", "remove kernel, stride");
    assert_refused("pooling", "global = yes\npad = 1\n", "remove kernel, stride and pad");
    assert_refused("lrn", "size = 4\n", "size = 4: must be odd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_matches_its_formula),
        cmocka_unit_test(deconvolution_matches_its_formula),
        cmocka_unit_test(pooling_matches_its_formula),
        cmocka_unit_test(global_pooling_uses_the_whole_image),
        cmocka_unit_test(lrn_across_channels_matches_its_formula),
        cmocka_unit_test(lrn_within_channels_matches_its_formula),
        cmocka_unit_test(invalid_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
