/* Divisions by multiplication and shift (kernels/divide.h) compared with the operators. */
#include "device_support.h"
#include "kernels/divide.h"

static void check(uint32_t n, uint32_t by)
{
    const struct sw_divisor d = sw_divisor_of(by);
    uint32_t quotient = n, rest = sw_divide_off(&d, &quotient);

    if (sw_divide(&d, n) != n / by || quotient != n / by || rest != n % by)
        fail_msg("%u / %u is %u, rest %u", n, by, quotient, rest);
}

static void quotients_are_those_of_the_operator(void **state)
{
    static const uint32_t edges[] = {1,         2,          3,          7,          10,
                                     641,       65535,      65536,      65537,      1u << 30,
                                     INT32_MAX, 0x40000001, 0x7ffffffe, 0x55555555, 1000000007};
    const int count = sizeof edges / sizeof *edges;

    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            for (uint32_t k = 0; k < 3; k++)
                for (uint32_t multiple = edges[i] / edges[j] * edges[j], add = 0; add < 2; add++) {
                    check((edges[i] - k) & INT32_MAX, edges[j]);
                    check((multiple - add) & INT32_MAX, edges[j]);
                }

    for (uint32_t by = 1; by < 3000; by++)
        for (uint32_t n = 0; n < 300; n++) {
            check(n, by);
            check(INT32_MAX - n, by);
            check(INT32_MAX / by * by - (n & 1), by);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quotients_are_those_of_the_operator)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
