/* ctest-labels: gpu
 * Update control where the gradients are on a GPU: squares, their totals, the result and the
 * updates that use it have the CPU's bits. Skipped without a GPU. */
#include "device/op.h"
#include "kernels/ops/update.h"
#include "kernels/updaters/sgd.h"
#include "unit/device/cuda_support.h"
#include "unit/device/sim_support.h" /* streams, memory that goes there and back */
#include "unit/optim/updater_support.h"

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

static void *twin(const void *here, size_t bytes)
{
    return to_device(gpu, here, bytes);
}

static void let_go(void *there, size_t bytes)
{
    sw_device_free(dev, there, bytes);
}

static void run_on(struct sw_stream *s, const struct sw_op *op, const void *args)
{
    struct sw_err err;
    ASSERT_OK(sw_op_run(s, op, args, &err));
}

/* ---- Measures and totals ---- */

/* Not a number has several bits: all that are not finite count alike. */
static void assert_same_measures(const char *what, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i]) != isfinite(b[i]) || (isfinite(a[i]) && a[i] != b[i]))
            fail_msg("%s: %lld of %lld is %.17g, not %.17g", what, (long long)i, (long long)n, b[i],
                     a[i]);
}

/* Two parameters, whose sums of squares are in the other order, with padding in between. */
static void measure_both(const float *x, int64_t count, float limit, double scale)
{
    struct sw_update_control_input known = {.loss_scale = scale};
    int64_t second = (count + 2) / 3, first = count - second - (second > 16 ? 16 : 0);
    int64_t blocks = sw_norm_blocks(first) + sw_norm_blocks(second);
    const struct sw_update_numbers numbers[2] = {
        {.count = first, .first_square = sw_norm_blocks(second)},
        {.first = count - second, .count = second, .first_chunk = sw_update_chunks(first)}};
    size_t bytes = (size_t)count * sizeof *x, square_bytes = (size_t)blocks * sizeof(double);
    double *here = calloc(1, square_bytes), *back = calloc(1, square_bytes), total[2],
           total_back[2];
    int64_t ends[2] = {0, blocks}; /* an array of which there is nothing */
    char what[64];
    assert_true(here && back);
    struct sw_measure_args a = {.x = x,
                                .numbers = numbers,
                                .elements = count,
                                .chunks = sw_update_chunks(first) + sw_update_chunks(second),
                                .params = 2,
                                .limit = limit,
                                .known = &known,
                                .squares = here,
                                .blocks = blocks};
    struct sw_norm_totals_args t = {here, ends, total, blocks, 2};
    run_on(cpu.stream, &sw_op_measure, &a);
    run_on(cpu.stream, &sw_op_norm_totals, &t);
    a.x = twin(x, bytes);
    a.numbers = twin(numbers, sizeof numbers);
    a.known = twin(&known, sizeof known);
    a.squares = twin(back, square_bytes);
    t.squares = a.squares;
    t.ends = twin(ends, sizeof ends);
    t.totals = twin(total, sizeof total);
    run_on(gpu, &sw_op_measure, &a);
    run_on(gpu, &sw_op_norm_totals, &t);
    to_host(gpu, back, a.squares, square_bytes);
    to_host(gpu, total_back, t.totals, sizeof total_back);
    snprintf(what, sizeof what, "%lld elements, limit %g", (long long)count, (double)limit);
    assert_same_measures(what, here, back, blocks);
    assert_same_measures(what, total, total_back, 2);
    assert_true(total[0] == 0);
    let_go((void *)a.x, bytes);
    let_go((void *)a.numbers, sizeof numbers);
    let_go((void *)a.known, sizeof known);
    let_go(a.squares, square_bytes);
    let_go((void *)t.ends, sizeof ends);
    let_go(t.totals, sizeof total);
    free(here), free(back);
}

static void norms_are_bit_identical_to_the_cpu(void **state)
{
    static const int64_t counts[] = {1,
                                     15,
                                     16,
                                     17,
                                     1023,
                                     1024,
                                     1025,
                                     5003,
                                     16384,
                                     20011,
                                     (int64_t)SW_NORM_GROUP * SW_NORM_BLOCK + 77};
    struct rng r = rng_of(91);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *x = random_floats(&r, counts[i], -3, 3);
        measure_both(x, counts[i], 0, 1);
        measure_both(x, counts[i], 0.01f, 128);
        x[counts[i] / 2] = INFINITY;
        measure_both(x, counts[i], 0, 1);
        measure_both(x, counts[i], 0.01f, 128);
        free(x);
    }
}

/* ---- Decisions ---- */

static struct sw_update_control_result control_both(const double *squares, int params,
                                                    struct sw_update_control_input known,
                                                    double clip_norm)
{
    struct sw_update_control_result here, back;
    struct sw_update_control_args a = {squares, params, clip_norm, &known, &here};
    run_on(cpu.stream, &sw_op_update_control, &a);
    a.squares = twin(squares, (size_t)params * sizeof *squares);
    a.known = twin(&known, sizeof known);
    a.control = twin(&here, sizeof here);
    run_on(gpu, &sw_op_update_control, &a);
    to_host(gpu, &back, a.control, sizeof back);
    let_go((void *)a.squares, (size_t)params * sizeof *squares);
    let_go((void *)a.known, sizeof known);
    let_go(a.control, sizeof here);
    if (isfinite(here.grad_norm))
        assert_same_bits("a decision", &here, &back, sizeof here);
    assert_true(here.bad_param == back.bad_param && here.dropped == back.dropped &&
                here.vetoed == back.vetoed);
    return here;
}

static void update_control_matches_the_cpu(void **state)
{
    double squares[] = {2.5, 0, 1e-9, 1.5};
    struct sw_update_control_result d =
        control_both(squares, 4, (struct sw_update_control_input){1, 0}, 0);
    assert_true(d.scale == 1 && d.bad_param == -1 && !d.dropped && fabs(d.grad_norm - 2) < 1e-9);
    d = control_both(squares, 4, (struct sw_update_control_input){4, 0}, 0.125);
    assert_true(fabs(d.grad_norm - 0.5) < 1e-9 && fabsf(d.scale - 0.0625f) < 1e-9f);
    d = control_both(squares, 4, (struct sw_update_control_input){1, 2}, 0);
    assert_true(d.dropped && d.vetoed && d.bad_param == -1);
    squares[2] = (double)NAN;
    squares[3] = (double)INFINITY;
    d = control_both(squares, 4, (struct sw_update_control_input){8, 0}, 1);
    assert_true(d.dropped && !d.vetoed && d.bad_param == 2);
}

/* ---- What updates make of it ---- */

enum { COUNT = 5003 };

static const struct sw_update_formula *sgd_numbers(struct sw_update_numbers *out)
{
    struct sw_update_order order = {0};
    void *conf = updater_conf(find_updater("lars"), NULL, 0);
    const struct sw_update_args update = {
        .count = COUNT, .lr = 0.03f, .weight_decay = 0.01f, .order = &order};
    sw_updater_apply(find_updater("lars"), conf, &update);
    *out = (struct sw_update_numbers){.count = COUNT, .total = 1};
    memcpy(out->constants, order.constants, order.formula->constants_bytes);
    out->trust = order.trust;
    out->gradient_scale = 77; /* not what counts */
    free(conf);
    return order.formula;
}

struct arrays {
    float *value, *momentum;
};

static struct arrays update_on(struct sw_stream *s, struct sw_update_op_args a,
                               struct sw_rate_args rate, struct arrays with)
{
    a.value = with.value;
    a.slot[0] = with.momentum;
    run_on(s, &sw_op_rate, &rate);
    run_on(s, &sw_op_update, &a);
    return with;
}

static void update_both(struct sw_update_control_result control, bool changes)
{
    struct rng r = rng_of(5);
    double squares[5] = {(double)NAN, (double)NAN, 4, (double)NAN, 9}; /* the second total */
    bool bad = false;
    float back[COUNT], *before = random_floats(&r, COUNT, -1, 1);
    float *gradient = random_floats(&r, COUNT, -1, 1);
    struct arrays here = {get_floats(COUNT), random_floats(&r, COUNT, -1, 1)};
    memcpy(here.value, before, sizeof back);
    struct sw_update_numbers numbers;
    struct sw_update_op_args a = {.formula = sgd_numbers(&numbers),
                                  .gradient = gradient,
                                  .elements = COUNT,
                                  .chunks = sw_update_chunks(COUNT),
                                  .params = 1,
                                  .clip_value = 0.25f,
                                  .numbers = &numbers,
                                  .control = &control,
                                  .non_finite = &bad};
    struct sw_rate_args rate = {&squares[1], &squares[3], &control, &numbers, 2, 1};
    struct arrays there = {twin(here.value, sizeof back), twin(here.momentum, sizeof back)};
    double *squares_there = twin(squares, sizeof squares);
    struct sw_update_op_args b = a;
    b.gradient = twin(gradient, sizeof back);
    b.control = twin(&control, sizeof control);
    b.non_finite = twin(&bad, sizeof bad);
    struct sw_update_numbers *numbers_there = twin(&numbers, sizeof numbers);
    b.numbers = numbers_there;
    update_on(cpu.stream, a, rate, here);
    update_on(
        gpu, b,
        (struct sw_rate_args){squares_there + 1, squares_there + 3, b.control, numbers_there, 2, 1},
        there);
    to_host(gpu, back, there.value, sizeof back);
    assert_same_bits("values", here.value, back, sizeof back);
    assert_int_equal(memcmp(before, back, sizeof back) != 0, changes);
    to_host(gpu, back, there.momentum, sizeof back);
    assert_same_bits("momentum", here.momentum, back, sizeof back);
    assert_false(bad);
    let_go(there.value, sizeof back), let_go(there.momentum, sizeof back);
    let_go(squares_there, sizeof squares), let_go((void *)b.gradient, sizeof back);
    let_go((void *)b.control, sizeof control), let_go(b.non_finite, sizeof bad);
    let_go(numbers_there, sizeof numbers);
    free(before), free(gradient), free(here.value), free(here.momentum);
}

static void updates_use_the_result_of_update_control(void **state)
{
    update_both((struct sw_update_control_result){.loss_scale = 1, .scale = 0.5f, .bad_param = -1},
                true);
    update_both((struct sw_update_control_result){.loss_scale = 2, .scale = 0.25f, .bad_param = -1},
                true);
    update_both(
        (struct sw_update_control_result){
            .loss_scale = 1, .scale = 1, .bad_param = 0, .dropped = 1},
        false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_bit_identical_to_the_cpu),
        cmocka_unit_test(update_control_matches_the_cpu),
        cmocka_unit_test(updates_use_the_result_of_update_control),
    };
    dev = open_gpu(0);
    if (!dev)
        return SKIPPED;
    gpu = new_stream(dev);
    cpu = open_cpu(true, 1);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return rc;
}
