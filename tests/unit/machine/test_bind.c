/* ctest-labels: threads */
#include "base/os.h"
#include "device/device.h"
#include "machine/bind.h"
#include "optim/updater.h"
#include "thread/thread.h"
#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct sw_machine *here;

static int map_machine(void **state)
{
    struct sw_err err = {0};
    if (sw_machine_here(&here, &err) != SW_OK)
        print_message("%s\n", err.text);
    return here ? 0 : -1;
}

static int free_machine(void **state)
{
    sw_machine_free(here);
    return 0;
}

/* ---- the environment ---- */

static void environment_that_binds_threads_is_refused(void **state)
{
    static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};
    struct sw_err err = {0};
    for (int i = 0; i < 3; i++)
        unsetenv(names[i]);
    assert_int_equal(sw_bind_check_environment(&err), SW_OK);
    for (int i = 0; i < 3; i++) {
        setenv(names[i], "0-3", 1);
        assert_int_equal(sw_bind_check_environment(&err), SW_ERR_INVALID);
        assert_non_null(strstr(err.text, names[i]));
        unsetenv(names[i]);
    }
    setenv("OMP_PROC_BIND", "FALSE", 1);
    assert_int_equal(sw_bind_check_environment(&err), SW_OK);
    setenv("OMP_PROC_BIND", "close", 1);
    assert_int_equal(sw_bind_check_environment(&err), SW_ERR_INVALID);
    unsetenv("OMP_PROC_BIND");
}

/* ---- threads ---- */

struct visit {
    struct sw_core_set want, got;
    int rc;
    int cpu_count; /* in the mask of the kernel */
    struct sw_err err;
};

/* On a separate thread, so that the affinity of the test's thread does not change. */
static void bind_and_look(void *arg)
{
    struct visit *v = arg;
    cpu_set_t mask;
    v->rc = sw_bind_thread(here, &v->want, &v->err);
    if (v->rc == SW_OK)
        v->rc = sw_bound_cores(here, &v->got, &v->err);
    v->cpu_count = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : -1;
}

static void run_thread(void (*main_function)(void *), void *arg)
{
    struct sw_thread thread = {0};
    struct sw_err err = {0};
    assert_int_equal(sw_thread_start(&thread, "bind", main_function, arg, &err), SW_OK);
    sw_thread_join(&thread);
}

static void a_thread_runs_where_it_is_bound(void **state)
{
    for (int i = 0; i < here->core_count && i < 16; i++) {
        struct visit v = {0};
        sw_core_set_add(&v.want, here->cores[i].number);
        run_thread(bind_and_look, &v);
        assert_int_equal(v.rc, SW_OK);
        assert_memory_equal(&v.got, &v.want, sizeof v.got);
        assert_int_equal(v.cpu_count, here->cores[i].pus);
    }
    struct visit all = {.want = sw_machine_cores(here)};
    run_thread(bind_and_look, &all);
    assert_int_equal(all.rc, SW_OK);
    assert_memory_equal(&all.got, &all.want, sizeof all.got);
    assert_int_equal(all.cpu_count, here->pu_count);
}

static void impossible_bindings_are_refused(void **state)
{
    struct visit v = {0};
    run_thread(bind_and_look, &v);
    assert_int_equal(v.rc, SW_ERR_INVALID);
    sw_core_set_add(&v.want, SW_MAX_CORES - 1);
    run_thread(bind_and_look, &v);
    assert_int_equal(v.rc, SW_ERR_INVALID);
    assert_non_null(strstr(v.err.text, "core 1023"));

    struct sw_machine *other = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_machine_from("numa:1 core:1 pu:1", &other, &err), SW_OK);
    struct sw_core_set cores = sw_machine_cores(other);
    assert_int_equal(sw_bind_thread(other, &cores, &err), SW_ERR_INVALID);
    assert_int_equal(sw_bound_cores(other, &cores, &err), SW_ERR_INVALID);
    sw_machine_free(other);
}

/* ---- OpenMP teams: an updater's loop runs in one, so its range function can observe the threads
 * ---- */

enum { TEAM = 3, BLOCKS = 64 };

static struct {
    atomic_int outside;   /* ranges that ran with another mask than the calling thread */
    atomic_int elsewhere; /* ranges that ran on another thread than the calling one */
    struct sw_core_set want;
    pid_t caller;
} probe;

static bool look_around(const void *constants, const struct sw_update_block *b)
{
    struct sw_core_set got = {0};
    if (gettid() != probe.caller)
        probe.elsewhere++;
    if (sw_bound_cores(here, &got, NULL) != SW_OK || memcmp(&got, &probe.want, sizeof got) != 0)
        probe.outside++;
    usleep(500); /* long enough for all threads of the team to take part */
    return false;
}

static void bind_and_start_team(void *arg)
{
    static float array[BLOCKS * 16384];
    struct visit *v = arg;
    bool bad = false;
    struct sw_update_args args = {
        .value = array, .gradient = array, .count = BLOCKS * 16384, .non_finite = &bad};
    void (*set_threads)(int);

    *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    v->rc = set_threads ? sw_bind_thread(here, &v->want, &v->err) : SW_ERR_LIBRARY;
    if (v->rc != SW_OK)
        return;
    set_threads(TEAM);
    probe.want = v->want;
    probe.caller = gettid();
    sw_update_blocks(&args, &(const struct sw_update_formula){.loop = look_around}, NULL);
}

static void openmp_threads_inherit_the_binding(void **state)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: libgomp's synchronisation is invisible to the thread sanitizer\n");
    skip();
#endif
    /* Each on a fresh thread: its first parallel region starts a new team. */
    for (int i = 0; i < here->core_count && i < 4; i++) {
        struct visit v = {0};
        sw_core_set_add(&v.want, here->cores[i].number);
        probe.outside = probe.elsewhere = 0;
        run_thread(bind_and_start_team, &v);
        assert_int_equal(v.rc, SW_OK);
        assert_true(probe.elsewhere > 0);
        assert_int_equal(probe.outside, 0);
    }
}

/* ---- memory ---- */

/* The memory policy of the mapping that contains an address, as "prefer:0". */
static void policy_of(const void *memory, char *out, size_t bytes)
{
    char line[512];
    unsigned long long start;
    FILE *f = fopen("/proc/self/numa_maps", "r");
    out[0] = '\0';
    while (f && fgets(line, sizeof line, f)) {
        char policy[64];
        if (sscanf(line, "%llx %63s", &start, policy) == 2 && start <= (uintptr_t)memory)
            snprintf(out, bytes, "%s", policy);
    }
    if (f)
        fclose(f);
}

static void check_where(const void *memory, size_t bytes, int node, size_t touched)
{
    int64_t node_bytes[SW_MAX_NODES], absent = -1;
    struct sw_err err = {0};
    int rc = sw_bind_where(here, memory, bytes, node_bytes, &absent, &err);
    if (rc == SW_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    assert_int_equal(rc, SW_OK);
    for (int k = 0; k < here->node_count; k++)
        assert_int_equal(node_bytes[k], k == node ? touched : 0);
    assert_int_equal(absent, bytes - touched);
}

/* Read back from the kernel, before the first touch and after it. */
static void allocations_are_on_the_requested_node(void **state)
{
    enum { BYTES = 8 << 20 };
    struct sw_device *cpu = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_cpu_open(false, &cpu, &err), SW_OK);
    for (int n = 0; n < here->node_count; n++) {
        char want[32], policy[64];
        void *memory = NULL;
        if (here->nodes[n].os_number < 0)
            continue;
        size_t refused = sw_device_bytes_of(cpu).misplaced;
        assert_int_equal(sw_device_alloc_on(cpu, BYTES, UINT64_C(1) << here->nodes[n].os_number,
                                            "test memory", &memory, &err),
                         SW_OK);
        if (sw_device_bytes_of(cpu).misplaced > refused) {
            print_message("skipped: the system refuses mbind\n");
            sw_device_free(cpu, memory, BYTES);
            sw_device_close(cpu);
            skip();
        }
        policy_of(memory, policy, sizeof policy);
        snprintf(want, sizeof want, "prefer:%d", here->nodes[n].os_number);
        assert_string_equal(policy, want);
        madvise(memory, BYTES, MADV_NOHUGEPAGE);
        check_where(memory, BYTES, n, 0);
        memset(memory, 1, BYTES / 2);
        check_where(memory, BYTES, n, BYTES / 2);
        memset(memory, 1, BYTES);
        check_where(memory, BYTES, n, BYTES);
        sw_device_free(cpu, memory, BYTES);
    }
    sw_device_close(cpu);
}

/* Pages that exist already move to the node, if there are several nodes. */
static void part_of_a_block_is_placed_in_whole_pages(void **state)
{
    enum { BYTES = 4 << 20, FROM = 5000, PART = 1 << 20 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct sw_device *cpu = NULL;
    struct sw_err err = {0};
    char policy[64];
    void *memory = NULL;
    int last = -1;
    for (int n = 0; n < here->node_count; n++)
        last = here->nodes[n].os_number >= 0 ? n : last;
    assert_int_equal(sw_cpu_open(false, &cpu, &err), SW_OK);
    assert_int_equal(sw_device_alloc(cpu, BYTES, "test memory", &memory, &err), SW_OK);
    madvise(memory, BYTES, MADV_NOHUGEPAGE);
    memset(memory, 1, BYTES);
    size_t refused = sw_device_bytes_of(cpu).misplaced;
    sw_device_place(cpu, (char *)memory + FROM, PART, UINT64_C(1) << here->nodes[last].os_number);
    if (sw_device_bytes_of(cpu).misplaced == refused) {
        char *first = (char *)memory + (FROM + page - 1) / page * page;
        char *end = (char *)memory + (FROM + PART) / page * page;
        check_where(first, (size_t)(end - first), last, (size_t)(end - first));
        policy_of(first, policy, sizeof policy);
        assert_non_null(strstr(policy, "prefer"));
        policy_of(first - 1, policy, sizeof policy);
        assert_string_equal(policy, "default");
        policy_of(end, policy, sizeof policy);
        assert_string_equal(policy, "default");
    } else {
        print_message("skipped: the system refuses mbind\n");
    }
    sw_device_free(cpu, memory, BYTES);
    sw_device_close(cpu);
}

static struct {
    int calls;
    uint64_t nodes;
} refusal;

static int refuse(void *p, size_t bytes, uint64_t nodes)
{
    refusal.calls++;
    refusal.nodes = nodes;
    return -1;
}

static void refused_placement_is_counted_and_no_error(void **state)
{
    enum { BYTES = 2 << 20 };
    struct sw_device *cpu = NULL;
    struct sw_os os = sw_os_posix;
    struct sw_err err = {0};
    void *small = NULL, *large = NULL, *any = NULL;
    os.bind_pages = refuse;
    assert_int_equal(sw_cpu_open(false, &cpu, &err), SW_OK);
    size_t before = sw_device_bytes_of(cpu).misplaced;
    sw_os_set(&os);
    int rc = sw_device_alloc_on(cpu, BYTES, 4, "large", &large, &err);
    if (rc == SW_OK)
        rc = sw_device_alloc_on(cpu, 1000, 4, "small", &small, &err);
    if (rc == SW_OK)
        rc = sw_device_alloc(cpu, BYTES, "anywhere", &any, &err);
    sw_os_set(NULL);
    assert_int_equal(rc, SW_OK);
    assert_int_equal(refusal.calls, 1); /* small blocks share their pages */
    assert_int_equal(refusal.nodes, 4);
    assert_int_equal(sw_device_bytes_of(cpu).misplaced, before + BYTES);
    memset(large, 1, BYTES);
    sw_device_free(cpu, large, BYTES);
    sw_device_free(cpu, any, BYTES);
    sw_device_free(cpu, small, 1000);
    sw_device_close(cpu);
}

static void os_node_mask_needs_several_nodes(void **state)
{
    struct sw_machine *m = NULL;
    assert_int_equal(sw_machine_from("numa:4 core:2 pu:1", &m, NULL), SW_OK);
    assert_int_equal(sw_machine_os_nodes(m, 15), 0); /* a map of another machine */
    m->here = true;
    m->nodes[2].os_number = 8;
    m->nodes[3].os_number = -1;
    assert_int_equal(sw_machine_os_nodes(m, 1), 1);
    assert_int_equal(sw_machine_os_nodes(m, 6), 1 << 8 | 1 << 1);
    assert_int_equal(sw_machine_os_nodes(m, 8), 0);
    m->node_count = 1;
    assert_int_equal(sw_machine_os_nodes(m, 1), 0);
    sw_machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_that_binds_threads_is_refused),
        cmocka_unit_test(a_thread_runs_where_it_is_bound),
        cmocka_unit_test(impossible_bindings_are_refused),
        cmocka_unit_test(openmp_threads_inherit_the_binding),
        cmocka_unit_test(allocations_are_on_the_requested_node),
        cmocka_unit_test(part_of_a_block_is_placed_in_whole_pages),
        cmocka_unit_test(refused_placement_is_counted_and_no_error),
        cmocka_unit_test(os_node_mask_needs_several_nodes),
    };
    return cmocka_run_group_tests(tests, map_machine, free_machine);
}
