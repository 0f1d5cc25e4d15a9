#include "device/ops/decide.h"
#include "param/gather.h"

/* ---- Measures ---- */

static const struct sw_op_pointer measure_pointers[] = {
    SW_OP_POINTER(struct sw_measure_args, x),
    SW_OP_POINTER(struct sw_measure_args, known),
    SW_OP_POINTER(struct sw_measure_args, squares),
    {0},
};

static void measure_spans(const void *args, size_t *bytes)
{
    const struct sw_measure_args *a = args;
    bytes[0] = sw_op_floats(a->count);
    bytes[1] = sizeof *a->known;
    bytes[2] = (size_t)sw_norm_blocks(a->count) * sizeof *a->squares;
}

static int measure(int threads, const void *args, struct sw_err *err)
{
    const struct sw_measure_args *a = args;
    (void)threads, (void)err;
    sw_gather_measure(a->x, a->count, a->limit * (float)a->known->loss_scale, a->squares);
    return SW_OK;
}

const struct sw_op sw_op_measure = {.name = "measure",
                                    .args_bytes = sizeof(struct sw_measure_args),
                                    .pointers = measure_pointers,
                                    .spans = measure_spans,
                                    .cpu = measure};

/* ---- Totals ---- */

static const struct sw_op_pointer total_pointers[] = {
    SW_OP_POINTER(struct sw_norm_totals_args, squares),
    SW_OP_POINTER(struct sw_norm_totals_args, ends),
    SW_OP_POINTER(struct sw_norm_totals_args, totals),
    {0},
};

static void total_spans(const void *args, size_t *bytes)
{
    const struct sw_norm_totals_args *a = args;
    bytes[0] = (size_t)a->blocks * sizeof *a->squares;
    bytes[1] = (size_t)a->arrays * sizeof *a->ends;
    bytes[2] = (size_t)a->arrays * sizeof *a->totals;
}

static int total(int threads, const void *args, struct sw_err *err)
{
    const struct sw_norm_totals_args *a = args;
    (void)threads, (void)err;
    for (int i = 0; i < a->arrays; i++) {
        int64_t from = i > 0 ? a->ends[i - 1] : 0;
        a->totals[i] = a->ends[i] > from ? sw_norm_total(a->squares + from, a->ends[i] - from) : 0;
    }
    return SW_OK;
}

const struct sw_op sw_op_norm_totals = {.name = "norm_totals",
                                        .args_bytes = sizeof(struct sw_norm_totals_args),
                                        .pointers = total_pointers,
                                        .spans = total_spans,
                                        .cpu = total};

/* ---- Decisions ---- */

static const struct sw_op_pointer decide_pointers[] = {
    SW_OP_POINTER(struct sw_decide_args, squares),
    SW_OP_POINTER(struct sw_decide_args, known),
    SW_OP_POINTER(struct sw_decide_args, decided),
    {0},
};

static void decide_spans(const void *args, size_t *bytes)
{
    const struct sw_decide_args *a = args;
    bytes[0] = (size_t)a->params * sizeof *a->squares;
    bytes[1] = sizeof *a->known;
    bytes[2] = sizeof *a->decided;
}

static int decide(int threads, const void *args, struct sw_err *err)
{
    const struct sw_decide_args *a = args;
    (void)threads, (void)err;
    *a->decided = sw_decide(a->squares, a->params, *a->known, a->clip_norm);
    return SW_OK;
}

const struct sw_op sw_op_decide = {.name = "decide",
                                   .args_bytes = sizeof(struct sw_decide_args),
                                   .pointers = decide_pointers,
                                   .spans = decide_spans,
                                   .cpu = decide};
