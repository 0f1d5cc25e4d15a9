/* The table of schedules: one section per policy, with its keys, its formula and the source of the
 * formula. A rate is a pure function of the step, so there is no state, and any thread may call.
 * sw_schedule_rate at the end adds the linear warm-up that all policies share. */
#include "optim/schedule.h"
#include <math.h>
#include <stddef.h>

/* Keys that several policies have. */
#define STEP_SIZE(struct_, help_)                                                                  \
    {                                                                                              \
        .key = "step_size", .help = help_, .type = SW_OPT_INT,                                     \
        .offset = offsetof(struct_, step_size), .min = 1, .max = INFINITY, .required = true,       \
    }
#define OVER(struct_, what_)                                                                       \
    {                                                                                              \
        .key = "over", .help = "steps until " what_ "; 0: job.steps", .type = SW_OPT_INT,          \
        .offset = offsetof(struct_, over), .def = "0", .min = 0, .max = INFINITY,                  \
    }
#define FINAL(struct_)                                                                             \
    {                                                                                              \
        .key = "final", .help = "rate at the end and after it", .type = SW_OPT_REAL,               \
        .offset = offsetof(struct_, final), .def = "0", .min = 0, .max = INFINITY,                 \
    }
#define AT(struct_, help_)                                                                         \
    {                                                                                              \
        .key = "at", .help = help_, .type = SW_OPT_REALS, .offset = offsetof(struct_, at),         \
        .min = 0, .max = INFINITY, .required = true,                                               \
    }

/* Returns the fraction of `over` steps that has passed, at most 1. */
static double fraction_of(uint64_t step, int64_t over, uint64_t horizon_steps)
{
    uint64_t length = over > 0 ? (uint64_t)over : horizon_steps;
    return step < length ? (double)step / (double)length : 1;
}

/* ---- fixed ---- */

static double fixed_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    return lr;
}

static const struct sw_schedule fixed = {
    .base = {.name = "fixed", .help = "the rate never changes"},
    .rate = fixed_rate,
};

/* ---- step: lr gamma^floor(step / step_size), Caffe's `step` ---- */

struct step_conf {
    double gamma;
    int64_t step_size;
};

static const struct sw_opt step_opts[] = {
    {.key = "gamma",
     .help = "factor of the rate at the end of every interval",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct step_conf, gamma),
     .min = 0,
     .max = INFINITY,
     .required = true},
    STEP_SIZE(struct step_conf, "length of an interval, in steps"),
    {0},
};

static double step_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct step_conf *c = conf;
    return lr * pow(c->gamma, (double)(step / (uint64_t)c->step_size));
}

static const struct sw_schedule stepwise = {
    .base = {.name = "step",
             .help = "lr gamma^floor(step / step_size)",
             .opts = step_opts,
             .conf_bytes = sizeof(struct step_conf)},
    .rate = step_rate,
};

/* ---- inverse: lr (1 + gamma step)^-power, Caffe's `inv`, SINGA's kInverse ---- */

struct inverse_conf {
    double gamma, power;
};

static const struct sw_opt inverse_opts[] = {
    {.key = "gamma",
     .help = "speed of the decay, per step",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct inverse_conf, gamma),
     .min = 0,
     .max = INFINITY,
     .required = true},
    {.key = "power",
     .help = "exponent of the decay",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct inverse_conf, power),
     .min = 0,
     .max = INFINITY,
     .required = true},
    {0},
};

static double inverse_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct inverse_conf *c = conf;
    return lr * pow(1 + c->gamma * (double)step, -c->power);
}

static const struct sw_schedule inverse = {
    .base = {.name = "inverse",
             .help = "lr (1 + gamma step)^-power",
             .opts = inverse_opts,
             .conf_bytes = sizeof(struct inverse_conf)},
    .rate = inverse_rate,
};

/* ---- multistep: lr gamma^(number of steps in `at` that have passed), Caffe's `multistep` ---- */

struct multistep_conf {
    struct sw_reals at;
    double gamma;
};

static const struct sw_opt multistep_opts[] = {
    AT(struct multistep_conf, "steps at which the rate changes, ascending"),
    {.key = "gamma",
     .help = "factor of the rate at each of these steps",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct multistep_conf, gamma),
     .def = "0.1",
     .min = 0,
     .max = INFINITY},
    {0},
};

/* Returns how many of the listed steps have passed. */
static int passed(const struct sw_reals *at, uint64_t step)
{
    int n = 0;
    while (n < at->count && (double)step >= at->items[n])
        n++;
    return n;
}

static int check_at(const struct sw_reals *at, struct sw_err *err)
{
    for (int i = 0; i < at->count; i++) {
        if (at->items[i] != floor(at->items[i]))
            return sw_err_set(err, SW_ERR_INVALID, "at: %g is not a whole number of steps",
                              at->items[i]);
        if (i > 0 && at->items[i] <= at->items[i - 1])
            return sw_err_set(err, SW_ERR_INVALID, "at: %g comes after %g: the steps must ascend",
                              at->items[i], at->items[i - 1]);
    }

    return SW_OK;
}

static int check_multistep(const void *conf, struct sw_err *err)
{
    return check_at(&((const struct multistep_conf *)conf)->at, err);
}

static double multistep_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct multistep_conf *c = conf;
    return lr * pow(c->gamma, passed(&c->at, step));
}

static const struct sw_schedule multistep = {
    .base = {.name = "multistep",
             .help = "lr, multiplied by gamma at each of the listed steps",
             .opts = multistep_opts,
             .conf_bytes = sizeof(struct multistep_conf)},
    .check = check_multistep,
    .rate = multistep_rate,
};

/* ---- fixed_step: a list of rates, SINGA's kFixedStep (without its state) ---- */

struct fixed_step_conf {
    struct sw_reals at, rates;
};

static const struct sw_opt fixed_step_opts[] = {
    AT(struct fixed_step_conf, "steps from which the listed rates apply, ascending"),
    {.key = "rates",
     .help = "the rate from each of these steps on; before the first it is lr",
     .type = SW_OPT_REALS,
     .offset = offsetof(struct fixed_step_conf, rates),
     .min = 0,
     .max = INFINITY,
     .required = true},
    {0},
};

static int check_fixed_step(const void *conf, struct sw_err *err)
{
    const struct fixed_step_conf *c = conf;
    if (c->at.count != c->rates.count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "at has %d steps, but rates has %d: give one rate for each step",
                          c->at.count, c->rates.count);

    return check_at(&c->at, err);
}

static double fixed_step_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct fixed_step_conf *c = conf;
    int n = passed(&c->at, step);
    return n > 0 ? c->rates.items[n - 1] : lr;
}

static const struct sw_schedule fixed_step = {
    .base = {.name = "fixed_step",
             .help = "a list of rates, each from its step on",
             .opts = fixed_step_opts,
             .conf_bytes = sizeof(struct fixed_step_conf)},
    .check = check_fixed_step,
    .rate = fixed_step_rate,
};

/* ---- exponential: lr gamma^(step / step_size); with gamma 1/2 SINGA's kExponential, with
 * step_size 1 Caffe's `exp` ---- */

static const struct sw_opt exponential_opts[] = {
    {.key = "gamma",
     .help = "factor of the rate over step_size steps",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct step_conf, gamma),
     .def = "0.5",
     .min = 0,
     .max = INFINITY,
     .above_min = true},
    STEP_SIZE(struct step_conf, "steps in which the rate changes by gamma"),
    {0},
};

static double exponential_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct step_conf *c = conf;
    return lr * pow(c->gamma, (double)step / (double)c->step_size);
}

static const struct sw_schedule exponential = {
    .base = {.name = "exponential",
             .help = "lr gamma^(step / step_size)",
             .opts = exponential_opts,
             .conf_bytes = sizeof(struct step_conf)},
    .rate = exponential_rate,
};

/* ---- inverse_t: lr / (1 + step / step_size), SINGA's kInverseT, with step_size for final_lr ----
 */

struct inverse_t_conf {
    int64_t step_size;
};

static const struct sw_opt inverse_t_opts[] = {
    STEP_SIZE(struct inverse_t_conf, "steps until the rate has halved"),
    {0},
};

static double inverse_t_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct inverse_t_conf *c = conf;
    return lr / (1 + (double)step / (double)c->step_size);
}

static const struct sw_schedule inverse_t = {
    .base = {.name = "inverse_t",
             .help = "lr / (1 + step / step_size)",
             .opts = inverse_t_opts,
             .conf_bytes = sizeof(struct inverse_t_conf)},
    .rate = inverse_t_rate,
};

/* ---- polynomial: final + (lr - final) (1 - r)^power, r = step / over, at most 1; with final 0
 * Caffe's `poly`. linear: power 1, like SINGA's kLinear, which does not stop at its end ---- */

struct polynomial_conf {
    double final, power;
    int64_t over;
};

static const struct sw_opt polynomial_opts[] = {
    FINAL(struct polynomial_conf),
    OVER(struct polynomial_conf, "the rate is final"),
    {.key = "power",
     .help = "exponent of the decay",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct polynomial_conf, power),
     .min = 0,
     .max = INFINITY,
     .above_min = true,
     .required = true},
    {0},
};

static const struct sw_opt linear_opts[] = {
    FINAL(struct polynomial_conf),
    OVER(struct polynomial_conf, "the rate is final"),
    {0},
};

static double polynomial_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct polynomial_conf *c = conf;
    double left = 1 - fraction_of(step, c->over, horizon_steps);
    return c->final + (lr - c->final) * pow(left, c->power);
}

static double linear_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct polynomial_conf *c = conf;
    double left = 1 - fraction_of(step, c->over, horizon_steps);
    return c->final + (lr - c->final) * left;
}

static const struct sw_schedule polynomial = {
    .base = {.name = "polynomial",
             .help = "from lr to final as (1 - step / over)^power",
             .opts = polynomial_opts,
             .conf_bytes = sizeof(struct polynomial_conf)},
    .rate = polynomial_rate,
};

static const struct sw_schedule linear = {
    .base = {.name = "linear",
             .help = "from lr to final on a straight line",
             .opts = linear_opts,
             .conf_bytes = sizeof(struct polynomial_conf)},
    .rate = linear_rate,
};

/* ---- cosine: final + (lr - final) (1 + cos(pi r)) / 2: Loshchilov and Hutter, "SGDR: stochastic
 * gradient descent with warm restarts" (2017), equation 5, without restarts ---- */

struct cosine_conf {
    double final;
    int64_t over;
};

static const struct sw_opt cosine_opts[] = {
    FINAL(struct cosine_conf),
    OVER(struct cosine_conf, "the rate is final"),
    {0},
};

/* From a to b on half a cosine, r from 0 to 1; the ends are exact. */
static double half_cosine(double a, double b, double r)
{
    return r >= 1 ? b : b + (a - b) * (1 + cos(acos(-1) * r)) / 2;
}

static double cosine_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct cosine_conf *c = conf;
    return half_cosine(lr, c->final, fraction_of(step, c->over, horizon_steps));
}

static const struct sw_schedule cosine = {
    .base = {.name = "cosine",
             .help = "from lr to final on half a cosine",
             .opts = cosine_opts,
             .conf_bytes = sizeof(struct cosine_conf)},
    .rate = cosine_rate,
};

/* ---- one_cycle: Smith and Topin, "Super-convergence: very fast training of neural networks using
 * large learning rates" (2018), with PyTorch's half cosines: up from lr / start_div to lr,
 * then down to lr / final_div. The momentum does not change ---- */

struct one_cycle_conf {
    double peak, start_div, final_div;
    int64_t over;
};

static const struct sw_opt one_cycle_opts[] = {
    {.key = "peak",
     .help = "share of the cycle at which the rate is lr",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct one_cycle_conf, peak),
     .def = "0.3",
     .min = 0,
     .max = 1,
     .above_min = true,
     .below_max = true},
    {.key = "start_div",
     .help = "the cycle begins at lr divided by this",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct one_cycle_conf, start_div),
     .def = "25",
     .min = 1,
     .max = INFINITY},
    {.key = "final_div",
     .help = "the cycle ends at lr divided by this, which is kept",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct one_cycle_conf, final_div),
     .def = "250000",
     .min = 1,
     .max = INFINITY},
    OVER(struct one_cycle_conf, "the cycle has ended"),
    {0},
};

static double one_cycle_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct one_cycle_conf *c = conf;
    double r = fraction_of(step, c->over, horizon_steps);
    if (r < c->peak)
        return half_cosine(lr / c->start_div, lr, r / c->peak);

    return half_cosine(lr, lr / c->final_div, (r - c->peak) / (1 - c->peak));
}

static const struct sw_schedule one_cycle = {
    .base = {.name = "one_cycle",
             .help = "rises to lr, then falls to nearly 0",
             .opts = one_cycle_opts,
             .conf_bytes = sizeof(struct one_cycle_conf)},
    .rate = one_cycle_rate,
};

/* ---- the table ---- */

const struct sw_type *const sw_schedules[] = {&fixed.base,      &stepwise.base,    &multistep.base,
                                              &fixed_step.base, &linear.base,      &polynomial.base,
                                              &cosine.base,     &one_cycle.base,   &inverse.base,
                                              &inverse_t.base,  &exponential.base, NULL};

int sw_schedule_check(const struct sw_type *type, const void *conf, struct sw_err *err)
{
    const struct sw_schedule *s = (const struct sw_schedule *)type;
    return s->check ? s->check(conf, err) : SW_OK;
}

static double policy_rate(const struct sw_rate *r, uint64_t step)
{
    return ((const struct sw_schedule *)r->policy)->rate(r->conf, r->lr, step, r->horizon_steps);
}

double sw_schedule_rate(const struct sw_rate *r, uint64_t step)
{
    if (step >= r->warmup)
        return policy_rate(r, step);
    double end = policy_rate(r, r->warmup);
    return r->warmup_start + (end - r->warmup_start) * ((double)step / (double)r->warmup);
}
