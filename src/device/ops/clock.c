#include "device/ops/clock.h"
#include "base/os.h"

static void spans(const void *args, size_t *bytes)
{
    const struct sw_clock_args *a = args;
    bytes[0] = sizeof *a->ns;
}

static int cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_clock_args *a = args;
    (void)threads, (void)err;
    *a->ns = sw_os()->monotonic_ns();
    return SW_OK;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_clock_args, ns),
    {0},
};

const struct sw_op sw_op_read_clock = {
    .name = "clock",
    .args_bytes = sizeof(struct sw_clock_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = cpu,
};
