/* The clock operation of devices that compute on the host. */
#include "kernels/ops/clock.h"
#include "base/os.h"

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_clock_args *a = args;
    SW_ARRAY(out, a, ns, sizeof *a->ns);
}

static int read_clock(const struct sw_host_launch *l, const void *args)
{
    const struct sw_clock_args *a = args;
    *a->ns = sw_os()->monotonic_ns();
    return SW_OK;
}

const struct sw_op sw_op_clock = {"clock", sizeof(struct sw_clock_args), arrays, read_clock};
