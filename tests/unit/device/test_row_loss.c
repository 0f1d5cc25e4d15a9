/* Losses of rows, triplets and counts of classes as operations: on matrices large enough for a
 * team, bit-identical for every number of threads; gradients in place; ignored rows. */
#include "device/op.h"
#include "device_support.h"
#include "kernels/ops/classes.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/row_loss.h"

enum { ROWS = 1100, COLUMNS = 129, VALID = 1099, CELLS = ROWS * COLUMNS };

/* Every loss, and the hinges once more with sets of labels. */
enum { HINGE_SETS = 6, RANKING_SETS, KINDS };

/* Inputs of all operations. */
struct inputs {
    float *x, *target, *other, *set;
    int32_t *label, *whole;
    struct sw_step step;
};

struct outputs {
    float y[KINDS][CELLS], dx[KINDS][CELLS], slope[ROWS], triplet[CELLS], floats[CELLS];
    struct sw_result result[KINDS], triplets, hits, counts[2 * COLUMNS];
};

static struct inputs inputs_new(void)
{
    struct rng r = rng_of(8);
    struct inputs in = {.x = random_floats(&r, CELLS, -3, 3),
                        .target = random_floats(&r, CELLS, 0, 1),
                        .other = random_floats(&r, CELLS, -3, 3),
                        .set = random_floats(&r, CELLS, -9, 1),
                        .label = get_bytes(ROWS * sizeof(int32_t)),
                        .whole = get_bytes(CELLS * sizeof(int32_t)),
                        .step = {.valid_rows = VALID, .backward_scale = 0.125f}};
    for (int i = 0; i < ROWS; i++)
        in.label[i] = i < VALID ? (int32_t)rng_int(&r, 0, COLUMNS - 1) : -5;
    for (int i = 0; i < CELLS; i++) {
        in.whole[i] = (int32_t)rng_int(&r, -1000, 1000);
        in.set[i] = in.set[i] > 0;
    }
    return in;
}

static void inputs_free(struct inputs *in)
{
    free(in->x);
    free(in->target);
    free(in->other);
    free(in->set);
    free(in->label);
    free(in->whole);
}

static bool by_label(int kind)
{
    return kind == SW_LOSS_HINGE || kind == SW_LOSS_RANKING;
}

static enum sw_loss loss_of(int kind)
{
    return kind == HINGE_SETS     ? SW_LOSS_HINGE
           : kind == RANKING_SETS ? SW_LOSS_RANKING
                                  : (enum sw_loss)kind;
}

static const float *targets_of(const struct inputs *in, int kind)
{
    return kind >= HINGE_SETS ? in->set : by_label(kind) ? NULL : in->target;
}

static void run_kind(struct sw_stream *s, const struct inputs *in, int kind, struct outputs *o)
{
    struct sw_err err;
    struct sw_row_loss_args forward = {.kind = loss_of(kind),
                                       .who = "tested",
                                       .rows = ROWS,
                                       .columns = COLUMNS,
                                       .weight = 0.5f,
                                       .margin = 1,
                                       .squared = loss_of(kind) == SW_LOSS_RANKING,
                                       .x = in->x,
                                       .target = targets_of(in, kind),
                                       .labels = {.label = by_label(kind) ? in->label : NULL},
                                       .step = &in->step,
                                       .y = o->y[kind],
                                       .result = &o->result[kind]};
    struct sw_row_gradient_args backward = {.kind = loss_of(kind),
                                            .rows = ROWS,
                                            .columns = COLUMNS,
                                            .weight = 0.5f,
                                            .y = o->y[kind],
                                            .target = targets_of(in, kind),
                                            .step = &in->step,
                                            .dx = o->dx[kind]};
    ASSERT_OK(sw_op_run(s, &sw_op_row_loss, &forward, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_row_loss_gradient, &backward, &err));
    for (int i = 0; i < CELLS; i++)
        assert_true(i < VALID * COLUMNS ? isfinite(o->dx[kind][i]) : o->dx[kind][i] == 0);
}

static void run_triplets(struct sw_stream *s, const struct inputs *in, struct outputs *o)
{
    struct sw_err err;
    struct sw_triplet_loss_args forward = {.rows = ROWS,
                                           .columns = COLUMNS,
                                           .weight = 2,
                                           .margin = 1,
                                           .anchor = in->x,
                                           .match = in->target,
                                           .other = in->other,
                                           .step = &in->step,
                                           .slope = o->slope,
                                           .result = &o->triplets};
    struct sw_triplet_gradient_args backward = {.rows = ROWS,
                                                .columns = COLUMNS,
                                                .weight = 2,
                                                .slope = o->slope,
                                                .plus = in->other,
                                                .minus = in->target,
                                                .step = &in->step,
                                                .dx = o->triplet};
    ASSERT_OK(sw_op_run(s, &sw_op_triplet_loss, &forward, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_triplet_loss_gradient, &backward, &err));
    for (int i = VALID * COLUMNS; i < CELLS; i++)
        assert_true(o->triplet[i] == 0);
}

static void run_classes(struct sw_stream *s, const struct inputs *in, struct outputs *o)
{
    struct sw_err err;
    struct sw_top_k_args top = {.rows = ROWS,
                                .classes = COLUMNS,
                                .top_k = 2,
                                .x = in->x,
                                .target = in->target,
                                .step = &in->step,
                                .result = &o->hits};
    struct sw_class_count_args count = {.rows = ROWS,
                                        .classes = COLUMNS,
                                        .threshold = 0.25f,
                                        .x = in->x,
                                        .target = in->target,
                                        .step = &in->step,
                                        .count = o->counts};
    ASSERT_OK(sw_op_run(s, &sw_op_top_k, &top, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_class_count, &count, &err));
    assert_true(o->hits.weight == VALID && o->hits.sum > 0 && o->hits.sum < VALID);
    ASSERT_OK(sw_op_run(s, &sw_op_to_floats,
                        &(const struct sw_floats_args){.n = CELLS, .x = in->whole, .y = o->floats},
                        &err));
    for (int i = 0; i < CELLS; i++)
        assert_true(o->floats[i] == (float)in->whole[i]);
}

static struct outputs *run_everything(const struct inputs *in, int threads)
{
    struct outputs *o = get_bytes(sizeof *o);
    struct fixture f = open_cpu(true, threads);
    memset(o, 0, sizeof *o);
    for (int kind = 0; kind < KINDS; kind++)
        run_kind(f.stream, in, kind, o);
    run_triplets(f.stream, in, o);
    run_classes(f.stream, in, o);
    close_cpu(&f);
    return o;
}

static void results_do_not_depend_on_the_thread_count(void **state)
{
    struct inputs in = inputs_new();
    struct outputs *one = run_everything(&in, 1);
    for (int threads = 2; threads <= 3; threads++) {
        struct outputs *many = run_everything(&in, threads);
        assert_same_bits("outputs", many, one, sizeof *one);
        free(many);
    }
    free(one);
    inputs_free(&in);
}

static void gradients_work_in_place(void **state)
{
    struct inputs in = inputs_new();
    struct outputs *o = run_everything(&in, 1);
    struct fixture f = open_cpu(true, 1);
    struct sw_err err;
    for (int kind = 0; kind < KINDS; kind++) {
        struct sw_row_gradient_args a = {.kind = loss_of(kind),
                                         .rows = ROWS,
                                         .columns = COLUMNS,
                                         .weight = 0.5f,
                                         .y = o->y[kind],
                                         .target = targets_of(&in, kind),
                                         .step = &in.step,
                                         .dx = o->y[kind]};
        ASSERT_OK(sw_op_run(f.stream, &sw_op_row_loss_gradient, &a, &err));
        assert_same_bits("gradient", o->y[kind], o->dx[kind], sizeof o->dx[kind]);
    }
    close_cpu(&f);
    free(o);
    inputs_free(&in);
}

static void loss_of_no_rows_is_zero(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_step step = {.valid_rows = 0};
    struct sw_result result = {NAN, NAN};
    struct sw_err err;
    for (int kind = 0; kind < KINDS; kind++) {
        struct sw_row_loss_args a = {.kind = loss_of(kind),
                                     .who = "tested",
                                     .columns = 4,
                                     .weight = 1,
                                     .step = &step,
                                     .result = &result};
        ASSERT_OK(sw_op_run(f.stream, &sw_op_row_loss, &a, &err));
        assert_true(result.sum == 0 && result.weight == 0);
    }
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_the_thread_count),
        cmocka_unit_test(gradients_work_in_place),
        cmocka_unit_test(loss_of_no_rows_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
