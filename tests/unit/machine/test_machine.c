#include "machine/machine.h"
#include "machine/quota.h"
#include "recorded.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_cores(const struct sw_core_set *s, const char *want)
{
    char text[256];
    assert_string_equal(sw_core_set_text(s, text, sizeof text), want);
}

/* ---- core sets ---- */

static void core_sets_are_written_as_ranges(void **state)
{
    struct sw_core_set s = {0};
    check_cores(&s, "");
    sw_core_set_add(&s, 0), sw_core_set_add(&s, 2);
    check_cores(&s, "0,2");
    sw_core_set_add(&s, 1), sw_core_set_add(&s, 63), sw_core_set_add(&s, 64);
    check_cores(&s, "0-2,63-64");
    sw_core_set_add(&s, SW_MAX_CORES - 1);
    check_cores(&s, "0-2,63-64,1023");
    assert_int_equal(sw_core_set_count(&s), 6);
    sw_core_set_remove(&s, 1);
    assert_false(sw_core_set_has(&s, 1) || sw_core_set_has(&s, -1) ||
                 sw_core_set_has(&s, SW_MAX_CORES));
    check_cores(&s, "0,2,63-64,1023");
}

static void core_set_text_never_overflows(void **state)
{
    struct sw_core_set s = {0};
    char whole[4096], cut[4096];
    for (int c = 0; c < SW_MAX_CORES; c += 3)
        sw_core_set_add(&s, c);
    sw_core_set_text(&s, whole, sizeof whole);
    for (size_t bytes = 4; bytes < 300; bytes++) {
        memset(cut, 'x', sizeof cut);
        sw_core_set_text(&s, cut, bytes);
        size_t n = strlen(cut);
        assert_true(n < bytes && cut[bytes] == 'x');
        assert_string_equal(cut + n - 3, "...");
        assert_memory_equal(cut, whole, n - 3);
    }
}

/* ---- maps of other machines ---- */

static void synthetic_machine_matches_its_description(void **state)
{
    struct sw_machine *m = from("numa:4 core:6 pu:2");
    assert_false(m->here);
    assert_int_equal(m->node_count, 4);
    assert_int_equal(m->core_count, 24);
    assert_int_equal(m->pu_count, 48);
    assert_int_equal(m->hidden_pus, 0);
    assert_true(m->cpu_quota == 0);
    assert_int_equal(sw_machine_threads(m), 24); /* per core, not per hardware thread */
    for (int n = 0; n < 4; n++) {
        struct sw_core_set cores = sw_machine_node_cores(m, UINT64_C(1) << n);
        assert_int_equal(m->nodes[n].number, n);
        assert_int_equal(sw_core_set_count(&cores), 6);
        assert_int_equal(sw_core_set_next(&cores, -1), 6 * n);
    }
    for (int c = 0; c < 24; c++) {
        const struct sw_core *core = sw_machine_core(m, c);
        assert_true(core && core->number == c && core->node == c / 6 && core->pus == 2);
    }
    assert_null(sw_machine_core(m, 24));
    sw_machine_free(m);
}

static void a_recorded_server_has_its_packages(void **state)
{
    struct sw_machine *m = recorded("32em64t-2n8c2t-pci-normalio.xml");
    if (!m)
        skip();
    assert_string_equal(m->host, "conan");
    assert_string_equal(m->cpu_model, "Intel(R) Xeon(R) CPU E5-2650 0 @ 2.00GHz");
    assert_int_equal(m->package_count, 2);
    assert_int_equal(m->node_count, 2);
    assert_int_equal(m->core_count, 16);
    assert_int_equal(m->pu_count, 32);
    assert_int_equal(m->caches[m->cache_count - 1].bytes, 256 << 10); /* of level 2 */
    assert_int_equal(m->caches[0].bytes, 20 << 20);                   /* of level 3 */
    check_cores(&m->nodes[1].cores, "8-15");
    assert_int_equal(m->memory_bytes, m->nodes[0].memory_bytes + m->nodes[1].memory_bytes);
    sw_machine_free(m);
}

/* The recording was made inside a cpuset: PUs 0-3,5-6,12-15 of 16, memory of five of eight nodes.
 */
static void cores_outside_the_cpuset_are_hidden(void **state)
{
    struct sw_machine *m = recorded("16amd64-8n2c-cpusets.xml");
    if (!m)
        skip();
    int64_t sum = 0;
    int with_memory = 0, cores = 0;
    assert_int_equal(m->pu_count, 10);
    assert_int_equal(m->hidden_pus, 6);
    assert_int_equal(m->core_count, 10);
    for (int n = 0; n < m->node_count; n++) {
        with_memory += m->nodes[n].number >= 0;
        sum += m->nodes[n].memory_bytes;
        cores += sw_core_set_count(&m->nodes[n].cores);
        if (n > 0)
            assert_true((unsigned)m->nodes[n].number >= (unsigned)m->nodes[n - 1].number);
    }
    assert_int_equal(with_memory, 3);
    assert_int_equal(cores, 10);
    assert_true(sum <= m->memory_bytes);
    for (int c = 0; c < m->core_count; c++) {
        const struct sw_core *core = &m->cores[c];
        assert_true(sw_core_set_has(&m->nodes[core->node].cores, core->number));
        if (m->nodes[core->node].number < 0)
            assert_int_equal(m->nodes[core->node].package, core->package);
    }
    sw_machine_free(m);
}

static void dgx2_map_has_the_four_allowed_cores(void **state)
{
    struct sw_machine *m = recorded("nvidiaDGX2.xml");
    if (!m)
        skip();
    struct sw_core_set all = sw_machine_cores(m);
    assert_int_equal(m->package_count, 2);
    check_cores(&all, "0-3");
    check_cores(&m->nodes[1].cores, "2-3");
    assert_true(m->memory_bytes > (int64_t)1 << 40);
    sw_machine_free(m);
}

static void caches_list_the_cores_that_share_them(void **state)
{
    struct sw_machine *m = from("numa:2 l3:2 l2:2 core:2 pu:1");
    static const char *const cores[] = {"0-3", "4-7", "8-11", "12-15", "0-1",   "2-3",
                                        "4-5", "6-7", "8-9",  "10-11", "12-13", "14-15"};
    assert_int_equal(m->cache_count, 12);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(m->caches[i].level, i < 4 ? 3 : 2);
        assert_true(m->caches[i].bytes > 0);
        check_cores(&m->caches[i].cores, cores[i]);
    }
    sw_machine_free(m);
}

static void check_refused(const char *source, int code)
{
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_machine_from(source, &m, &err), code);
    assert_null(m);
    assert_non_null(strstr(err.text, source));
}

static void invalid_machine_sources_are_refused(void **state)
{
    check_refused("no-such-machine.xml", SW_ERR_NOTFOUND);
    check_refused("/no/such/machine", SW_ERR_NOTFOUND);
    check_refused("numa:four", SW_ERR_FORMAT);
    check_refused("a quick machine", SW_ERR_FORMAT);
    check_refused(SW_SOURCE_DIR "/CMakeLists.txt", SW_ERR_FORMAT);
    check_refused(SW_SOURCE_DIR "/recipes", SW_ERR_FORMAT);
}

static void check_file_refused(const char *text, const char *reason)
{
    const char *path = scratch_path("machine.xml");
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(sw_machine_from(path, &m, &err), SW_ERR_FORMAT);
    if (!strstr(err.text, path) || !strstr(err.text, reason))
        fail_msg("the message \"%s\" does not say \"%s\"", err.text, reason);
}

static void refused_machine_file_has_a_reason(void **state)
{
#define XML                                                                                        \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    check_file_refused(XML "<topology version=\"9.1\">\n</topology>\n", "written by hwloc 9");
    check_file_refused(XML "<topology version=\"9.1\">\n</topology>\n",
                       "lstopo --input FILE --export-xml-flags v2 NEW_FILE.xml");
    check_file_refused(XML "<topology version=\"2.0\">\n  <object type=\"Machine\"",
                       "cut off after");
    check_file_refused(XML "<topology version=\"2.0\">\n</topology>\n", "HWLOC_XML_VERBOSE=1");
    check_file_refused(XML "<svg version=\"1.1\"></svg>\n", "no <topology> element");
    check_file_refused("", "no <topology> element");
#undef XML
}

static void too_many_cores_are_refused(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_machine_from("numa:2 core:600 pu:1", &m, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(sw_machine_from("numa:65 core:1 pu:1", &m, &err), SW_ERR_UNSUPPORTED);
    assert_null(m);
}

static void every_allocation_may_fail(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    int rc = SW_ERR_NOMEM;
    for (int at = 1; rc != SW_OK; at++) {
        assert_true(at < 100);
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        rc = sw_machine_from("numa:2 l3:1 l2:2 core:1 pu:1", &m, &err);
        faulty_end();
        assert_int_equal(rc != SW_OK, faulty.live_allocations == 0);
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
    }
    sw_machine_free(m);
}

/* ---- this machine ---- */

static void this_machine_has_the_allowed_cores(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    cpu_set_t mask;
    assert_int_equal(sw_machine_here(&m, &err), SW_OK);
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    assert_true(m->here);
    assert_int_equal(m->pu_count, CPU_COUNT(&mask));
    assert_in_range(m->core_count, 1, m->pu_count);
    assert_in_range(sw_machine_threads(m), 1, m->core_count);
    assert_true(m->memory_bytes > 0 && m->host[0]);
    sw_machine_free(m);
}

static void taskset_is_respected(void **state)
{
    struct sw_machine *all = NULL, *one = NULL;
    cpu_set_t before, narrow;
    int last = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2) {
        print_message("skipped: one processor cannot be narrowed\n");
        skip();
    }
    assert_int_equal(sw_machine_here(&all, NULL), SW_OK);
    for (int c = 0; c < CPU_SETSIZE; c++)
        last = CPU_ISSET(c, &before) ? c : last;
    CPU_ZERO(&narrow);
    CPU_SET(last, &narrow);
    assert_int_equal(sched_setaffinity(0, sizeof narrow, &narrow), 0);
    int rc = sw_machine_here(&one, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(rc, SW_OK);
    assert_int_equal(one->pu_count, 1);
    assert_int_equal(one->core_count, 1);
    assert_int_equal(one->hidden_pus, all->hidden_pus + all->pu_count - 1);
    assert_non_null(sw_machine_core(all, one->cores[0].number)); /* logical numbers do not change */
    sw_machine_free(all), sw_machine_free(one);
}

/* ---- CPU quotas: trees as /proc and /sys show them ---- */

static char root[] = "/tmp/singa-test-XXXXXX";

static int make_root(void **state)
{
    strcpy(root, "/tmp/singa-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void put(const char *path, const char *text)
{
    char full[256];
    struct sw_err err = {0};
    snprintf(full, sizeof full, "%s/%s", root, path);
    *strrchr(full, '/') = '\0';
    assert_int_equal(sw_os_mkdirs(full, 0700, &err), SW_OK);
    snprintf(full, sizeof full, "%s/%s", root, path);
    assert_int_equal(sw_os_replace_file(full, text, strlen(text), 0600, &err), SW_OK);
}

static double quota(void)
{
    char proc[64], sys[64];
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(sys, sizeof sys, "%s/sys", root);
    return sw_cpu_quota(proc, sys);
}

static int64_t memory(void)
{
    char proc[64], sys[64];
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(sys, sizeof sys, "%s/sys", root);
    return sw_memory_quota(proc, sys);
}

static void smallest_memory_limit_of_the_ancestors_limits(void **state)
{
    assert_int_equal(memory(), 0);
    put("proc/self/cgroup", "0::/system.slice/slurmd/job_7/step_0\n");
    put("sys/fs/cgroup/system.slice/slurmd/job_7/step_0/memory.max", "max\n");
    assert_int_equal(memory(), 0);
    put("sys/fs/cgroup/system.slice/slurmd/job_7/memory.max", "8589934592\n");
    put("sys/fs/cgroup/system.slice/memory.max", "17179869184\n");
    assert_int_equal(memory(), 8589934592);
    put("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(memory(), 0);
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
    assert_int_equal(memory(), 1073741824);
}

static void without_cgroups_nothing_limits(void **state)
{
    assert_true(quota() == 0);
    put("proc/self/cgroup", "garbage\n0:\n::\n\n0::/a\n");
    assert_true(quota() == 0);
}

static void smallest_quota_of_the_cgroup_ancestors_limits(void **state)
{
    put("proc/self/cgroup", "0::/user.slice/job/step\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_true(quota() == 0);
    put("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/user.slice/job/step/cpu.max", "400000 100000\n");
    assert_true(quota() == 1.5);
    put("sys/fs/cgroup/user.slice/job/cpu.max", "12500 50000\n");
    assert_true(quota() == 0.25);
}

static void a_container_sees_its_limit_at_the_root(void **state)
{
    put("proc/self/cgroup", "0::/docker/path/of/the/host\n");
    put("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_true(quota() == 2);
}

static void version_1_quotas_limit(void **state)
{
    put("proc/self/cgroup", "9:cpuset:/x\n4:cpu,cpuacct:/job\n2:cpuacct:/y\n0::/\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_true(quota() == 0);
    put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "350000\n");
    put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_true(quota() == 3.5);
}

static void a_quota_limits_computing_threads(void **state)
{
    struct sw_machine *m = from("numa:2 core:4 pu:2");
    m->cpu_quota = 3.9;
    assert_int_equal(sw_machine_threads(m), 3);
    m->cpu_quota = 0.5;
    assert_int_equal(sw_machine_threads(m), 1);
    m->cpu_quota = 100;
    assert_int_equal(sw_machine_threads(m), 8);
    sw_machine_free(m);
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_sets_are_written_as_ranges),
        cmocka_unit_test(core_set_text_never_overflows),
        cmocka_unit_test(synthetic_machine_matches_its_description),
        cmocka_unit_test(a_recorded_server_has_its_packages),
        cmocka_unit_test(cores_outside_the_cpuset_are_hidden),
        cmocka_unit_test(dgx2_map_has_the_four_allowed_cores),
        cmocka_unit_test(caches_list_the_cores_that_share_them),
        cmocka_unit_test(invalid_machine_sources_are_refused),
        cmocka_unit_test(refused_machine_file_has_a_reason),
        cmocka_unit_test(too_many_cores_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(this_machine_has_the_allowed_cores),
        cmocka_unit_test(taskset_is_respected),
        WITH_ROOT(without_cgroups_nothing_limits),
        WITH_ROOT(smallest_quota_of_the_cgroup_ancestors_limits),
        WITH_ROOT(a_container_sees_its_limit_at_the_root),
        WITH_ROOT(version_1_quotas_limit),
        WITH_ROOT(smallest_memory_limit_of_the_ancestors_limits),
        cmocka_unit_test(a_quota_limits_computing_threads),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
