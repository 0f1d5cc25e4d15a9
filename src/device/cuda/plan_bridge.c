/* Convolutions that cuDNN does not support (a window that exceeds one side only, an unusual type)
 * run as a plan of the cpu device on copies in host memory. The name of the plan begins with
 * "cpu:", which `check -v` and the history show. */
#include "base/os.h"
#include "device/cuda/bridge.h"
#include "device/cuda/plan_private.h"
#include <stdio.h>

struct bridged {
    struct sw_plan base;   /* first member */
    struct sw_stream *cpu; /* owned */
    struct sw_plan *inner; /* owned */
};

static struct bridged *bridged_of(struct sw_plan *p)
{
    return (struct bridged *)(void *)p;
}

static void list(const struct sw_plan *p, const struct sw_plan_args *a, struct sw_cuda_ferry *f)
{
    *f = (struct sw_cuda_ferry){.count = SW_PLAN_ARRAYS};
    sw_plan_list(a, f->device);
    sw_plan_bytes(p, f->bytes);
    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        f->bytes[i] = f->device[i] ? f->bytes[i] : 0; /* some are not used by a pass */
}

typedef int pass_fn(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err);

static int pass(struct sw_plan *p, const struct sw_plan_args *a, pass_fn *run, int first,
                int second, struct sw_err *err)
{
    struct sw_cuda_ferry f;

    list(p, a, &f);
    f.written[first] = f.written[second] = true;

    int rc = sw_cuda_ferry_out(p->stream, &f, err);
    if (rc != SW_OK)
        return rc;

    struct sw_plan_args host = sw_plan_args_of(f.host);
    rc = run(bridged_of(p)->inner, &host, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_ferry_back(p->stream, &f, err);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return pass(p, a, bridged_of(p)->inner->ops->forward, SW_PLAN_DST, SW_PLAN_SAVED, err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return pass(p, a, bridged_of(p)->inner->ops->backward_data, SW_PLAN_DIFF_SRC, SW_PLAN_DIFF_SRC,
                err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return pass(p, a, bridged_of(p)->inner->ops->backward_weights, SW_PLAN_DIFF_WEIGHT,
                SW_PLAN_DIFF_BIAS, err);
}

static void free_plan(struct sw_plan *p)
{
    struct bridged *b = bridged_of(p);
    sw_plan_free(b->inner);
    sw_stream_free(b->cpu);
    sw_free(b);
}

static const struct sw_plan_ops ops = {.forward = forward,
                                       .backward_data = backward_data,
                                       .backward_weights = backward_weights,
                                       .free = free_plan};

int sw_cuda_bridge_convolution(const struct sw_plan_request *q, struct sw_plan **out,
                               struct sw_err *err)
{
    struct sw_plan_request host = *q;
    struct sw_device *cpu = sw_cuda_device_of(q->stream->dev)->cpu;
    struct bridged *b = sw_calloc(1, sizeof *b);
    if (!b)
        return sw_err_nomem(err, "a convolution plan", sizeof *b);

    int rc = sw_stream_new(cpu, 1, &b->cpu, err);
    if (rc != SW_OK)
        goto fail;
    host.stream = b->cpu;
    rc = sw_plan_new(&host, &b->inner, err);
    if (rc != SW_OK)
        goto fail;

    b->base = *b->inner;
    b->base.ops = &ops;
    b->base.stream = q->stream;
    snprintf(b->base.algorithm, sizeof b->base.algorithm, "cpu:%.58s", b->inner->algorithm);
    *out = &b->base;
    return SW_OK;

fail:
    free_plan(&b->base);
    return rc;
}
