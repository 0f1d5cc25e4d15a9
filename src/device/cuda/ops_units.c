/* Operations on units of Boltzmann machines. */
#include "device/cuda/ops.h"
#include "device/ops/unit_kernels.h"

static int units(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_units_args *a = args;
    const struct sw_kernel_units k = sw_units_kernel(a);
    return sw_cuda_units(&k, a->carried, a->step, l);
}

static int unit_energy(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_unit_energy_args *a = args;
    const struct sw_kernel_unit_energy k = sw_unit_energy_kernel(a);
    return sw_cuda_unit_energy(&k, a->factor, a->more, a->part, a->step, a->result, l);
}

static int flip(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_flip_args *a = args;
    const struct sw_kernel_flip k = sw_flip_kernel(a);
    return sw_cuda_flip(&k, a->step, a->result, l);
}

static int row_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_sums_args *a = args;
    return sw_cuda_row_sums(a->rows, a->columns, a->x, a->sum, l);
}

static int two_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_two_sums_args *a = args;
    return sw_cuda_two_sums(a->rows, a->first_rows, a->columns, a->first_factor, a->shift, a->x,
                            a->sum, l);
}

const struct sw_cuda_op sw_cuda_unit_ops[] = {
    {.op = &sw_op_units, .launch = units},       {.op = &sw_op_unit_energy, .launch = unit_energy},
    {.op = &sw_op_flip, .launch = flip},         {.op = &sw_op_row_sums, .launch = row_sums},
    {.op = &sw_op_two_sums, .launch = two_sums}, {0},
};
