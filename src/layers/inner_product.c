/* inner_product: dst [N, outputs] = src [N, features] weight^T + bias, the fully-connected layer. A
 * source with more dimensions is flattened in (C, H, W) order; with axis = 2 every step of a
 * sequence [N, T, features] is a row, and dst is [N, T, outputs]. Weights are logically [outputs,
 * features], or [features, outputs] with transpose = yes (as in Caffe), so that the decoder of an
 * autoencoder can be tied to its encoder. A pass takes 2 N outputs features flops. */
#include "layers/share/plain.h"

struct conf {
    int64_t outputs, axis;
    bool bias, transpose;
};

struct state {
    struct sw_plan_state
        base;           /* first member, for the callbacks of layers that are a single plan */
    struct sw_plain x;  /* the source, if workers exchange factors */
    struct sw_plan *dy; /* makes the factor from the gradient, which is not f32; owned by the layer;
                           else NULL */
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, outputs, "number of output features", .min = 1, .max = 1 << 26,
           .required = true),
    SW_OPT(INT, struct conf, axis,
           "first dimension of the features; 2: every step of a sequence is a row", .def = "1",
           .min = 1, .max = 2),
    SW_OPT(BOOL, struct conf, bias, "add one value per output", .def = "yes"),
    SW_OPT(BOOL, struct conf, transpose,
           "store weights as features x outputs; with weight.share: use them transposed",
           .def = "no"),
    {0},
};

static const char *refuses_split(const void *conf, int parts)
{
    const struct conf *c = conf;
    if (c->axis > 1)
        return "its columns are the steps of a sequence";
    return c->outputs < parts ? "it has fewer outputs than there are workers" : NULL;
}

static int64_t columns(const void *conf, const int64_t *src, int count, int64_t *begin)
{
    const struct conf *c = conf;
    return c->axis > 1 ? src[0] : c->outputs;
}

static const char *refuses_inputs(const void *conf)
{
    const struct conf *c = conf;
    return c->axis > 1 ? "its columns are the steps of a sequence" : NULL;
}

static const char *refuses_factors(const void *conf)
{
    const struct conf *c = conf;
    return c->transpose ? "its weights are stored transposed" : NULL;
}

static bool factors_of(const void *conf, const struct sw_desc *src, struct sw_layer_factors *out)
{
    const struct conf *c = conf;
    int64_t steps = c->axis > 1 && src->ndim > 2 ? src->dim[1] : 1;

    *out = (struct sw_layer_factors){.rows = src->dim[0] * steps,
                                     .inputs = sw_desc_features(src) / steps,
                                     .outputs = c->outputs};
    return !c->transpose;
}

/* Marks the weight as a shard: the columns of the source in this worker are some of the weight's
 * columns. */
static void mark_inputs(struct sw_layer *l, const struct sw_layer_setup *s, int64_t features)
{
    const struct conf *c = l->conf;
    int64_t each = features / l->src[0]->desc.dim[1];
    sw_layer_mark_param(l, 0, c->transpose ? 0 : 1, s->first_channel * each, s->channels * each);
}

/* Sets *seen to the source as the plan reads it. Errors: SW_ERR_INVALID. */
static int rows_of(const struct sw_layer *l, const struct conf *c, struct sw_desc *seen,
                   struct sw_err *err)
{
    const struct sw_desc *in = &l->src[0]->desc;
    char text[128];

    *seen = *in;
    if (c->axis == 1)
        return SW_OK;
    if (in->ndim != 3 || !sw_desc_is_plain(in))
        return sw_err_set(err, SW_ERR_INVALID,
                          "axis = 2: source 1 is %s, not rows x steps x features",
                          sw_desc_text(in, text));

    *seen = sw_desc_plain(in->dtype, 2, (const int64_t[]){in->dim[0] * in->dim[1], in->dim[2]});
    return SW_OK;
}

/* Checks that a shared weight is the matrix that this layer stores. Errors: SW_ERR_INVALID. */
static int check_given(const struct conf *c, const struct sw_desc *given, int64_t outputs,
                       int64_t features, struct sw_err *err)
{
    const int64_t want[] = {c->transpose ? features : outputs, c->transpose ? outputs : features};
    char text[128];

    if (given->ndim == 2 && given->dim[0] == want[0] && given->dim[1] == want[1])
        return SW_OK;

    bool is_transposed = given->ndim == 2 && given->dim[0] == want[1] && given->dim[1] == want[0];
    return sw_err_set(err, SW_ERR_INVALID,
                      "the weight must be %lld x %lld, but the shared one is %s%s%s",
                      (long long)want[0], (long long)want[1], sw_desc_text(given, text),
                      is_transposed ? ": set transpose = " : "",
                      !is_transposed ? ""
                      : c->transpose ? "no"
                                     : "yes");
}

/* Prepares backward to return source and gradient as factors instead of their product. */
static int setup_factors(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;
    factors_of(l->conf, &l->src[0]->desc, &l->factors);
    l->backward_reads_src |= 1;

    struct sw_desc floats = sw_desc_as(&l->dst.desc, SW_F32);
    int rc = l->dst.desc.dtype == SW_F32
                 ? SW_OK
                 : sw_layer_reorder(l, s->stream, &l->dst.desc, &floats, &st->dy, err);
    return rc == SW_OK ? sw_plain_init(&st->x, l, 0, s, err) : rc;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    int64_t first, outputs;

    sw_setup_part(s, c->outputs, &first, &outputs);

    struct sw_desc seen;
    int rc = rows_of(l, c, &seen, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_desc *in = &seen;

    /* The plan's weights are always [outputs, features]; transpose only changes their storage
     * layout. */
    const struct sw_desc *given = sw_setup_layout(s, l, "weight");
    struct sw_desc transposed;
    if (given) {
        rc = check_given(c, given, outputs, sw_desc_features(in), err);
        if (rc != SW_OK)
            return rc;
    }

    /* Servers own whole rows of plain weights. */
    struct sw_desc plain =
        sw_desc_plain(SW_F32, 2, (const int64_t[]){outputs, sw_desc_features(in)});
    if (!given && s->factors)
        given = &plain;

    if (given && c->transpose) {
        transposed = sw_desc_transposed(given, 0, 1);
        given = &transposed;
    }

    struct sw_ip_shape shape = {.outputs = outputs,
                                .bias = c->bias && (!s->sums || s->first_partial),
                                .fuse_relu = s->fuse_relu,
                                .as_given = s->factors,
                                .weight_layout = given};
    rc = sw_layer_make_plan(
        l, s,
        (struct sw_plan_request){.kind = SW_PLAN_INNER_PRODUCT, .src = in, .shape.ip = &shape},
        err);
    if (rc != SW_OK)
        return rc;

    int64_t features = sw_desc_features(in);
    int64_t fan_in = s->sums ? features / in->dim[1] * s->channels : features;
    sw_layer_use_plan(l, fan_in, c->outputs);
    if (s->sums)
        mark_inputs(l, s, features);

    if (c->axis > 1) {
        const int64_t *steps = l->src[0]->desc.dim;
        l->dst.desc =
            sw_desc_plain(l->dst.desc.dtype, 3, (const int64_t[]){steps[0], steps[1], outputs});
    }

    if (c->transpose)
        l->param[0].layout = sw_desc_transposed(&l->param[0].layout, 0, 1);
    if (s->parts > 1)
        sw_layer_mark_parts(l, first, c->outputs);
    if (s->parts > 1 && c->transpose)
        sw_layer_mark_param(l, 0, 1, first, c->outputs);
    l->flops_forward = 2.0 * (double)in->dim[0] * (double)features * (double)outputs;
    l->flops_backward = l->flops_forward * ((s->wants_grad & 1) + !s->frozen);

    return s->factors ? setup_factors(l, s, err) : SW_OK;
}

static int copy_factors(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_layer_factors *f = &l->factors;
    const float *x;

    int rc = sw_plain_values(&st->x, l, r, &x, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_copy(r->stream, f->x, x, (size_t)(f->rows * f->inputs) * sizeof *x, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_plan_args dy = {.src = l->dst.grad, .dst = f->dy};
    return st->dy ? sw_plan_forward(st->dy, &dy, err)
                  : sw_copy(r->stream, f->dy, l->dst.grad,
                            (size_t)(f->rows * f->outputs) * sizeof *x, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    int rc = l->factors.x ? copy_factors(l, r, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    return sw_layer_plan_backward(l, r, err);
}

static int64_t width(const void *conf)
{
    return ((const struct conf *)conf)->outputs;
}

static const char *const params[] = {"weight", "bias", NULL};

static const struct sw_layer_example examples[] = {
    {.recipe = "outputs = 5\n", .src = {{2, {3, 7}, 0}}, .dst = {3, 5}},
    {.recipe = "outputs = 10\nbias = no\n", .src = {{2, {4, 33}, 0}}, .dst = {4, 10}},
    {.recipe = "outputs = 6\ntranspose = yes\n", .src = {{2, {3, 17}, 0}}, .dst = {3, 6}},
    {.recipe = "outputs = 40\ntranspose = yes\nbias = no\n",
     .src = {{4, {2, 5, 3, 4}, 0}},
     .dst = {2, 40}},
    {.recipe = "outputs = 6\n", .src = {{4, {2, 3, 4, 5}, 0}}, .dst = {2, 6}},
    {.recipe = "outputs = 7\naxis = 2\n", .src = {{3, {2, 5, 19}, 0}}, .dst = {2, 5, 7}},
    {.recipe = "outputs = 20\n", .src = {{4, {3, 20, 3, 2}, 0}}, .dst = {3, 20}},
    {0},
};

const struct sw_layer_type sw_layer_inner_product = {
    .base = SW_TYPE("inner_product", "fully-connected layer", struct conf, opts, .params = params),
    .halves = SW_HALVES_AS_TOLD,
    .split = SW_SPLIT_OUTPUTS,
    .refuses_split = refuses_split,
    .columns = columns,
    .factors_of = factors_of,
    .refuses_factors = refuses_factors,
    .splits_inputs = true,
    .refuses_inputs = refuses_inputs,
    SW_LAYER_FEATURES(1, 1, 0),
    .width = width,
    .state_bytes = sizeof(struct state),
    .can_fuse_relu = true,
    .skips_frozen = true,
    SW_LAYER_CALLS(setup, sw_layer_plan_forward, backward),
    .examples = examples,
};
