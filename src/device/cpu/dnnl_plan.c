/* Common parts of the oneDNN plans: passes that run one op each; and the reorder plan. */
#include "device/cpu/dnnl.h"

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

int sw_dnnl_reorder_new(struct sw_stream *s, const struct sw_desc *from, const struct sw_desc *to,
                        struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_reorder_check(from, to, err);
    if (rc != SW_OK)
        return rc;

    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a plan", sizeof *p);

    dnnl_memory_desc_t md_from, md_to;
    sw_dnnl_from_desc(from, &md_from);
    sw_dnnl_from_desc(to, &md_to);
    p->base =
        (struct sw_plan){.ops = &sw_dnnl_weightless_ops, .stream = s, .src = *from, .dst = *to};

    dnnl_primitive_desc_t pd = NULL;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const struct sw_dnnl_port_spec ports[] = {
        {DNNL_ARG_FROM, SW_SLOT_SRC, false, &md_from, NULL, NULL},
        {DNNL_ARG_TO, SW_SLOT_DST, true, &md_to, NULL, NULL},
    };
    rc = sw_dnnl_open(s, &engine, &stream, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_dnnl_check(
        dnnl_reorder_primitive_desc_create(&pd, &md_from, engine, &md_to, engine, NULL),
        "preparing a reorder", err);
    if (rc != SW_OK)
        goto out;
    rc = sw_dnnl_op_init(&p->forward, s, pd, ports, SW_DNNL_PORT_COUNT(ports), err);
    if (rc != SW_OK)
        goto out;

    sw_dnnl_plan_finish(p, pd);
    *out = &p->base;

out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (rc != SW_OK)
        free_plan(&p->base);

    return rc;
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
