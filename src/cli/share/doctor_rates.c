/* How fast each NUMA node computes and reads its memory, and whether what it computes is right. */
#include "base/os.h"
#include "cli/share/doctor.h"
#include "cli/share/doctor_product.h"
#include "cluster/bind.h"
#include "device/ops/linear.h"
#include "sync/thread.h"
#include <math.h>

enum { SIDE = 1024, ROUNDS = 5, ARRAY_BYTES = 64 << 20, BUDGET_MS = 1500 };

/* One node's cores at work, on a thread of their own that is bound to them. */
struct rates {
    const struct sw_machine *machine;
    int node;                /* index */
    double gflops, gb_per_s; /* best of the rounds */
    double error;            /* largest relative error of the product */
    int code;
    struct sw_err err;
};

static double seconds_since(int64_t began_ns)
{
    return (double)(sw_os()->monotonic_ns() - began_ns) * 1e-9;
}

static int measure_gemm(struct rates *r, struct sw_device *dev, struct sw_stream *s, uint64_t nodes)
{
    size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
    void *m[3] = {NULL, NULL, NULL};
    for (int i = 0; r->code == SW_OK && i < 3; i++)
        r->code = sw_device_alloc_on(dev, bytes, nodes, "a matrix to measure with", &m[i], &r->err);
    if (r->code == SW_OK) {
        sw_doctor_fill(m[0], SIDE * SIDE, 1);
        sw_doctor_fill(m[1], SIDE * SIDE, 2);
    }
    struct sw_gemm_args args = {
        .m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1, .a = m[0], .b = m[1], .c = m[2]};
    int64_t first = sw_os()->monotonic_ns();
    for (int i = 0;
         r->code == SW_OK && (i < 2 || (i < ROUNDS * 4 && seconds_since(first) * 1e3 < BUDGET_MS));
         i++) {
        int64_t began = sw_os()->monotonic_ns();
        r->code = sw_op_run(s, &sw_op_gemm, &args, &r->err);
        if (r->code == SW_OK)
            r->code = sw_stream_wait(s, &r->err);
        r->gflops = fmax(r->gflops, 2.0 * SIDE * SIDE * SIDE / seconds_since(began) * 1e-9);
    }
    if (r->code == SW_OK)
        r->error = sw_doctor_product_error(m[0], m[1], m[2], SIDE);
    for (int i = 0; i < 3; i++)
        sw_device_free(dev, m[i], bytes);
    return r->code;
}

/* y = x + y over arrays that no cache holds: three transfers an element. */
static int measure_memory(struct rates *r, struct sw_device *dev, struct sw_stream *s,
                          uint64_t nodes)
{
    void *m[2] = {NULL, NULL};
    for (int i = 0; r->code == SW_OK && i < 2; i++)
        r->code =
            sw_device_alloc_on(dev, ARRAY_BYTES, nodes, "an array to measure with", &m[i], &r->err);
    struct sw_combine_args args = {
        .n = ARRAY_BYTES / (int64_t)sizeof(float), .alpha = 1, .beta = 1, .x = m[0], .y = m[1]};
    for (int i = 0; r->code == SW_OK && i < ROUNDS + 1; i++) { /* the first touches the pages */
        int64_t began = sw_os()->monotonic_ns();
        r->code = sw_op_run(s, &sw_op_combine, &args, &r->err);
        if (r->code == SW_OK)
            r->code = sw_stream_wait(s, &r->err);
        if (i > 0)
            r->gb_per_s = fmax(r->gb_per_s, 3.0 * ARRAY_BYTES / seconds_since(began) * 1e-9);
    }
    for (int i = 0; i < 2; i++)
        sw_device_free(dev, m[i], ARRAY_BYTES);
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
    struct sw_err unbound;
    /* Where the system refuses to bind, the figures are those of threads that wander. */
    if (sw_bind_thread(r->machine, &node->cores, &unbound) != SW_OK)
        unbound.code = SW_OK;
    r->code = sw_cpu_open(false, &dev, &r->err);
    if (r->code == SW_OK)
        r->code = sw_stream_new(dev, threads < most ? threads : most, &s, &r->err);
    if (r->code == SW_OK)
        r->code = measure_gemm(r, dev, s, nodes);
    if (r->code == SW_OK)
        r->code = measure_memory(r, dev, s, nodes);
    sw_stream_free(s);
    sw_device_close(dev);
}

static void judge(struct sw_doctor *d, const struct rates *r)
{
    const struct sw_numa_node *node = &d->machine->nodes[r->node];
    if (!(r->error < SW_DOCTOR_ROUNDING))
        sw_doctor_find(d, SW_FINDING_BAD, "cpu", "no result of a training can be trusted",
                       "test the memory (memtest86+), undo overclocking, reinstall the math "
                       "libraries",
                       "a matrix product on node %d is wrong by %.2g", node->number, r->error);
    else
        sw_doctor_find(d, SW_FINDING_OK, "cpu", NULL, NULL,
                       "node %d: %.4g Gflop/s in matrix products, %.3g GB/s from memory",
                       node->number < 0 ? 0 : node->number, r->gflops, r->gb_per_s);
}

/* Nodes of one machine that differ: a memory channel that is missing, other load, heat. */
static void compare(struct sw_doctor *d, const double *gb_per_s)
{
    double slow = INFINITY, fast = 0;
    for (int n = 0; n < d->machine->node_count; n++) {
        slow = fmin(slow, gb_per_s[n]);
        fast = fmax(fast, gb_per_s[n]);
    }
    if (d->machine->node_count > 1 && slow < 0.7 * fast)
        sw_doctor_find(d, SW_FINDING_WARN, "memory", "workers of a step wait for the slowest node",
                       "the same modules in the same channels of every processor; look for other "
                       "load with top",
                       "the slowest node reads %.3g GB/s, the fastest %.3g", slow, fast);
}

int sw_doctor_rates(struct sw_doctor *d, struct sw_err *err)
{
    double gb_per_s[SW_MAX_NODES];
    int code = SW_OK;
    sw_json_open_array(&d->json, "nodes");
    for (int n = 0; !code && n < d->machine->node_count; n++) {
        struct rates r = {.machine = d->machine, .node = n};
        struct sw_thread thread = {0};
        code = sw_thread_start(&thread, "doctor", measure_node, &r, err);
        if (code)
            break;
        sw_thread_join(&thread);
        if (r.code) {
            *err = r.err;
            code = r.code;
            break;
        }
        gb_per_s[n] = r.gb_per_s;
        judge(d, &r);
        sw_json_open_object(&d->json, NULL);
        sw_json_int(&d->json, "numa", d->machine->nodes[n].number);
        sw_json_int(&d->json, "cores", sw_core_set_count(&d->machine->nodes[n].cores));
        sw_json_real(&d->json, "gemm_gflops", r.gflops);
        sw_json_real(&d->json, "memory_gb_per_s", r.gb_per_s);
        sw_json_close_object(&d->json);
    }
    sw_json_close_array(&d->json);
    if (!code)
        compare(d, gb_per_s);
    return code;
}
