/* Methods that learn codes, on data whose answer is known: canonical correlations by hand and by
 * their properties, eigenfunctions of a rectangle, boosting whose error falls, clusters, and that
 * codes of partners are near each other. */
#include "base/os.h"
#include "search/cca.h"
#include "search/clusters.h"
#include "search/code_method.h"
#include "search_support.h"
#include "unit/faulty_os.h"
#include <math.h>

static struct sw_err err;
static const struct sw_vectors none;

static double gauss(uint64_t seed, uint64_t i)
{
    double sum = -6;
    for (uint64_t k = 0; k < 12; k++)
        sum += random_unit(seed, 12 * i + k);
    return sum;
}

/* Rows of two views of a common latent vector of LATENT numbers, with noise; a class every
 * `classes` rows has its own mean. */
enum { LATENT = 6 };
static struct sw_vectors view_of(int view, int64_t rows, int dims, int classes, double noise)
{
    float *at = malloc((size_t)(rows * dims) * sizeof *at);
    assert_non_null(at);
    for (int64_t row = 0; row < rows; row++)
        for (int d = 0; d < dims; d++) {
            double x = noise * gauss(40 + (uint64_t)view, (uint64_t)(row * dims + d));
            for (int l = 0; l < LATENT; l++) {
                const double latent = gauss(50, (uint64_t)(row * LATENT + l)) +
                                      3 * gauss(51, (uint64_t)(row % classes * LATENT + l));
                x += latent * gauss(60 + (uint64_t)view, (uint64_t)(d * LATENT + l));
            }
            at[row * dims + d] = (float)x;
        }
    return (struct sw_vectors){at, rows, dims};
}

/* ---- Canonical correlations -------------------------------------------------------------------
 */

/* Columns of a Hadamard matrix have mean 0, variance 1, and are not correlated. x = (h1, h2) and y
 * = (h1 + h3, h2 + 2 h4) correlate by 1 / sqrt 2 and 1 / sqrt 5. */
static void canonical_correlations_of_a_hand_calculation(void **state)
{
    enum { ROWS = 8 };
    float x[ROWS][2], y[ROWS][2], h[5];
    float center[2][2], direction[2][2][2];
    double correlation[2];

    for (int row = 0; row < ROWS; row++) {
        for (int c = 1; c < 5; c++)
            h[c] = __builtin_parity((unsigned)(row & c)) ? -1 : 1;
        x[row][0] = h[1] + 7;
        x[row][1] = h[2];
        y[row][0] = h[1] + h[3];
        y[row][1] = h[2] + 2 * h[4];
    }

    const struct sw_vectors views[] = {{x[0], ROWS, 2}, {y[0], ROWS, 2}};
    const struct sw_cca c = {.view = {&views[0], &views[1]},
                             .count = 2,
                             .ridge = 1e-12,
                             .center = {center[0], center[1]},
                             .direction = {direction[0][0], direction[1][0]},
                             .correlation = correlation};
    ASSERT_OK(sw_cca_fit(&c, &err));

    assert_float_equal(correlation[0], sqrt(0.5), 1e-9);
    assert_float_equal(correlation[1], sqrt(0.2), 1e-9);
    assert_float_equal(center[0][0], 7, 1e-6);
    const double wanted[2][2] = {{1, 1}, {sqrt(0.5), sqrt(0.2)}}; /* 1 / deviation */
    for (int v = 0; v < 2; v++)
        for (int j = 0; j < 2; j++) {
            assert_float_equal(direction[v][j][j], wanted[v][j], 1e-6);
            assert_float_equal(direction[v][j][!j], 0, 1e-6);
        }
}

/* The covariance of products: unit, and between views the correlations. */
static void products_are_not_correlated_but_with_their_partners(void **state)
{
    enum { ROWS = 400, A = 9, B = 5, COUNT = 5 };
    const int dims[] = {A, B};
    const struct sw_vectors views[] = {view_of(0, ROWS, A, 1, 1), view_of(1, ROWS, B, 1, 1)};
    float center[2][A], direction[2][COUNT * A];
    static double p[2][ROWS][COUNT];
    double correlation[COUNT];
    const struct sw_cca c = {.view = {&views[0], &views[1]},
                             .count = COUNT,
                             .ridge = 1e-9,
                             .center = {center[0], center[1]},
                             .direction = {direction[0], direction[1]},
                             .correlation = correlation};

    ASSERT_OK(sw_cca_fit(&c, &err));
    for (int v = 0; v < 2; v++)
        for (int row = 0; row < ROWS; row++)
            for (int j = 0; j < COUNT; j++) {
                p[v][row][j] = 0;
                for (int d = 0; d < dims[v]; d++)
                    p[v][row][j] += ((double)sw_vector(&views[v], row)[d] - (double)center[v][d]) *
                                    (double)direction[v][j * dims[v] + d];
            }

    for (int v = 0; v < 3; v++)
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < COUNT; j++) {
                double sum = 0;
                for (int row = 0; row < ROWS; row++)
                    sum += p[v == 1][row][i] * p[v > 0][row][j];
                assert_float_equal(sum / ROWS, i != j ? 0 : v == 2 ? correlation[i] : 1, 1e-4);
            }
    for (int j = 1; j < COUNT; j++)
        assert_true(correlation[j] <= correlation[j - 1] && correlation[j] > 0);
    assert_true(correlation[0] > 0.8 && correlation[0] < 1);

    free((void *)views[0].at);
    free((void *)views[1].at);
}

/* ---- Clusters ---------------------------------------------------------------------------------
 */

static void clusters_are_found(void **state)
{
    enum { ROWS = 90, DIMS = 4, CLUSTERS = 3 };
    float at[ROWS][DIMS], centroid[CLUSTERS][DIMS];
    bool seen[CLUSTERS] = {false};

    for (int row = 0; row < ROWS; row++)
        for (int d = 0; d < DIMS; d++)
            at[row][d] =
                (float)(100 * (row % CLUSTERS) + random_unit(70, (uint64_t)(row * DIMS + d)));
    const struct sw_vectors v = {at[0], ROWS, DIMS};
    ASSERT_OK(sw_clusters_of(&v, CLUSTERS, 5, 2, centroid[0], &err));

    for (int c = 0; c < CLUSTERS; c++) {
        const int which = (int)(centroid[c][0] / 100 + 0.25F);
        double mean = 0;
        for (int row = which; row < ROWS; row += CLUSTERS)
            mean += (double)at[row][0] / (ROWS / CLUSTERS);
        assert_false(seen[which]);
        seen[which] = true;
        assert_float_equal(centroid[c][0], mean, 1e-4);
    }

    assert_int_equal(sw_clusters_of(&v, ROWS + 1, 5, 2, centroid[0], &err), SW_ERR_INVALID);
}

static void clusters_of_equal_rows_are_these(void **state)
{
    static float at[20][2], centroid[20][2];
    const struct sw_vectors v = {at[0], 20, 2};

    ASSERT_OK(sw_clusters_of(&v, 20, 1, 1, centroid[0], &err));
    assert_memory_equal(at, centroid, sizeof at);
}

/* ---- Codes ------------------------------------------------------------------------------------
 */

static uint64_t *codes_of(const struct sw_encoder *e, const struct sw_vectors *v, int threads)
{
    uint64_t *words = calloc((size_t)v->count * (size_t)sw_code_words(e->bits), sizeof *words);
    assert_non_null(words);
    ASSERT_OK(sw_encoder_encode(e, v, threads, words, &err));
    return words;
}

/* On a grid of a rectangle of 4 by 1.7 the smallest eigenvalues are those of x with k = 1 and 2, of
 * y with k = 1 (1 / 1.7 is between 2 / 4 and 3 / 4), and of x with k = 3. */
static void spectral_codes_are_the_eigenfunctions_of_a_rectangle(void **state)
{
    enum { X = 81, Y = 35, BITS = 4 };
    static float at[X * Y][2];
    const double side[] = {4, 1.7};
    const int axis[BITS] = {0, 0, 1, 0}, k[BITS] = {1, 2, 1, 3};
    struct sw_encoder e[SW_CODE_VIEWS];

    for (int i = 0; i < X * Y; i++) {
        at[i][0] = (float)(side[0] * (i % X) / (X - 1)) - 5; /* moved, which changes nothing */
        at[i][1] = (float)(side[1] * (i / X) / (Y - 1)) + 9;
    }
    const struct sw_code_fit f = {.view = {{at[0], X * Y, 2}}, .bits = BITS, .threads = 2};
    ASSERT_OK(sw_code_method_fit(&sw_code_spectral, &f, e, &err));
    uint64_t *code = codes_of(&e[0], &f.view[0], 3);

    for (int j = 0; j < BITS; j++) {
        int equal = 0, different = 0;
        for (int i = 0; i < X * Y; i++) {
            const double x = axis[j] ? side[1] * (i / X) / (Y - 1) : side[0] * (i % X) / (X - 1);
            const double wave = cos(k[j] * M_PI * x / side[axis[j]]);
            if (fabs(wave) > 1e-3)
                *((wave > 0) == (code[i] >> j & 1) ? &equal : &different) += 1;
        }
        /* A component may point the other way, which complements a bit. */
        assert_true(equal + different > X * Y / 2);
        assert_int_equal(equal < different ? equal : different, 0);
    }

    free(code);
    sw_encoder_fini(&e[0]);
}

/* The share of rows that are farther from their partner than from a stranger of the other view;
 * equal distances count half. */
static double error_of(const struct sw_encoder *e, const struct sw_vectors *views, int classes)
{
    uint64_t *a = codes_of(&e[0], &views[0], 2), *b = codes_of(&e[1], &views[1], 2);
    const int words = sw_code_words(e[0].bits);
    double wrong = 0;
    int64_t count = 0;

    for (int64_t i = 0; i < views[0].count; i++)
        for (int64_t j = 0; j < 50; j++) {
            const int64_t other =
                (int64_t)(random_bits(80, (uint64_t)(i * 50 + j)) % (uint64_t)views[0].count);
            if (other == i || (classes > 1 && (other - i) % classes == 0))
                continue;
            const int own = sw_code_distance(a + i * words, b + i * words, words);
            const int strange = sw_code_distance(a + i * words, b + other * words, words);
            wrong += own > strange ? 1 : own == strange ? 0.5 : 0;
            count++;
        }

    free(a);
    free(b);
    return wrong / (double)count;
}

static void partners_have_near_codes_by_every_method_of_two_views(void **state)
{
    enum { ROWS = 500, BITS = 12 };
    const struct sw_vectors views[] = {view_of(0, ROWS, 20, 1, 0.5), view_of(1, ROWS, 30, 1, 0.5)};
    struct sw_code_fit f = {.view = {views[0], views[1]}, .bits = BITS, .seed = 3, .threads = 2};
    int tried = 0;

    for (int i = 0; sw_code_methods[i]; i++) {
        const struct sw_code_method *m = sw_code_methods[i];
        struct sw_encoder e[SW_CODE_VIEWS];
        if (m->views < 2)
            continue;

        ASSERT_OK(sw_code_method_fit(m, &f, e, &err));
        const double wrong = error_of(e, views, 1);
        if (wrong > 0.15)
            fail_msg("%s: %g of the rows are nearer to strangers", m->name, wrong);
        tried++;
        sw_encoder_fini(&e[0]);
        sw_encoder_fini(&e[1]);
    }

    assert_int_equal(tried, 3);
    free((void *)views[0].at);
    free((void *)views[1].at);
}

static void error_of_boosted_bits_falls(void **state)
{
    enum { ROWS = 600, CLASSES = 5, SIZES = 4 };
    static const int bits[SIZES] = {1, 4, 12, 32};
    const struct sw_vectors views[] = {view_of(0, ROWS, 15, CLASSES, 1),
                                       view_of(1, ROWS, 25, CLASSES, 1)};
    int32_t label[ROWS];

    for (int i = 0; i < ROWS; i++)
        label[i] = i % CLASSES;
    const struct sw_row_labels labels = {.count = ROWS, .classes = CLASSES, .single = label};

    for (int with = 0; with < 2; with++) {
        double last = 0.5;
        for (int i = 0; i < SIZES; i++) {
            const struct sw_code_fit f = {.view = {views[0], views[1]},
                                          .labels = with ? &labels : NULL,
                                          .bits = bits[i],
                                          .seed = 1,
                                          .threads = 1};
            struct sw_encoder e[SW_CODE_VIEWS];
            ASSERT_OK(sw_code_method_fit(&sw_code_cmssh, &f, e, &err));
            const double wrong = error_of(e, views, with ? CLASSES : 1);
            if (wrong >= last)
                fail_msg("%d bits: error %g, was %g with fewer", bits[i], wrong, last);
            last = wrong;
            sw_encoder_fini(&e[0]);
            sw_encoder_fini(&e[1]);
        }
        assert_true(last < 0.1);
    }

    free((void *)views[0].at);
    free((void *)views[1].at);
}

static void codes_depend_on_the_seed_and_not_on_threads(void **state)
{
    enum { ROWS = 300, BITS = 10 };
    const struct sw_vectors views[] = {view_of(0, ROWS, 16, 3, 1), view_of(1, ROWS, 16, 3, 1)};

    for (int i = 0; sw_code_methods[i]; i++) {
        const struct sw_code_method *m = sw_code_methods[i];
        uint64_t *code[3];
        for (int run = 0; run < 3; run++) {
            struct sw_code_fit f = {.view = {views[0]},
                                    .bits = BITS,
                                    .seed = run == 2 ? 8 : 7,
                                    .clusters = m->takes & SW_CODE_CLUSTERS ? 20 : 0,
                                    .threads = run + 1};
            struct sw_encoder e[SW_CODE_VIEWS];
            if (m->views == 2)
                f.view[1] = views[1];
            ASSERT_OK(sw_code_method_fit(m, &f, e, &err));
            code[run] = codes_of(&e[0], &views[0], f.threads);
            sw_encoder_fini(&e[0]);
            sw_encoder_fini(&e[1]);
        }

        const bool random = m != &sw_code_cvh && m != &sw_code_spectral;
        assert_memory_equal(code[0], code[1], ROWS * sizeof **code);
        assert_int_equal(memcmp(code[0], code[2], ROWS * sizeof **code) != 0, random);
        for (int run = 0; run < 3; run++)
            free(code[run]);
    }

    free((void *)views[0].at);
    free((void *)views[1].at);
}

static void refuse(const struct sw_code_method *m, const struct sw_code_fit *f, const char *why)
{
    struct sw_encoder e[SW_CODE_VIEWS];
    if (sw_code_method_fit(m, f, e, &err) != SW_ERR_INVALID || !strstr(err.text, why))
        fail_msg("%s: \"%s\", expected \"%s\"", m->name, err.text, why);
    assert_null(e[0].part[SW_ENCODER_CENTER]);
}

static void what_cannot_be_learned_is_refused(void **state)
{
    enum { ROWS = 40 };
    static const float zero[ROWS * 8];
    const struct sw_vectors a = view_of(0, ROWS, 8, 1, 1), b = view_of(1, ROWS, 6, 1, 1);
    const struct sw_vectors fewer = {b.at, ROWS - 1, 6}, equal = {zero, ROWS, 8};
    const int32_t label[ROWS] = {0};
    const struct sw_row_labels labels = {.count = ROWS, .classes = 1, .single = label};
    const struct sw_code_fit pair = {.view = {a, b}, .bits = 4, .threads = 1};
    struct sw_code_fit f = pair;

    f.bits = 7;
    refuse(&sw_code_cvh, &f, "7 bits, expected at most the 6 dimensions");
    f.bits = 41;
    refuse(&sw_code_lcmh, &f, "41 bits, expected at most the 40 clusters");
    f.bits = 0;
    refuse(&sw_code_cmssh, &f, "codes of 0 bits");
    f = pair;
    f.view[1] = fewer;
    refuse(&sw_code_cvh, &f, "40 rows of one view, 39 of the other");
    f = pair;
    f.ridge = 1e-300;
    refuse(&sw_code_cvh, &f, "a ridge of 1e-300, expected 1e-12 to 1e+06");
    f = pair;
    refuse(&sw_code_spectral, &f, "rows of one view");
    f.labels = &labels;
    refuse(&sw_code_cvh, &f, "takes no labels");
    refuse(&sw_code_cmssh, &f, "all share a label");
    f.labels = NULL;
    f.view[0] = equal;
    refuse(&sw_code_cvh, &f, "all rows of the first view are equal");
    refuse(&sw_code_lcmh, &f, "all rows of the first view are equal");
    refuse(&sw_code_cmssh, &f, "all rows of the first view are equal");
    f.view[1] = (struct sw_vectors){0};
    refuse(&sw_code_spectral, &f, "all rows of the view are equal");

    /* Two rows and their one centroid, the point between. */
    const float line[] = {0, 2, 5};
    f = (struct sw_code_fit){
        .view = {{line, 2, 1}, {line, 2, 1}}, .bits = 1, .clusters = 1, .threads = 1};
    refuse(&sw_code_lcmh, &f, "the rows of the first view are all as far from its 1 centroids");

    free((void *)a.at);
    free((void *)b.at);
}

/* A copy of vectors, each element times `scale`. */
static struct sw_vectors scaled(const struct sw_vectors *v, float scale)
{
    float *at = malloc((size_t)(v->count * v->dims) * sizeof *at);
    assert_non_null(at);
    for (int64_t i = 0; i < v->count * v->dims; i++)
        at[i] = v->at[i] * scale;
    return (struct sw_vectors){at, v->count, v->dims};
}

/* Codes are those of the vectors divided by the scale, or the scale is the reason of a refusal. */
static void the_scale_of_vectors_does_not_matter_or_is_the_reason(void **state)
{
    enum { ROWS = 60, BITS = 4 };
    static const struct {
        float scale;
        const char *says;
    } cases[] = {{0x1p-50f, NULL},
                 {0x1p50f, NULL},
                 {1e36f, ", expected at most 1e+18: divide its vectors"},
                 {1e-40f, ", expected 1e-18 or more: multiply its vectors"}};
    const struct sw_vectors plain[] = {view_of(0, ROWS, 8, 1, 1), view_of(1, ROWS, 6, 1, 1)};

    for (int i = 0; sw_code_methods[i]; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const struct sw_code_method *m = sw_code_methods[i];
            const struct sw_vectors other[] = {scaled(&plain[0], cases[c].scale),
                                               scaled(&plain[1], cases[c].scale)};
            const struct sw_code_fit small = {.view = {plain[0], m->views == 2 ? plain[1] : none},
                                              .bits = BITS,
                                              .seed = 3,
                                              .threads = 1};
            struct sw_code_fit f = small;
            struct sw_encoder e[SW_CODE_VIEWS], usual[SW_CODE_VIEWS];
            uint64_t code[2][ROWS] = {{0}};

            f.view[0] = other[0];
            f.view[1] = m->views == 2 ? other[1] : none;
            if (cases[c].says && !m->any_scale) {
                refuse(m, &f, cases[c].says);
            } else {
                ASSERT_OK(sw_code_method_fit(m, &f, e, &err));
                ASSERT_OK(sw_code_method_fit(m, &small, usual, &err));
                ASSERT_OK(sw_encoder_encode(&e[0], &other[0], 1, code[0], &err));
                ASSERT_OK(sw_encoder_encode(&usual[0], &plain[0], 1, code[1], &err));
                if (!cases[c].says)
                    assert_memory_equal(code[0], code[1], sizeof code[0]);
                for (int v = 0; v < m->views; v++) {
                    sw_encoder_fini(&e[v]);
                    sw_encoder_fini(&usual[v]);
                }
            }
            free((void *)other[0].at);
            free((void *)other[1].at);
        }

    free((void *)plain[0].at);
    free((void *)plain[1].at);
}

/* Whichever allocation fails, the error says so, and nothing is left over. */
static void every_allocation_may_fail(void **state)
{
    enum { ROWS = 30 };
    const struct sw_vectors a = view_of(0, ROWS, 5, 2, 1), b = view_of(1, ROWS, 4, 2, 1);

    for (int i = 0; sw_code_methods[i]; i++) {
        const struct sw_code_method *m = sw_code_methods[i];
        struct sw_code_fit f = {
            .view = {a}, .bits = 2, .clusters = m->takes & SW_CODE_CLUSTERS ? 3 : 0, .threads = 1};
        struct sw_encoder e[SW_CODE_VIEWS];
        bool over = false;
        if (m->views == 2)
            f.view[1] = b;
        ASSERT_OK(sw_code_method_fit(m, &f, e, &err)); /* also loads libraries */
        sw_encoder_fini(&e[0]);
        sw_encoder_fini(&e[1]);

        for (int at = 1; !over; at++) {
            faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
            const int rc = sw_code_method_fit(m, &f, e, &err);
            sw_encoder_fini(&e[0]);
            sw_encoder_fini(&e[1]);
            over = faulty_end() < at;
            if (rc != (over ? SW_OK : SW_ERR_NOMEM))
                fail_msg("%s, allocation %d: %d, %s", m->name, at, rc, err.text);
            assert_int_equal(faulty.live_allocations, 0);
        }
    }

    free((void *)a.at);
    free((void *)b.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_correlations_of_a_hand_calculation),
        cmocka_unit_test(products_are_not_correlated_but_with_their_partners),
        cmocka_unit_test(clusters_are_found),
        cmocka_unit_test(clusters_of_equal_rows_are_these),
        cmocka_unit_test(spectral_codes_are_the_eigenfunctions_of_a_rectangle),
        cmocka_unit_test(partners_have_near_codes_by_every_method_of_two_views),
        cmocka_unit_test(error_of_boosted_bits_falls),
        cmocka_unit_test(codes_depend_on_the_seed_and_not_on_threads),
        cmocka_unit_test(what_cannot_be_learned_is_refused),
        cmocka_unit_test(the_scale_of_vectors_does_not_matter_or_is_the_reason),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
