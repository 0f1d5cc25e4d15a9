/* The survey on fake proc and sysfs folders; missing values are unknown, never zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "base/str.h"
#include "machine/survey.h"
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64], proc_root[96], sys_root[96];

static int begin(void **state)
{
    strcpy(root, "/tmp/singa-survey-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(proc_root, sizeof proc_root, "%s/proc", root);
    snprintf(sys_root, sizeof sys_root, "%s/sys", root);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static int end(void **state)
{
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    char *slash = strrchr(full, '/');
    *slash = 0;
    assert_int_equal(sw_os_mkdirs(full, 0700, NULL), SW_OK);
    *slash = '/';
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static void write_device(const char *bus, const char *class, const char *vendor, const char *speed,
                         const char *most, const char *width, const char *most_width)
{
    const char *const names[] = {
        "class",         "vendor", "current_link_speed", "max_link_speed", "current_link_width",
        "max_link_width"};
    const char *const values[] = {class, vendor, speed, most, width, most_width};
    char path[128];
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "sys/bus/pci/devices/%s/%s", bus, names[i]);
        if (values[i])
            write_text(path, values[i]);
    }
}

static struct sw_survey survey(void)
{
    struct sw_survey s = {0};
    struct sw_err err;
    assert_int_equal(sw_survey_read(&s, proc_root, sys_root, &err), SW_OK);
    return s;
}

static void missing_files_are_unknown(void **state)
{
    struct sw_survey s = survey();
    assert_string_equal(s.governor, "");
    assert_string_equal(s.thp, "");
    assert_string_equal(s.nvidia_driver, "");
    assert_int_equal(s.memory_bytes, -1);
    assert_int_equal(s.swap_bytes, -1);
    assert_int_equal(s.cgroup_memory_bytes, -1);
    assert_int_equal(s.oom_kills, -1);
    assert_int_equal(s.link_count, 0);
    assert_false(s.iommu);
    sw_survey_fini(&s);
}

static void system_settings_are_read(void **state)
{
    write_text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    write_text("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
    write_text("sys/devices/system/cpu/cpufreq/boost", "1\n");
    write_text("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write_text("proc/sys/kernel/numa_balancing", "1\n");
    write_text("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\n"
                               "MemAvailable:    400 kB\nSwapTotal:        64 kB\n"
                               "SwapFree:         32 kB\nHugePages_Total:       3\n"
                               "Hugepagesize:       2048 kB\n");
    write_text(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n");
    struct sw_survey s = survey();
    assert_string_equal(s.nvidia_driver, "580.65.06");
    assert_string_equal(s.governor, "powersave");
    assert_int_equal(s.governors, 1);
    assert_string_equal(s.thp, "madvise");
    assert_string_equal(s.numa_balancing, "1");
    assert_int_equal(s.memory_bytes, 1000 * 1024);
    assert_int_equal(s.memory_free_bytes, 400 * 1024);
    assert_int_equal(s.swap_free_bytes, 32 * 1024);
    assert_int_equal(s.huge_pages, 3);
    assert_int_equal(s.huge_page_bytes, 2048 * 1024);
    sw_survey_fini(&s);
    write_text("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
    s = survey();
    assert_int_equal(s.governors, 2);
    sw_survey_fini(&s);
}

static void smallest_memory_limit_of_the_parents_is_used(void **state)
{
    write_text("proc/self/cgroup", "0::/a/b\n");
    write_text("sys/fs/cgroup/a/b/memory.max", "max\n");
    write_text("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\n");
    write_text("sys/fs/cgroup/a/memory.max", "5000000\n");
    write_text("sys/fs/cgroup/memory.max", "9000000\n");
    struct sw_survey s = survey();
    assert_int_equal(s.cgroup_memory_bytes, 5000000);
    assert_int_equal(s.oom_kills, 2);
    sw_survey_fini(&s);
}

static void current_and_maximum_link_speeds_are_read(void **state)
{
    write_device("0000:c1:00.0", "0x030000\n", "0x10de\n", "2.5 GT/s PCIe\n", "16.0 GT/s PCIe\n",
                 "8\n", "16\n");
    write_device("0000:01:00.0", "0x010802\n", "0x144d\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n",
                 "4\n", "4\n");
    write_device("0000:02:00.0", "0x020000\n", "0x8086\n", NULL, NULL, NULL, NULL);
    write_device("0000:03:00.0", "0x030000\n", "0x1a03\n", NULL, NULL, NULL, NULL);
    write_device("0000:04:00.0", "0x030200\n", "0x10de\n", "Unknown\n", NULL, NULL, NULL);
    struct sw_survey s = survey();
    assert_int_equal(s.link_count, 3);
    assert_string_equal(s.links[0].kind, "NVMe");
    assert_int_equal(s.links[0].width, 4);
    assert_true(isnan(s.links[1].speed_gt_per_s));
    assert_int_equal(s.links[1].width, -1);
    assert_string_equal(s.links[2].bus, "0000:c1:00.0");
    assert_string_equal(s.links[2].kind, "GPU");
    assert_true(s.links[2].speed_gt_per_s == 2.5 && s.links[2].max_gt_per_s == 16);
    assert_int_equal(s.links[2].width, 8);
    assert_int_equal(s.links[2].max_width, 16);
    sw_survey_fini(&s);
}

/* A bridge's configuration: an extended capability at 0x100 (errors), then ACS at 0x140. */
static void write_bridge(const char *bus, unsigned control, size_t bytes)
{
    unsigned char config[4096] = {0};
    char path[128];
    config[0x100] = 0x01;
    config[0x102] = 0x02;
    config[0x103] = 0x14; /* next: 0x140 */
    config[0x140] = 0x0d;
    config[0x142] = 0x01;
    config[0x146] = (unsigned char)control;
    write_device(bus, "0x060400\n", "0x1022\n", NULL, NULL, NULL, NULL);
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/config", bus);
    write_bytes(path, config, bytes);
}

static void bridges_with_acs_redirect_are_counted(void **state)
{
    write_bridge("0000:00:01.0", 0x1d, 4096);
    write_bridge("0000:00:02.0", 0, 4096);
    struct sw_survey s = survey();
    assert_int_equal(s.acs_bridges, 1);
    sw_survey_fini(&s);
    write_text("sys/class/iommu/dmar0/x", "");
    write_bridge("0000:00:03.0", 0x1d, 64);
    s = survey();
    assert_true(s.iommu);
    assert_int_equal(s.acs_bridges, -1);
    sw_survey_fini(&s);
}

static void busy_cpu_time_is_counted(void **state)
{
    double ticks = (double)sysconf(_SC_CLK_TCK);
    assert_true(isnan(sw_survey_busy_s(proc_root)));
    write_text("proc/stat",
               "cpu  100 20 30 90000 80000 4 5 600 7000 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
    assert_true(sw_survey_busy_s(proc_root) == 759 / ticks);
    write_text("proc/stat", "cpu  100 20 30\n");
    assert_true(isnan(sw_survey_busy_s(proc_root)));
}

static void disk_of_a_folder_is_known(void **state)
{
    struct sw_disk disk;
    struct sw_err err;
    assert_int_equal(sw_survey_disk(root, &disk, &err), SW_OK);
    assert_true(disk.bytes > 0 && disk.free_bytes <= disk.bytes && disk.kind[0]);
    assert_int_equal(sw_survey_disk("/no/such/folder", &disk, &err), SW_ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(missing_files_are_unknown, begin, end),
        cmocka_unit_test_setup_teardown(system_settings_are_read, begin, end),
        cmocka_unit_test_setup_teardown(smallest_memory_limit_of_the_parents_is_used, begin, end),
        cmocka_unit_test_setup_teardown(current_and_maximum_link_speeds_are_read, begin, end),
        cmocka_unit_test_setup_teardown(bridges_with_acs_redirect_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(busy_cpu_time_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(disk_of_a_folder_is_known, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
