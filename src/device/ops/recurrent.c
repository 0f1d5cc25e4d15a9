/* The products are cut into tiles of fixed size, so that results do not depend on the team; a tile
 * of hidden units is one thread's in all steps. The input's part of all steps is one product ahead
 * of the run, weight gradients are one product behind it. */
#include "device/ops/recurrent.h"
#include "device/cpu/rounded.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

_Static_assert((int)SW_CELL_RNN_TANH == (int)SW_KERNEL_RNN_TANH &&
                   (int)SW_CELL_RNN_RELU == (int)SW_KERNEL_RNN_RELU &&
                   (int)SW_CELL_GRU == (int)SW_KERNEL_GRU &&
                   (int)SW_CELL_LSTM == (int)SW_KERNEL_LSTM,
               "the kernels' kinds");

enum { UNIT_TILE = 128, ROW_TILE = 256, COLUMN_TILE = 256 };

static int64_t tiles_of(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Where things lie, for both ways. */
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
                          .kept = sw_cell_kept(r->kind) * r->hidden,
                          .tiles = tiles_of(r->hidden, UNIT_TILE)};
}

/* The step that is run as the s-th. */
static int64_t step_at(const struct sw_recurrent *r, int64_t s)
{
    return r->reverse ? r->steps - 1 - s : s;
}

/* Output of a step, NULL where nobody sees it, and the floats from a row's to the next row's. */
static int64_t output_at(const struct sw_recurrent *r, int64_t s)
{
    return r->last ? (s == r->steps - 1 ? 0 : -1) : step_at(r, s) * r->pitch;
}

static int64_t output_pitch(const struct sw_recurrent *r)
{
    return r->last ? r->pitch : r->steps * r->pitch;
}

/* ---- Forward ---- */

/* x W^T of all steps; with gru the candidate's part stands before its recurrent one. */
static void inputs_tile(const struct sw_recurrent_args *a, const struct shape *p, int64_t i)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t all = r->rows * r->steps, across = tiles_of(p->gates, COLUMN_TILE);
    const int64_t row = i / across * ROW_TILE, column = i % across * COLUMN_TILE;
    sw_cpu_gemm(p->precision, false, true, at_most(all - row, ROW_TILE),
                at_most(p->gates - column, COLUMN_TILE), r->inputs, 1, a->x + row * r->inputs,
                r->inputs, a->weight + column * r->inputs, r->inputs, 0,
                a->gates + row * p->kept + column, p->kept);
}

/* h' and c' of the first step. */
static void begin_row(const struct sw_recurrent_args *a, bool goes_on, int64_t row)
{
    const struct sw_recurrent *r = &a->r;
    const size_t bytes = (size_t)r->hidden * sizeof(float);
    const float *from = goes_on ? a->h + row * r->hidden : a->h0 ? a->h0 + row * r->hidden : NULL;
    float *before = a->before + (row * r->steps + step_at(r, 0)) * r->hidden;
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

/* h' U^T of one step, for a tile of units of every gate. */
static void recur(const struct sw_recurrent_args *a, const struct shape *p, int64_t t, int64_t unit,
                  int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const float *before = a->before + t * r->hidden;
    for (int64_t g = 0; g < sw_cell_gates(r->kind); g++) {
        /* gru keeps the candidate's two products apart. */
        const bool alone = r->kind == SW_CELL_GRU && g == 2;
        sw_cpu_gemm(
            p->precision, false, true, r->rows, units, r->hidden, 1, before, r->steps * r->hidden,
            a->recurrent + (g * r->hidden + unit) * r->hidden, r->hidden, alone ? 0 : 1,
            a->gates + t * p->kept + (alone ? g + 1 : g) * r->hidden + unit, r->steps * p->kept);
    }
}

/* The s-th step's outputs go to where they are read: the next step, the state, above. */
static void hand_over(const struct sw_recurrent_args *a, int64_t s, const float *h, int64_t pitch,
                      int64_t unit, int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const size_t bytes = (size_t)units * sizeof(float);
    const int64_t out = output_at(r, s);
    for (int64_t row = 0; row < r->rows; row++) {
        float *y = out < 0 ? NULL : a->y + row * output_pitch(r) + out + unit;
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
    const int64_t t = step_at(r, s), unit = tile * UNIT_TILE;
    const int64_t units = at_most(r->hidden - unit, UNIT_TILE);
    const bool ends = s == r->steps - 1;
    float *h =
        ends ? a->y + output_at(r, s) + unit : a->before + step_at(r, s + 1) * r->hidden + unit;
    const int64_t pitch = ends ? output_pitch(r) : r->steps * r->hidden;
    recur(a, p, t, unit, units);
    sw_kernel_cell(&(struct sw_kernel_cell){
        .kind = (enum sw_kernel_cell_kind)r->kind,
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

static int forward_products(int threads, enum sw_precision precision, const void *args,
                            struct sw_err *err)
{
    const struct sw_recurrent_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, precision);
    const int64_t inputs = tiles_of(r->rows * r->steps, ROW_TILE) * tiles_of(p.gates, COLUMN_TILE);
    const bool goes_on = a->carried && !a->step->sequences_begin;
    (void)err;
#pragma omp parallel num_threads(threads) if (threads > 1)
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

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    return forward_products(threads, SW_PRECISION_FP32, args, err);
}

static size_t output_bytes(const struct sw_recurrent *r)
{
    const int64_t places = r->last ? r->rows : r->rows * r->steps;
    return sw_op_floats((places - 1) * r->pitch + r->hidden);
}

static void forward_spans(const void *args, size_t *bytes)
{
    const struct sw_recurrent_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, SW_PRECISION_FP32);
    const int64_t all = r->rows * r->steps;
    bytes[0] = sw_op_floats(all * r->inputs);
    bytes[1] = sw_op_floats(p.gates * r->inputs);
    bytes[2] = sw_op_floats(p.gates * r->hidden);
    bytes[3] = sw_op_floats(p.biases);
    bytes[4] = a->h0 ? sw_op_floats(r->rows * r->hidden) : 0;
    bytes[5] = a->c0 ? sw_op_floats(r->rows * r->hidden) : 0;
    bytes[6] = a->h ? sw_op_floats(r->rows * r->hidden) : 0;
    bytes[7] = a->c ? sw_op_floats(r->rows * r->hidden) : 0;
    bytes[8] = sizeof *a->step;
    bytes[9] = sw_op_floats(all * p.kept);
    bytes[10] = sw_op_floats(all * r->hidden);
    bytes[11] = output_bytes(r);
}

static const struct sw_op_pointer forward_pointers[] = {
    SW_OP_POINTER(struct sw_recurrent_args, x),
    SW_OP_POINTER(struct sw_recurrent_args, weight),
    SW_OP_POINTER(struct sw_recurrent_args, recurrent),
    SW_OP_POINTER(struct sw_recurrent_args, bias),
    SW_OP_POINTER(struct sw_recurrent_args, h0),
    SW_OP_POINTER(struct sw_recurrent_args, c0),
    SW_OP_POINTER(struct sw_recurrent_args, h),
    SW_OP_POINTER(struct sw_recurrent_args, c),
    SW_OP_POINTER(struct sw_recurrent_args, step),
    SW_OP_POINTER(struct sw_recurrent_args, gates),
    SW_OP_POINTER(struct sw_recurrent_args, before),
    SW_OP_POINTER(struct sw_recurrent_args, y),
    {0},
};

const struct sw_op sw_op_recurrent = {
    .name = "recurrent",
    .args_bytes = sizeof(struct sw_recurrent_args),
    .pointers = forward_pointers,
    .spans = forward_spans,
    .cpu = forward_cpu,
    .products = forward_products,
};

/* ---- Backward ---- */

/* Gradients of a step's products, for a tile of units; dh of the step is complete. */
static void gates_tile(const struct sw_recurrent_gradient_args *a, const struct shape *p, int64_t s,
                       int64_t unit, int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t t = step_at(r, s), out = output_at(r, s);
    sw_kernel_cell_back(&(struct sw_kernel_cell_back){
        .kind = (enum sw_kernel_cell_kind)r->kind,
        .rows = r->rows,
        .units = units,
        .hidden = r->hidden,
        .gates = a->gates + t * p->kept + unit,
        .gates_pitch = r->steps * p->kept,
        .before = a->before + t * r->hidden + unit,
        .before_pitch = r->steps * r->hidden,
        .dy = out < 0 ? NULL : a->dy + out + unit,
        .dy_pitch = output_pitch(r),
        .dh = a->dstate + unit,
        .dc = a->dstate + r->rows * r->hidden + unit,
        .dgates = a->dgates + t * p->biases + unit,
        .dgates_pitch = r->steps * p->biases,
    });
}

/* dh of the step before: dgates U, for a tile of units. */
static void back_through(const struct sw_recurrent_gradient_args *a, const struct shape *p,
                         int64_t s, int64_t unit, int64_t units)
{
    const struct sw_recurrent *r = &a->r;
    const float *d = a->dgates + step_at(r, s) * p->biases;
    const int64_t pitch = r->steps * p->biases;
    float *dh = a->dstate + unit;
    if (r->kind != SW_CELL_GRU) {
        sw_cpu_gemm(p->precision, false, false, r->rows, units, p->gates, 1, d, pitch,
                    a->recurrent + unit, r->hidden, 0, dh, r->hidden);
        return;
    }
    sw_cpu_gemm(p->precision, false, false, r->rows, units, 2 * r->hidden, 1, d, pitch,
                a->recurrent + unit, r->hidden, 1, dh, r->hidden);
    sw_cpu_gemm(p->precision, false, false, r->rows, units, r->hidden, 1, d + 3 * r->hidden, pitch,
                a->recurrent + 2 * r->hidden * r->hidden + unit, r->hidden, 1, dh, r->hidden);
}

/* From step s + 1, whose gates are done everywhere, to step s. */
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
    sw_cpu_gemm(p->precision, false, false, at_most(r->rows * r->steps - row, ROW_TILE), r->inputs,
                p->gates, 1, a->dgates + row * p->biases, p->biases, a->weight, r->inputs,
                a->adds_dx ? 1 : 0, a->dx + row * r->inputs, r->inputs);
}

/* A tile of units of gate g: rows of both weight gradients, and its biases. */
static void weights_gradient(const struct sw_recurrent_gradient_args *a, const struct shape *p,
                             int64_t i)
{
    const struct sw_recurrent *r = &a->r;
    const int64_t g = i / p->tiles, unit = i % p->tiles * UNIT_TILE;
    const int64_t units = at_most(r->hidden - unit, UNIT_TILE), all = r->rows * r->steps;
    const int64_t row = g * r->hidden + unit;
    const bool candidate = r->kind == SW_CELL_GRU && g == 2;
    const float *d = a->dgates + row;
    sw_cpu_gemm(p->precision, true, false, units, r->inputs, all, 1, d, p->biases, a->x, r->inputs,
                a->adds_dweight ? 1 : 0, a->dweight + row * r->inputs, r->inputs);
    sw_kernel_sum_columns(all, units, p->biases, d, a->dbias + row);
    if (candidate) {
        d += r->hidden;
        sw_kernel_sum_columns(all, units, p->biases, d, a->dbias + row + r->hidden);
    }
    sw_cpu_gemm(p->precision, true, false, units, r->hidden, all, 1, d, p->biases, a->before,
                r->hidden, a->adds_drecurrent ? 1 : 0, a->drecurrent + row * r->hidden, r->hidden);
}

static int gradient_products(int threads, enum sw_precision precision, const void *args,
                             struct sw_err *err)
{
    const struct sw_recurrent_gradient_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, precision);
    const int64_t state = r->rows * r->hidden, all = r->rows * r->steps;
    const int64_t weights = a->dweight ? sw_cell_gates(r->kind) * p.tiles : 0;
    (void)err;
    const int64_t first = a->dh0 || a->handed_on ? -1 : 0;
    if (!a->handed_on)
        sw_kernel_zero(threads, a->dstate, 2 * state * (int64_t)sizeof(float));
#pragma omp parallel num_threads(threads) if (threads > 1)
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
        sw_kernel_copy(threads, a->dh0, a->dstate, state * (int64_t)sizeof(float));
    return SW_OK;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    return gradient_products(threads, SW_PRECISION_FP32, args, err);
}

static void gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_recurrent_gradient_args *a = args;
    const struct sw_recurrent *r = &a->r;
    const struct shape p = shape_of(r, SW_PRECISION_FP32);
    const int64_t all = r->rows * r->steps, state = r->rows * r->hidden;
    bytes[0] = a->dweight ? sw_op_floats(all * r->inputs) : 0;
    bytes[1] = a->dx ? sw_op_floats(p.gates * r->inputs) : 0;
    bytes[2] = sw_op_floats(p.gates * r->hidden);
    bytes[3] = sw_op_floats(all * p.kept);
    bytes[4] = sw_op_floats(all * r->hidden);
    bytes[5] = output_bytes(r);
    bytes[6] = sw_op_floats(all * p.biases);
    bytes[7] = sw_op_floats(2 * state);
    bytes[8] = a->dx ? sw_op_floats(all * r->inputs) : 0;
    bytes[9] = a->dh0 ? sw_op_floats(state) : 0;
    bytes[10] = a->dweight ? sw_op_floats(p.gates * r->inputs) : 0;
    bytes[11] = a->dweight ? sw_op_floats(p.gates * r->hidden) : 0;
    bytes[12] = a->dweight ? sw_op_floats(p.biases) : 0;
}

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_recurrent_gradient_args, x),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, weight),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, recurrent),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, gates),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, before),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dy),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dgates),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dstate),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dx),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dh0),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dweight),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, drecurrent),
    SW_OP_POINTER(struct sw_recurrent_gradient_args, dbias),
    {0},
};

const struct sw_op sw_op_recurrent_gradient = {
    .name = "recurrent_backward",
    .args_bytes = sizeof(struct sw_recurrent_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
    .products = gradient_products,
};
