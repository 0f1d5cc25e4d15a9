/* Initial values of parameters. A value depends on the seed, the parameter's name and its index in
 * plain logical order only, so every partitioning and every number of threads starts from the same
 * net; the arithmetic is ours (no libm), so every machine does too. Host memory, any thread. */
#ifndef SW_PARAM_INIT_H
#define SW_PARAM_INIT_H

#include "base/err.h"
#include "recipe/option.h"
#include <stdint.h>

enum sw_init {
    SW_INIT_AUTO, /* xavier where there is a fan-in, else what is natural: biases 0, scales 1 */
    SW_INIT_CONSTANT,
    SW_INIT_GAUSSIAN,
    SW_INIT_UNIFORM,
    SW_INIT_XAVIER,
    SW_INIT_MSRA,
};

/* What `weight.KEY` or `bias.KEY` of a layer fills. */
struct sw_init_conf {
    int init;         /* enum sw_init */
    double value;     /* constant */
    double mean, std; /* gaussian */
    double low, high; /* uniform */
    double lr_mult, decay_mult;
    const char *share; /* "LAYER.PARAM" whose values these are, or NULL; the net sees to it */
    double natural;    /* what auto means without a fan-in; not a key: the layer says it */
};
extern const struct sw_opt sw_param_opts[];

/* Writes elements [from, to) of the parameter to out[0 .. to-from), plain order, float. fan_in is
 * the number of inputs one output sums over (C/groups * Kh * Kw, or the features of a fully
 * connected layer); 0 where that has no meaning. Uses the calling thread's OpenMP team.
 * Errors: SW_ERR_INVALID (low > high, xavier or msra without a fan-in). */
int sw_init_fill(const struct sw_init_conf *conf, uint64_t seed, const char *name, int64_t fan_in,
                 int64_t from, int64_t to, float *out, struct sw_err *err) SW_MUST_CHECK;

#endif
