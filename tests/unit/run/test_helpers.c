/* ctest-labels: threads
 * Threads that compute nothing run on the cores of their placement: the main thread during the run,
 * and the history writer. */
#include "machine/bind.h"
#include "workers_support.h"

#include <dirent.h>
#include <sched.h>

enum { NAME = 64 };

/* Where a thread of this process may run, by its name; false when there is none of it. */
static bool mask_of(const char *thread, cpu_set_t *mask)
{
    DIR *tasks = opendir("/proc/self/task");
    bool found = false;
    assert_non_null(tasks);
    for (struct dirent *d; !found && (d = readdir(tasks));) {
        char path[512], name[NAME] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        found = fgets(name, sizeof name, f) && strncmp(name, thread, strlen(thread)) == 0 &&
                sched_getaffinity(atoi(d->d_name), sizeof *mask, mask) == 0;
        fclose(f);
    }
    closedir(tasks);
    return found;
}

struct seen {
    int displays;
    struct sw_core_set main;
    cpu_set_t main_mask, history_mask, watch_mask;
    bool history, watch;
};

/* The worker and its server on core 0, so that core 1 is left over. */
static void leave_a_core(struct trial *t)
{
    struct sw_job *job = t->job;
    struct sw_core_set one = {0}, other = {0};
    sw_core_set_add(&one, job->place.machine->cores[0].number);
    sw_core_set_add(&other, job->place.machine->cores[1].number);
    for (int i = 0; i < job->place.placement->row_count; i++) {
        bool role = i < job->place.placement->worker_count + job->place.placement->server_count;
        job->place.placement->rows[i].cores = role ? one : other;
        job->place.placement->rows[i].threads = 1;
    }
    job->place.placement->spare = other;
}

/* On the main thread, in mid-run. */
static void look(struct trial *t, const struct sw_job_event *e)
{
    struct seen *s = t->user;
    struct sw_err err;
    if (e->type != SW_JOB_DISPLAY || s->displays++ > 0)
        return;
    assert_int_equal(sw_bound_cores(t->job->place.machine, &s->main, &err), SW_OK);
    assert_int_equal(sched_getaffinity(0, sizeof s->main_mask, &s->main_mask), 0);
    s->history = mask_of("history", &s->history_mask);
    s->watch = mask_of("watch", &s->watch_mask);
}

static void helpers_run_on_the_cores_that_are_left(void **state)
{
    struct seen seen = {0};
    struct trial t = {.steps = 20, .display = {.every_steps = 1}, .on_event = look, .user = &seen};
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(trial_open(&t), SW_OK);
    if (t.job->place.machine->core_count < 2) {
        trial_close(&t);
        print_message("skipped: this machine has one core\n");
        skip();
    }
    leave_a_core(&t);
    int other = t.job->place.machine->cores[1].number;
    if (trial_run(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    trial_close(&t);
    assert_true(seen.displays > 0);
    assert_int_equal(sw_core_set_count(&seen.main), 1);
    assert_true(sw_core_set_has(&seen.main, other));
    assert_true(seen.history && CPU_EQUAL(&seen.history_mask, &seen.main_mask));
    assert_true(seen.watch && CPU_EQUAL(&seen.watch_mask, &seen.main_mask));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* Streams of simulated devices are threads, and run where their worker does. */
static void threads_of_a_device_run_with_its_worker(void **state)
{
    struct trial t = {.steps = 20, .device = "sim:gpus=2,mem=64MiB", .oversubscribe = true};
    cpu_set_t compute, all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (trial_open(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    const struct sw_placement_row *row = &t.job->place.placement->rows[0];
    int cores = sw_core_set_count(&row->cores), whole = t.job->place.machine->core_count;
    assert_true(mask_of("sim", &compute));
    assert_int_equal(CPU_COUNT(&compute) * whole, CPU_COUNT(&all) * cores);
    trial_close(&t);
}

static void placement_of_helpers_is_in_the_history(void **state)
{
    train(.name = "said", .steps = 2);
    assert_int_equal((int)ask("SELECT count(*) FROM placement WHERE run_id = %d AND unit IN "
                              "('main', 'history') AND length(cores) > 0 AND length(reason) > 10",
                              run_id("said")),
                     2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helpers_run_on_the_cores_that_are_left),
        cmocka_unit_test(threads_of_a_device_run_with_its_worker),
        cmocka_unit_test(placement_of_helpers_is_in_the_history),
    };
    return cmocka_run_group_tests_name("helpers", tests, home_begin, home_end);
}
