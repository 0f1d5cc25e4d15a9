/* ctest-timeout: 120
 * Deep Boltzmann machines against exact enumeration: the gradient of a step, mean-field inference,
 * the bound and log Z, and training of a small machine; and the doubled weights of pre-training. */
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

enum { LAYERS = 4, MOST = 6, V = 6, STATES = 1 << V };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

/* ---- A machine in double precision ---- */

/* Layer 0 is visible; w[l][j][i] connects unit j of layer l with unit i of layer l - 1. */
struct machine {
    int layers, n[LAYERS]; /* layers: with the visible one */
    double w[LAYERS][MOST][MOST], b[LAYERS][MOST];
};

struct units {
    double s[LAYERS][MOST];
};

static double bump(int i)
{
    return sin(1.3 * i * i + 0.7 * i + 0.2);
}

static struct machine new_machine(int layers, double size)
{
    struct machine m = {.layers = layers, .n = {V, 4, 3, 2}};
    for (int l = 0; l < layers; l++)
        for (int j = 0; j < m.n[l]; j++) {
            m.b[l][j] = (double)(float)(0.5 * size * bump(100 * l + j));
            for (int i = 0; l > 0 && i < m.n[l - 1]; i++)
                m.w[l][j][i] = (double)(float)(size * bump(50 * l + 7 * j + i));
        }
    return m;
}

static double sigma(double x)
{
    return 1 / (1 + exp(-x));
}

static double from_below(const struct machine *m, const struct units *u, int l, int j)
{
    double x = 0;
    for (int i = 0; i < m->n[l - 1]; i++)
        x += m->w[l][j][i] * u->s[l - 1][i];
    return x;
}

static double from_above(const struct machine *m, const struct units *u, int l, int j)
{
    double x = 0;
    for (int k = 0; l + 1 < m->layers && k < m->n[l + 1]; k++)
        x += m->w[l + 1][k][j] * u->s[l + 1][k];
    return x;
}

/* -E, which is linear in each unit, so also its expected value for independent units. */
static double score(const struct machine *m, const struct units *u)
{
    double sum = 0;
    for (int l = 0; l < m->layers; l++)
        for (int j = 0; j < m->n[l]; j++)
            sum += u->s[l][j] * (m->b[l][j] + (l > 0 ? from_below(m, u, l, j) : 0));
    return sum;
}

/* Bits of `state`, from the visible units on. */
static struct units units_of(const struct machine *m, int state)
{
    struct units u = {0};
    int bit = 0;
    for (int l = 0; l < m->layers; l++)
        for (int j = 0; j < m->n[l]; j++)
            u.s[l][j] = state >> bit++ & 1;
    return u;
}

static int all_states(const struct machine *m)
{
    int bits = 0;
    for (int l = 0; l < m->layers; l++)
        bits += m->n[l];
    return 1 << bits;
}

/* Sets p[v] = log p(v); returns log Z. */
static double likelihoods(const struct machine *m, double *p)
{
    double z = 0;
    memset(p, 0, STATES * sizeof *p);
    for (int s = 0; s < all_states(m); s++) {
        const struct units u = units_of(m, s);
        p[s % STATES] += exp(score(m, &u));
    }
    for (int v = 0; v < STATES; v++)
        z += p[v];
    for (int v = 0; v < STATES; v++)
        p[v] = log(p[v] / z);
    return log(z);
}

/* Mean-field inference given the visible units of u. */
static void infer(const struct machine *m, struct units *u, int updates)
{
    for (int t = 0; t <= updates; t++)
        for (int l = 1; l < m->layers; l++)
            for (int j = 0; j < m->n[l]; j++) {
                const double up = t == 0 && l + 1 < m->layers ? 2 : 1;
                u->s[l][j] = sigma(up * from_below(m, u, l, j) +
                                   (t > 0 ? from_above(m, u, l, j) : 0) + m->b[l][j]);
            }
}

/* The bound of log p(v) + log Z for independent hidden units with these means. */
static double unnormalized_bound(const struct machine *m, const struct units *u)
{
    double sum = score(m, u);
    for (int l = 1; l < m->layers; l++)
        for (int j = 0; j < m->n[l]; j++)
            sum -= u->s[l][j] * log(u->s[l][j]) + (1 - u->s[l][j]) * log(1 - u->s[l][j]);
    return sum;
}

/* Adds factor times the derivatives of -E at u. */
static void add_slope(const struct machine *m, const struct units *u, double factor,
                      struct machine *to)
{
    for (int l = 0; l < m->layers; l++)
        for (int j = 0; j < m->n[l]; j++) {
            to->b[l][j] += factor * u->s[l][j];
            for (int i = 0; l > 0 && i < m->n[l - 1]; i++)
                to->w[l][j][i] += factor * u->s[l][j] * u->s[l - 1][i];
        }
}

static double furthest(const struct machine *a, const struct machine *b)
{
    double most = 0;
    for (int l = 0; l < LAYERS; l++)
        for (int j = 0; j < MOST; j++) {
            most = fmax(most, fabs(a->b[l][j] - b->b[l][j]));
            for (int i = 0; i < MOST; i++)
                most = fmax(most, fabs(a->w[l][j][i] - b->w[l][j][i]));
        }
    return most;
}

/* ---- The same machine in a model ---- */

static struct sw_device *open_device(void)
{
    struct sw_device *d;
    struct sw_err err;
    ASSERT_OK(sw_cpu_open(false, &d, &err));
    return d;
}

/* keys: of all hidden layers; bound: of the metric. */
static struct sw_model *new_model(struct sw_device *d, const struct machine *m, int64_t rows,
                                  const char *updater, const char *keys, const char *bound)
{
    const struct sw_net_field field = {
        .name = "x", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){rows, V})};
    char recipe[4096], sources[64] = "h0";
    int n = snprintf(recipe, sizeof recipe,
                     "[updater]\ntype = sgd\n%s[layer x]\ntype = input\nfield = x\n"
                     "[layer h0]\ntype = rbm_visible\nsrc = x\n",
                     updater);
    for (int l = 1; l < m->layers; l++) {
        n += snprintf(recipe + n, sizeof recipe - (size_t)n,
                      "[layer h%d]\ntype = rbm_hidden\nsrc = h%d\nhidden = %d\n"
                      "weight.init = gaussian\nweight.std = 0.1\n%s",
                      l, l - 1, m->n[l], keys);
        snprintf(sources + strlen(sources), sizeof sources - strlen(sources), ", h%d", l);
    }
    if (bound)
        snprintf(recipe + n, sizeof recipe - (size_t)n,
                 "[layer bound]\ntype = variational_bound\nsrc = %s\ninclude = eval\n%s", sources,
                 bound);
    const struct sw_model_args args = {.recipe = recipe,
                                       .device = d,
                                       .threads = 1,
                                       .seed = 11,
                                       .algorithm = SW_ALGORITHM_CD,
                                       .fields = &field,
                                       .field_count = 1};
    struct sw_bytes messages = {0};
    struct sw_model *model;
    struct sw_err err;
    if (sw_model_new(&args, &model, &messages, &err) != SW_OK)
        fail_msg("%s%s", err.text, sw_bytes_text(&messages));
    sw_bytes_fini(&messages);
    return model;
}

static float *values_of(struct sw_model *model, int layer, const char *param)
{
    char name[32];
    struct sw_tensor t;
    struct sw_err err;
    snprintf(name, sizeof name, "h%d.%s", layer, param);
    ASSERT_OK(sw_model_param(model, name, &t, &err));
    return t.data;
}

static void put(struct sw_model *model, const struct machine *m)
{
    for (int l = 0; l < m->layers; l++) {
        float *b = values_of(model, l, "bias"), *w = l > 0 ? values_of(model, l, "weight") : NULL;
        for (int j = 0; j < m->n[l]; j++) {
            b[j] = (float)m->b[l][j];
            for (int i = 0; w && i < m->n[l - 1]; i++)
                w[j * m->n[l - 1] + i] = (float)m->w[l][j][i];
        }
    }
}

static struct machine get(struct sw_model *model, const struct machine *like)
{
    struct machine m = *like;
    for (int l = 0; l < m.layers; l++) {
        const float *b = values_of(model, l, "bias"),
                    *w = l > 0 ? values_of(model, l, "weight") : NULL;
        for (int j = 0; j < m.n[l]; j++) {
            m.b[l][j] = (double)b[j];
            for (int i = 0; w && i < m.n[l - 1]; i++)
                m.w[l][j][i] = (double)w[j * m.n[l - 1] + i];
        }
    }
    return m;
}

/* With rate 1 a step subtracts the gradient, whose negative this returns. */
static struct machine change(struct sw_model *model, const struct machine *before)
{
    struct machine g = get(model, before);
    for (int l = 0; l < g.layers; l++)
        for (int j = 0; j < g.n[l]; j++) {
            g.b[l][j] -= before->b[l][j];
            for (int i = 0; l > 0 && i < g.n[l - 1]; i++)
                g.w[l][j][i] -= before->w[l][j][i];
        }
    return g;
}

/* Row r has visible state (37 r + 11) modulo 2^V. */
static int state_of(int64_t r)
{
    return (int)((r * 37 + 11) % STATES);
}

static float *new_data(int64_t rows)
{
    float *x = malloc((size_t)rows * V * sizeof *x);
    assert_non_null(x);
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < V; i++)
            x[r * V + i] = (float)(state_of(r) >> i & 1);
    return x;
}

/* ---- Cases ---- */

/* Means of mean-field inference minus those of the machine, which long chains reach. */
static void long_chains_give_the_gradient_of_the_likelihood(void **state)
{
    enum { ROWS = 40000, UPDATES = 4 };
    struct sw_device *d = open_device();
    float *x = new_data(ROWS);
    for (int layers = 3; layers <= LAYERS; layers++) {
        const struct machine m = new_machine(layers, 1);
        struct machine want = {.layers = layers};
        struct sw_model *model =
            new_model(d, &m, ROWS, "lr = 1\n", "k = 40\nmean_field = 4\n", NULL);
        double p[STATES], log_z = likelihoods(&m, p);
        struct sw_err err;
        put(model, &m);
        for (int64_t r = 0; r < ROWS; r++) {
            struct units u = units_of(&m, state_of(r));
            infer(&m, &u, UPDATES);
            add_slope(&m, &u, 1.0 / ROWS, &want);
        }
        for (int s = 0; s < all_states(&m); s++) {
            const struct units u = units_of(&m, s);
            add_slope(&m, &u, -exp(score(&m, &u) - log_z), &want);
        }
        double loss;
        ASSERT_OK(sw_model_train(model, (void *[]){x}, &loss, &err));
        struct machine got = change(model, &m);
        memcpy(want.n, got.n, sizeof want.n);
        print_message("%d layers: gradient off by %.4f, loss %.4f\n", layers, furthest(&got, &want),
                      loss);
        assert_true(furthest(&got, &want) < 0.012); /* about three deviations of these samples */
        sw_model_free(model);
    }
    free(x);
    sw_device_close(d);
}

/* The mean over the visible states of the bound without log Z, which is known to the last digits.
 */
static double bound_of(const struct machine *m, int updates)
{
    double sum = 0;
    for (int v = 0; v < STATES; v++) {
        struct units u = units_of(m, v);
        infer(m, &u, updates);
        sum += unnormalized_bound(m, &u) / STATES;
    }
    return sum;
}

static void the_bound_and_log_z_are_those_of_enumeration(void **state)
{
    static const int updates[] = {1, 2, 3, 5, 30};
    struct sw_device *d = open_device();
    float *x = new_data(STATES); /* every state once */
    for (int layers = 3; layers <= LAYERS; layers++) {
        const struct machine m = new_machine(layers, 1.5);
        double p[STATES], log_z = likelihoods(&m, p), likelihood = 0, last = -INFINITY;
        for (int v = 0; v < STATES; v++)
            likelihood += p[v] / STATES;
        for (size_t k = 0; k < sizeof updates / sizeof *updates; k++) {
            char keys[96];
            struct sw_err err;
            snprintf(keys, sizeof keys, "mean_field = %d\nchains = 64\ntemperatures = 1000\n",
                     updates[k]);
            struct sw_model *model = new_model(d, &m, STATES, "lr = 1\n", "", keys);
            put(model, &m);
            ASSERT_OK(sw_model_evaluate(model, (void *[]){x}, STATES, NULL, &err));
            const double z = sw_model_result(model, "variational_bound.log_partition"),
                         low = sw_model_result(model, "variational_bound.log_partition_low"),
                         high = sw_model_result(model, "variational_bound.log_partition_high"),
                         bound = sw_model_result(model, "variational_bound") + z;
            print_message("%d layers, %d updates: log Z %.4f (%.4f to %.4f), exact %.4f; bound "
                          "%.5f, likelihood %.5f\n",
                          layers, updates[k], z, low, high, log_z, bound - log_z, likelihood);
            assert_true(low < log_z && log_z < high);
            assert_true(fabs(z - log_z) < 0.1);
            assert_true(fabs(bound - bound_of(&m, updates[k])) < 1e-4);
            assert_true(bound > last - 1e-6 && bound - log_z < likelihood);
            last = bound;
            sw_model_free(model);
        }
        /* It has risen, so the inequality above says something. */
        assert_true(last > bound_of(&m, 1) + 1e-3);
    }
    free(x);
    sw_device_close(d);
}

/* Makes weights positive, so that all units tend to be on together or off together, and sets biases
 * that the weights balance: both happen half of the time, but without the weights units would
 * almost always be off. */
static void balance(struct machine *m)
{
    for (int l = 1; l < m->layers; l++)
        for (int j = 0; j < m->n[l]; j++)
            for (int i = 0; i < m->n[l - 1]; i++)
                m->w[l][j][i] = fabs(m->w[l][j][i]);

    for (int l = 0; l < m->layers; l++)
        for (int j = 0; j < m->n[l]; j++) {
            struct units half;
            for (int k = 0; k < LAYERS; k++)
                for (int i = 0; i < MOST; i++)
                    half.s[k][i] = 0.5;
            m->b[l][j] = (double)(float)-((l > 0 ? from_below(m, &half, l, j) : 0) +
                                          from_above(m, &half, l, j));
        }
}

/* Chains that began with the machine's biases alone would reach few of its modes. */
static void chains_begin_at_the_mean_activations(void **state)
{
    static const char keys[] = "mean_field = 10\nchains = 64\ntemperatures = 200\n";
    struct sw_device *d = open_device();
    float *x = new_data(STATES); /* every state once: the means are 1/2 */
    for (int layers = 3; layers <= LAYERS; layers++) {
        struct machine m = new_machine(layers, 3);
        struct sw_err err;
        double p[STATES];
        balance(&m);
        const double log_z = likelihoods(&m, p);
        struct sw_model *model = new_model(d, &m, STATES, "lr = 1\n", "", keys);
        put(model, &m);
        ASSERT_OK(sw_model_evaluate(model, (void *[]){x}, STATES, NULL, &err));
        const double z = sw_model_result(model, "variational_bound.log_partition");
        print_message("%d layers: log Z %.4f, exact %.4f\n", layers, z, log_z);
        assert_true(fabs(z - log_z) < 0.3); /* about log 2 is missing if only half is found */
        sw_model_free(model);
    }
    free(x);
    sw_device_close(d);
}

/* Two patterns, whose bits are flipped with probability 1/10: units that are independent of each
 * other cannot represent that. */
static void a_small_machine_learns_what_independent_units_cannot(void **state)
{
    enum { ROWS = 100, STEPS = 2000 };
    struct sw_device *d = open_device();
    const struct machine m = new_machine(3, 0);
    struct sw_model *model = new_model(d, &m, ROWS, "lr = 0.1\n", "k = 5\nmean_field = 5\n", NULL);
    float x[ROWS * V];
    double p[STATES], likelihood = 0;
    struct sw_err err;
    uint32_t random = 1;
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < ROWS * V; i++) {
            random = random * 1664525 + 1013904223;
            x[i] = (float)(((i / V + i) % 2) ^ ((random >> 8) % 10 == 0));
        }
        ASSERT_OK(sw_model_train(model, (void *[]){x}, NULL, &err));
    }
    const struct machine learnt = get(model, &m);
    likelihoods(&learnt, p);
    double best = 0;
    for (int v = 0; v < STATES; v++) {
        int wrong = 0;
        for (int i = 0; i < V; i++)
            wrong += (v >> i & 1) != i % 2;
        const double share =
            (pow(0.1, wrong) * pow(0.9, V - wrong) + pow(0.1, V - wrong) * pow(0.9, wrong)) / 2;
        likelihood += share * p[v];
        best += share * log(share);
    }
    print_message("learnt: %.4f nats; best %.4f, independent units %.4f\n", likelihood, best,
                  -V * log(2));
    assert_true(likelihood > best - 0.1 && best - 0.1 > -V * log(2) + 1);
    sw_model_free(model);
    sw_device_close(d);
}

/* The expected step of contrastive divergence, k = 1, with weights that count `up` times upwards
 * and `down` times downwards. */
static struct machine expected_step(const struct machine *m, double up, double down)
{
    struct machine to = {.layers = 2};
    memcpy(to.n, m->n, sizeof to.n);
    for (int v = 0; v < STATES; v++) {
        struct units data = units_of(m, v), end = data;
        for (int j = 0; j < m->n[1]; j++)
            data.s[1][j] = sigma(up * from_below(m, &data, 1, j) + m->b[1][j]);
        add_slope(m, &data, 1.0 / STATES, &to);
        for (int s = 0; s < STATES << m->n[1]; s++) {
            struct units u = units_of(m, s);
            double p = 1.0 / STATES;
            for (int j = 0; j < m->n[1]; j++)
                p *= u.s[1][j] > 0 ? data.s[1][j] : 1 - data.s[1][j];
            for (int i = 0; i < V; i++) {
                const double mean = sigma(down * from_above(m, &u, 0, i) + m->b[0][i]);
                p *= u.s[0][i] > 0 ? mean : 1 - mean;
            }
            end = u;
            for (int j = 0; j < m->n[1]; j++)
                end.s[1][j] = sigma(up * from_below(m, &u, 1, j) + m->b[1][j]);
            add_slope(m, &end, -p, &to);
        }
    }
    return to;
}

static void doubled_weights_count_twice_in_their_direction(void **state)
{
    static const struct {
        const char *keys;
        double up, down;
    } ways[] = {{"", 1, 1},
                {"doubled = up\n", 2, 1},
                {"doubled = down\n", 1, 2},
                {"doubled = both\n", 2, 2}};
    enum { ROWS = 640 * STATES };
    struct sw_device *d = open_device();
    float *x = new_data(ROWS);
    const struct machine m = new_machine(2, 1);
    struct machine got[4];
    for (int i = 0; i < 4; i++) {
        struct sw_model *model = new_model(d, &m, ROWS, "lr = 1\n", ways[i].keys, NULL);
        struct sw_err err;
        put(model, &m);
        ASSERT_OK(sw_model_train(model, (void *[]){x}, NULL, &err));
        const struct machine want = expected_step(&m, ways[i].up, ways[i].down);
        got[i] = change(model, &m);
        print_message("up %g down %g: off by %.4f\n", ways[i].up, ways[i].down,
                      furthest(&got[i], &want));
        assert_true(furthest(&got[i], &want) < 0.012);
        for (int j = 0; j < i; j++)
            assert_true(furthest(&got[i], &got[j]) > 0.03);
        sw_model_free(model);
    }
    free(x);
    sw_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_chains_give_the_gradient_of_the_likelihood),
        cmocka_unit_test(the_bound_and_log_z_are_those_of_enumeration),
        cmocka_unit_test(chains_begin_at_the_mean_activations),
        cmocka_unit_test(a_small_machine_learns_what_independent_units_cannot),
        cmocka_unit_test(doubled_weights_count_twice_in_their_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
