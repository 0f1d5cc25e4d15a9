/* Units of restricted Boltzmann machines (kernels/units.h): means, samples, energies. The random
 * word of a sample is that of (step, global row, element), so samples do not depend on the number
 * of threads. */
#include "kernels/ops/units.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lanes.h"
#include <math.h>

enum { WORDS = SW_DRAW_WORDS, LANES = SW_ROW_LANES, GRAIN = 8 /* light operations per element */ };

/* Returns log(1 + exp z). */
SW_KERNEL_INLINE float softplus(float z)
{
    return (z > 0.0f ? z : 0.0f) + sw_v_log1p_unit(sw_v_exp(-sw_v_abs(z)));
}

/* Returns the global row, which selects the random words. */
static uint32_t row_of(const struct sw_step *step, int64_t r)
{
    return (uint32_t)step->first_row + (uint32_t)r;
}

/* ---- Means and samples ---- */

/* Generates WORDS random words of a row from element `first` on, which begins a block; as normal
 * samples if `normal`. */
SW_KERNEL_INLINE void draw(const struct sw_units_args *u, uint32_t row, int64_t first, bool normal,
                           uint32_t *restrict flat)
{
    uint32_t offset[SW_DRAW_LANES], word[4][SW_DRAW_LANES];

    for (uint32_t i = 0; i < SW_DRAW_LANES; i++)
        offset[i] = i;
    sw_draw_blocks(u->key, u->step->step, row, (uint32_t)(first / 4), offset, word);
    if (normal)
        sw_draw_make_normal(word);
    sw_draw_in_order(word, flat);
}

SW_KERNEL_INLINE void bernoulli_means(const float *x, const float *bias, float total, int64_t n,
                                      float *restrict mean)
{
    if (!bias) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            mean[i] = x[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            mean[i] = sw_v_sigmoid(x[i] + total * bias[i]);
    }
}

SW_KERNEL_INLINE void gaussian_means(const float *x, const float *bias, float total, int64_t n,
                                     float *restrict mean)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        mean[i] = x[i] + (bias ? total * bias[i] : 0.0f);
}

/* Computes at most WORDS elements from column `c`, up to the end of their block of words. */
SW_KERNEL_INLINE void piece(const struct sw_units_args *u, int64_t r, int64_t c, int64_t n)
{
    float mean[WORDS];
    uint32_t word[WORDS];
    const int64_t at = r * u->columns + c, skipped = (u->first_column + c) % 4;
    const float *bias = u->bias ? u->bias + c : NULL;
    const float total = u->total ? u->total[r] : 1.0f;
    const bool normal = u->units == SW_UNITS_GAUSSIAN;

    if (normal)
        gaussian_means(u->x + at, bias, total, n, mean);
    else
        bernoulli_means(u->x + at, bias, total, n, mean);

    if (u->sample)
        draw(u, row_of(u->step, r), u->first_column + c - skipped, normal, word);
    for (int64_t i = 0; i < n && u->mean; i++)
        u->mean[at + i] = mean[i];

    if (u->sample && normal) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            u->sample[at + i] = mean[i] + sw_v_from_bits(word[skipped + i]);
    } else if (u->sample) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            u->sample[at + i] = sw_philox_uniform(word[skipped + i]) < mean[i] ? 1.0f : 0.0f;
    }
}

SW_KERNEL static void independent_row(const struct sw_units_args *u, int64_t r)
{
    const int64_t skipped = u->first_column % 4;
    int64_t c = 0;

    if (skipped > 0) {
        c = u->columns < WORDS - skipped ? u->columns : WORDS - skipped;
        piece(u, r, 0, c);
    }

    for (; c + WORDS <= u->columns; c += WORDS)
        piece(u, r, c, WORDS);
    if (c < u->columns)
        piece(u, r, c, u->columns - c);
}

/* Sets y = exp(x + b - max), and returns the sum. */
SW_KERNEL static double exponentials(const float *x, const float *bias, int64_t n, float *y)
{
    float most = -__builtin_inff();
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        float z = x[i] + (bias ? bias[i] : 0.0f);
        most = z > most ? z : most;
    }

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_v_exp(x[i] + (bias ? bias[i] : 0.0f) - most);
    for (int64_t i = 0; i < n; i++)
        sum += (double)y[i];

    return sum;
}

/* Samples a unit: the one whose interval contains the word. */
static int64_t sample_unit(const float *share, double sum, uint32_t word, int64_t n)
{
    double at = (double)sw_philox_uniform(word) * sum, below = 0;

    for (int64_t i = 0; i + 1 < n; i++) {
        below += (double)share[i];
        if (at < below)
            return i;
    }

    return n - 1;
}

static void softmax_row(const struct sw_units_args *u, int64_t r, float *share)
{
    const int64_t n = u->columns, at = r * n;
    const float total = u->total ? u->total[r] : 1.0f;
    double sum = exponentials(u->x + at, u->bias, n, share);

    if (u->sample) {
        float *count = u->sample + at;

        for (int64_t i = 0; i < n; i++)
            count[i] = 0.0f;

        for (uint32_t d = 0; (float)d + 0.5f < total; d++)
            count[sample_unit(share, sum,
                              sw_philox_word(u->key, u->step->step, row_of(u->step, r), d), n)] +=
                1.0f;
    }

    for (int64_t i = 0; i < n && u->mean; i++)
        u->mean[at + i] = total * (float)((double)share[i] / sum);
}

void sw_kernel_units(int threads, const struct sw_units_args *u)
{
    int team = sw_team_size(threads, u->rows * u->columns * GRAIN);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < u->rows; r++)
        if (u->units == SW_UNITS_SOFTMAX)
            softmax_row(u, r, u->share + r * u->columns);
        else
            independent_row(u, r);
}

static void units_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_units_args *a = args;
    const size_t matrix = sw_op_matrix(a->rows, a->columns);

    SW_ARRAY(out, a, x, matrix);
    SW_ARRAY_OR_NULL(out, a, bias, sw_op_floats(a->columns));
    SW_ARRAY_OR_NULL(out, a, total, sw_op_floats(a->rows));
    SW_ARRAY_OR_NULL(out, a, carried, matrix);
    SW_ARRAY_OR_NULL(out, a, mean, matrix);
    SW_ARRAY_OR_NULL(out, a, sample, matrix);
    SW_ARRAY(out, a, share, a->units == SW_UNITS_SOFTMAX ? matrix : 0);
    SW_ARRAY(out, a, step, sizeof *a->step);
}

static int units_cpu(const struct sw_host_launch *l, const void *args)
{
    struct sw_units_args a = *(const struct sw_units_args *)args;
    float *sample = a.sample;
    const bool goes_on = a.carried && !a.step->chains_begin;

    if (goes_on)
        a.sample = NULL;
    sw_kernel_units(l->threads, &a);
    if (goes_on)
        sw_kernel_copy(l->threads, sample, a.carried, (int64_t)sw_op_matrix(a.rows, a.columns));

    return SW_OK;
}

const struct sw_op sw_op_units = {"units", sizeof(struct sw_units_args), units_arrays, units_cpu};

/* ---- Energies ---- */

SW_KERNEL_INLINE float element_energy(enum sw_units units, bool free, float x, float b)
{
    if (units == SW_UNITS_GAUSSIAN)
        return free ? -(b * x + 0.5f * x * x) : 0.5f * (x - b) * (x - b);
    return free ? -softplus(x + b) : -b * x;
}

SW_KERNEL_INLINE double sum_row(enum sw_units units, bool free, const float *x, const float *bias,
                                float total, int64_t n)
{
    float lane[LANES] = {0};
    int64_t whole = n / LANES * LANES;
    double sum = 0;

    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++)
            lane[j] += element_energy(units, free, x[i + j], total * bias[i + j]);
    }

    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += element_energy(units, free, x[i], total * bias[i]);
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];

    return sum;
}

/* The compiler specializes the loop for each kind. */
SW_KERNEL static double energy_of_row(enum sw_units units, bool free, const float *x,
                                      const float *bias, float total, int64_t n)
{
    if (units == SW_UNITS_GAUSSIAN)
        return free ? sum_row(SW_UNITS_GAUSSIAN, true, x, bias, total, n)
                    : sum_row(SW_UNITS_GAUSSIAN, false, x, bias, total, n);
    return free ? sum_row(SW_UNITS_BERNOULLI, true, x, bias, total, n)
                : sum_row(SW_UNITS_BERNOULLI, false, x, bias, total, n);
}

SW_KERNEL static double dot(const float *x, const float *y, int64_t n)
{
    return sw_row_dot(x, y, n);
}

static double whole_energy_of_row(const struct sw_unit_energy_args *e, int64_t r)
{
    const int64_t n = e->columns;
    const float *x = e->x + r * n;
    double sum =
        e->bias ? energy_of_row(e->units, e->free, x, e->bias, e->total ? e->total[r] : 1.0f, n)
                : 0;

    return e->input ? sum - dot(e->input + r * n, x, n) : sum;
}

static void energy_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_unit_energy_args *a = args;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY_OR_NULL(out, a, bias, sw_op_floats(a->columns));
    SW_ARRAY_OR_NULL(out, a, input, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY_OR_NULL(out, a, total, sw_op_floats(a->rows));
    SW_ARRAY(out, a, energy, (size_t)a->rows * sizeof *a->energy);
    SW_ARRAY_OR_NULL(out, a, result, sizeof *a->result);
    SW_ARRAY(out, a, step, sizeof *a->step);
}

static int energy_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_unit_energy_args *e = args;
    const int64_t valid = sw_op_valid_rows(e->step, e->rows);
    int team = sw_team_size(l->threads, e->rows * e->columns * GRAIN);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < e->rows; r++) {
        double sum = whole_energy_of_row(e, r);
        e->energy[r] = e->add ? e->energy[r] + sum : sum;
    }

    if (!e->result)
        return SW_OK;

    double sum = 0;
    for (int64_t r = 0; r < valid; r++)
        sum += e->energy[r];
    *e->result = (struct sw_result){.sum = (e->more ? e->result->sum : 0) + e->factor * sum,
                                    .weight = e->part ? 0 : (double)valid};

    return SW_OK;
}

const struct sw_op sw_op_unit_energy = {"unit_energy", sizeof(struct sw_unit_energy_args),
                                        energy_arrays, energy_cpu};

/* ---- Annealing ---- */

/* Returns the rise of the energy of unit i. */
SW_KERNEL_INLINE float anneal_unit(enum sw_units units, bool free, const struct sw_anneal_args *a,
                                   float *x, int64_t i)
{
    const float way = a->bias[i] - a->base[i];
    const float before = free ? a->from * x[i] : x[i], after = free ? a->to * x[i] : x[i];

    x[i] = after;
    return element_energy(units, free, after, a->base[i] + a->to * way) -
           element_energy(units, free, before, a->base[i] + a->from * way);
}

SW_KERNEL_INLINE double anneal_with(enum sw_units units, bool free,
                                    const struct sw_anneal_args *args, float *x)
{
    const struct sw_anneal_args a = *args; /* writes to x do not change a copy */
    const int64_t n = a.columns, whole = n / LANES * LANES;
    float lane[LANES] = {0};
    double sum = 0;

    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++)
            lane[j] += anneal_unit(units, free, &a, x, i + j);
    }

    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += anneal_unit(units, free, &a, x, i);

    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

/* The compiler specializes the loop for each kind. */
SW_KERNEL static double anneal_row(const struct sw_anneal_args *a, float *x)
{
    if (a->units == SW_UNITS_GAUSSIAN)
        return a->free ? anneal_with(SW_UNITS_GAUSSIAN, true, a, x)
                       : anneal_with(SW_UNITS_GAUSSIAN, false, a, x);
    return a->free ? anneal_with(SW_UNITS_BERNOULLI, true, a, x)
                   : anneal_with(SW_UNITS_BERNOULLI, false, a, x);
}

void sw_kernel_anneal(const struct sw_anneal_args *a)
{
    for (int64_t i = 0; i < a->columns; i++)
        a->blend[i] = a->base[i] + a->to * (a->bias[i] - a->base[i]);

    for (int64_t r = 0; r < a->rows; r++)
        a->log_weight[r] -= anneal_row(a, a->x + r * a->columns);
}

/* ---- Pseudo-likelihood: one flipped unit ---- */

static double rise_of_row(const struct sw_flip_args *f, int64_t r)
{
    const uint32_t word = sw_philox_word(f->key, f->step->step, row_of(f->step, r), 0);
    const int64_t i = (int64_t)(((uint64_t)word * (uint64_t)f->visible) >> 32);
    const float change = 1.0f - 2.0f * f->v[r * f->visible + i];
    double rise = -(double)f->visible_bias[i] * (double)change;

    for (int64_t j = 0; j < f->hidden; j++) {
        float x = f->x[r * f->hidden + j], b = f->bias[j];
        float turned = x + change * f->weight[j * f->visible + i];
        rise += (double)(element_energy(f->hidden_units, true, turned, b) -
                         element_energy(f->hidden_units, true, x, b));
    }

    return rise;
}

static void pseudo_likelihood_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_flip_args *a = args;

    SW_ARRAY(out, a, v, sw_op_matrix(a->rows, a->visible));
    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->hidden));
    SW_ARRAY(out, a, weight, sw_op_matrix(a->hidden, a->visible));
    SW_ARRAY(out, a, bias, sw_op_floats(a->hidden));
    SW_ARRAY(out, a, visible_bias, sw_op_floats(a->visible));
    SW_ARRAY(out, a, rise, (size_t)a->rows * sizeof *a->rise);
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, result, sizeof *a->result);
}

static int pseudo_likelihood_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_flip_args *a = args;
    const int64_t valid = sw_op_valid_rows(a->step, a->rows);
    int team = sw_team_size(l->threads, a->rows * a->hidden * GRAIN);
    double sum = 0;

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        a->rise[r] = rise_of_row(a, r);

    /* log sigma(d) = -log(1 + exp -d) */
    for (int64_t r = 0; r < valid; r++)
        sum -= fmax(-a->rise[r], 0) + log1p(exp(-fabs(a->rise[r])));
    *a->result = (struct sw_result){.sum = (double)a->visible * sum, .weight = (double)valid};

    return SW_OK;
}

const struct sw_op sw_op_flip = {"flip", sizeof(struct sw_flip_args), pseudo_likelihood_arrays,
                                 pseudo_likelihood_cpu};
