/* What the layers of restricted Boltzmann machines have in common: names of units, the random
 * stream of each sample, and a whole machine as seen by a metric, whose sources are the rbm_visible
 * and the rbm_hidden layer and whose parameters are tied to theirs. A metric's state begins with a
 * struct sw_rbm. */
#pragma once

#include "layers/share/plain.h"

#include "kernels/ops/units.h"

/* Key values of enum sw_units. */
extern const char *const sw_visible_units[], *const sw_hidden_units[];

/* Returns the random stream of a layer's samples in Gibbs step `turn` (0: samples given the
 * data). */
static inline struct sw_philox sw_rbm_key(uint64_t seed, const struct sw_layer *l, int turn)
{
    return sw_philox_stream(seed, SW_PURPOSE_SAMPLE, l->id + sw_mix64((uint64_t)turn));
}

struct sw_rbm {
    struct sw_plain in; /* source 0: visible states */
    int64_t rows, visible, hidden;
    size_t x_at, energy_at,
        total_at; /* offsets in scratch: W v, one number per row, words per row */
};

/* The kinds of units of the machine; these keys repeat those of the layers. */
struct sw_rbm_conf {
    int visible_units, hidden_units; /* enum sw_units */
};
extern const char *const sw_rbm_params[];
extern const struct sw_layer_borrow sw_rbm_borrows[];

enum { SW_RBM_WEIGHT, SW_RBM_BIAS, SW_RBM_VISIBLE_BIAS };

#define SW_RBM_OPTS(conf, member)                                                                  \
    SW_OPT_KEY(ENUM, "visible_units", conf, member.visible_units,                                  \
               "kind of units of the visible layer", .def = "bernoulli",                           \
               .choices = sw_visible_units),                                                       \
        SW_OPT_KEY(ENUM, "hidden_units", conf, member.hidden_units,                                \
                   "kind of units of the hidden layer", .def = "bernoulli",                        \
                   .choices = sw_hidden_units)

/* Call in setup: adds the parameters, reserves scratch, and sets a plain output of one number per
 * row. Errors: SW_ERR_INVALID. */
int sw_rbm_setup(struct sw_rbm *m, struct sw_layer *l, const struct sw_layer_setup *s,
                 struct sw_err *err) SW_MUST_CHECK;

static inline float *sw_rbm_x(const struct sw_rbm *m, const struct sw_layer *l)
{
    return sw_layer_at(l->scratch, m->x_at);
}
static inline double *sw_rbm_energies(const struct sw_rbm *m, const struct sw_layer *l)
{
    return sw_layer_at(l->scratch, m->energy_at);
}
/* Sets *v to the visible rows and computes the input of the hidden units, x = W v [rows,
 * hidden]. */
int sw_rbm_weigh(const struct sw_rbm *m, const struct sw_layer *l, const struct sw_pass *r,
                 const float **v, struct sw_err *err) SW_MUST_CHECK;
/* After sw_rbm_weigh: computes the free energy of every row, and sets l->result to `factor` times
 * their sum and the number of rows. */
int sw_rbm_free_energy(const struct sw_rbm *m, struct sw_layer *l, const struct sw_pass *r,
                       const struct sw_rbm_conf *c, const float *v, double factor,
                       struct sw_err *err) SW_MUST_CHECK;
