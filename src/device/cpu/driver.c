/* The driver of the CPU: it has no options, and its memory is host memory. */
#include "device/cpu/cpu.h"

static int open_device(const struct sw_device_args *args, struct sw_device **out,
                       struct sw_err *err)
{
    return sw_cpu_open_as(false, args->precision, out, err);
}

const struct sw_driver sw_driver_cpu = {
    .name = "cpu",
    .label = "CPU",
    .forms = (const char *const[]){"cpu", NULL},
    .caps = {.host_memory = true},
    .gemm_side = 384,
    .open = open_device,
    .libraries = sw_cpu_libraries,
    .start_team = sw_cpu_start_team,
};
