#include "param/schedule.h"
#include <math.h>
#include <stddef.h>

/* ---- fixed ------------------------------------------------------------------------------------
 */

static double fixed_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    (void)conf, (void)step, (void)horizon_steps;
    return lr;
}

static const struct sw_schedule fixed = {
    .base = {.name = "fixed", .help = "the rate never changes"},
    .rate = fixed_rate,
};

/* ---- step: lr gamma^floor(step / step_size), Caffe's `step` -----------------------------------
 */

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
    {.key = "step_size",
     .help = "length of an interval, in steps",
     .type = SW_OPT_INT,
     .offset = offsetof(struct step_conf, step_size),
     .min = 1,
     .max = INFINITY,
     .required = true},
    {0},
};

static double step_rate(const void *conf, double lr, uint64_t step, uint64_t horizon_steps)
{
    const struct step_conf *c = conf;
    (void)horizon_steps;
    return lr * pow(c->gamma, (double)(step / (uint64_t)c->step_size));
}

static const struct sw_schedule stepwise = {
    .base = {.name = "step",
             .help = "lr gamma^floor(step / step_size)",
             .opts = step_opts,
             .conf_bytes = sizeof(struct step_conf)},
    .rate = step_rate,
};

/* ---- inverse: lr (1 + gamma step)^-power, Caffe's `inv`, SINGA's kInverse ----------------------
 */

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
    (void)horizon_steps;
    return lr * pow(1 + c->gamma * (double)step, -c->power);
}

static const struct sw_schedule inverse = {
    .base = {.name = "inverse",
             .help = "lr (1 + gamma step)^-power",
             .opts = inverse_opts,
             .conf_bytes = sizeof(struct inverse_conf)},
    .rate = inverse_rate,
};

/* ---- the table --------------------------------------------------------------------------------
 */

const struct sw_type *const sw_schedules[] = {&fixed.base, &stepwise.base, &inverse.base, NULL};

double sw_schedule_rate(const struct sw_type *type, const void *conf, double lr, uint64_t step,
                        uint64_t horizon_steps)
{
    return ((const struct sw_schedule *)type)->rate(conf, lr, step, horizon_steps);
}
