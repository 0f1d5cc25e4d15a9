/* Initial values of parameters. A value depends on the seed, the parameter's name and its index in
 * plain logical order only, so every partitioning and every number of threads starts from the same
 * net; the arithmetic is ours (no libm), so every machine does too. Host memory, any thread. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stdint.h>

enum sw_init {
    SW_INIT_AUTO, /* xavier where there is a fan-in, else what is natural: biases 0, scales 1 */
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

/* What `weight.KEY` or `bias.KEY` of a layer fills. */
struct sw_init_conf {
    int init;         /* enum sw_init */
    double value;     /* constant */
    double mean, std; /* gaussian */
    double low, high; /* uniform */
    double gain;      /* orthogonal */
    double lr_mult, decay_mult;
    const char *share; /* "LAYER.PARAM" whose values these are, or NULL; the net sees to it */
    double natural;    /* what auto means without a fan-in; not a key: the layer says it */
};
extern const struct sw_opt sw_param_opts[];

/* What the rules look at besides the conf. */
struct sw_init_shape {
    int64_t fan_in;  /* inputs one output sums over (C/groups * Kh * Kw, or the features of a fully
                      * connected layer); 0 where that has no meaning */
    int64_t fan_out; /* outputs one input goes into */
    int64_t rows;    /* dimension 0 of the whole parameter */
    int64_t columns; /* all others together */
};

/* Do its values depend on one another, so that a parameter can only be filled as a whole? */
bool sw_init_is_whole(const struct sw_init_conf *conf);
/* Writes elements [from, to) of the parameter to out[0 .. to-from), plain order, float. Uses the
 * calling thread's OpenMP team. Errors: SW_ERR_INVALID (low > high, a rule without its fan-in, a
 * part of what is whole), SW_ERR_NOMEM. */
int sw_init_fill(const struct sw_init_conf *conf, uint64_t seed, const char *name,
                 const struct sw_init_shape *shape, int64_t from, int64_t to, float *out,
                 struct sw_err *err) SW_MUST_CHECK;
