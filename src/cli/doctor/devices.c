/* Tests devices with their own memory: whether every path copies bytes correctly in both
 * directions, whether a matrix product is right, and the throughput of both. A copy between a
 * device and the host runs on a thread with a time limit; one that hangs is cancelled and reported.
 * Copies between devices are tested as a run would do it (plan/peer_links.h). */
#include "base/os.h"
#include "cli/doctor/doctor.h"
#include "cli/machine/peer_links.h"
#include "device/collective.h"
#include "device/driver.h"
#include "device/op.h"
#include "device/probe.h"
#include "kernels/ops/gemm.h"
#include "thread/thread.h"
#include <math.h>
#include <stdio.h>

enum { ROUNDS = 3, WAIT_MS = 10000 };

struct devices {
    struct sw_device_request request;
    struct sw_device *items[SW_DEVICE_REQUEST_MOST]; /* owned */
    int count;
};

/* A probe: copies between a device and the host (NULL), or a matrix product on `to` (product). */
struct probe {
    struct sw_device *from, *to;
    bool product;
    int side; /* of its matrices */
    struct sw_probe_result copies;
    double gflops, error;
    bool wrong, hangs;
    int code;
    struct sw_err err;
};

static const char *name_of(const struct sw_device *dev)
{
    return dev ? dev->name : "host";
}

static void run_copies(struct probe *t)
{
    t->code = sw_probe_copies(t->from, t->to, &t->copies, &t->err);
    t->wrong = t->code == SW_ERR_FORMAT;
}

/* ---- A product --------------------------------------------------------------------------------
 */

/* Runs one product and stores the throughput if it is the best so far. */
static int multiply(struct probe *t, struct sw_stream *s, const struct sw_gemm_args *args)
{
    int64_t began_ns = sw_os()->monotonic_ns();
    int code = sw_op_run(s, &sw_op_gemm, args, &t->err);

    if (code == SW_OK)
        code = sw_stream_wait(s, &t->err);

    double ns = (double)(sw_os()->monotonic_ns() - began_ns);
    t->gflops = fmax(t->gflops, 2.0 * args->m * args->n * args->k / ns);
    return code;
}

static void run_product(struct probe *t)
{
    int side = t->side;
    size_t n = (size_t)side * (size_t)side, bytes = n * sizeof(float);
    float *host[3] = {NULL, NULL, NULL};
    void *dev[3] = {NULL, NULL, NULL};
    struct sw_stream *s = NULL;

    t->code = sw_stream_new(t->to, 1, &s, &t->err);
    if (t->code != SW_OK)
        goto out;

    for (int i = 0; i < 3; i++) {
        host[i] = sw_calloc(1, bytes);
        t->code = host[i] ? sw_device_alloc(t->to, bytes, "a matrix", &dev[i], &t->err)
                          : sw_err_nomem(&t->err, "a matrix", bytes);
        if (t->code != SW_OK)
            goto out;
        if (i == 2)
            break;

        sw_doctor_fill(host[i], (int64_t)n, (uint32_t)i + 1);
        t->code = sw_copy(s, dev[i], host[i], bytes, &t->err);
        if (t->code != SW_OK)
            goto out;
    }

    struct sw_gemm_args args = {
        .m = side, .n = side, .k = side, .alpha = 1, .a = dev[0], .b = dev[1], .c = dev[2]};
    for (int i = 0; i < ROUNDS; i++) {
        t->code = multiply(t, s, &args);
        if (t->code != SW_OK)
            goto out;
        t->code = sw_copy(s, host[2], dev[2], bytes, &t->err);
        if (t->code != SW_OK)
            goto out;
        t->code = sw_stream_wait(s, &t->err);
        if (t->code != SW_OK)
            goto out;

        t->error = fmax(t->error, sw_doctor_product_error(host[0], host[1], host[2], side));
    }

out:
    sw_stream_free(s);

    for (int i = 0; i < 3; i++) {
        sw_device_free(t->to, dev[i], bytes);
        sw_free(host[i]);
    }

    t->wrong = !(t->error < SW_DOCTOR_ROUNDING);
}

/* ---- Under a time limit -----------------------------------------------------------------------
 */

static void probe_main(void *arg)
{
    struct probe *t = arg;

    if (t->product)
        run_product(t);
    else
        run_copies(t);
}

/* Runs a probe on a thread. A probe that hangs is cancelled, and its thread then ends with an
 * error. */
static int run_probe(struct probe *t, struct sw_err *err)
{
    struct sw_thread thread = {0};
    int code = sw_thread_start(&thread, "doctor", probe_main, t, err);
    if (code)
        return code;

    if (!sw_thread_join_timed(&thread, WAIT_MS)) {
        t->hangs = true;
        if (t->from)
            sw_device_cancel(t->from);
        if (t->to)
            sw_device_cancel(t->to);
        sw_thread_join(&thread);
    }

    return SW_OK;
}

static void report_copy(struct sw_doctor *d, const struct probe *t)
{
    static const char fix[] =
        "do not use this device; check cables and risers, and dmesg for bus errors";
    char rate[32], time[32];
    const char *from = name_of(t->from), *to = name_of(t->to);

    if (t->hangs)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run that uses it would hang", fix,
                       "copies from %s to %s hang", from, to);
    else if (t->wrong)
        sw_doctor_find(d, SW_FINDING_BAD, "devices",
                       "a run that uses it would train on corrupt data", fix,
                       "copies from %s to %s arrive damaged", from, to);
    else if (t->code)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run that uses it would fail", fix,
                       "copies from %s to %s fail: %s", from, to, t->err.text);
    else
        sw_doctor_ok(d, "devices", "%s to %s: %s, %s", from, to,
                     sw_human_unit(rate, t->copies.gb_per_s * 1e9, "B/s"),
                     sw_human_seconds(time, t->copies.latency_us * 1e-6));
}

static void report_product(struct sw_doctor *d, const struct probe *t)
{
    static const char fix[] = "do not use this device; check its temperature, power supply and "
                              "clocks (undo overclocking), then have it replaced";
    char rate[32];

    if (t->hangs)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run on it would hang", fix,
                       "%s hangs in a matrix product", t->to->name);
    else if (t->code)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run on it would fail", fix,
                       "%s fails in a matrix product: %s", t->to->name, t->err.text);
    else if (t->wrong)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "its results cannot be trusted", fix,
                       "%s computes a wrong matrix product: relative error %.2g", t->to->name,
                       t->error);
    else
        sw_doctor_ok(d, "devices", "%s: %s in matrix products", t->to->name,
                     sw_human_unit(rate, t->gflops * 1e9, "flop/s"));
}

static void json_probe(struct sw_json_writer *w, const struct probe *t)
{
    sw_json_open_object(w, NULL);

    if (t->product) {
        sw_json_string(w, "device", t->to->name);
        sw_json_real(w, "gemm_gflops", t->gflops);
    } else {
        sw_json_string(w, "from", name_of(t->from));
        sw_json_string(w, "to", name_of(t->to));
        sw_json_real(w, "gb_per_s", t->copies.gb_per_s);
        sw_json_real(w, "latency_us", t->copies.latency_us);
    }

    sw_json_bool(w, "verified", t->code == SW_OK && !t->wrong && !t->hangs);
    sw_json_close_object(w);
}

static int test_one(struct sw_doctor *d, struct probe t, struct sw_err *err)
{
    int code = run_probe(&t, err);
    if (code)
        return code;

    if (t.product)
        report_product(d, &t);
    else
        report_copy(d, &t);

    json_probe(&d->json, &t);
    return SW_OK;
}

/* Tests the copies between each device and the host. */
static int test_host_copies(struct sw_doctor *d, const struct devices *all, struct sw_err *err)
{
    for (int i = 0; i < all->count; i++) {
        int code = test_one(d, (struct probe){.to = all->items[i]}, err);
        if (code)
            return code;
        code = test_one(d, (struct probe){.from = all->items[i]}, err);
        if (code)
            return code;
    }

    return SW_OK;
}

/* ---- Between devices --------------------------------------------------------------------------
 */

/* Reports a path between devices. How severe a broken path is depends on what a run would use
 * instead. */
static void report_link(struct sw_doctor *d, const struct sw_peer_links *w, int a, int b,
                        bool direct)
{
    static const char host_fix[] =
        "use only one of the two; check cables and risers, and dmesg for "
        "bus errors";
    static const char peer_fix[] =
        "check ACS and IOMMU (iommu=pt), cables and risers, and dmesg for bus errors";
    const struct sw_peer_link *link =
        direct ? sw_peer_links_direct(w, a, b) : sw_peer_links_staged(w, a, b);
    const char *how = direct ? "directly" : "through the host";
    char rate[32], time[32];

    if (link->state == SW_PEER_LINK_SOUND)
        sw_doctor_ok(d, "devices", "%s to %s: %s, %s, %s", w->name[a], w->name[b],
                     sw_human_unit(rate, link->gb_per_s * 1e9, "B/s"),
                     sw_human_seconds(time, link->latency_us * 1e-6), how);
    else if (link->state == SW_PEER_LINK_UNKNOWN && link->why[0])
        sw_doctor_find(d, SW_FINDING_WARN, "devices", "copies go through the host, unverified",
                       "reinstall singa-ws with its probe program", "%s to %s, %s: not tested: %s",
                       w->name[a], w->name[b], how, link->why);
    else if (link->state > SW_PEER_LINK_NONE)
        sw_doctor_find(d, direct ? SW_FINDING_WARN : SW_FINDING_BAD, "devices",
                       direct ? "runs copy through the host, which is slower, and all-reduce "
                                "gradients without a library"
                              : "a run that uses it would train on corrupt data, or hang",
                       direct ? peer_fix : host_fix, "copies from %s to %s, %s: %s: %s", w->name[a],
                       w->name[b], how, sw_peer_link_state_name(link->state), link->why);
}

static void report_allreduce(struct sw_doctor *d, const struct sw_peer_link *sum)
{
    char rate[32], time[32];

    if (sum->state == SW_PEER_LINK_SOUND)
        sw_doctor_ok(d, "devices", "all-reduce over all devices: %s, %s",
                     sw_human_unit(rate, sum->gb_per_s * 1e9, "B/s"),
                     sw_human_seconds(time, sum->latency_us * 1e-6));
    else if (sum->state > SW_PEER_LINK_NONE)
        sw_doctor_find(d, SW_FINDING_WARN, "devices",
                       "gradients are all-reduced by copies between devices, which is slower",
                       "set NCCL_DEBUG=INFO to see what NCCL does; try NCCL_P2P_DISABLE=1",
                       "all-reduce over all devices: %s: %s", sw_peer_link_state_name(sum->state),
                       sum->why);
}

/* Tests the paths between devices again, ignoring stored results, and stores the new results for
 * runs. */
static int test_device_copies(struct sw_doctor *d, const struct devices *all, struct sw_err *err)
{
    int indices[SW_DEVICE_REQUEST_MOST];

    for (int i = 0; i < all->count; i++)
        indices[i] = all->items[i]->index;

    const struct sw_peer_links_args args = {.driver = all->request.driver,
                                            .options = all->request.options,
                                            .machine = d->machine,
                                            .indices = indices,
                                            .count = all->count,
                                            .sums = true,
                                            .retest = true};
    struct sw_peer_links *w;
    int code = sw_peer_links_find(&args, &w, err);
    if (code)
        return code;

    for (int a = 0; a < w->count; a++)
        for (int b = 0; b < w->count; b++) {
            if (a == b)
                continue;
            report_link(d, w, a, b, true);
            report_link(d, w, a, b, false);
        }

    sw_json_peer_links(&d->json, w);
    report_allreduce(d, &w->sum);
    sw_peer_links_free(w);

    return SW_OK;
}

static int test_copies(struct sw_doctor *d, const struct devices *all, struct sw_err *err)
{
    sw_json_open_array(&d->json, "copies");

    int code = test_host_copies(d, all, err);
    if (!code && all->count > 1)
        code = test_device_copies(d, all, err);
    sw_json_close_array(&d->json);

    return code;
}

static int test_products(struct sw_doctor *d, const struct devices *all, struct sw_err *err)
{
    int code = SW_OK;

    sw_json_open_array(&d->json, "devices");

    for (int i = 0; !code && i < all->count; i++)
        code = test_one(d,
                        (struct probe){.to = all->items[i],
                                       .product = true,
                                       .side = all->request.driver->gemm_side},
                        err);

    sw_json_close_array(&d->json);
    return code;
}

/* ---- Opening the devices
 * ------------------------------------------------------------------------------------
 */

/* Opens all simulated devices that the options describe. */
static int open_simulated(struct devices *all, struct sw_err *err)
{
    for (int i = 0; i < all->request.count; i++) {
        const struct sw_device_args args = {
            .options = all->request.options, .index = i, .sibling = i > 0 ? all->items[0] : NULL};
        int code = all->request.driver->open(&args, &all->items[all->count], err);
        if (code)
            return code;

        all->count++;
    }

    return SW_OK;
}

static bool is_requested(const struct sw_device_request *r, int gpu)
{
    for (int i = 0; i < r->count; i++)
        if (r->index[i] == gpu)
            return true;
    return r->count == 0;
}

/* Opens every requested GPU of the machine map; one that does not open is a finding. */
static void open_gpus(struct sw_doctor *d, struct devices *all)
{
    for (int gpu = 0; gpu < d->machine->gpu_count && all->count < SW_DEVICE_REQUEST_MOST; gpu++) {
        const struct sw_io *io = sw_machine_gpu(d->machine, gpu);
        const struct sw_device_args args = {.index = gpu, .bus = io->bus};
        struct sw_err err;

        if (!is_requested(&all->request, gpu))
            continue;

        if (all->request.driver->open(&args, &all->items[all->count], &err) == SW_OK)
            all->count++;
        else
            sw_doctor_find(d, SW_FINDING_WARN, "devices", "runs cannot use it",
                           "see the message; nvidia-smi shows whether the driver sees the GPU",
                           "GPU %d (%s, %s): %s", gpu, io->name, io->bus, err.text);
    }
}

/* Reports what is missing for `name`, with the message of the driver if there is one. */
static int no_gpus(const struct devices *all, const char *name, struct sw_err *err)
{
    struct sw_device_info *list = NULL;
    int count, rc = all->request.driver->enumerate(&list, &count, err);

    sw_free(list);
    if (rc != SW_OK)
        return rc;

    return sw_err_set(err, SW_ERR_NOTFOUND, "--device %s: no such GPU can be used", name);
}

static int open_devices(struct sw_doctor *d, struct devices *all, struct sw_err *err)
{
    const char *name = d->device ? d->device : "auto";
    if (sw_str_eq(name, "auto")) {
        struct sw_err why;

        all->request.driver = sw_driver_on_bus();
        open_gpus(d, all);
        /* Where there are GPUs, each of them has been reported. */
        if (d->machine->gpu_count == 0 && all->request.driver->installed(&why) != SW_OK)
            sw_doctor_find(d, SW_FINDING_NOTE, "devices", NULL, NULL, "%s", why.text);
        return SW_OK;
    }

    int code = sw_device_request_parse(name, &all->request, err);
    if (code)
        return sw_driver_find(name) ? code : sw_err_prefix(err, code, "--device %s", name);

    const struct sw_device_caps *caps = &all->request.driver->caps;
    if (caps->host_memory)
        return SW_OK;
    if (!caps->on_bus)
        return open_simulated(all, err);

    open_gpus(d, all);
    return all->count > 0 ? SW_OK : no_gpus(all, name, err);
}

/* Reports the math libraries of the devices. */
static void report_libraries(struct sw_doctor *d, const struct devices *all)
{
    const struct sw_driver *driver = all->request.driver;
    char text[128], key[64];
    struct sw_err ignored;
    if (all->count == 0 || !driver->libraries ||
        driver->libraries(text, sizeof text, &ignored) != SW_OK)
        return;

    sw_doctor_ok(d, "versions", "%s", text);
    snprintf(key, sizeof key, "%s_libraries", driver->name);
    sw_json_string(&d->json, key, text);
}

/* Reports the all-reduce back end for gradients of several devices. */
static void report_collectives(struct sw_doctor *d, const struct devices *all)
{
    const struct sw_collective_ops *ops;
    char name[64];
    struct sw_err err;

    if (all->count == 0)
        return;

    if (sw_device_collectives(all->items[0], &ops, &err) != SW_OK) {
        sw_doctor_find(
            d, all->count > 1 ? SW_FINDING_WARN : SW_FINDING_NOTE, "versions",
            "gradients of several devices are all-reduced by copies between them, which is "
            "slower",
            "install NCCL (Debian: libnccl2; Python: nvidia-nccl) where the loader finds "
            "libnccl.so.2, and build with nccl.h installed",
            "no all-reduce backend: %s", err.text);
        sw_json_string(&d->json, "collectives", NULL);
        return;
    }

    ops->name(name, sizeof name);
    sw_doctor_ok(d, "versions", "all-reduce backend: %s", name);
    sw_json_string(&d->json, "collectives", name);
}

int sw_doctor_devices(struct sw_doctor *d, struct sw_err *err)
{
    struct devices all = {.count = 0};
    int code = open_devices(d, &all, err);
    if (code)
        goto out;

    report_libraries(d, &all);
    report_collectives(d, &all);
    if (d->quick)
        goto out;

    code = test_products(d, &all, err);
    if (code)
        goto out;

    code = test_copies(d, &all, err);

out:
    for (int i = 0; i < all.count; i++)
        sw_device_close(all.items[i]);
    return code;
}
