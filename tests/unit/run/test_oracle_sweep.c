/* ctest-labels: long
 * ctest-timeout: 3600
 * test_oracle.c with many more cases. Arguments: the number of the first case, and how many cases
 * to run (default: that one). */
#include "oracle_support.h"

enum { FIRST = 1000, CASES = 3000 };

static void many_random_jobs_train_to_what_one_worker_trains(void **state)
{
    struct oracle_coverage v = {0};
    oracle_sweep(FIRST, FIRST + CASES, &v);
    oracle_check_coverage(&v);
}

static uint64_t first, cases;

static void the_named_cases_train_to_what_one_worker_trains(void **state)
{
    struct oracle_coverage v = {0};
    if (cases == 1) {
        struct oracle_case c = oracle_draw(first);
        oracle_print(&c);
        sw_free(c.recipe);
    }
    oracle_sweep(first, first + cases, &v);
    oracle_print_coverage(&v);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_random_jobs_train_to_what_one_worker_trains),
    };
    const struct CMUnitTest named[] = {
        cmocka_unit_test(the_named_cases_train_to_what_one_worker_trains),
    };
    if (argc == 1)
        return cmocka_run_group_tests_name("oracle sweep", tests, NULL, NULL);
    first = strtoull(argv[1], NULL, 10);
    cases = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return cmocka_run_group_tests_name("oracle sweep", named, NULL, NULL);
}
