/* Which kernel computes which operation. What has none, because it is new, an odd layout or a
 * user's own, is computed on the host (bridge.c). */
#include "device/cuda/ops.h"
#include "device/cuda/libraries.h"
#include "device/ops/linear.h"
#include <cuda_runtime_api.h>

static int run_gemm(struct sw_stream *s, const void *args, struct sw_err *err)
{
    const struct sw_gemm_args *g = args;
    const struct sw_cuda_product p = {.exact = g->exact,
                                      .trans_a = g->trans_a,
                                      .trans_b = g->trans_b,
                                      .m = g->m,
                                      .n = g->n,
                                      .k = g->k,
                                      .lda = g->trans_a ? g->m : g->k,
                                      .ldb = g->trans_b ? g->k : g->n,
                                      .ldc = g->n,
                                      .alpha = g->alpha,
                                      .beta = g->beta,
                                      .a = g->a,
                                      .b = g->b,
                                      .c = g->c};
    return sw_cuda_multiply_matrices(s, &p, err);
}

static const struct sw_cuda_op gemm[] = {{.op = &sw_op_gemm, .run = run_gemm}, {0}};

static const struct sw_cuda_op *find(const struct sw_op *op)
{
    static const struct sw_cuda_op *const tables[] = {gemm,
                                                      sw_cuda_array_ops,
                                                      sw_cuda_feature_ops,
                                                      sw_cuda_row_ops,
                                                      sw_cuda_recurrent_ops,
                                                      sw_cuda_unit_ops,
                                                      sw_cuda_ais_ops};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct sw_cuda_op *o = tables[t]; o->op; o++)
            if (o->op == op)
                return o;
    return NULL;
}

int sw_cuda_run(struct sw_stream *stream, const struct sw_op *op, const void *args,
                struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_cuda_op *o = find(op);
    if (o && o->run)
        return o->run(stream, args, err);
    struct sw_cuda_launch l = sw_cuda_launch_of(stream);
    int answer = o ? o->launch(&l, args) : SW_CUDA_NO_KERNEL;
    return answer == SW_CUDA_NO_KERNEL ? sw_cuda_bridge(stream, op, args, err)
                                       : sw_cuda_check(s->device, answer, op->name, err);
}

/* The answer lies in host memory that the kernel sees, so that nothing needs to be copied. */
int sw_cuda_all_finite(struct sw_stream *stream, const float *x, int64_t n, bool *finite,
                       struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    int rc = sw_cuda_stream_wait(stream, err); /* nobody else writes the answer */
    if (rc != SW_OK)
        return rc;
    struct sw_cuda_launch l = sw_cuda_launch_of(stream);
    *s->answer = 1;
    rc = sw_cuda_check(s->device, sw_cuda_find_non_finite(x, n, s->answer_there, &l), "all_finite",
                       err);
    if (rc == SW_OK)
        rc = sw_cuda_stream_wait(stream, err);
    if (rc == SW_OK)
        *finite = *(volatile int *)s->answer;
    return rc;
}
