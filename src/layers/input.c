/* input: one field of the data source, such as image or label. The prefetch threads have already
 * written the batch to its memory, transformed as the keys ask (data/scaling.h), so
 * forward has nothing to do. */
#include "layers/layer.h"

static const struct sw_opt opts[] = {
    SW_OPT(STRING, struct sw_input_conf, field, "field of the data source: image, label",
           .required = true),
    SW_OPT(
        REAL, struct sw_input_conf, power,
        "the absolute value to this power, with the sign of the value: 0.5 for histograms, whose "
        "distances are then Hellinger's; the first of the transforms of values, in the order of "
        "this list",
        .def = "1", .min = 0, .max = 1, .above_min = true),
    SW_OPT(BOOL, struct sw_input_conf, log1p, "log(value + 1), for counts", .def = "no"),
    SW_OPT(BOOL, struct sw_input_conf, standardize,
           "(value - mean) / std with mean and std of the training data, which checkpoints keep; "
           "predict, mae and rmse give the units of the data",
           .def = "no"),
    SW_OPT(REALS, struct sw_input_conf, mean,
           "standardize with this mean, one number or one per value, instead of the measured one"),
    SW_OPT(REALS, struct sw_input_conf, std, "standardize with this standard deviation, as mean",
           .min = 0, .max = -1, .above_min = true),
    SW_OPT(BOOL, struct sw_input_conf, whiten,
           "ZCA whitening with the covariance of the training data, which checkpoints keep; of "
           "standardized values with `standardize`, else only the mean is subtracted before",
           .def = "no"),
    SW_OPT(REAL, struct sw_input_conf, whiten_epsilon,
           "added to the variances before whitening divides by their roots", .def = "0.01",
           .min = 0, .max = 1e6, .above_min = true),
    SW_OPT(REAL, struct sw_input_conf, scale, "factor, the last of the transforms", .def = "1",
           .min = -1e6, .max = 1e6),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_input_conf *c = l->conf;

    if (!s->field || !s->field(s->user, c->field, &l->dst))
        return sw_err_set(err, SW_ERR_INVALID, "field = %s: the data source has no such field",
                          c->field);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    return SW_OK;
}

const char *sw_layer_input_field(const struct sw_layer *l)
{
    const struct sw_input_conf *c = l->conf;
    return c->field;
}

const struct sw_layer_type sw_layer_input = {
    .base = SW_TYPE("input", "one field of the data source", struct sw_input_conf, opts),
    .role = SW_ROLE_INPUT,
    .split_reason = "every worker reads its rows of the data",
    SW_LAYER_SOURCES(0, 0),
    SW_LAYER_CALLS(setup, forward, NULL),
};
