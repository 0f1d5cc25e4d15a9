/* Initial values of parameters. A value depends only on the seed, the parameter's name and its
 * index in plain logical order, so every partitioning and every number of threads starts from the
 * same net. The arithmetic does not use libm, so the values are also the same on every machine.
 * Host memory, any thread. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stdint.h>

enum sw_init {
    SW_INIT_AUTO, /* xavier if there is a fan-in, else the layer's default: biases 0, scales 1 */
    SW_INIT_CONSTANT,
    SW_INIT_GAUSSIAN,
    SW_INIT_UNIFORM,
    SW_INIT_XAVIER,
    SW_INIT_MSRA,
    SW_INIT_ORTHOGONAL,
    SW_INIT_GAUSSIAN_SQRT_FAN_IN,
    SW_INIT_UNIFORM_SQRT_FAN_IN,
    SW_INIT_UNIFORM_SQRT_FAN_IN_OUT,
};

/* Filled from the keys `weight.KEY` or `bias.KEY` of a layer. */
struct sw_init_conf {
    int init;         /* enum sw_init */
    double value;     /* constant */
    double mean, std; /* gaussian */
    double low, high; /* uniform */
    double gain;      /* orthogonal */
    double lr_mult, decay_mult;
    const char
        *share;     /* "LAYER.PARAM" to which this parameter is tied, or NULL; handled by the net */
    double natural; /* initial value of auto without a fan-in; not a key: set by the layer */
};
extern const struct sw_opt sw_param_opts[];

/* The shape of a parameter, on which the rules depend besides the conf. */
struct sw_init_shape {
    int64_t fan_in;  /* inputs that one output sums (C/groups * Kh * Kw, or the features of a fully
                        connected layer); 0 if undefined */
    int64_t fan_out; /* outputs that one input contributes to */
    int64_t rows;    /* dimension 0 of the whole parameter */
    int64_t columns; /* product of all other dimensions */
};

/* Do the values depend on one another, so that a parameter can only be filled as a whole? */
bool sw_init_is_whole(const struct sw_init_conf *conf);
/* Elements [from, to) of a parameter, plain order, and their memory: out[0 .. to-from). */
struct sw_init_range {
    int64_t from, to;
    float *out;
};
/* Writes the elements of the range. Uses the
 * calling thread's OpenMP team. Errors: SW_ERR_INVALID (low > high, a rule without its fan-in, a
 * range of a parameter that must be filled as a whole), SW_ERR_NOMEM, SW_ERR_CANCELLED
 * (base/stop.h). */
int sw_init_fill(const struct sw_init_conf *conf, uint64_t seed, const char *name,
                 const struct sw_init_shape *shape, const struct sw_init_range *range,
                 struct sw_err *err) SW_MUST_CHECK;
