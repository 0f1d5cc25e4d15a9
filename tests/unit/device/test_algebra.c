/* Host algebra against its definition: products by plain loops, and inverse roots whose square
 * inverts the matrix. */
#include "device/cpu/algebra.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static float noise(uint64_t i)
{
    i = i * 6364136223846793005ull + 1442695040888963407ull;
    i ^= i >> 33;
    i *= 0xff51afd7ed558ccdull;
    return (float)(i >> 40) / (float)(1 << 24) - 0.5f;
}

static void gram_is_the_sum_of_products(void **state)
{
    enum { N = 300, ROWS = 7 };
    float *x = malloc(sizeof(float) * N * ROWS), *out = malloc(sizeof(float) * N * N);
    struct sw_err err = {0};
    assert_true(x && out);
    for (int i = 0; i < N * ROWS; i++)
        x[i] = noise((uint64_t)i);
    assert_int_equal(sw_algebra_gram(N, ROWS, x, out, &err), 0);
    for (int i = 0; i < N; i += 13) {
        for (int k = 0; k < N; k += 7) {
            double want = 0;
            for (int r = 0; r < ROWS; r++)
                want += (double)x[r * N + i] * (double)x[r * N + k];
            assert_true(fabs(want - (double)out[i * N + k]) < 1e-5);
        }
    }
    free(x);
    free(out);
}

static void product_is_that_of_plain_loops(void **state)
{
    enum { M = 300, N = 5, ROWS = 9 };
    double a[ROWS * M], b[ROWS * N], out[M * N];
    struct sw_err err = {0};
    for (int i = 0; i < ROWS * M; i++)
        a[i] = (double)noise((uint64_t)i);
    for (int i = 0; i < ROWS * N; i++)
        b[i] = (double)noise((uint64_t)(i + 77777));
    assert_int_equal(sw_algebra_product(M, N, ROWS, a, b, out, &err), 0);
    for (int i = 0; i < M; i++) {
        for (int k = 0; k < N; k++) {
            double want = 0;
            for (int r = 0; r < ROWS; r++)
                want += a[r * M + i] * b[r * N + k];
            assert_true(fabs(want - out[i * N + k]) < 1e-12);
        }
    }
}

/* [[2, 1], [1, 2]] has 1 with (1, -1) / sqrt 2, and 3 with (1, 1) / sqrt 2. */
static void eigenvectors_are_rows_and_values_ascend(void **state)
{
    double a[4] = {2, 1, 1, 2}, values[2];
    struct sw_err err = {0};
    assert_int_equal(sw_algebra_eigen(a, 2, values, &err), 0);
    assert_true(fabs(values[0] - 1) < 1e-12 && fabs(values[1] - 3) < 1e-12);
    assert_true(fabs(a[0] + a[1]) < 1e-12 && fabs(a[2] - a[3]) < 1e-12);
    assert_true(fabs(fabs(a[0]) - sqrt(0.5)) < 1e-12 && fabs(fabs(a[2]) - sqrt(0.5)) < 1e-12);
}

static void inverse_root_of_a_diagonal_is_known(void **state)
{
    double a[9] = {3, 0, 0, 0, -1e-9,
                   0, 0, 0, 15}; /* one eigenvalue is slightly negative by rounding */
    const double want[9] = {0.5, 0, 0, 0, 1, 0, 0, 0, 0.25};
    struct sw_err err = {0};
    assert_int_equal(sw_algebra_inverse_root(a, 3, 1, &err), 0);
    for (int i = 0; i < 9; i++)
        assert_true(fabs(a[i] - want[i]) < 1e-8);
}

/* w (a + epsilon) w = 1 for w = (a + epsilon)^(-1/2), and w is symmetric. */
static void squared_inverse_root_inverts_the_matrix(void **state)
{
    enum { N = 40 };
    const double epsilon = 0.05;
    static double a[N][N], w[N][N], t[N][N];
    struct sw_err err = {0};
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            a[i][k] = 0;
            for (int r = 0; r < N / 2; r++) /* half of its eigenvalues are zero */
                a[i][k] +=
                    (double)noise((uint64_t)(i * 100 + r)) * (double)noise((uint64_t)(k * 100 + r));
            w[i][k] = a[i][k];
        }
    }
    assert_int_equal(sw_algebra_inverse_root(&w[0][0], N, epsilon, &err), 0);
    for (int i = 0; i < N; i++) {
        a[i][i] += epsilon;
        for (int k = 0; k < N; k++)
            assert_true(fabs(w[i][k] - w[k][i]) < 1e-9);
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            t[i][k] = 0;
            for (int r = 0; r < N; r++)
                t[i][k] += a[i][r] * w[r][k];
        }
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            double sum = 0;
            for (int r = 0; r < N; r++)
                sum += w[i][r] * t[r][k];
            assert_true(fabs(sum - (i == k)) < 1e-8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gram_is_the_sum_of_products),
        cmocka_unit_test(product_is_that_of_plain_loops),
        cmocka_unit_test(eigenvectors_are_rows_and_values_ascend),
        cmocka_unit_test(inverse_root_of_a_diagonal_is_known),
        cmocka_unit_test(squared_inverse_root_inverts_the_matrix),
    };
    return cmocka_run_group_tests_name("algebra", tests, NULL, NULL);
}
