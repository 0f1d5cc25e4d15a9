/* ctest-timeout: 120
 * AlexNet on several simulated GPUs equals AlexNet on one worker: small pictures and narrow layers.
 */
#include "alexnet_support.h"

static void a_hybrid_of_rows_and_columns_equals_one_worker(void **state)
{
    /* 7 rows divide by neither 2 nor 4. */
    alexnet_compare(
        &(struct alexnet){.side = 67, .batch = 7, .steps = 2, .width = 90, .limit = 1e-4});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hybrid_of_rows_and_columns_equals_one_worker),
    };
    return cmocka_run_group_tests_name("alexnet", tests, home_begin, home_end);
}
