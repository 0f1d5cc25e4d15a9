/* The registry of device drivers, and the parsing of option texts. */
#include "device/driver.h"
#include "device_support.h"
#include <string.h>

static struct sw_device_request parsed(const char *text)
{
    struct sw_device_request r;
    struct sw_err err = {0};
    ASSERT_OK(sw_device_request_parse(text, &r, &err));
    return r;
}

static void drivers_implement_their_capabilities(void **state)
{
    int hosts = 0;
    for (const struct sw_driver *const *d = sw_drivers; *d; d++) {
        const struct sw_device_caps *c = &(*d)->caps;
        assert_ptr_equal(sw_driver_find((*d)->name), *d);
        assert_true((*d)->forms[0] && (*d)->label && (*d)->open && (*d)->gemm_side > 0);
        assert_int_equal(c->on_bus, (*d)->enumerate != NULL);
        assert_int_equal(c->host_memory, (*d)->identify == NULL);
        assert_int_equal(c->host_memory, (*d)->open_probe == NULL);
        assert_int_equal(c->host_memory, (*d)->start_team != NULL);
        assert_false(c->host_memory && (c->own_processor || c->simulated || c->on_bus));
        hosts += c->host_memory;
    }
    assert_int_equal(hosts, 1);
    assert_true(sw_driver_host()->caps.host_memory && sw_driver_on_bus()->caps.on_bus);
}

static void option_texts_select_devices(void **state)
{
    struct sw_device_request r = parsed("auto");
    assert_ptr_equal(r.driver, sw_driver_host());
    assert_string_equal(r.text, "cpu");
    assert_int_equal(r.count, 0);

    r = parsed("cuda");
    assert_true(r.driver->caps.on_bus && !r.mixed);
    assert_int_equal(r.count, 0);

    r = parsed("cuda:2,0,2+cpu");
    assert_true(r.mixed && !r.peers);
    assert_string_equal(r.text, "cuda:2,0,2+cpu");
    assert_string_equal(r.options, "2,0,2");
    assert_int_equal(r.count, 3);
    assert_int_equal(r.index[0] * 100 + r.index[1] * 10 + r.index[2], 202);

    r = parsed("sim");
    assert_true(r.driver->caps.simulated && r.peers);
    assert_int_equal(r.count, 1);

    r = parsed("sim:gpus=3,pcie=2GB/s,latency=20us,mem=1GiB,peer=no+cpu");
    assert_true(r.mixed && !r.peers);
    assert_string_equal(r.options, "gpus=3,pcie=2GB/s,latency=20us,mem=1GiB,peer=no");
    assert_int_equal(r.count, 3);
    assert_int_equal(r.index[2], 2);
    assert_int_equal(r.link_bytes_per_s, 2000000000);
    assert_float_equal(r.link_latency_s, 20e-6, 1e-12);
    assert_int_equal(r.memory_bytes, 1 << 30);
}

static void unknown_device_texts_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"tpu", "expected auto, cpu, cuda, cuda:0,2, "},
        {"tpu", "with some workers on the CPU cuda+cpu, cuda:0,2+cpu, "},
        {"", "unknown device"},
        {"cudax", "unknown device"},
        {"cpu:0", "unknown device"},
        {"cpu+cpu", "unknown device"},
        {"auto+cpu", "unknown device"},
        {"cuda+sim", "unknown device"},
        {"cuda:", "GPU numbers"},
        {"cuda:0,", "GPU numbers"},
        {"cuda:-1", "GPU numbers"},
        {"sim:gpu=2", "did you mean 'gpus'"},
    };
    char longer[400];
    struct sw_device_request r = {.count = 77};
    struct sw_err err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sw_device_request_parse(wrong[i].text, &r, &err), SW_ERR_INVALID);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("'%s': %s", wrong[i].text, err.text);
    }
    memset(longer, '0', sizeof longer);
    memcpy(longer, "cuda:", 5);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(sw_device_request_parse(longer, &r, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "longer than 255 characters"));
    assert_int_equal(r.count, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drivers_implement_their_capabilities),
        cmocka_unit_test(option_texts_select_devices),
        cmocka_unit_test(unknown_device_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
