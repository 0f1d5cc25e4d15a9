/* The table of vectors of embedding and embedding_mean: its only parameter [vocabulary, outputs],
 * which is sharded by columns, and the two operations that read it and compute its gradient. */
#include "layers/share/lookup.h"
#include "device/op.h"

const char *const sw_lookup_params[] = {"weight", NULL};

void sw_lookup_init(struct sw_lookup *st, struct sw_layer *l, const struct sw_lookup_conf *c,
                    const struct sw_layer_setup *s)
{
    int64_t first;

    sw_setup_part(s, c->outputs, &first, &st->outputs);

    const int64_t weight[] = {c->vocabulary, st->outputs};
    struct sw_desc layout = sw_desc_plain(SW_F32, 2, weight);
    sw_layer_add_param(l, "weight", &layout, c->outputs, c->outputs)->lists_rows = true;

    if (s->parts > 1) {
        sw_layer_mark_parts(l, first, c->outputs);
        sw_layer_mark_param(l, 0, 1, first, c->outputs);
    }

    l->backward_reads_src = 1;
    l->flops_forward = (double)sw_desc_count(&l->src[0]->desc) * (double)st->outputs;
    l->flops_backward = l->flops_forward;
}

const char *sw_lookup_refuses_split(const void *conf, int parts)
{
    const struct sw_lookup_conf *c = conf;
    return c->outputs < parts ? "it has fewer outputs than there are workers" : NULL;
}

int sw_lookup_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_lookup *st = l->state;

    return sw_op_run(r->stream, &sw_op_embedding,
                     &(const struct sw_embedding_args){.lists = st->lists,
                                                       .width = st->outputs,
                                                       .token = l->src[0]->data,
                                                       .weight = l->param[0].value,
                                                       .step = r->step,
                                                       .y = l->dst.data},
                     err);
}

int sw_lookup_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_lookup *st = l->state;

    return sw_op_run(r->stream, &sw_op_embedding_gradient,
                     &(const struct sw_embedding_gradient_args){.lists = st->lists,
                                                                .width = st->outputs,
                                                                .token = l->src[0]->data,
                                                                .dy = l->dst.grad,
                                                                .step = r->step,
                                                                .dweight = l->param[0].grad,
                                                                .listed = l->param[0].listed},
                     err);
}
