/* ctest-labels: long
 * ctest-timeout: 1800
 * test_oracle.c over many more cases. */
#include "oracle_support.h"

enum { FIRST = 1000, CASES = 3000 };

static void many_random_jobs_train_to_what_one_worker_trains(void **state)
{
    struct oracle_coverage v = {0};
    (void)state;
    oracle_sweep(FIRST, FIRST + CASES, &v);
    oracle_check_coverage(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_random_jobs_train_to_what_one_worker_trains),
    };
    return cmocka_run_group_tests_name("oracle sweep", tests, NULL, NULL);
}
