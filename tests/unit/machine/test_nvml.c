/* NVML, replaced by a library that this test compiles: readings are returned, and missing values
 * are NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine/nvml.h"
#include "unit/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char played[] =
    "#include <string.h>\n"
    "struct u { unsigned gpu, memory; };\n"
    "struct m { unsigned long long total, free, used; };\n"
    "static int begun;\n"
    "int nvmlInit_v2(void) { begun++; return 0; }\n"
    "int nvmlShutdown(void) { begun--; return 0; }\n"
    "int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **d)\n"
    "{ *d = (void *)8; return begun && !strcmp(bus, \"0000:34:00.0\") ? 0 : 6; }\n"
    "int nvmlDeviceGetUtilizationRates(void *d, struct u *u)\n"
    "{ u->gpu = 97; u->memory = 1; return d != (void *)8; }\n"
    "int nvmlDeviceGetMemoryInfo(void *d, struct m *m)\n"
    "{ m->total = 100; m->free = 60; m->used = 40; return d != (void *)8; }\n"
    "int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { (void)d; *mw = 318250; return 0; }\n"
    "int nvmlDeviceGetTemperature(void *d, int s, unsigned *c)\n"
    "{ (void)d; *c = 64; return s ? 2 : 0; }\n"
    "int nvmlDeviceGetClockInfo(void *d, int k, unsigned *mhz)\n"
    "{ (void)d; (void)k; *mhz = 1; return 3; }\n";

/* The library's path, or NULL if there is no compiler. */
static const char *compiled(const char *source)
{
    const char *path = scratch_path("libplayed.so"), *c = scratch_path("played.c");
    const char *cc = getenv("CC");
    char command[2048];
    FILE *f = fopen(c, "w");
    assert_non_null(f);
    fputs(source, f);
    fclose(f);
    snprintf(command, sizeof command, "%s -shared -fPIC -o %s %s", cc ? cc : "cc", path, c);
    return system(command) == 0 ? path : NULL;
}

static void gpu_readings_are_returned(void **state)
{
    struct sw_nvml *n;
    struct sw_err err;
    const char *library = compiled(played);
    if (!library) {
        print_message("skipped: there is no compiler to make a library\n");
        skip();
    }
    assert_int_equal(sw_nvml_open(&n, library, &err), SW_OK);
    struct sw_gpu_reading r = sw_nvml_read(n, "0000:34:00.0");
    assert_true(r.util == 0.97 && r.mem_used == 40 && r.temp_c == 64);
    assert_true(fabs(r.power_w - 318.25) < 1e-9);
    assert_true(isnan(r.clock_mhz)); /* the call failed */
    r = sw_nvml_read(n, "0000:99:00.0");
    assert_true(isnan(r.util) && isnan(r.mem_used) && isnan(r.power_w) && isnan(r.temp_c));
    sw_nvml_close(n);
}

/* What an old driver has, or a new one has given up. */
static void missing_function_costs_its_figure_only(void **state)
{
    struct sw_nvml *n;
    struct sw_err err;
    const char *library =
        compiled("int nvmlInit_v2(void) { return 0; }\n"
                 "int nvmlShutdown(void) { return 0; }\n"
                 "int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **d)\n"
                 "{ *d = (void *)bus; return 0; }\n"
                 "int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)\n"
                 "{ (void)d; *mw = 1500; return 0; }\n");
    if (!library) {
        print_message("skipped: there is no compiler to make a library\n");
        skip();
    }
    assert_int_equal(sw_nvml_open(&n, library, &err), SW_OK);
    struct sw_gpu_reading r = sw_nvml_read(n, "0000:34:00.0");
    assert_true(fabs(r.power_w - 1.5) < 1e-9);
    assert_true(isnan(r.util) && isnan(r.mem_used) && isnan(r.temp_c) && isnan(r.clock_mhz));
    sw_nvml_close(n);
}

static void library_without_nvml_functions_is_refused(void **state)
{
    struct sw_nvml *n = NULL;
    struct sw_err err;
    assert_int_equal(sw_nvml_open(&n, scratch_path("none.so"), &err), SW_ERR_NOTFOUND);
    const char *library = compiled("int nvmlInit_v2(void) { return 0; }\n");
    if (library)
        assert_int_equal(sw_nvml_open(&n, library, &err), SW_ERR_LIBRARY);
    assert_null(n);
    sw_nvml_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gpu_readings_are_returned, scratch_begin, scratch_end),
        cmocka_unit_test_setup_teardown(missing_function_costs_its_figure_only, scratch_begin,
                                        scratch_end),
        cmocka_unit_test_setup_teardown(library_without_nvml_functions_is_refused, scratch_begin,
                                        scratch_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
