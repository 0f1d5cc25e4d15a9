/* Annealed importance sampling on the CPU: each thread runs the chains of its rows. */
#include "kernels/ops/ais.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <string.h>

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* ---- Base rates ---- */

static void activity_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_activity_args *a = args;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, sum, (size_t)a->columns * sizeof *a->sum);
    SW_ARRAY(out, a, counted, sizeof *a->counted);
}

static int activity(const struct sw_host_launch *l, const void *args)
{
    const struct sw_activity_args *a = args;
    const int64_t valid = sw_op_valid_rows(a->step, a->rows);

    (void)l;
    memset(a->sum, 0, (size_t)a->columns * sizeof *a->sum);
    for (int64_t r = 0; r < valid; r++)
        for (int64_t c = 0; c < a->columns; c++)
            a->sum[c] += (double)a->x[r * a->columns + c];
    *a->counted = (double)valid;

    return SW_OK;
}

const struct sw_op sw_op_activity = {"activity", sizeof(struct sw_activity_args), activity_arrays,
                                     activity};

/* Fills the biases of the base-rate machine. */
static void find_base(const struct sw_ais_args *a)
{
    for (int64_t i = 0; i < a->visible + a->hidden; i++)
        a->base[i] = sw_ais_base_bias(a, i);
}

/* log Z of the base-rate machine. */
static double base_log_z(const struct sw_ais_args *a)
{
    const double half_log_2pi = 0.91893853320467274;
    double sum = 0;

    for (int64_t i = 0; i < a->visible; i++)
        sum += a->visible_units == SW_UNITS_GAUSSIAN ? half_log_2pi : softplus((double)a->base[i]);

    for (int64_t j = 0; j < a->hidden && a->hidden_units == SW_UNITS_BERNOULLI; j++)
        sum += softplus((double)a->base[a->visible + j]);
    return sum;
}

/* ---- Chains ---- */

/* Samples the states of one side from the input of the other, in place. turn: the number of the
 * draw. */
static void draw(const struct sw_ais_args *a, bool hidden, int64_t turn, const float *bias)
{
    float *x = hidden ? a->h : a->v;
    const struct sw_units_args u = {.units = hidden ? a->hidden_units : a->visible_units,
                                    .rows = a->rows,
                                    .columns = hidden ? a->hidden : a->visible,
                                    .x = x,
                                    .bias = bias,
                                    .sample = x,
                                    .key = sw_ais_key(a, hidden, turn),
                                    .step = a->step};

    sw_kernel_units(1, &u);
}

static void begin(const struct sw_ais_args *a)
{
    const double log_z = base_log_z(a);

    memset(a->v, 0, (size_t)(a->rows * a->visible) * sizeof *a->v);
    draw(a, false, 0, a->base);
    for (int64_t r = 0; r < a->rows; r++)
        a->log_weight[r] = log_z;
}

static void anneal(const struct sw_ais_args *a, int64_t k)
{
    const struct sw_anneal_args visible = sw_ais_side(a, false, k),
                                hidden = sw_ais_side(a, true, k);
    const struct sw_product up =
        sw_product_of(a->rows, a->hidden, a->visible, sw_stored(a->v, a->visible),
                      sw_transposed(a->weight, a->visible), a->h, a->hidden);
    const struct sw_product down =
        sw_product_scaled(sw_product_of(a->rows, a->visible, a->hidden, sw_stored(a->h, a->hidden),
                                        sw_stored(a->weight, a->visible), a->v, a->visible),
                          hidden.to, 0);

    sw_cpu_multiply(&up);
    sw_kernel_anneal(&visible);
    sw_kernel_anneal(&hidden);
    draw(a, true, k + 1, hidden.blend);
    sw_cpu_multiply(&down);
    draw(a, false, k + 1, visible.blend);
}

/* Runs the chains of a tile: `rows` rows, from `row` on. */
static void run_tile(const struct sw_ais_args *all, int64_t row, int64_t rows)
{
    struct sw_step step = *all->step;
    struct sw_ais_args a = *all;

    step.first_row += row;
    a.step = &step;
    a.rows = rows;
    a.v += row * a.visible;
    a.h += row * a.hidden;
    a.blend += row / SW_AIS_TILE * (a.visible + a.hidden);
    a.log_weight += row;

    if (a.first == 0)
        begin(&a);
    for (int64_t k = a.first; k < a.last; k++)
        anneal(&a, k);
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_ais_args *a = args;

    SW_ARRAY(out, a, weight, sw_op_matrix(a->hidden, a->visible));
    SW_ARRAY(out, a, bias, sw_op_floats(a->hidden));
    SW_ARRAY(out, a, visible_bias, sw_op_floats(a->visible));
    SW_ARRAY(out, a, activity, (size_t)(a->visible + a->hidden + 1) * sizeof *a->activity);
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, base, sw_op_floats(a->visible + a->hidden));
    SW_ARRAY(out, a, blend, sw_op_matrix(SW_AIS_TILES(a->rows), a->visible + a->hidden));
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

    if (a->runs && a->first == 0)
        find_base(a);

#pragma omp parallel for num_threads(l->threads) if (l->threads > 1 && rows > SW_AIS_TILE)         \
    schedule(static)
    for (int64_t r = 0; r < rows; r += SW_AIS_TILE)
        run_tile(a, r, rows - r < SW_AIS_TILE ? rows - r : SW_AIS_TILE);
    memset(a->result, 0, (size_t)a->chains * sizeof *a->result);
    for (int64_t r = 0; r < rows; r++)
        a->result[first + r] = (struct sw_result){.sum = a->log_weight[r], .weight = 1};

    return SW_OK;
}

const struct sw_op sw_op_ais = {"ais", sizeof(struct sw_ais_args), arrays, ais};
