/* Measures the GEMM and memory throughput of each NUMA node and verifies the GEMM result. */
#include "device/throughput.h"
#include "base/os.h"
#include "cli/doctor/doctor.h"
#include "device/driver.h"
#include "machine/bind.h"
#include "thread/thread.h"
#include <math.h>
#include <sys/resource.h>

enum { SIDE = 1024, PRODUCT_MS = 300, MEMORY_MS = 500 };

static const int64_t min_array_bytes = 64 << 20, max_array_bytes = 1 << 30;

/* Limits of an idle machine: CPUs that other processes may use, and the ratio between passes. */
static const double idle_cpus = 0.5, steady = 1.25;

/* The measurement of one node, on a thread that is bound to its cores. */
struct rates {
    const struct sw_machine *machine;
    int node;            /* index */
    int64_t array_bytes; /* of each of the two arrays of the memory test */
    struct sw_throughput gflops, gb_per_s;
    double error;      /* largest relative error of the product */
    double other_cpus; /* used by other processes meanwhile; NaN: unknown */
    int code;
    struct sw_err err;
};

static int measure_product(struct rates *r, struct sw_device *dev, struct sw_stream *s,
                           uint64_t nodes)
{
    size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
    float *m[3] = {NULL, NULL, NULL};

    for (int i = 0; r->code == SW_OK && i < 3; i++) {
        void *matrix = NULL;
        r->code = sw_device_alloc_on(dev, bytes, nodes, "a test matrix", &matrix, &r->err);
        m[i] = matrix;
    }

    if (r->code == SW_OK)
        r->code = sw_throughput_product(s, m, SIDE, PRODUCT_MS, &r->gflops, &r->err);
    if (r->code == SW_OK)
        r->error = sw_doctor_product_error(m[0], m[1], m[2], SIDE);
    for (int i = 0; i < 3; i++)
        sw_device_free(dev, m[i], bytes);

    return r->code;
}

static int measure_memory(struct rates *r, struct sw_device *dev, struct sw_stream *s,
                          uint64_t nodes)
{
    size_t bytes = (size_t)r->array_bytes;
    void *m[2] = {NULL, NULL};

    for (int i = 0; r->code == SW_OK && i < 2; i++)
        r->code = sw_device_alloc_on(dev, bytes, nodes, "a test array", &m[i], &r->err);

    int64_t n = (int64_t)(bytes / sizeof(float));
    if (r->code == SW_OK)
        r->code = sw_throughput_memory(s, m[0], m[1], &n, MEMORY_MS, &r->gb_per_s, &r->err);
    r->array_bytes = n * (int64_t)sizeof(float);
    for (int i = 0; i < 2; i++)
        sw_device_free(dev, m[i], bytes);

    return r->code;
}

static void measure_node(void *arg)
{
    struct rates *r = arg;
    const struct sw_numa_node *node = &r->machine->nodes[r->node];
    struct sw_device *dev = NULL;
    struct sw_stream *s = NULL;
    uint64_t nodes = node->number < 0 ? 0 : sw_machine_os_nodes(r->machine, 1ull << r->node);
    int threads = sw_core_set_count(&node->cores), most = sw_machine_threads(r->machine);

    if (threads > most)
        threads = most;

    struct sw_err unbound;

    /* If the system refuses to bind, unbound threads are measured. */
    if (sw_bind_thread(r->machine, &node->cores, &unbound) != SW_OK)
        unbound.code = SW_OK;

    const struct sw_device_args host = {.precision = SW_PRECISION_FP32};
    r->code = sw_driver_host()->start_team(threads, &r->err);
    if (r->code != SW_OK)
        goto out;
    r->code = sw_driver_host()->open(&host, &dev, &r->err);
    if (r->code != SW_OK)
        goto out;
    r->code = sw_stream_new(dev, threads, &s, &r->err);
    if (r->code != SW_OK)
        goto out;
    r->code = measure_product(r, dev, s, nodes);
    if (r->code != SW_OK)
        goto out;

    r->code = measure_memory(r, dev, s, nodes);

out:
    sw_stream_free(s);
    sw_device_close(dev);
}

/* ---- Other load ----------------------------------------------------------------------
 */

/* CPU seconds of all other processes so far. */
static double other_processes_s(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return (double)NAN;

    double own_s = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                   (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    return sw_survey_busy_s("/proc") - own_s;
}

static bool is_unsteady(struct sw_throughput t)
{
    return t.fastest > steady * t.median;
}

static bool is_busy(const struct rates *r)
{
    return r->other_cpus > idle_cpus || is_unsteady(r->gflops) || is_unsteady(r->gb_per_s);
}

/* ---- All nodes --------------------------------------------------------------------------------
 */

/* The total size of the last-level caches of a node. */
static int64_t cache_bytes(const struct sw_machine *m, const struct sw_numa_node *node)
{
    int64_t bytes = 0;

    for (int i = 0; i < m->cache_count; i++) /* sorted by level, the last level first */
        if (m->caches[i].level == m->caches[0].level &&
            sw_core_set_overlaps(&m->caches[i].cores, &node->cores))
            bytes += m->caches[i].bytes;

    return bytes;
}

/* The size of an array: as large as these caches, so that two arrays are twice that, but at most a
 * small part of the free memory. */
static int64_t array_bytes(const struct sw_doctor *d, const struct sw_numa_node *node)
{
    int64_t bytes = cache_bytes(d->machine, node), left = d->survey.memory_free_bytes;

    if (left < 0 || (d->survey.cgroup_memory_bytes >= 0 && d->survey.cgroup_memory_bytes < left))
        left = d->survey.cgroup_memory_bytes;
    bytes = bytes > min_array_bytes ? bytes : min_array_bytes;
    bytes = bytes < max_array_bytes ? bytes : max_array_bytes;

    return left >= 0 && bytes > left / 8 ? left / 8 / 4096 * 4096 + 4096 : bytes;
}

static void report_node(struct sw_doctor *d, const struct rates *r)
{
    const struct sw_numa_node *node = &d->machine->nodes[r->node];
    char rates[128], busy[64] = "repeated passes differ in speed", flops[32], bytes[32];
    bool cached = 2 * r->array_bytes <= cache_bytes(d->machine, node);

    snprintf(rates, sizeof rates, "node %d: %s in matrix products, %s from %s",
             node->number < 0 ? 0 : node->number,
             sw_human_unit(flops, r->gflops.median * 1e9, "flop/s"),
             sw_human_unit(bytes, r->gb_per_s.median * 1e9, "B/s"),
             cached ? "memory or caches" : "memory");
    if (r->other_cpus > idle_cpus)
        snprintf(busy, sizeof busy, "other programs used %.1f CPUs", r->other_cpus);

    if (!(r->error < SW_DOCTOR_ROUNDING))
        sw_doctor_find(d, SW_FINDING_BAD, "cpu", "training results cannot be trusted",
                       "test the memory (memtest86+), undo overclocking, reinstall the math "
                       "libraries",
                       "wrong matrix product on node %d: relative error %.2g", node->number,
                       r->error);
    else if (is_busy(r))
        sw_doctor_find(d, SW_FINDING_NOTE, "cpu",
                       "the figures are too low: without other load the machine is faster",
                       "end other programs (top shows them) and run doctor again",
                       "%s; but the machine is busy: %s", rates, busy);
    else
        sw_doctor_ok(d, "cpu", "%s", rates);
}

/* Reports nodes of one machine that differ: a missing memory channel, other load, heat. */
static void compare(struct sw_doctor *d, const double *gb_per_s)
{
    double slow = INFINITY, fast = 0;
    char low[32], high[32];

    for (int n = 0; n < d->machine->node_count; n++) {
        slow = fmin(slow, gb_per_s[n]);
        fast = fmax(fast, gb_per_s[n]);
    }

    if (d->machine->node_count > 1 && slow < 0.7 * fast)
        sw_doctor_find(
            d, SW_FINDING_WARN, "memory", "each step waits for the worker on the slowest node",
            "install the same memory modules in the same channels of every processor; check "
            "for other load with top",
            "the slowest node reads %s, the fastest %s", sw_human_unit(low, slow * 1e9, "B/s"),
            sw_human_unit(high, fast * 1e9, "B/s"));
}

static void add_json(struct sw_doctor *d, const struct rates *r)
{
    const struct sw_numa_node *node = &d->machine->nodes[r->node];

    sw_json_open_object(&d->json, NULL);
    sw_json_int(&d->json, "numa", node->number);
    sw_json_int(&d->json, "cores", sw_core_set_count(&node->cores));
    sw_json_real(&d->json, "gemm_gflops", r->gflops.median);
    sw_json_real(&d->json, "memory_gb_per_s", r->gb_per_s.median);
    sw_json_int(&d->json, "memory_bytes", 2 * r->array_bytes);
    sw_json_real(&d->json, "other_cpus", r->other_cpus);
    sw_json_bool(&d->json, "busy", is_busy(r));
    sw_json_close_object(&d->json);
}

static int measure(struct rates *r, struct sw_err *err)
{
    struct sw_thread thread = {0};
    int64_t began_ns = sw_os()->monotonic_ns();
    double others = other_processes_s();
    int code = sw_thread_start(&thread, "doctor", measure_node, r, err);
    if (code)
        return code;

    sw_thread_join(&thread);

    double ns = (double)(sw_os()->monotonic_ns() - began_ns);
    r->other_cpus = (other_processes_s() - others) / (ns > 1 ? ns * 1e-9 : 1e-9);
    if (r->code)
        *err = r->err;

    return r->code;
}

int sw_doctor_throughput(struct sw_doctor *d, struct sw_err *err)
{
    double gb_per_s[SW_MAX_NODES];
    int code = SW_OK;

    sw_json_open_array(&d->json, "nodes");

    for (int n = 0; !code && n < d->machine->node_count; n++) {
        struct rates r = {
            .machine = d->machine, .node = n, .array_bytes = array_bytes(d, &d->machine->nodes[n])};

        code = measure(&r, err);
        if (code)
            break;

        gb_per_s[n] = r.gb_per_s.median;
        d->busy |= is_busy(&r);
        report_node(d, &r);
        add_json(d, &r);
    }

    sw_json_close_array(&d->json);
    if (!code && !d->busy)
        compare(d, gb_per_s);

    return code;
}
