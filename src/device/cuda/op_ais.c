/* Annealed importance sampling (kernels/ops/ais.h): a step is two matrix products, each followed by
 * kernels. */
#include "device/cuda/libraries.h"
#include "device/cuda/ops.h"
#include "kernels/ops/ais.h"
#include <cuda_runtime_api.h>

static int check(struct sw_stream *s, int status, struct sw_err *err)
{
    return sw_cuda_check(sw_cuda_device_of(s->dev), status, "ais", err);
}

/* Samples the states of one side from the input of the other, in place. */
static int draw(struct sw_stream *s, const struct sw_ais_args *a, bool hidden, int64_t turn,
                const float *bias, struct sw_err *err)
{
    const struct sw_cuda_launch l = sw_cuda_launch_of(s);
    const struct sw_units_args u = {.units = hidden ? a->hidden_units : a->visible_units,
                                    .rows = a->rows,
                                    .columns = hidden ? a->hidden : a->visible,
                                    .x = hidden ? a->h : a->v,
                                    .bias = bias,
                                    .sample = hidden ? a->h : a->v,
                                    .key = sw_ais_key(a, hidden, turn),
                                    .step = a->step};

    return check(s, sw_cuda_units(&l, &u), err);
}

static int begin(struct sw_stream *s, const struct sw_ais_args *a, struct sw_err *err)
{
    const struct sw_cuda_launch l = sw_cuda_launch_of(s);
    int status = sw_cuda_ais_begin(a, &l);

    if (!status)
        status =
            (int)cudaMemsetAsync(a->v, 0, (size_t)(a->rows * a->visible) * sizeof *a->v, l.stream);

    int rc = check(s, status, err);
    if (rc != SW_OK)
        return rc;

    return draw(s, a, false, 0, a->base, err);
}

static int anneal(struct sw_stream *s, const struct sw_ais_args *a, int64_t k, struct sw_err *err)
{
    const struct sw_cuda_launch l = sw_cuda_launch_of(s);
    const struct sw_anneal_args visible = sw_ais_side(a, false, k),
                                hidden = sw_ais_side(a, true, k);
    const struct sw_product up =
        sw_product_of(a->rows, a->hidden, a->visible, sw_stored(a->v, a->visible),
                      sw_transposed(a->weight, a->visible), a->h, a->hidden);
    const struct sw_product down =
        sw_product_scaled(sw_product_of(a->rows, a->visible, a->hidden, sw_stored(a->h, a->hidden),
                                        sw_stored(a->weight, a->visible), a->v, a->visible),
                          hidden.to, 0);

    int rc = sw_cuda_multiply(s, &up, SW_CUDA_FLOAT_FACTORS, err);
    if (rc != SW_OK)
        return rc;
    rc = check(s, sw_cuda_anneal(&visible, &l), err);
    if (rc != SW_OK)
        return rc;
    rc = check(s, sw_cuda_anneal(&hidden, &l), err);
    if (rc != SW_OK)
        return rc;
    rc = draw(s, a, true, k + 1, hidden.blend, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_multiply(s, &down, SW_CUDA_FLOAT_FACTORS, err);
    if (rc != SW_OK)
        return rc;

    return draw(s, a, false, k + 1, visible.blend, err);
}

int sw_cuda_ais(struct sw_stream *s, const void *args, struct sw_err *err)
{
    const struct sw_ais_args *a = args;
    const struct sw_cuda_launch l = sw_cuda_launch_of(s);

    int rc = a->runs && a->first == 0 ? begin(s, a, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    for (int64_t k = a->first; k < a->last && a->runs; k++) {
        rc = anneal(s, a, k, err);
        if (rc != SW_OK)
            return rc;
    }

    return check(s, sw_cuda_ais_result(a, &l), err);
}
