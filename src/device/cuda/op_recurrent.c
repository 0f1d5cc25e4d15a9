/* A recurrent cell over a sequence, structured as device/ops/recurrent.c: one product computes the
 * contribution of the input for all steps before the first step, weight gradients are one product
 * after the last step, and a step is one product and one kernel.
 *
 * The recurrent products of gru have the columns r, z, q, those of the input r, z, n. While steps
 * run, the columns are therefore r, z, q, n, so that a step needs one product; before and after,
 * they are r, z, n, q, as other devices store them.
 *
 * One kernel runs all steps where U fits the shared memory of all blocks (sw_cuda_sequence). */
#include "device/cuda/cuda_calls.h"
#include "device/cuda/libraries.h"
#include "device/cuda/ops.h"
#include "kernels/ops/recurrent.h"
#include <cuda_runtime_api.h>

/* Floats of a step: blocks times hidden. */
struct widths {
    int64_t gates, biases, kept;
};

static struct widths widths_of(const struct sw_recurrent *r)
{
    return (struct widths){.gates = sw_cell_gates(r->kind) * r->hidden,
                           .biases = sw_cell_biases(r->kind) * r->hidden,
                           .kept = sw_cell_saved(r->kind) * r->hidden};
}

static int check(struct sw_stream *s, int status, struct sw_err *err)
{
    return sw_cuda_check(sw_cuda_device_of(s->dev), status, "recurrent", err);
}

static int multiply(struct sw_stream *s, const struct sw_product *p, struct sw_err *err)
{
    return sw_cuda_multiply(s, p, SW_CUDA_FLOAT_FACTORS, err);
}

/* ---- Forward ---- */

/* Adds h' U^T of one step to the part of the input. */
static int recur(struct sw_stream *s, const struct sw_recurrent_args *a, const struct widths *w,
                 int64_t t, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    const struct sw_product p =
        sw_product_scaled(sw_product_of(r->rows, w->gates, r->hidden,
                                        sw_stored(a->before + t * r->hidden, r->steps * r->hidden),
                                        sw_transposed(a->recurrent, r->hidden),
                                        a->gates + t * w->kept, r->steps * w->kept),
                          1, 1);

    return multiply(s, &p, err);
}

static int forward_step(struct sw_stream *s, const struct sw_recurrent_args *a,
                        const struct widths *w, struct sw_cuda_cell *k, int64_t run,
                        struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    struct sw_cuda_launch l = sw_cuda_launch_of(s);
    int64_t t = sw_recurrent_step(r, run), out = sw_recurrent_output(r, run);
    bool ends = run == r->steps - 1;

    int rc = recur(s, a, w, t, err);
    if (rc != SW_OK)
        return rc;

    k->gates = a->gates + t * w->kept;
    k->before = a->before + t * r->hidden;
    k->next = ends ? NULL : a->before + sw_recurrent_step(r, run + 1) * r->hidden;
    k->y = out < 0 ? NULL : a->y + out;
    k->h = ends ? a->h : NULL;

    return check(s, sw_cuda_cell_step(k, &l), err);
}

/* A kernel per step after the product with U. */
static int run_forward(struct sw_stream *s, const struct sw_recurrent_args *a,
                       const struct widths *w, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    struct sw_cuda_launch l = sw_cuda_launch_of(s);
    struct sw_cuda_cell k = {.kind = r->kind,
                             .rows = r->rows,
                             .hidden = r->hidden,
                             .bias = a->bias,
                             .gates_pitch = r->steps * w->kept,
                             .before_pitch = r->steps * r->hidden,
                             .c = r->kind == SW_CELL_LSTM ? a->c : NULL,
                             .y_pitch = sw_recurrent_output_pitch(r)};

    int rc = check(s, sw_cuda_cell_begin(a, &l), err);
    if (rc != SW_OK)
        return rc;

    for (int64_t run = 0; run < r->steps; run++) {
        rc = forward_step(s, a, w, &k, run, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_cuda_recurrent(struct sw_stream *s, const void *args, struct sw_err *err)
{
    const struct sw_recurrent_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct widths w = widths_of(r);
    struct sw_cuda_launch l = sw_cuda_launch_of(s);
    const struct sw_product inputs =
        sw_product_of(r->rows * r->steps, w.gates, r->inputs, sw_stored(a->x, r->inputs),
                      sw_transposed(a->weight, r->inputs), a->gates, w.kept);

    int rc = multiply(s, &inputs, err);
    if (rc != SW_OK)
        return rc;

    int status = sw_cuda_sequence(a, &l);
    return status == SW_CUDA_NO_KERNEL ? run_forward(s, a, &w, err) : check(s, status, err);
}

/* ---- Backward ---- */

/* Computes dh of the previous step: dgates U, plus the part that bypasses the gates of gru. */
static int back_through(struct sw_stream *s, const struct sw_recurrent_gradient_args *a,
                        const struct widths *w, int64_t t, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    const struct sw_product p =
        sw_product_scaled(sw_product_of(r->rows, r->hidden, w->gates,
                                        sw_stored(a->dgates + t * w->biases, r->steps * w->biases),
                                        sw_stored(a->recurrent, r->hidden), a->dstate, r->hidden),
                          1, r->kind == SW_CELL_GRU ? 1 : 0);

    return multiply(s, &p, err);
}

static int back_step(struct sw_stream *s, const struct sw_recurrent_gradient_args *a,
                     const struct widths *w, int64_t run, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    struct sw_cuda_launch l = sw_cuda_launch_of(s);
    int64_t t = sw_recurrent_step(r, run), out = sw_recurrent_output(r, run);
    const struct sw_cuda_cell_back k = {.kind = r->kind,
                                        .rows = r->rows,
                                        .hidden = r->hidden,
                                        .gates = a->gates + t * w->kept,
                                        .gates_pitch = r->steps * w->kept,
                                        .before = a->before + t * r->hidden,
                                        .before_pitch = r->steps * r->hidden,
                                        .dy = out < 0 ? NULL : a->dy + out,
                                        .dy_pitch = sw_recurrent_output_pitch(r),
                                        .dh = a->dstate,
                                        .dc = a->dstate + r->rows * r->hidden,
                                        .dgates = a->dgates + t * w->biases,
                                        .dgates_pitch = r->steps * w->biases};

    return check(s, sw_cuda_cell_step_back(&k, &l), err);
}

static int run_back(struct sw_stream *s, const struct sw_recurrent_gradient_args *a,
                    const struct widths *w, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    size_t state = (size_t)(r->rows * r->hidden) * sizeof(float);
    struct sw_cuda_launch l = sw_cuda_launch_of(s);

    int status = sw_cuda_sequence_back(a, &l);
    if (status != SW_CUDA_NO_KERNEL)
        return check(s, status, err);

    int rc = a->handed_on ? SW_OK : sw_cuda_fill_zero(s, a->dstate, 2 * state, err);
    if (rc != SW_OK)
        return rc;

    for (int64_t run = r->steps - 1; run >= 0; run--) {
        rc = back_step(s, a, w, run, err);
        if (rc != SW_OK)
            return rc;

        if (run > 0 || a->dh0 || a->handed_on) {
            rc = back_through(s, a, w, sw_recurrent_step(r, run), err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return a->dh0 ? sw_cuda_copy(s, a->dh0, a->dstate, state, err) : SW_OK;
}

static int inputs_gradient(struct sw_stream *s, const struct sw_recurrent_gradient_args *a,
                           const struct widths *w, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    const struct sw_product p = sw_product_scaled(
        sw_product_of(r->rows * r->steps, r->inputs, w->gates, sw_stored(a->dgates, w->biases),
                      sw_stored(a->weight, r->inputs), a->dx, r->inputs),
        1, a->adds_dx ? 1 : 0);

    return multiply(s, &p, err);
}

/* Computes dgates^T h', with the columns as steps wrote them. */
static int recurrent_gradient(struct sw_stream *s, const struct sw_recurrent_gradient_args *a,
                              const struct widths *w, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    const struct sw_product p = sw_product_scaled(
        sw_product_of(w->gates, r->hidden, r->rows * r->steps, sw_transposed(a->dgates, w->biases),
                      sw_stored(a->before, r->hidden), a->drecurrent, r->hidden),
        1, a->adds_drecurrent ? 1 : 0);

    return multiply(s, &p, err);
}

/* Computes dgates^T x and the sums of dgates. */
static int weights_gradient(struct sw_stream *s, const struct sw_recurrent_gradient_args *a,
                            const struct widths *w, struct sw_err *err)
{
    const struct sw_recurrent *r = &a->r;
    int64_t all = r->rows * r->steps;
    struct sw_cuda_launch l = sw_cuda_launch_of(s);
    const struct sw_product p = sw_product_scaled(
        sw_product_of(w->gates, r->inputs, all, sw_transposed(a->dgates, w->biases),
                      sw_stored(a->x, r->inputs), a->dweight, r->inputs),
        1, a->adds_dweight ? 1 : 0);

    int rc = multiply(s, &p, err);
    if (rc != SW_OK)
        return rc;

    return check(s, sw_cuda_sum_rows(all, w->biases, SW_F32, a->dgates, a->dbias, &l), err);
}

int sw_cuda_recurrent_gradient(struct sw_stream *s, const void *args, struct sw_err *err)
{
    const struct sw_recurrent_gradient_args *a = args;
    const struct widths w = widths_of(&a->r);
    struct sw_cuda_launch l = sw_cuda_launch_of(s);

    int rc = run_back(s, a, &w, err);
    if (rc != SW_OK)
        return rc;

    if (a->dweight) {
        rc = recurrent_gradient(s, a, &w, err);
        if (rc != SW_OK)
            return rc;
    }

    if (a->r.kind == SW_CELL_GRU) {
        rc = check(s, sw_cuda_cell_end_back(a, &l), err);
        if (rc != SW_OK)
            return rc;
    }

    if (a->dx) {
        rc = inputs_gradient(s, a, &w, err);
        if (rc != SW_OK)
            return rc;
    }

    return a->dweight ? weights_gradient(s, a, &w, err) : SW_OK;
}
