/* Devices with memory of their own: do bytes arrive as they were sent, over every way and in both
 * directions, is a matrix product right, and how fast is all that? Each trial is a thread that is
 * given some seconds; one that hangs is cancelled and named. */
#include "base/os.h"
#include "cli/share/doctor.h"
#include "cli/share/doctor_product.h"
#include "device/collective.h"
#include "device/cuda_module.h"
#include "device/ops/linear.h"
#include "device/sim/sim.h"
#include "sync/thread.h"
#include <math.h>
#include <string.h>

enum {
    COPY_BYTES = 16 << 20,
    SMALL_BYTES = 4096,
    ROUNDS = 3,
    SMALL_ROUNDS = 20,
    WAIT_MS = 10000,
    SIDE = 256
};

struct devices {
    struct sw_device *items[SW_SIM_MAX_GPUS]; /* owned */
    int count;
};

/* One way between two ends (NULL: the host), or a product on `to` (product). */
struct trial {
    struct sw_device *from, *to;
    bool product;
    double gb_per_s, latency_us, gflops, error;
    bool wrong, hangs;
    int code;
    struct sw_err err;
};

static const char *name_of(const struct sw_device *dev)
{
    return dev ? dev->name : "host";
}

/* ---- Copies -----------------------------------------------------------------------------------
 */

/* What a trial works with: memory of both ends, and of the host for what is sent and came back. */
struct room {
    void *from, *to;            /* of the devices, or NULL */
    unsigned char *sent, *back; /* owned [COPY_BYTES] */
    struct sw_stream *stream, *from_stream;
};

static int64_t timed(struct trial *t, int (*copy)(struct trial *t, struct room *r, size_t bytes),
                     struct room *r, size_t bytes)
{
    int64_t began = sw_os()->monotonic_ns();
    if (t->code == SW_OK)
        t->code = copy(t, r, bytes);
    if (t->code == SW_OK)
        t->code = sw_stream_wait(r->stream, &t->err);
    return sw_os()->monotonic_ns() - began;
}

/* The way that is tried. */
static int go(struct trial *t, struct room *r, size_t bytes)
{
    if (!t->from)
        return sw_copy(r->stream, r->to, r->sent, bytes, &t->err);
    if (!t->to)
        return sw_copy(r->stream, r->back, r->from, bytes, &t->err);
    return sw_copy_peer(r->stream, t->to, r->to, t->from, r->from, bytes, &t->err);
}

/* The bytes to where the way begins. */
static int send(struct trial *t, struct room *r)
{
    if (!t->from)
        return SW_OK;
    struct sw_stream *s = r->from_stream ? r->from_stream : r->stream;
    int code = sw_copy(s, r->from, r->sent, COPY_BYTES, &t->err);
    return code ? code : sw_stream_wait(s, &t->err);
}

/* And from where it ends. */
static int fetch(struct trial *t, struct room *r)
{
    if (!t->to)
        return SW_OK;
    int code = sw_copy(r->stream, r->back, r->to, COPY_BYTES, &t->err);
    return code ? code : sw_stream_wait(r->stream, &t->err);
}

static void fill_bytes(unsigned char *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (unsigned char)(seed >> 24);
    }
}

static void try_copies(struct trial *t, struct room *r)
{
    for (int i = 0; t->code == SW_OK && i < ROUNDS; i++) {
        fill_bytes(r->sent, COPY_BYTES, (uint32_t)i + 1);
        memset(r->back, 0, COPY_BYTES);
        t->code = send(t, r);
        int64_t ns = timed(t, go, r, COPY_BYTES);
        t->gb_per_s = fmax(t->gb_per_s, (double)COPY_BYTES / (double)ns);
        if (t->code == SW_OK)
            t->code = fetch(t, r);
        t->wrong |= t->code == SW_OK && memcmp(r->sent, r->back, COPY_BYTES) != 0;
    }
    t->latency_us = INFINITY;
    for (int i = 0; t->code == SW_OK && i < SMALL_ROUNDS; i++)
        t->latency_us = fmin(t->latency_us, (double)timed(t, go, r, SMALL_BYTES) * 1e-3);
}

static void run_copies(struct trial *t)
{
    struct room r = {0};
    struct sw_device *worker = t->to ? t->to : t->from;
    r.sent = sw_calloc(1, COPY_BYTES);
    r.back = sw_calloc(1, COPY_BYTES);
    if (!r.sent || !r.back)
        t->code = sw_err_nomem(&t->err, "bytes to copy", COPY_BYTES);
    if (t->code == SW_OK)
        t->code = sw_stream_new(worker, 1, &r.stream, &t->err);
    if (t->code == SW_OK && t->from && t->to)
        t->code = sw_stream_new(t->from, 1, &r.from_stream, &t->err);
    if (t->code == SW_OK && t->from)
        t->code = sw_device_alloc(t->from, COPY_BYTES, "a copy's source", &r.from, &t->err);
    if (t->code == SW_OK && t->to)
        t->code = sw_device_alloc(t->to, COPY_BYTES, "a copy's destination", &r.to, &t->err);
    if (t->code == SW_OK)
        try_copies(t, &r);
    sw_stream_free(r.from_stream);
    sw_stream_free(r.stream);
    if (t->from)
        sw_device_free(t->from, r.from, COPY_BYTES);
    if (t->to)
        sw_device_free(t->to, r.to, COPY_BYTES);
    sw_free(r.sent);
    sw_free(r.back);
}

/* ---- A product --------------------------------------------------------------------------------
 */

static void run_product(struct trial *t)
{
    size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
    float *host[3] = {NULL, NULL, NULL};
    void *dev[3] = {NULL, NULL, NULL};
    struct sw_stream *s = NULL;
    t->code = sw_stream_new(t->to, 1, &s, &t->err);
    for (int i = 0; t->code == SW_OK && i < 3; i++) {
        host[i] = sw_calloc(1, bytes);
        t->code = host[i] ? sw_device_alloc(t->to, bytes, "a matrix", &dev[i], &t->err)
                          : sw_err_nomem(&t->err, "a matrix", bytes);
        if (t->code == SW_OK && i < 2) {
            sw_doctor_fill(host[i], SIDE * SIDE, (uint32_t)i + 1);
            t->code = sw_copy(s, dev[i], host[i], bytes, &t->err);
        }
    }
    struct sw_gemm_args args = {
        .m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1, .a = dev[0], .b = dev[1], .c = dev[2]};
    for (int i = 0; t->code == SW_OK && i < ROUNDS; i++) {
        int64_t began = sw_os()->monotonic_ns();
        t->code = sw_op_run(s, &sw_op_gemm, &args, &t->err);
        if (t->code == SW_OK)
            t->code = sw_stream_wait(s, &t->err);
        double ns = (double)(sw_os()->monotonic_ns() - began);
        t->gflops = fmax(t->gflops, 2.0 * SIDE * SIDE * SIDE / ns);
        if (t->code == SW_OK)
            t->code = sw_copy(s, host[2], dev[2], bytes, &t->err);
        if (t->code == SW_OK)
            t->code = sw_stream_wait(s, &t->err);
        if (t->code == SW_OK)
            t->error = fmax(t->error, sw_doctor_product_error(host[0], host[1], host[2], SIDE));
    }
    sw_stream_free(s);
    for (int i = 0; i < 3; i++) {
        sw_device_free(t->to, dev[i], bytes);
        sw_free(host[i]);
    }
    t->wrong = !(t->error < SW_DOCTOR_ROUNDING);
}

/* ---- Under a time limit -----------------------------------------------------------------------
 */

static void trial_main(void *arg)
{
    struct trial *t = arg;
    if (t->product)
        run_product(t);
    else
        run_copies(t);
}

/* A trial that does not end is cancelled: then its thread ends with an error. */
static int run_trial(struct trial *t, struct sw_err *err)
{
    struct sw_thread thread = {0};
    int code = sw_thread_start(&thread, "doctor", trial_main, t, err);
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

static void judge_copy(struct sw_doctor *d, const struct trial *t)
{
    static const char mend[] =
        "do not use this way: fewer GPUs, or copies by way of the host; look at ACS and IOMMU, "
        "cables and risers, and dmesg for errors of the bus";
    const char *from = name_of(t->from), *to = name_of(t->to);
    if (t->hangs)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run that needs it would wait for ever",
                       mend, "copies from %s to %s hang", from, to);
    else if (t->code)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run that needs it would fail", mend,
                       "copies from %s to %s fail: %s", from, to, t->err.text);
    else if (t->wrong)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run that needs it would learn nonsense",
                       mend, "copies from %s to %s arrive damaged", from, to);
    else
        sw_doctor_find(d, SW_FINDING_OK, "devices", NULL, NULL, "%s to %s: %.3g GB/s, %.3g us",
                       from, to, t->gb_per_s, t->latency_us);
}

static void judge_product(struct sw_doctor *d, const struct trial *t)
{
    static const char mend[] = "do not use this device; look at its temperature, power supply and "
                               "clocks (undo overclocking), then have it replaced";
    if (t->hangs)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run on it would wait for ever", mend,
                       "%s hangs in a matrix product", t->to->name);
    else if (t->code)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "a run on it would fail", mend,
                       "%s fails in a matrix product: %s", t->to->name, t->err.text);
    else if (t->wrong)
        sw_doctor_find(d, SW_FINDING_BAD, "devices", "no result of it can be trusted", mend,
                       "%s computes a matrix product wrong by %.2g", t->to->name, t->error);
    else
        sw_doctor_find(d, SW_FINDING_OK, "devices", NULL, NULL,
                       "%s: %.4g Gflop/s in matrix products", t->to->name, t->gflops);
}

static void json_trial(struct sw_json_writer *w, const struct trial *t)
{
    sw_json_open_object(w, NULL);
    if (t->product) {
        sw_json_string(w, "device", t->to->name);
        sw_json_real(w, "gemm_gflops", t->gflops);
    } else {
        sw_json_string(w, "from", name_of(t->from));
        sw_json_string(w, "to", name_of(t->to));
        sw_json_real(w, "gb_per_s", t->gb_per_s);
        sw_json_real(w, "latency_us", t->latency_us);
    }
    sw_json_bool(w, "verified", t->code == SW_OK && !t->wrong && !t->hangs);
    sw_json_close_object(w);
}

static int try_one(struct sw_doctor *d, struct trial t, struct sw_err *err)
{
    int code = run_trial(&t, err);
    if (code)
        return code;
    if (t.product)
        judge_product(d, &t);
    else
        judge_copy(d, &t);
    json_trial(&d->json, &t);
    return SW_OK;
}

/* Every way between two ends that are not both the host. */
static int try_ways(struct sw_doctor *d, const struct devices *all, struct sw_err *err)
{
    int code = SW_OK;
    sw_json_open_array(&d->json, "copies");
    for (int a = -1; !code && a < all->count; a++)
        for (int b = -1; !code && b < all->count; b++)
            if (a != b)
                code = try_one(d,
                               (struct trial){.from = a < 0 ? NULL : all->items[a],
                                              .to = b < 0 ? NULL : all->items[b]},
                               err);
    sw_json_close_array(&d->json);
    return code;
}

static int try_products(struct sw_doctor *d, const struct devices *all, struct sw_err *err)
{
    int code = SW_OK;
    sw_json_open_array(&d->json, "devices");
    for (int i = 0; !code && i < all->count; i++)
        code = try_one(d, (struct trial){.to = all->items[i], .product = true}, err);
    sw_json_close_array(&d->json);
    return code;
}

/* ---- Which ------------------------------------------------------------------------------------
 */

static int open_sim(const char *text, struct devices *all, struct sw_err *err)
{
    struct sw_sim_conf conf = sw_sim_defaults();
    int code = sw_sim_parse(text, &conf, err);
    for (int i = 0; !code && i < conf.gpus; i++) {
        code = sw_sim_open(&conf, i, &all->items[all->count], err);
        if (!code && all->count)
            sw_sim_join(all->items[all->count], all->items[0]);
        all->count += code == SW_OK;
    }
    return code;
}

/* Is GPU `gpu` one of "0,2"? "" names all. */
static bool is_asked_for(const char *list, int gpu)
{
    char number[16];
    size_t n = (size_t)snprintf(number, sizeof number, "%d", gpu);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, number, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    return !*list;
}

/* Every GPU of the machine map that is asked for; one that does not open is a finding. */
static void open_gpus(struct sw_doctor *d, const char *list, struct devices *all)
{
    for (int gpu = 0; gpu < d->machine->gpu_count && all->count < SW_SIM_MAX_GPUS; gpu++) {
        const struct sw_io *io = sw_machine_gpu(d->machine, gpu);
        struct sw_err err;
        if (!is_asked_for(list, gpu))
            continue;
        if (sw_cuda_open(io->bus, gpu, SW_PRECISION_FP32, &all->items[all->count], &err) == SW_OK)
            all->count++;
        else
            sw_doctor_find(
                d, SW_FINDING_WARN, "devices", "runs cannot use it",
                "what the message says; nvidia-smi shows whether the driver sees the GPU",
                "GPU %d (%s, %s): %s", gpu, io->name, io->bus, err.text);
    }
}

static int open_devices(struct sw_doctor *d, struct devices *all, struct sw_err *err)
{
    const char *name = d->device ? d->device : "auto";
    if (sw_str_eq(name, "sim") || sw_str_starts(name, "sim:"))
        return open_sim(name[3] ? name + 4 : "", all, err);
    if (sw_str_eq(name, "cuda") || sw_str_starts(name, "cuda:")) {
        open_gpus(d, name[4] ? name + 5 : "", all);
        if (all->count == 0)
            return sw_err_set(err, SW_ERR_NOTFOUND,
                              "--device %s: there is no such GPU that could be used", name);
        return SW_OK;
    }
    if (sw_str_eq(name, "auto"))
        open_gpus(d, "", all);
    if (sw_str_eq(name, "auto") || sw_str_eq(name, "cpu"))
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID,
                      "--device %s: known are auto, cpu, cuda, cuda:0,2 and sim:gpus=N,...", name);
}

/* Which libraries the GPUs compute with. */
static void see_libraries(struct sw_doctor *d, const struct devices *all)
{
    const struct sw_cuda_module *module;
    struct sw_err ignored;
    if (all->count == 0 || !sw_str_starts(all->items[0]->name, "cuda") ||
        sw_cuda_load(&module, &ignored) != SW_OK)
        return;
    sw_doctor_find(d, SW_FINDING_OK, "versions", NULL, NULL, "%s", module->libraries);
    sw_json_string(&d->json, "cuda_libraries", module->libraries);
}

/* Who adds up gradients of several devices. */
static void see_collectives(struct sw_doctor *d, const struct devices *all)
{
    const struct sw_collective_ops *ops;
    char name[64];
    struct sw_err err;
    if (all->count == 0)
        return;
    if (sw_device_collectives(all->items[0], &ops, &err) != SW_OK) {
        sw_doctor_find(
            d, all->count > 1 ? SW_FINDING_WARN : SW_FINDING_NOTE, "versions",
            "gradients of several devices are added by copies between them, which is "
            "slower",
            "install NCCL (Debian: libnccl2; Python: nvidia-nccl) where the loader finds "
            "libnccl.so.2, and build where nccl.h is",
            "no sums over devices: %s", err.text);
        sw_json_string(&d->json, "collectives", NULL);
        return;
    }
    ops->name(name, sizeof name);
    sw_doctor_find(d, SW_FINDING_OK, "versions", NULL, NULL, "sums over devices: %s", name);
    sw_json_string(&d->json, "collectives", name);
}

int sw_doctor_devices(struct sw_doctor *d, struct sw_err *err)
{
    struct devices all = {.count = 0};
    int code = open_devices(d, &all, err);
    if (!code) {
        see_libraries(d, &all);
        see_collectives(d, &all);
    }
    if (!code && !d->quick)
        code = try_products(d, &all, err);
    if (!code && !d->quick)
        code = try_ways(d, &all, err);
    for (int i = 0; i < all.count; i++)
        sw_device_close(all.items[i]);
    return code;
}
