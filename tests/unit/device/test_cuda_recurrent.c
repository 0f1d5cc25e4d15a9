/* ctest-labels: gpu
 * Recurrent cells of odd sizes on a GPU compared with the CPU: outputs, what forward keeps for
 * backward, the state that is carried over, gradients with and without sums; step by step, and all
 * steps in one kernel, whose blocks wait for each other. Skipped without a GPU. */
#include "cuda_support.h"
#include "device/op.h"

#include "kernels/ops/recurrent.h"
#include "sim_support.h" /* streams, copies to a device and back */
#include <dlfcn.h>

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
    H0,
    C0,
    DH0,
    ARRAYS
};
static const char *const names[] = {
    "x",      "weight", "recurrent", "bias",    "h",          "c",     "kept", "h'", "y",  "dy",
    "dgates", "dstate", "dx",        "dweight", "drecurrent", "dbias", "h0",   "c0", "dh0"};

static int run_forward(struct sw_stream *s, const struct sw_recurrent *r, float *const *p,
                       const struct sw_step *step, struct sw_err *err)
{
    const struct sw_recurrent_args a = {.r = *r,
                                        .x = p[X],
                                        .weight = p[WEIGHT],
                                        .recurrent = p[RECURRENT],
                                        .bias = p[BIAS],
                                        .h0 = p[H0],
                                        .c0 = p[C0],
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
                        bool adds, bool begins, struct sw_err *err)
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
                                                 .handed_on = !begins,
                                                 .dx = p[DX],
                                                 .dh0 = begins ? p[DH0] : NULL,
                                                 .adds_dx = adds,
                                                 .dweight = p[DWEIGHT],
                                                 .drecurrent = p[DRECURRENT],
                                                 .dbias = p[DBIAS],
                                                 .adds_dweight = adds,
                                                 .adds_drecurrent = adds};
    return sw_op_run(s, &sw_op_recurrent_gradient, &a, err);
}

/* The arrays that are scratch differ: which order the gradients of gates have, and dstate unless it
 * is handed on. */
static bool compares(enum array i, bool begins)
{
    return i != DGATES && (i != DSTATE || !begins);
}

static void compare(float *const *here, float *const *there, const int64_t *count, bool begins,
                    double limit)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (!compares((enum array)i, begins))
            continue;

        float *back = get_floats(count[i]);
        double *wanted = get_doubles(count[i]);
        to_host(gpu, back, there[i], (size_t)count[i] * sizeof *back);
        for (int64_t j = 0; j < count[i]; j++)
            wanted[j] = (double)here[i][j];
        assert_near(names[i], back, wanted, count[i], limit); /* terms of a sum cancel */
        free(back);
        free(wanted);
    }
}

/* Both passes on the GPU; in a graph, which reads the step when it runs. */
static void run_there(const struct sw_recurrent *r, float *const *p, const struct sw_step *step,
                      bool again, bool begins)
{
    struct sw_graph *g = NULL;
    struct sw_err err;

    if (again)
        ASSERT_OK(sw_capture_begin(gpu, &err));
    ASSERT_OK(run_forward(gpu, r, p, step, &err));
    ASSERT_OK(run_backward(gpu, r, p, again, begins, &err));
    if (!again)
        return;

    ASSERT_OK(sw_capture_end(gpu, &g, &err));
    ASSERT_OK(sw_graph_launch(gpu, g, &err));
    ASSERT_OK(sw_stream_wait(gpu, &err));
    sw_graph_free(dev, g);
}

static void check(const struct sw_recurrent *r, bool begins, double limit)
{
    struct rng random = rng_of(11);
    const int64_t places = r->rows * r->steps, state = r->rows * r->hidden;
    const int64_t gates = sw_cell_gates(r->kind) * r->hidden;
    const int64_t biases = sw_cell_biases(r->kind) * r->hidden;
    const int64_t outputs = (r->last ? r->rows : places) * r->pitch;
    const int64_t count[ARRAYS] = {[X] = places * r->inputs,
                                   [WEIGHT] = gates * r->inputs,
                                   [RECURRENT] = gates * r->hidden,
                                   [BIAS] = biases,
                                   [H] = state,
                                   [C] = state,
                                   [GATES] = places * sw_cell_saved(r->kind) * r->hidden,
                                   [BEFORE] = places * r->hidden,
                                   [Y] = outputs,
                                   [DY] = outputs,
                                   [DGATES] = places * biases,
                                   [DSTATE] = 2 * state,
                                   [DX] = places * r->inputs,
                                   [DWEIGHT] = gates * r->inputs,
                                   [DRECURRENT] = gates * r->hidden,
                                   [DBIAS] = biases,
                                   [H0] = state,
                                   [C0] = state,
                                   [DH0] = state};
    struct sw_step step = {
        .valid_rows = r->rows, .batch_valid_rows = r->rows, .sequences_begin = begins};
    struct sw_step *step_there = to_device(gpu, &step, sizeof step);
    const float largest = r->hidden > 16 ? 0.3f : 1; /* rounding errors do not grow */
    float *here[ARRAYS], *there[ARRAYS];
    struct sw_err err;

    for (int i = 0; i < ARRAYS; i++) {
        here[i] = random_floats(&random, count[i], -largest, largest);
        there[i] = to_device(gpu, here[i], (size_t)count[i] * sizeof *here[i]);
    }

    for (int run = 0; run < 2; run++) { /* the second continues from the state of the first */
        ASSERT_OK(run_forward(cpu.stream, r, here, &step, &err));
        ASSERT_OK(run_backward(cpu.stream, r, here, run == 1, begins, &err));
        run_there(r, there, step_there, run == 1, begins);
        compare(here, there, count, begins, limit);
    }

    for (int i = 0; i < ARRAYS; i++)
        free(here[i]);
}

/* How many grids of blocks that wait for each other have run; 0 on a GPU. */
static unsigned together(void)
{
    const char *module = getenv("SINGA_CUDA_MODULE");
    void *on_host = module ? dlopen(module, RTLD_NOW | RTLD_NOLOAD) : NULL;
    const unsigned *count = on_host ? dlsym(on_host, "cuda_on_host_together") : NULL;
    const unsigned n = count ? *count : 0;

    if (on_host)
        (void)dlclose(on_host);
    return n;
}

static const struct sw_recurrent one_by_one[] = {
    {.rows = 3, .steps = 5, .inputs = 7, .hidden = 9, .pitch = 9},
    {.rows = 1, .steps = 1, .inputs = 1, .hidden = 33, .pitch = 33},
    {.rows = 2, .steps = 3, .inputs = 5, .hidden = 8, .pitch = 8},
};
static const struct sw_recurrent in_one_kernel[] = {
    {.rows = 3, .steps = 5, .inputs = 7, .hidden = 12, .pitch = 12},
    {.rows = 37, .steps = 4, .inputs = 3, .hidden = 36, .pitch = 41},
    {.rows = 17, .steps = 6, .inputs = 4, .hidden = 20, .pitch = 20, .last = true},
    {.rows = 5, .steps = 4, .inputs = 2, .hidden = 132, .pitch = 132},
};

/* All kinds of cells in both directions, at the beginning of a sequence and in its course. */
static void check_all(const struct sw_recurrent *shapes, size_t n, double limit)
{
    for (size_t i = 0; i < n; i++)
        for (int kind = SW_CELL_RNN_TANH; kind <= SW_CELL_LSTM; kind++)
            for (int way = 0; way < 4; way++) {
                struct sw_recurrent r = shapes[i];
                r.kind = (enum sw_cell_kind)kind;
                r.reverse = way % 2 == 1;
                check(&r, way / 2 == 1, limit);
            }
}

static void cells_match_the_cpu(void **state)
{
    const unsigned before = together();
    check_all(one_by_one, sizeof one_by_one / sizeof *one_by_one, 1e-4);
    assert_int_equal(together(), before);
}

static void sequences_in_one_kernel_match_the_cpu(void **state)
{
    const size_t n = sizeof in_one_kernel / sizeof *in_one_kernel;
    const unsigned before = together();

    check_all(in_one_kernel, n, 1e-4);
    if (before != together())
        assert_int_equal(together() - before, n * 4 * 4 * 4); /* two passes, twice */
    else
        assert_null(getenv("SINGA_CUDA_MODULE"));
}

/* The devices round the same factors, but those that differ in the last bit of a sum to different
 * values. */
static void sequences_round_their_factors(void **state)
{
    static const struct {
        enum sw_precision precision;
        double limit;
    } cases[] = {{SW_PRECISION_TF32, 3e-3}, {SW_PRECISION_BF16, 2e-2}, {SW_PRECISION_FP16, 3e-3}};
    struct sw_device *fp32_dev = dev;
    struct sw_stream *fp32_gpu = gpu;
    const struct fixture fp32_cpu = cpu;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dev = open_gpu_as(0, cases[i].precision);
        if (!dev)
            continue;
        gpu = new_stream(dev);
        cpu = open_cpu_as(true, cases[i].precision, 1);
        check_all(in_one_kernel, 2, cases[i].limit);
        sw_stream_free(gpu);
        sw_device_close(dev);
        close_cpu(&cpu);
    }

    dev = fp32_dev;
    gpu = fp32_gpu;
    cpu = fp32_cpu;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_match_the_cpu),
        cmocka_unit_test(sequences_in_one_kernel_match_the_cpu),
        cmocka_unit_test(sequences_round_their_factors),
    };
    (void)setenv("CUDA_ON_HOST_PROCESSORS", "6", 1); /* read on the host only */
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
