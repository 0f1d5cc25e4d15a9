/* lrn: local response normalization, y_i = x_i (k + alpha/n sum_j x_j^2)^-beta. Across channels the
 * sum is over the `size` channels around i and n = size (Krizhevsky, Sutskever, Hinton 2012,
 * section 3.3; alpha is divided by size as in Caffe, cuDNN and bvlc_alexnet, the paper's own alpha
 * is ours / size). Within a channel it is over the size x size pixels around i, zero outside the
 * image, and n = size^2 (Caffe, LRNLayer with WITHIN_CHANNEL, where k is 1). */
#include "layers/layer.h"

enum { ACROSS, WITHIN };

struct conf {
    int region;
    int64_t size;
    double alpha, beta, k;
};

static const char *const regions[] = {"across_channels", "within_channel", NULL};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, region,
           "what is summed: adjacent channels, or surrounding pixels of the channel",
           .def = "across_channels", .choices = regions),
    SW_OPT(INT, struct conf, size, "channels, or pixels per side, of the window; odd", .def = "5",
           .min = 1, .max = 255),
    SW_OPT(REAL, struct conf, alpha,
           "scale of the sum of squares, divided by the window's elements", .def = "1", .min = 0,
           .max = 1e6),
    SW_OPT(REAL, struct conf, beta, "exponent", .def = "0.75", .min = 0, .max = 100),
    SW_OPT(REAL, struct conf, k, "constant added to the scaled sum", .def = "1", .min = 1e-5,
           .max = 1e6),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;

    if (c->size % 2 == 0)
        return sw_err_set(err, SW_ERR_INVALID, "size = %lld: must be odd", (long long)c->size);

    struct sw_lrn_shape shape = {.within_channel = c->region == WITHIN,
                                 .size = c->size,
                                 .alpha = (float)c->alpha,
                                 .beta = (float)c->beta,
                                 .k = (float)c->k};
    int rc = sw_layer_make_plan(
        l, s, (struct sw_plan_request){.kind = SW_PLAN_LRN, .shape.lrn = &shape}, err);
    if (rc != SW_OK)
        return rc;

    sw_layer_use_plan(l, 0, 0);
    l->flops_forward = (double)sw_desc_count(&l->dst.desc) *
                       (double)(2 * c->size * (c->region == WITHIN ? c->size : 1) + 3);
    l->flops_backward = l->flops_forward;

    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "size = 5\nalpha = 0.5\nbeta = 0.75\n",
     .src = {{4, {2, 7, 3, 4}, 0}},
     .dst = {2, 7, 3, 4}},
    {.recipe = "size = 5\nalpha = 0.5\nbeta = 0.75\nk = 2\n",
     .src = {{4, {2, 32, 3, 3}, 0}},
     .dst = {2, 32, 3, 3}},
    {.recipe = "size = 3\nalpha = 1\nbeta = 0.6\n",
     .src = {{4, {2, 16, 2, 3}, 0}},
     .dst = {2, 16, 2, 3}},
    {.recipe = "region = within_channel\nsize = 3\nalpha = 2\n",
     .src = {{4, {2, 5, 6, 4}, 0}},
     .dst = {2, 5, 6, 4}},
    {.recipe = "region = within_channel\nsize = 5\nalpha = 3\nbeta = 0.6\nk = 2\n",
     .src = {{4, {2, 20, 4, 3}, 0}},
     .dst = {2, 20, 4, 3}},
    {0},
};

static const char *refuses_split(const void *conf, int parts)
{
    const struct conf *c = conf;
    return c->region == ACROSS ? "it normalizes across channels" : NULL;
}

const struct sw_layer_type sw_layer_lrn = {
    .base =
        SW_TYPE("lrn", "local response normalization across or within channels", struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    .refuses_split = refuses_split,
    .keeps_columns = true,
    SW_LAYER_FEATURES(1, 1, 4),
    .state_bytes = sizeof(struct sw_plan_state),
    SW_LAYER_CALLS(setup, sw_layer_plan_forward, sw_layer_plan_backward),
    .examples = examples,
};
