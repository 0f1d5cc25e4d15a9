/* Compares layers with formulas that a test computes in double: forward and all gradients, on both
 * devices, with plain and with blocked sources. */
#pragma once

#include "layer_support.h"

/* The plain tensors of a pass according to a formula; owned. */
struct exact {
    double *dst, *src_grad, *weight_grad, *bias_grad;
};

/* Fills e for the inputs in v. */
typedef void formula_fn(const void *shape, const struct values *v, struct exact *e);

static inline double *zeros(int64_t n)
{
    double *x = get_doubles(n);
    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}

static inline void near(const char *text, const char *part, const float *have, const double *want,
                        int64_t n, bool reference)
{
    char what[512];
    snprintf(what, sizeof what, "%s%s: %s", text, reference ? " (reference)" : "", part);
    assert_near(what, have, want, n, reference ? 1e-5 : 1e-4);
}

static inline void check_pass(struct rig *g, struct values *v, bool reference, const char *text,
                              formula_fn *formula, const void *shape)
{
    struct exact e = {zeros(v->dst_n), zeros(v->src_n[0]),
                      v->param_count > 0 ? zeros(v->param_n[0]) : NULL,
                      v->param_count > 1 ? zeros(v->param_n[1]) : NULL};
    rig_pass(g, v);
    formula(shape, v, &e);
    near(text, "output", v->dst, e.dst, v->dst_n, reference);
    near(text, "source gradient", v->src_grad[0], e.src_grad, v->src_n[0], reference);
    if (e.weight_grad)
        near(text, "weight gradient", v->param_grad[0], e.weight_grad, v->param_n[0], reference);
    if (e.bias_grad)
        near(text, "bias gradient", v->param_grad[1], e.bias_grad, v->param_n[1], reference);
    free(e.dst);
    free(e.src_grad);
    free(e.weight_grad);
    free(e.bias_grad);
}

/* ties: sources are 0, 1 or 2, so that maxima have many ties. */
static inline void check(const char *type, const struct sw_layer_example *ex, formula_fn *formula,
                         const void *shape, bool ties)
{
    for (int reference = 0; reference < 2; reference++)
        for (int block = 0; block <= (ex->src[0].ndim == 4 ? 16 : 0); block += 8) {
            struct fixture f = open_cpu(reference, 1);
            struct rig g;
            rig_setup(&g, sw_layer_type_find(type), ex,
                      &(struct how){.stream = f.stream, .block = block});
            struct values v = values_new(&g, ex, 11);
            for (int64_t i = 0; ties && i < v.src_n[0]; i++)
                v.src[0][i] = floorf(v.src[0][i]) + 2 > 2 ? 2 : floorf(v.src[0][i]) + 2;
            check_pass(&g, &v, reference, ex->recipe, formula, shape);
            values_free(&v);
            rig_close(&g);
            close_cpu(&f);
        }
}

/* Setup must refuse a source [2, 6, 5, 4] with a message that contains `says`. */
static inline void assert_refused(const char *type, const char *recipe, const char *says)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_layer_example ex = {.recipe = recipe, .src = {{4, {2, 6, 5, 4}, 0}}};
    struct rig g;
    struct sw_err err;
    rig_open(&g, sw_layer_type_find(type), &ex, &(struct how){.stream = f.stream});
    int rc = rig_try_setup(&g, &err);
    if (rc != SW_ERR_INVALID || !strstr(err.text, says))
        fail_msg("%s with %s: %d: %s", type, recipe, rc, rc ? err.text : "");
    rig_teardown(&g);
    sw_recipe_free(g.recipe);
    close_cpu(&f);
}
