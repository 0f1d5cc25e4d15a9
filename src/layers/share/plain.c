/* Makes a source readable in one layout. A source that already has that layout is used directly,
 * plain integers are converted, and any other source is reordered into scratch memory; a second
 * reorder takes the gradient back. */
#include "layers/share/plain.h"

#include "kernels/ops/elementwise.h"

static int make_reorders(struct sw_plain *p, struct sw_layer *l, const struct sw_layer_setup *s,
                         struct sw_err *err)
{
    const struct sw_desc *in = &l->src[p->src]->desc;

    int rc = sw_layer_reorder(l, s->stream, in, &p->desc, &p->from_source, err);
    if (rc != SW_OK)
        return rc;

    if (s->wants_grad >> p->src & 1) {
        p->gradient_at = sw_layer_reserve(&l->scratch_bytes, sw_desc_bytes(&p->desc));
        rc = sw_layer_reorder(l, s->stream, &p->desc, in, &p->to_source, err);
    }

    if (rc != SW_OK)
        return rc;

    size_t plans = p->from_source->scratch_bytes;
    if (p->to_source && p->to_source->scratch_bytes > plans)
        plans = p->to_source->scratch_bytes;
    p->plan_at = sw_layer_reserve(&l->scratch_bytes, plans);

    return SW_OK;
}

int sw_plain_init(struct sw_plain *p, struct sw_layer *l, int src, const struct sw_layer_setup *s,
                  struct sw_err *err)
{
    const struct sw_desc *in = &l->src[src]->desc;

    *p = (struct sw_plain){.src = src,
                           .rows = in->dim[0],
                           .columns = sw_desc_features(in),
                           .desc = sw_desc_plain(SW_F32, in->ndim, in->dim)};

    char text[128];
    if (sw_desc_is_plain(in) && in->dtype == SW_F32)
        return SW_OK;
    if (in->dtype == SW_U8 || (in->dtype == SW_I32 && !sw_desc_is_plain(in)))
        return sw_err_set(err, SW_ERR_INVALID, "source %d is %s, which this layer cannot read",
                          src + 1, sw_desc_text(in, text));

    p->value_at = sw_layer_reserve(&l->scratch_bytes, sw_desc_bytes(&p->desc));
    p->convert = in->dtype == SW_I32;
    return p->convert ? SW_OK : make_reorders(p, l, s, err);
}

int sw_plain_init_as(struct sw_plain *p, struct sw_layer *l, int src, const struct sw_desc *desc,
                     const struct sw_layer_setup *s, struct sw_err *err)
{
    *p = (struct sw_plain){
        .src = src, .rows = desc->dim[0], .columns = sw_desc_features(desc), .desc = *desc};
    if (sw_desc_equal(&l->src[src]->desc, desc))
        return SW_OK;

    p->value_at = sw_layer_reserve(&l->scratch_bytes, sw_desc_bytes(desc));
    return make_reorders(p, l, s, err);
}

int sw_plain_values(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                    const float **out, struct sw_err *err)
{
    void *data = l->src[p->src]->data;

    *out = data;
    if (!p->from_source && !p->convert)
        return SW_OK;

    float *values = sw_layer_at(l->scratch, p->value_at);
    *out = values;
    if (p->convert)
        return sw_op_run(
            r->stream, &sw_op_to_floats,
            &(const struct sw_floats_args){.n = sw_desc_count(&p->desc), .x = data, .y = values},
            err);

    struct sw_plan_args a = {
        .src = data, .dst = values, .scratch = sw_layer_at(l->scratch, p->plan_at)};
    return sw_plan_forward(p->from_source, &a, err);
}

int sw_plain_forward(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                     const float **x, const struct sw_op *op, const void *args, struct sw_err *err)
{
    int rc = sw_plain_values(p, l, r, x, err);
    return rc == SW_OK ? sw_op_run(r->stream, op, args, err) : rc;
}

float *sw_plain_gradient(const struct sw_plain *p, const struct sw_layer *l)
{
    float *wanted = l->src_grad[p->src];
    return wanted && p->to_source ? sw_layer_at(l->scratch, p->gradient_at) : wanted;
}

int sw_plain_write(const struct sw_plain *p, const struct sw_layer *l, struct sw_err *err)
{
    if (!p->to_source || !l->src_grad[p->src])
        return SW_OK;

    struct sw_plan_args a = {.src = sw_layer_at(l->scratch, p->gradient_at),
                             .dst = l->src_grad[p->src],
                             .scratch = sw_layer_at(l->scratch, p->plan_at)};
    return sw_plan_forward(p->to_source, &a, err);
}

int sw_plain_backward(const struct sw_plain *p, const struct sw_layer *l, const struct sw_pass *r,
                      const struct sw_op *op, const void *args, struct sw_err *err)
{
    int rc = sw_op_run(r->stream, op, args, err);
    return rc == SW_OK ? sw_plain_write(p, l, err) : rc;
}
