/* Annealed importance sampling on the CPU: each thread runs the chains of its rows. */
#include "kernels/ops/ais.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <string.h>

/* Rows per tile: fixed, so that products depend on the shape alone. */
enum { ROWS = 64 };

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

/* Samples the states of one side from the input of the other, in place. turn: the number of the
 * draw. */
static void draw(const struct sw_ais_args *a, bool hidden, int64_t turn, int64_t row, int64_t rows)
{
    float *x = hidden ? a->h + row * a->hidden : a->v + row * a->visible;
    struct sw_step step = *a->step;
    const struct sw_units_args u = {.units = hidden ? a->hidden_units : a->visible_units,
                                    .rows = rows,
                                    .columns = hidden ? a->hidden : a->visible,
                                    .x = x,
                                    .bias = hidden ? a->bias : a->visible_bias,
                                    .sample = x,
                                    .key = sw_ais_key(a, hidden, turn),
                                    .step = &step};

    step.first_row += row;
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

/* Step k for the rows of one thread. */
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
    const struct sw_product up =
        sw_product_of(rows, a->hidden, a->visible, sw_stored(v, a->visible),
                      sw_transposed(a->weight, a->visible), h, a->hidden);
    const struct sw_product down =
        sw_product_scaled(sw_product_of(rows, a->visible, a->hidden, sw_stored(h, a->hidden),
                                        sw_stored(a->weight, a->visible), v, a->visible),
                          step.to, 0);

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

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_ais_args *a = args;

    SW_ARRAY(out, a, weight, sw_op_matrix(a->hidden, a->visible));
    SW_ARRAY(out, a, bias, sw_op_floats(a->hidden));
    SW_ARRAY(out, a, visible_bias, sw_op_floats(a->visible));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, v, sw_op_matrix(a->rows, a->visible));
    SW_ARRAY(out, a, h, sw_op_matrix(a->rows, a->hidden));
    SW_ARRAY(out, a, log_weight, (size_t)a->rows * sizeof *a->log_weight);
    SW_ARRAY(out, a, result, (size_t)a->chains * sizeof *a->result);
}

static int ais(const struct sw_host_launch *l, const void *args)
{
    const struct sw_ais_args *a = args;
    const int64_t first = a->step->first_row, left = a->chains - first;
    const int64_t rows = !a->runs || left < 0 ? 0 : left < a->rows ? left : a->rows;

#pragma omp parallel for num_threads(l->threads) if (l->threads > 1 && rows > ROWS) schedule(static)
    for (int64_t r = 0; r < rows; r += ROWS)
        run_rows(a, r, rows - r < ROWS ? rows - r : ROWS);
    memset(a->result, 0, (size_t)a->chains * sizeof *a->result);
    for (int64_t r = 0; r < rows; r++)
        a->result[first + r] = (struct sw_result){.sum = a->log_weight[r], .weight = 1};

    return SW_OK;
}

const struct sw_op sw_op_ais = {"ais", sizeof(struct sw_ais_args), arrays, ais};
