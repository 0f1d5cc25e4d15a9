/* ctest-labels: gpu
 * The softmax in two levels on a GPU, each operation with the inputs that the CPU has: grouped
 * rows, losses, gradients and scores, in every precision; twice with the same bits; and as a graph
 * that runs with other labels. Skipped without a GPU. */
#include "cuda_support.h"
#include "device/op.h"

#include "kernels/ops/class_softmax.h"
#include "sim_support.h" /* streams, copies to a device and back */

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

enum { MOST_PARTS = 24 };

static const double limit = 5e-5; /* floats that are summed in another order */

/* ---- Arguments in device memory ---- */

/* Arrays in host memory and their copies on the device; operations may share them. */
struct memory {
    struct {
        const void *host;
        void *device;
        size_t bytes;
    } part[MOST_PARTS];
    int count;
};

static void *part_of(struct memory *m, const void *host, size_t bytes)
{
    for (int i = 0; i < m->count; i++)
        if (m->part[i].host == host)
            return m->part[i].device;
    assert_true(m->count < MOST_PARTS);
    m->part[m->count].host = host;
    m->part[m->count].device = to_device(gpu, host, bytes);
    m->part[m->count].bytes = bytes;
    return m->part[m->count++].device;
}

static void free_memory(struct memory *m)
{
    for (int i = 0; i < m->count; i++)
        sw_device_free(dev, m->part[i].device, m->part[i].bytes);
    m->count = 0;
}

/* Replaces the pointers of arguments to host memory. */
static void move(struct memory *m, const struct sw_op *op, void *args)
{
    struct sw_op_arrays list;
    sw_op_list(op, args, &list);
    for (int i = 0; i < list.count; i++) {
        void **at = (void **)(void *)((char *)args + list.array[i].offset);
        *at = list.array[i].bytes ? part_of(m, *at, list.array[i].bytes) : NULL;
    }
}

/* ---- One operation ---- */

/* Runs it on the device; back[i]: what it wrote to array i. */
static void run_there(const struct sw_op *op, const void *args, void **back)
{
    uint64_t copy[SW_OP_ARGS_BYTES / sizeof(uint64_t)];
    struct memory m = {.count = 0};
    struct sw_op_arrays list;
    struct sw_err err;
    memcpy(copy, args, op->args_bytes);
    move(&m, op, copy);
    sw_op_list(op, copy, &list);
    ASSERT_OK(sw_op_run(gpu, op, copy, &err));
    for (int i = 0; i < list.count; i++) {
        void *at;
        memcpy(&at, (char *)copy + list.array[i].offset, sizeof at);
        back[i] = NULL;
        if (!list.array[i].written || !at)
            continue;
        back[i] = get_bytes(list.array[i].bytes);
        to_host(gpu, back[i], at, list.array[i].bytes);
    }
    free_memory(&m);
}

static bool is(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

static void compare(const char *what, const char *name, const void *here, const void *there,
                    size_t bytes)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", what, name);
    if (is(name, "dgrouped")) /* scratch */
        return;
    if (is(name, "label") || is(name, "order") || is(name, "begin")) {
        assert_same_bits(text, there, here, bytes);
    } else if (is(name, "result")) {
        const struct sw_result *a = there, *b = here;
        assert_true(fabs(a->sum - b->sum) <= limit * fabs(b->sum) && a->weight == b->weight);
    } else {
        const float *x = here;
        const int64_t n = (int64_t)(bytes / sizeof *x);
        double *wanted = get_doubles(n);
        for (int64_t i = 0; i < n; i++)
            wanted[i] = (double)x[i];
        assert_near(text, there, wanted, n, limit);
        free(wanted);
    }
}

/* Runs an operation on both devices, and leaves what the CPU computes. What an operation must not
 * write keeps its contents on both. */
static void check(const char *what, const struct sw_op *op, const void *args)
{
    void *back[SW_OP_ARRAYS], *again[SW_OP_ARRAYS];
    struct sw_op_arrays list;
    struct sw_err err;
    sw_op_list(op, args, &list);
    run_there(op, args, back);
    run_there(op, args, again);
    ASSERT_OK(sw_op_run(cpu.stream, op, args, &err));
    for (int i = 0; i < list.count; i++) {
        const struct sw_op_array *a = &list.array[i];
        const void *here;
        if (!back[i])
            continue;
        memcpy(&here, (const char *)args + a->offset, sizeof here);
        assert_same_bits(what, again[i], back[i], a->bytes);
        compare(what, a->name, here, back[i], a->bytes);
        free(back[i]);
        free(again[i]);
    }
}

/* ---- The loss ---- */

struct shape {
    const char *what;
    int64_t rows, width;
    struct sw_word_classes kind;
    int64_t first, end; /* words of the labels; 0: all */
    int64_t per_sample;
    bool ignores, invalid, no_dx; /* invalid: the last two samples */
};

struct problem {
    struct sw_class_group_args group;
    struct sw_class_words_args words;
    struct sw_class_words_gradient_args gradient;
    struct sw_step step;
    double counted;
    struct sw_result result;
    int32_t *label;
    void *array[MOST_PARTS];
    int arrays;
};

static void *keep(struct problem *p, void *array)
{
    assert_true(p->arrays < MOST_PARTS);
    return p->array[p->arrays++] = array;
}

static float *floats(struct problem *p, struct rng *r, int64_t n)
{
    return keep(p, random_floats(r, n, -1, 1));
}

static int32_t *ints(struct problem *p, int64_t n)
{
    int32_t *x = keep(p, get_bytes((size_t)n * sizeof *x));
    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}

static void free_problem(struct problem *p)
{
    for (int i = 0; i < p->arrays; i++)
        free(p->array[i]);
}

/* Frequent and rare words; labels of invalid rows are no words. */
static void draw_labels(struct problem *p, const struct shape *s, struct rng *r)
{
    const int64_t end = s->end ? s->end : s->kind.words,
                  samples = s->rows / (s->per_sample > 1 ? s->per_sample : 1),
                  valid = s->rows - (s->invalid ? 2 * s->rows / samples : 0);
    for (int64_t i = 0; i < s->rows; i++) {
        const double draw = (double)rng_real(r, 0, 1);
        p->label[i] = s->first + (int32_t)((double)(end - s->first) * draw * draw);
        if (s->ignores && i % 5 == 2)
            p->label[i] = -7;
        if (i >= valid)
            p->label[i] = 1 << 30;
    }
    p->step =
        (struct sw_step){.valid_rows = samples - (s->invalid ? 2 : 0), .backward_scale = 0.25f};
    p->counted = (double)s->rows;
}

static void set_arguments(struct problem *p, const struct shape *s, struct rng *r)
{
    const int64_t rows = s->rows, width = s->width, widest = sw_class_widest(&s->kind);
    p->group = (struct sw_class_group_args){.rows = rows,
                                            .kind = s->kind,
                                            .labels = {.label = p->label,
                                                       .ignores = s->ignores,
                                                       .ignored = -7,
                                                       .per_sample = s->per_sample},
                                            .step = &p->step,
                                            .label = ints(p, rows),
                                            .order = ints(p, rows),
                                            .begin = ints(p, s->kind.classes + 1)};
    p->words = (struct sw_class_words_args){.rows = rows,
                                            .width = width,
                                            .widest = widest,
                                            .kind = s->kind,
                                            .factor = 0.7f,
                                            .labels = p->group.labels,
                                            .order = p->group.order,
                                            .begin = p->group.begin,
                                            .x = floats(p, r, rows * width),
                                            .weight = floats(p, r, s->kind.words * width),
                                            .bias = floats(p, r, s->kind.words),
                                            .grouped = floats(p, r, rows * width),
                                            .prob = floats(p, r, rows * widest),
                                            .result = &p->result};
    p->gradient =
        (struct sw_class_words_gradient_args){.rows = rows,
                                              .width = width,
                                              .widest = widest,
                                              .batch_rows = rows,
                                              .kind = s->kind,
                                              .factor = 0.7f,
                                              .labels = p->group.labels,
                                              .step = &p->step,
                                              .counted = s->ignores ? &p->counted : NULL,
                                              .order = p->group.order,
                                              .begin = p->group.begin,
                                              .weight = p->words.weight,
                                              .grouped = p->words.grouped,
                                              .prob = p->words.prob,
                                              .dweight = floats(p, r, s->kind.words * width),
                                              .dbias = floats(p, r, s->kind.words)};
    if (s->no_dx)
        return;
    p->gradient.dgrouped = floats(p, r, rows * width);
    p->gradient.dx = floats(p, r, rows * width);
}

static void problem_of(struct problem *p, const struct shape *s)
{
    struct rng r = rng_of(31);
    *p = (struct problem){.result = {.sum = 3, .weight = 4}};
    p->label = ints(p, s->rows);
    draw_labels(p, s, &r);
    set_arguments(p, s, &r);
}

/* A tile has 32 rows and 64 words or 32 words and 64 columns; k goes in steps of 32. */
static const struct shape shapes[] = {
    {.what = "one class", .rows = 70, .width = 72, .kind = {150, 1, SW_BINS_EQUAL}},
    {.what = "two classes", .rows = 90, .width = 33, .kind = {300, 2, SW_BINS_FREQUENCY}},
    {.what = "a row", .rows = 1, .width = 1, .kind = {2, 1, SW_BINS_EQUAL}},
    {.what = "whole tiles", .rows = 128, .width = 64, .kind = {128, 2, SW_BINS_EQUAL}},
    {.what = "classes of a word", .rows = 33, .width = 68, .kind = {16, 16, SW_BINS_FREQUENCY}},
    {.what = "classes without rows",
     .rows = 40,
     .width = 8,
     .kind = {900, 30, SW_BINS_FREQUENCY},
     .first = 500,
     .end = 520},
    {.what = "ignored labels",
     .rows = 61,
     .width = 100,
     .kind = {200, 14, SW_BINS_FREQUENCY},
     .ignores = true},
    {.what = "sequences, some of them invalid",
     .rows = 60,
     .width = 20,
     .kind = {100, 5, SW_BINS_FREQUENCY},
     .per_sample = 5,
     .ignores = true,
     .invalid = true},
    {.what = "no valid rows", .rows = 2, .width = 5, .kind = {9, 3}, .invalid = true},
    {.what = "no gradient of the source",
     .rows = 12,
     .width = 4,
     .kind = {50, 7, SW_BINS_FREQUENCY},
     .no_dx = true},
};

static void losses_and_gradients_match_the_cpu(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct problem p;
        problem_of(&p, &shapes[i]);
        check(shapes[i].what, &sw_op_class_group, &p.group);
        check(shapes[i].what, &sw_op_class_words, &p.words);
        check(shapes[i].what, &sw_op_class_words_gradient, &p.gradient);
        free_problem(&p);
    }
    assert_int_equal(sw_device_bytes_of(dev).bridged, 0);
}

/* More rows than a part has, and so many classes that a part is larger. */
static void many_rows_are_grouped_in_order(void **state)
{
    const struct shape many[] = {
        {.what = "parts", .rows = 2500, .width = 1, .kind = {20, 3, SW_BINS_EQUAL}},
        {.what = "large parts",
         .rows = 9000,
         .width = 1,
         .kind = {SW_MAX_WORD_CLASSES, SW_MAX_WORD_CLASSES, SW_BINS_FREQUENCY},
         .end = 700}};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        struct problem p;
        problem_of(&p, &many[i]);
        check(many[i].what, &sw_op_class_group, &p.group);
        free_problem(&p);
    }
}

/* Nothing is read, and all gradients are zero. */
static void without_rows_gradients_are_zero(void **state)
{
    const struct shape s = {
        .what = "no rows", .width = 3, .kind = {10, 3, SW_BINS_FREQUENCY}, .no_dx = true};
    struct problem p;
    problem_of(&p, &(const struct shape){.rows = 1, .width = 3, .kind = s.kind, .no_dx = true});
    p.group.rows = p.words.rows = p.gradient.rows = 0;
    p.group.begin = NULL;
    p.words.begin = p.gradient.begin = NULL;
    check(s.what, &sw_op_class_group, &p.group);
    check(s.what, &sw_op_class_words, &p.words);
    check(s.what, &sw_op_class_words_gradient, &p.gradient);
    assert_true(p.result.sum == 3);
    for (int64_t i = 0; i < s.kind.words; i++)
        assert_true(p.gradient.dbias[i] == 0 && p.gradient.dweight[i * s.width] == 0);
    free_problem(&p);
}

static void scores_of_all_words_match_the_cpu(void **state)
{
    const struct sw_word_classes kinds[] = {{2, 1, SW_BINS_EQUAL},
                                            {700, 1, SW_BINS_EQUAL},
                                            {300, 17, SW_BINS_FREQUENCY},
                                            {40, 40, SW_BINS_FREQUENCY}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int64_t rows = 0; rows < 4; rows += 3) {
            struct rng r = rng_of(5);
            struct sw_class_log_softmax_args a = {
                .rows = rows,
                .kind = kinds[i],
                .class_score = random_floats(&r, rows * kinds[i].classes, -9, 9),
                .score = random_floats(&r, rows * kinds[i].words, -9, 9)};
            check("scores", &sw_op_class_log_softmax, &a);
            free((float *)(uintptr_t)a.class_score);
            free(a.score);
        }
}

/* ---- Graphs ---- */

static int run_all(const struct problem *p, struct sw_err *err)
{
    int rc = sw_op_run(gpu, &sw_op_class_group, &p->group, err);
    if (rc == SW_OK)
        rc = sw_op_run(gpu, &sw_op_class_words, &p->words, err);
    if (rc == SW_OK)
        rc = sw_op_run(gpu, &sw_op_class_words_gradient, &p->gradient, err);
    return rc;
}

/* The groups of a launch are those of its labels, not of the capture's. */
static void a_graph_groups_the_labels_of_its_launch(void **state)
{
    const struct shape *s = &shapes[6];
    const size_t bytes = (size_t)(s->kind.words * s->width) * sizeof(float),
                 label_bytes = (size_t)s->rows * sizeof(int32_t);
    struct memory m = {.count = 0};
    struct sw_graph *g = NULL;
    struct problem p, there;
    struct sw_err err;
    float *captured = get_bytes(bytes), *plain = get_bytes(bytes);
    problem_of(&p, s);
    there = p;
    move(&m, &sw_op_class_group, &there.group);
    move(&m, &sw_op_class_words, &there.words);
    move(&m, &sw_op_class_words_gradient, &there.gradient);
    ASSERT_OK(run_all(&there, &err)); /* allocates what the stream needs */
    ASSERT_OK(sw_stream_wait(gpu, &err));
    ASSERT_OK(sw_capture_begin(gpu, &err));
    ASSERT_OK(run_all(&there, &err));
    ASSERT_OK(sw_capture_end(gpu, &g, &err));
    for (int64_t i = 0; i < s->rows; i++)
        p.label[i] = (int32_t)(s->kind.words - 1 - i % 40);
    ASSERT_OK(sw_copy(gpu, part_of(&m, p.label, label_bytes), p.label, label_bytes, &err));
    ASSERT_OK(sw_graph_launch(gpu, g, &err));
    to_host(gpu, captured, there.gradient.dweight, bytes);
    ASSERT_OK(run_all(&there, &err));
    to_host(gpu, plain, there.gradient.dweight, bytes);
    assert_same_bits("gradients of a graph", captured, plain, bytes);
    assert_true(captured[(s->kind.words - 1) * s->width] != 0);
    sw_graph_free(dev, g);
    free_memory(&m);
    free_problem(&p);
    free(captured);
    free(plain);
}

/* ---- Invalid data: the device's last use ---- */

static void a_label_that_is_no_word_is_reported_as_by_the_cpu(void **state)
{
    struct memory m = {.count = 0};
    struct sw_err err = {0}, here = {0};
    struct problem p;
    problem_of(&p, &shapes[1]);
    p.label[17] = (int32_t)shapes[1].kind.words;
    assert_int_equal(sw_op_run(cpu.stream, &sw_op_class_group, &p.group, &here), SW_ERR_INVALID);
    move(&m, &sw_op_class_group, &p.group);
    move(&m, &sw_op_class_words, &p.words);
    move(&m, &sw_op_class_words_gradient, &p.gradient);
    /* A later call may return it, or the wait. */
    int rc = run_all(&p, &err);
    assert_int_equal(rc == SW_OK ? sw_stream_wait(gpu, &err) : rc, SW_ERR_INVALID);
    assert_says(&err, here.text);
    free_memory(&m);
    free_problem(&p);
}

static int run_in(enum sw_precision precision)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_match_the_cpu),
        cmocka_unit_test(many_rows_are_grouped_in_order),
        cmocka_unit_test(without_rows_gradients_are_zero),
        cmocka_unit_test(scores_of_all_words_match_the_cpu),
        cmocka_unit_test(a_graph_groups_the_labels_of_its_launch),
        cmocka_unit_test(a_label_that_is_no_word_is_reported_as_by_the_cpu),
    };
    dev = open_gpu_as(0, precision);
    gpu = new_stream(dev);
    cpu = open_cpu_as(true, precision, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return failed;
}

int main(void)
{
    int failed = 0;
    if (!has_gpu())
        return SKIPPED;
    for (enum sw_precision p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++)
        failed += run_in(p);
    return failed;
}
