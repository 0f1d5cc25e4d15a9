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

/* The last source of a side of a conditional machine (Taylor, Hinton and Roweis, "Modeling Human
 * Motion Using Binary Latent Variables", 2007): biases of each row, which layers below compute,
 * such as an inner_product of past frames. `src` is 0 where there is none. */
struct sw_rbm_condition {
    int src;
    struct sw_plain in;
};
#define SW_RBM_CONDITIONED_OPT(conf, member)                                                       \
    SW_OPT_KEY(BOOL, "conditioned", conf, member,                                                  \
               "the last source, as many values as units, is added to the biases of each row",     \
               .def = "no")

/* Call in setup with the layer's source `src` of [rows, columns]. Errors: SW_ERR_INVALID, and those
 * of sw_plain_init. */
int sw_rbm_condition_init(struct sw_rbm_condition *c, struct sw_layer *l, int src, int64_t rows,
                          int64_t columns, const struct sw_layer_setup *s,
                          struct sw_err *err) SW_MUST_CHECK;
/* Sets *out to the condition, NULL where there is none. For forward, and for backward if
 * backward_reads_src includes the source. */
int sw_rbm_condition_values(const struct sw_rbm_condition *c, const struct sw_layer *l,
                            const struct sw_pass *r, const float **out,
                            struct sw_err *err) SW_MUST_CHECK;
/* Adds the condition to x, the input of the units from the other side: to add d to the biases is to
 * add it to the input. Energies then lack a term that is the same for all states of the row. */
int sw_rbm_condition_add(const struct sw_rbm_condition *c, const struct sw_layer *l,
                         const struct sw_pass *r, float *x, struct sw_err *err) SW_MUST_CHECK;
/* alpha a + beta b, plain arrays of one size. b may be NULL: alpha a. */
struct sw_rbm_sum {
    float alpha, beta;
    const float *a, *b;
};
/* Writes its gradient, a sum of arrays of its size; nothing where no gradient is needed. */
int sw_rbm_condition_gradient(const struct sw_rbm_condition *c, struct sw_layer *l,
                              const struct sw_pass *r, const struct sw_rbm_sum *gradient,
                              struct sw_err *err) SW_MUST_CHECK;

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

/* Call in setup: adds the parameters, in the order of that enum. */
void sw_rbm_add_params(struct sw_layer *l, int64_t visible, int64_t hidden);
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
