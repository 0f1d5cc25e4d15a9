/* The bottleneck line in constructed cases: exactly the slow component is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ui/verdict.h"
#include <math.h>
#include <string.h>

enum { STEPS = 20 };

/* The step of a worker without any problem. */
static struct sw_step_time healthy(int worker)
{
    return (struct sw_step_time){.worker = worker,
                                 .read_ms = 0.2f,
                                 .decode_ms = 0.3f,
                                 .h2d_ms = 0.5f,
                                 .forward_ms = 20,
                                 .backward_ms = 40,
                                 .update_ms = 2,
                                 .comm_exposed_ms = 3,
                                 .idle_ms = 0.5f};
}

struct stage {
    struct sw_step_time worker[8];
    int workers;
    struct sw_bottleneck_input in;
    struct sw_ledger ledger;
};

static struct stage stage_of(int workers)
{
    struct stage s = {.workers = workers};
    for (int w = 0; w < workers; w++)
        s.worker[w] = healthy(w);
    s.in = (struct sw_bottleneck_input){.servers = workers, .servers_busy = NAN};
    return s;
}

static struct sw_bottleneck find_bottleneck(struct stage *s)
{
    struct sw_step_time rows[8 * STEPS];
    for (int i = 0; i < s->workers * STEPS; i++) {
        rows[i] = s->worker[i % s->workers];
        rows[i].step = 100 + i / s->workers;
    }
    sw_ledger_make(&s->ledger, rows, s->workers * STEPS);
    s->in.ledger = &s->ledger;
    return sw_bottleneck_find(&s->in);
}

static void assert_bottleneck(struct stage *s, enum sw_bound bound, const char *word)
{
    struct sw_bottleneck v = find_bottleneck(s);
    if (v.bound != bound || !strstr(v.text, word))
        fail_msg("%s, not %s with '%s': %s", sw_bound_name(v.bound), sw_bound_name(bound), word,
                 v.text);
    if (strlen(v.text) > 76 || strlen(v.advice) > 76)
        fail_msg("more than a line of 80 columns: %s\n%s", v.text, v.advice);
}

static void healthy_job_is_compute_bound(void **state)
{
    for (int workers = 1; workers <= 4; workers += 3) {
        struct stage s = stage_of(workers);
        s.in.slowest_layer = "conv2";
        s.in.slowest_fraction = 0.31;
        assert_bottleneck(&s, SW_BOUND_COMPUTE, "conv2 (31 %)");
    }
}

static void bottleneck_is_unknown_before_the_first_step(void **state)
{
    struct stage s = stage_of(0);
    assert_bottleneck(&s, SW_BOUND_UNKNOWN, "no step");
}

static void slow_disk_is_named(void **state)
{
    struct stage s = stage_of(2);
    for (int w = 0; w < 2; w++) {
        s.worker[w].read_ms = 100;
        s.worker[w].decode_ms = 20;
    }
    assert_bottleneck(&s, SW_BOUND_DISK, "reading");
}

static void slow_decoding_is_named(void **state)
{
    struct stage s = stage_of(2);
    for (int w = 0; w < 2; w++) {
        s.worker[w].read_ms = 3;
        s.worker[w].decode_ms = 60;
    }
    assert_bottleneck(&s, SW_BOUND_DECODE, "wait 49 % for decoding");
}

static void slow_device_link_is_named(void **state)
{
    struct stage s = stage_of(1);
    s.worker[0].h2d_ms = 50;
    assert_bottleneck(&s, SW_BOUND_COPY, "takes 43 %");
}

static void slow_gradient_copies_are_named(void **state)
{
    struct stage s = stage_of(2);
    for (int w = 0; w < 2; w++)
        s.worker[w].comm_exposed_ms = 60;
    s.in.copy_ms = 70;
    assert_bottleneck(&s, SW_BOUND_COPY, "copies of gradients and parameters");
    s.in.copy_ms = 1; /* then the wait has another reason */
    assert_bottleneck(&s, SW_BOUND_COMM, "communication-bound");
}

static void slow_worker_is_named(void **state)
{
    for (int slow = 0; slow < 4; slow++) {
        struct stage s = stage_of(4);
        for (int w = 0; w < 4; w++)
            if (w == slow)
                s.worker[w].backward_ms = 120;
            else
                s.worker[w].comm_exposed_ms = 83;
        struct sw_bottleneck v = find_bottleneck(&s);
        assert_int_equal(v.bound, SW_BOUND_WORKER);
        assert_int_equal(v.worker, slow);
        assert_non_null(strstr(v.text, "mostly backward"));
    }
}

/* The data of one worker are slow, not those of all. */
static void worker_with_slow_data_is_named(void **state)
{
    struct stage s = stage_of(2);
    s.worker[1].decode_ms = 90;
    s.worker[0].wait_ms = 90;
    struct sw_bottleneck v = find_bottleneck(&s);
    assert_int_equal(v.bound, SW_BOUND_WORKER);
    assert_int_equal(v.worker, 1);
    assert_non_null(strstr(v.text, "mostly decode"));
}

static void idle_dedicated_servers_are_named(void **state)
{
    struct stage s = stage_of(2);
    s.in.servers = s.in.dedicated_servers = 3;
    s.in.server_cores = 6;
    s.in.servers_busy = 0.04;
    assert_bottleneck(&s, SW_BOUND_SERVERS, "use 6 cores and are busy 4 %");
    s.in.servers_busy = 0.6;
    assert_bottleneck(&s, SW_BOUND_COMPUTE, "compute-bound");
    s.in.servers_busy = NAN; /* unknown, as for a run that has ended */
    assert_bottleneck(&s, SW_BOUND_COMPUTE, "compute-bound");
}

static void surplus_servers_are_named(void **state)
{
    struct stage s = stage_of(2);
    for (int w = 0; w < 2; w++)
        s.worker[w].comm_exposed_ms = 40;
    s.in.servers = 8;
    assert_bottleneck(&s, SW_BOUND_SERVERS, "8 for 2 workers");
}

static void updates_groups_and_overhead_are_named(void **state)
{
    struct stage s = stage_of(1);
    s.worker[0].update_ms = 80;
    assert_bottleneck(&s, SW_BOUND_UPDATE, "update-bound");
    s = stage_of(2);
    s.worker[0].wait_ms = s.worker[1].wait_ms = 70;
    assert_bottleneck(&s, SW_BOUND_GROUPS, "for each other");
    s = stage_of(1);
    s.worker[0].idle_ms = 100;
    assert_bottleneck(&s, SW_BOUND_OVERHEAD, "overhead");
}

static void ledger_fractions_sum_to_one(void **state)
{
    struct stage s = stage_of(3);
    s.worker[2].backward_ms = 140;
    find_bottleneck(&s);
    double all = 0;
    for (int p = 0; p < SW_STEP_PHASES; p++)
        all += sw_ledger_fraction(&s.ledger, (enum sw_step_phase)p);
    assert_true(fabs(all - 1) < 1e-9);
    assert_int_equal(s.ledger.worker_count, 3);
    assert_int_equal(s.ledger.worker[1].steps, STEPS);
    assert_int_equal(s.ledger.from_step, 100);
    assert_int_equal(s.ledger.to_step, 100 + STEPS - 1);
    assert_true(fabs(s.ledger.step_ms - sw_ledger_step_ms(&s.ledger.worker[2])) < 1e-3);
    assert_true(s.ledger.p50_ms <= s.ledger.p99_ms);
}

/* Every diagnosis but "unknown" says what to do, with the key or the command. */
static void every_bottleneck_says_what_to_do(void **state)
{
    static const struct {
        struct sw_step_time more; /* than a healthy worker */
        int workers, one;         /* one: only this worker has it; -1: all */
        int servers;
        double copy_ms;
        bool on_cpu;
        enum sw_bound bound;
        const char *advice;
    } rows[] = {
        {{.step = 0}, 1, -1, 1, 0, true, SW_BOUND_COMPUTE, "tune = yes in [job]"},
        {{.step = 0}, 1, -1, 1, 0, false, SW_BOUND_COMPUTE, "precision = bf16"},
        {{.read_ms = 100}, 2, -1, 2, 0, true, SW_BOUND_DISK, "workers in [data train] (now 3)"},
        {{.read_ms = 100}, 2, -1, 2, 0, true, SW_BOUND_DISK, "singa-ws data import"},
        {{.decode_ms = 90}, 1, -1, 1, 0, true, SW_BOUND_DECODE, "data import --resize"},
        {{.h2d_ms = 90}, 1, -1, 1, 0, false, SW_BOUND_COPY, "crop or resize in [data train]"},
        {{.comm_exposed_ms = 90}, 2, -1, 2, 99, false, SW_BOUND_COPY, "copy = none in [cluster]"},
        {{.backward_ms = 90}, 4, 3, 4, 0, true, SW_BOUND_WORKER, "rebalance = yes in [cluster]"},
        {{.decode_ms = 90}, 4, 3, 4, 0, true, SW_BOUND_WORKER, "workers in [data train]"},
        {{.h2d_ms = 90}, 4, 3, 4, 0, true, SW_BOUND_WORKER, "singa-ws doctor"},
        {{.idle_ms = 90}, 4, 3, 4, 0, true, SW_BOUND_WORKER, "end other programs"},
        {{.comm_exposed_ms = 90}, 2, -1, 8, 0, true, SW_BOUND_SERVERS, "servers_per_group"},
        {{.comm_exposed_ms = 90}, 2, -1, 2, 0, true, SW_BOUND_COMM, "comm = auto in [cluster]"},
        {{.wait_ms = 90}, 4, -1, 4, 0, true, SW_BOUND_GROUPS, "staleness in [cluster]"},
        {{.wait_ms = 90}, 2, -1, 2, 0, true, SW_BOUND_GROUPS, "partition = 0"},
        {{.update_ms = 90}, 1, -1, 1, 0, true, SW_BOUND_UPDATE, "raise batch in [job]"},
        {{.idle_ms = 120}, 1, -1, 1, 0, true, SW_BOUND_OVERHEAD, "raise batch in [job]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sw_step_time *more = &rows[i].more;
        struct stage s = stage_of(rows[i].workers);
        for (int w = 0; w < s.workers; w++) {
            struct sw_step_time *to = &s.worker[w];
            if (rows[i].one >= 0 && rows[i].one != w) {
                to->comm_exposed_ms += 90; /* waits for the slow one */
                continue;
            }
            to->read_ms += more->read_ms;
            to->decode_ms += more->decode_ms;
            to->h2d_ms += more->h2d_ms;
            to->backward_ms += more->backward_ms;
            to->update_ms += more->update_ms;
            to->comm_exposed_ms += more->comm_exposed_ms;
            to->wait_ms += more->wait_ms;
            to->idle_ms += more->idle_ms;
        }
        s.in.readers = 3;
        s.in.group_size = 2;
        s.in.servers = rows[i].servers;
        s.in.copy_ms = rows[i].copy_ms;
        s.in.on_cpu = rows[i].on_cpu;
        assert_bottleneck(&s, rows[i].bound, "");
        struct sw_bottleneck v = find_bottleneck(&s);
        if (!strstr(v.advice, rows[i].advice))
            fail_msg("row %zu: no '%s': %s: %s", i, rows[i].advice, v.text, v.advice);
    }
}

/* A worker is called as in the panels. */
static void slow_worker_has_the_name_of_its_group(void **state)
{
    struct stage s = stage_of(4);
    for (int w = 0; w < 4; w++)
        *(w == 3 ? &s.worker[w].backward_ms : &s.worker[w].comm_exposed_ms) = 120;
    s.in.group_size = 2;
    assert_bottleneck(&s, SW_BOUND_WORKER, "worker1.1 is slow");
    s.in.group_size = 0;
    assert_bottleneck(&s, SW_BOUND_WORKER, "worker 3 is slow");
}

/* Without a slow worker, the one that waits least is the one that the others wait for. */
static void worker_that_waits_least_is_named(void **state)
{
    struct stage s = stage_of(4);
    for (int w = 0; w < 4; w++)
        s.worker[w].wait_ms = w == 1 ? 40 : 60;
    s.in.group_size = 4;
    assert_bottleneck(&s, SW_BOUND_GROUPS, "worker0.1 least");
}

/* One step in three is slow, which the means show and the medians do not. */
static void medians_are_without_outliers(void **state)
{
    struct sw_step_time rows[2 * STEPS];
    struct sw_ledger l;

    for (int i = 0; i < 2 * STEPS; i++) {
        rows[i] = healthy(i % 2);
        rows[i].step = 1 + i / 2;
        rows[i].forward_ms = i / 2 % 3 ? 20 : 200;
        rows[i].update_ms = i % 2 ? 7 : 2;
    }
    sw_ledger_make(&l, rows, 2 * STEPS);

    assert_true(l.worker[1].ms[SW_STEP_FORWARD] > 70);
    for (int w = 0; w < 2; w++)
        assert_true(l.worker[w].median_ms[SW_STEP_FORWARD] == 20);
    assert_true(l.worker[0].median_ms[SW_STEP_UPDATE] == 2);
    assert_true(l.worker[1].median_ms[SW_STEP_UPDATE] == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_job_is_compute_bound),
        cmocka_unit_test(bottleneck_is_unknown_before_the_first_step),
        cmocka_unit_test(slow_disk_is_named),
        cmocka_unit_test(slow_decoding_is_named),
        cmocka_unit_test(slow_device_link_is_named),
        cmocka_unit_test(slow_gradient_copies_are_named),
        cmocka_unit_test(slow_worker_is_named),
        cmocka_unit_test(worker_with_slow_data_is_named),
        cmocka_unit_test(idle_dedicated_servers_are_named),
        cmocka_unit_test(surplus_servers_are_named),
        cmocka_unit_test(updates_groups_and_overhead_are_named),
        cmocka_unit_test(ledger_fractions_sum_to_one),
        cmocka_unit_test(medians_are_without_outliers),
        cmocka_unit_test(every_bottleneck_says_what_to_do),
        cmocka_unit_test(slow_worker_has_the_name_of_its_group),
        cmocka_unit_test(worker_that_waits_least_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
