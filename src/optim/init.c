/* Initial values. Every rule (xavier, msra, ...) is a constant, uniform or gaussian distribution
 * with two parameters (find_distribution has the sources). Values are Philox samples by index,
 * filled in chunks by the calling thread's OpenMP team, so they do not depend on its size.
 * orthogonal.c computes the only kind that needs a whole matrix. */
#include "optim/init.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/stop.h"
#include "optim/orthogonal.h"
#include "tensor/fill.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char *const init_names[] = {"auto",
                                         "constant",
                                         "gaussian",
                                         "uniform",
                                         "xavier",
                                         "msra",
                                         "orthogonal",
                                         "gaussian_sqrt_fan_in",
                                         "uniform_sqrt_fan_in",
                                         "uniform_sqrt_fan_in_out",
                                         NULL}; /* enum sw_init */

#define REAL(member, help_, default_, min_)                                                        \
    SW_OPT(REAL, struct sw_init_conf, member, help_, .def = default_, .min = min_, .max = INFINITY)

const struct sw_opt sw_param_opts[] = {
    SW_OPT(ENUM, struct sw_init_conf, init,
           "initial values; auto: xavier for weights, 0 for biases, 1 for scales", .def = "auto",
           .choices = init_names),
    REAL(value, "every initial value of constant", "0", -INFINITY),
    REAL(mean, "mean of gaussian, before its fan-in", "0", -INFINITY),
    REAL(std, "standard deviation of gaussian, before its fan-in", "1", 0),
    REAL(low, "lower end of uniform, before its fan-in", "-1", -INFINITY),
    REAL(high, "upper end of uniform, before its fan-in", "1", -INFINITY),
    REAL(gain, "factor of orthogonal", "1", 0),
    REAL(lr_mult, "factor of the learning rate", "1", 0),
    REAL(decay_mult, "factor of the weight decay", "1", 0),
    SW_OPT(
        STRING, struct sw_init_conf, share,
        "LAYER.PARAM of an earlier layer to which this parameter is tied, with its initial values"),
    {0},
};

/* The distribution of a rule. */
struct distribution {
    bool gaussian;
    double a, b; /* mean and standard deviation, or lower and upper end */
};

static struct distribution times(struct distribution distribution, double factor)
{
    return (struct distribution){.gaussian = distribution.gaussian,
                                 .a = distribution.a * factor,
                                 .b = distribution.b * factor};
}

static int need_fan_in(const char *name, int init, int64_t fan_in, struct sw_err *err)
{
    if (fan_in > 0)
        return SW_OK;
    return sw_err_set(
        err, SW_ERR_INVALID,
        "%s: init = %s needs a fan-in, which this parameter does not have; use constant, "
        "gaussian or uniform",
        name, init_names[init]);
}

static int check_ends(const struct sw_init_conf *c, const char *name, struct sw_err *err)
{
    if (c->low <= c->high)
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID,
                      "%s: low = %g is above high = %g; swap them or change one", name, c->low,
                      c->high);
}

/* xavier: uniform with variance 1/fan_in, as Caffe's filler; after Glorot and Bengio,
 * "Understanding the difficulty of training deep feedforward neural networks" (2010), who average
 * the variance over fan-in and fan-out. msra: gaussian with variance 2/fan_in, He, Zhang, Ren and
 * Sun, "Delving deep into rectifiers" (2015), equation 10. The last three are SINGA's
 * kGaussianSqrtFanIn, kUniformSqrtFanIn and kUniformSqrtFanInOut as documented: gaussian or uniform
 * samples times sqrt(1 / fan_in), sqrt(3 / fan_in), sqrt(6 / (fan_in + fan_out)). The code of SINGA
 * 0.3 omits the 6. */
static int find_distribution(const struct sw_init_conf *c, const char *name,
                             const struct sw_init_shape *shape, struct distribution *distribution,
                             struct sw_err *err)
{
    double in = (double)shape->fan_in, both = in + (double)shape->fan_out;
    int init = c->init != SW_INIT_AUTO ? c->init : in > 0 ? SW_INIT_XAVIER : SW_INIT_CONSTANT;
    double constant = c->init == SW_INIT_AUTO ? c->natural : c->value;
    struct distribution gaussian = {.gaussian = true, .a = c->mean, .b = c->std};
    struct distribution uniform = {.a = c->low, .b = c->high}, unit = {.a = -1, .b = 1};
    int rc = SW_OK;

    if (init >= SW_INIT_XAVIER && init != SW_INIT_ORTHOGONAL)
        rc = need_fan_in(name, init, shape->fan_in, err);
    if (rc != SW_OK)
        return rc;

    if (init == SW_INIT_UNIFORM || init >= SW_INIT_UNIFORM_SQRT_FAN_IN)
        rc = check_ends(c, name, err);
    if (rc != SW_OK)
        return rc;

    switch (init) {
    case SW_INIT_GAUSSIAN:
        *distribution = gaussian;
        break;
    case SW_INIT_UNIFORM:
        *distribution = uniform;
        break;
    case SW_INIT_XAVIER:
        *distribution = times(unit, sqrt(3 / in));
        break;
    case SW_INIT_MSRA:
        *distribution = (struct distribution){.gaussian = true, .a = 0, .b = sqrt(2 / in)};
        break;
    case SW_INIT_GAUSSIAN_SQRT_FAN_IN:
        *distribution = times(gaussian, sqrt(1 / in));
        break;
    case SW_INIT_UNIFORM_SQRT_FAN_IN:
        *distribution = times(uniform, sqrt(3 / in));
        break;
    case SW_INIT_UNIFORM_SQRT_FAN_IN_OUT:
        *distribution = times(uniform, sqrt(6 / both));
        break;
    default:
        *distribution = (struct distribution){.a = constant, .b = constant};
    }

    return SW_OK;
}

/* Writes the elements of chunk number `chunk` that are in the range. */
static void fill_chunk(const struct distribution *distribution, struct sw_philox key, int64_t chunk,
                       const struct sw_init_range *range)
{
    const int64_t from = range->from, to = range->to;
    int64_t start = chunk * SW_FILL_CHUNK, end = start + SW_FILL_CHUNK;
    bool whole = start >= from && end <= to;
    float partial[SW_FILL_CHUNK], *value = whole ? range->out + (start - from) : partial;

    if (distribution->gaussian)
        sw_fill_gaussian(key, (uint64_t)chunk, distribution->a, distribution->b, value);
    else
        sw_fill_uniform(key, (uint64_t)chunk, distribution->a, distribution->b, value);

    if (!whole) {
        int64_t first = start > from ? start : from, last = end < to ? end : to;
        memcpy(range->out + (first - from), partial + (first - start),
               (size_t)(last - first) * sizeof(float));
    }
}

bool sw_init_is_whole(const struct sw_init_conf *conf)
{
    return conf->init == SW_INIT_ORTHOGONAL;
}

int sw_init_fill(const struct sw_init_conf *conf, uint64_t seed, const char *name,
                 const struct sw_init_shape *shape, const struct sw_init_range *range,
                 struct sw_err *err)
{
    const int64_t from = range->from, to = range->to;
    struct distribution distribution;
    struct sw_philox key = sw_philox_stream(seed, SW_PURPOSE_INIT, sw_hash_name(name));

    if (sw_init_is_whole(conf)) {
        if (from != 0 || to != shape->rows * shape->columns)
            return sw_err_set(err, SW_ERR_INVALID,
                              "%s: init = %s fills only whole parameters, not ranges", name,
                              init_names[conf->init]);
        return sw_fill_orthogonal(key, shape->rows, shape->columns, conf->gain, range->out, err);
    }

    int rc = find_distribution(conf, name, shape, &distribution, err);
    if (rc != SW_OK)
        return rc;

    if (!distribution.gaussian && distribution.a == distribution.b) {
        for (int64_t i = 0; i < to - from; i++)
            range->out[i] = (float)distribution.a;
        return SW_OK;
    }

    int64_t first = from / SW_FILL_CHUNK, end = (to + SW_FILL_CHUNK - 1) / SW_FILL_CHUNK;

#pragma omp parallel for schedule(static) if (end - first > 64)
    for (int64_t chunk = first; chunk < end; chunk++)
        if (sw_stop_check(NULL) == SW_OK)
            fill_chunk(&distribution, key, chunk, range);

    return sw_stop_check(err);
}
