/* The analysis of waits with several worker groups: jobs that are opened and never run, and slots
 * of the live snapshot written by hand. */
#include "monitor/waits.h"
#include "worker/server.h"
#include "workers_support.h"

enum { MOST_ROLES = 32 };

struct play {
    struct trial t;
    struct sw_slot_state slots[MOST_ROLES];
    char why[128];
};

/* Workers W0 to W3 in two groups of two; nobody is anywhere. */
static void begin(struct play *p, const char *const *sets)
{
    struct sw_err err;
    *p = (struct play){.t = {.recipe = workers_recipe, .oversubscribe = true}};
    p->t.sets[0] = "cluster.worker_groups=2";
    p->t.sets[1] = "cluster.workers_per_group=2";
    for (int i = 0; sets[i]; i++)
        p->t.sets[2 + i] = sets[i];
    if (trial_open(&p->t) != SW_OK)
        fail_msg("%s", sw_bytes_text(&p->t.messages));
    assert_int_equal(sw_servers_settle(&p->t.job->workers[0].shared, p->t.job->topology, &err),
                     SW_OK);
    for (int u = 0; u < MOST_ROLES; u++)
        p->slots[u] = (struct sw_slot_state){.phase = SW_PHASE_IDLE, .layer = -1, .step = -1};
}

static void end(struct play *p)
{
    trial_close(&p->t);
}

/* The worker computes in its step; the later the time, the more alive it is. */
static void computes(struct play *p, int worker, int64_t step, int64_t time)
{
    p->slots[worker] = (struct sw_slot_state){
        .phase = SW_PHASE_FORWARD, .step = step, .done_step = step - 1, .heartbeat_ns = time};
}

/* It waits for a version of conv1.weight, in the step after, or behind its last step. */
static void awaits(struct play *p, int worker, int64_t version, bool behind)
{
    int param = sw_table_find(p->t.job->workers[worker].table, "conv1.weight", 0);
    assert_true(param >= 0);
    computes(p, worker, behind ? version : version + 1, 1000);
    p->slots[worker].done_step = version;
    p->slots[worker].wait = (struct sw_wait){SW_WAIT_VERSION, param, version};
}

static void meets(struct play *p, int worker, int64_t step)
{
    computes(p, worker, step, 1000);
    p->slots[worker].done_step = step;
    p->slots[worker].wait.kind = SW_WAIT_GROUP;
}

static void rests(struct play *p, int worker)
{
    p->slots[worker] = (struct sw_slot_state){.phase = SW_PHASE_IDLE,
                                              .step = 0,
                                              .done_step = -1,
                                              .heartbeat_ns = 1,
                                              .wait = {.kind = SW_WAIT_TURN}};
}

static void assert_waits_on(struct play *p, int role, int whom, const char *why)
{
    const struct sw_job *job = p->t.job;
    const struct sw_roles roles = {job->topology, job->workers, job->servers};
    assert_int_equal(sw_waits_on(&roles, p->slots, role, p->why, sizeof p->why), whom);
    assert_non_null(strstr(p->why, why));
}

#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Its own group first: without that there is no update. */
static void the_own_group_is_blamed_first(void **state)
{
    struct play p;
    begin(&p, SETS("cluster.framework=downpour", "cluster.staleness=1"));
    awaits(&p, 0, 7, false);
    computes(&p, 1, 7, 500);
    computes(&p, 2, 2, 1);
    computes(&p, 3, 2, 2);
    assert_waits_on(&p, 0, 1, "has no gradient of worker0.1");
    end(&p);
}

/* Then those who are further behind than the bound allows, the longest silent of them. */
static void group_behind_the_staleness_bound_is_the_culprit(void **state)
{
    struct play p;
    begin(&p, SETS("cluster.framework=downpour", "cluster.staleness=2"));
    awaits(&p, 0, 7, false);
    awaits(&p, 1, 7, false);
    computes(&p, 2, 5, 40);
    computes(&p, 3, 5, 30);
    assert_waits_on(&p, 0, 3, "has no gradient of worker1.1");
    computes(&p, 3, 6, 30); /* it has given what is asked for */
    assert_waits_on(&p, 0, 2, "has no gradient of worker1.0");
    computes(&p, 2, 6, 40);
    assert_waits_on(&p, 0, -1, "");
    end(&p);
}

static void without_a_bound_groups_wait_only_at_barriers(void **state)
{
    static const char *const frameworks[] = {"cluster.framework=downpour",
                                             "cluster.framework=hogwild"};
    for (int i = 0; i < 2; i++) {
        struct play p;
        begin(&p, SETS(frameworks[i]));
        awaits(&p, 0, 7, false);
        awaits(&p, 1, 7, false);
        computes(&p, 2, 2, 40);
        computes(&p, 3, 2, 30);
        assert_waits_on(&p, 0, -1, "");
        awaits(&p, 0, 7, true); /* before an evaluation, say */
        assert_waits_on(&p, 0, 3, "has no gradient of worker1.1");
        end(&p);
    }
}

static void a_meeting_blames_the_own_group_and_then_others(void **state)
{
    struct play p;
    begin(&p, SETS("cluster.framework=downpour"));
    meets(&p, 0, 7);
    computes(&p, 1, 7, 50);
    computes(&p, 2, 3, 5);
    computes(&p, 3, 3, 4);
    assert_waits_on(&p, 0, 1, "worker0.1 has not arrived");
    meets(&p, 1, 7);
    assert_waits_on(&p, 0, 3, "worker1.1 has not arrived");
    end(&p);
}

/* Groups of another server group have nothing to do with what this one's servers apply. */
static void server_groups_do_not_wait_for_each_other(void **state)
{
    struct play p;
    begin(&p, SETS("cluster.framework=hogwild", "cluster.server_groups=2", "cluster.staleness=1"));
    awaits(&p, 0, 7, false);
    awaits(&p, 1, 7, false);
    computes(&p, 2, 2, 1);
    computes(&p, 3, 2, 2);
    assert_waits_on(&p, 0, -1, "");
    end(&p);
}

/* Nobody waits for those who rest, nor do they for anybody. */
static void sleeping_worker_is_not_the_culprit(void **state)
{
    struct play p;
    begin(&p, SETS("cluster.framework=downpour", "cluster.staleness=1", "cluster.warmup_steps=20"));
    rests(&p, 2);
    rests(&p, 3);
    for (int behind = 0; behind < 2; behind++) {
        awaits(&p, 0, 7, behind);
        awaits(&p, 1, 7, behind);
        assert_waits_on(&p, 0, -1, "");
    }
    meets(&p, 0, 7);
    meets(&p, 1, 7);
    assert_waits_on(&p, 0, -1, "");
    assert_waits_on(&p, 2, -1, "");
    /* Behind the warm-up they are like all others. */
    awaits(&p, 0, 23, false);
    awaits(&p, 1, 23, false);
    computes(&p, 2, 21, 9);
    computes(&p, 3, 21, 8);
    assert_waits_on(&p, 0, 3, "has no gradient of worker1.1");
    end(&p);
}

/* All make every update together: any of them may be the one that is missing. */
static void in_a_hybrid_every_worker_may_be_late(void **state)
{
    struct play p;
    begin(&p, SETS("cluster.framework=custom", "layer.fc1.partition=1"));
    awaits(&p, 0, 7, false);
    awaits(&p, 1, 7, false);
    awaits(&p, 2, 7, false);
    computes(&p, 3, 7, 8);
    assert_waits_on(&p, 0, 3, "has no gradient of worker1.1");
    meets(&p, 0, 8); /* a sum over those with its place */
    meets(&p, 1, 8);
    computes(&p, 2, 8, 7);
    assert_waits_on(&p, 0, 2, "worker1.0 has not arrived");
    end(&p);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(the_own_group_is_blamed_first),
        FRESH(group_behind_the_staleness_bound_is_the_culprit),
        FRESH(without_a_bound_groups_wait_only_at_barriers),
        FRESH(a_meeting_blames_the_own_group_and_then_others),
        FRESH(server_groups_do_not_wait_for_each_other),
        FRESH(sleeping_worker_is_not_the_culprit),
        FRESH(in_a_hybrid_every_worker_may_be_late),
    };
    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
