/* ctest-labels: gpu
 * Recurrent cells of odd sizes on a GPU compared with the CPU: outputs, what forward keeps for
 * backward, the state that is carried over, gradients with and without sums. Skipped without a
 * GPU. */
#include "cuda_support.h"
#include "device/op.h"

#include "kernels/ops/recurrent.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

enum array {
    X,
    WEIGHT,
    RECURRENT,
    BIAS,
    H,
    C,
    GATES,
    BEFORE,
    Y,
    DY,
    DGATES,
    DSTATE,
    DX,
    DWEIGHT,
    DRECURRENT,
    DBIAS,
    ARRAYS
};
static const char *const names[] = {"x",    "weight",  "recurrent",  "bias", "h",      "c",
                                    "kept", "h'",      "y",          "dy",   "dgates", "dstate",
                                    "dx",   "dweight", "drecurrent", "dbias"};

static int run_forward(struct sw_stream *s, const struct sw_recurrent *r, float *const *p,
                       const struct sw_step *step, struct sw_err *err)
{
    const struct sw_recurrent_args a = {.r = *r,
                                        .x = p[X],
                                        .weight = p[WEIGHT],
                                        .recurrent = p[RECURRENT],
                                        .bias = p[BIAS],
                                        .h = p[H],
                                        .c = p[C],
                                        .carried = true,
                                        .step = step,
                                        .gates = p[GATES],
                                        .before = p[BEFORE],
                                        .y = p[Y]};
    return sw_op_run(s, &sw_op_recurrent, &a, err);
}

static int run_backward(struct sw_stream *s, const struct sw_recurrent *r, float *const *p,
                        bool adds, struct sw_err *err)
{
    const struct sw_recurrent_gradient_args a = {.r = *r,
                                                 .x = p[X],
                                                 .weight = p[WEIGHT],
                                                 .recurrent = p[RECURRENT],
                                                 .gates = p[GATES],
                                                 .before = p[BEFORE],
                                                 .dy = p[DY],
                                                 .dgates = p[DGATES],
                                                 .dstate = p[DSTATE],
                                                 .handed_on = true,
                                                 .dx = p[DX],
                                                 .adds_dx = adds,
                                                 .dweight = p[DWEIGHT],
                                                 .drecurrent = p[DRECURRENT],
                                                 .dbias = p[DBIAS],
                                                 .adds_dweight = adds,
                                                 .adds_drecurrent = adds};
    return sw_op_run(s, &sw_op_recurrent_gradient, &a, err);
}

static void compare(float *const *here, float *const *there, const int64_t *count)
{
    for (int i = 0; i < ARRAYS; i++) {
        float *back = get_floats(count[i]);
        double *wanted = get_doubles(count[i]);
        to_host(gpu, back, there[i], (size_t)count[i] * sizeof *back);
        for (int64_t j = 0; j < count[i]; j++)
            wanted[j] = (double)here[i][j];
        assert_near(names[i], back, wanted, count[i], 1e-4); /* terms of a sum cancel */
        free(back);
        free(wanted);
    }
}

static void check(const struct sw_recurrent *r)
{
    struct rng random = rng_of(11);
    const int64_t places = r->rows * r->steps, state = r->rows * r->hidden;
    const int64_t gates = sw_cell_gates(r->kind) * r->hidden;
    const int64_t biases = sw_cell_biases(r->kind) * r->hidden;
    const int64_t count[ARRAYS] = {[X] = places * r->inputs,
                                   [WEIGHT] = gates * r->inputs,
                                   [RECURRENT] = gates * r->hidden,
                                   [BIAS] = biases,
                                   [H] = state,
                                   [C] = state,
                                   [GATES] = places * sw_cell_saved(r->kind) * r->hidden,
                                   [BEFORE] = places * r->hidden,
                                   [Y] = places * r->hidden,
                                   [DY] = places * r->hidden,
                                   [DGATES] = places * biases,
                                   [DSTATE] = 2 * state,
                                   [DX] = places * r->inputs,
                                   [DWEIGHT] = gates * r->inputs,
                                   [DRECURRENT] = gates * r->hidden,
                                   [DBIAS] = biases};
    struct sw_step step = {.valid_rows = r->rows, .batch_valid_rows = r->rows};
    struct sw_step *step_there = to_device(gpu, &step, sizeof step);
    float *here[ARRAYS], *there[ARRAYS];
    struct sw_err err;

    for (int i = 0; i < ARRAYS; i++) {
        here[i] = random_floats(&random, count[i], -1, 1);
        there[i] = to_device(gpu, here[i], (size_t)count[i] * sizeof *here[i]);
    }

    for (int run = 0; run < 2; run++) { /* the second continues from the state of the first */
        ASSERT_OK(run_forward(cpu.stream, r, here, &step, &err));
        ASSERT_OK(run_forward(gpu, r, there, step_there, &err));
        ASSERT_OK(run_backward(cpu.stream, r, here, run == 1, &err));
        ASSERT_OK(run_backward(gpu, r, there, run == 1, &err));
        compare(here, there, count);
    }

    for (int i = 0; i < ARRAYS; i++)
        free(here[i]);
}

static void cells_match_the_cpu(void **state)
{
    for (int kind = SW_CELL_RNN_TANH; kind <= SW_CELL_LSTM; kind++)
        for (int reverse = 0; reverse < 2; reverse++) {
            check(&(const struct sw_recurrent){.kind = (enum sw_cell_kind)kind,
                                               .rows = 3,
                                               .steps = 5,
                                               .inputs = 7,
                                               .hidden = 9,
                                               .pitch = 9,
                                               .reverse = reverse == 1});
            check(&(const struct sw_recurrent){.kind = (enum sw_cell_kind)kind,
                                               .rows = 1,
                                               .steps = 1,
                                               .inputs = 1,
                                               .hidden = 33,
                                               .pitch = 33,
                                               .reverse = reverse == 1});
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_match_the_cpu),
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
