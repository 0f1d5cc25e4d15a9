/* Memory of a run: the peak is that of the plan, steps allocate nothing, and a long run does not
 * grow. Start-up and speed are measured in bench/. */
#include "thread_role.h"
#include "train_support.h"
#include <limits.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* ---- the plan ---- */

static double peak_over_plan(const char *const *sets)
{
    struct trial t = {.steps = 3, .name = "peak"};
    for (int i = 0; sets[i]; i++)
        t.sets[i] = sets[i];
    if (trial_open(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    double plan = (double)sw_job_plan(t.job)->bytes.peak;
    assert_int_equal(sw_job_plan(t.job)->bytes.peak,
                     sw_job_plan(t.job)->bytes.params + sw_job_plan(t.job)->bytes.state +
                         sw_job_plan(t.job)->bytes.arena + sw_job_plan(t.job)->bytes.batches +
                         sw_job_plan(t.job)->bytes.exchange + sw_job_plan(t.job)->bytes.offloaded);
    if (trial_run(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    double peak = (double)sw_cpu_bytes_peak();
    assert_true((double)t.last[SW_JOB_SUMMARY].peak_bytes == peak);
    trial_close(&t);
    assert_int_equal(sw_cpu_bytes_in_use(), 0);
    return peak / plan;
}

/* The peak is one of the whole process, so each case has a process of its own. */
static void the_planned_memory_is_the_allocators_peak(void **state)
{
    static const char *const cases[][5] = {
        {NULL},
        {"job.batch=1", "job.eval_batch=1"},
        {"job.batch=256", "layer.conv1.outputs=24"},
        {"job.eval_batch=300"}, /* the evaluation net is the larger one */
        {"updater.momentum=0", "data.train.prefetch=6", "data.test.workers=3"},
        {"layer.fc1.outputs=3000"}, /* parameters are most of it */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            double ratio = peak_over_plan(cases[i]);
            if (!(ratio > 0.99 && ratio < 1.01))
                print_error("case %zu: the peak is %.4f of the plan\n", i, ratio);
            _exit(ratio > 0.99 && ratio < 1.01 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* ---- steps ---- */

static atomic_int calls; /* by the worker's thread */

static void count(void)
{
    atomic_fetch_add(&calls, sw_str_eq(thread_role, "worker0.0"));
}

static void *count_alloc(size_t bytes)
{
    count();
    return sw_os_posix.alloc(bytes);
}

static void *count_realloc(void *p, size_t bytes)
{
    count();
    return sw_os_posix.realloc(p, bytes);
}

static void *count_pages(size_t bytes)
{
    count();
    return sw_os_posix.map_pages(bytes);
}

static int allocations_of(const char *steps)
{
    static struct sw_os table;
    table = sw_os_posix;
    table.alloc = count_alloc;
    table.realloc = count_realloc;
    table.map_pages = count_pages;
    sw_os_set(&table);
    atomic_store(&calls, 0);
    train(.name = "steps", .sets = {steps}, .display = {.every_steps = 1});
    sw_os_set(NULL);
    return atomic_load(&calls);
}

static void step_allocates_nothing(void **state)
{
    int few = allocations_of("job.steps=110");
    assert_true(few > 0); /* those of checkpoints and of the evaluation at the end */
    assert_int_equal(allocations_of("job.steps=990"), few);
}

/* ---- a long run ---- */

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &pages, &resident), 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

enum { LOOK_EVERY = 1000, LOOKS = 5 };

static void watch_size(struct trial *t, const struct sw_job_event *e)
{
    long *kib = t->user;
    if (e->type == SW_JOB_DISPLAY && e->step % LOOK_EVERY == 0)
        kib[e->step / LOOK_EVERY - 1] = resident_kib();
}

static void thousand_steps_do_not_grow(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: the sanitizers keep freed memory\n");
    skip();
#endif
    long kib[LOOKS] = {0}, least = LONG_MAX;
    struct trial t = {.name = "long",
                      .steps = LOOK_EVERY * LOOKS + 1,
                      .sets = {"job.eval_every=100"},
                      .display = {.every_steps = LOOK_EVERY},
                      .on_event = watch_size,
                      .user = kib};
    trial_ok(&t);
    /* What leaks grows all the time; rows that a busy disk has not taken yet come and go. */
    for (int i = 1; i < LOOKS; i++) {
        print_message("%ld KiB more in steps %d to %d\n", kib[i] - kib[i - 1], i * LOOK_EVERY,
                      (i + 1) * LOOK_EVERY);
        assert_true(kib[i - 1] > 0 && kib[i] > 0);
        least = kib[i] - kib[i - 1] < least ? kib[i] - kib[i - 1] : least;
    }
    assert_true(least < 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_planned_memory_is_the_allocators_peak),
        cmocka_unit_test(step_allocates_nothing),
        cmocka_unit_test(thousand_steps_do_not_grow),
    };
    return cmocka_run_group_tests_name("memory", tests, home_begin, home_end);
}
