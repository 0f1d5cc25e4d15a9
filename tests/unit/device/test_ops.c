/* All operations, whose list the build reads from kernels/ops: names, arguments and arrays. */
#include "kernels/op.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern const struct sw_op *const sw_ops[]; /* written by CMake; ends with NULL */

static void every_operation_is_complete_and_has_a_unique_name(void **state)
{
    assert_non_null(sw_ops[0]);
    for (int i = 0; sw_ops[i]; i++) {
        const struct sw_op *op = sw_ops[i];
        assert_true(op->name[0] && op->arrays && op->cpu);
        assert_in_range(op->args_bytes, 1, SW_OP_ARGS_BYTES);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(op->name, sw_ops[j]->name);
    }
}

/* Devices use the list to check and copy memory. */
static void arrays_are_pointers_inside_the_arguments(void **state)
{
    const uint64_t nothing[SW_OP_ARGS_BYTES / sizeof(uint64_t)] = {0};
    for (int i = 0; sw_ops[i]; i++) {
        struct sw_op_arrays list;
        sw_op_list(sw_ops[i], nothing, &list);
        assert_in_range(list.count, 1, SW_OP_ARRAYS);
        for (int a = 0; a < list.count; a++) {
            assert_non_null(list.array[a].name);
            assert_true(list.array[a].offset % sizeof(void *) == 0);
            assert_true(list.array[a].offset + sizeof(void *) <= sw_ops[i]->args_bytes);
            for (int b = 0; b < a; b++)
                assert_true(list.array[a].offset != list.array[b].offset);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_complete_and_has_a_unique_name),
        cmocka_unit_test(arrays_are_pointers_inside_the_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
