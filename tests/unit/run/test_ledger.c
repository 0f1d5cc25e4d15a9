/* ctest-labels: threads
 * The time breakdown of a step: its parts sum to the time of the step on the host, on devices and
 * with several workers, and each cause shows in its part. Links of a simulated GPU have a
 * configured bandwidth. */
#include "workers_support.h"

enum { STEPS = 8, RATE_BYTES_PER_S = 1000000 };

#define SLOW_LINK "sim:mem=64MiB,pcie=1MB/s"

/* The rate of a step says how long it took, for one of its workers: the last one. */
static void assert_parts_sum(const char *run, int batch)
{
    double worst =
        ask("SELECT max(off) FROM (SELECT min(abs((read_ms + decode_ms + h2d_ms + forward_ms +"
            " backward_ms + update_ms + comm_exposed_ms + wait_ms + idle_ms) * m.value / %d - 1))"
            " AS off FROM step_time s JOIN metrics m ON m.run_id = s.run_id AND m.step = s.step"
            " AND m.name = 'samples_per_s' WHERE s.run_id = %d GROUP BY s.step)",
            batch * 1000, run_id(run));
    assert_true(worst >= 0 && worst < 1e-3);
    assert_true(ask("SELECT min(min(read_ms, decode_ms, h2d_ms, forward_ms, backward_ms, update_ms,"
                    " comm_exposed_ms, comm_hidden_ms, wait_ms)) >= 0 AND min(idle_ms) > -1e-3"
                    " FROM step_time WHERE run_id = %d",
                    run_id(run)));
}

static double total(const char *run, const char *part)
{
    return ask("SELECT total(%s_ms) FROM step_time WHERE run_id = %d", part, run_id(run));
}

static void parts_sum_with_several_workers_and_servers(void **state)
{
    static const char *const frameworks[] = {ALLREDUCE, SANDBLASTER};
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "ps" : "ar";
        grouped(.name = name, .steps = STEPS, .sets = {frameworks[i], workers_set[3]});
        assert_parts_sum(name, 25);
        assert_true(total(name, "h2d") == 0);
        assert_true(total(name, "wait") == 0); /* they never meet within a step */
    }
}

/* The columns of a split layer: workers meet to hand over outputs. */
static void meetings_are_waits(void **state)
{
    grouped(.name = "met", .steps = STEPS, .sets = {workers_set[2], "layer.fc1.partition=1"});
    assert_parts_sum("met", 25);
    assert_true(total("met", "wait") > 0);
}

/* A server on a core of its own works beside the worker, or exposed: it always shows. */
static void apart(struct trial *t)
{
    assert_true(give_server_a_core(t->job));
}

static void server_thread_overlaps_with_the_worker(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_err err;
    assert_int_equal(sw_machine_here(&m, &err), SW_OK);
    int cores = m->core_count;
    sw_machine_free(m);
    if (cores < 2) {
        print_message("skipped: this machine has one core\n");
        skip();
    }
    train(.name = "apart", .steps = STEPS, .before = apart);
    assert_parts_sum("apart", 16);
    assert_true(total("apart", "comm_hidden") + total("apart", "comm_exposed") > 0);
}

/* What goes over a link of 1 MB/s takes a second for each MB, in the traffic and in the ledger. */
static void copies_take_their_time(void **state)
{
    train(.name = "copied", .steps = STEPS, .device = SLOW_LINK);
    int id = run_id("copied");
    assert_parts_sum("copied", 16);
    assert_true(total("copied", "h2d") > 0);
    assert_true(total("copied", "comm_hidden") > 0);
    assert_true(total("copied", "forward") > 0 && total("copied", "backward") > 0);
    assert_int_equal((int)ask("SELECT count(DISTINCT kind) FROM link_traffic WHERE run_id = %d AND"
                              " kind IN ('d2h', 'h2d')",
                              id),
                     2);
    /* A copy may be recorded with the step in which it ends. */
    assert_true(ask("SELECT min(ms) FROM (SELECT total(ms) / (total(bytes) * 1e3 / %d) AS ms FROM"
                    " link_traffic WHERE run_id = %d GROUP BY kind)",
                    RATE_BYTES_PER_S, id) > 0.9 * (STEPS - 1) / STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_sum_with_several_workers_and_servers),
        cmocka_unit_test(meetings_are_waits),
        cmocka_unit_test(server_thread_overlaps_with_the_worker),
        cmocka_unit_test(copies_take_their_time),
    };
    return cmocka_run_group_tests_name("ledger", tests, home_begin, home_end);
}
