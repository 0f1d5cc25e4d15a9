/* The element-wise part of one step of a recurrent cell, for a range of hidden units; the caller
 * computes the products with weights. Formulas: kernels/ops/recurrent.h; the gradients are their
 * derivatives, where dh is the sum of the gradients from the output and from the next step.
 *
 *   rnn    da = dh f'
 *   gru    dn = dh (1 - z) (1 - n^2), dz = dh (h' - n) z (1 - z), dr = dn q r (1 - r), dq = dn r;
 *          dh' is dh z plus the gradient through U
 *   lstm   dc = dc + dh o (1 - tanh^2 c), do = dh tanh c o (1 - o), di = dc g i (1 - i),
 *          df = dc c' f (1 - f), dg = dc i (1 - g^2), dc' = dc f */
#include "kernels/ops/recurrent.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vmath.h"

SW_KERNEL static void rnn(bool relu, int64_t n, const float *restrict b, float *restrict a,
                          float *restrict h)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float v = a[j] + b[j], t = sw_v_tanh(v);
        h[j] = a[j] = relu ? (0.0f > v ? 0.0f : v) : t;
    }
}

SW_KERNEL static void gru(int64_t n, int64_t hidden, const float *restrict b, float *restrict a,
                          const float *restrict before, float *restrict h)
{
    float *ar = a, *az = a + hidden, *an = a + 2 * hidden, *aq = a + 3 * hidden;
    const float *br = b, *bz = b + hidden, *bn = b + 2 * hidden, *bq = b + 3 * hidden;

#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float r = sw_v_sigmoid(ar[j] + br[j]), z = sw_v_sigmoid(az[j] + bz[j]);
        const float q = aq[j] + bq[j], t = sw_v_tanh(an[j] + bn[j] + r * q);

        ar[j] = r;
        az[j] = z;
        an[j] = t;
        aq[j] = q;
        h[j] = (1 - z) * t + z * before[j];
    }
}

SW_KERNEL static void lstm(int64_t n, int64_t hidden, const float *restrict b, float *restrict a,
                           float *restrict c, float *restrict h)
{
    float *ai = a, *af = a + hidden, *ag = a + 2 * hidden, *ao = a + 3 * hidden;
    float *before = a + 4 * hidden;
    const float *bi = b, *bf = b + hidden, *bg = b + 2 * hidden, *bo = b + 3 * hidden;

#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float i = sw_v_sigmoid(ai[j] + bi[j]), f = sw_v_sigmoid(af[j] + bf[j]);
        const float g = sw_v_tanh(ag[j] + bg[j]), o = sw_v_sigmoid(ao[j] + bo[j]);
        const float now = f * c[j] + i * g;

        ai[j] = i;
        af[j] = f;
        ag[j] = g;
        ao[j] = o;
        before[j] = c[j];
        c[j] = now;
        h[j] = o * sw_v_tanh(now);
    }
}

void sw_kernel_cell(const struct sw_kernel_cell *k)
{
    for (int64_t r = 0; r < k->rows; r++) {
        float *a = k->gates + r * k->gates_pitch, *h = k->h + r * k->h_pitch;

        if (k->kind <= SW_CELL_RNN_RELU)
            rnn(k->kind == SW_CELL_RNN_RELU, k->units, k->bias, a, h);
        else if (k->kind == SW_CELL_GRU)
            gru(k->units, k->hidden, k->bias, a, k->before + r * k->before_pitch, h);
        else
            lstm(k->units, k->hidden, k->bias, a, k->c + r * k->hidden, h);
    }
}

SW_KERNEL static void rnn_back(bool relu, int64_t n, const float *restrict a,
                               const float *restrict dh, float *restrict da)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        da[j] = dh[j] * (relu ? (a[j] > 0 ? 1.0f : 0.0f) : 1 - a[j] * a[j]);
}

SW_KERNEL static void gru_back(int64_t n, int64_t hidden, const float *restrict a,
                               const float *restrict before, float *restrict dh, float *restrict d)
{
    const float *ar = a, *az = a + hidden, *an = a + 2 * hidden, *aq = a + 3 * hidden;
    float *dr = d, *dz = d + hidden, *dn = d + 2 * hidden, *dq = d + 3 * hidden;

#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float g = dh[j], r = ar[j], z = az[j], t = an[j];
        const float new = g *(1 - z) * (1 - t * t);

        dn[j] = new;
        dq[j] = new *r;
        dr[j] = new *aq[j] * r *(1 - r);
        dz[j] = g * (before[j] - t) * z * (1 - z);
        dh[j] = g * z;
    }
}

SW_KERNEL static void lstm_back(int64_t n, int64_t hidden, const float *restrict a,
                                const float *restrict dh, float *restrict dc, float *restrict d)
{
    const float *ai = a, *af = a + hidden, *ag = a + 2 * hidden, *ao = a + 3 * hidden;
    const float *before = a + 4 * hidden;
    float *di = d, *df = d + hidden, *dg = d + 2 * hidden, *d_o = d + 3 * hidden;

#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float i = ai[j], f = af[j], g = ag[j], o = ao[j];
        const float t = sw_v_tanh(f * before[j] + i * g);
        const float c = dc[j] + dh[j] * o * (1 - t * t);

        di[j] = c * g * i * (1 - i);
        df[j] = c * before[j] * f * (1 - f);
        dg[j] = c * i * (1 - g * g);
        d_o[j] = dh[j] * t * o * (1 - o);
        dc[j] = c * f;
    }
}

void sw_kernel_cell_back(const struct sw_kernel_cell_back *k)
{
    for (int64_t r = 0; r < k->rows; r++) {
        const float *a = k->gates + r * k->gates_pitch;
        float *d = k->dgates + r * k->dgates_pitch, *dh = k->dh + r * k->hidden;
        const float *dy = k->dy ? k->dy + r * k->dy_pitch : NULL;

        for (int64_t j = 0; dy && j < k->units; j++)
            dh[j] += dy[j];

        if (k->kind <= SW_CELL_RNN_RELU)
            rnn_back(k->kind == SW_CELL_RNN_RELU, k->units, a, dh, d);
        else if (k->kind == SW_CELL_GRU)
            gru_back(k->units, k->hidden, a, k->before + r * k->before_pitch, dh, d);
        else
            lstm_back(k->units, k->hidden, a, dh, k->dc + r * k->hidden, d);
    }
}

/* ---- Initial state ---- */

static void initial_state_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_initial_state_args *a = args;
    SW_ARRAY_OR_NULL(out, a, from, sw_op_floats(a->n));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, to, sw_op_floats(a->n));
}

static int initial_state(const struct sw_host_launch *l, const void *args)
{
    const struct sw_initial_state_args *a = args;
    const int64_t bytes = a->n * (int64_t)sizeof(float);

    if (a->from && !a->step->sequences_begin)
        sw_kernel_copy(l->threads, a->to, a->from, bytes);
    else
        sw_kernel_zero(l->threads, a->to, bytes);

    return SW_OK;
}

const struct sw_op sw_op_initial_state = {"initial_state", sizeof(struct sw_initial_state_args),
                                          initial_state_arrays, initial_state};
