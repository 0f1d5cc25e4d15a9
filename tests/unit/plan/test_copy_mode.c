/* What `copy = auto` is: a function of what workers compute on, how they get along and what has to
 * be looked at on the host. GPUs are data here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/conf.h"
#include <string.h>

static const struct sw_device_caps gpu = {.own_processor = true}, sim = {.simulated = true},
                                   cores = {.host_memory = true};
static char why[128];

static enum sw_copy_mode mode(struct sw_copy_case c)
{
    enum sw_copy_mode m = sw_cluster_copy(&c, why, sizeof why);
    assert_true(strlen(why) > 0);
    return m;
}

#define assert_mode(m, says, ...)                                                                  \
    do {                                                                                           \
        assert_int_equal(mode((struct sw_copy_case){__VA_ARGS__}), m);                             \
        assert_non_null(strstr(why, says));                                                        \
    } while (0)

static void gpus_update_by_themselves(void **state)
{
    assert_mode(SW_COPY_NONE, "the GPU updates by itself", .caps = &gpu, .workers = 1);
    assert_mode(SW_COPY_NONE, "only sums of gradients", .caps = &gpu, .workers = 4);
}

/* A single worker has nothing to add up. */
static void servers_are_no_matter_of_one_gpu(void **state)
{
    assert_mode(SW_COPY_NONE, "by itself", .caps = &gpu, .workers = 1, .servers = "servers add up");
    assert_mode(SW_COPY_ASYNC, "servers add up", .caps = &gpu, .workers = 2,
                .servers = "servers add up");
}

static void what_the_host_has_to_see_is_copied(void **state)
{
    assert_mode(SW_COPY_ASYNC, "looked at", .caps = &gpu, .workers = 1,
                .host = "all gradients are looked at");
    assert_mode(SW_COPY_ASYNC, "devices and CPUs", .caps = &gpu, .workers = 2, .mixed = true);
    assert_mode(SW_COPY_ASYNC, "on their own", .caps = &gpu, .workers = 2, .apart = true);
    assert_mode(SW_COPY_ASYNC, "on their own", .caps = &gpu, .workers = 1, .apart = true);
}

static void only_gpus_do(void **state)
{
    assert_mode(SW_COPY_ASYNC, "rehearse servers", .caps = &sim, .workers = 1);
    assert_mode(SW_COPY_ASYNC, "rehearse servers", .caps = &sim, .workers = 4);
    assert_mode(SW_COPY_ASYNC, "nothing is copied", .caps = &cores, .workers = 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_update_by_themselves),
        cmocka_unit_test(servers_are_no_matter_of_one_gpu),
        cmocka_unit_test(what_the_host_has_to_see_is_copied),
        cmocka_unit_test(only_gpus_do),
    };
    return cmocka_run_group_tests_name("copy mode", tests, NULL, NULL);
}
