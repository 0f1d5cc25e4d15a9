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

/* In the order of struct sw_plan_args. */
enum { SRC, WEIGHT, BIAS, DST, DIFF_DST, DIFF_SRC, DIFF_WEIGHT, DIFF_BIAS, SAVED, SCRATCH, ARRAYS };

static size_t bytes_of(const struct sw_desc *d)
{
    return d->ndim ? sw_desc_bytes(d) : 0;
}

static void list(const struct sw_plan *p, const struct sw_plan_args *a, struct sw_cuda_ferry *f)
{
    const size_t src = bytes_of(&p->src), weight = bytes_of(&p->weight), bias = bytes_of(&p->bias),
                 dst = bytes_of(&p->dst);
    const size_t bytes[ARRAYS] = {
        src, weight, bias, dst, dst, src, weight, bias, p->saved_bytes, p->scratch_bytes};
    const void *const arrays[ARRAYS] = {a->src,      a->weight,   a->bias,        a->dst,
                                        a->diff_dst, a->diff_src, a->diff_weight, a->diff_bias,
                                        a->saved,    a->scratch};

    *f = (struct sw_cuda_ferry){.count = ARRAYS};
    for (int i = 0; i < ARRAYS; i++) {
        f->device[i] = (void *)arrays[i];
        f->bytes[i] = arrays[i] ? bytes[i] : 0; /* some are not used by a pass */
    }
}

static struct sw_plan_args host_args(const struct sw_cuda_ferry *f)
{
    return (struct sw_plan_args){.src = f->host[SRC],
                                 .weight = f->host[WEIGHT],
                                 .bias = f->host[BIAS],
                                 .dst = f->host[DST],
                                 .diff_dst = f->host[DIFF_DST],
                                 .diff_src = f->host[DIFF_SRC],
                                 .diff_weight = f->host[DIFF_WEIGHT],
                                 .diff_bias = f->host[DIFF_BIAS],
                                 .saved = f->host[SAVED],
                                 .scratch = f->host[SCRATCH]};
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

    struct sw_plan_args host = host_args(&f);
    rc = run(bridged_of(p)->inner, &host, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_ferry_back(p->stream, &f, err);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return pass(p, a, bridged_of(p)->inner->ops->forward, DST, SAVED, err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return pass(p, a, bridged_of(p)->inner->ops->backward_data, DIFF_SRC, DIFF_SRC, err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return pass(p, a, bridged_of(p)->inner->ops->backward_weights, DIFF_WEIGHT, DIFF_BIAS, err);
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

int sw_cuda_bridge_convolution(struct sw_stream *s, const struct sw_desc *src,
                               const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                               struct sw_plan **out, struct sw_err *err)
{
    struct sw_device *cpu = sw_cuda_device_of(s->dev)->cpu;
    struct bridged *b = sw_calloc(1, sizeof *b);
    if (!b)
        return sw_err_nomem(err, "a convolution plan", sizeof *b);

    int rc = sw_stream_new(cpu, 1, &b->cpu, err);
    if (rc != SW_OK)
        goto fail;
    rc = cpu->ops->plans->convolution(b->cpu, src, shape, passes, &b->inner, err);
    if (rc != SW_OK)
        goto fail;

    b->base = *b->inner;
    b->base.ops = &ops;
    b->base.stream = s;
    snprintf(b->base.algorithm, sizeof b->base.algorithm, "cpu:%.58s", b->inner->algorithm);
    *out = &b->base;
    return SW_OK;

fail:
    free_plan(&b->base);
    return rc;
}
