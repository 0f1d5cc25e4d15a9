/* ctest-timeout: 120
 * Conditional Boltzmann machines (Taylor, Hinton and Roweis 2007): the gradients of contrastive
 * divergence with long chains, also those of the layers that compute the biases of each row,
 * against the exact gradient of the conditional likelihood by enumeration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V = 4, H = 3, P = 2, PASTS = 4, HIDDENS = 1 << H };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

/* ---- a machine written down ---- */

/* Weights w, biases c and b, and those of the past: a to the visible, u to the hidden units. */
struct machine {
    double w[H][V], c[H], b[V], a[V][P], u[H][P];
};
enum { NUMBERS = sizeof(struct machine) / sizeof(double) };

static struct machine new_machine(double size)
{
    struct machine m;
    double *x = (double *)&m;

    for (int i = 0; i < NUMBERS; i++)
        x[i] = (double)(float)(size * sin(1.3 * i * i + 0.7 * i + 0.2));
    return m;
}

/* Past p of PASTS. */
static void past_of(int p, double *x)
{
    x[0] = p & 1 ? 0.75 : -0.5;
    x[1] = p & 2 ? 1.25 : -0.25;
}

static double visible_bias(const struct machine *m, int i, const double *past)
{
    double b = m->b[i];
    for (int k = 0; k < P; k++)
        b += m->a[i][k] * past[k];
    return b;
}

static double hidden_bias(const struct machine *m, int j, const double *past)
{
    double c = m->c[j];
    for (int k = 0; k < P; k++)
        c += m->u[j][k] * past[k];
    return c;
}

/* -E(v, h) of hidden state s, for gaussian visible units with v integrated out; mean gets the mean
 * of the visible units given s. */
static double hidden_weight(const struct machine *m, int s, const double *past, bool gaussian,
                            double *mean)
{
    double x = 0;

    for (int j = 0; j < H; j++)
        x += (s >> j & 1) * hidden_bias(m, j, past);
    for (int i = 0; i < V; i++) {
        double in = visible_bias(m, i, past);
        for (int j = 0; j < H; j++)
            in += (s >> j & 1) * m->w[j][i];
        mean[i] = gaussian ? in : 1 / (1 + exp(-in));
        x += gaussian ? 0.5 * in * in : log1p(exp(in));
    }

    return x;
}

/* -log p(v | past), up to a constant. */
static double loss_of(const struct machine *m, const double *v, const double *past, bool gaussian)
{
    double free = 0, z = 0, mean[V];

    for (int i = 0; i < V; i++) {
        const double b = visible_bias(m, i, past);
        free += gaussian ? 0.5 * (v[i] - b) * (v[i] - b) - 0.5 * b * b : -b * v[i];
    }
    for (int j = 0; j < H; j++) {
        double in = hidden_bias(m, j, past);
        for (int i = 0; i < V; i++)
            in += m->w[j][i] * v[i];
        free -= log1p(exp(in));
    }
    for (int s = 0; s < HIDDENS; s++)
        z += exp(hidden_weight(m, s, past, gaussian, mean));

    return free + log(z);
}

/* Adds factor times the statistics -dE of states with hidden means h. */
static void add_states(struct machine *g, double factor, const double *v, const double *h,
                       const double *past)
{
    for (int j = 0; j < H; j++) {
        g->c[j] += factor * h[j];
        for (int i = 0; i < V; i++)
            g->w[j][i] += factor * h[j] * v[i];
        for (int k = 0; k < P; k++)
            g->u[j][k] += factor * h[j] * past[k];
    }
    for (int i = 0; i < V; i++) {
        g->b[i] += factor * v[i];
        for (int k = 0; k < P; k++)
            g->a[i][k] += factor * v[i] * past[k];
    }
}

static void add_data(const struct machine *m, struct machine *g, double factor, const double *v,
                     const double *past)
{
    double h[H];

    for (int j = 0; j < H; j++) {
        double in = hidden_bias(m, j, past);
        for (int i = 0; i < V; i++)
            in += m->w[j][i] * v[i];
        h[j] = 1 / (1 + exp(-in));
    }
    add_states(g, -factor, v, h, past);
}

static void add_model(const struct machine *m, struct machine *g, double factor, const double *past,
                      bool gaussian)
{
    double mean[V], h[H], z = 0;

    for (int s = 0; s < HIDDENS; s++)
        z += exp(hidden_weight(m, s, past, gaussian, mean));
    for (int s = 0; s < HIDDENS; s++) {
        const double p = exp(hidden_weight(m, s, past, gaussian, mean)) / z;
        for (int j = 0; j < H; j++)
            h[j] = s >> j & 1;
        add_states(g, factor * p, mean, h, past);
    }
}

/* ---- the same machine in a model ---- */

static const char net[] =
    "[updater]\ntype = sgd\nlr = 1\n"
    "[layer x]\ntype = input\nfield = x\n[layer past]\ntype = input\nfield = past\n"
    "[layer a]\ntype = inner_product\nsrc = past\noutputs = 4\nbias = no\n"
    "[layer u]\ntype = inner_product\nsrc = past\noutputs = 3\nbias = no\n"
    "[layer vis]\ntype = rbm_visible\nsrc = x, a\nconditioned = yes\nunits = %s\n"
    "[layer hid]\ntype = rbm_hidden\nsrc = vis, u\nconditioned = yes\nhidden = 3\nk = %d\n"
    "[layer down]\ntype = rbm_visible\nsrc = vis, hid, a\nconditioned = yes\nunits = %s\n"
    "include = eval\n"
    "[layer chain]\ntype = gibbs_chain\nsrc = vis, hid, a, u\nconditioned = yes\nsampled = no\n"
    "k = 2\nvisible_units = %s\ninclude = eval\n"
    "[layer error]\ntype = reconstruction_error\nsrc = chain, down\ninclude = eval\n";

static struct sw_model *new_model(struct sw_device *d, int64_t rows, bool gaussian, int k)
{
    const char *units = gaussian ? "gaussian" : "bernoulli";
    const struct sw_net_field fields[] = {
        {.name = "x", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){rows, V})},
        {.name = "past", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){rows, P})}};
    char recipe[2048];
    struct sw_model *m;
    struct sw_err err;

    snprintf(recipe, sizeof recipe, net, units, k, units, units);
    const struct sw_model_args args = {.recipe = recipe,
                                       .device = d,
                                       .threads = 1,
                                       .seed = 5,
                                       .algorithm = SW_ALGORITHM_CD,
                                       .fields = fields,
                                       .field_count = 2};
    ASSERT_OK(sw_model_new(&args, &m, NULL, &err));
    return m;
}

/* Calls visit for each number of the machine and of the model. */
static void each(struct sw_model *model, struct machine *m, void (*visit)(double *, float *))
{
    const struct {
        const char *name;
        double *of_machine;
        int count;
    } params[] = {{"hid.weight", &m->w[0][0], H * V},
                  {"hid.bias", m->c, H},
                  {"vis.bias", m->b, V},
                  {"a.weight", &m->a[0][0], V * P},
                  {"u.weight", &m->u[0][0], H * P}};

    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        struct sw_tensor t;
        struct sw_err err;
        ASSERT_OK(sw_model_param(model, params[i].name, &t, &err));
        assert_int_equal(sw_desc_count(&t.desc), params[i].count);
        for (int k = 0; k < params[i].count; k++)
            visit(&params[i].of_machine[k], (float *)t.data + k);
    }
}

static void put(double *of_machine, float *of_model)
{
    *of_model = (float)*of_machine;
}

/* With rate 1 a step takes the gradient off. */
static void take_difference(double *of_machine, float *of_model)
{
    *of_machine -= (double)*of_model;
}

static double furthest(const struct machine *a, const struct machine *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    double most = 0;

    for (int i = 0; i < NUMBERS; i++)
        most = fmax(most, fabs(x[i] - y[i]));
    return most;
}

struct data {
    float *x, *past;
};

static struct data new_data(int64_t rows, bool gaussian)
{
    struct data d = {malloc((size_t)rows * V * sizeof(float)),
                     malloc((size_t)rows * P * sizeof(float))};

    for (int64_t r = 0; r < rows; r++) {
        double past[P];
        past_of((int)(r % PASTS), past);
        for (int k = 0; k < P; k++)
            d.past[r * P + k] = (float)past[k];
        for (int i = 0; i < V; i++)
            d.x[r * V + i] =
                gaussian ? (float)sin((double)(r * V + i)) : (float)((r * 37 + 5) >> i & 1);
    }
    return d;
}

static void row_of(const struct data *d, int64_t r, double *v, double *past)
{
    for (int i = 0; i < V; i++)
        v[i] = (double)d->x[r * V + i];
    for (int k = 0; k < P; k++)
        past[k] = (double)d->past[r * P + k];
}

/* ---- cases ---- */

static void the_exact_gradient_is_the_slope_of_the_likelihood(void **state)
{
    const double step = 1e-5;

    for (int gaussian = 0; gaussian < 2; gaussian++) {
        struct machine m = new_machine(0.8), g = {0};
        const double v[V] = {1, 0, 1, 1}, past[P] = {0.75, -0.25};

        add_data(&m, &g, 1, v, past);
        add_model(&m, &g, 1, past, gaussian);
        for (int i = 0; i < NUMBERS; i++) {
            double *at = (double *)&m + i, here = *at;
            *at = here + step;
            const double up = loss_of(&m, v, past, gaussian);
            *at = here - step;
            const double down = loss_of(&m, v, past, gaussian);
            *at = here;
            assert_true(fabs((up - down) / (2 * step) - ((double *)&g)[i]) < 1e-6);
        }
    }
}

static void long_chains_give_the_gradient_of_the_conditional_likelihood(void **state)
{
    enum { ROWS = 20000 };
    struct sw_device *d;
    struct sw_err err;

    ASSERT_OK(sw_cpu_open(true, &d, &err));
    for (int gaussian = 0; gaussian < 2; gaussian++) {
        struct sw_model *model = new_model(d, ROWS, gaussian, 30);
        struct machine m = new_machine(gaussian ? 0.4 : 0.8), want = {0};
        struct data data = new_data(ROWS, gaussian);
        double v[V], past[P];

        each(model, &m, put);
        for (int64_t r = 0; r < ROWS; r++) {
            row_of(&data, r, v, past);
            add_data(&m, &want, 1.0 / ROWS, v, past);
        }
        for (int p = 0; p < PASTS; p++) {
            past_of(p, past);
            add_model(&m, &want, 1.0 / PASTS, past, gaussian);
        }

        ASSERT_OK(sw_model_train(model, (void *[]){data.x, data.past}, NULL, &err));
        struct machine got = m;
        each(model, &got, take_difference);
        print_message("gaussian %d: gradient off by %.4f\n", gaussian, furthest(&got, &want));
        assert_true(furthest(&got, &want) < (gaussian ? 0.03 : 0.02)); /* about three deviations */

        sw_model_free(model);
        free(data.x);
        free(data.past);
    }
    sw_device_close(d);
}

/* The chain of means against its formula, through its distance from the reconstruction. */
static void predictions_use_the_biases_of_each_row(void **state)
{
    enum { ROWS = 8 };
    struct sw_device *d;
    struct sw_err err;

    ASSERT_OK(sw_cpu_open(true, &d, &err));
    for (int gaussian = 0; gaussian < 2; gaussian++) {
        struct sw_model *model = new_model(d, ROWS, gaussian, 1);
        struct machine m = new_machine(0.8);
        struct data data = new_data(ROWS, gaussian);
        double want = 0;

        each(model, &m, put);
        for (int64_t r = 0; r < ROWS; r++) {
            double v[V], past[P], first[V], h[H];
            row_of(&data, r, v, past);
            for (int turn = 0; turn < 2; turn++) {
                for (int j = 0; j < H; j++) {
                    double in = hidden_bias(&m, j, past);
                    for (int i = 0; i < V; i++)
                        in += m.w[j][i] * v[i];
                    h[j] = 1 / (1 + exp(-in));
                }
                for (int i = 0; i < V; i++) {
                    double in = visible_bias(&m, i, past);
                    for (int j = 0; j < H; j++)
                        in += m.w[j][i] * h[j];
                    v[i] = gaussian ? in : 1 / (1 + exp(-in));
                }
                if (turn == 0)
                    memcpy(first, v, sizeof v);
            }
            for (int i = 0; i < V; i++)
                want += (v[i] - first[i]) * (v[i] - first[i]) / ROWS;
        }
        ASSERT_OK(sw_model_evaluate(model, (void *[]){data.x, data.past}, ROWS, NULL, &err));
        const double got = sw_model_result(model, "reconstruction_error");
        assert_true(want > 1e-3 && fabs(got - want) < 1e-4 * want);

        sw_model_free(model);
        free(data.x);
        free(data.past);
    }
    sw_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_gradient_is_the_slope_of_the_likelihood),
        cmocka_unit_test(long_chains_give_the_gradient_of_the_conditional_likelihood),
        cmocka_unit_test(predictions_use_the_biases_of_each_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
