#include "device/ops/unit_kernels.h"
#include <math.h>

/* ---- Means and samples ---- */

static void units_spans(const void *args, size_t *bytes)
{
    const struct sw_units_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->columns);
    bytes[1] = a->bias ? sw_op_floats(a->columns) : 0;
    bytes[2] = a->total ? sw_op_floats(a->rows) : 0;
    bytes[3] = a->carried ? bytes[0] : 0;
    bytes[4] = a->mean ? bytes[0] : 0;
    bytes[5] = a->sample ? bytes[0] : 0;
    bytes[6] = a->units == SW_UNITS_SOFTMAX ? bytes[0] : 0;
    bytes[7] = sizeof *a->step;
}

static int units_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_units_args *a = args;
    const bool goes_on = a->carried && !a->step->chains_begin;
    struct sw_kernel_units k = sw_units_kernel(a);
    k.sample = goes_on ? NULL : a->sample;
    k.step = a->step->step;
    k.first_row = (uint32_t)a->step->first_row;
    (void)err;
    sw_kernel_units(threads, &k);
    if (goes_on)
        sw_kernel_copy(threads, a->sample, a->carried, (int64_t)sw_op_matrix(a->rows, a->columns));
    return SW_OK;
}

static const struct sw_op_pointer units_pointers[] = {
    SW_OP_POINTER(struct sw_units_args, x),
    SW_OP_POINTER(struct sw_units_args, bias),
    SW_OP_POINTER(struct sw_units_args, total),
    SW_OP_POINTER(struct sw_units_args, carried),
    SW_OP_POINTER(struct sw_units_args, mean),
    SW_OP_POINTER(struct sw_units_args, sample),
    SW_OP_POINTER(struct sw_units_args, share),
    SW_OP_POINTER(struct sw_units_args, step),
    {0},
};

const struct sw_op sw_op_units = {
    .name = "units",
    .args_bytes = sizeof(struct sw_units_args),
    .pointers = units_pointers,
    .spans = units_spans,
    .cpu = units_cpu,
};

/* ---- Energies ---- */

static void energy_spans(const void *args, size_t *bytes)
{
    const struct sw_unit_energy_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->columns);
    bytes[1] = sw_op_floats(a->columns);
    bytes[2] = a->total ? sw_op_floats(a->rows) : 0;
    bytes[3] = (size_t)a->rows * sizeof *a->energy;
    bytes[4] = a->result ? sizeof *a->result : 0;
    bytes[5] = sizeof *a->step;
}

static int energy_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_unit_energy_args *a = args;
    const struct sw_kernel_unit_energy k = sw_unit_energy_kernel(a);
    const int64_t valid = sw_op_valid_rows(a->step, a->rows);
    double sum = 0;
    (void)err;
    sw_kernel_unit_energy(threads, &k);
    if (!a->result)
        return SW_OK;
    for (int64_t r = 0; r < valid; r++)
        sum += a->energy[r];
    *a->result = (struct sw_result){.sum = (a->more ? a->result->sum : 0) + a->factor * sum,
                                    .weight = a->part ? 0 : (double)valid};
    return SW_OK;
}

static const struct sw_op_pointer energy_pointers[] = {
    SW_OP_POINTER(struct sw_unit_energy_args, x),
    SW_OP_POINTER(struct sw_unit_energy_args, bias),
    SW_OP_POINTER(struct sw_unit_energy_args, total),
    SW_OP_POINTER(struct sw_unit_energy_args, energy),
    SW_OP_POINTER(struct sw_unit_energy_args, result),
    SW_OP_POINTER(struct sw_unit_energy_args, step),
    {0},
};

const struct sw_op sw_op_unit_energy = {
    .name = "unit_energy",
    .args_bytes = sizeof(struct sw_unit_energy_args),
    .pointers = energy_pointers,
    .spans = energy_spans,
    .cpu = energy_cpu,
};

/* ---- One unit turned over ---- */

static void flip_spans(const void *args, size_t *bytes)
{
    const struct sw_flip_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->visible);
    bytes[1] = sw_op_matrix(a->rows, a->hidden);
    bytes[2] = sw_op_matrix(a->hidden, a->visible);
    bytes[3] = sw_op_floats(a->hidden);
    bytes[4] = sw_op_floats(a->visible);
    bytes[5] = (size_t)a->rows * sizeof *a->rise;
    bytes[6] = sizeof *a->step;
    bytes[7] = sizeof *a->result;
}

static int flip_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_flip_args *a = args;
    struct sw_kernel_flip k = sw_flip_kernel(a);
    const int64_t valid = sw_op_valid_rows(a->step, a->rows);
    double sum = 0;
    (void)err;
    k.step = a->step->step;
    k.first_row = (uint32_t)a->step->first_row;
    sw_kernel_flip(threads, &k);
    /* log sigma(d) = -log(1 + exp -d) */
    for (int64_t r = 0; r < valid; r++)
        sum -= fmax(-a->rise[r], 0) + log1p(exp(-fabs(a->rise[r])));
    *a->result = (struct sw_result){.sum = (double)a->visible * sum, .weight = (double)valid};
    return SW_OK;
}

static const struct sw_op_pointer flip_pointers[] = {
    SW_OP_POINTER(struct sw_flip_args, v),
    SW_OP_POINTER(struct sw_flip_args, x),
    SW_OP_POINTER(struct sw_flip_args, weight),
    SW_OP_POINTER(struct sw_flip_args, bias),
    SW_OP_POINTER(struct sw_flip_args, visible_bias),
    SW_OP_POINTER(struct sw_flip_args, rise),
    SW_OP_POINTER(struct sw_flip_args, step),
    SW_OP_POINTER(struct sw_flip_args, result),
    {0},
};

const struct sw_op sw_op_flip = {
    .name = "flip",
    .args_bytes = sizeof(struct sw_flip_args),
    .pointers = flip_pointers,
    .spans = flip_spans,
    .cpu = flip_cpu,
};

/* ---- Sums ---- */

static void row_sums_spans(const void *args, size_t *bytes)
{
    const struct sw_row_sums_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->columns);
    bytes[1] = sw_op_floats(a->rows);
}

static int row_sums_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_row_sums_args *a = args;
    (void)err;
    sw_kernel_row_sums(threads, a->rows, a->columns, a->x, a->sum);
    return SW_OK;
}

static const struct sw_op_pointer row_sums_pointers[] = {
    SW_OP_POINTER(struct sw_row_sums_args, x),
    SW_OP_POINTER(struct sw_row_sums_args, sum),
    {0},
};

const struct sw_op sw_op_row_sums = {
    .name = "row_sums",
    .args_bytes = sizeof(struct sw_row_sums_args),
    .pointers = row_sums_pointers,
    .spans = row_sums_spans,
    .cpu = row_sums_cpu,
};

static void two_sums_spans(const void *args, size_t *bytes)
{
    const struct sw_two_sums_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->columns);
    bytes[1] = sw_op_floats(a->columns);
}

static int two_sums_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_two_sums_args *a = args;
    (void)threads, (void)err;
    sw_kernel_two_sums(a->rows, a->first_rows, a->columns, a->first_factor, a->shift, a->x, a->sum);
    return SW_OK;
}

static const struct sw_op_pointer two_sums_pointers[] = {
    SW_OP_POINTER(struct sw_two_sums_args, x),
    SW_OP_POINTER(struct sw_two_sums_args, sum),
    {0},
};

const struct sw_op sw_op_two_sums = {
    .name = "two_sums",
    .args_bytes = sizeof(struct sw_two_sums_args),
    .pointers = two_sums_pointers,
    .spans = two_sums_spans,
    .cpu = two_sums_cpu,
};
