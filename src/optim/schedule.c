/* The table of schedules: one section per policy, with its keys, its formula and the source of the
 * formula. A rate is a pure function of the step, so there is no state, and any thread may call.
 * sw_schedule_rate at the end adds the linear warm-up that all policies share. */
#include "optim/schedule.h"
#include <math.h>

/* The keys of all policies; each fills its own. */
struct conf {
    double gamma, power;
    int64_t step_size;
    struct sw_reals at, rates;
    double final, peak, start_div, final_div;
    int64_t over;
};

/* Keys that several policies have. */
#define STEP_SIZE(help_)                                                                           \
    SW_OPT(INT, struct conf, step_size, help_, .min = 1, .max = INFINITY, .required = true)
#define OVER(what_)                                                                                \
    SW_OPT(INT, struct conf, over, "steps until " what_ "; 0: job.steps", .def = "0", .min = 0,    \
           .max = INFINITY)
#define FINAL                                                                                      \
    SW_OPT(REAL, struct conf, final, "rate at the end and after it", .def = "0", .min = 0,         \
           .max = INFINITY)
#define AT(help_) SW_OPT(REALS, struct conf, at, help_, .min = 0, .max = INFINITY, .required = true)

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

static const struct sw_opt step_opts[] = {
    SW_OPT(REAL, struct conf, gamma, "factor of the rate at the end of every interval", .min = 0,
           .max = INFINITY, .required = true),
    STEP_SIZE("length of an interval, in steps"),
    {0},
};

static double step_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    return lr * pow(c->gamma, (double)(step / (uint64_t)c->step_size));
}

static const struct sw_schedule stepwise = {
    .base = SW_TYPE("step", "lr gamma^floor(step / step_size)", struct conf, step_opts),
    .rate = step_rate,
};

/* ---- inverse: lr (1 + gamma step)^-power, Caffe's `inv`, SINGA's kInverse ---- */

static const struct sw_opt inverse_opts[] = {
    SW_OPT(REAL, struct conf, gamma, "speed of the decay, per step", .min = 0, .max = INFINITY,
           .required = true),
    SW_OPT(REAL, struct conf, power, "exponent of the decay", .min = 0, .max = INFINITY,
           .required = true),
    {0},
};

static double inverse_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    return lr * pow(1 + c->gamma * (double)step, -c->power);
}

static const struct sw_schedule inverse = {
    .base = SW_TYPE("inverse", "lr (1 + gamma step)^-power", struct conf, inverse_opts),
    .rate = inverse_rate,
};

/* ---- multistep: lr gamma^(number of steps in `at` that have passed), Caffe's `multistep` ---- */

static const struct sw_opt multistep_opts[] = {
    AT("steps at which the rate changes, ascending"),
    SW_OPT(REAL, struct conf, gamma, "factor of the rate at each of these steps", .def = "0.1",
           .min = 0, .max = INFINITY),
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
    return check_at(&((const struct conf *)conf)->at, err);
}

static double multistep_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    return lr * pow(c->gamma, passed(&c->at, step));
}

static const struct sw_schedule multistep = {
    .base = SW_TYPE("multistep", "lr, multiplied by gamma at each of the listed steps", struct conf,
                    multistep_opts),
    .check = check_multistep,
    .rate = multistep_rate,
};

/* ---- fixed_step: a list of rates, SINGA's kFixedStep (without its state) ---- */

static const struct sw_opt fixed_step_opts[] = {
    AT("steps from which the listed rates apply, ascending"),
    SW_OPT(REALS, struct conf, rates,
           "the rate from each of these steps on; before the first it is lr", .min = 0,
           .max = INFINITY, .required = true),
    {0},
};

static int check_fixed_step(const void *conf, struct sw_err *err)
{
    const struct conf *c = conf;
    if (c->at.count != c->rates.count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "at has %d steps, but rates has %d: give one rate for each step",
                          c->at.count, c->rates.count);

    return check_at(&c->at, err);
}

static double fixed_step_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    int n = passed(&c->at, step);
    return n > 0 ? c->rates.items[n - 1] : lr;
}

static const struct sw_schedule fixed_step = {
    .base = SW_TYPE("fixed_step", "a list of rates, each from its step on", struct conf,
                    fixed_step_opts),
    .check = check_fixed_step,
    .rate = fixed_step_rate,
};

/* ---- exponential: lr gamma^(step / step_size); with gamma 1/2 SINGA's kExponential, with
 * step_size 1 Caffe's `exp` ---- */

static const struct sw_opt exponential_opts[] = {
    SW_OPT(REAL, struct conf, gamma, "factor of the rate over step_size steps", .def = "0.5",
           .min = 0, .max = INFINITY, .above_min = true),
    STEP_SIZE("steps in which the rate changes by gamma"),
    {0},
};

static double exponential_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    return lr * pow(c->gamma, (double)step / (double)c->step_size);
}

static const struct sw_schedule exponential = {
    .base = SW_TYPE("exponential", "lr gamma^(step / step_size)", struct conf, exponential_opts),
    .rate = exponential_rate,
};

/* ---- inverse_t: lr / (1 + step / step_size), SINGA's kInverseT, with step_size for final_lr ----
 */

static const struct sw_opt inverse_t_opts[] = {
    STEP_SIZE("steps until the rate has halved"),
    {0},
};

static double inverse_t_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    return lr / (1 + (double)step / (double)c->step_size);
}

static const struct sw_schedule inverse_t = {
    .base = SW_TYPE("inverse_t", "lr / (1 + step / step_size)", struct conf, inverse_t_opts),
    .rate = inverse_t_rate,
};

/* ---- polynomial: final + (lr - final) (1 - r)^power, r = step / over, at most 1; with final 0
 * Caffe's `poly`. linear: power 1, like SINGA's kLinear, which does not stop at its end ---- */

static const struct sw_opt polynomial_opts[] = {
    FINAL,
    OVER("the rate is final"),
    SW_OPT(REAL, struct conf, power, "exponent of the decay", .min = 0, .max = INFINITY,
           .above_min = true, .required = true),
    {0},
};

static const struct sw_opt linear_opts[] = {
    FINAL,
    OVER("the rate is final"),
    {0},
};

static double polynomial_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    double left = 1 - fraction_of(step, c->over, horizon_steps);
    return c->final + (lr - c->final) * pow(left, c->power);
}

static double linear_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    double left = 1 - fraction_of(step, c->over, horizon_steps);
    return c->final + (lr - c->final) * left;
}

static const struct sw_schedule polynomial = {
    .base = SW_TYPE("polynomial", "from lr to final as (1 - step / over)^power", struct conf,
                    polynomial_opts),
    .rate = polynomial_rate,
};

static const struct sw_schedule linear = {
    .base = SW_TYPE("linear", "from lr to final on a straight line", struct conf, linear_opts),
    .rate = linear_rate,
};

/* ---- cosine: final + (lr - final) (1 + cos(pi r)) / 2: Loshchilov and Hutter, "SGDR: stochastic
 * gradient descent with warm restarts" (2017), equation 5, without restarts ---- */

static const struct sw_opt cosine_opts[] = {
    FINAL,
    OVER("the rate is final"),
    {0},
};

/* From a to b on half a cosine, r from 0 to 1; the ends are exact. */
static double half_cosine(double a, double b, double r)
{
    return r >= 1 ? b : b + (a - b) * (1 + cos(acos(-1) * r)) / 2;
}

static double cosine_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    return half_cosine(lr, c->final, fraction_of(step, c->over, horizon_steps));
}

static const struct sw_schedule cosine = {
    .base = SW_TYPE("cosine", "from lr to final on half a cosine", struct conf, cosine_opts),
    .rate = cosine_rate,
};

/* ---- one_cycle: Smith and Topin, "Super-convergence: very fast training of neural networks using
 * large learning rates" (2018), with PyTorch's half cosines: up from lr / start_div to lr,
 * then down to lr / final_div. The momentum does not change ---- */

static const struct sw_opt one_cycle_opts[] = {
    SW_OPT(REAL, struct conf, peak, "share of the cycle at which the rate is lr", .def = "0.3",
           .min = 0, .max = 1, .above_min = true, .below_max = true),
    SW_OPT(REAL, struct conf, start_div, "the cycle begins at lr divided by this", .def = "25",
           .min = 1, .max = INFINITY),
    SW_OPT(REAL, struct conf, final_div, "the cycle ends at lr divided by this, which is kept",
           .def = "250000", .min = 1, .max = INFINITY),
    OVER("the cycle has ended"),
    {0},
};

static double one_cycle_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct conf *c = conf;
    double r = fraction_of(step, c->over, horizon_steps);
    if (r < c->peak)
        return half_cosine(lr / c->start_div, lr, r / c->peak);

    return half_cosine(lr, lr / c->final_div, (r - c->peak) / (1 - c->peak));
}

static const struct sw_schedule one_cycle = {
    .base =
        SW_TYPE("one_cycle", "rises to lr, then falls to nearly 0", struct conf, one_cycle_opts),
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
