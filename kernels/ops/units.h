/* Units of restricted Boltzmann machines (formulas in kernels/units.h) on plain, dense rows: means,
 * samples, energies. A sample is a function of (key, step, global row, element) alone. */
#pragma once

#include "base/philox.h"
#include "kernels/op.h"
#include "kernels/units.h"

struct sw_units_args {
    enum sw_units units;
    int64_t rows, columns;
    int64_t first_column; /* in the whole row, of which a sample is a function; not of softmax */
    const float *x;       /* input from the other side */
    const float *bias;    /* [columns]; NULL: x are the means themselves */
    const float *total;   /* [rows]: times that biases count, draws of softmax units; NULL: 1 */
    const float *carried; /* [rows, columns]: the sample to continue, if no chains begin; or NULL */
    float *mean, *sample; /* NULL: not wanted; mean may be x */
    float *share;         /* softmax: for work, [rows, columns]; may be x or mean */
    struct sw_philox key;
    const struct sw_step *step;
};
extern const struct sw_op sw_op_units;

struct sw_unit_energy_args {
    enum sw_units units;
    bool free, add; /* summed out; added to what is in energy */
    int64_t rows, columns;
    const float *x, *bias, *total;
    double *energy; /* [rows] */
    /* May be NULL: gets factor times the sum over rows that count, added to it if `more`. */
    struct sw_result *result;
    double factor;
    bool more;
    bool part; /* part of the columns: another part has the weight of the rows */
    const struct sw_step *step;
};
extern const struct sw_op sw_op_unit_energy;

/* The pseudo-likelihood of binary rows, estimated from one drawn unit each: visible times
 * log sigma(the rise in free energy when that unit is turned over). */
struct sw_flip_args {
    enum sw_units hidden_units;
    int64_t rows, visible, hidden;
    const float *v, *x, *weight, *bias, *visible_bias; /* x: W v, [rows, hidden] */
    double *rise;                                      /* [rows], for work */
    struct sw_philox key;
    const struct sw_step *step;
    struct sw_result *result;
};
extern const struct sw_op sw_op_flip;
