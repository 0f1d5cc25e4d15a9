/* ctest-labels: gpu
 * Skip-gram on a GPU compared with the CPU: the same picks, and losses and gradients within
 * rounding, the same bits each time. Rows longer than a block, more outputs than are sorted by a
 * block or at once, tokens that are no words, padding rows. Skipped without a GPU. */
#include "unit/device/cuda_support.h"
#include "unit/device/sim_support.h" /* copies to a device and back */

#include "device/op.h"
#include "kernels/skip_gram.h"
#include "layers/share/huffman.h"

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;
static double limit = 1e-5; /* relative to the largest element */

/* ---- A text and its words ---- */

struct example {
    int64_t rows, valid, length, width, window, vocabulary;
    int64_t negatives; /* 0: a hierarchical softmax */
    bool one_word;     /* almost all words are the same */
};

/* All arrays that the operations read and write, here or on the device. */
enum {
    KEEP,
    BELOW,
    ALIAS,
    PATH,
    PATH_END,
    TOKEN,
    X,
    OUTPUT,
    STEP,
    PICKS,
    SLOPE,
    LOSS,
    RESULT,
    DX,
    DOUTPUT,
    ARRAYS
};
struct arrays {
    void *at[ARRAYS]; /* owned */
    size_t bytes[ARRAYS];
};

struct text {
    struct sw_skip_gram_shape shape;
    struct sw_skip_gram_words words; /* without arrays */
    struct arrays here, there;
};

static void *add(struct text *t, int array, size_t bytes)
{
    t->here.bytes[array] = t->there.bytes[array] = bytes;
    poison(t->here.at[array] = get_bytes(bytes), bytes);
    return t->here.at[array];
}

static void add_floats(struct text *t, int array, struct rng *r, int64_t n, double from, double to)
{
    float *values = random_floats(r, n, from, to);
    memcpy(add(t, array, (size_t)n * sizeof *values), values, (size_t)n * sizeof *values);
    free(values);
}

/* The distribution of drawn words does not matter, only that all tables are read. */
static void add_words(struct text *t, struct rng *r, int64_t negatives)
{
    const int64_t n = t->shape.vocabulary;
    uint32_t *below = add(t, BELOW, (size_t)n * sizeof *below);
    int32_t *alias = add(t, ALIAS, (size_t)n * sizeof *alias);
    for (int64_t i = 0; i < n; i++) {
        below[i] = rng_word(r);
        alias[i] = (int32_t)rng_int(r, 0, i);
    }
    t->words.negatives = negatives;
    t->words.drawn = n;
    t->shape.outputs = 1 + negatives;
    t->shape.output_rows = n;
}

static void add_tree(struct text *t)
{
    const int64_t n = t->shape.vocabulary;
    int64_t *times = get_bytes((size_t)n * sizeof *times);
    struct sw_huffman tree;
    struct sw_err err;
    for (int64_t i = 0; i < n; i++)
        times[i] = 1 + 3 * n / (1 + i);
    ASSERT_OK(sw_huffman_make(&tree, times, n, &err));
    t->words.path_count = tree.end[n - 1];
    const size_t bytes = (size_t)t->words.path_count * sizeof *tree.path;
    memcpy(add(t, PATH, bytes), tree.path, bytes);
    memcpy(add(t, PATH_END, (size_t)n * sizeof *tree.end), tree.end, (size_t)n * sizeof *tree.end);
    t->shape.outputs = tree.longest;
    t->shape.output_rows = n - 1;
    sw_huffman_fini(&tree);
    free(times);
}

static void open_text(struct text *t, const struct example *e)
{
    struct rng r = rng_of((uint64_t)(e->rows * e->length + e->negatives));
    *t = (struct text){.shape = {.rows = e->rows,
                                 .length = e->length,
                                 .width = e->width,
                                 .window = e->window,
                                 .vocabulary = e->vocabulary}};
    const struct sw_skip_gram_shape *s = &t->shape;
    const int64_t n = s->rows * s->length;
    if (e->negatives)
        add_words(t, &r, e->negatives);
    else
        add_tree(t);
    add_floats(t, KEEP, &r, s->vocabulary, 0.5, 1.5);
    add_floats(t, X, &r, n * s->width, -0.5, 0.5);
    add_floats(t, OUTPUT, &r, s->output_rows * s->width, -0.5, 0.5);
    int32_t *token = add(t, TOKEN, (size_t)n * sizeof *token);
    for (int64_t i = 0; i < n; i++) {
        const double u = (double)rng_real(&r, 0, 1);
        token[i] = i % 11 == 3            ? -1
                   : e->one_word && i % 7 ? 1
                                          : (int32_t)((double)s->vocabulary * u * u);
    }
    *(struct sw_step *)add(t, STEP, sizeof(struct sw_step)) =
        (struct sw_step){.step = 5, .first_row = 9, .valid_rows = e->valid, .backward_scale = 0.3f};
    add(t, PICKS, sw_skip_gram_pick_bytes(s));
    add(t, SLOPE, sw_skip_gram_slope_bytes(s));
    add(t, LOSS, (size_t)s->rows * sizeof(float));
    add(t, RESULT, sizeof(struct sw_result));
    add(t, DX, (size_t)(n * s->width) * sizeof(float));
    add(t, DOUTPUT, (size_t)(s->output_rows * s->width) * sizeof(float));
    for (int i = 0; i < ARRAYS; i++)
        t->there.at[i] = t->here.bytes[i] ? to_device(gpu, t->here.at[i], t->here.bytes[i]) : NULL;
}

static void close_text(struct text *t)
{
    for (int i = 0; i < ARRAYS; i++) {
        free(t->here.at[i]);
        sw_device_free(dev, t->there.at[i], t->there.bytes[i]);
    }
}

static void send(const struct text *t, int array)
{
    struct sw_err err;
    ASSERT_OK(sw_copy(gpu, t->there.at[array], t->here.at[array], t->here.bytes[array], &err));
    ASSERT_OK(sw_stream_wait(gpu, &err));
}

/* Returns a copy of a device array. */
static void *fetch(const struct text *t, int array)
{
    void *copy = get_bytes(t->there.bytes[array]);
    to_host(gpu, copy, t->there.at[array], t->there.bytes[array]);
    return copy;
}

/* ---- The operations ---- */

static struct sw_skip_gram_args forward_of(const struct text *t, const struct arrays *a)
{
    struct sw_skip_gram_args f = {.shape = t->shape,
                                  .words = t->words,
                                  .key = sw_philox_stream(3, SW_PURPOSE_SAMPLE, 7),
                                  .weight = 0.5f,
                                  .token = a->at[TOKEN],
                                  .x = a->at[X],
                                  .output = a->at[OUTPUT],
                                  .step = a->at[STEP],
                                  .picks = a->at[PICKS],
                                  .slope = a->at[SLOPE],
                                  .loss = a->at[LOSS],
                                  .result = a->at[RESULT]};
    f.words.keep = a->at[KEEP];
    f.words.below = a->at[BELOW];
    f.words.alias = a->at[ALIAS];
    f.words.path = a->at[PATH];
    f.words.path_end = a->at[PATH_END];
    return f;
}

static struct sw_skip_gram_gradient_args gradient_of(const struct text *t, const struct arrays *a,
                                                     bool dx)
{
    return (struct sw_skip_gram_gradient_args){.shape = t->shape,
                                               .weight = 0.5f,
                                               .x = a->at[X],
                                               .output = a->at[OUTPUT],
                                               .step = a->at[STEP],
                                               .picks = a->at[PICKS],
                                               .slope = a->at[SLOPE],
                                               .dx = dx ? a->at[DX] : NULL,
                                               .doutput = a->at[DOUTPUT]};
}

/* ---- Comparisons ---- */

static void assert_floats(const char *what, const float *got, const float *want, int64_t n)
{
    double *wanted = get_doubles(n);
    for (int64_t i = 0; i < n; i++)
        wanted[i] = (double)want[i];
    assert_near(what, got, wanted, n, limit);
    free(wanted);
}

/* Compares what is used of the picks, and the slopes of these. */
static void compare_picks(const struct text *t, const int32_t *picks, const float *slope)
{
    const struct sw_skip_gram_shape *s = &t->shape;
    int64_t centers = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const int32_t *row = picks + r * sw_picks_per_row(s);
        const int32_t *want = (const int32_t *)t->here.at[PICKS] + r * sw_picks_per_row(s);
        assert_int_equal(row[0], want[0]);
        centers += row[0];
        for (int64_t k = 0; k < row[0]; k++) {
            const int32_t *a = sw_pick_center(s, row, k), *b = sw_pick_center(s, want, k);
            const struct sw_pick_reach reach = sw_pick_reach_of(want, b, k);
            const int64_t at = (r * s->length + k) * sw_slopes_per_center(s);
            assert_memory_equal(a, b,
                                (size_t)(SW_PICK_FIRST_OUTPUT + b[SW_PICK_OUTPUTS]) * sizeof *a);
            assert_floats("slopes", slope + at, (const float *)t->here.at[SLOPE] + at,
                          1 + b[SW_PICK_OUTPUTS] * (reach.to - reach.from - 1));
        }
    }
    assert_true(centers > 0);
}

static void check_forward(const struct text *t)
{
    const struct sw_skip_gram_args here = forward_of(t, &t->here), there = forward_of(t, &t->there);
    struct sw_err err;
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_skip_gram, &here, &err));
    ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram, &there, &err));
    int32_t *picks = fetch(t, PICKS);
    float *slope = fetch(t, SLOPE), *loss = fetch(t, LOSS);
    struct sw_result *result = fetch(t, RESULT), *want = t->here.at[RESULT];
    compare_picks(t, picks, slope);
    assert_floats("losses", loss, t->here.at[LOSS], t->shape.rows);
    assert_true(result->weight == want->weight);
    assert_true(fabs(result->sum - want->sum) < limit * want->sum);
    free(picks);
    free(slope);
    free(loss);
    free(result);
}

/* From the CPU's picks and slopes. */
static void check_gradient(const struct text *t, bool dx)
{
    const struct sw_skip_gram_gradient_args here = gradient_of(t, &t->here, dx),
                                            there = gradient_of(t, &t->there, dx);
    float *first[2] = {NULL, NULL};
    struct sw_err err;
    ASSERT_OK(sw_op_run(cpu.stream, &sw_op_skip_gram_gradient, &here, &err));
    send(t, PICKS);
    send(t, SLOPE);
    for (int again = 0; again < 2; again++)
        for (int k = 0; k < 1 + dx; k++) {
            const int array = k ? DX : DOUTPUT;
            if (k == 0)
                ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram_gradient, &there, &err));
            float *got = fetch(t, array);
            if (again)
                assert_same_bits("the gradient, again", got, first[k], t->here.bytes[array]);
            else
                assert_floats(k ? "dx" : "doutput", got, t->here.at[array],
                              (int64_t)(t->here.bytes[array] / sizeof *got));
            free(first[k]);
            first[k] = got;
        }
    free(first[0]);
    free(first[1]);
}

static void check(const struct example *e, bool forward_too)
{
    const uint64_t bridged = sw_device_bytes_of(dev).bridged;
    struct sw_err err;
    struct text t;
    open_text(&t, e);
    const struct sw_skip_gram_args here = forward_of(&t, &t.here);
    if (forward_too)
        check_forward(&t);
    else
        ASSERT_OK(sw_op_run(cpu.stream, &sw_op_skip_gram, &here, &err));
    check_gradient(&t, forward_too);
    check_gradient(&t, false);
    assert_int_equal(sw_device_bytes_of(dev).bridged, bridged);
    close_text(&t);
}

static void picks_losses_and_gradients_match_the_cpu(void **state)
{
    static const struct example examples[] = {
        {3, 2, 7, 5, 2, 9, .negatives = 3},
        {3, 3, 7, 5, 2, 6, .negatives = 0},
        {1, 1, 12, 1, 1, 2, .negatives = 1},
        {4, 3, 300, 130, 5, 1000,
         .negatives = 5}, /* rows longer than a block, two blocks of columns */
        {1, 1, 40, 33, SW_SKIP_GRAM_WINDOW, 300, .negatives = 140}, /* outputs and pairs, too */
        {3, 2, 60, 40, 9, 500, .negatives = 0},
        {2, 2, 50, 2, 3, 70000, .negatives = 0},                 /* three digits of keys */
        {2, 2, 500, 7, 4, 50, .negatives = 5, .one_word = true}, /* rows of many chunks */
        /* As many outputs, so that the partial sums are where the previous ones were; those of
         * chunks without contexts are zero. */
        {500, 500, 2, 7, 4, 400, .negatives = 5},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check(&examples[i], true);
}

/* More than 2^16 outputs, of which chunks have more than the least; more than 2^20, which are
 * sorted in two parts. */
static void gradients_of_many_outputs_match_the_cpu(void **state)
{
    limit = 1e-4; /* the CPU adds tens of thousands of floats one after the other */
    check(&(const struct example){20, 19, 200, 3, 1, 50, .negatives = 19}, false);
    check(&(const struct example){6, 6, 400, 3, 1, 40, .negatives = 499}, false);
}

/* ---- Graphs and bad data ---- */

static void captured_passes_have_the_same_bits(void **state)
{
    const struct example e = {2, 2, 30, 20, 3, 40, .negatives = 4};
    struct sw_graph *graph = NULL;
    struct sw_err err;
    struct text t;
    open_text(&t, &e);
    const struct sw_skip_gram_args f = forward_of(&t, &t.there);
    const struct sw_skip_gram_gradient_args b = gradient_of(&t, &t.there, true);
    ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram, &f, &err));
    ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram_gradient, &b, &err));
    float *dx = fetch(&t, DX), *doutput = fetch(&t, DOUTPUT);
    ASSERT_OK(sw_capture_begin(gpu, &err));
    ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram, &f, &err));
    ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram_gradient, &b, &err));
    ASSERT_OK(sw_capture_end(gpu, &graph, &err));
    for (int array = PICKS; array < ARRAYS; array++)
        send(&t, array); /* poison */
    ASSERT_OK(sw_graph_launch(gpu, graph, &err));
    float *dx_again = fetch(&t, DX), *doutput_again = fetch(&t, DOUTPUT);
    assert_same_bits("dx", dx_again, dx, t.there.bytes[DX]);
    assert_same_bits("doutput", doutput_again, doutput, t.there.bytes[DOUTPUT]);
    sw_graph_free(dev, graph);
    free(dx);
    free(doutput);
    free(dx_again);
    free(doutput_again);
    close_text(&t);
}

/* Must be the last test: the error remains. */
static void a_token_that_is_no_word_is_reported(void **state)
{
    const struct example e = {3, 3, 9, 4, 2, 20, .negatives = 2};
    struct sw_err here, there, err;
    struct text t;
    open_text(&t, &e);
    ((int32_t *)t.here.at[TOKEN])[2 * 9 + 4] = 20;
    send(&t, TOKEN);
    const struct sw_skip_gram_args f = forward_of(&t, &t.here), g = forward_of(&t, &t.there);
    assert_int_equal(sw_op_run(cpu.stream, &sw_op_skip_gram, &f, &here), SW_ERR_INVALID);
    ASSERT_OK(sw_op_run(gpu, &sw_op_skip_gram, &g, &err));
    assert_int_equal(sw_stream_wait(gpu, &there), SW_ERR_INVALID);
    assert_says(&there, here.text);
    close_text(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks_losses_and_gradients_match_the_cpu),
        cmocka_unit_test(gradients_of_many_outputs_match_the_cpu),
        cmocka_unit_test(captured_passes_have_the_same_bits),
        cmocka_unit_test(a_token_that_is_no_word_is_reported),
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
