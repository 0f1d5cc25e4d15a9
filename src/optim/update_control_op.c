/* Update control as operations (kernels/ops/update_control.h): the descriptors and the CPU
 * versions. Called by the owner of a stream. */
#include "kernels/ops/update_control.h"
#include "optim/gather.h"

/* ---- Sums of squares ---- */

static void measure_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_measure_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->elements));
    SW_ARRAY(out, a, numbers, (size_t)a->params * sizeof *a->numbers);
    SW_ARRAY(out, a, known, sizeof *a->known);
    SW_ARRAY(out, a, squares, (size_t)a->blocks * sizeof *a->squares);
}

static int measure(const struct sw_host_launch *l, const void *args)
{
    const struct sw_measure_args *a = args;
    const float limit = a->limit * (float)a->known->loss_scale;

    for (int i = 0; i < a->params; i++) {
        const struct sw_update_numbers *n = &a->numbers[i];
        sw_gather_measure(a->x + n->first, n->count, limit, a->squares + n->first_square);
    }

    return SW_OK;
}

const struct sw_op sw_op_measure = {"measure", sizeof(struct sw_measure_args), measure_arrays,
                                    measure};

/* ---- Totals ---- */

static void totals_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_norm_totals_args *a = args;
    SW_ARRAY(out, a, squares, (size_t)a->blocks * sizeof *a->squares);
    SW_ARRAY(out, a, ends, (size_t)a->arrays * sizeof *a->ends);
    SW_ARRAY(out, a, totals, (size_t)a->arrays * sizeof *a->totals);
}

static int totals(const struct sw_host_launch *l, const void *args)
{
    const struct sw_norm_totals_args *a = args;

    for (int i = 0; i < a->arrays; i++) {
        int64_t from = i > 0 ? a->ends[i - 1] : 0;
        a->totals[i] = a->ends[i] > from ? sw_norm_total(a->squares + from, a->ends[i] - from) : 0;
    }

    return SW_OK;
}

const struct sw_op sw_op_norm_totals = {"norm_totals", sizeof(struct sw_norm_totals_args),
                                        totals_arrays, totals};

/* ---- The decision ---- */

static void update_control_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_update_control_args *a = args;
    SW_ARRAY(out, a, squares, (size_t)a->params * sizeof *a->squares);
    SW_ARRAY(out, a, known, sizeof *a->known);
    SW_ARRAY(out, a, control, sizeof *a->control);
}

static int control(const struct sw_host_launch *l, const void *args)
{
    const struct sw_update_control_args *a = args;
    *a->control = sw_update_control(a->squares, a->params, *a->known, a->clip_norm);
    return SW_OK;
}

const struct sw_op sw_op_update_control = {"decide", sizeof(struct sw_update_control_args),
                                           update_control_arrays, control};
