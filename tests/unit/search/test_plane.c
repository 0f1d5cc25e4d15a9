/* The two principal components against an eigendecomposition of the whole covariance matrix. */
#include "base/stop.h"
#include "search/plane.h"
#include "search_support.h"
#include "unit/faulty_os.h"

enum { MOST_DIMS = 24 };

/* The covariance of the rows of all sets, and their mean. */
static int64_t covariance(const struct sw_vectors *sets, int count, double *mean, double *c)
{
    const int dims = sets[0].dims;
    int64_t rows = 0;

    for (int d = 0; d < dims; d++)
        mean[d] = 0;
    for (int s = 0; s < count; s++)
        for (int64_t r = 0; r < sets[s].count; r++, rows++)
            for (int d = 0; d < dims; d++)
                mean[d] += (double)sw_vector(&sets[s], r)[d];
    for (int d = 0; d < dims; d++)
        mean[d] /= (double)rows;
    for (int i = 0; i < dims * dims; i++)
        c[i] = 0;
    for (int s = 0; s < count; s++)
        for (int64_t r = 0; r < sets[s].count; r++) {
            const float *v = sw_vector(&sets[s], r);
            for (int i = 0; i < dims; i++)
                for (int j = 0; j < dims; j++)
                    c[i * dims + j] +=
                        ((double)v[i] - mean[i]) * ((double)v[j] - mean[j]) / (double)rows;
        }
    return rows;
}

/* The largest eigenvalue of a symmetric matrix and its vector by many multiplications; both are
 * then taken out of the matrix. */
static double take_largest(double *c, int dims, double *vector)
{
    double value = 0;

    for (int d = 0; d < dims; d++)
        vector[d] = 1 + 0.1 * d;
    for (int round = 0; round < 20000; round++) {
        double next[MOST_DIMS], norm = 0;

        for (int i = 0; i < dims; i++) {
            next[i] = 0;
            for (int j = 0; j < dims; j++)
                next[i] += c[i * dims + j] * vector[j];
            norm += next[i] * next[i];
        }
        value = sqrt(norm);
        for (int i = 0; i < dims; i++)
            vector[i] = value > 0 ? next[i] / value : 0;
    }
    for (int i = 0; i < dims; i++)
        for (int j = 0; j < dims; j++)
            c[i * dims + j] -= value * vector[i] * vector[j];
    return value;
}

/* Vectors that vary most along two slanted directions. */
static struct sw_vectors slanted(uint64_t seed, int64_t count, int dims)
{
    float *at = malloc((size_t)(count * dims) * sizeof *at);

    assert_non_null(at);
    for (int64_t r = 0; r < count; r++) {
        const double a = 9 * (random_unit(seed, (uint64_t)(2 * r)) - 0.5);
        const double b = 4 * (random_unit(seed, (uint64_t)(2 * r + 1)) - 0.5);
        for (int d = 0; d < dims; d++)
            at[r * dims + d] = (float)(5 + a * cos(d) + b * sin(2 * d) +
                                       0.3 * random_unit(seed + 1, (uint64_t)(r * dims + d)));
    }
    return (struct sw_vectors){at, count, dims};
}

static void check(const struct sw_vectors *sets, int count)
{
    const int dims = sets[0].dims;
    double mean[MOST_DIMS], c[MOST_DIMS * MOST_DIMS], axis[2][MOST_DIMS], total = 0, value[2];
    struct sw_err err;

    const int64_t rows = covariance(sets, count, mean, c);
    for (int d = 0; d < dims; d++)
        total += c[d * dims + d];
    for (int a = 0; a < 2; a++)
        value[a] = take_largest(c, dims, axis[a]);

    float *xy = calloc((size_t)rows, 2 * sizeof *xy);
    double share[2];
    ASSERT_OK(sw_plane_project(sets, count, xy, share, &err));

    for (int a = 0; a < 2; a++) {
        double most = 0;
        int64_t at = 0;

        for (int d = 0; d < dims; d++)
            most = fabs(axis[a][d]) > fabs(most) ? axis[a][d] : most;
        assert_float_equal(share[a], value[a] / total, 1e-9);

        for (int s = 0; s < count; s++)
            for (int64_t r = 0; r < sets[s].count; r++, at++) {
                double along = 0;

                for (int d = 0; d < dims; d++)
                    along += ((double)sw_vector(&sets[s], r)[d] - mean[d]) * axis[a][d];
                assert_float_equal((double)xy[2 * at + a], most < 0 ? -along : along, 1e-4);
            }
    }
    free(xy);
}

static void components_are_those_of_the_covariance(void **state)
{
    static const int dims[] = {2, 3, 7, 8, 9, 24};

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct sw_vectors v = slanted(i + 1, 80, dims[i]);
        check(&v, 1);
        free((void *)(uintptr_t)v.at);
    }
}

static void sets_share_a_plane(void **state)
{
    struct sw_vectors sets[2] = {slanted(1, 50, 12), slanted(9, 31, 12)};
    struct sw_vectors other = slanted(9, 31, 11);
    float xy[2 * 81];
    double share[2];
    struct sw_err err;

    check(sets, 2);
    assert_int_equal(sw_plane_project((struct sw_vectors[]){sets[0], other}, 2, xy, share, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "12 and of 11"));
    free((void *)(uintptr_t)sets[0].at);
    free((void *)(uintptr_t)sets[1].at);
    free((void *)(uintptr_t)other.at);
}

static void rows_of_low_rank_are_projected(void **state)
{
    static const float same[5 * 3] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3};
    static const float line[4] = {-1e30f, 0, 1e30f, 0};
    float xy[10];
    double share[2];
    struct sw_err err;

    ASSERT_OK(sw_plane_project(&(struct sw_vectors){same, 5, 3}, 1, xy, share, &err));
    for (int i = 0; i < 10; i++)
        assert_true(xy[i] == 0);
    assert_true(share[0] == 0 && share[1] == 0);

    ASSERT_OK(sw_plane_project(&(struct sw_vectors){line, 4, 1}, 1, xy, share, &err));
    assert_true(xy[0] == -1e30f && xy[2] == 0 && xy[4] == 1e30f && xy[5] == 0);
    assert_float_equal(share[0], 1, 1e-12);
    assert_true(share[1] == 0);

    ASSERT_OK(sw_plane_project(&(struct sw_vectors){same, 1, 3}, 1, xy, share, &err));
    assert_true(xy[0] == 0 && xy[1] == 0);
}

static void a_stop_ends_it(void **state)
{
    struct sw_vectors v = slanted(1, 80, 24);
    float xy[160];
    double share[2];
    struct sw_err err;

    sw_stop_request(0);
    assert_int_equal(sw_plane_project(&v, 1, xy, share, &err), SW_ERR_CANCELLED);
    sw_stop_reset();
    free((void *)(uintptr_t)v.at);
}

static void exhausted_memory_is_said(void **state)
{
    struct sw_vectors v = slanted(1, 20, 4);
    float xy[40];
    double share[2];
    struct sw_err err;

    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 1});
    const int rc = sw_plane_project(&v, 1, xy, share, &err);
    faulty_end();
    assert_int_equal(rc, SW_ERR_NOMEM);
    assert_int_equal(faulty.live_allocations, 0);
    free((void *)(uintptr_t)v.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(components_are_those_of_the_covariance),
        cmocka_unit_test(sets_share_a_plane),
        cmocka_unit_test(rows_of_low_rank_are_projected),
        cmocka_unit_test(a_stop_ends_it),
        cmocka_unit_test(exhausted_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
