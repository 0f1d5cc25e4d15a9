/* Units of restricted Boltzmann machines (kernels/units.h): means, samples, energies. A sample's
 * word is that of (step, global row, element), whatever the team. */
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"

enum { WORDS = SW_DRAW_WORDS, LANES = 16, GRAIN = 8 /* light operations per element */ };

/* log(1 + exp z) */
SW_KERNEL_INLINE float softplus(float z)
{
    return (z > 0.0f ? z : 0.0f) + sw_v_log1p_unit(sw_v_exp(-sw_v_abs(z)));
}

/* ---- Means and samples ---- */

/* The words of a row from element `first` on, which begins a block, WORDS in all; normal: as normal
 * numbers. */
SW_KERNEL_INLINE void draw(const struct sw_kernel_units *u, uint32_t row, int64_t first,
                           bool normal, uint32_t *restrict flat)
{
    uint32_t offset[SW_DRAW_LANES], word[4][SW_DRAW_LANES];
    for (uint32_t i = 0; i < SW_DRAW_LANES; i++)
        offset[i] = i;
    sw_draw_blocks(u->key, u->step, row, (uint32_t)(first / 4), offset, word);
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

/* At most WORDS elements from column `c`, less those before it in the block of their words. */
SW_KERNEL_INLINE void piece(const struct sw_kernel_units *u, int64_t r, int64_t c, int64_t n)
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
        draw(u, u->first_row + (uint32_t)r, u->first_column + c - skipped, normal, word);
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

SW_KERNEL static void independent_row(const struct sw_kernel_units *u, int64_t r)
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

/* y = exp(x + b - max), and returns the sum. */
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

/* One draw: the unit in which the word falls. */
static int64_t pick(const float *share, double sum, uint32_t word, int64_t n)
{
    double at = (double)sw_philox_uniform(word) * sum, below = 0;
    for (int64_t i = 0; i + 1 < n; i++) {
        below += (double)share[i];
        if (at < below)
            return i;
    }
    return n - 1;
}

static void softmax_row(const struct sw_kernel_units *u, int64_t r, float *share)
{
    const int64_t n = u->columns, at = r * n;
    const float total = u->total ? u->total[r] : 1.0f;
    double sum = exponentials(u->x + at, u->bias, n, share);
    if (u->sample) {
        float *count = u->sample + at;
        for (int64_t i = 0; i < n; i++)
            count[i] = 0.0f;
        for (uint32_t d = 0; (float)d + 0.5f < total; d++)
            count[pick(share, sum, sw_philox_word(u->key, u->step, u->first_row + (uint32_t)r, d),
                       n)] += 1.0f;
    }
    for (int64_t i = 0; i < n && u->mean; i++)
        u->mean[at + i] = total * (float)((double)share[i] / sum);
}

void sw_kernel_units(int threads, const struct sw_kernel_units *u)
{
    int team = sw_team_size(threads, u->rows * u->columns * GRAIN);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < u->rows; r++)
        if (u->units == SW_UNITS_SOFTMAX)
            softmax_row(u, r, u->share + r * u->columns);
        else
            independent_row(u, r);
}

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

/* The compiler makes a loop of its own of each kind. */
SW_KERNEL static double energy_of_row(enum sw_units units, bool free, const float *x,
                                      const float *bias, float total, int64_t n)
{
    if (units == SW_UNITS_GAUSSIAN)
        return free ? sum_row(SW_UNITS_GAUSSIAN, true, x, bias, total, n)
                    : sum_row(SW_UNITS_GAUSSIAN, false, x, bias, total, n);
    return free ? sum_row(SW_UNITS_BERNOULLI, true, x, bias, total, n)
                : sum_row(SW_UNITS_BERNOULLI, false, x, bias, total, n);
}

void sw_kernel_unit_energy(int threads, const struct sw_kernel_unit_energy *e)
{
    int team = sw_team_size(threads, e->rows * e->columns * GRAIN);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < e->rows; r++) {
        double sum = energy_of_row(e->units, e->free, e->x + r * e->columns, e->bias,
                                   e->total ? e->total[r] : 1.0f, e->columns);
        e->energy[r] = e->add ? e->energy[r] + sum : sum;
    }
}

/* ---- Annealing ---- */

SW_KERNEL_INLINE double anneal_with(enum sw_units units, const struct sw_kernel_anneal *a, float *x)
{
    float lane[LANES] = {0};
    const int64_t n = a->columns, whole = n / LANES * LANES;
    double sum = 0;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++) {
            float to = a->to * x[i + j], b = a->bias[i + j];
            lane[j] += element_energy(units, true, to, b) -
                       element_energy(units, true, a->from * x[i + j], b);
            x[i + j] = to;
        }
    }
    for (int64_t i = whole; i < n; i++) {
        float to = a->to * x[i];
        lane[i - whole] += element_energy(units, true, to, a->bias[i]) -
                           element_energy(units, true, a->from * x[i], a->bias[i]);
        x[i] = to;
    }
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

SW_KERNEL static double anneal_row(const struct sw_kernel_anneal *a, float *x)
{
    return a->units == SW_UNITS_GAUSSIAN ? anneal_with(SW_UNITS_GAUSSIAN, a, x)
                                         : anneal_with(SW_UNITS_BERNOULLI, a, x);
}

void sw_kernel_anneal(const struct sw_kernel_anneal *a)
{
    for (int64_t r = 0; r < a->rows; r++)
        a->log_weight[r] -= anneal_row(a, a->x + r * a->columns);
}

/* ---- One unit turned over ---- */

static double rise_of_row(const struct sw_kernel_flip *f, int64_t r)
{
    const uint32_t word = sw_philox_word(f->key, f->step, f->first_row + (uint32_t)r, 0);
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

void sw_kernel_flip(int threads, const struct sw_kernel_flip *f)
{
    int team = sw_team_size(threads, f->rows * f->hidden * GRAIN);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < f->rows; r++)
        f->rise[r] = rise_of_row(f, r);
}

/* ---- Sums ---- */

void sw_kernel_row_sums(int threads, int64_t rows, int64_t columns, const float *x, float *sum)
{
    int team = sw_team_size(threads, rows * columns);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        sum[r] = (float)sw_kernel_sum(x + r * columns, columns);
}

SW_KERNEL static void two_sums(int64_t rows, int64_t first_rows, int64_t columns, int64_t step,
                               float first_factor, float shift, const float *x, float *sum)
{
    double total[WORDS] = {0};
    for (int64_t r = 0; r < rows; r++) {
        double factor = r < first_rows ? (double)first_factor : 1.0;
#pragma omp simd
        for (int64_t c = 0; c < columns; c++)
            total[c] += factor * (double)x[r * step + c];
    }
    for (int64_t c = 0; c < columns; c++)
        sum[c] = (float)(total[c] + (double)shift);
}

void sw_kernel_two_sums(int64_t rows, int64_t first_rows, int64_t columns, float first_factor,
                        float shift, const float *x, float *sum)
{
    for (int64_t c = 0; c < columns; c += WORDS) {
        int64_t n = columns - c < WORDS ? columns - c : WORDS;
        two_sums(rows, first_rows, n, columns, first_factor, shift, x + c, sum + c);
    }
}
