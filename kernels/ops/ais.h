/* Annealed importance sampling of a restricted Boltzmann machine (Neal, "Annealed Importance
 * Sampling", 2001; Salakhutdinov and Murray, "On the Quantitative Analysis of Deep Belief
 * Networks", 2008): an unbiased estimate of its partition function Z = sum_v exp -F(v), where F
 * omits log sqrt(2 pi) of gaussian hidden units. Chains run from the base-rate machine, which has
 * zero weights, biases b_0 on both sides, and a known Z_0, to the machine itself, through machines
 * with weights beta W and biases b_0 + beta (b - b_0). The weight of a chain is
 *
 *   log w = log Z_0 + sum_k (F at beta_k-1 - F at beta_k)(v_k-1)      Z is the mean of w
 *
 * with v_k after a Gibbs step at beta_k. b_0 gives every unit its mean activation on data, as the
 * visible units have in the second paper. It is exact for any b_0, but needs fewer steps where
 * chains begin at typical activations: a machine without weights that kept the trained biases would
 * be far from any of them, because biases and weights of a trained machine balance each other. With
 * base rates of the hidden units too, the means of a machine that fits the data hardly move at
 * first. beta takes 1/10 of the steps up to 0.5, 2/10 up to 0.9 and 7/10 up to 1: the second paper
 * has 1/29, 8/29 and 20/29, with which the log weights of chains deviate more. */
#pragma once

#include "base/philox.h"
#include "kernels/op.h"
#include "kernels/units.h"
#include <math.h>

/* Rows whose chains run as one product: fixed, so that products depend on the shape alone. */
enum { SW_AIS_TILE = 64 };
#define SW_AIS_TILES(rows) (((rows) + SW_AIS_TILE - 1) / SW_AIS_TILE)

struct sw_ais_args {
    enum sw_units visible_units, hidden_units; /* visible: not softmax */
    int64_t rows;                              /* rows of the worker; each runs a chain */
    int64_t chains; /* chains of all workers: global rows from this number on run none */
    int64_t visible, hidden;
    int64_t first, last, temperatures; /* runs steps first .. last - 1 of `temperatures`; step 0
                                          also starts the chains */
    const float *weight, *bias, *visible_bias; /* weight [hidden, visible] */
    const double *activity; /* [visible + hidden + 1]: see sw_ais_base_bias; read by step 0 */
    uint64_t seed, id;
    bool runs; /* false: no chain runs, and all results have weight 0 */
    const struct sw_step *step;
    float *v, *h;       /* [rows, visible], [rows, hidden]: state between calls */
    float *base;        /* [visible + hidden]: b_0; state between calls */
    float *blend;       /* [SW_AIS_TILES(rows), visible + hidden]: scratch for biases at beta */
    double *log_weight; /* [rows]: state between calls */
    struct sw_result
        *result; /* [chains]: the log weights so far; chains of other workers have weight 0 */
};
extern const struct sw_op sw_op_ais;

/* The sums of the columns of x over the valid rows of a worker: part of `activity`. */
struct sw_activity_args {
    int64_t rows, columns;
    const float *x; /* [rows, columns]: means or states of units */
    const struct sw_step *step;
    double *sum;     /* [columns] */
    double *counted; /* the number of valid rows */
};
extern const struct sw_op sw_op_activity;

/* Returns b_0 of unit i of both sides, the visible one first, from the sums of their activations
 * over rows of data and the number of these rows, the last element. A bernoulli unit counts as on
 * in one more row and as off in another, so that no bias is infinite. */
SW_BOTH float sw_ais_base_bias(const struct sw_ais_args *a, int64_t i)
{
    const double rows = a->activity[a->visible + a->hidden];
    const double on = fmin(fmax(a->activity[i], 0.0), rows);

    if ((i < a->visible ? a->visible_units : a->hidden_units) == SW_UNITS_GAUSSIAN)
        return (float)(a->activity[i] / fmax(rows, 1.0));
    return (float)log((on + 1) / (rows - on + 1));
}

/* A step of one side, whose biases go from base to bias: subtracts from log_weight[r] the energy of
 * its units at beta = `to` minus that at `from`, and sets blend to their biases at `to`. x is the
 * states of the units; or, if `free`, their input at beta 1, which is replaced by `to` x. */
struct sw_anneal_args {
    enum sw_units units;
    bool free; /* the units are summed out */
    int64_t rows, columns;
    float from, to;
    float *x;
    const float *base, *bias;
    float *blend;
    double *log_weight;
};

/* Returns the random stream of a sample: turn 0 is the start, then one turn per step. */
static inline struct sw_philox sw_ais_key(const struct sw_ais_args *a, bool hidden, int64_t turn)
{
    return sw_philox_stream(a->seed, SW_PURPOSE_SAMPLE,
                            a->id + sw_mix64((uint64_t)(2 * turn + hidden)));
}

/* Returns beta after `done` of `all` steps. */
static inline double sw_ais_beta(int64_t done, int64_t all)
{
    static const struct {
        double share, beta;
    } bend[] = {{0, 0}, {0.1, 0.5}, {0.3, 0.9}, {1, 1}};

    double at = (double)done / (double)all;
    int i = at <= bend[1].share ? 0 : at <= bend[2].share ? 1 : 2;
    double part = (at - bend[i].share) / (bend[i + 1].share - bend[i].share);

    return done == all ? 1 : bend[i].beta + part * (bend[i + 1].beta - bend[i].beta);
}

/* Returns the arguments of step k of a side, for all rows. */
static inline struct sw_anneal_args sw_ais_side(const struct sw_ais_args *a, bool hidden, int64_t k)
{
    const int64_t at = hidden ? a->visible : 0;
    struct sw_anneal_args side;

    side.units = hidden ? a->hidden_units : a->visible_units;
    side.free = hidden;
    side.rows = a->rows;
    side.columns = hidden ? a->hidden : a->visible;
    side.from = (float)sw_ais_beta(k, a->temperatures);
    side.to = (float)sw_ais_beta(k + 1, a->temperatures);
    side.x = hidden ? a->h : a->v;
    side.base = a->base + at;
    side.bias = hidden ? a->bias : a->visible_bias;
    side.blend = a->blend + at;
    side.log_weight = a->log_weight;

    return side;
}
