/* Losses of rows against target rows: checks that both sources have rows of the same size, reads
 * them as plain rows of floats, and runs one operation (kernels/ops/row_loss.h) for the loss and
 * one for each gradient. The targets get a gradient if they need one. */
#include "layers/share/target_loss.h"

const struct sw_opt sw_target_loss_opts[] = {
    SW_LOSS_WEIGHT_OPT(struct sw_target_loss_conf, weight),
    {0},
};

int sw_layer_need_same_rows(const struct sw_layer *l, int a, int b, struct sw_err *err)
{
    const struct sw_desc *x = &l->src[a]->desc, *y = &l->src[b]->desc;
    char one[128], other[128];

    if (x->dim[0] == y->dim[0] && sw_desc_features(x) == sw_desc_features(y))
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "source %d is %s and source %d is %s: they must have the same number of "
                      "rows, and of values per row",
                      a + 1, sw_desc_text(x, one), b + 1, sw_desc_text(y, other));
}

int sw_target_loss_setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_target_loss_conf *c = l->conf;
    struct sw_target_loss *t = l->state;
    const enum sw_loss kind = (enum sw_loss)l->type->variant;

    int rc = sw_layer_need_same_rows(l, 0, 1, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&t->value, l, 0, s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&t->target, l, 1, s, err);
    if (rc != SW_OK)
        return rc;

    t->kind = kind;
    t->weight = c ? (float)c->weight : 1;
    l->dst.desc = t->value.desc;
    l->backward_reads_dst = true;
    l->backward_reads_src = kind == SW_LOSS_EUCLIDEAN ? 0 : 1u << 1;
    l->flops_forward =
        (kind == SW_LOSS_EUCLIDEAN ? 3.0 : 10.0) * (double)sw_desc_count(&l->dst.desc);
    l->flops_backward = 2.0 * (double)sw_desc_count(&l->dst.desc);

    return SW_OK;
}

int sw_target_loss_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_target_loss *t = l->state;
    struct sw_row_loss_args a = {.kind = t->kind,
                                 .who = l->type->base.name,
                                 .rows = t->value.rows,
                                 .columns = t->value.columns,
                                 .weight = t->weight,
                                 .step = r->step,
                                 .y = l->dst.data,
                                 .result = l->result};

    int rc = sw_plain_values(&t->value, l, r, &a.x, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_values(&t->target, l, r, &a.target, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_row_loss, &a, err);
}

static int row_gradient(const struct sw_target_loss *t, const struct sw_plain *p,
                        struct sw_layer *l, const struct sw_pass *r, const float *target,
                        struct sw_err *err)
{
    struct sw_row_gradient_args a = {.kind = t->kind,
                                     .rows = p->rows,
                                     .columns = p->columns,
                                     .weight = p == &t->target ? -t->weight : t->weight,
                                     .y = l->dst.data,
                                     .target = target,
                                     .step = r->step,
                                     .dx = sw_plain_gradient(p, l)};
    if (!a.dx)
        return SW_OK;

    return sw_plain_backward(p, l, r, &sw_op_row_loss_gradient, &a, err);
}

int sw_target_loss_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_target_loss *t = l->state;
    const float *target = NULL;
    int rc = SW_OK;

    if (l->backward_reads_src)
        rc = sw_plain_values(&t->target, l, r, &target, err);
    if (rc != SW_OK)
        return rc;

    rc = row_gradient(t, &t->value, l, r, target, err);
    if (rc != SW_OK)
        return rc;

    return row_gradient(t, &t->target, l, r, target, err);
}
