/* While an idle team exists, an OpenMP thread that waits for another one sleeps. */
#include "device/device.h"
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

enum { WAITS = 100, WAIT_NS = 1000000 };

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* CPU time of a thread that waits for the other one of its team WAITS times, WAIT_NS each. */
static int64_t waiting_cpu_ns(void)
{
    int64_t used_ns = 0;

#pragma omp parallel num_threads(2)
    {
        const int64_t began_ns = thread_cpu_ns();

        for (int i = 0; i < WAITS; i++) {
            if (omp_get_thread_num() == 0)
                nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
#pragma omp barrier
        }

        if (omp_get_thread_num() == 1)
            used_ns = thread_cpu_ns() - began_ns;
    }

    return used_ns;
}

static void waiting_threads_sleep(void **state)
{
    struct sw_idle_team *team = NULL;
    struct sw_err err;

    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the thread sanitizer does not see libgomp's barriers\n");
    skip();
#endif
    assert_int_equal(sw_idle_team_start(&team, &err), SW_OK);
    int64_t used_ns = waiting_cpu_ns();
    sw_idle_team_end(team);

    assert_true(used_ns < (int64_t)WAITS * WAIT_NS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waiting_threads_sleep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
