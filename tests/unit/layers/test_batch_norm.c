/* Batch normalization against its formulas in double, with a batch on one worker and a batch split
 * over several, on every layout, with running statistics. */
#include "device/op.h"
#include "kernels/ops/batch_norm.h"
#include "layer_support.h"

/* A source [rows, channels, pixels] in plain order. */
struct shape {
    int64_t rows, channels, pixels;
    double eps, momentum;
};

struct moments {
    double mean, variance, inv_std;
};

static int64_t at(const struct shape *s, int64_t r, int64_t c, int64_t p)
{
    return (r * s->channels + c) * s->pixels + p;
}

static double count_of(const struct shape *s)
{
    return (double)(s->rows * s->pixels);
}

/* Computes moments in two passes, unlike the code under test. */
static struct moments moments_of(const struct shape *s, const float *x, int64_t c)
{
    struct moments m = {0, 0, 0};
    for (int64_t i = 0; i < s->rows * s->pixels; i++)
        m.mean += (double)x[at(s, i / s->pixels, c, i % s->pixels)] / count_of(s);
    for (int64_t i = 0; i < s->rows * s->pixels; i++) {
        double d = (double)x[at(s, i / s->pixels, c, i % s->pixels)] - m.mean;
        m.variance += d * d / count_of(s);
    }
    m.inv_std = 1 / sqrt(m.variance + s->eps);
    return m;
}

struct exact {
    double *dst, *src_grad, *param_grad[2], *keeps[2];
};

static struct exact exact_new(const struct shape *s)
{
    int64_t n = s->rows * s->channels * s->pixels;
    struct exact e = {.dst = get_doubles(n), .src_grad = get_doubles(n)};
    for (int i = 0; i < 2; i++) {
        e.param_grad[i] = get_doubles(s->channels);
        e.keeps[i] = get_doubles(s->channels);
    }
    return e;
}

static void exact_free(struct exact *e)
{
    free(e->dst);
    free(e->src_grad);
    for (int i = 0; i < 2; i++) {
        free(e->param_grad[i]);
        free(e->keeps[i]);
    }
}

/* Computes Algorithm 1 of Ioffe and Szegedy 2015 and the six gradients below it. */
static void exact_channel(const struct shape *s, const struct values *v, int64_t c, struct exact *e)
{
    struct moments m = moments_of(s, v->src[0], c);
    double scale = (double)v->param[0][c], n = count_of(s), d_variance = 0, d_mean = 0, center = 0;
    e->param_grad[0][c] = e->param_grad[1][c] = 0;
    for (int64_t i = 0; i < s->rows * s->pixels; i++) {
        int64_t k = at(s, i / s->pixels, c, i % s->pixels);
        double d = (double)v->src[0][k] - m.mean, dy = (double)v->dst_grad[k];
        e->dst[k] = scale * d * m.inv_std + (double)v->param[1][c];
        e->param_grad[0][c] += dy * d * m.inv_std;
        e->param_grad[1][c] += dy;
        d_variance += dy * scale * d * -0.5 * m.inv_std * m.inv_std * m.inv_std;
        d_mean -= dy * scale * m.inv_std;
        center += d;
    }
    d_mean += d_variance * -2 * center / n;
    for (int64_t i = 0; i < s->rows * s->pixels; i++) {
        int64_t k = at(s, i / s->pixels, c, i % s->pixels);
        double d = (double)v->src[0][k] - m.mean, dy = (double)v->dst_grad[k];
        e->src_grad[k] = dy * scale * m.inv_std + d_variance * 2 * d / n + d_mean / n;
    }
    double unbiased = n > 1 ? m.variance * n / (n - 1) : m.variance;
    e->keeps[0][c] = (1 - s->momentum) * m.mean;
    e->keeps[1][c] = s->momentum + (1 - s->momentum) * unbiased;
}

static void assert_exact(const char *what, const struct shape *s, const struct values *v,
                         double limit)
{
    struct exact e = exact_new(s);
    int64_t n = s->rows * s->channels * s->pixels;
    char text[256];
    for (int64_t c = 0; c < s->channels; c++)
        exact_channel(s, v, c, &e);
    const struct {
        const char *part;
        const float *have;
        const double *want;
        int64_t n;
    } parts[] = {
        {"output", v->dst, e.dst, n},
        {"source gradient", v->src_grad[0], e.src_grad, n},
        {"scale gradient", v->param_grad[0], e.param_grad[0], s->channels},
        {"bias gradient", v->param_grad[1], e.param_grad[1], s->channels},
        {"running mean", v->keeps[0], e.keeps[0], s->channels},
        {"running variance", v->keeps[1], e.keeps[1], s->channels},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(text, sizeof text, "%s: %s", what, parts[i].part);
        assert_near(text, parts[i].have, parts[i].want, parts[i].n, limit);
    }
    exact_free(&e);
}

static struct sw_layer_example example_of(const struct shape *s, const char *recipe)
{
    struct sw_layer_example ex = {.recipe = recipe, .src = {{2, {s->rows, s->channels}, 0}}};
    if (s->pixels > 1) {
        ex.src[0].ndim = 4;
        ex.src[0].dim[2] = s->pixels / 3;
        ex.src[0].dim[3] = 3;
    }
    return ex;
}

static const struct {
    const char *recipe;
    struct shape shape;
} cases[] = {
    {"", {5, 7, 1, 1e-5, 0.9}},
    {"sync = no\n", {33, 40, 1, 1e-5, 0.9}},
    {"eps = 0.25\nmomentum = 0\n", {4, 20, 9, 0.25, 0}},
    {"momentum = 0.99\nsync = no\n", {3, 3, 51, 1e-5, 0.99}},
    {"", {20, 33, 21, 1e-5, 0.9}},
    {"", {1, 64, 60, 1e-5, 0.9}},
};
enum { CASES = sizeof cases / sizeof *cases };

static void training_follows_ioffe_and_szegedy(void **state)
{
    for (int i = 0; i < CASES; i++)
        for (int block = 0; block <= (cases[i].shape.pixels > 1 ? 16 : 0); block += 8) {
            struct fixture f = open_cpu(block == 8, 1);
            struct sw_layer_example ex = example_of(&cases[i].shape, cases[i].recipe);
            struct rig g;
            char what[64];
            snprintf(what, sizeof what, "case %d, blocks of %d", i, block);
            rig_setup(&g, sw_layer_type_find("batch_norm"), &ex,
                      &(struct how){.stream = f.stream, .block = block});
            struct values v = values_new(&g, &ex, 4);
            rig_pass(&g, &v);
            assert_exact(what, &cases[i].shape, &v, 2e-6);
            values_free(&v);
            rig_close(&g);
            close_cpu(&f);
        }
}

/* If the mean is a thousand standard deviations, the mean square minus the squared mean is pure
 * rounding error in float. */
static void a_large_mean_costs_no_accuracy(void **state)
{
    static const struct shape s = {64, 5, 30, 1e-5, 0.9};
    struct fixture f = open_cpu(false, 1);
    struct sw_layer_example ex = example_of(&s, "");
    struct rig g;
    rig_setup(&g, sw_layer_type_find("batch_norm"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 4);
    for (int64_t i = 0; i < v.src_n[0]; i++)
        v.src[0][i] = 1024 + v.src[0][i];
    rig_pass(&g, &v);
    assert_exact("mean 1024", &s, &v, 1e-4); /* the mean itself is a float */
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

/* ---- several workers ---- */

enum { SHARES = 3 };

struct share {
    struct rig g;
    struct values v;
    int64_t first, rows;
};

static void take_rows(struct share *s, const struct shape *whole, const struct values *v)
{
    int64_t row = whole->channels * whole->pixels;
    memcpy(s->v.src[0], v->src[0] + s->first * row, (size_t)(s->rows * row) * sizeof(float));
    memcpy(s->v.dst_grad, v->dst_grad + s->first * row, (size_t)(s->rows * row) * sizeof(float));
    for (int i = 0; i < 2; i++)
        memcpy(s->v.param[i], v->param[i], (size_t)whole->channels * sizeof(float));
}

/* Runs one pass of all shares, phase by phase, and reduces the sums in between like a trainer. */
static void run_shares(struct share *s, bool backward)
{
    struct sw_err err;
    int phases = backward ? s[0].g.layer.phases.backward : s[0].g.layer.phases.forward;
    assert_int_equal(phases, 2);
    for (int phase = 0; phase < phases; phase++) {
        for (int w = 0; w < SHARES; w++) {
            struct sw_layer *l = &s[w].g.layer;
            struct sw_pass pass = {.stream = s[w].g.how.stream,
                                   .step = &s[w].g.step,
                                   .training = true,
                                   .phase = phase};
            ASSERT_OK((backward ? l->type->backward : l->type->forward)(l, &pass, &err));
        }
        for (int i = 0; phase == 0 && i < s[0].g.layer.phases.sums; i++) {
            double sum = 0;
            for (int w = 0; w < SHARES; w++)
                sum += s[w].g.layer.sums[i];
            for (int w = 0; w < SHARES; w++)
                s[w].g.layer.sums[i] = sum;
        }
    }
}

/* Combines the results of the shares: concatenates outputs and source gradients, adds parameter
 * gradients, and copies the statistics of the first share. */
static void combine_shares(struct share *s, const struct shape *whole, struct values *v)
{
    int64_t row = whole->channels * whole->pixels;
    for (int i = 0; i < 2; i++)
        memset(v->param_grad[i], 0, (size_t)whole->channels * sizeof(float));
    for (int w = 0; w < SHARES; w++) {
        struct sw_layer *l = &s[w].g.layer;
        read_plain("output", &l->dst.desc, l->dst.data, v->dst + s[w].first * row);
        read_plain("source gradient", &l->dst.desc, l->src_grad[0],
                   v->src_grad[0] + s[w].first * row);
        for (int i = 0; i < 2; i++)
            for (int64_t c = 0; c < whole->channels; c++)
                v->param_grad[i][c] += l->param[i].grad[c];
    }
    for (int i = 0; i < 2; i++)
        memcpy(v->keeps[i], s[0].g.layer.keeps[i].value, (size_t)whole->channels * sizeof(float));
}

static void batch_split_over_workers_equals_whole_batch(void **state)
{
    static const int64_t rows[SHARES] = {4, 2, 1};
    static const struct shape whole = {7, 20, 12, 1e-5, 0.9};
    struct fixture f = open_cpu(false, 1);
    struct sw_layer_example ex = example_of(&whole, "");
    struct share s[SHARES];
    struct rig g;
    rig_setup(&g, sw_layer_type_find("batch_norm"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 8);
    for (int w = 0; w < SHARES; w++) {
        s[w].first = w ? s[w - 1].first + s[w - 1].rows : 0;
        s[w].rows = rows[w];
        rig_setup(&s[w].g, sw_layer_type_find("batch_norm"), &ex,
                  &(struct how){.stream = f.stream, .rows = rows[w], .block = 8 * w});
        s[w].v = values_new(&s[w].g, &ex, 1);
        take_rows(&s[w], &whole, &v);
        set_inputs(&s[w].g, &s[w].v);
        struct sw_layer *l = &s[w].g.layer;
        for (int i = 0; w > 0 && i < 2; i++)
            l->keeps[i].update = NULL; /* only the first share updates the buffers */
        sw_desc_from_plain(&l->dst.desc, s[w].v.dst_grad, l->dst.grad);
    }
    run_shares(s, false);
    run_shares(s, true);
    combine_shares(s, &whole, &v);
    assert_exact("three shares", &whole, &v, 2e-6);
    for (int w = 1; w < SHARES; w++) /* the buffers of the others must not change */
        assert_true(s[w].g.layer.keeps[0].value[0] == 0.0f &&
                    s[w].g.layer.keeps[1].value[0] == 1.0f);
    for (int w = 0; w < SHARES; w++) {
        values_free(&s[w].v);
        rig_close(&s[w].g);
    }
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

static void without_sync_no_sums_are_reduced(void **state)
{
    static const struct shape s = {4, 6, 12, 1e-5, 0.9};
    struct fixture f = open_cpu(false, 1);
    for (int sync = 0; sync < 2; sync++)
        for (int evaluation = 0; evaluation < 2; evaluation++) {
            struct sw_layer_example ex = example_of(&s, sync ? "" : "sync = no\n");
            struct rig g;
            rig_setup(&g, sw_layer_type_find("batch_norm"), &ex,
                      &(struct how){.stream = f.stream, .evaluation = evaluation});
            bool adds = sync && !evaluation;
            assert_int_equal(g.layer.phases.sums, adds ? 13 : 0);
            assert_int_equal(g.layer.phases.forward, adds ? 2 : 0);
            assert_int_equal(g.layer.phases.backward, adds ? 2 : 0);
            rig_close(&g);
        }
    close_cpu(&f);
}

/* ---- evaluation ---- */

static void evaluation_uses_running_statistics(void **state)
{
    static const struct shape s = {4, 21, 12, 0.5, 0.9};
    for (int block = 0; block <= 16; block += 8)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct fixture f = open_cpu(false, 1);
            struct sw_layer_example ex = example_of(&s, "eps = 0.5\n");
            struct rig g;
            struct sw_err err;
            rig_setup(
                &g, sw_layer_type_find("batch_norm"), &ex,
                &(struct how){
                    .stream = f.stream, .block = block, .evaluation = true, .in_place = in_place});
            assert_true(g.data_in_place == in_place);
            struct values v = values_new(&g, &ex, 4);
            set_inputs(&g, &v);
            double *want = get_doubles(v.dst_n);
            for (int64_t c = 0; c < s.channels; c++) {
                float *keeps[2];
                for (int i = 0; i < 2; i++)
                    keeps[i] = (float *)(uintptr_t)g.layer.keeps[i].value;
                keeps[0][c] = (float)c / 8;
                keeps[1][c] = 0.25f + (float)c;
                for (int64_t i = 0; i < s.rows * s.pixels; i++) {
                    int64_t k = at(&s, i / s.pixels, c, i % s.pixels);
                    want[k] = (double)v.param[0][c] * ((double)v.src[0][k] - (double)c / 8) /
                                  sqrt(0.75 + (double)c) +
                              (double)v.param[1][c];
                }
            }
            struct sw_pass pass = {.stream = f.stream, .step = &g.step};
            ASSERT_OK(g.layer.type->forward(&g.layer, &pass, &err));
            read_plain("output", &g.layer.dst.desc, g.layer.dst.data, v.dst);
            assert_near("evaluation", v.dst, want, v.dst_n, 1e-6);
            free(want);
            values_free(&v);
            rig_close(&g);
            close_cpu(&f);
        }
}

/* ---- Layouts that no layer uses today, and many threads ---- */

struct results {
    float *y, *dx, *scale_grad, *bias_grad, *mean, *inv_std;
    double *sums;
};

static void results_free(struct results *m)
{
    free(m->y);
    free(m->dx);
    free(m->scale_grad);
    free(m->bias_grad);
    free(m->mean);
    free(m->inv_std);
    free(m->sums);
}

/* Runs all operations on a layout; returns y and dx in plain order. */
static struct results run_all(struct sw_stream *s, const struct sw_desc *d)
{
    int64_t n = sw_desc_count(d), stored = sw_desc_storage(d), channels = d->dim[1];
    struct rng r = rng_of(6);
    float *plain = random_floats(&r, n, -1, 3), *plain_dy = random_floats(&r, n, -1, 1);
    float *x = get_floats(stored), *dy = get_floats(stored), *out = get_floats(stored);
    float *scale = random_floats(&r, channels, 0.5, 2), *bias = random_floats(&r, channels, -1, 1);
    struct results m = {get_floats(n),
                        get_floats(n),
                        get_floats(channels),
                        get_floats(channels),
                        get_floats(channels),
                        get_floats(channels),
                        get_doubles(2 * channels + 1)};
    struct sw_batch_norm b = {.desc = *d,
                              .eps = 1e-5f,
                              .sums = m.sums,
                              .scratch = get_bytes(sw_channel_scratch_bytes(d)),
                              .scale = scale,
                              .bias = bias,
                              .mean = m.mean,
                              .inv_std = m.inv_std};
    struct sw_err err;
    sw_desc_from_plain(d, plain, x);
    sw_desc_from_plain(d, plain_dy, dy);
    poison(out, (size_t)stored * sizeof(float));
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm_sums,
                        &(const struct sw_batch_norm_args){.b = b, .x = x}, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm,
                        &(const struct sw_batch_norm_args){.b = b, .x = x, .y = out}, &err));
    read_plain("output", d, out, m.y);
    poison(out, (size_t)stored * sizeof(float));
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm_sums_gradient,
                        &(const struct sw_batch_norm_args){
                            .b = b, .x = x, .dy = dy, .dscale = m.scale_grad, .dbias = m.bias_grad},
                        &err));
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm_gradient,
                        &(const struct sw_batch_norm_args){.b = b, .x = x, .dy = dy, .dx = out},
                        &err));
    read_plain("source gradient", d, out, m.dx);
    free(plain);
    free(plain_dy);
    free(x);
    free(dy);
    free(out);
    free(scale);
    free(bias);
    free(b.scratch);
    return m;
}

static void assert_results_alike(const char *what, const struct results *a, const struct results *b,
                                 int64_t n, int64_t channels, double limit)
{
    const struct {
        const float *have, *want;
        int64_t n;
    } parts[] = {{a->y, b->y, n},
                 {a->dx, b->dx, n},
                 {a->scale_grad, b->scale_grad, channels},
                 {a->bias_grad, b->bias_grad, channels}};
    for (int i = 0; i < 4; i++) {
        double *want = get_doubles(parts[i].n);
        for (int64_t k = 0; k < parts[i].n; k++)
            want[k] = (double)parts[i].want[k];
        assert_near(what, parts[i].have, want, parts[i].n, limit);
        free(want);
    }
}

static void every_layout_gives_the_same_values(void **state)
{
    static const int64_t dim[4] = {5, 21, 4, 6};
    struct fixture f = open_cpu(false, 1);
    struct sw_desc plain = sw_desc_plain(SW_F32, 4, dim),
                   layout[5] = {sw_desc_blocked(SW_F32, 4, dim, 1, 4),
                                sw_desc_blocked(SW_F32, 4, dim, 1, 8),
                                sw_desc_blocked(SW_F32, 4, dim, 1, 16), plain, plain};
    const int64_t last[4] = {21 * 24, 1, 6 * 21, 21}; /* channels last */
    const int64_t turned[4] = {21 * 24, 24, 1, 4};    /* columns before rows */
    memcpy(layout[3].stride, last, sizeof last);
    memcpy(layout[4].stride, turned, sizeof turned);
    struct results want = run_all(f.stream, &plain);
    for (int i = 0; i < 5; i++) {
        char text[128];
        struct results have = run_all(f.stream, &layout[i]);
        assert_results_alike(sw_desc_text(&layout[i], text), &have, &want, sw_desc_count(&plain),
                             21, 1e-6);
        results_free(&have);
    }
    results_free(&want);
    close_cpu(&f);
}

static void the_number_of_threads_changes_no_bit(void **state)
{
    static const int64_t dim[4] = {37, 24, 20, 21};
    for (int block = 0; block <= 16; block += 8) {
        struct fixture one = open_cpu(false, 1), many = open_cpu(false, 5);
        struct sw_desc d =
            block ? sw_desc_blocked(SW_F32, 4, dim, 1, block) : sw_desc_plain(SW_F32, 4, dim);
        struct results a = run_all(one.stream, &d), b = run_all(many.stream, &d);
        int64_t n = sw_desc_count(&d);
        assert_same_bits("sums", a.sums, b.sums, 49 * sizeof(double));
        assert_same_bits("output", a.y, b.y, (size_t)n * sizeof(float));
        assert_same_bits("source gradient", a.dx, b.dx, (size_t)n * sizeof(float));
        results_free(&a);
        results_free(&b);
        close_cpu(&one);
        close_cpu(&many);
    }
}

static void sources_of_other_ranks_are_refused(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_layer_example ex = {.recipe = "", .src = {{3, {2, 6, 5}, 0}}};
    struct rig g;
    struct sw_err err;
    rig_open(&g, sw_layer_type_find("batch_norm"), &ex, &(struct how){.stream = f.stream});
    assert_int_equal(rig_try_setup(&g, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "3 dimensions, not 2 or 4"));
    rig_teardown(&g);
    sw_recipe_free(g.recipe);
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_follows_ioffe_and_szegedy),
        cmocka_unit_test(a_large_mean_costs_no_accuracy),
        cmocka_unit_test(batch_split_over_workers_equals_whole_batch),
        cmocka_unit_test(without_sync_no_sums_are_reduced),
        cmocka_unit_test(evaluation_uses_running_statistics),
        cmocka_unit_test(every_layout_gives_the_same_values),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(sources_of_other_ranks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
