/* Annealed importance sampling of a restricted Boltzmann machine (Neal, "Annealed Importance
 * Sampling", 2001; Salakhutdinov and Murray, "On the Quantitative Analysis of Deep Belief
 * Networks", 2008): an unbiased estimate of its partition function Z = sum_v exp -F(v), where F
 * omits log sqrt(2 pi) of gaussian hidden units. Chains run from the machine with zero weights,
 * whose Z is known, to the machine itself, through machines with beta times its weights. The weight
 * of a chain is
 *
 *   log w = log Z_0 + sum_k (F at beta_k-1 - F at beta_k)(v_k-1)      Z is the mean of w
 *
 * with v_k after a Gibbs step at beta_k. beta rises as in the second paper: 1/29 of the steps up to
 * 0.5, 8/29 up to 0.9, 20/29 up to 1. */
#pragma once

#include "base/philox.h"
#include "kernels/op.h"
#include "kernels/units.h"

struct sw_ais_args {
    enum sw_units visible_units, hidden_units; /* visible: not softmax */
    int64_t rows;                              /* rows of the worker; each runs a chain */
    int64_t chains; /* chains of all workers: global rows from this number on run none */
    int64_t visible, hidden;
    int64_t first, last, temperatures; /* runs steps first .. last - 1 of `temperatures`; step 0
                                          also starts the chains */
    const float *weight, *bias, *visible_bias; /* weight [hidden, visible] */
    uint64_t seed, id;
    bool runs; /* false: no chain runs, and all results have weight 0 */
    const struct sw_step *step;
    float *v, *h;       /* [rows, visible], [rows, hidden]: state between calls */
    double *log_weight; /* [rows]: state between calls */
    struct sw_result
        *result; /* [chains]: the log weights so far; chains of other workers have weight 0 */
};
extern const struct sw_op sw_op_ais;

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
    } bend[] = {{0, 0}, {1.0 / 29, 0.5}, {9.0 / 29, 0.9}, {1, 1}};

    double at = (double)done / (double)all;
    int i = at <= bend[1].share ? 0 : at <= bend[2].share ? 1 : 2;
    double part = (at - bend[i].share) / (bend[i + 1].share - bend[i].share);

    return done == all ? 1 : bend[i].beta + part * (bend[i + 1].beta - bend[i].beta);
}
