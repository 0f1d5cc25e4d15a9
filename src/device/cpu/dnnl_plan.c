/* Common parts of the oneDNN plans: passes that run one op each; plans without weights; and the
 * reorder plan. */
#include "device/cpu/dnnl.h"
#include "device/cpu/ref.h"

#include "base/os.h"
#include <stdio.h>
#include <string.h>

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

static int describe(const struct sw_dnnl_weightless *w, const struct sw_dnnl_pass *pass,
                    dnnl_primitive_desc_t *out, struct sw_err *err)
{
    int rc = sw_dnnl_check(w->describe(pass, out), w->name, err);
    if (rc == SW_OK && w->no_reference && strncmp(sw_dnnl_impl(*out), "ref", 3) == 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "oneDNN: %s: not implemented for this layout",
                          w->name);
    return rc;
}

/* pass: that of the forward primitive, which it names. */
static int init_backward(struct sw_dnnl_plan *p, const struct sw_plan_request *q,
                         const struct sw_dnnl_weightless *w, struct sw_dnnl_pass pass,
                         struct sw_err *err)
{
    dnnl_primitive_desc_t backward = NULL;
    const struct sw_dnnl_layout none = {0};
    size_t bytes;

    pass.kind = dnnl_backward_data;
    int rc = describe(w, &pass, &backward, err);

    if (rc == SW_OK) {
        const struct sw_dnnl_port_spec ports[] = {
            {.arg = DNNL_ARG_SRC,
             .slot = SW_PLAN_SRC,
             .inner = w->backward_reads_src ? pass.src : none},
            {.arg = DNNL_ARG_DIFF_DST, .slot = SW_PLAN_DIFF_DST, .inner = pass.dst},
            {.arg = DNNL_ARG_DIFF_SRC, .slot = SW_PLAN_DIFF_SRC, .output = true, .inner = pass.src},
            {.arg = DNNL_ARG_WORKSPACE,
             .slot = SW_PLAN_SAVED,
             .inner = sw_dnnl_workspace(backward, &bytes)},
        };
        p->base.backward_reads_src = w->backward_reads_src;
        rc = sw_dnnl_op_init(&p->backward_data, q->stream, backward, ports,
                             SW_DNNL_PORT_COUNT(ports), err);
    }

    if (backward)
        dnnl_primitive_desc_destroy(backward);
    return rc;
}

int sw_dnnl_weightless_new(const struct sw_plan_request *q, const struct sw_desc *dst,
                           const struct sw_dnnl_weightless *w, struct sw_plan **out,
                           struct sw_err *err)
{
    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a plan", sizeof *p);

    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_stream_t stream;
    struct sw_dnnl_pass pass = w->pass;
    p->base = (struct sw_plan){
        .ops = &sw_dnnl_weightless_ops, .stream = q->stream, .src = *q->src, .dst = *dst};

    int rc = sw_dnnl_open(q->stream, &pass.engine, &stream, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_dnnl_attr(false, &attr, err);
    if (rc != SW_OK)
        goto out;

    pass.attr = attr;
    pass.kind = q->passes.training ? dnnl_forward_training : dnnl_forward_inference;
    rc = describe(w, &pass, &forward, err);
    if (rc != SW_OK)
        goto out;

    const struct sw_dnnl_port_spec ports[] = {
        {.arg = w->from, .slot = SW_PLAN_SRC, .inner = pass.src},
        {.arg = w->to, .slot = SW_PLAN_DST, .output = true, .inner = pass.dst},
        {.arg = DNNL_ARG_WORKSPACE,
         .slot = SW_PLAN_SAVED,
         .output = true,
         .inner = sw_dnnl_workspace(forward, &p->base.saved_bytes)},
    };
    rc = sw_dnnl_op_init(&p->forward, q->stream, forward, ports, SW_DNNL_PORT_COUNT(ports), err);
    if (rc != SW_OK)
        goto out;

    if (q->passes.backward_data) {
        pass.forward = forward;
        rc = init_backward(p, q, w, pass, err);
        if (rc != SW_OK)
            goto out;
    }

    sw_dnnl_plan_finish(p, forward);
    *out = &p->base;

out:
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (rc != SW_OK)
        free_plan(&p->base);

    return rc;
}

int sw_dnnl_reorder_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_dnnl_weightless w = {
        .pass = {.src = sw_dnnl_fixed(q->src), .dst = sw_dnnl_fixed(q->shape.to)},
        .from = DNNL_ARG_FROM,
        .to = DNNL_ARG_TO,
        .describe = sw_dnnl_reorder,
        .name = "reorder"};

    /* Rounding has to give the same bits on every device. */
    if (sw_dtype_is_half(q->src->dtype) || sw_dtype_is_half(q->shape.to->dtype))
        return sw_ref_reorder(q, out, err);

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
