/* A recurrent cell over a sequence, on the CPU. Matrix products are divided into tiles of fixed
 * size, so that results do not depend on the number of threads; one thread computes a tile of
 * hidden units in all steps. One product computes the contribution of the input for all steps
 * before the first step, and weight gradients are one product after the last step. */
#include "kernels/ops/recurrent.h"
#include "device/cpu/rounded.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum { UNIT_TILE = 128, ROW_TILE = 256, COLUMN_TILE = 256 };

static int64_t tiles_of(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Offsets and strides, for forward and backward. */
struct shape {
    const struct sw_recurrent *r;
    enum sw_precision precision; /* of products */
    int64_t gates, biases, kept; /* floats of a step: blocks times hidden */
    int64_t tiles;
};

static struct shape shape_of(const struct sw_recurrent *r, enum sw_precision precision)
{
    return (struct shape){.r = r,
                          .precision = precision,
                          .gates = sw_cell_gates(r->kind) * r->hidden,
                          .biases = sw_cell_biases(r->kind) * r->hidden,
                          .kept = sw_cell_saved(r->kind) * r->hidden,
                          .tiles = tiles_of(r->hidden, UNIT_TILE)};
}

/* ---- Forward ---- */

/* Computes a tile of x W^T of all steps; with gru the candidate's input product comes before its
 * recurrent product. */
static void inputs_tile(const struct sw_recurrent_args *a, const struct shape *p, int64_t i)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t all = r->rows * r->steps, across = tiles_of(p->gates, COLUMN_TILE);
    const int64_t row = i / across * ROW_TILE, column = i % across * COLUMN_TILE;

    sw_cpu_gemm(p->precision,
                sw_product_of(at_most(all - row, ROW_TILE), at_most(p->gates - column, COLUMN_TILE),
                              r->inputs, sw_stored(a->x + row * r->inputs, r->inputs),
                              sw_transposed(a->weight + column * r->inputs, r->inputs),
                              a->gates + row * p->kept + column, p->kept));
}

/* Sets h' and c' of the first step. */
static void begin_row(const struct sw_recurrent_args *a, bool goes_on, int64_t row)
{
    const struct sw_recurrent *r = &a->r;
    const size_t bytes = (size_t)r->hidden * sizeof(float);
    const float *from = goes_on ? a->h + row * r->hidden : a->h0 ? a->h0 + row * r->hidden : NULL;
    float *before = a->before + (row * r->steps + sw_recurrent_step(r, 0)) * r->hidden;

    if (from)
        memcpy(before, from, bytes);
    else
        memset(before, 0, bytes);

    if (a->r.kind != SW_CELL_LSTM || goes_on)
        return;

    if (a->c0)
        memcpy(a->c + row * r->hidden, a->c0 + row * r->hidden, bytes);
    else
        memset(a->c + row * r->hidden, 0, bytes);
}

/* Adds h' U^T of one step for a tile of units of every gate. */
static void recur(const struct sw_recurrent_args *a, const struct shape *p, int64_t t, int64_t unit,
                  int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const float *before = a->before + t * r->hidden;

    for (int64_t g = 0; g < sw_cell_gates(r->kind); g++) {
        /* gru keeps the two products of the candidate separate. */
        const bool alone = r->kind == SW_CELL_GRU && g == 2;
        sw_cpu_gemm(
            p->precision,
            sw_product_scaled(
                sw_product_of(
                    r->rows, units, r->hidden, sw_stored(before, r->steps * r->hidden),
                    sw_transposed(a->recurrent + (g * r->hidden + unit) * r->hidden, r->hidden),
                    a->gates + t * p->kept + (alone ? g + 1 : g) * r->hidden + unit,
                    r->steps * p->kept),
                1, alone ? 0 : 1));
    }
}

/* Copies the outputs of the s-th step to its readers: the state and the next layer. */
static void hand_over(const struct sw_recurrent_args *a, int64_t s, const float *h, int64_t pitch,
                      int64_t unit, int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const size_t bytes = (size_t)units * sizeof(float);
    const int64_t out = sw_recurrent_output(r, s);

    for (int64_t row = 0; row < r->rows; row++) {
        float *y = out < 0 ? NULL : a->y + row * sw_recurrent_output_pitch(r) + out + unit;
        if (y && y != h + row * pitch)
            memcpy(y, h + row * pitch, bytes);
        if (s == r->steps - 1 && a->h)
            memcpy(a->h + row * r->hidden + unit, h + row * pitch, bytes);
    }
}

static void forward_tile(const struct sw_recurrent_args *a, const struct shape *p, int64_t s,
                         int64_t tile)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t t = sw_recurrent_step(r, s), unit = tile * UNIT_TILE;
    const int64_t units = at_most(r->hidden - unit, UNIT_TILE);
    const bool ends = s == r->steps - 1;
    float *h = ends ? a->y + sw_recurrent_output(r, s) + unit
                    : a->before + sw_recurrent_step(r, s + 1) * r->hidden + unit;
    const int64_t pitch = ends ? sw_recurrent_output_pitch(r) : r->steps * r->hidden;

    recur(a, p, t, unit, units);
    sw_kernel_cell(&(struct sw_kernel_cell){
        .kind = r->kind,
        .rows = r->rows,
        .units = units,
        .hidden = r->hidden,
        .bias = a->bias + unit,
        .gates = a->gates + t * p->kept + unit,
        .gates_pitch = r->steps * p->kept,
        .before = a->before + t * r->hidden + unit,
        .before_pitch = r->steps * r->hidden,
        .c = a->c ? a->c + unit : NULL,
        .h = h,
        .h_pitch = pitch,
    });
    hand_over(a, s, h, pitch, unit, units);
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_recurrent_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, l->precision);
    const int64_t inputs = tiles_of(r->rows * r->steps, ROW_TILE) * tiles_of(p.gates, COLUMN_TILE);
    const bool goes_on = a->carried && !a->step->sequences_begin;

#pragma omp parallel num_threads(l->threads) if (l->threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < inputs; i++)
            inputs_tile(a, &p, i);

#pragma omp for schedule(static)
        for (int64_t row = 0; row < r->rows; row++)
            begin_row(a, goes_on, row);

        for (int64_t s = 0; s < r->steps; s++) {
#pragma omp for schedule(static)
            for (int64_t tile = 0; tile < p.tiles; tile++)
                forward_tile(a, &p, s, tile);
        }
    }

    return SW_OK;
}

static size_t output_bytes(const struct sw_recurrent *r)
{
    const int64_t places = r->last ? r->rows : r->rows * r->steps;
    return sw_op_floats((places - 1) * r->pitch + r->hidden);
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_recurrent_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, SW_PRECISION_FP32);
    const int64_t all = r->rows * r->steps;
    const size_t state = sw_op_floats(r->rows * r->hidden);

    SW_ARRAY(out, a, x, sw_op_floats(all * r->inputs));
    SW_ARRAY(out, a, weight, sw_op_floats(p.gates * r->inputs));
    SW_ARRAY(out, a, recurrent, sw_op_floats(p.gates * r->hidden));
    SW_ARRAY(out, a, bias, sw_op_floats(p.biases));
    SW_ARRAY_OR_NULL(out, a, h0, state);
    SW_ARRAY_OR_NULL(out, a, c0, state);
    SW_ARRAY_OR_NULL(out, a, h, state);
    SW_ARRAY_OR_NULL(out, a, c, state);
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, gates, sw_op_floats(all * p.kept));
    SW_ARRAY(out, a, before, sw_op_floats(all * r->hidden));
    SW_ARRAY(out, a, y, output_bytes(r));
}

const struct sw_op sw_op_recurrent = {"recurrent", sizeof(struct sw_recurrent_args), arrays,
                                      forward};

/* ---- Backward ---- */

/* Computes the gradients of a step's products for a tile of units; dh of the step is complete. */
static void gates_tile(const struct sw_recurrent_gradient_args *a, const struct shape *p, int64_t s,
                       int64_t unit, int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t t = sw_recurrent_step(r, s), out = sw_recurrent_output(r, s);

    sw_kernel_cell_back(&(struct sw_kernel_cell_back){
        .kind = r->kind,
        .rows = r->rows,
        .units = units,
        .hidden = r->hidden,
        .gates = a->gates + t * p->kept + unit,
        .gates_pitch = r->steps * p->kept,
        .before = a->before + t * r->hidden + unit,
        .before_pitch = r->steps * r->hidden,
        .dy = out < 0 ? NULL : a->dy + out + unit,
        .dy_pitch = sw_recurrent_output_pitch(r),
        .dh = a->dstate + unit,
        .dc = a->dstate + r->rows * r->hidden + unit,
        .dgates = a->dgates + t * p->biases + unit,
        .dgates_pitch = r->steps * p->biases,
    });
}

/* Computes dh of the previous step: dgates U, for a tile of units. */
static void back_through(const struct sw_recurrent_gradient_args *a, const struct shape *p,
                         int64_t s, int64_t unit, int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const float *d = a->dgates + sw_recurrent_step(r, s) * p->biases;
    const int64_t pitch = r->steps * p->biases;
    float *dh = a->dstate + unit;

    struct sw_product product =
        sw_product_of(r->rows, units, p->gates, sw_stored(d, pitch),
                      sw_stored(a->recurrent + unit, r->hidden), dh, r->hidden);

    if (r->kind == SW_CELL_GRU) {
        product.k = 2 * r->hidden;
        product.beta = 1;
    }

    sw_cpu_gemm(p->precision, product);
    if (r->kind != SW_CELL_GRU)
        return;

    product.k = r->hidden;
    product.a.at = d + 3 * r->hidden;
    product.b.at = a->recurrent + 2 * r->hidden * r->hidden + unit;
    sw_cpu_gemm(p->precision, product);
}

/* Propagates from step s + 1, whose gates are complete, to step s. */
static void backward_tile(const struct sw_recurrent_gradient_args *a, const struct shape *p,
                          int64_t s, int64_t tile)
{
    const int64_t unit = tile * UNIT_TILE, units = at_most(a->r.hidden - unit, UNIT_TILE);

    if (s < a->r.steps - 1)
        back_through(a, p, s + 1, unit, units);
    if (s >= 0)
        gates_tile(a, p, s, unit, units);
}

static void inputs_gradient(const struct sw_recurrent_gradient_args *a, const struct shape *p,
                            int64_t row)
{
    const struct sw_recurrent *r = &a->r;
    sw_cpu_gemm(
        p->precision,
        sw_product_scaled(sw_product_of(at_most(r->rows * r->steps - row, ROW_TILE), r->inputs,
                                        p->gates, sw_stored(a->dgates + row * p->biases, p->biases),
                                        sw_stored(a->weight, r->inputs), a->dx + row * r->inputs,
                                        r->inputs),
                          1, a->adds_dx ? 1 : 0));
}

/* Computes a tile of units of gate g: rows of both weight gradients, and the bias gradient. */
static void weights_gradient(const struct sw_recurrent_gradient_args *a, const struct shape *p,
                             int64_t i)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t g = i / p->tiles, unit = i % p->tiles * UNIT_TILE;
    const int64_t units = at_most(r->hidden - unit, UNIT_TILE), all = r->rows * r->steps;
    const int64_t row = g * r->hidden + unit;
    const bool candidate = r->kind == SW_CELL_GRU && g == 2;
    const float *d = a->dgates + row;

    sw_cpu_gemm(p->precision,
                sw_product_scaled(sw_product_of(units, r->inputs, all, sw_transposed(d, p->biases),
                                                sw_stored(a->x, r->inputs),
                                                a->dweight + row * r->inputs, r->inputs),
                                  1, a->adds_dweight ? 1 : 0));
    sw_kernel_sum_columns(all, units, p->biases, d, a->dbias + row);

    if (candidate) {
        d += r->hidden;
        sw_kernel_sum_columns(all, units, p->biases, d, a->dbias + row + r->hidden);
    }

    sw_cpu_gemm(p->precision,
                sw_product_scaled(sw_product_of(units, r->hidden, all, sw_transposed(d, p->biases),
                                                sw_stored(a->before, r->hidden),
                                                a->drecurrent + row * r->hidden, r->hidden),
                                  1, a->adds_drecurrent ? 1 : 0));
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_recurrent_gradient_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, l->precision);
    const int64_t state = r->rows * r->hidden, all = r->rows * r->steps;
    const int64_t weights = a->dweight ? sw_cell_gates(r->kind) * p.tiles : 0;
    const int64_t first = a->dh0 || a->handed_on ? -1 : 0;

    if (!a->handed_on)
        sw_kernel_zero(l->threads, a->dstate, 2 * state * (int64_t)sizeof(float));

#pragma omp parallel num_threads(l->threads) if (l->threads > 1)
    {
        for (int64_t s = r->steps - 1; s >= first; s--) {
#pragma omp for schedule(static)
            for (int64_t tile = 0; tile < p.tiles; tile++)
                backward_tile(a, &p, s, tile);
        }

        if (a->dx) {
#pragma omp for schedule(static)
            for (int64_t row = 0; row < all; row += ROW_TILE)
                inputs_gradient(a, &p, row);
        }

#pragma omp for schedule(static)
        for (int64_t i = 0; i < weights; i++)
            weights_gradient(a, &p, i);
    }

    if (a->dh0)
        sw_kernel_copy(l->threads, a->dh0, a->dstate, state * (int64_t)sizeof(float));
    return SW_OK;
}

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_recurrent_gradient_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, SW_PRECISION_FP32);
    const int64_t all = r->rows * r->steps, state = r->rows * r->hidden;
    const bool weights = a->dweight;

    SW_ARRAY(out, a, x, weights ? sw_op_floats(all * r->inputs) : 0);
    SW_ARRAY(out, a, weight, a->dx ? sw_op_floats(p.gates * r->inputs) : 0);
    SW_ARRAY(out, a, recurrent, sw_op_floats(p.gates * r->hidden));
    SW_ARRAY(out, a, gates, sw_op_floats(all * p.kept));
    SW_ARRAY(out, a, before, sw_op_floats(all * r->hidden));
    SW_ARRAY(out, a, dy, output_bytes(r));
    SW_ARRAY(out, a, dgates, sw_op_floats(all * p.biases));
    SW_ARRAY(out, a, dstate, sw_op_floats(2 * state));
    SW_ARRAY_OR_NULL(out, a, dx, sw_op_floats(all * r->inputs));
    SW_ARRAY_OR_NULL(out, a, dh0, sw_op_floats(state));
    SW_ARRAY(out, a, dweight, weights ? sw_op_floats(p.gates * r->inputs) : 0);
    SW_ARRAY(out, a, drecurrent, weights ? sw_op_floats(p.gates * r->hidden) : 0);
    SW_ARRAY(out, a, dbias, weights ? sw_op_floats(p.biases) : 0);
}

const struct sw_op sw_op_recurrent_gradient = {
    "recurrent_backward", sizeof(struct sw_recurrent_gradient_args), gradient_arrays, gradient};
