/* Measured algorithms: fake implementations with a fake clock, and the real ones of the CPU, which
 * must all match the reference. */
#include "base/os.h"
#include "device/tune.h"
#include "plan_support.h"

/* ---- A clock that only plans advance, or that returns arbitrary times ---- */

static struct sw_os os;
static int64_t now_ns;
static uint64_t whims; /* 0: only plans advance the clock */

static int64_t told_time(void)
{
    if (whims) {
        whims = whims * UINT64_C(6364136223846793005) + 1442695040888963407u;
        now_ns += (int64_t)(whims >> 40);
    }
    return now_ns;
}

static int set_clock(void **state)
{
    os = sw_os_posix;
    os.monotonic_ns = told_time;
    now_ns = 1;
    whims = 0;
    sw_os_set(&os);
    return 0;
}

static int restore_clock(void **state)
{
    sw_os_set(NULL);
    return 0;
}

/* ---- Fake implementations ---- */

enum { WAYS = 4 };

struct planted {
    const char *candidates[WAYS];
    int64_t ns[SW_TUNE_PASSES][WAYS];
    const char *fails, *elsewhere; /* cannot be run; has another output layout */
    const char *gone;              /* cannot be made */
    int64_t load_ns;               /* additional time of a plan's first run */
    int runs, listed;
};

struct planted_plan {
    struct sw_plan base;
    struct planted *from;
    int candidate[SW_TUNE_PASSES];
    bool loaded;
};

static int pass_time(struct sw_plan *p, enum sw_tune_pass pass, struct sw_err *err)
{
    struct planted_plan *q = (struct planted_plan *)(void *)p;
    const char *name = q->from->candidates[q->candidate[pass]];
    q->from->runs++;
    if (q->from->fails && strcmp(name, q->from->fails) == 0)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s does not work", name);
    now_ns += q->from->ns[pass][q->candidate[pass]] + (q->loaded ? 0 : q->from->load_ns);
    q->loaded = true;
    return SW_OK;
}
static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    assert_true((uintptr_t)a->src % 64 == 0 && *(const float *)a->src == 0 &&
                *(const float *)a->dst == 0);
    return pass_time(p, SW_TUNE_FORWARD, err);
}
static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    assert_true(*(const float *)a->diff_src == 0 && *(const float *)a->diff_dst == 0);
    return pass_time(p, SW_TUNE_DATA, err);
}
static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    assert_true(*(const float *)a->diff_dst == 0);
    return pass_time(p, SW_TUNE_WEIGHTS, err);
}
static void free_planted(struct sw_plan *p)
{
    free(p);
}
static const struct sw_plan_ops planted_ops = {forward, backward_data, backward_weights,
                                               free_planted};

static struct sw_stream *stream;

static int make(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                struct sw_plan **out, struct sw_err *err)
{
    const int64_t dim[] = {2, 16, 3, 3};
    struct planted *p = user;
    struct planted_plan *q = get_bytes(sizeof *q);
    *q = (struct planted_plan){.base = {.ops = &planted_ops,
                                        .stream = stream,
                                        .src = sw_desc_plain(SW_F32, 4, dim),
                                        .dst = sw_desc_plain(SW_F32, 4, dim)},
                               .from = p};
    for (int pass = 0; pass < SW_TUNE_PASSES; pass++) {
        const char *name = choice->name[pass];
        while (name[0] && q->candidate[pass] < WAYS &&
               strcmp(p->candidates[q->candidate[pass]], name) != 0)
            q->candidate[pass]++;
        if (q->candidate[pass] == WAYS || (p->gone && strcmp(name, p->gone) == 0)) {
            free(q);
            return sw_err_set(err, SW_ERR_UNSUPPORTED, "no %s", name);
        }
    }
    if (p->elsewhere && strcmp(p->candidates[q->candidate[0]], p->elsewhere) == 0)
        q->base.dst = sw_desc_blocked(SW_F32, 4, dim, 1, 16);
    *out = &q->base;
    return SW_OK;
}

static void list(void *user, const struct sw_tune_choice *taken, enum sw_tune_pass pass,
                 struct sw_tune_candidates *out)
{
    struct planted *p = user;
    p->listed++;
    for (int i = 0; i < WAYS; i++)
        sw_tune_add_candidate(out, p->candidates[i]);
}

/* The implementations that a plan with all passes uses, as digits: 10^pass times the index. */
static int take(struct planted *p, const char *key)
{
    const struct sw_tune_maker m = {.key = key, .user = p, .make = make, .list = list};
    struct sw_plan *plan;
    struct sw_err err;
    ASSERT_OK(sw_tune_plan(stream, (struct sw_plan_passes){true, true, true}, &m, &plan, &err));
    struct planted_plan *q = (struct planted_plan *)(void *)plan;
    int all = q->candidate[0] + 10 * q->candidate[1] + 100 * q->candidate[2];
    sw_plan_free(plan);
    return all;
}

static struct planted four_candidates(void)
{
    return (struct planted){.candidates = {"rule", "second", "third", "fourth"},
                            .ns = {{1000, 400, 900, 2000}, {50, 60, 70, 80}, {9, 8, 7, 1}}};
}

static void each_pass_uses_its_fastest_implementation(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct planted p = four_candidates();
    struct sw_tune t;
    stream = f.stream;
    sw_tune_init(&t, true);
    assert_int_equal(take(&p, "x"), 0); /* the device has no table */
    assert_int_equal(p.listed, 0);
    f.dev->tune = &t;
    assert_int_equal(take(&p, "x"), 301);
    assert_int_equal(t.measured, 3);
    assert_true(t.spent_ns > 0);
    assert_string_equal(t.items[1].key, "backward_weights x");
    assert_string_equal(t.items[1].rule, "rule");
    assert_int_equal(t.items[1].rule_ns, 9);
    assert_int_equal(t.items[1].ns, 1);
    int runs = p.runs;
    assert_int_equal(take(&p, "x"), 301); /* known */
    assert_int_equal(p.runs, runs);
    p.ns[0][2] = 1;
    assert_int_equal(take(&p, "x"), 301);
    assert_int_equal(take(&p, "y"), 302); /* another shape */
    sw_tune_fini(&t);
    close_cpu(&f);
}

static void implementations_that_cannot_be_compared_are_skipped(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct planted p = four_candidates();
    struct sw_tune t;
    stream = f.stream;
    sw_tune_init(&t, true);
    f.dev->tune = &t;
    p.fails = "second";
    assert_int_equal(take(&p, "fails"), 302);
    p.fails = NULL;
    p.elsewhere = "second";
    assert_int_equal(take(&p, "hands on another layout"), 302);
    p.elsewhere = NULL;
    p.gone = "second";
    assert_int_equal(take(&p, "cannot be made"), 302);
    p.gone = NULL;
    p.ns[0][1] = 995; /* hardly faster */
    p.ns[0][2] = 990;
    assert_int_equal(take(&p, "no clear gain"), 300);
    p.fails = "rule";
    assert_int_equal(take(&p, "nothing to compare with"), 0);
    sw_tune_fini(&t);
    close_cpu(&f);
}

static void much_slower_implementations_run_once(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct planted p = four_candidates();
    struct sw_tune t;
    int runs[2];
    stream = f.stream;
    sw_tune_init(&t, true);
    f.dev->tune = &t;
    for (int i = 0; i < 2; i++) {
        p.ns[0][2] = i ? 2000 : 1000; /* compared with 400 */
        p.runs = 0;
        assert_int_equal(take(&p, i ? "slow" : "bearable"), 301);
        runs[i] = p.runs;
    }
    assert_int_equal(runs[0] - runs[1], 5);
    sw_tune_fini(&t);
    close_cpu(&f);
}

/* A device that queues work loads a kernel at its first run, which is not timed; and it gets
 * several runs at a time. */
static void first_run_on_a_queueing_device_is_not_timed(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct planted p = four_candidates();
    struct sw_tune t;
    stream = f.stream;
    p.load_ns = 50000;
    sw_tune_init(&t, true);
    f.dev->tune = &t;
    f.dev->host_memory = false;
    assert_int_equal(take(&p, "x"), 301);
    assert_int_equal(t.items[0].rule_ns, 50);
    assert_int_equal(t.items[2].ns, 400);
    assert_true(p.runs > 3 * 4 * 5 * 10);
    f.dev->host_memory = true;
    sw_tune_fini(&t);
    close_cpu(&f);
}

static void slow_implementations_run_few_times(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct planted p = four_candidates();
    struct sw_tune t;
    stream = f.stream;
    sw_tune_init(&t, true);
    f.dev->tune = &t;
    for (int i = 0; i < WAYS; i++)
        p.ns[0][i] = 300000000 - 10000000 * i;
    assert_int_equal(take(&p, "slow") % 10, 3);
    int runs = p.runs;
    for (int i = 0; i < WAYS; i++)
        p.ns[0][i] = 3000 - 100 * i;
    p.runs = 0;
    assert_int_equal(take(&p, "quick") % 10, 3);
    assert_true(runs < p.runs);
    sw_tune_fini(&t);
    close_cpu(&f);
}

static void text_of(struct sw_tune *t, struct sw_bytes *out)
{
    struct sw_json_writer w;
    sw_json_begin(&w, out);
    sw_json_open_array(&w, NULL);
    sw_tune_write(t, true, &w);
    sw_json_close_array(&w);
}

static int read_text(struct sw_tune *t, const struct sw_bytes *text, struct sw_err *err)
{
    struct sw_json *list = NULL;
    const char *json = sw_bytes_text(text);
    int rc = sw_json_parse(json, strlen(json), &list, err);
    if (rc == SW_OK)
        rc = sw_tune_read(t, list, SW_TUNE_KEPT, err);
    sw_json_free(list);
    return rc;
}

/* Saved choices are used by another table, whether or not it measures. */
static void saved_choices_are_used_by_the_next_table(void **state)
{
    struct fixture f = open_cpu(true, 1);
    struct planted p = four_candidates();
    struct sw_bytes text = {0};
    struct sw_tune t, later;
    struct sw_err err;
    stream = f.stream;
    sw_tune_init(&t, true);
    f.dev->tune = &t;
    assert_int_equal(take(&p, "x"), 301);
    text_of(&t, &text);
    sw_tune_fini(&t);

    for (int measures = 0; measures < 2; measures++) {
        struct sw_bytes again = {0};
        sw_tune_init(&later, measures);
        ASSERT_OK(read_text(&later, &text, &err));
        ASSERT_OK(sw_tune_put(&later, "forward x", "fourth", SW_TUNE_CACHED, &err));
        ASSERT_OK(sw_tune_put(&later, "forward z", "third", SW_TUNE_CACHED, &err));
        f.dev->tune = &later;
        p.ns[0][1] = 5000;
        p.runs = 0;
        text_of(&later, &again); /* before and after use, without entries that are not used */
        assert_string_equal(sw_bytes_text(&again), sw_bytes_text(&text));
        assert_int_equal(take(&p, "x"), 301);
        assert_int_equal(p.runs, 0);
        assert_int_equal(take(&p, "z"), measures ? 302 : 2);
        p.gone = "second"; /* another version of the library */
        assert_int_equal(take(&p, "x"), 0);
        p.gone = NULL;
        sw_bytes_fini(&again);
        sw_tune_fini(&later);
    }
    sw_bytes_fini(&text);
    close_cpu(&f);
}

/* ---- The CPU's own ---- */

static void agrees(const struct problem *p, struct fixture *f, struct fixture *reference)
{
    struct tensors a = run_problem(p, f->stream, 7), b = run_problem(p, reference->stream, 7);
    const struct {
        const float *got, *want;
        int64_t n;
    } all[] = {{a.dst, b.dst, a.dst_count},
               {a.diff_src, b.diff_src, a.src_count},
               {a.diff_weight, b.diff_weight, a.weight_count},
               {a.diff_bias, b.diff_bias, a.bias_count}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double *want = get_doubles(all[i].n);
        for (int64_t k = 0; k < all[i].n; k++)
            want[k] = (double)all[i].want[k];
        assert_near(p->name, all[i].got, want, all[i].n, 1e-4);
        free(want);
    }
    free_tensors(&a);
    free_tensors(&b);
}

/* With a clock of arbitrary times every implementation is the fastest once. */
static void every_implementation_matches_the_reference(void **state)
{
    struct problem problems[] = {
        conv_problem("3x3", 2, 32, 14, 14, 32, 3, 1, 1, 1),
        conv_problem("few channels", 2, 3, 20, 20, 16, 5, 2, 2, 1),
        conv_problem("groups", 2, 32, 9, 9, 32, 3, 1, 1, 2),
        ip_problem("inner product", 4, 16, 4, 4, 24),
    };
    struct fixture f = open_cpu(false, 1), reference = open_cpu(true, 1);
    bool library = f.dev->ops->plans != reference.dev->ops->plans;
    int chosen = 0, others = 0;
    problems[0].conv.fuse_relu = true;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (uint64_t whim = 1; whim <= 12; whim++) {
            struct sw_tune t;
            problems[i].channel_block = problems[i].dim[1] == 32 && whim % 2 ? 16 : 0;
            sw_tune_init(&t, true);
            whims = whim;
            f.dev->tune = &t;
            agrees(&problems[i], &f, &reference);
            for (int k = 0; k < t.count; k++)
                others += strcmp(t.items[k].name, t.items[k].rule) != 0;
            chosen += t.count;
            sw_tune_fini(&t);
        }
    print_message("%d choices, %d of them not the rule's\n", chosen, others);
    assert_true(!library || (chosen > 0 && others > 0));
    close_cpu(&reference);
    close_cpu(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_clock, restore_clock)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_pass_uses_its_fastest_implementation),
        TEST(implementations_that_cannot_be_compared_are_skipped),
        TEST(much_slower_implementations_run_once),
        TEST(slow_implementations_run_few_times),
        TEST(first_run_on_a_queueing_device_is_not_timed),
        TEST(slow_implementations_run_few_times),
        TEST(saved_choices_are_used_by_the_next_table),
        TEST(every_implementation_matches_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
