/* OpenBLAS is loaded and grows only if there is memory for it; a product that oneDNN cannot compute
 * is computed without it. */
#include "base/os.h"
#include "device/cpu/algebra.h"
#include "device/cpu/blas.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Memory ---- */

static struct sw_os os;

static void *refuse_pages(size_t bytes)
{
    return NULL;
}

/* Must be the first case: nothing is loaded yet. */
static void without_memory_openblas_is_not_loaded(void **state)
{
    struct sw_err err = {0};
    os = sw_os_posix;
    os.map_pages = refuse_pages;
    sw_os_set(&os);
    assert_int_equal(sw_blas_hold(0, &err), SW_ERR_NOMEM);
    assert_non_null(strstr(err.text, "out of memory: OpenBLAS with "));
    assert_null(sw_blas());
    sw_os_set(NULL);
    assert_int_equal(sw_blas_hold(0, &err), SW_OK);
    assert_non_null(sw_blas());
}

static void without_memory_openblas_adds_no_thread(void **state)
{
    struct sw_err err = {0};
    assert_int_equal(sw_blas_hold(2, &err), SW_OK);
    os.map_pages = refuse_pages;
    sw_os_set(&os);
    assert_int_equal(sw_blas_hold(1, &err), SW_ERR_NOMEM);
    sw_blas_release(1);
    assert_int_equal(sw_blas_hold(1, &err), SW_OK); /* its buffer exists */
    sw_os_set(NULL);
    sw_blas_release(2);
}

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Runs a case in a child process with `more` bytes of address space, which is killed if it hangs.
 */
static void in_small_process(size_t more, void (*run)(void))
{
    const char *sanitizer = getenv("SINGA_SANITIZE");
    if (sanitizer && *sanitizer) {
        print_message("skipped: sanitizers need all of the address space\n");
        skip();
    }
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {address_space() + more, RLIM_INFINITY};
        alarm(50);
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            _exit(2);
        run();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void take_what_is_held(void)
{
    void *buffer[4];
    for (int i = 0; i < 4; i++)
        buffer[i] = sw_blas()->acquire_buffer();
    for (int i = 0; i < 4; i++)
        sw_blas()->release_buffer(buffer[i]);
}

static void holders_need_no_more_memory(void **state)
{
    struct sw_err err = {0};
    assert_int_equal(sw_blas_hold(3, &err), SW_OK);
    assert_int_equal(sw_blas_hold(1, &err), SW_OK);
    in_small_process(1 << 20, take_what_is_held);
    sw_blas_release(4);
}

/* OpenBLAS keeps a buffer for each thread that it may start itself, so it must start none. */
static void take_a_root(void)
{
    enum { N = 600 };
    static double a[N * N];
    struct sw_err err = {0};
    if (sw_cpu_start_team(2, &err) != SW_OK)
        _exit(1);
    for (int i = 0; i < N * N; i++)
        a[i] = 1.0 / (1 + abs(i / N - i % N));
    if (sw_algebra_inverse_root(a, N, 1e-3, &err) != SW_OK)
        _exit(1);
}

/* Must run before the cases that allocate more than these two buffers. */
static void algebra_needs_no_more_memory_than_it_reserved(void **state)
{
    struct sw_err err = {0};
    assert_int_equal(sw_blas_hold(2, &err), SW_OK);
    sw_blas_release(2);
    in_small_process(64 << 20, take_a_root);
}

static void start_large_team(void)
{
    struct sw_err err = {0};
    if (sw_cpu_start_team(64, &err) != SW_ERR_NOMEM || !strstr(err.text, "ulimit -v"))
        _exit(1);
}

static void team_without_memory_is_refused(void **state)
{
    in_small_process(32 << 20, start_large_team);
}

/* ---- Products ---- */

/* This dnnl_sgemm replaces oneDNN's and fails for lack of memory. */
int dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
               int64_t ldc);
int dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
               int64_t ldc)
{
    return 1; /* dnnl_out_of_memory */
}

enum { M = 5, N = 7, K = 9, PITCH = 11 };

static float noise(int i)
{
    return (float)((i * 37 + 11) % 29) / 29.0f - 0.5f;
}

static double expected(const struct sw_product *p, const float *c, int i, int j)
{
    const float *a = p->a.at, *b = p->b.at;
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++)
        sum += (double)a[p->a.transposed ? l * p->a.pitch + i : i * p->a.pitch + l] *
               (double)b[p->b.transposed ? j * p->b.pitch + l : l * p->b.pitch + j];
    return (double)p->alpha * sum + (p->beta == 0 ? 0 : (double)p->beta * (double)c[i * PITCH + j]);
}

static void check_product(bool trans_a, bool trans_b, int k, float beta)
{
    float a[PITCH * PITCH], b[PITCH * PITCH], c[PITCH * PITCH], before[PITCH * PITCH];
    for (int i = 0; i < PITCH * PITCH; i++) {
        a[i] = noise(i);
        b[i] = noise(i + 1000);
        c[i] = beta == 0 ? NAN : noise(i + 2000);
    }
    memcpy(before, c, sizeof c);
    const struct sw_product p = {M,    N, k,    0.75f, {a, PITCH, trans_a}, {b, PITCH, trans_b},
                                 beta, c, PITCH};
    sw_cpu_multiply(&p);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++)
            assert_true(fabs((double)c[i * PITCH + j] - expected(&p, before, i, j)) < 1e-5);
        assert_memory_equal(c + i * PITCH + N, before + i * PITCH + N, (PITCH - N) * sizeof *c);
    }
}

static void product_needs_no_memory(void **state)
{
    struct sw_err err = {0};
    assert_int_equal(sw_blas_hold(1, &err), SW_OK);
    for (int i = 0; i < 16; i++)
        check_product(i & 1, i & 2, i & 4 ? K : 0, i & 8 ? 0.5f : 0);
    sw_blas_release(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_openblas_is_not_loaded),
        cmocka_unit_test(without_memory_openblas_adds_no_thread),
        cmocka_unit_test(algebra_needs_no_more_memory_than_it_reserved),
        cmocka_unit_test(holders_need_no_more_memory),
        cmocka_unit_test(team_without_memory_is_refused),
        cmocka_unit_test(product_needs_no_memory),
    };
    return cmocka_run_group_tests_name("blas", tests, NULL, NULL);
}
