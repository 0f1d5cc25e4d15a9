#include "device/ops/ais.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <string.h>

/* Rows that one thread anneals: fixed, so that products are cut by shape alone. */
enum { ROWS = 64 };

double sw_ais_beta(int64_t done, int64_t all)
{
    static const struct {
        double share, beta;
    } bend[] = {{0, 0}, {1.0 / 29, 0.5}, {9.0 / 29, 0.9}, {1, 1}};
    double at = (double)done / (double)all;
    int i = at <= bend[1].share ? 0 : at <= bend[2].share ? 1 : 2;
    double part = (at - bend[i].share) / (bend[i + 1].share - bend[i].share);
    return done == all ? 1 : bend[i].beta + part * (bend[i + 1].beta - bend[i].beta);
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* log Z of the machine without weights. */
static double log_z_without(const struct sw_ais_args *a)
{
    const double half_log_2pi = 0.91893853320467274;
    double sum = 0;
    for (int64_t i = 0; i < a->visible; i++)
        sum += a->visible_units == SW_UNITS_GAUSSIAN ? half_log_2pi
                                                     : softplus((double)a->visible_bias[i]);
    for (int64_t j = 0; j < a->hidden && a->hidden_units == SW_UNITS_BERNOULLI; j++)
        sum += softplus((double)a->bias[j]);
    return sum;
}

/* One side's states from what the other gives, in its place. turn: a number for each draw. */
static void draw(const struct sw_ais_args *a, bool hidden, int64_t turn, int64_t row, int64_t rows)
{
    float *x = hidden ? a->h + row * a->hidden : a->v + row * a->visible;
    const struct sw_kernel_units u = {.units = hidden ? a->hidden_units : a->visible_units,
                                      .rows = rows,
                                      .columns = hidden ? a->hidden : a->visible,
                                      .x = x,
                                      .bias = hidden ? a->bias : a->visible_bias,
                                      .sample = x,
                                      .key = sw_ais_key(a, hidden, turn),
                                      .step = a->step->step,
                                      .first_row = (uint32_t)(a->step->first_row + row)};
    sw_kernel_units(1, &u);
}

static void begin(const struct sw_ais_args *a, int64_t row, int64_t rows)
{
    const double log_z = log_z_without(a);
    memset(a->v + row * a->visible, 0, (size_t)(rows * a->visible) * sizeof *a->v);
    draw(a, false, 0, row, rows);
    for (int64_t r = row; r < row + rows; r++)
        a->log_weight[r] = log_z;
}

/* Step k, of one thread's rows. */
static void anneal(const struct sw_ais_args *a, int64_t k, int64_t row, int64_t rows)
{
    float *v = a->v + row * a->visible, *h = a->h + row * a->hidden;
    const struct sw_kernel_anneal step = {.units = a->hidden_units,
                                          .rows = rows,
                                          .columns = a->hidden,
                                          .from = (float)sw_ais_beta(k, a->temperatures),
                                          .to = (float)sw_ais_beta(k + 1, a->temperatures),
                                          .x = h,
                                          .bias = a->bias,
                                          .log_weight = a->log_weight + row};
    const struct sw_cpu_product up = {.trans_b = true,
                                      .m = rows,
                                      .n = a->hidden,
                                      .k = a->visible,
                                      .alpha = 1,
                                      .a = v,
                                      .b = a->weight,
                                      .c = h,
                                      .lda = a->visible,
                                      .ldb = a->visible,
                                      .ldc = a->hidden},
                                down = {.m = rows,
                                        .n = a->visible,
                                        .k = a->hidden,
                                        .alpha = step.to,
                                        .a = h,
                                        .b = a->weight,
                                        .c = v,
                                        .lda = a->hidden,
                                        .ldb = a->visible,
                                        .ldc = a->visible};
    sw_cpu_multiply(&up);
    sw_kernel_anneal(&step);
    draw(a, true, k + 1, row, rows);
    sw_cpu_multiply(&down);
    draw(a, false, k + 1, row, rows);
}

static void run_rows(const struct sw_ais_args *a, int64_t row, int64_t rows)
{
    if (a->first == 0)
        begin(a, row, rows);
    for (int64_t k = a->first; k < a->last; k++)
        anneal(a, k, row, rows);
}

static int cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_ais_args *a = args;
    const int64_t first = a->step->first_row, left = a->chains - first;
    const int64_t rows = !a->runs || left < 0 ? 0 : left < a->rows ? left : a->rows;
    (void)err;
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows > ROWS) schedule(static)
    for (int64_t r = 0; r < rows; r += ROWS)
        run_rows(a, r, rows - r < ROWS ? rows - r : ROWS);
    memset(a->result, 0, (size_t)a->chains * sizeof *a->result);
    for (int64_t r = 0; r < rows; r++)
        a->result[first + r] = (struct sw_result){.sum = a->log_weight[r], .weight = 1};
    return SW_OK;
}

static void spans(const void *args, size_t *bytes)
{
    const struct sw_ais_args *a = args;
    bytes[0] = sw_op_matrix(a->hidden, a->visible);
    bytes[1] = sw_op_floats(a->hidden);
    bytes[2] = sw_op_floats(a->visible);
    bytes[3] = sizeof *a->step;
    bytes[4] = sw_op_matrix(a->rows, a->visible);
    bytes[5] = sw_op_matrix(a->rows, a->hidden);
    bytes[6] = (size_t)a->rows * sizeof *a->log_weight;
    bytes[7] = (size_t)a->chains * sizeof *a->result;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_ais_args, weight),
    SW_OP_POINTER(struct sw_ais_args, bias),
    SW_OP_POINTER(struct sw_ais_args, visible_bias),
    SW_OP_POINTER(struct sw_ais_args, step),
    SW_OP_POINTER(struct sw_ais_args, v),
    SW_OP_POINTER(struct sw_ais_args, h),
    SW_OP_POINTER(struct sw_ais_args, log_weight),
    SW_OP_POINTER(struct sw_ais_args, result),
    {0},
};

const struct sw_op sw_op_ais = {
    .name = "ais",
    .args_bytes = sizeof(struct sw_ais_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = cpu,
};
