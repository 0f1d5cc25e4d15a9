/* What `copy = auto` is: a function of what workers compute on, how they get along and what has to
 * be looked at on the host. GPUs are data here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/driver.h"
#include "plan/choices.h"
#include "run/schema.h"
#include <string.h>

static const struct sw_driver gpu = {.caps.own_processor = true}, sim = {.caps.simulated = true},
                              cores = {.caps.host_memory = true};
static struct sw_recipe *recipe;
static struct sw_exchange_plan p;

struct job {
    const struct sw_driver *driver;
    int workers;
    bool mixed, is_async, repeat_exact;
    bool unbound; /* servers are not those of workers */
    enum sw_on_nan on_nan;
    enum sw_exchange_mode comm;
};

static enum sw_copy_mode mode(struct job job)
{
    const struct sw_topology topology = {
        .workers = job.workers, .is_async = job.is_async, .binds_servers = !job.unbound};
    const struct sw_job_conf conf = {.repeat_exact = job.repeat_exact, .on_nan = job.on_nan};
    const struct sw_cluster_conf cluster = {.comm = job.comm};
    const struct sw_device_request request = {.driver = job.driver, .mixed = job.mixed};
    p = (struct sw_exchange_plan){
        .cluster = &cluster,
        .args = {.recipe = recipe, .conf = &conf, .topology = &topology, .request = &request}};
    sw_copy_choose(&p);
    assert_true(strlen(p.copy_why) > 0);
    return p.copy;
}

#define assert_mode(m, says, ...)                                                                  \
    do {                                                                                           \
        assert_int_equal(mode((struct job){__VA_ARGS__}), m);                                      \
        assert_non_null(strstr(p.copy_why, says));                                                 \
    } while (0)

static void gpus_make_the_updates(void **state)
{
    assert_mode(SW_COPY_NONE, "the GPU updates its parameters", .driver = &gpu, .workers = 1);
    assert_mode(SW_COPY_NONE, "only gradient sums", .driver = &gpu, .workers = 4);
}

/* A single worker has nothing to add up. */
static void servers_do_not_matter_with_one_gpu(void **state)
{
    assert_mode(SW_COPY_NONE, "updates its parameters", .driver = &gpu, .workers = 1,
                .unbound = true, .repeat_exact = true, .comm = SW_EXCHANGE_ADAM);
    assert_mode(SW_COPY_ASYNC, "servers that are not bound", .driver = &gpu, .workers = 2,
                .unbound = true);
    assert_mode(SW_COPY_ASYNC, "in one order", .driver = &gpu, .workers = 2, .repeat_exact = true);
    assert_mode(SW_COPY_ASYNC, "factors", .driver = &gpu, .workers = 2, .comm = SW_EXCHANGE_ADAM);
    assert_mode(SW_COPY_ASYNC, "more than 16", .driver = &gpu, .workers = 17);
}

static void values_that_the_host_needs_are_copied(void **state)
{
    assert_mode(SW_COPY_ASYNC, "rollback", .driver = &gpu, .workers = 1,
                .on_nan = SW_ON_NAN_ROLLBACK);
    assert_mode(SW_COPY_ASYNC, "devices and CPUs", .driver = &gpu, .workers = 2, .mixed = true);
    assert_mode(SW_COPY_ASYNC, "asynchronous groups", .driver = &gpu, .workers = 2,
                .is_async = true);
    assert_mode(SW_COPY_ASYNC, "asynchronous groups", .driver = &gpu, .workers = 1,
                .is_async = true);
}

static void only_gpus_make_updates(void **state)
{
    assert_mode(SW_COPY_ASYNC, "exercise the server path", .driver = &sim, .workers = 1);
    assert_mode(SW_COPY_ASYNC, "exercise the server path", .driver = &sim, .workers = 4);
    assert_mode(SW_COPY_ASYNC, "nothing is copied", .driver = &cores, .workers = 4);
}

static int load(void **state)
{
    const struct sw_recipe_source source = {.path = "recipe", .text = "", .text_bytes = 0};
    struct sw_err err = {0};
    (void)!sw_recipe_load(&source, sw_train_schema(), &recipe, &err);
    return recipe ? 0 : -1;
}

static int unload(void **state)
{
    sw_recipe_free(recipe);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_make_the_updates),
        cmocka_unit_test(servers_do_not_matter_with_one_gpu),
        cmocka_unit_test(values_that_the_host_needs_are_copied),
        cmocka_unit_test(only_gpus_make_updates),
    };
    return cmocka_run_group_tests_name("copy mode", tests, load, unload);
}
