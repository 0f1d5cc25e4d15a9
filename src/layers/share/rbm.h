/* What the layers of restricted Boltzmann machines share: names of units, the stream of each draw,
 * and a whole machine as a metric sees it: sources are its rbm_visible and its rbm_hidden layer, of
 * which it borrows the parameters. A metric's state begins with a struct sw_rbm. */
#pragma once

#include "layers/share/plain.h"

#include "kernels/ops/units.h"

/* enum sw_units, as keys say it. */
extern const char *const sw_visible_units[], *const sw_hidden_units[];

/* Draws of turn `turn` of a chain (0: those of the data) in a layer. */
static inline struct sw_philox sw_rbm_key(uint64_t seed, const struct sw_layer *l, int turn)
{
    return sw_philox_stream(seed, SW_PURPOSE_SAMPLE, l->id + sw_mix64((uint64_t)turn));
}

struct sw_rbm {
    struct sw_plain in; /* visible states */
    int64_t rows, visible, hidden;
    size_t x_at, energy_at, total_at; /* in scratch: W v, a number per row, words per row */
};

/* What kinds of units the machine has: the layers' own keys again. */
struct sw_rbm_conf {
    int visible_units, hidden_units; /* enum sw_units */
};
extern const char *const sw_rbm_params[];
extern const struct sw_layer_borrow sw_rbm_borrows[];

enum { SW_RBM_WEIGHT, SW_RBM_BIAS, SW_RBM_VISIBLE_BIAS };

#define SW_RBM_OPTS(conf, member)                                                                  \
    SW_OPT_KEY(ENUM, "visible_units", conf, member.visible_units, "as units of the visible layer", \
               .def = "bernoulli", .choices = sw_visible_units),                                   \
        SW_OPT_KEY(ENUM, "hidden_units", conf, member.hidden_units,                                \
                   "as units of the hidden layer", .def = "bernoulli", .choices = sw_hidden_units)

/* Setup: the parameters, a plain output of one number per row, scratch. Errors: SW_ERR_INVALID. */
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
/* *v: the visible rows; x becomes W v. */
int sw_rbm_weigh(const struct sw_rbm *m, const struct sw_layer *l, const struct sw_pass *r,
                 const float **v, struct sw_err *err) SW_MUST_CHECK;
/* Every row's free energy, and their sum in l->result as the pair `factor` times it and the rows,
 * after sw_rbm_weigh. */
int sw_rbm_free_energy(const struct sw_rbm *m, struct sw_layer *l, const struct sw_pass *r,
                       const struct sw_rbm_conf *c, const float *v, double factor,
                       struct sw_err *err) SW_MUST_CHECK;
