/* The partition function of a Boltzmann machine by annealed importance sampling
 * (kernels/ops/ais.h), as part of a metric. Every row of the first batch of an evaluation may run a
 * chain, so the chains are distributed over the workers and the result does not depend on their
 * number. They start from the base rates of the units over the rows of that batch, given the data:
 * forward of the metric consists of a first phase, in which the metric counts the activations and
 * which ends with their sum over the workers, and of phases in which chains run. The estimate of Z
 * is unbiased, so with too few or too short chains that of log Z tends to be too low and a
 * likelihood too high. The metric's pairs 1 .. chains are the log weights of the chains. Thread
 * rule as for layers. */
#pragma once

#include "kernels/ops/ais.h"
#include "layers/layer.h"

struct sw_ais_conf {
    int64_t chains, temperatures;
};

#define SW_AIS_OPTS(conf, member)                                                                  \
    SW_OPT_KEY(INT, "chains", conf, member.chains,                                                 \
               "chains of annealed importance sampling; at most the rows of an evaluation batch",  \
               .def = "100", .min = 1, .max = 65536),                                              \
        SW_OPT_KEY(INT, "temperatures", conf, member.temperatures,                                 \
                   "steps in which each chain goes from independent units to the machine",         \
                   .def = "14500", .min = 1, .max = 10000000)

/* Of a layer with `rows` rows: the units of the machine on the side of which chains have states,
 * and on the other side, which is summed out. */
struct sw_ais_size {
    int64_t rows, visible, hidden;
};

struct sw_ais {
    struct sw_ais_conf conf;
    struct sw_ais_size size; /* rows: those that may run a chain */
    uint64_t seed;
    size_t v_at, h_at, weight_at, base_at, blend_at; /* offsets in scratch */
};

/* Call in setup: reserves scratch for the chains of a machine of this size, and sets the numbers of
 * pairs, sums and forward phases. Errors: SW_ERR_INVALID. */
int sw_ais_setup(struct sw_ais *a, struct sw_layer *l, const struct sw_layer_setup *s,
                 const struct sw_ais_conf *c, const struct sw_ais_size *size,
                 struct sw_err *err) SW_MUST_CHECK;

/* Units next to each other on one side of the machine, and their means given the rows' data. */
struct sw_ais_units {
    bool hidden;
    int64_t first, columns;
    const float *mean; /* [rows, columns] of the layer */
    int64_t rows;
};
/* Counts the activations of these units. Call in phase 0, once for each unit. */
int sw_ais_count(const struct sw_ais *a, struct sw_layer *l, const struct sw_pass *r,
                 const struct sw_ais_units *units, struct sw_err *err) SW_MUST_CHECK;

/* Runs the chains' steps of this phase, none in phase 0. machine: units, weight, bias and
 * visible_bias; the other members are ignored. */
int sw_ais_run(const struct sw_ais *a, struct sw_layer *l, const struct sw_pass *r,
               const struct sw_ais_args *machine, struct sw_err *err) SW_MUST_CHECK;

/* The values of such a metric: the mean of log p, then those of log Z. */
extern const char *const sw_ais_values[];

/* Returns value `which` from the totals of all pairs, of which the first is the log p of rows
 * without log Z; NaN if it is undefined. log Z is the log of the mean weight of the chains; low and
 * high are log(Z -+ 3 standard errors of the mean) as in Salakhutdinov and Murray 2008. */
double sw_ais_value(const struct sw_result *total, int64_t chains, int which);
