/* Which cores and GPUs a run takes beside other runs. Machines are described, runs registered. */
#include "machine/registry.h"
#include "plan/placement.h"
#include "plan/usage.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sw_machine *machine(const char *text)
{
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    if (sw_machine_from(text, &m, &err) != SW_OK)
        fail_msg("%s", err.text);
    return m;
}

static void use(struct sw_usage *u, int first, int last)
{
    for (int core = first; core <= last; core++)
        u->runs[core]++;
}

static void check(const struct sw_machine *m, const struct sw_usage *u, struct sw_core_request r,
                  const char *cores)
{
    char text[256];
    struct sw_core_set chosen = sw_usage_choose(m, u, &r);
    assert_string_equal(sw_core_set_text(&chosen, text, sizeof text), cores);
}

static void free_cores_come_first(void **state)
{
    struct sw_machine *m = machine("numa:2 core:8 pu:2");
    struct sw_usage u = {0};

    check(m, &u, (struct sw_core_request){.least = 1}, "0-15");
    use(&u, 0, 9);
    check(m, &u, (struct sw_core_request){.least = 1}, "10-15");
    check(m, &u, (struct sw_core_request){.cores = 4}, "10-13");
    check(m, &u, (struct sw_core_request){.cores = 6}, "10-15");
    sw_machine_free(m);
}

static void a_number_that_does_not_fit_is_met_with_the_least_used(void **state)
{
    struct sw_machine *m = machine("numa:1 core:8 pu:1");
    struct sw_usage u = {0};

    use(&u, 0, 5);
    use(&u, 0, 2);
    check(m, &u, (struct sw_core_request){.cores = 4}, "3-4,6-7");
    check(m, &u, (struct sw_core_request){.least = 3}, "3,6-7");
    check(m, &u, (struct sw_core_request){.least = 2}, "6-7");
    use(&u, 6, 7);
    check(m, &u, (struct sw_core_request){.least = 1}, "0-7"); /* none is free: share all */
    check(m, &u, (struct sw_core_request){.cores = 2}, "3-4");
    check(m, &u, (struct sw_core_request){.cores = 100}, "0-7");
    sw_machine_free(m);
}

static void chosen_cores_lie_together(void **state)
{
    struct sw_machine *m = machine("numa:4 core:6 pu:1");
    struct sw_usage u = {0};

    use(&u, 0, 2);
    /* The node that they fill best, and cores of each worker inside one node. */
    check(m, &u, (struct sw_core_request){.cores = 3, .workers = 1}, "3-5");
    check(m, &u, (struct sw_core_request){.cores = 4, .workers = 1}, "6-9");
    check(m, &u, (struct sw_core_request){.cores = 8, .workers = 2}, "6-9,12-15");
    check(m, &u, (struct sw_core_request){.cores = 9, .workers = 1}, "3-11");
    sw_machine_free(m);
}

static void a_restricted_map_is_placed_like_a_smaller_machine(void **state)
{
    struct sw_machine *m = machine("numa:4 core:6 pu:2");
    struct sw_cluster_shape shape = {.worker_groups = 1,
                                     .workers_per_group = 2,
                                     .server_groups = 1,
                                     .servers_per_group = 2,
                                     .bind_servers = true};
    struct sw_core_set keep = {0};
    struct sw_placement *p = NULL;
    struct sw_err err;
    char text[64];

    for (int core = 4; core <= 5; core++)
        sw_core_set_add(&keep, core);
    for (int core = 18; core <= 20; core++)
        sw_core_set_add(&keep, core);
    sw_machine_restrict(m, &keep);
    assert_int_equal(m->core_count, 5);
    assert_int_equal(m->pu_count, 10);
    assert_int_equal(m->node_count, 2);
    assert_int_equal(m->nodes[1].number, 3);
    assert_int_equal(sw_machine_core(m, 19)->node, 1);
    assert_null(sw_machine_core(m, 0));

    assert_int_equal(sw_placement_new(m, &shape, false, &p, &err), SW_OK);
    const struct sw_placement_row *a = sw_placement_worker(p, 0), *b = sw_placement_worker(p, 1);
    assert_string_equal(sw_core_set_text(&a->cores, text, sizeof text), "4-5");
    assert_string_equal(sw_core_set_text(&b->cores, text, sizeof text), "18-19");
    assert_int_equal(b->numa, 3);
    sw_placement_free(p);
    sw_machine_free(m);
}

/* ---- With registered runs ---- */

static struct sw_registration *add(struct sw_registry *r, const char *name, const char *cores,
                                   enum sw_reserved_state what)
{
    struct sw_reserved run = {.state = what, .run_id = 3, .wants_cores = 4};
    struct sw_registration *registration = NULL;
    struct sw_err err = {0};

    snprintf(run.name, sizeof run.name, "%s", name);
    assert_true(sw_core_set_parse(cores, &run.cores));
    if (sw_registry_add(r, &run, &registration, &err) != SW_OK)
        fail_msg("%s", err.text);
    return registration;
}

static struct sw_registry *open_registry(void)
{
    struct sw_registry *r = NULL;
    struct sw_err err = {0};
    if (sw_registry_open(&r, &err) != SW_OK)
        fail_msg("%s", err.text);
    return r;
}

static void other_runs_are_counted_and_named(void **state)
{
    char folder[] = "/tmp/singa-usage-XXXXXX", command[64];
    struct sw_machine *m = machine("numa:1 core:8 pu:1");
    struct sw_registration *of[5];
    struct sw_bytes text = {0};
    struct sw_usage u;

    assert_non_null(mkdtemp(folder));
    setenv("SINGA_REGISTRY", folder, 1);
    static const struct {
        const char *name, *cores;
        enum sw_reserved_state state;
    } runs[] = {{"one", "0-3", SW_RESERVED_USED},
                {"waits", "", SW_RESERVED_QUEUED},
                {"own", "2-7", SW_RESERVED_USED},
                {"later", "", SW_RESERVED_QUEUED},
                {"gone", "0-7", SW_RESERVED_RELEASED}};
    for (int i = 0; i < 5; i++) {
        struct sw_registry *r = open_registry();
        of[i] = add(r, runs[i].name, runs[i].cores, runs[i].state);
        sw_registry_close(r);
    }

    struct sw_registry *r = open_registry();
    sw_usage_read(m, r, of[2], &u);
    struct sw_core_set all = sw_machine_cores(m), free = sw_usage_free_cores(m, &u);
    assert_int_equal(sw_core_set_count(&free), 4);
    assert_int_equal(u.queued_runs, 1); /* the one before */
    assert_int_equal(u.queued_cores, 4);
    sw_usage_add_users(m, r, of[2], &all, 0, &text);
    assert_non_null(strstr(text.text, "cores 0-3 are used by run 3 \"one\" (pid "));
    assert_null(
        strstr(text.text, ";")); /* neither the queue nor a run that has released its cores */

    struct sw_core_set third = {0};
    sw_core_set_add(&third, 3);
    sw_bytes_clear(&text);
    sw_usage_add_users(m, r, NULL, &third, 0, &text);
    assert_non_null(strstr(text.text, "core 3 is used by run 3 \"one\""));
    assert_non_null(strstr(text.text, "; core 3 is used by run 3 \"own\""));
    sw_registry_close(r);

    for (int i = 0; i < 5; i++)
        sw_registration_free(of[i]);
    sw_bytes_fini(&text);
    sw_machine_free(m);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_cores_come_first),
        cmocka_unit_test(a_number_that_does_not_fit_is_met_with_the_least_used),
        cmocka_unit_test(chosen_cores_lie_together),
        cmocka_unit_test(a_restricted_map_is_placed_like_a_smaller_machine),
        cmocka_unit_test(other_runs_are_counted_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
