/* ctest-labels: threads
 * A trainer in which one wait is omitted, or memory is freed too early, ends with the names of the
 * memory, of both operations and of their streams, every time. */
#include "workers_support.h"

#include "device/sim/stream.h"
#include <dlfcn.h>

enum { STEPS = 6, AGAIN = 3 };

/* What is planted: waits of streams of this name are left out (for events of that one alone, where
 * it is given), those that `left_out` says by their number (from 0); or the arena is freed at such
 * a wait. */
static struct plant {
    const char *stream, *for_stream;
    bool (*left_out)(int number);
    bool frees;
    const char *set; /* with two workers: --set */
    int aim, waits;
    struct sw_worker *worker;
} plant;

/* Events that streams of plant.for_stream have recorded, atomic: each worker's thread records. */
static struct sw_event *recorded[4096];
static int recorded_count;

static int (*real_record)(struct sw_stream *s, struct sw_event *e, struct sw_err *err);

static int planted_record(struct sw_stream *s, struct sw_event *e, struct sw_err *err)
{
    const char *stream = sw_sim_stream_of(s)->lane->name;
    if (plant.for_stream && strcmp(stream, plant.for_stream) == 0) {
        int n = __atomic_fetch_add(&recorded_count, 1, __ATOMIC_RELAXED);
        assert_true(n < (int)(sizeof recorded / sizeof *recorded));
        __atomic_store_n(&recorded[n], e, __ATOMIC_RELAXED);
    }
    return real_record(s, e, err);
}

static bool is_meant(const struct sw_event *e)
{
    bool found = !plant.for_stream;
    for (int i = 0; i < __atomic_load_n(&recorded_count, __ATOMIC_RELAXED); i++)
        found = found || __atomic_load_n(&recorded[i], __ATOMIC_RELAXED) == e;
    return found;
}

static int (*real_wait)(struct sw_stream *s, struct sw_event *e, struct sw_err *err);

static int planted_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err)
{
    if (!plant.stream || strcmp(sw_sim_stream_of(s)->lane->name, plant.stream) != 0 ||
        (plant.worker && plant.worker->device != s->dev) || !is_meant(e) ||
        !plant.left_out(plant.waits++))
        return real_wait(s, e, err);
    if (!plant.frees)
        return SW_OK;
    sw_device_free(s->dev, plant.worker->arena.memory, plant.worker->arena.bytes);
    return real_wait(s, e, err);
}

/* This program's sw_sim_open takes the place of the library's, calls it, and changes the device. */
int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err)
{
    static struct sw_device_ops planted;
    int (*real)(const struct sw_sim_conf *, int, struct sw_device **, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_sim_open");
    int rc = real(conf, index, out, err);
    if (rc != SW_OK)
        return rc;
    planted = *(*out)->ops;
    real_wait = planted.event_wait;
    planted.event_wait = planted_wait;
    real_record = planted.event_record;
    planted.event_record = planted_record;
    (*out)->ops = &planted;
    return SW_OK;
}

static void aim(struct trial *t)
{
    plant.worker = &t->job->workers[plant.aim];
}

/* `within`: the budget of memory, or NULL. */
static void finds_within(const char *within, struct plant p, const char *first, const char *second)
{
    for (int i = 0; i < AGAIN; i++) {
        struct trial t = {.recipe = within ? budget_recipe : workers_recipe,
                          .device = "sim:gpus=1,mem=64MiB",
                          .steps = STEPS,
                          .sets = {within},
                          .before = aim};
        plant = p;
        recorded_count = 0;
        assert_int_equal(trial_go(&t), SW_ERR_INVALID);
        if (!strstr(t.err.text, first) || !strstr(t.err.text, second))
            fail_msg("%s", t.err.text);
    }
}

static void finds(struct plant p, const char *first, const char *second)
{
    finds_within(NULL, p, first, second);
}

static bool every(int number)
{
    return true;
}

static bool every_second(int number)
{
    return number % 2 == 1;
}

static bool the_thirtieth(int number)
{
    return number == 30;
}

static void nothing_is_planted(void **state)
{
    plant = (struct plant){.stream = NULL};
    train(.recipe = workers_recipe, .device = "sim:gpus=1,mem=64MiB", .steps = STEPS);
}

static void a_kernel_does_not_wait_for_its_parameter(void **state)
{
    finds((struct plant){.stream = "compute", .for_stream = "copy in", .left_out = every},
          "sim:0: convolution forward of stream compute reads conv1.weight (value) while copy of "
          "stream copy in may still write it",
          "no event between");
}

static void a_copy_does_not_wait_for_the_kernel_that_makes_the_gradient(void **state)
{
    finds((struct plant){.stream = "copy out", .left_out = every},
          "sim:0: copy of stream copy out reads fc2.weight (gradient) while",
          "of stream compute may still write it");
}

static void overwriting_a_gradient_during_its_copy_is_detected(void **state)
{
    finds((struct plant){.stream = "compute", .for_stream = "copy out", .left_out = every},
          "backward_weights of stream compute writes fc2.weight (gradient) while",
          "copy of stream copy out may still read it");
}

/* The next batch comes into its place when the last one is taken from there, and is taken when it
 * has come. */
static void a_batch_does_not_wait_for_its_place(void **state)
{
    finds((struct plant){.stream = "compute", .for_stream = "input", .left_out = every},
          "sim:0: pixels of stream compute reads the next batch while copy of stream input",
          "no event between");
    finds((struct plant){.stream = "input", .left_out = every},
          "sim:0: copy of stream input writes the next batch while pixels of stream compute",
          "no event between");
}

static void the_arena_is_freed_while_it_is_used(void **state)
{
    finds((struct plant){.stream = "compute", .left_out = the_thirtieth, .frees = true},
          "sim:0: activations and gradients was freed while",
          "of stream compute might still use it");
}

/* Features that go between devices: they are packed when they are made and when the staging memory
 * is free again, and are read when they have been packed. */
static void finds_between(struct plant p, const char *first, const char *second)
{
    for (int i = 0; i < AGAIN; i++) {
        struct trial t = {.recipe = workers_recipe,
                          .device = "sim:gpus=2,mem=64MiB",
                          .oversubscribe = true,
                          .steps = STEPS,
                          .sets = {p.set},
                          .before = aim};
        plant = p;
        recorded_count = 0;
        assert_int_equal(trial_go(&t), SW_ERR_INVALID);
        if (!strstr(t.err.text, first) || !strstr(t.err.text, second))
            fail_msg("%s", t.err.text);
    }
}

static bool every_first(int number)
{
    return number % 2 == 0;
}

static void moving_activations_without_waits_is_detected(void **state)
{
    static const char columns[] = "layer.fc1.partition=1";
    finds_between(
        (struct plant){
            .stream = "compute", .for_stream = "send", .left_out = every, .set = columns},
        "copy_2d of stream compute reads activations between workers while copy_2d of "
        "stream send of sim:1",
        "may still write it");
    /* With two workers: for what is made, then for who took the piece before the last. Where
     * nothing comes back nothing else says that he did. */
    finds_between((struct plant){.stream = "send", .left_out = every_first, .set = columns},
                  "sim:0: copy_2d of stream send reads", "of stream compute may still write it");
    finds_between(
        (struct plant){
            .stream = "send", .left_out = every_second, .set = "job.partition=none", .aim = 1},
        "copy_2d of stream send writes activations between workers while copy_2d of stream "
        "compute",
        "may still read it");
}

/* Features that are swapped: each of the waits that their two copies need. The copy out waits for
 * the kernel that makes the feature; the next to write there for that copy; the copy in for those
 * who use the memory to which it goes (and so, mostly, for the copy out); who reads, for the copy
 * in. */
static void offloading_without_waits_is_detected(void **state)
{
    char budget[64];
    plant = (struct plant){.stream = NULL};
    struct trial t = {.recipe = budget_recipe, .device = "sim:gpus=1,mem=64MiB", .steps = STEPS};
    snprintf(budget, sizeof budget, "job.memory=fit:%lld", least_budget(t) * 9 / 8);
    t.sets[0] = budget;
    assert_int_equal(trial_open(&t), SW_OK);
    assert_true(sw_job_plan(t.job)->fit.offloaded > 0);
    assert_int_equal(trial_run(&t), SW_OK);
    trial_close(&t);
    finds_within(budget, (struct plant){.stream = "swap out", .left_out = every},
                 "copy of stream swap out reads", "of stream compute may still write it");
    finds_within(budget,
                 (struct plant){.stream = "compute", .for_stream = "swap out", .left_out = every},
                 "of stream compute writes", "copy of stream swap out may still read it");
    finds_within(budget,
                 (struct plant){.stream = "swap in", .for_stream = "compute", .left_out = every},
                 "copy of stream swap in writes", "of stream compute may still");
    finds_within(budget,
                 (struct plant){.stream = "compute", .for_stream = "swap in", .left_out = every},
                 "of stream compute reads", "copy of stream swap in may still write it");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(nothing_is_planted),
        FRESH(a_kernel_does_not_wait_for_its_parameter),
        FRESH(a_batch_does_not_wait_for_its_place),
        FRESH(a_copy_does_not_wait_for_the_kernel_that_makes_the_gradient),
        FRESH(overwriting_a_gradient_during_its_copy_is_detected),
        FRESH(moving_activations_without_waits_is_detected),
        FRESH(the_arena_is_freed_while_it_is_used),
        FRESH(offloading_without_waits_is_detected),
    };
    return cmocka_run_group_tests_name("sim waits", tests, NULL, NULL);
}
