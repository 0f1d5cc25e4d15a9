/* Layers that give their source other dimensions and keep its values: a view if the source is
 * plain, otherwise a reorder of the values in forward and of the gradient in backward. */
#include "layers/share/reshaped.h"

int sw_reshaped_setup(struct sw_layer *l, const struct sw_layer_setup *s, int ndim,
                      const int64_t *dim, struct sw_err *err)
{
    struct sw_reshaped *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    struct sw_desc plain = sw_desc_plain(in->dtype, in->ndim, in->dim);

    l->dst.desc = sw_desc_plain(in->dtype, ndim, dim);
    if (sw_desc_is_plain(in)) {
        sw_layer_use_view(l);
        return SW_OK;
    }

    int rc = sw_layer_reorder(l, s->stream, in, &plain, &st->from_source, err);
    if (rc != SW_OK)
        return rc;

    if (s->wants_grad & 1)
        rc = sw_layer_reorder(l, s->stream, &plain, in, &st->to_source, err);
    if (rc != SW_OK)
        return rc;

    l->scratch_bytes = st->from_source->scratch_bytes;
    if (st->to_source && st->to_source->scratch_bytes > l->scratch_bytes)
        l->scratch_bytes = st->to_source->scratch_bytes;
    l->flops_forward = l->flops_backward = (double)sw_desc_count(in);

    return SW_OK;
}

int sw_reshaped_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_reshaped *st = l->state;
    const struct sw_plan_args a = {
        .src = l->src[0]->data, .dst = l->dst.data, .scratch = l->scratch};

    return st->from_source ? sw_plan_forward(st->from_source, &a, err)
                           : sw_layer_view_forward(l, r, err);
}

int sw_reshaped_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_reshaped *st = l->state;
    const struct sw_plan_args a = {
        .src = l->dst.grad, .dst = l->src_grad[0], .scratch = l->scratch};

    return st->to_source ? sw_plan_forward(st->to_source, &a, err)
                         : sw_layer_view_backward(l, r, err);
}
