/* Builds machine models: decides which devices there are, fills in the figures, then adds one host
 * after the other with its hubs, devices and pairs. Arrays are allocated as large as they can
 * become. */
#include "planner/machine_build.h"
#include "base/os.h"
#include "exchange/copy_mode.h"
#include "plan/placement.h"
#include "plan/usual_rates.h"
#include "planner/machine_rates.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    GPUS_PER_SWITCH = 4, /* of imagined machines */
    SOCKETS = SW_MAX_NODES,
};

/* A copy that is faster than a PCIe link by this factor does not go over it. */
#define PCIE_MARGIN 1.1

struct build {
    const struct sw_machine_args *args;
    const struct sw_machine *map;
    struct sw_machine_model *m;     /* owned until the end */
    const struct sw_driver *driver; /* of the devices; the host's: workers on cores */
    int per_host;                   /* devices of a host */
    bool mapped;                    /* the devices are GPUs of the map */
    struct sw_machine_rates rates;
    struct sw_placement *placement; /* owned: of workers on cores */

    /* Of the host at hand; a hub of 0 is not there yet. */
    int *hub_of_io; /* owned [io_count] */
    int hub_of_socket[SOCKETS];
    int host, host_hub, first; /* its number, highest hub and first device */
    int switches, last_switch; /* PCIe switches so far */
};

/* ---- Which devices ---- */

static bool on_cores(const struct sw_machine_args *a, int given_gpus)
{
    if (given_gpus > 0)
        return false;
    return a->request ? a->request->driver->caps.host_memory : a->map->gpu_count == 0;
}

static int counts(const struct sw_machine_args *a, int *hosts, int *gpus, struct sw_err *err)
{
    struct sw_given_figures given = {.hosts.value = 0};

    if (a->given)
        given = *a->given;
    if (given.hosts.value <= 0)
        given.hosts.value = a->hosts > 0 ? a->hosts : 1;
    return sw_given_counts(&given, hosts, gpus, err);
}

bool sw_machine_on_cores(const struct sw_machine_args *args)
{
    int hosts, gpus;
    return counts(args, &hosts, &gpus, NULL) == SW_OK && on_cores(args, gpus);
}

/* The number in the map of device `i` of a host: as requested, unless more are given. */
static int map_gpu(const struct build *b, int i)
{
    const struct sw_device_request *r = b->args->request;
    return r && b->per_host <= r->count ? r->index[i] : i;
}

static int check_gpus(const struct build *b, struct sw_err *err)
{
    if (b->per_host < 1)
        return sw_err_set(err, SW_ERR_INVALID, "the machine has no GPU; give the number with gpus");

    for (int i = 0; i < b->per_host && b->mapped; i++)
        if (map_gpu(b, i) >= b->map->gpu_count)
            return sw_err_set(err, SW_ERR_INVALID, "%s:%d does not exist: the machine has %d GPU%s",
                              b->driver->name, map_gpu(b, i), b->map->gpu_count,
                              b->map->gpu_count == 1 ? "" : "s");
    return SW_OK;
}

static int choose_devices(struct build *b, struct sw_err *err)
{
    const struct sw_device_request *r = b->args->request;
    int gpus;

    int rc = counts(b->args, &b->m->hosts, &gpus, err);
    if (rc != SW_OK)
        return rc;
    if (b->args->given)
        b->m->server_hosts = (int)b->args->given->server_hosts.value;

    if (on_cores(b->args, gpus)) {
        b->driver = sw_driver_host();
        b->per_host = b->args->workers > 0 ? b->args->workers : b->map->node_count;
    } else {
        const bool asked = r && !r->driver->caps.host_memory;

        b->driver = asked ? r->driver : sw_driver_on_bus();
        b->per_host = gpus > 0 ? gpus : asked && r->count > 0 ? r->count : b->map->gpu_count;
        b->mapped = b->driver->caps.on_bus && (gpus == 0 || gpus <= b->map->gpu_count);

        rc = check_gpus(b, err);
        if (rc != SW_OK)
            return rc;
    }

    if ((int64_t)b->m->hosts * b->per_host > SW_MODEL_DEVICES)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d hosts with %d workers each are more than the %d devices that the "
                          "planner knows",
                          b->m->hosts, b->per_host, SW_MODEL_DEVICES);
    return SW_OK;
}

/* The cores of k workers on a host, as a job would place them. */
static int place_workers(struct build *b, struct sw_err *err)
{
    const struct sw_cluster_shape shape = {.worker_groups = 1,
                                           .workers_per_group = b->per_host,
                                           .server_groups = 1,
                                           .servers_per_group = 1,
                                           .threads_per_worker = b->args->threads,
                                           .bind_servers = true};

    return b->driver->caps.host_memory ? sw_placement_new(b->map, &shape, false, &b->placement, err)
                                       : SW_OK;
}

static int allocate(struct build *b, struct sw_err *err)
{
    struct sw_machine_model *m = b->m;
    const size_t devices = (size_t)(m->hosts * b->per_host);
    const size_t hubs = 2 + (size_t)m->hosts + devices * SW_MODEL_DEPTH;
    const size_t pairs = b->mapped ? devices * (size_t)b->per_host / 2 + 1 : 1;

    m->device = sw_calloc(devices, sizeof *m->device);
    m->hub = sw_calloc(hubs, sizeof *m->hub);
    m->pair = sw_calloc(pairs, sizeof *m->pair);
    b->hub_of_io = sw_calloc((size_t)b->map->io_count + 1, sizeof *b->hub_of_io);
    if (!m->device || !m->hub || !m->pair || !b->hub_of_io)
        return sw_err_nomem(err, "the model of a machine",
                            devices * sizeof *m->device + hubs * sizeof *m->hub);
    return SW_OK;
}

/* ---- Hubs ---- */

/* "host 1: " in front of names, if there are several hosts. */
static const char *prefix(const struct build *b, char out[24])
{
    out[0] = '\0';
    if (b->m->hosts > 1)
        snprintf(out, 24, "host %d: ", b->host);
    return out;
}

/* Adds a hub of the host at hand and returns its index. */
static int add_hub(struct build *b, const char *name, int parent, struct sw_figure bytes_per_s,
                   double latency_s)
{
    struct sw_hub_model *h = &b->m->hub[b->m->hub_count];
    char host[24];

    *h = (struct sw_hub_model){
        .parent = parent, .host = b->host, .bytes_per_s = bytes_per_s, .latency_s = latency_s};
    snprintf(h->name, sizeof h->name, "%s%s", prefix(b, host), name);
    return b->m->hub_count++;
}

static bool has_network(const struct sw_machine_model *m)
{
    return m->hosts > 1 || m->server_hosts > 0;
}

static void add_host_hub(struct build *b)
{
    const bool alone = !has_network(b->m);
    struct sw_hub_model *h = &b->m->hub[b->m->hub_count];

    *h = (struct sw_hub_model){.parent = alone ? -1 : 0, .host = b->host, .memory = true};
    if (alone) {
        snprintf(h->name, sizeof h->name, "host");
    } else {
        snprintf(h->name, sizeof h->name, "host %d", b->host);
        h->bytes_per_s = b->rates.net;
        h->latency_s = b->rates.net_latency_s;
    }

    b->host_hub = b->m->hub_count++;
}

static int depth_of(const struct sw_machine_model *m, int hub)
{
    int depth = 0;
    for (; m->hub[hub].parent >= 0; hub = m->hub[hub].parent)
        depth++;
    return depth;
}

/* The memory of a GPU's socket, if the machine has several. */
static int socket_hub(struct build *b, int package)
{
    char name[24];

    if (package < 0 || package >= SOCKETS || b->map->package_count < 2)
        return b->host_hub;

    if (b->hub_of_socket[package] == 0) {
        snprintf(name, sizeof name, "socket %d", package);
        b->hub_of_socket[package] = add_hub(b, name, b->host_hub, b->rates.socket, 0);
        b->m->hub[b->hub_of_socket[package]].memory = true;
    }

    return b->hub_of_socket[package];
}

static int add_switch(struct build *b, int parent, double gb_per_s)
{
    char name[32];
    snprintf(name, sizeof name, "PCIe switch %d", b->switches++);
    return add_hub(b, name, parent, sw_machine_rates_switch(&b->rates, gb_per_s),
                   b->rates.copy_latency_s);
}

static int add_device_hub(struct build *b, int number, int parent, double gb_per_s)
{
    char name[32];
    snprintf(name, sizeof name, "%s:%d", b->driver->name, number);
    return add_hub(b, name, parent, sw_machine_rates_link(&b->rates, gb_per_s),
                   b->rates.copy_latency_s);
}

/* The hub of an entry of the PCIe tree, which is added the first time. Of a very deep tree the
 * lowest bridges count as their parents. */
static int io_hub(struct build *b, int at)
{
    const struct sw_io *io = &b->map->io[at];
    char name[40];
    if (b->hub_of_io[at] > 0)
        return b->hub_of_io[at];

    int hub = io->parent >= 0 ? io_hub(b, io->parent) : socket_hub(b, io->package);

    if (io->kind == SW_IO_GPU) {
        hub = add_device_hub(b, io->gpu, hub, io->link_gb_per_s);
    } else if (depth_of(b->m, hub) < SW_MODEL_DEPTH - 1) {
        snprintf(name, sizeof name, "host bridge %s", io->bus);
        hub = io->kind == SW_IO_HOST_BRIDGE
                  ? add_hub(b, name, hub, (struct sw_figure){.value = 0}, 0)
                  : add_switch(b, hub, io->link_gb_per_s);
    }

    return b->hub_of_io[at] = hub;
}

/* The hub of device `i` of a host that the map does not have: GPUs are below switches like those of
 * the map's first GPU, simulated devices have links to the host. */
static int imagined_hub(struct build *b, int i)
{
    const double gb_per_s = b->driver->caps.on_bus && b->map->gpu_count > 0
                                ? sw_machine_gpu(b->map, 0)->link_gb_per_s
                                : 0;

    if (!b->driver->caps.on_bus || b->per_host == 1)
        return add_device_hub(b, i, b->host_hub, gb_per_s);

    if (i % GPUS_PER_SWITCH == 0)
        b->last_switch = add_switch(b, b->host_hub, gb_per_s);
    return add_device_hub(b, i, b->last_switch, gb_per_s);
}

/* ---- Devices ---- */

static void add_worker(struct build *b, int i)
{
    const struct sw_placement_row *row = sw_placement_worker(b->placement, i);
    struct sw_device_model *d = &b->m->device[b->m->device_count++];
    char host[24], cores[20];

    *d = (struct sw_device_model){.hub = b->host_hub,
                                  .host = b->host,
                                  .host_memory = true,
                                  .threads = row->threads,
                                  .flops_per_s = b->rates.flops,
                                  .bytes_per_s = b->rates.memory,
                                  .memory_bytes = b->rates.memory_bytes};
    d->flops_per_s.value *= row->threads;
    d->thread_bytes_per_s =
        fmax(SW_USUAL_MEMORY_BYTES_PER_S, b->rates.memory.value / sw_machine_threads(b->map));
    snprintf(d->name, sizeof d->name, "%score%s %s", prefix(b, host),
             sw_core_set_count(&row->cores) == 1 ? "" : "s",
             sw_core_set_text(&row->cores, cores, sizeof cores));
}

static void add_device(struct build *b, int i)
{
    const int hub = b->mapped ? io_hub(b, b->map->gpus[map_gpu(b, i)]) : imagined_hub(b, i);
    struct sw_device_model *d = &b->m->device[b->m->device_count++];

    *d = (struct sw_device_model){.hub = hub,
                                  .host = b->host,
                                  .flops_per_s = b->rates.flops,
                                  .bytes_per_s = b->rates.memory,
                                  .memory_bytes = b->rates.memory_bytes};
    snprintf(d->name, sizeof d->name, "%s", b->m->hub[hub].name);
}

/* ---- Links of pairs ---- */

static int find_peer(const struct build *b, int gpu)
{
    const struct sw_peer_links *p = b->args->peer_links;
    char name[32];

    snprintf(name, sizeof name, "%s:%d", b->driver->name, gpu);
    for (int i = 0; p && i < p->count; i++)
        if (strcmp(p->name[i], name) == 0)
            return i;
    return -1;
}

/* The tested link between two GPUs that is the slower direction; NULL: not tested. */
static const struct sw_peer_link *tested(const struct build *b, int x, int y)
{
    const int from = find_peer(b, x), to = find_peer(b, y);
    if (from < 0 || to < 0)
        return NULL;

    const struct sw_peer_link *there = sw_peer_links_direct(b->args->peer_links, from, to);
    const struct sw_peer_link *back = sw_peer_links_direct(b->args->peer_links, to, from);

    if (there->state != SW_PEER_LINK_SOUND)
        return there;
    return back->state != SW_PEER_LINK_SOUND || back->gb_per_s < there->gb_per_s ? back : there;
}

/* Copies between two devices go over a link of their own if there is NVLink, if they are faster
 * than the PCIe links, or if these two have peer access and others do not. */
static void add_pair(struct build *b, int i, int j)
{
    const int x = map_gpu(b, i), y = map_gpu(b, j);
    const struct sw_peer_link *link = tested(b, x, y);
    const bool sound = link && link->state == SW_PEER_LINK_SOUND && link->gb_per_s > 0;
    const bool faulty = link && !sound && link->state != SW_PEER_LINK_UNKNOWN;
    const double nvlink = sw_gpu_nvlink(b->map, x, y);
    const int hub = b->m->device[b->first + i].hub;
    struct sw_pair_model p = {.a = b->first + i,
                              .b = b->first + j,
                              .bytes_per_s = {nvlink * 1e9, "speed of NVLink"},
                              .latency_s = b->rates.copy_latency_s};

    if (x == y || faulty)
        return;

    if (sound) {
        p.bytes_per_s = (struct sw_figure){link->gb_per_s * 1e9, "measured"};
        p.latency_s = link->latency_us * 1e-6;
    }

    const double pcie = b->m->hub[hub].bytes_per_s.value;
    if (nvlink > 0 || (sound && (!b->m->peers || p.bytes_per_s.value > PCIE_MARGIN * pcie)))
        b->m->pair[b->m->pair_count++] = p;
}

/* Do copies between all devices of a host go directly? Tested ones know; imagined GPUs do. */
static bool has_peers(const struct build *b)
{
    const struct sw_device_request *r = b->args->request;

    if (!b->mapped)
        return b->driver->caps.on_bus || (r && r->peers);

    for (int i = 0; i < b->per_host; i++)
        for (int j = 0; j < i; j++) {
            const struct sw_peer_link *link = tested(b, map_gpu(b, i), map_gpu(b, j));
            if (link && link->state != SW_PEER_LINK_SOUND && link->state != SW_PEER_LINK_UNKNOWN)
                return false;
        }
    return true;
}

/* As plan/copy_mode.c chooses for workers that train in step. */
static bool has_mirrors(const struct build *b)
{
    const struct sw_device_caps *caps = &b->driver->caps;

    if (caps->host_memory)
        return false;
    return b->args->copy == SW_COPY_AUTO ? !caps->own_processor : b->args->copy != SW_COPY_NONE;
}

/* ---- The whole ---- */

static void add_host(struct build *b)
{
    memset(b->hub_of_io, 0, sizeof *b->hub_of_io * (size_t)b->map->io_count);
    memset(b->hub_of_socket, 0, sizeof b->hub_of_socket);
    b->switches = 0;
    b->first = b->m->device_count;

    add_host_hub(b);

    for (int i = 0; i < b->per_host; i++) {
        if (b->placement)
            add_worker(b, i);
        else
            add_device(b, i);
    }

    for (int i = 0; i < b->per_host && b->mapped; i++)
        for (int j = i + 1; j < b->per_host; j++)
            add_pair(b, i, j);
}

static void add_server_hosts(struct build *b)
{
    struct sw_hub_model *h = &b->m->hub[b->m->hub_count];
    if (b->m->server_hosts == 0)
        return;

    *h = (struct sw_hub_model){.parent = 0,
                               .host = b->m->hosts,
                               .memory = true,
                               .bytes_per_s = b->rates.net,
                               .latency_s = b->rates.net_latency_s};
    h->bytes_per_s.value *= b->m->server_hosts;
    snprintf(h->name, sizeof h->name, "%d server host%s", b->m->server_hosts,
             b->m->server_hosts == 1 ? "" : "s");
    b->m->hub_count++;
}

static void name_model(const struct build *b)
{
    struct sw_machine_model *m = b->m;
    const char *one = b->placement ? "worker" : b->driver->caps.on_bus ? "GPU" : b->driver->label;
    char devices[64];

    snprintf(devices, sizeof devices, "%d %s%s%s", b->per_host, one, b->per_host == 1 ? "" : "s",
             b->placement ? " on cores" : "");
    if (m->server_hosts > 0)
        snprintf(m->name, sizeof m->name, "%d host%s with %.32s each, and %d with a server",
                 m->hosts, m->hosts == 1 ? "" : "s", devices, m->server_hosts);
    else if (m->hosts > 1)
        snprintf(m->name, sizeof m->name, "%d hosts with %s each", m->hosts, devices);
    else
        snprintf(m->name, sizeof m->name, "%s with %s", b->map->here ? "this machine" : "a machine",
                 devices);
}

static void fill(struct build *b)
{
    struct sw_machine_model *m = b->m;

    sw_machine_rates_find(b->args, b->driver, &b->rates);
    m->core_flops_per_s = b->rates.core_flops;
    m->core_bytes_per_s = b->rates.core_memory;
    m->server_threads = sw_machine_threads(b->map);
    m->threads_per_worker = b->placement ? b->args->threads : 0;
    m->launch_s = b->rates.launch_s;
    m->wake_s = b->driver->caps.host_memory ? b->rates.wake_s : 0;
    m->peers = has_peers(b);
    m->mirrors = has_mirrors(b);
    name_model(b);

    if (has_network(m))
        m->hub[m->hub_count++] = (struct sw_hub_model){.name = "network", .parent = -1, .host = -1};
    for (b->host = 0; b->host < m->hosts; b->host++)
        add_host(b);
    add_server_hosts(b);
}

int sw_machine_build(const struct sw_machine_args *args, struct sw_machine_model **out,
                     struct sw_err *err)
{
    struct build b = {.args = args, .map = args->map, .m = sw_calloc(1, sizeof *b.m)};
    if (!b.m)
        return sw_err_nomem(err, "the model of a machine", sizeof *b.m);

    int rc = choose_devices(&b, err);
    if (rc != SW_OK)
        goto out;
    rc = place_workers(&b, err);
    if (rc != SW_OK)
        goto out;
    rc = allocate(&b, err);
    if (rc != SW_OK)
        goto out;

    fill(&b);
    *out = b.m;
    b.m = NULL;

out:
    sw_placement_free(b.placement);
    sw_free(b.hub_of_io);
    sw_machine_model_free(b.m);
    return rc;
}
