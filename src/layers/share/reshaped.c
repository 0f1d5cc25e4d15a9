/* The same values under other dimensions: a view where the source is plain, else a reorder on the
 * way in and another one on the way of the gradient back. */
#include "layers/share/reshaped.h"

int sw_reshaped_setup(struct sw_layer *l, const struct sw_layer_setup *s, int ndim,
                      const int64_t *dim, struct sw_err *err)
{
    struct sw_reshaped *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    struct sw_desc plain = sw_desc_plain(SW_F32, in->ndim, in->dim);
    l->dst.desc = sw_desc_plain(SW_F32, ndim, dim);
    if (sw_desc_is_plain(in)) {
        sw_layer_use_view(l);
        return SW_OK;
    }
    int rc = sw_layer_reorder(l, s->stream, in, &plain, &st->read, err);
    if (rc == SW_OK && (s->wants_grad & 1))
        rc = sw_layer_reorder(l, s->stream, &plain, in, &st->give, err);
    if (rc != SW_OK)
        return rc;
    l->scratch_bytes = st->read->scratch_bytes;
    if (st->give && st->give->scratch_bytes > l->scratch_bytes)
        l->scratch_bytes = st->give->scratch_bytes;
    l->flops_forward = l->flops_backward = (double)sw_desc_count(in);
    return SW_OK;
}

int sw_reshaped_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_reshaped *st = l->state;
    const struct sw_plan_args a = {
        .src = l->src[0]->data, .dst = l->dst.data, .scratch = l->scratch};
    return st->read ? sw_plan_forward(st->read, &a, err) : sw_layer_view_forward(l, r, err);
}

int sw_reshaped_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_reshaped *st = l->state;
    const struct sw_plan_args a = {
        .src = l->dst.grad, .dst = l->src_grad[0], .scratch = l->scratch};
    return st->give ? sw_plan_forward(st->give, &a, err) : sw_layer_view_backward(l, r, err);
}
