/* The throughput of this machine: matrix products on a core and on a device, memory, and a device's
 * link. `singa-ws doctor` stores such figures in doctor.json of the state directory; missing ones
 * are measured here, in some tenths of a second, and stored in rates.json, so that choices based on
 * them stay the same from run to run. The figures are used for choices only. */
#include "run/throughput.h"
#include "base/json.h"
#include "base/os.h"
#include "base/str.h"
#include "device/driver.h"
#include "device/throughput.h"
#include "device/tune.h"
#include "run/job_roles.h"
#include "thread/thread.h"
#include "worker/events.h"
#include "worker/worker.h"
#include <string.h>

enum {
    FILE_BYTES = 1 << 20,
    ARRAY_BYTES = 64 << 20,
    COPY_BYTES = 1 << 20,
    SMALL_BYTES = 64,
    SMALL_COPIES = 16,
    WAKES = 400,
};

/* Figures per core or device; 0: unknown. */
struct figures {
    double core_gflops, memory_gb_per_s, device_gflops, device_gb_per_s, link_gb_per_s;
    double measured_at; /* Unix time, of the first of them */
    double wake_us;     /* until a thread goes on that another one wakes */
    double copy_us;     /* of a small copy to a device, in a row of such copies */
};

/* ---- Stored figures ---- */

static double number_of(const struct sw_json *object, const char *key)
{
    const struct sw_json *v = object ? sw_json_get(object, key) : NULL;
    return v && v->type == SW_JSON_NUMBER && v->number > 0 ? v->number : 0;
}

static bool says(const struct sw_json *object, const char *key, const char *text)
{
    const struct sw_json *v = sw_json_get(object, key);
    return v && v->type == SW_JSON_STRING && sw_str_eq(v->string, text);
}

static const struct sw_json *find_by(const struct sw_json *array, const char *key, const char *text)
{
    const struct sw_json *item = array ? array->first : NULL;
    while (item && !says(item, key, text))
        item = item->next;
    return item;
}

/* Errors: SW_ERR_NOMEM, those of sw_history_state_dir. */
static int path_of(const char *name, char **path, struct sw_err *err)
{
    char *state = NULL;

    int rc = sw_history_state_dir(&state, err);
    if (rc != SW_OK)
        return rc;

    *path = sw_format("%s/%s", state, name);
    sw_free(state);
    return *path ? SW_OK : sw_err_nomem(err, "path of a file of the state directory", 0);
}

int sw_state_file_load(const char *host, const char *name, struct sw_json **out, struct sw_err *err)
{
    char *path = NULL, *text = NULL;
    struct sw_json *root = NULL;
    size_t bytes;

    *out = NULL;
    int rc = path_of(name, &path, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_os_read_file(path, FILE_BYTES, &text, &bytes, err);
    if (rc == SW_OK && sw_json_parse(text, bytes, &root, err) != SW_OK)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s is damaged", path);

    if (root && says(root, "host", host))
        *out = root;
    else
        sw_json_free(root);
    sw_free(text);
    sw_free(path);

    return rc == SW_ERR_NOTFOUND ? SW_OK : rc;
}

struct sw_json *sw_state_file_read(const char *host, const char *name)
{
    struct sw_err ignored;
    struct sw_json *root;
    return sw_state_file_load(host, name, &root, &ignored) == SW_OK ? root : NULL;
}

/* Reads the figures of the slowest NUMA node, and of the slower direction of a device's link. */
static void read_doctor(const struct sw_worker *w, struct figures *f)
{
    const struct sw_job_place *place = w->shared.place;
    struct sw_json *root = sw_state_file_read(place->machine->host, "doctor.json");
    const char *device = w->device->name;
    const struct sw_json *measured = root ? sw_json_get(root, "measured") : NULL;
    const struct sw_json *nodes = measured ? sw_json_get(measured, "nodes") : NULL;

    for (const struct sw_json *n = nodes ? nodes->first : NULL; n; n = n->next) {
        double cores = number_of(n, "cores");
        double gflops = cores > 0 ? number_of(n, "gemm_gflops") / cores : 0;
        double memory = number_of(n, "memory_gb_per_s");

        f->core_gflops = n == nodes->first || gflops < f->core_gflops ? gflops : f->core_gflops;
        f->memory_gb_per_s =
            n == nodes->first || memory < f->memory_gb_per_s ? memory : f->memory_gb_per_s;
    }

    f->measured_at = f->core_gflops > 0 ? number_of(root, "time") : 0;

    /* A simulated device of another job may have other settings. */
    if (measured && place->devices.driver->caps.own_processor) {
        f->device_gflops =
            number_of(find_by(sw_json_get(measured, "devices"), "device", device), "gemm_gflops");

        const struct sw_json *copies = sw_json_get(measured, "copies");
        double there = number_of(find_by(copies, "to", device), "gb_per_s");
        double back = number_of(find_by(copies, "from", device), "gb_per_s");
        f->link_gb_per_s = there < back ? there : back;
    }

    sw_json_free(root);
}

static void fill_from(const struct sw_json *object, const char *key, double *figure)
{
    *figure = *figure > 0 ? *figure : number_of(object, key);
}

static void read_throughputs(const struct sw_job_place *place, struct figures *f)
{
    struct sw_json *root = sw_state_file_read(place->machine->host, "rates.json");
    const struct sw_json *devices = root ? sw_json_get(root, "devices") : NULL;
    const struct sw_json *own = find_by(devices, "device", place->devices.text);

    fill_from(root, "time", &f->measured_at);
    fill_from(root, "core_gflops", &f->core_gflops);
    fill_from(root, "memory_gb_per_s", &f->memory_gb_per_s);
    fill_from(root, "wake_us", &f->wake_us);
    fill_from(own, "gemm_gflops", &f->device_gflops);
    fill_from(own, "memory_gb_per_s", &f->device_gb_per_s);
    fill_from(own, "link_gb_per_s", &f->link_gb_per_s);
    fill_from(own, "copy_us", &f->copy_us);
    sw_json_free(root);
}

/* ---- Measuring ---- */

struct copy {
    void *to, *from;
};

static int copy(struct sw_stream *s, void *args, struct sw_err *err)
{
    const struct copy *c = args;
    return sw_copy(s, c->to, c->from, COPY_BYTES, err);
}

static int copy_small(struct sw_stream *s, void *args, struct sw_err *err)
{
    const struct copy *c = args;

    for (int i = 0; i < SMALL_COPIES; i++) {
        int rc = sw_copy(s, c->to, c->from, SMALL_BYTES, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static double measure_product(struct sw_stream *s, int side)
{
    size_t n = (size_t)side * (size_t)side;
    struct sw_throughput gflops = {0};
    struct sw_err ignored;
    float *m = sw_tune_allocate(s->dev, 3 * n * sizeof(float));
    if (!m)
        return 0;

    float *const abc[3] = {m, m + n, m + 2 * n};
    if (sw_throughput_product(s, abc, side, 0, &gflops, &ignored) != SW_OK)
        gflops.median = 0;
    sw_tune_free_memory(s->dev, m, 3 * n * sizeof(float));

    return gflops.median;
}

static double measure_memory(struct sw_stream *s)
{
    int64_t n = ARRAY_BYTES / (int64_t)sizeof(float);
    struct sw_throughput gb_per_s = {0};
    struct sw_err ignored;
    float *m = sw_tune_allocate(s->dev, 2 * ARRAY_BYTES);
    if (!m)
        return 0;

    if (sw_throughput_memory(s, m, m + n, &n, 0, &gb_per_s, &ignored) != SW_OK)
        gb_per_s.median = 0;
    sw_tune_free_memory(s->dev, m, 2 * ARRAY_BYTES);

    return gb_per_s.median;
}

/* Units per nanosecond of copies to the device; 0: it failed. */
static double measure_copies(struct sw_stream *s, double units,
                             int (*run)(struct sw_stream *s, void *args, struct sw_err *err))
{
    struct copy c = {.to = sw_tune_allocate(s->dev, COPY_BYTES)};
    struct sw_throughput per_ns = {0};
    struct sw_err ignored;
    int rc = sw_device_host_alloc(s->dev, COPY_BYTES, "copies to measure", &c.from, &ignored);

    if (!c.to || rc != SW_OK || sw_throughput_of(s, units, run, &c, 0, &per_ns, &ignored) != SW_OK)
        per_ns.median = 0;

    sw_tune_free_memory(s->dev, c.to, COPY_BYTES);
    if (rc == SW_OK)
        sw_device_host_free(s->dev, c.from, COPY_BYTES);

    return per_ns.median;
}

/* Two threads that wake each other in turns. */
struct turns {
    struct sw_mutex lock;
    struct sw_cond changed;
    int turn; /* guarded by lock */
};

static void take_turns(struct turns *t, int parity)
{
    sw_mutex_lock(&t->lock);
    while (t->turn < WAKES) {
        if (t->turn % 2 == parity) {
            t->turn++;
            sw_cond_broadcast(&t->changed);
        } else {
            sw_cond_wait(&t->changed, &t->lock);
        }
    }
    sw_mutex_unlock(&t->lock);
}

static void take_odd_turns(void *turns)
{
    take_turns(turns, 1);
}

static double measure_wake(void)
{
    struct turns t = {.turn = 0};
    struct sw_thread other = {0};
    struct sw_err ignored;

    sw_mutex_init(&t.lock);
    sw_cond_init(&t.changed);
    const int64_t began_ns = sw_os()->monotonic_ns();
    const int rc = sw_thread_start(&other, "wakes", take_odd_turns, &t, &ignored);
    if (rc == SW_OK) {
        take_turns(&t, 0);
        sw_thread_join(&other);
    }
    const double ns = (double)(sw_os()->monotonic_ns() - began_ns);
    sw_cond_fini(&t.changed);
    sw_mutex_fini(&t.lock);

    return rc == SW_OK ? ns * 1e-3 / WAKES : 0;
}

static void measure_core(struct sw_device *host, struct figures *f)
{
    struct sw_err ignored;
    struct sw_stream *s = NULL;
    if (sw_stream_new(host, 1, &s, &ignored) != SW_OK)
        return;

    if (f->core_gflops <= 0)
        f->core_gflops = measure_product(s, sw_driver_host()->gemm_side);
    if (f->memory_gb_per_s <= 0)
        f->memory_gb_per_s = measure_memory(s);
    sw_stream_free(s);
}

/* Measures the missing figures. A simulated link has a configured throughput. */
static bool measure(const struct sw_worker *w, struct figures *f)
{
    const struct sw_job_place *place = w->shared.place;
    const struct sw_driver *driver = place->devices.driver;
    bool measured = false, devices = w->topology->devices > 0;

    if (place->devices.link_bytes_per_s > 0)
        f->link_gb_per_s = (double)place->devices.link_bytes_per_s * 1e-9;

    if (f->core_gflops <= 0 || f->memory_gb_per_s <= 0) {
        measure_core(place->host, f);
        measured = true;
    }

    if (f->wake_us <= 0) {
        f->wake_us = measure_wake();
        measured = true;
    }

    if (devices && f->device_gflops <= 0) {
        f->device_gflops = measure_product(w->stream, driver->gemm_side);
        measured = true;
    }

    if (driver->caps.own_processor && f->device_gb_per_s <= 0) {
        f->device_gb_per_s = measure_memory(w->stream);
        measured = true;
    }

    if (devices && f->link_gb_per_s <= 0) {
        f->link_gb_per_s = measure_copies(w->stream, COPY_BYTES, copy);
        measured = true;
    }

    if (devices && f->copy_us <= 0) {
        const double per_ns = measure_copies(w->stream, SMALL_COPIES, copy_small);
        f->copy_us = per_ns > 0 ? 1e-3 / per_ns : 0;
        measured = true;
    }

    if (measured && !(f->measured_at > 0))
        f->measured_at = sw_os()->unix_time();
    sw_stream_attach(w->stream); /* restores its threads for the plans to come */
    return measured;
}

bool sw_throughputs_are_stored(const struct sw_worker *w)
{
    const struct sw_job_place *place = w->shared.place;
    const bool devices = w->topology->devices > 0;
    struct figures f = {0};

    read_doctor(w, &f);
    read_throughputs(place, &f);

    return f.core_gflops > 0 && f.memory_gb_per_s > 0 && (!devices || f.device_gflops > 0) &&
           (!place->devices.driver->caps.own_processor || f.device_gb_per_s > 0) &&
           (!devices || f.link_gb_per_s > 0 || place->devices.link_bytes_per_s > 0);
}

static double at_least(double figure, double usual)
{
    return figure > 0 ? figure : usual;
}

const struct sw_throughputs *sw_throughputs_of(struct sw_throughputs *r, const struct sw_worker *w)
{
    const struct sw_job_place *place = w->shared.place;
    struct figures f = {0};

    if (r->known)
        return r;

    read_doctor(w, &f);
    read_throughputs(place, &f);

    bool measured = measure(w, &f);
    const struct sw_placement_row *worker = sw_placement_worker(place->placement, 0),
                                  *server = sw_placement_server(place->placement, 0);
    double core = at_least(f.core_gflops, 1) * 1e9, device = at_least(f.device_gflops, 1) * 1e9;
    *r = (struct sw_throughputs){.known = true,
                                 .measured = measured,
                                 .worker_flops_per_s =
                                     w->topology->devices > 0 ? device : core * worker->threads,
                                 .server_flops_per_s = core * server->threads,
                                 .memory_bytes_per_s = at_least(f.memory_gb_per_s, 1) * 1e9,
                                 .device_memory_bytes_per_s = f.device_gb_per_s * 1e9,
                                 .link_bytes_per_s = at_least(f.link_gb_per_s, 1) * 1e9,
                                 .measured_at = f.measured_at,
                                 .wake_s = f.wake_us * 1e-6,
                                 .copy_s = f.copy_us * 1e-6};

    return r;
}

/* Copies the stored figures of other devices. */
static void write_others(struct sw_json_writer *w, const struct sw_json *root, const char *device)
{
    const struct sw_json *devices = root ? sw_json_get(root, "devices") : NULL;

    for (const struct sw_json *d = devices ? devices->first : NULL; d; d = d->next) {
        const struct sw_json *name = sw_json_get(d, "device");
        if (!name || !name->string || sw_str_eq(name->string, device))
            continue;

        sw_json_open_object(w, NULL);
        sw_json_string(w, "device", name->string);
        sw_json_real(w, "gemm_gflops", number_of(d, "gemm_gflops"));
        sw_json_real(w, "memory_gb_per_s", number_of(d, "memory_gb_per_s"));
        sw_json_real(w, "link_gb_per_s", number_of(d, "link_gb_per_s"));
        sw_json_real(w, "copy_us", number_of(d, "copy_us"));
        sw_json_close_object(w);
    }
}

static void write_throughputs(const struct sw_throughputs *r, const struct sw_worker *first,
                              const struct sw_json *root, struct sw_bytes *out)
{
    const struct sw_job_place *place = first->shared.place;
    const struct sw_placement_row *server = sw_placement_server(place->placement, 0);
    struct sw_json_writer w;

    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "host", place->machine->host);
    sw_json_real(&w, "time", r->measured_at);
    sw_json_real(&w, "core_gflops", r->server_flops_per_s * 1e-9 / server->threads);
    sw_json_real(&w, "memory_gb_per_s", r->memory_bytes_per_s * 1e-9);
    sw_json_real(&w, "wake_us", r->wake_s * 1e6);
    sw_json_open_array(&w, "devices");
    write_others(&w, root, place->devices.text);

    if (first->topology->devices > 0) {
        sw_json_open_object(&w, NULL);
        sw_json_string(&w, "device", place->devices.text);
        sw_json_real(&w, "gemm_gflops", r->worker_flops_per_s * 1e-9);
        sw_json_real(&w, "memory_gb_per_s", r->device_memory_bytes_per_s * 1e-9);
        sw_json_real(&w, "link_gb_per_s", r->link_bytes_per_s * 1e-9);
        sw_json_real(&w, "copy_us", r->copy_s * 1e6);
        sw_json_close_object(&w);
    }

    sw_json_close_array(&w);
    sw_json_close_object(&w);
    sw_bytes_add(out, "\n");
}

int sw_state_file_store(const char *name, struct sw_bytes *text, struct sw_err *err)
{
    char *state = NULL, *path = NULL;

    int rc = sw_history_state_dir(&state, err);
    if (rc == SW_OK)
        rc = path_of(name, &path, err);
    if (rc == SW_OK)
        rc = sw_os_mkdirs(state, 0700, err);
    if (rc == SW_OK)
        rc = sw_os_replace_file(path, sw_bytes_text(text), text->length, 0600, err);

    sw_free(path);
    sw_free(state);
    return rc;
}

void sw_state_file_write(struct sw_events *events, const char *name, struct sw_bytes *text)
{
    struct sw_err err;

    if (sw_state_file_store(name, text, &err) != SW_OK)
        sw_events_report(events, SW_LOG_WARN, "rates",
                         "cannot store the measurements of this machine: %s", err.text);
}

void sw_throughputs_save(const struct sw_throughputs *r, const struct sw_worker *w)
{
    struct sw_bytes text = {0};

    if (!r->measured)
        return;

    struct sw_json *root = sw_state_file_read(w->shared.place->machine->host, "rates.json");
    write_throughputs(r, w, root, &text);
    sw_state_file_write(w->shared.events, "rates.json", &text);
    sw_json_free(root);
    sw_bytes_fini(&text);
}
