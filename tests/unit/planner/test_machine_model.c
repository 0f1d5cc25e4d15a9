/* Paths of the machine model, on two hosts: each has two GPUs below a switch and one below another,
 * a pair of its own, and cores. */
#include "planner/machine_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

enum { NETWORK, HOST_A, HOST_B, SWITCH_0, SWITCH_1, GPU_0, GPU_1, GPU_2, GPU_B, HUBS };
enum { CUDA_0, CUDA_1, CUDA_2, CORES_0, CORES_1, CUDA_B, DEVICES };

static struct sw_machine_model *model(bool peers)
{
    static const struct sw_hub_model hubs[HUBS] = {
        [NETWORK] = {"network", -1, -1, false, {0}, 0},
        [HOST_A] = {"host a", NETWORK, 0, true, {100, ""}, 1},
        [HOST_B] = {"host b", NETWORK, 1, true, {50, ""}, 1},
        [SWITCH_0] = {"PCIe switch 0", HOST_A, 0, false, {8000, ""}, 0.01},
        [SWITCH_1] = {"PCIe switch 1", HOST_A, 0, false, {8000, ""}, 0.01},
        [GPU_0] = {"cuda:0", SWITCH_0, 0, false, {4000, ""}, 0.1},
        [GPU_1] = {"cuda:1", SWITCH_0, 0, false, {2000, ""}, 0.1},
        [GPU_2] = {"cuda:2", SWITCH_1, 0, false, {4000, ""}, 0.1},
        [GPU_B] = {"b: cuda:0", HOST_B, 1, false, {0, ""}, 0.1}};
    static const struct sw_device_model devices[DEVICES] = {
        [CUDA_0] = {.name = "cuda:0", .hub = GPU_0},
        [CUDA_1] = {.name = "cuda:1", .hub = GPU_1},
        [CUDA_2] = {.name = "cuda:2", .hub = GPU_2},
        [CORES_0] = {.name = "cores 0-1", .hub = HOST_A, .host_memory = true, .threads = 2},
        [CORES_1] = {.name = "cores 2-3", .hub = HOST_A, .host_memory = true, .threads = 2},
        [CUDA_B] = {.name = "b: cuda:0", .hub = GPU_B, .host = 1}};
    static const struct sw_pair_model pair = {CUDA_1, CUDA_2, {25000, ""}, 0.001};
    struct sw_machine_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (struct sw_machine_model){.device = malloc(sizeof devices),
                                   .device_count = DEVICES,
                                   .hub = malloc(sizeof hubs),
                                   .hub_count = HUBS,
                                   .pair = malloc(sizeof pair),
                                   .pair_count = 1,
                                   .hosts = 2,
                                   .peers = peers};
    assert_true(m->device && m->hub && m->pair);
    memcpy(m->device, devices, sizeof devices);
    memcpy(m->hub, hubs, sizeof hubs);
    memcpy(m->pair, &pair, sizeof pair);
    return m;
}

static void check(struct sw_model_path p, int stop, const int *links, int count)
{
    assert_int_equal(p.count, count);
    assert_int_equal(p.stop, stop);
    for (int i = 0; i < count; i++)
        assert_int_equal(p.link[i], links[i]);
}
#define CHECK(path, stop, ...)                                                                     \
    check(path, stop, (const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)))

static int up(int hub)
{
    return 2 * hub;
}

static int down(int hub)
{
    return 2 * hub + 1;
}

static void a_path_turns_at_the_closest_common_hub(void **state)
{
    struct sw_machine_model *m = model(true);
    struct sw_model_path p = sw_machine_model_path(m, CUDA_0, CUDA_1);
    CHECK(p, 2, up(GPU_0), down(GPU_1));
    assert_float_equal(p.bytes_per_s, 2000, 1e-9);
    assert_float_equal(p.latency_s, 0.1, 1e-12);
    CHECK(sw_machine_model_path(m, CUDA_2, CUDA_0), 4, up(GPU_2), up(SWITCH_1), down(SWITCH_0),
          down(GPU_0));
    sw_machine_model_free(m);
}

static void without_peers_data_stops_in_host_memory(void **state)
{
    struct sw_machine_model *m = model(false);
    struct sw_model_path p = sw_machine_model_path(m, CUDA_0, CUDA_1);
    CHECK(p, 2, up(GPU_0), up(SWITCH_0), down(SWITCH_0), down(GPU_1));
    assert_float_equal(p.bytes_per_s, 1 / (1.0 / 4000 + 1.0 / 2000), 1e-9);
    assert_float_equal(p.latency_s, 0.2, 1e-12);
    CHECK(sw_machine_model_path(m, CUDA_0, CUDA_2), 2, up(GPU_0), up(SWITCH_0), down(SWITCH_1),
          down(GPU_2));

    /* A hub in between may have memory, too: that of a socket. */
    m->hub[SWITCH_0].memory = true;
    CHECK(sw_machine_model_path(m, CUDA_0, CUDA_1), 1, up(GPU_0), down(GPU_1));
    sw_machine_model_free(m);
}

static void activations_stop_in_host_memory(void **state)
{
    struct sw_machine_model *m = model(true);
    struct sw_model_path p = sw_machine_model_staged_path(m, CUDA_0, CUDA_1);
    CHECK(p, 2, up(GPU_0), up(SWITCH_0), down(SWITCH_0), down(GPU_1));
    assert_float_equal(p.latency_s, 0.2, 1e-12);
    CHECK(sw_machine_model_staged_path(m, CUDA_1, CUDA_2), 2, up(GPU_1), up(SWITCH_0),
          down(SWITCH_1), down(GPU_2)); /* though they have a link of their own */
    assert_int_equal(sw_machine_model_staged_path(m, CORES_0, CORES_1).count, 0);
    assert_int_equal(sw_machine_model_staged_path(m, CUDA_0, CUDA_0).count, 0);
    sw_machine_model_free(m);
}

static void a_link_of_a_pair_comes_first(void **state)
{
    struct sw_machine_model *m = model(false);
    struct sw_model_path p = sw_machine_model_path(m, CUDA_1, CUDA_2);
    CHECK(p, 1, 2 * HUBS);
    assert_float_equal(p.bytes_per_s, 25000, 1e-9);
    assert_float_equal(p.latency_s, 0.001, 1e-12);
    CHECK(sw_machine_model_path(m, CUDA_2, CUDA_1), 1, 2 * HUBS + 1);
    sw_machine_model_free(m);
}

static void workers_on_cores_share_the_memory(void **state)
{
    struct sw_machine_model *m = model(true);
    struct sw_model_path p = sw_machine_model_path(m, CORES_0, CORES_1);
    assert_int_equal(p.count, 0);
    assert_true(isinf(p.bytes_per_s) && p.latency_s == 0);
    assert_int_equal(sw_machine_model_path(m, CUDA_0, CUDA_0).count, 0);
    m->peers = false;
    CHECK(sw_machine_model_path(m, CORES_0, CUDA_2), 2, down(SWITCH_1), down(GPU_2));
    sw_machine_model_free(m);
}

static void hosts_are_reached_over_the_network(void **state)
{
    struct sw_machine_model *m = model(false);
    struct sw_model_path p = sw_machine_model_path(m, CUDA_B, CUDA_0);
    CHECK(p, 5, up(GPU_B), up(HOST_B), down(HOST_A), down(SWITCH_0), down(GPU_0));
    assert_float_equal(p.bytes_per_s, 50, 1e-9);
    assert_float_equal(p.latency_s, 1, 1e-9);
    CHECK(sw_machine_model_path(m, CORES_0, CUDA_B), 3, up(HOST_A), down(HOST_B), down(GPU_B));
    sw_machine_model_free(m);
}

static void servers_are_in_the_memory_of_a_host(void **state)
{
    struct sw_machine_model *m = model(true);
    CHECK(sw_machine_model_to_host(m, CUDA_0, 0), 2, up(GPU_0), up(SWITCH_0));
    CHECK(sw_machine_model_from_host(m, 0, CUDA_0), 2, down(SWITCH_0), down(GPU_0));
    CHECK(sw_machine_model_to_host(m, CUDA_0, 1), 4, up(GPU_0), up(SWITCH_0), up(HOST_A),
          down(HOST_B));
    CHECK(sw_machine_model_from_host(m, 1, CORES_0), 2, up(HOST_B), down(HOST_A));
    assert_int_equal(sw_machine_model_to_host(m, CORES_1, 0).count, 0);
    m->hub[SWITCH_0].memory = true;
    CHECK(sw_machine_model_to_host(m, CUDA_0, 0), 1, up(GPU_0));
    sw_machine_model_free(m);
}

static void links_have_rates_and_names(void **state)
{
    struct sw_machine_model *m = model(true);
    char name[80];
    assert_int_equal(sw_machine_model_links(m), 2 * HUBS + 2);
    assert_true(sw_machine_model_rate(m, down(HOST_B)) == 50);
    assert_true(isinf(sw_machine_model_rate(m, up(GPU_B))));
    assert_true(sw_machine_model_latency(m, up(SWITCH_0)) == 0.01);
    assert_string_equal(sw_machine_model_link_name(m, up(HOST_B), name), "host b, sending");
    assert_string_equal(sw_machine_model_link_name(m, down(GPU_0), name), "cuda:0, receiving");
    assert_string_equal(sw_machine_model_link_name(m, 2 * HUBS + 1, name), "cuda:2 to cuda:1");
    sw_machine_model_free(m);
    sw_machine_model_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_turns_at_the_closest_common_hub),
        cmocka_unit_test(without_peers_data_stops_in_host_memory),
        cmocka_unit_test(activations_stop_in_host_memory),
        cmocka_unit_test(a_link_of_a_pair_comes_first),
        cmocka_unit_test(workers_on_cores_share_the_memory),
        cmocka_unit_test(hosts_are_reached_over_the_network),
        cmocka_unit_test(servers_are_in_the_memory_of_a_host),
        cmocka_unit_test(links_have_rates_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
