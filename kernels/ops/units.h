/* Units of restricted Boltzmann machines (formulas in kernels/units.h) on plain, dense rows: means,
 * samples, energies. A sample depends only on (key, step, global row, element). */
#pragma once

#include "base/philox.h"
#include "kernels/op.h"
#include "kernels/units.h"

struct sw_units_args {
    enum sw_units units;
    int64_t rows, columns;
    int64_t first_column; /* index of the first column in the whole row, on which samples depend; 0
                             for softmax */
    const float *x;       /* input from the other side */
    const float *bias;    /* [columns]; NULL: x are the means themselves */
    const float
        *total; /* [rows]: factor of the biases, and number of samples of softmax units; NULL: 1 */
    const float *carried; /* [rows, columns]: the sample to continue unless the step starts the
                             chains; or NULL */
    float *mean, *sample; /* NULL: not needed; mean may be x */
    float *share;         /* scratch for softmax, [rows, columns]; may be x or mean */
    struct sw_philox key;
    const struct sw_step *step;
};
extern const struct sw_op sw_op_units;

struct sw_unit_energy_args {
    enum sw_units units;
    bool free, add; /* free: the units are summed out; add: add to energy */
    int64_t rows, columns;
    const float *x, *bias, *total; /* bias may be NULL if `input` is not: only -input s */
    const float *input; /* [rows, columns] or NULL: adds -input s, the energy of the connections
                           from which the states x = s have this input */
    double *energy;     /* [rows] */
    /* May be NULL: set to factor times the sum over valid rows, or if `more` increased by it. */
    struct sw_result *result;
    double factor;
    bool more;
    bool part; /* a further shard of the columns: another shard counts the rows */
    const struct sw_step *step;
};
extern const struct sw_op sw_op_unit_energy;

/* The pseudo-likelihood of binary rows, estimated from one random unit per row: visible times log
 * sigma(the increase in free energy when that unit is flipped). */
struct sw_flip_args {
    enum sw_units hidden_units;
    int64_t rows, visible, hidden;
    const float *v, *x, *weight, *bias, *visible_bias; /* x: W v, [rows, hidden] */
    double *rise;                                      /* [rows], scratch */
    struct sw_philox key;
    const struct sw_step *step;
    struct sw_result *result;
};
extern const struct sw_op sw_op_flip;
