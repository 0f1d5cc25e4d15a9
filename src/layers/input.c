/* input: one field of the data source, such as image or label. The prefetch threads have already
 * written the batch to its memory, so forward has nothing to do. */
#include "layers/layer.h"

struct conf {
    const char *field;
};

static const struct sw_opt opts[] = {
    SW_OPT(STRING, struct conf, field, "field of the data source: image, label", .required = true),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *d = s->field ? s->field(s->user, c->field) : NULL;
    if (!d)
        return sw_err_set(err, SW_ERR_INVALID, "field = %s: the data source has no such field",
                          c->field);

    l->dst.desc = *d;
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    return SW_OK;
}

const char *sw_layer_input_field(const struct sw_layer *l)
{
    const struct conf *c = l->conf;
    return c->field;
}

const struct sw_layer_type sw_layer_input = {
    .base = SW_TYPE("input", "one field of the data source", struct conf, opts),
    .role = SW_ROLE_INPUT,
    .split_reason = "every worker reads its rows of the data",
    SW_LAYER_SOURCES(0, 0),
    SW_LAYER_CALLS(setup, forward, NULL),
};
