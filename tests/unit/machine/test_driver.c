/* Matching the machine map with the driver's list of GPUs, which differ in containers. */
#include "machine/driver.h"
#include "plan/placement.h"
#include "recorded.h"
#include <stdio.h>
#include <string.h>

static void match(struct sw_machine *m, const struct sw_device_info *list, int count)
{
    struct sw_err err = {0};
    if (sw_machine_match_gpus(m, list, count, &err) != SW_OK)
        fail_msg("%s", err.text);
}

static void gpus_missing_from_pci_are_added(void **state)
{
    static const struct sw_device_info list[] = {{"0000:0f:00.0", "H200"},
                                                 {"0000:1f:00.0", "H200"}};
    struct sw_cluster_shape shape = {.worker_groups = 1,
                                     .workers_per_group = 2,
                                     .server_groups = 1,
                                     .servers_per_group = 1,
                                     .driver = sw_driver_on_bus()};
    struct sw_machine *m = from("numa:2 core:4 pu:1");
    struct sw_placement *p = NULL;
    struct sw_err err = {0};
    match(m, list, 2);
    assert_int_equal(m->gpu_count, 2);
    assert_string_equal(sw_machine_gpu(m, 1)->bus, "0000:1f:00.0");
    assert_string_equal(sw_machine_gpu(m, 1)->name, "H200");
    assert_int_equal(sw_gpu_path(m, 0, 1), SW_PATH_ACROSS);
    if (sw_placement_new(m, &shape, false, &p, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_string_equal(p->rows[1].device, "cuda:1");
    sw_placement_free(p);
    sw_machine_free(m);
}

/* The driver lists two of sixteen GPUs, in another order and another spelling. */
static void gpus_unknown_to_the_driver_are_hidden(void **state)
{
    struct sw_machine *m = recorded("nvidiaDGX2.xml");
    if (!m)
        skip();
    struct sw_device_info list[2] = {{.name = "A"}, {.name = "B"}};
    assert_int_equal(m->gpu_count, 16);
    snprintf(list[0].bus, sizeof list[0].bus, "0000%.14s", sw_machine_gpu(m, 9)->bus);
    for (char *c = list[0].bus; *c; c++)
        *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 'a' + 'A' : *c);
    snprintf(list[1].bus, sizeof list[1].bus, "%s", sw_machine_gpu(m, 3)->bus);
    match(m, list, 2);
    assert_int_equal(m->gpu_count, 2);
    assert_int_equal(m->hidden_gpus, 14);
    assert_string_equal(sw_machine_gpu(m, 0)->bus, list[1].bus);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sw_machine_gpu(m, i)->gpu, i);
    assert_true(sw_gpu_nvlink(m, 0, 1) < 0); /* the rows had the old numbers */
    sw_machine_free(m);
}

static void matching_map_is_unchanged(void **state)
{
    struct sw_machine *m = recorded("nvidiaDGX2.xml");
    if (!m)
        skip();
    struct sw_device_info list[16] = {{.name = ""}};
    double link = sw_gpu_nvlink(m, 0, 1);
    for (int i = 0; i < 16; i++)
        snprintf(list[i].bus, sizeof list[i].bus, "%s", sw_machine_gpu(m, i)->bus);
    match(m, list, 16);
    assert_int_equal(m->gpu_count, 16);
    assert_int_equal(m->hidden_gpus, 0);
    assert_true(sw_gpu_nvlink(m, 0, 1) == link);
    sw_machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_missing_from_pci_are_added),
        cmocka_unit_test(gpus_unknown_to_the_driver_are_hidden),
        cmocka_unit_test(matching_map_is_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
