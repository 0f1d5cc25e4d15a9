/* The plan that converts between layouts, by sw_cpu_reorder (layout.c). */
#include "base/os.h"
#include "device/cpu/ref.h"

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    sw_cpu_reorder(sw_cpu_threads(p->stream), &p->src, a->src, &p->dst, a->dst);
    return SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    sw_cpu_reorder(sw_cpu_threads(p->stream), &p->dst, a->diff_dst, &p->src, a->diff_src);
    return SW_OK;
}

static void free_plan(struct sw_plan *p)
{
    sw_free(p);
}

static const struct sw_plan_ops ops = {
    .forward = forward,
    .backward_data = backward_data,
    .free = free_plan,
};

int sw_ref_reorder(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "reorder plan", sizeof *p);

    *p = (struct sw_plan){
        .ops = &ops, .stream = q->stream, .src = *q->src, .dst = *q->shape.to, .algorithm = "copy"};
    *out = p;
    return SW_OK;
}
