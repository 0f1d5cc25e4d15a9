/* Common parts of the oneDNN plans: passes that run one op each; plans without weights; and the
 * reorder plan. */
#include "device/cpu/dnnl.h"
#include "device/cpu/ref.h"

#include "base/os.h"
#include <stdio.h>

static struct sw_dnnl_plan *plan_of(struct sw_plan *p)
{
    return (struct sw_dnnl_plan *)(void *)p;
}

static int run_forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return sw_dnnl_op_run(&plan_of(p)->forward, a, err);
}

static int run_backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return sw_dnnl_op_run(&plan_of(p)->backward_data, a, err);
}

static int run_backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return sw_dnnl_op_run(&plan_of(p)->backward_weights, a, err);
}

static void free_plan(struct sw_plan *p)
{
    struct sw_dnnl_plan *d = plan_of(p);

    sw_dnnl_op_fini(&d->forward);
    sw_dnnl_op_fini(&d->backward_data);
    sw_dnnl_op_fini(&d->backward_weights);
    sw_free(d);
}

void sw_dnnl_plan_finish(struct sw_dnnl_plan *p, const_dnnl_primitive_desc_t forward)
{
    const struct sw_dnnl_op *ops[] = {&p->forward, &p->backward_data, &p->backward_weights};

    for (int i = 0; i < 3; i++)
        if (ops[i]->scratch_bytes > p->base.scratch_bytes)
            p->base.scratch_bytes = ops[i]->scratch_bytes;

    snprintf(p->base.algorithm, sizeof p->base.algorithm, "%s", sw_dnnl_impl(forward));
}

int sw_dnnl_weightless_new(const struct sw_plan_request *q, const struct sw_desc *dst,
                           const struct sw_dnnl_weightless *w, struct sw_plan **out,
                           struct sw_err *err)
{
    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a plan", sizeof *p);

    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    size_t bytes;
    p->base = (struct sw_plan){
        .ops = &sw_dnnl_weightless_ops, .stream = q->stream, .src = *q->src, .dst = *dst};

    int rc = sw_dnnl_open(q->stream, &engine, &stream, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_dnnl_attr(false, &attr, err);
    if (rc != SW_OK)
        goto out;
    rc = w->describe(w, false, engine, attr, NULL, &forward, err);
    if (rc != SW_OK)
        goto out;

    const struct sw_dnnl_port_spec ports[] = {
        {w->from, SW_PLAN_SRC, false, &w->src, NULL, NULL},
        {w->to, SW_PLAN_DST, true, &w->dst, NULL, NULL},
        {DNNL_ARG_WORKSPACE, SW_PLAN_SAVED, true, sw_dnnl_workspace(forward, &p->base.saved_bytes),
         NULL, NULL},
    };
    rc = sw_dnnl_op_init(&p->forward, q->stream, forward, ports, SW_DNNL_PORT_COUNT(ports), err);
    if (rc != SW_OK)
        goto out;

    if (q->passes.backward_data) {
        rc = w->describe(w, true, engine, attr, forward, &backward, err);
        if (rc != SW_OK)
            goto out;

        const struct sw_dnnl_port_spec back[] = {
            {DNNL_ARG_SRC, SW_PLAN_SRC, false, w->backward_reads_src ? &w->src : NULL, NULL, NULL},
            {DNNL_ARG_DIFF_DST, SW_PLAN_DIFF_DST, false, &w->dst, NULL, NULL},
            {DNNL_ARG_DIFF_SRC, SW_PLAN_DIFF_SRC, true, &w->src, NULL, NULL},
            {DNNL_ARG_WORKSPACE, SW_PLAN_SAVED, false, sw_dnnl_workspace(backward, &bytes), NULL,
             NULL},
        };
        p->base.backward_reads_src = w->backward_reads_src;
        rc = sw_dnnl_op_init(&p->backward_data, q->stream, backward, back, SW_DNNL_PORT_COUNT(back),
                             err);
        if (rc != SW_OK)
            goto out;
    }

    sw_dnnl_plan_finish(p, forward);
    *out = &p->base;

out:
    if (backward)
        dnnl_primitive_desc_destroy(backward);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (rc != SW_OK)
        free_plan(&p->base);

    return rc;
}

static int describe_reorder(const struct sw_dnnl_weightless *w, bool backward, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                            dnnl_primitive_desc_t *out, struct sw_err *err)
{
    return sw_dnnl_check(
        dnnl_reorder_primitive_desc_create(out, &w->src, engine, &w->dst, engine, NULL),
        "preparing a reorder", err);
}

int sw_dnnl_reorder_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_dnnl_weightless w = {
        .from = DNNL_ARG_FROM, .to = DNNL_ARG_TO, .describe = describe_reorder};

    /* Rounding has to give the same bits on every device. */
    if (sw_dtype_is_half(q->src->dtype) || sw_dtype_is_half(q->shape.to->dtype))
        return sw_ref_reorder(q, out, err);

    sw_dnnl_from_desc(q->src, &w.src);
    sw_dnnl_from_desc(q->shape.to, &w.dst);
    return sw_dnnl_weightless_new(q, q->shape.to, &w, out, err);
}

const struct sw_plan_ops sw_dnnl_plan_ops = {
    .forward = run_forward,
    .backward_data = run_backward_data,
    .backward_weights = run_backward_weights,
    .free = free_plan,
};

const struct sw_plan_ops sw_dnnl_weightless_ops = {
    .forward = run_forward,
    .backward_data = run_backward_data,
    .free = free_plan,
};
