/* ctest-labels: long
 * ctest-timeout: 1800
 * test_alexnet.c with all of the recipe's sizes. */
#include "alexnet_support.h"

static void the_whole_hybrid_equals_one_worker(void **state)
{
    alexnet_compare(&(struct alexnet){.side = 227, .batch = 6, .steps = 2, .limit = 1e-3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_hybrid_equals_one_worker),
    };
    return cmocka_run_group_tests_name("alexnet full", tests, home_begin, home_end);
}
