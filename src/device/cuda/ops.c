/* Runs operations: by a kernel of kernels/cuda, by a function of this folder that combines matrix
 * products and kernels, or, if there is neither (an unusual layout, or a user's operation), on the
 * host (bridge.c). */
#include "device/cuda/ops.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/libraries.h"
#include "kernels/ops/ais.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/recurrent.h"

static int gemm(struct sw_stream *s, const void *args, struct sw_err *err)
{
    const struct sw_gemm_args *g = args;
    const struct sw_product p = sw_product_scaled(
        sw_product_of(
            g->m, g->n, g->k, (struct sw_factor_matrix){g->a, g->trans_a ? g->m : g->k, g->trans_a},
            (struct sw_factor_matrix){g->b, g->trans_b ? g->k : g->n, g->trans_b}, g->c, g->n),
        g->alpha, g->beta);

    return sw_cuda_multiply(s, &p, g->exact ? SW_CUDA_EXACT_FACTORS : SW_CUDA_FLOAT_FACTORS, err);
}

static const struct composed {
    const struct sw_op *op;
    int (*run)(struct sw_stream *s, const void *args, struct sw_err *err);
} composed[] = {{&sw_op_gemm, gemm},
                {&sw_op_recurrent, sw_cuda_recurrent},
                {&sw_op_recurrent_gradient, sw_cuda_recurrent_gradient},
                {&sw_op_ais, sw_cuda_ais}};

static const struct sw_cuda_kernel *find(const struct sw_op *op)
{
    for (int f = 0; sw_cuda_kernels[f]; f++)
        for (const struct sw_cuda_kernel *k = sw_cuda_kernels[f]->row; k->op; k++)
            if (k->op == op)
                return k;

    return NULL;
}

/* Launches the kernels; stores an enum cudaError in *status, or SW_CUDA_NO_KERNEL. */
static int launch(struct sw_stream *stream, const struct sw_cuda_kernel *k, const void *args,
                  int *status, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    const size_t room = k && k->room ? k->room(args) : 0;

    *status = SW_CUDA_NO_KERNEL;
    if (!k || room > SW_CUDA_ROOM_BYTES)
        return SW_OK;

    int rc = k->room ? sw_cuda_need_room(s, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    struct sw_cuda_launch l = sw_cuda_launch_of(stream);
    *status = k->launch(&l, args);
    return SW_OK;
}

int sw_cuda_run(struct sw_stream *stream, const struct sw_op *op, const void *args,
                struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int status, rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++)
        if (composed[i].op == op)
            return composed[i].run(stream, args, err);

    rc = launch(stream, find(op), args, &status, err);
    if (rc != SW_OK)
        return rc;

    return status == SW_CUDA_NO_KERNEL ? sw_cuda_bridge(stream, op, args, err)
                                       : sw_cuda_check(s->device, status, op->name, err);
}

/* Checks for finite values. The result is in host memory that the kernel writes, so no copy is
 * needed. */
int sw_cuda_all_finite(struct sw_stream *stream, const float *x, int64_t n, bool *finite,
                       struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_stream_wait(stream, err); /* no other operation writes the result */
    if (rc != SW_OK)
        return rc;

    struct sw_cuda_launch l = sw_cuda_launch_of(stream);
    *s->finite_flag = 1;
    rc = sw_cuda_check(s->device, sw_cuda_find_non_finite(x, n, s->finite_flag_device, &l),
                       "all_finite", err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_stream_wait(stream, err);
    if (rc != SW_OK)
        return rc;

    *finite = *(volatile int *)s->finite_flag;
    return SW_OK;
}
