/* ctest-timeout: 120
 * Contrastive divergence against exact enumeration and against a step written down in double that
 * is fed the same random words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/philox.h"
#include "run/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V = 8, H = 5, STATES = 1 << V };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

/* ---- a machine written down ---- */

struct machine {
    double w[H][V], c[H], b[V];
    bool gaussian_hidden;
};

static double bump(int i)
{
    return sin(1.3 * i * i + 0.7 * i + 0.2);
}

static struct machine new_machine(double size)
{
    struct machine m = {0};
    for (int j = 0; j < H; j++)
        for (int i = 0; i < V; i++)
            m.w[j][i] = (double)(float)(size * bump(j * V + i));
    for (int j = 0; j < H; j++)
        m.c[j] = (double)(float)(0.5 * size * bump(100 + j));
    for (int i = 0; i < V; i++)
        m.b[i] = (double)(float)(0.5 * size * bump(200 + i));
    return m;
}

static double sigma(double x)
{
    return 1 / (1 + exp(-x));
}

static double pull(const struct machine *m, int j, const double *v)
{
    double x = 0;
    for (int i = 0; i < V; i++)
        x += m->w[j][i] * v[i];
    return x;
}

static double mean_hidden(const struct machine *m, int j, const double *v)
{
    double x = pull(m, j, v) + m->c[j];
    return m->gaussian_hidden ? x : sigma(x);
}

static double free_energy(const struct machine *m, const double *v)
{
    double f = 0;
    for (int i = 0; i < V; i++)
        f -= m->b[i] * v[i];
    for (int j = 0; j < H; j++) {
        double x = pull(m, j, v);
        f -= m->gaussian_hidden ? m->c[j] * x + 0.5 * x * x : log1p(exp(x + m->c[j]));
    }
    return f;
}

static void bits(int state, double *v)
{
    for (int i = 0; i < V; i++)
        v[i] = state >> i & 1;
}

static double log_partition(const struct machine *m)
{
    double z = 0, v[V];
    for (int s = 0; s < STATES; s++) {
        bits(s, v);
        z += exp(-free_energy(m, v));
    }
    return log(z);
}

/* Adds factor times dF/dw, dF/dc, dF/db at v. */
static void add_slope(const struct machine *m, const double *v, double factor, struct machine *to)
{
    for (int j = 0; j < H; j++) {
        double p = mean_hidden(m, j, v);
        for (int i = 0; i < V; i++)
            to->w[j][i] -= factor * p * v[i];
        to->c[j] -= factor * (m->gaussian_hidden ? pull(m, j, v) : p);
    }
    for (int i = 0; i < V; i++)
        to->b[i] -= factor * v[i];
}

/* The free energy of a document of `length` words, in which hidden biases count so often; slope:
 * the means of its hidden units. */
static double document_energy(const struct machine *m, const double *v, double length,
                              double *slope)
{
    double f = 0;
    for (int i = 0; i < V; i++)
        f -= m->b[i] * v[i];
    for (int j = 0; j < H; j++) {
        double x = pull(m, j, v) + length * m->c[j];
        f -= log1p(exp(x));
        slope[j] = sigma(x);
    }
    return f;
}

static void add_document(const double *v, const double *slope, double length, double factor,
                         struct machine *to)
{
    for (int j = 0; j < H; j++)
        for (int i = 0; i < V; i++)
            to->w[j][i] -= factor * slope[j] * v[i];
    for (int j = 0; j < H; j++)
        to->c[j] -= factor * length * slope[j];
    for (int i = 0; i < V; i++)
        to->b[i] -= factor * v[i];
}

/* ---- the same machine in a model ---- */

static const char visible_net[] =
    "[updater]\ntype = sgd\nlr = 1\n[layer x]\ntype = input\nfield = x\n"
    "[layer vis]\ntype = rbm_visible\nsrc = x\n%s"
    "[layer hid]\ntype = rbm_hidden\nsrc = vis\nhidden = 5\n%s"
    "[layer energy]\ntype = free_energy\nsrc = vis, hid\ninclude = eval\nvisible_%s%s";
static const char gaussian_likelihood[] =
    "[layer ll]\ntype = log_likelihood\nsrc = vis, hid\nchains = 50\ntemperatures = 1000\n"
    "include = eval\nvisible_units = gaussian\n";
static const char net[] =
    "[updater]\ntype = sgd\nlr = 1\n[layer x]\ntype = input\nfield = x\n"
    "[layer vis]\ntype = rbm_visible\nsrc = x\n%s"
    "[layer hid]\ntype = rbm_hidden\nsrc = vis\nhidden = 5\n%s"
    "[layer down]\ntype = rbm_visible\nsrc = vis, hid\ninclude = eval\n"
    "[layer error]\ntype = reconstruction_error\nsrc = down, vis\ninclude = eval\n"
    "[layer energy]\ntype = free_energy\nsrc = vis, hid\ninclude = eval\n%s"
    "[layer pl]\ntype = pseudo_likelihood\nsrc = vis, hid\ninclude = eval\n%s"
    "[layer ll]\ntype = log_likelihood\nsrc = vis, hid\nchains = 50\ntemperatures = 1000\n"
    "include = eval\n%s";
static const char gaussian[] = "units = gaussian\n", as_gaussian[] = "hidden_units = gaussian\n";

static struct sw_device *open_device(void)
{
    struct sw_device *d;
    struct sw_err err;
    ASSERT_OK(sw_cpu_open(false, &d, &err));
    return d;
}

/* other_visible: `visible` begins with its units = KIND. */
static struct sw_model *new_model_of(struct sw_device *d, int64_t rows, const char *visible,
                                     const char *hidden, bool gaussian_hidden, bool other_visible)
{
    const struct sw_net_field field = {
        .name = "x", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){rows, V})};
    char recipe[2048], keys[256];
    const char *as = gaussian_hidden ? as_gaussian : "";
    struct sw_model *m;
    struct sw_err err;
    snprintf(keys, sizeof keys, "%s%s", hidden, gaussian_hidden ? gaussian : "");
    if (other_visible)
        snprintf(recipe, sizeof recipe, visible_net, visible, keys, visible,
                 strstr(visible, "gaussian") ? gaussian_likelihood : "");
    else
        snprintf(recipe, sizeof recipe, net, visible, keys, as, as, as);
    const struct sw_model_args args = {.recipe = recipe,
                                       .device = d,
                                       .threads = 1,
                                       .seed = 11,
                                       .algorithm = SW_ALGORITHM_CD,
                                       .fields = &field,
                                       .field_count = 1};
    ASSERT_OK(sw_model_new(&args, &m, NULL, &err));
    return m;
}

static struct sw_model *new_model(struct sw_device *d, int64_t rows, const char *visible,
                                  const char *hidden, bool gaussian_hidden)
{
    return new_model_of(d, rows, visible, hidden, gaussian_hidden, false);
}

static float *values_of(struct sw_model *m, const char *name)
{
    struct sw_tensor t;
    struct sw_err err;
    ASSERT_OK(sw_model_param(m, name, &t, &err));
    return t.data;
}

static void put(struct sw_model *model, const struct machine *m)
{
    float *w = values_of(model, "hid.weight"), *c = values_of(model, "hid.bias"),
          *b = values_of(model, "vis.bias");
    for (int j = 0; j < H; j++)
        for (int i = 0; i < V; i++)
            w[j * V + i] = (float)m->w[j][i];
    for (int j = 0; j < H; j++)
        c[j] = (float)m->c[j];
    for (int i = 0; i < V; i++)
        b[i] = (float)m->b[i];
}

/* With rate 1 a step takes the gradient off. */
static struct machine gradient_taken(struct sw_model *model, const struct machine *before)
{
    const float *w = values_of(model, "hid.weight"), *c = values_of(model, "hid.bias"),
                *b = values_of(model, "vis.bias");
    struct machine g = {0};
    for (int j = 0; j < H; j++)
        for (int i = 0; i < V; i++)
            g.w[j][i] = before->w[j][i] - (double)w[j * V + i];
    for (int j = 0; j < H; j++)
        g.c[j] = before->c[j] - (double)c[j];
    for (int i = 0; i < V; i++)
        g.b[i] = before->b[i] - (double)b[i];
    return g;
}

static double furthest(const struct machine *a, const struct machine *b)
{
    double most = 0;
    for (int j = 0; j < H; j++)
        for (int i = 0; i < V; i++)
            most = fmax(most, fabs(a->w[j][i] - b->w[j][i]));
    for (int j = 0; j < H; j++)
        most = fmax(most, fabs(a->c[j] - b->c[j]));
    for (int i = 0; i < V; i++)
        most = fmax(most, fabs(a->b[i] - b->b[i]));
    return most;
}

/* Row r of the data: a state that depends on r. */
static float *new_data(int64_t rows)
{
    float *x = malloc((size_t)rows * V * sizeof *x);
    assert_non_null(x);
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < V; i++)
            x[r * V + i] = ((r * 37 + 11) % STATES) >> i & 1;
    return x;
}

static void row_of(const float *x, int64_t r, double *v)
{
    for (int i = 0; i < V; i++)
        v[i] = (double)x[r * V + i];
}

/* ---- cases ---- */

/* The slope of F(data) - F(others) that the gradient is, against differences of that. */
static void the_gradient_is_the_slope_of_free_energies(void **state)
{
    const double h = 1e-5;
    double v[V], u[V];
    bits(0xb5, v);
    bits(0x4c, u);
    for (int g = 0; g < 2; g++) {
        struct machine m = new_machine(1), slope = {0};
        m.gaussian_hidden = g;
        add_slope(&m, v, 1, &slope);
        add_slope(&m, u, -1, &slope);
        double *at[] = {&m.w[2][3], &m.c[1], &m.b[6]};
        const double want[] = {slope.w[2][3], slope.c[1], slope.b[6]};
        for (int k = 0; k < 3; k++) {
            double here = *at[k];
            *at[k] = here + h;
            double up = free_energy(&m, v) - free_energy(&m, u);
            *at[k] = here - h;
            double down = free_energy(&m, v) - free_energy(&m, u);
            *at[k] = here;
            assert_true(fabs((up - down) / (2 * h) - want[k]) < 1e-6);
        }
    }
}

static void long_chains_give_the_gradient_of_the_likelihood(void **state)
{
    enum { ROWS = 40000 };
    struct sw_device *d = open_device();
    float *x = new_data(ROWS);
    for (int g = 0; g < 2; g++) {
        struct sw_model *model = new_model(d, ROWS, "", "k = 60\n", g);
        struct machine m = new_machine(g ? 0.4 : 1), want = {0};
        struct sw_err err;
        double v[V], loss;
        m.gaussian_hidden = g;
        put(model, &m);
        for (int64_t r = 0; r < ROWS; r++) {
            row_of(x, r, v);
            add_slope(&m, v, 1.0 / ROWS, &want);
        }
        double log_z = log_partition(&m), likelihood = 0;
        for (int s = 0; s < STATES; s++) {
            bits(s, v);
            double p = exp(-free_energy(&m, v) - log_z);
            add_slope(&m, v, -p, &want);
            likelihood += p;
        }
        assert_true(fabs(likelihood - 1) < 1e-9);
        ASSERT_OK(sw_model_train(model, (void *[]){x}, &loss, &err));
        struct machine got = gradient_taken(model, &m);
        double off = furthest(&got, &want);
        print_message("gaussian %d: gradient off by %.4f\n", g, off);
        assert_true(off < (g ? 0.03 : 0.012)); /* about three deviations of so many samples */
        sw_model_free(model);
    }
    free(x);
    sw_device_close(d);
}

static void metrics_are_those_of_enumeration(void **state)
{
    enum { ROWS = 256 };
    struct sw_device *d = open_device();
    float *x = new_data(ROWS);
    for (int g = 0; g < 2; g++) {
        struct sw_model *model = new_model(d, ROWS, "", "", g);
        struct machine m = new_machine(g ? 0.5 : 1.5);
        struct sw_err err;
        double v[V], energy = 0, pseudo = 0, loss;
        m.gaussian_hidden = g;
        put(model, &m);
        for (int64_t r = 0; r < ROWS; r++) {
            row_of(x, r, v);
            double f = free_energy(&m, v);
            energy += f / ROWS;
            for (int i = 0; i < V; i++) {
                v[i] = 1 - v[i];
                pseudo += log(sigma(free_energy(&m, v) - f)) / ROWS;
                v[i] = 1 - v[i];
            }
        }
        ASSERT_OK(sw_model_evaluate(model, (void *[]){x}, ROWS, &loss, &err));
        double log_z = log_partition(&m);
        print_message("gaussian %d: log Z %.4f, estimated %.4f; log PL %.4f, %.4f\n", g, log_z,
                      sw_model_result(model, "log_likelihood.log_partition"), pseudo,
                      sw_model_result(model, "pseudo_likelihood"));
        assert_true(fabs(sw_model_result(model, "free_energy") - energy) < 1e-4);
        assert_true(fabs(sw_model_result(model, "log_likelihood.log_partition") - log_z) < 0.1);
        assert_true(fabs(sw_model_result(model, "log_likelihood") - (-energy - log_z)) < 0.1);
        assert_true(fabs(sw_model_result(model, "pseudo_likelihood") - pseudo) < 1.2);
        sw_model_free(model);
    }
    free(x);
    sw_device_close(d);
}

/* Words of documents of length 3 are drawn alike: a vector of counts is as many documents as there
 * are orders of its words. */
static void counts_follow_the_likelihood_of_documents(void **state)
{
    enum { ROWS = 40000, LENGTH = 3 };
    static const char keys[] = "units = softmax\n";
    struct sw_device *d = open_device();
    struct sw_model *model = new_model_of(d, ROWS, keys, "k = 60\nreplicated = yes\n", false, true);
    struct machine m = new_machine(0.7), want = {0};
    float *x = calloc((size_t)ROWS * V, sizeof *x);
    double v[V], z = 0, slope[H], p;
    struct sw_err err;
    put(model, &m);
    for (int i = 0; i < ROWS * LENGTH; i++)
        x[i / LENGTH * V + (i * 5 + i / 7) % V] += 1;
    /* As words one after the other: all documents are equally many. */
    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < V * V * V; s++) {
            memset(v, 0, sizeof v);
            v[s % V]++, v[s / V % V]++, v[s / V / V]++;
            p = exp(-document_energy(&m, v, LENGTH, slope));
            z += pass ? 0 : p;
            if (pass)
                add_document(v, slope, LENGTH, -p / z, &want);
        }
    for (int64_t r = 0; r < ROWS; r++) {
        row_of(x, r, v);
        document_energy(&m, v, LENGTH, slope);
        add_document(v, slope, LENGTH, 1.0 / ROWS, &want);
    }
    ASSERT_OK(sw_model_train(model, (void *[]){x}, NULL, &err));
    struct machine got = gradient_taken(model, &m);
    print_message("documents: gradient off by %.4f\n", furthest(&got, &want));
    assert_true(furthest(&got, &want) < 0.03);
    sw_model_free(model);
    free(x);
    sw_device_close(d);
}

/* Z of gaussian visible units: what is left when they are integrated out, summed over hidden
 * states. */
static void gaussian_visible_units_have_their_partition_function(void **state)
{
    enum { ROWS = 64 };
    struct sw_device *d = open_device();
    struct sw_model *model = new_model_of(d, ROWS, "units = gaussian\n", "", false, true);
    struct machine m = new_machine(0.6);
    float *x = new_data(ROWS);
    double z = 0, energy = 0, v[V];
    struct sw_err err;
    put(model, &m);
    for (int s = 0; s < 1 << H; s++) {
        double e = 0;
        for (int i = 0; i < V; i++) {
            double pulled = 0;
            for (int j = 0; j < H; j++)
                pulled += (s >> j & 1) * m.w[j][i];
            e += m.b[i] * pulled + 0.5 * pulled * pulled;
        }
        for (int j = 0; j < H; j++)
            e += (s >> j & 1) * m.c[j];
        z += exp(e);
    }
    double log_z = log(z) + 0.5 * V * log(2 * 3.14159265358979);
    for (int64_t r = 0; r < ROWS; r++) {
        row_of(x, r, v);
        for (int i = 0; i < V; i++)
            energy += 0.5 * (v[i] - m.b[i]) * (v[i] - m.b[i]) / ROWS;
        for (int j = 0; j < H; j++)
            energy -= log1p(exp(pull(&m, j, v) + m.c[j])) / ROWS;
    }
    ASSERT_OK(sw_model_evaluate(model, (void *[]){x}, ROWS, NULL, &err));
    print_message("gaussian visible: log Z %.4f, estimated %.4f\n", log_z,
                  sw_model_result(model, "log_likelihood.log_partition"));
    assert_true(fabs(sw_model_result(model, "log_likelihood.log_partition") - log_z) < 0.1);
    assert_true(fabs(sw_model_result(model, "free_energy") - energy) < 1e-4);
    sw_model_free(model);
    free(x);
    sw_device_close(d);
}

/* ---- fed by a recorded stream ---- */

enum { TURNS = 3, FEW = 50, STEPS = 4 };

/* Words that were drawn for a side, by turn, row and unit: what the layers draw, written down. */
struct record {
    uint32_t visible[TURNS + 1][FEW][V], hidden[TURNS + 1][FEW][H];
};

static void record(uint64_t seed, uint64_t step, struct record *to)
{
    const uint64_t vis = sw_hash_name("vis"), hid = sw_hash_name("hid");
    for (int t = 0; t <= TURNS; t++) {
        const uint64_t turn = sw_mix64((uint64_t)t);
        struct sw_philox of_v = sw_philox_stream(seed, SW_PURPOSE_SAMPLE, vis + turn),
                         of_h = sw_philox_stream(seed, SW_PURPOSE_SAMPLE, hid + turn);
        for (uint32_t r = 0; r < FEW; r++) {
            for (uint32_t i = 0; i < V; i++)
                to->visible[t][r][i] = sw_philox_word(of_v, step, r, i);
            for (uint32_t j = 0; j < H; j++)
                to->hidden[t][r][j] = sw_philox_word(of_h, step, r, j);
        }
    }
}

static double toss(double p, uint32_t word)
{
    return (double)sw_philox_uniform(word) < p;
}

/* One step of contrastive divergence by the book: rate 1, and hidden biases drawn to a share. */
static void step_by_hand(struct machine *m, const float *x, const struct record *in,
                         double sparsity, double cost)
{
    struct machine slope = {0};
    double v[V], h[H], share[H] = {0};
    for (int r = 0; r < FEW; r++) {
        for (int i = 0; i < V; i++)
            v[i] = toss((double)x[r * V + i], in->visible[0][r][i]);
        add_slope(m, v, 1.0 / FEW, &slope);
        for (int j = 0; j < H; j++)
            share[j] += mean_hidden(m, j, v) / FEW;
        for (int t = 1; t <= TURNS; t++) {
            for (int j = 0; j < H; j++)
                h[j] = toss(mean_hidden(m, j, v), in->hidden[t - 1][r][j]);
            for (int i = 0; i < V; i++) {
                double pulled = m->b[i];
                for (int j = 0; j < H; j++)
                    pulled += h[j] * m->w[j][i];
                v[i] = toss(sigma(pulled), in->visible[t][r][i]);
            }
        }
        add_slope(m, v, -1.0 / FEW, &slope);
    }
    for (int j = 0; j < H; j++)
        m->c[j] -= slope.c[j] + cost * (share[j] - sparsity);
    for (int j = 0; j < H; j++)
        for (int i = 0; i < V; i++)
            m->w[j][i] -= slope.w[j][i];
    for (int i = 0; i < V; i++)
        m->b[i] -= slope.b[i];
}

static void steps_match_those_worked_by_hand(void **state)
{
    struct sw_device *d = open_device();
    struct sw_model *model =
        new_model(d, FEW, "binary = yes\n", "k = 3\nsparsity = 0.1\nsparsity_cost = 0.3\n", false);
    static struct record in;
    struct machine m = new_machine(1);
    float x[FEW * V];
    struct sw_err err;
    put(model, &m);
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < FEW * V; i++)
            x[i] = (float)(0.5 + 0.5 * bump(s * 1000 + i));
        record(11, (uint64_t)s, &in);
        ASSERT_OK(sw_model_train(model, (void *[]){x}, NULL, &err));
        step_by_hand(&m, x, &in, 0.1, 0.3);
        struct machine off = gradient_taken(model, &m), none = {0};
        assert_true(furthest(&off, &none) < 1e-5);
    }
    sw_model_free(model);
    sw_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_those_worked_by_hand),
        cmocka_unit_test(the_gradient_is_the_slope_of_free_energies),
        cmocka_unit_test(long_chains_give_the_gradient_of_the_likelihood),
        cmocka_unit_test(metrics_are_those_of_enumeration),
        cmocka_unit_test(counts_follow_the_likelihood_of_documents),
        cmocka_unit_test(gaussian_visible_units_have_their_partition_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
