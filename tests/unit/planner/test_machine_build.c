/* Models of recorded, synthetic and imagined machines: their devices, links and figures, and which
 * figure comes first. */
#include "base/os.h"
#include "planner/machine_build.h"
#include "unit/faulty_os.h"
#include "unit/machine/boards.h"
#include <math.h>
#include <string.h>

static struct sw_machine_model *build(const struct sw_machine_args *args)
{
    struct sw_machine_model *m = NULL;
    struct sw_err err = {0};
    if (sw_machine_build(args, &m, &err) != SW_OK)
        fail_msg("%s", err.text);
    return m;
}

static void refuse(const struct sw_machine_args *args, const char *says)
{
    struct sw_machine_model *m = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_machine_build(args, &m, &err), SW_ERR_INVALID);
    assert_null(m);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static struct sw_given_figures given(const char *list)
{
    struct sw_given_figures g = {0};
    struct sw_err err = {0};
    if (sw_given_parse(&g, list, "--what-if", &err) != SW_OK)
        fail_msg("%s", err.text);
    return g;
}

static struct sw_device_request request(const char *text)
{
    struct sw_device_request r;
    struct sw_err err = {0};
    if (sw_device_request_parse(text, &r, &err) != SW_OK)
        fail_msg("%s", err.text);
    return r;
}

static void check_figure(struct sw_figure f, double value, const char *source)
{
    assert_float_equal(f.value, value, value * 1e-9);
    assert_string_equal(f.source, source);
}

/* Rules of every model: parents come first, paths fit and lead over links with a known throughput,
 * and every figure that is known says where it comes from. */
static void check_rules(const struct sw_machine_model *m)
{
    assert_true(m->device_count >= 1 && m->device_count <= SW_MODEL_DEVICES);
    for (int h = 0; h < m->hub_count; h++) {
        const struct sw_hub_model *hub = &m->hub[h];
        assert_true(hub->parent < h && (hub->parent >= 0 || h == 0) && hub->name[0]);
        assert_true(hub->bytes_per_s.value == 0 || hub->bytes_per_s.source[0]);
    }
    for (int p = 0; p < m->pair_count; p++) {
        const struct sw_pair_model *pair = &m->pair[p];
        assert_true(pair->a < pair->b && pair->b < m->device_count);
        assert_true(pair->bytes_per_s.value > 0 && pair->bytes_per_s.source[0]);
        assert_int_equal(m->device[pair->a].host, m->device[pair->b].host);
    }
    for (int a = 0; a < m->device_count; a++) {
        const struct sw_device_model *d = &m->device[a];
        assert_true(d->flops_per_s.value > 0 && d->flops_per_s.source[0]);
        assert_true(d->bytes_per_s.value > 0 && d->bytes_per_s.source[0]);
        assert_true(d->host >= 0 && d->host < m->hosts && d->name[0]);
        assert_true(a == 0 || d->host >= m->device[a - 1].host);
        for (int b = 0; b < m->device_count; b++) {
            const struct sw_model_path p = sw_machine_model_path(m, a, b);
            assert_true(p.count <= SW_PATH_LINKS && p.stop <= p.count && p.bytes_per_s > 0);
            assert_int_equal(p.count == 0, a == b || (d->host_memory && m->device[b].host_memory &&
                                                      d->host == m->device[b].host));
            assert_true(p.count == 0 || isfinite(p.bytes_per_s));
        }
    }
}

static const struct sw_hub_model *hub_of(const struct sw_machine_model *m, int device)
{
    return &m->hub[m->device[device].hub];
}

static const char *parent_name(const struct sw_machine_model *m, int device)
{
    return m->hub[hub_of(m, device)->parent].name;
}

static void gpus_are_below_their_switches(void **state)
{
    struct sw_machine *map = board(NULL, 0);
    const struct sw_machine_args args = {.map = map};
    struct sw_machine_model *m = build(&args);
    check_rules(m);
    assert_int_equal(m->device_count, 4);
    assert_string_equal(m->device[3].name, "cuda:3");
    assert_string_equal(parent_name(m, 0), parent_name(m, 1));
    assert_string_equal(parent_name(m, 0), "PCIe switch 0");
    assert_string_equal(parent_name(m, 2), "PCIe switch 1");
    check_figure(hub_of(m, 0)->bytes_per_s, 16e9, "speed of the PCIe link");
    check_figure(m->device[0].flops_per_s, 10e12, "assumed");
    assert_int_equal(sw_machine_model_path(m, 0, 1).count, 2);
    assert_int_equal(sw_machine_model_path(m, 0, 2).count, 4);
    assert_true(m->peers && !sw_machine_on_cores(&args) && m->launch_s > 0);
    assert_int_equal(m->server_threads, 4);
    assert_string_equal(m->name, "a machine with 4 GPUs");
    sw_machine_model_free(m);

    const struct sw_device_request chosen = request("cuda:2,0");
    m = build(&(struct sw_machine_args){.map = map, .request = &chosen});
    check_rules(m);
    assert_int_equal(m->device_count, 2);
    assert_string_equal(m->device[0].name, "cuda:2");
    assert_string_equal(m->device[1].name, "cuda:0");
    sw_machine_model_free(m);

    const struct sw_given_figures three = given("gpus=3");
    m = build(&(struct sw_machine_args){.map = map, .request = &chosen, .given = &three});
    check_rules(m);
    assert_string_equal(m->device[2].name, "cuda:2");
    sw_machine_model_free(m);

    const struct sw_device_request missing = request("cuda:0,4");
    refuse(&(struct sw_machine_args){.map = map, .request = &missing},
           "cuda:4 does not exist: the machine has 4 GPUs");
    sw_machine_free(map);
}

static void nvlink_is_a_link_of_its_own(void **state)
{
    static const struct board_link links[] = {{0, 1, 25000}, {2, 3, 50000}};
    struct sw_machine *map = board(links, 2);
    struct sw_machine_model *m = build(&(struct sw_machine_args){.map = map});
    check_rules(m);
    assert_int_equal(m->pair_count, 2);
    assert_true(m->pair[1].a == 2 && m->pair[1].b == 3);
    check_figure(m->pair[1].bytes_per_s, 50e9, "speed of NVLink");
    assert_float_equal(sw_machine_model_path(m, 1, 0).bytes_per_s, 25e9, 1);
    sw_machine_model_free(m);
    sw_machine_free(map);
}

/* Tested links: all sound at 10 GB/s, but 0-1 at 40 GB/s, and those of device 3 not at all. */
static void tested_links_come_before_the_map(void **state)
{
    struct sw_machine *map = board(NULL, 0);
    char names[4][16] = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    struct sw_peer_link direct[16];
    const struct sw_peer_links links = {.count = 4, .name = names, .direct = direct};
    for (int i = 0; i < 16; i++)
        direct[i] =
            (struct sw_peer_link){.state = SW_PEER_LINK_SOUND, .gb_per_s = 10, .latency_us = 7};
    direct[1].gb_per_s = 45;
    direct[4].gb_per_s = 40;
    const struct sw_machine_args args = {.map = map, .peer_links = &links};

    struct sw_machine_model *m = build(&args);
    check_rules(m);
    assert_true(m->peers);
    assert_int_equal(m->pair_count, 1);
    check_figure(m->pair[0].bytes_per_s, 40e9, "measured");
    assert_float_equal(m->pair[0].latency_s, 7e-6, 1e-12);
    sw_machine_model_free(m);

    for (int i = 0; i < 3; i++)
        direct[3 * 4 + i].state = SW_PEER_LINK_DAMAGED;
    m = build(&args);
    check_rules(m);
    assert_false(m->peers);
    assert_int_equal(m->pair_count, 3);
    const struct sw_model_path staged = sw_machine_model_path(m, 2, 3);
    assert_true(staged.stop < staged.count);
    assert_int_equal(sw_machine_model_path(m, 0, 2).count, 1);
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void given_comes_before_measured(void **state)
{
    struct sw_machine *map = board(NULL, 0);
    const struct sw_throughputs t = {.known = true,
                                     .worker_flops_per_s = 5e12,
                                     .server_flops_per_s = 8e10,
                                     .memory_bytes_per_s = 2e10,
                                     .device_memory_bytes_per_s = 9e11,
                                     .link_bytes_per_s = 11e9};
    struct sw_machine_args args = {
        .map = map, .measured = &t, .server_threads = 2, .gpu_memory_bytes = 1 << 30};
    struct sw_machine_model *m = build(&args);
    check_figure(m->device[0].flops_per_s, 5e12, "measured");
    check_figure(m->device[0].bytes_per_s, 9e11, "measured");
    check_figure(m->core_flops_per_s, 4e10, "measured");
    check_figure(m->core_bytes_per_s, 2e10, "measured");
    check_figure(hub_of(m, 1)->bytes_per_s, 11e9, "measured");
    assert_int_equal(m->device[0].memory_bytes, 1 << 30);
    sw_machine_model_free(m);

    args.measured_source = "measured 2026-11-28";
    m = build(&args);
    check_figure(m->core_bytes_per_s, 2e10, "measured 2026-11-28");
    sw_machine_model_free(m);

    const struct sw_given_figures g =
        given("gflops=9T, memory-rate=2TB/s, pcie=12GB/s, gpu-memory=16GiB");
    args.given = &g;
    m = build(&args);
    check_figure(m->device[0].flops_per_s, 9e12, "given by --what-if");
    check_figure(m->device[0].bytes_per_s, 2e12, "given by --what-if");
    check_figure(hub_of(m, 1)->bytes_per_s, 12e9, "given by --what-if");
    check_figure(m->hub[hub_of(m, 1)->parent].bytes_per_s, 12e9, "given by --what-if");
    check_figure(m->core_flops_per_s, 4e10, "measured 2026-11-28");
    assert_true(m->device[0].memory_bytes == (int64_t)16 << 30);
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void workers_get_the_cores_of_a_placement(void **state)
{
    struct sw_machine *map = from("numa:2 core:4 pu:2");
    const struct sw_throughputs t = {
        .known = true, .worker_flops_per_s = 1.2e11, .memory_bytes_per_s = 2e10};
    struct sw_machine_args args = {.map = map, .measured = &t, .worker_threads = 4};
    struct sw_machine_model *m = build(&args);
    check_rules(m);
    assert_true(sw_machine_on_cores(&args));
    assert_int_equal(m->device_count, 2);
    assert_string_equal(m->device[1].name, "cores 4-7");
    assert_string_equal(m->name, "a machine with 2 workers on cores");
    assert_true(m->device[0].host_memory && m->device[0].threads == 4);
    check_figure(m->device[0].flops_per_s, 1.2e11, "measured");
    sw_machine_model_free(m);

    for (int workers = 1; workers <= 8; workers++) {
        args.workers = workers;
        m = build(&args);
        check_rules(m);
        assert_int_equal(m->device_count, workers);
        assert_float_equal(m->device[0].flops_per_s.value, 3e10 * m->device[0].threads, 1);
        sw_machine_model_free(m);
    }

    args.workers = 9;
    refuse(&args, "9 workers need a core each");

    const struct sw_given_figures g = given("gflops=800, memory-rate=40GB/s");
    args.workers = 4;
    args.given = &g;
    m = build(&args);
    check_figure(m->device[3].flops_per_s, 2e11, "given by --what-if");
    check_figure(m->core_flops_per_s, 1e11, "given by --what-if");
    check_figure(m->device[3].bytes_per_s, 4e10, "given by --what-if");
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void simulated_devices_are_as_configured(void **state)
{
    struct sw_machine *map = from("numa:1 core:2 pu:1");
    const struct sw_device_request r =
        request("sim:gpus=3,pcie=2GB/s,latency=20us,mem=1GiB,peer=no");
    const struct sw_machine_args args = {.map = map, .request = &r};
    struct sw_machine_model *m = build(&args);
    check_rules(m);
    assert_int_equal(m->device_count, 3);
    assert_string_equal(m->device[2].name, "sim:2");
    assert_true(!m->peers && !m->device[0].host_memory && m->device[0].threads == 0);
    assert_true(m->mirrors);
    assert_int_equal(m->device[0].memory_bytes, 1 << 30);
    check_figure(hub_of(m, 2)->bytes_per_s, 2e9, "configured");
    const struct sw_model_path p = sw_machine_model_path(m, 0, 2);
    assert_true(p.count == 2 && p.stop == 1);
    assert_float_equal(p.bytes_per_s, 1e9, 1);
    assert_float_equal(p.latency_s, 40e-6, 1e-12);
    sw_machine_model_free(m);

    const struct sw_device_request peers = request("sim:gpus=2,pcie=2GB/s");
    m = build(&(struct sw_machine_args){.map = map, .request = &peers});
    assert_true(m->peers);
    assert_float_equal(sw_machine_model_path(m, 0, 1).bytes_per_s, 2e9, 1);
    sw_machine_model_free(m);

    const struct sw_device_request plain = request("sim");
    m = build(&(struct sw_machine_args){.map = map, .request = &plain});
    check_figure(hub_of(m, 0)->bytes_per_s, 1e10, "assumed");
    sw_machine_model_free(m);

    const struct sw_given_figures g = given("gpus=8");
    m = build(&(struct sw_machine_args){.map = map, .request = &peers, .given = &g});
    check_rules(m);
    assert_int_equal(m->device_count, 8);
    assert_string_equal(m->device[7].name, "sim:7");
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void hosts_are_below_the_network(void **state)
{
    struct sw_machine *map = from("numa:2 core:2 pu:1");
    const struct sw_given_figures g = given("hosts=4, gpus-per-host=1, net=1Gbit, gflops=1000");
    struct sw_machine_model *m = build(&(struct sw_machine_args){.map = map, .given = &g});
    check_rules(m);
    assert_int_equal(m->hosts, 4);
    assert_int_equal(m->device_count, 4);
    assert_string_equal(m->name, "4 hosts with 1 GPU each");
    assert_string_equal(m->hub[0].name, "network");
    assert_string_equal(m->device[2].name, "host 2: cuda:0");
    assert_string_equal(parent_name(m, 2), "host 2");
    check_figure(m->hub[hub_of(m, 2)->parent].bytes_per_s, 125e6, "given by --what-if");
    check_figure(m->device[2].flops_per_s, 1e12, "given by --what-if");
    const struct sw_model_path p = sw_machine_model_path(m, 0, 3);
    assert_int_equal(p.count, 4);
    assert_float_equal(p.bytes_per_s, 125e6, 1);
    sw_machine_model_free(m);

    const struct sw_given_figures alike = given("hosts=4");
    m = build(&(struct sw_machine_args){.map = map, .given = &alike});
    check_rules(m);
    assert_string_equal(m->name, "4 hosts with 2 workers on cores each");
    assert_int_equal(m->device_count, 8);
    assert_string_equal(m->device[7].name, "host 3: cores 2-3");
    check_figure(m->hub[1].bytes_per_s, 118e6, "assumed: 1 Gbit/s");
    sw_machine_model_free(m);

    const struct sw_host_rates rates = {.link_bytes_per_s = 9e8, .source = "measured, from a to b"};
    m = build(&(struct sw_machine_args){.map = map, .hosts = 2, .host_rates = &rates});
    assert_int_equal(m->hosts, 2);
    check_figure(m->hub[1].bytes_per_s, 9e8, "measured, from a to b");
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void server_hosts_are_one_more_host(void **state)
{
    struct sw_machine *map = from("numa:1 core:4 pu:1");
    const struct sw_given_figures g = given("hosts=2, server-hosts=7, net=1Gbit");
    struct sw_machine_model *m = build(&(struct sw_machine_args){.map = map, .given = &g});
    check_rules(m);
    assert_int_equal(m->hosts, 2);
    assert_int_equal(m->server_hosts, 7);
    assert_int_equal(m->device_count, 2);
    assert_string_equal(m->name, "2 hosts with 1 worker on cores each, and 7 with a server");
    const struct sw_hub_model *h = &m->hub[m->hub_count - 1];
    assert_string_equal(h->name, "7 server hosts");
    assert_int_equal(h->host, 2);
    assert_float_equal(h->bytes_per_s.value, 7 * 125e6, 1);
    const struct sw_model_path p = sw_machine_model_to_host(m, 1, 2);
    assert_int_equal(p.count, 2);
    assert_float_equal(p.bytes_per_s, 125e6, 1);
    sw_machine_model_free(m);

    /* A single host with workers needs a network, too. */
    const struct sw_given_figures one = given("server-hosts=1");
    m = build(&(struct sw_machine_args){.map = map, .given = &one});
    check_rules(m);
    assert_string_equal(m->hub[0].name, "network");
    assert_string_equal(m->hub[2].name, "1 server host");
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void imagined_gpus_share_switches(void **state)
{
    struct sw_machine *map = from("numa:1 core:2 pu:1");
    const struct sw_given_figures g = given("gpus=8, pcie=12GB/s");
    struct sw_machine_args args = {.map = map, .given = &g};
    struct sw_machine_model *m = build(&args);
    check_rules(m);
    assert_int_equal(m->device_count, 8);
    assert_string_equal(parent_name(m, 3), "PCIe switch 0");
    assert_string_equal(parent_name(m, 4), "PCIe switch 1");
    sw_machine_model_free(m);

    /* Fewer than the map has: the first ones; more: switches like those of the map. */
    struct sw_machine *four = board(NULL, 0);
    const struct sw_given_figures few = given("gpus=3"), more = given("gpus=6");
    m = build(&(struct sw_machine_args){.map = four, .given = &few});
    assert_int_equal(m->device_count, 3);
    assert_string_equal(parent_name(m, 2), "PCIe switch 1");
    sw_machine_model_free(m);
    m = build(&(struct sw_machine_args){.map = four, .given = &more});
    assert_int_equal(m->device_count, 6);
    check_figure(hub_of(m, 5)->bytes_per_s, 16e9, "speed of the PCIe link");
    sw_machine_model_free(m);
    sw_machine_free(four);

    const struct sw_given_figures most = given("hosts=1024, gpus-per-host=1");
    args.given = &most;
    m = build(&args);
    assert_int_equal(m->device_count, 1024);
    assert_string_equal(m->device[1023].name, "host 1023: cuda:0");
    sw_machine_model_free(m);

    const struct sw_given_figures cores = given("hosts=1024");
    args.given = &cores;
    args.workers = 2;
    refuse(&args, "1024 hosts with 2 workers each");
    const struct sw_device_request none = request("cuda");
    refuse(&(struct sw_machine_args){.map = map, .request = &none}, "the machine has no GPU");
    sw_machine_free(map);
}

static void a_recorded_machine_has_a_model(void **state)
{
    struct sw_machine *map = recorded("nvidiaDGX2.xml");
    if (!map)
        skip();
    struct sw_machine_model *m = build(&(struct sw_machine_args){.map = map, .hosts = 4});
    check_rules(m);
    assert_int_equal(m->device_count, 4 * map->gpu_count);
    assert_true(m->hub[2].parent >= 0);
    sw_machine_model_free(m);
    sw_machine_free(map);
}

/* Bridges below bridges, more than a path has links for. */
static void a_deep_tree_is_cut(void **state)
{
    enum { DEPTH = 40 };
    struct sw_machine *map = from("numa:1 core:2 pu:1");
    map->io = sw_calloc(DEPTH + 2, sizeof *map->io);
    map->gpus = sw_realloc_array(map->gpus, 2, sizeof *map->gpus);
    assert_true(map->io && map->gpus);
    for (int i = 0; i < DEPTH; i++)
        map->io[i] = (struct sw_io){.kind = i ? SW_IO_BRIDGE : SW_IO_HOST_BRIDGE,
                                    .parent = i - 1,
                                    .package = -1,
                                    .gpu = -1};
    for (int i = 0; i < 2; i++) {
        map->io[DEPTH + i] = (struct sw_io){
            .kind = SW_IO_GPU, .parent = DEPTH - 1 - 30 * i, .package = -1, .gpu = i};
        map->gpus[i] = DEPTH + i;
    }
    map->io_count = DEPTH + 2;
    map->gpu_count = 2;
    struct sw_machine_model *m = build(&(struct sw_machine_args){.map = map, .hosts = 2});
    check_rules(m);
    sw_machine_model_free(m);
    sw_machine_free(map);
}

static void failed_allocations_leave_nothing(void **state)
{
    struct sw_machine *map = from("numa:2 core:2 pu:1");
    int rc = SW_ERR_NOMEM, at = 0;
    while (rc != SW_OK) {
        struct sw_machine_model *m = NULL;
        struct sw_err err = {0};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        rc = sw_machine_build(&(struct sw_machine_args){.map = map, .hosts = 3}, &m, &err);
        assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && !m));
        sw_machine_model_free(m);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
    }
    assert_true(at > 5);
    sw_machine_free(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_below_their_switches),
        cmocka_unit_test(nvlink_is_a_link_of_its_own),
        cmocka_unit_test(tested_links_come_before_the_map),
        cmocka_unit_test(given_comes_before_measured),
        cmocka_unit_test(workers_get_the_cores_of_a_placement),
        cmocka_unit_test(simulated_devices_are_as_configured),
        cmocka_unit_test(hosts_are_below_the_network),
        cmocka_unit_test(server_hosts_are_one_more_host),
        cmocka_unit_test(imagined_gpus_share_switches),
        cmocka_unit_test(a_recorded_machine_has_a_model),
        cmocka_unit_test(a_deep_tree_is_cut),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
