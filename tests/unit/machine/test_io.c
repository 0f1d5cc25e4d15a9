/* The location of GPUs and network cards, paths between GPUs, and visible GPUs. */
#include "boards.h"
#include <string.h>

static int count(const struct sw_machine *m, enum sw_io_kind kind)
{
    int n = 0;
    for (int i = 0; i < m->io_count; i++)
        n += m->io[i].kind == kind;
    return n;
}

/* Invariants of every machine: parents come first, GPUs are numbered by bus id, and paths between
 * GPUs are symmetric. */
static void check_map(const struct sw_machine *m)
{
    assert_int_equal(count(m, SW_IO_GPU), m->gpu_count);
    for (int i = 0; i < m->io_count; i++) {
        const struct sw_io *io = &m->io[i];
        int below = 0;
        assert_true(io->parent < i && io->node < m->node_count);
        assert_true(strlen(io->bus) >= strlen("0000:34"));
        for (int k = i + 1; k < m->io_count; k++)
            below += m->io[k].parent == i;
        if (io->kind == SW_IO_GPU || io->kind == SW_IO_NIC)
            assert_int_equal(below, 0);
        else
            assert_true(below >= (io->kind == SW_IO_BRIDGE ? 2 : 1));
        if (io->parent >= 0)
            assert_int_equal(io->node, m->io[io->parent].node);
    }
    for (int a = 0; a < m->gpu_count; a++) {
        assert_int_equal(sw_machine_gpu(m, a)->gpu, a);
        if (a > 0)
            assert_true(strcmp(sw_machine_gpu(m, a - 1)->bus, sw_machine_gpu(m, a)->bus) < 0);
        for (int b = 0; b < m->gpu_count; b++) {
            assert_int_equal(sw_gpu_path(m, a, b), sw_gpu_path(m, b, a));
            assert_true((sw_gpu_path(m, a, b) == SW_PATH_SELF) == (a == b));
        }
    }
}

static void dgx2_gpus_are_below_switches(void **state)
{
    struct sw_machine *m = recorded("nvidiaDGX2.xml");
    if (!m)
        skip();
    check_map(m);
    assert_int_equal(m->gpu_count, 16);
    assert_int_equal(count(m, SW_IO_HOST_BRIDGE), 4);
    assert_int_equal(count(m, SW_IO_BRIDGE), 12);
    for (int g = 0; g < 16; g++) {
        const struct sw_io *gpu = sw_machine_gpu(m, g);
        assert_int_equal(gpu->node, g / 8);
        assert_int_equal(gpu->package, g / 8);
        assert_string_equal(gpu->name, "Tesla V100-SXM3-32GB-H");
        assert_true(gpu->link_gb_per_s > 15 && gpu->link_gb_per_s < 16);
        assert_int_equal(m->io[gpu->parent].kind, SW_IO_BRIDGE);
        for (int h = 0; h < g; h++) {
            assert_int_equal(sw_gpu_path(m, g, h), h / 4 == g / 4   ? SW_PATH_SWITCH
                                                   : h / 8 == g / 8 ? SW_PATH_PACKAGE
                                                                    : SW_PATH_ACROSS);
            assert_true(sw_gpu_nvlink(m, g, h) == 150); /* six links of 25 GB/s to the switches */
        }
    }
    assert_string_equal(sw_machine_gpu(m, 0)->bus, "0000:34:00.0");
    assert_string_equal(sw_machine_gpu(m, 15)->bus, "0000:e7:00.0");
    sw_machine_free(m);
}

static void recorded_servers_have_gpus_and_nics_on_their_packages(void **state)
{
    struct sw_machine *m = recorded("24em64t-2n6c2t-pci.xml");
    if (!m)
        skip();
    check_map(m);
    assert_int_equal(m->gpu_count, 3);
    assert_int_equal(count(m, SW_IO_NIC), 3);
    for (int g = 0; g < 3; g++) {
        assert_int_equal(sw_machine_gpu(m, g)->node, g > 0);
        assert_string_equal(sw_machine_gpu(m, g)->name, "NVIDIA 10de:06d2");
    }
    assert_int_equal(sw_gpu_path(m, 0, 1), SW_PATH_ACROSS);
    assert_int_equal(sw_gpu_path(m, 1, 2), SW_PATH_HOST_BRIDGE);
    assert_true(sw_gpu_nvlink(m, 1, 2) == -1); /* the recording has no NVLinks */
    sw_machine_free(m);

    m = recorded("32em64t-2n8c2t-pci-normalio.xml");
    check_map(m);
    assert_int_equal(m->gpu_count, 3); /* the others are Matrox and AMD */
    bool found = false;
    for (int i = 0; i < m->io_count; i++)
        found |= m->io[i].kind == SW_IO_NIC && strstr(m->io[i].name, "ib0 mlx5_0, MT27700");
    assert_true(found);
    sw_machine_free(m);
}

static void check_links(const struct sw_machine *m, const double (*want)[BOARD_GPUS])
{
    check_map(m);
    assert_int_equal(m->gpu_count, BOARD_GPUS);
    for (int a = 0; a < BOARD_GPUS; a++)
        for (int b = 0; b < BOARD_GPUS; b++)
            if (a != b && sw_gpu_nvlink(m, a, b) != want[a][b])
                fail_msg("from GPU %d to %d: %g GB/s, not %g", a, b, sw_gpu_nvlink(m, a, b),
                         want[a][b]);
}

static void direct_nvlinks_are_read(void **state)
{
    const struct board_link pairs[] = {{0, 1, 50000}, {2, 3, 25000}};
    struct sw_machine *m = board(pairs, 2);
    check_links(m, (const double[][BOARD_GPUS]){{0, 50}, {50, 0}, {0, 0, 0, 25}, {0, 0, 25}});
    sw_machine_free(m);

    const struct board_link crossed[] = {{0, 2, 25000}, {1, 3, 50000}};
    m = board(crossed, 2);
    check_links(m, (const double[][BOARD_GPUS]){{0, 0, 25}, {0, 0, 0, 50}, {25}, {0, 50}});
    sw_machine_free(m);

    m = board(NULL, 0);
    check_links(m, (const double[BOARD_GPUS][BOARD_GPUS]){{0}});
    sw_machine_free(m);
}

/* Through switches two GPUs have the bandwidth of the slower one to all switches; direct links are
 * added. */
static void nvlinks_through_switches_are_added(void **state)
{
    const struct board_link all[] = {{0, 4, 50000}, {0, 5, 25000}, {1, 4, 25000}, {1, 5, 25000},
                                     {2, 4, 25000}, {2, 5, 25000}, {3, 5, 25000}, {2, 3, 12500}};
    struct sw_machine *m = board(all, 7);
    check_links(m, (const double[][BOARD_GPUS]){
                       {0, 50, 50, 25}, {50, 0, 50, 25}, {50, 50, 0, 25}, {25, 25, 25, 0}});
    sw_machine_free(m);
    m = board(all, 8);
    check_links(m, (const double[][BOARD_GPUS]){
                       {0, 50, 50, 25}, {50, 0, 50, 25}, {50, 50, 0, 37.5}, {25, 25, 37.5, 0}});
    sw_machine_free(m);
}

static void machine_without_gpus_has_none(void **state)
{
    struct sw_machine *m = from("numa:2 core:2 pu:1");
    assert_int_equal(m->gpu_count, 0);
    assert_int_equal(m->io_count, 0);
    sw_machine_free(m);
    assert_int_equal(sw_machine_here(&m, NULL), SW_OK);
    check_map(m);
    sw_machine_free(m);
}

/* ---- CUDA_VISIBLE_DEVICES ---- */

static const char *const uuids[] = {"GPU-aa00", "GPU-ab11", "GPU-b222", ""};

static void check_visible(const char *text, int want_count, int first, int second)
{
    int out[4] = {-1, -1, -1, -1};
    assert_int_equal(sw_gpus_visible(text, 4, uuids, out), want_count);
    if (want_count > 0)
        assert_int_equal(out[0], first);
    if (want_count > 1)
        assert_int_equal(out[1], second);
}

static void cuda_visible_devices_is_parsed_as_by_cuda(void **state)
{
    check_visible(NULL, 4, 0, 1);
    check_visible("", 0, 0, 0);
    check_visible("-1", 0, 0, 0);
    check_visible("2,0", 2, 2, 0);
    check_visible(" 3 , 1 ", 2, 3, 1);
    check_visible("1,9,2", 1, 1, 0); /* an item that names no GPU ends the list */
    check_visible("1,1,2", 1, 1, 0);
    check_visible("GPU-b,0", 2, 2, 0);
    check_visible("GPU-a,0", 0, 0, 0); /* ambiguous prefix */
    check_visible("GPU-aa00", 1, 0, 0);
    check_visible("GPU-c", 0, 0, 0);
    check_visible("MIG-GPU-aa00/1/0", 0, 0, 0);
    check_visible("0x1", 0, 0, 0);
    check_visible(",0", 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgx2_gpus_are_below_switches),
        cmocka_unit_test(recorded_servers_have_gpus_and_nics_on_their_packages),
        cmocka_unit_test(direct_nvlinks_are_read),
        cmocka_unit_test(nvlinks_through_switches_are_added),
        cmocka_unit_test(machine_without_gpus_has_none),
        cmocka_unit_test(cuda_visible_devices_is_parsed_as_by_cuda),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
