/* Figures by precedence: given, configured, measured, assumed (plan/usual_rates.h). */
#include "planner/machine_rates.h"
#include "plan/usual_rates.h"
#include <stdio.h>

static const struct sw_figure assumed_gpu_flops = {SW_USUAL_GPU_FLOPS_PER_S, "assumed"},
                              assumed_gpu_memory = {SW_USUAL_GPU_MEMORY_BYTES_PER_S, "assumed"},
                              assumed_core_flops = {SW_USUAL_CORE_FLOPS_PER_S, "assumed"},
                              assumed_memory = {SW_USUAL_MEMORY_BYTES_PER_S, "assumed"},
                              assumed_pcie = {SW_USUAL_PCIE_BYTES_PER_S, "assumed: PCIe 3.0 x16"},
                              assumed_socket = {SW_USUAL_SOCKET_BYTES_PER_S, "assumed"},
                              assumed_net = {SW_USUAL_NET_BYTES_PER_S, "assumed: 1 Gbit/s"};

static struct sw_figure measured(const struct sw_machine_args *a, double value)
{
    struct sw_figure f = {.value = value > 0 ? value : 0};
    snprintf(f.source, sizeof f.source, "%s", a->measured_source ? a->measured_source : "measured");
    return f;
}

/* The first known figure of three; the last one is returned if none is. */
static struct sw_figure first_of(struct sw_figure given, struct sw_figure found,
                                 struct sw_figure otherwise)
{
    return given.value > 0 ? given : found.value > 0 ? found : otherwise;
}

static double per_thread(double flops_per_s, int threads)
{
    return threads > 0 ? flops_per_s / threads : 0;
}

/* Cores serve as workers, as servers, and behind simulated devices. */
static void find_cores(const struct sw_machine_args *a, struct sw_machine_rates *r)
{
    const struct sw_figure none = {.value = 0};
    const struct sw_throughputs *t = a->measured;
    double flops = 0;

    if (t)
        flops = a->worker_threads > 0 ? per_thread(t->worker_flops_per_s, a->worker_threads)
                                      : per_thread(t->server_flops_per_s, a->server_threads);

    r->wake_s = t && t->wake_s > 0 ? t->wake_s : SW_USUAL_WAKE_S;
    r->core_flops = first_of(none, measured(a, flops), assumed_core_flops);
    r->core_memory = first_of(none, measured(a, t ? t->memory_bytes_per_s : 0), assumed_memory);
}

static void find_workers(const struct sw_machine_args *a, const struct sw_given_figures *given,
                         struct sw_machine_rates *r)
{
    const struct sw_machine *map = a->map;

    if (given->flops_per_s.value > 0) {
        r->core_flops = given->flops_per_s;
        r->core_flops.value /= sw_machine_threads(map);
    }

    r->core_memory = first_of(given->memory_bytes_per_s, r->core_memory, r->core_memory);
    r->flops = r->core_flops;
    r->memory = r->core_memory;
    r->memory_bytes = map->memory_quota > 0 && map->memory_quota < map->memory_bytes
                          ? map->memory_quota
                          : map->memory_bytes;
}

static void find_devices(const struct sw_machine_args *a, const struct sw_driver *driver,
                         const struct sw_given_figures *given, struct sw_machine_rates *r)
{
    const struct sw_figure none = {.value = 0};
    const struct sw_throughputs *t = a->worker_threads == 0 ? a->measured : NULL;
    const struct sw_device_request *q =
        a->request && a->request->driver == driver ? a->request : NULL;
    const bool own = !driver->caps.simulated;
    const struct sw_figure configured = {q ? (double)q->link_bytes_per_s : 0, "configured"};

    r->flops = first_of(given->flops_per_s, measured(a, t ? t->worker_flops_per_s : 0),
                        own ? assumed_gpu_flops : r->core_flops);
    r->memory = first_of(given->memory_bytes_per_s,
                         own ? measured(a, t ? t->device_memory_bytes_per_s : 0) : none,
                         own ? assumed_gpu_memory : r->core_memory);

    r->switches = given->pcie_bytes_per_s;
    r->link =
        first_of(given->pcie_bytes_per_s, configured, measured(a, t ? t->link_bytes_per_s : 0));
    if (r->link.value <= 0 && !own)
        r->link = r->core_memory; /* simulated links without a rate are copies in host memory */
    r->copy_latency_s = t && t->copy_s > 0           ? t->copy_s
                        : q && q->link_latency_s > 0 ? q->link_latency_s
                        : own                        ? SW_USUAL_COPY_S
                                                     : 0;
    r->launch_s = own ? SW_USUAL_LAUNCH_S : 0;

    r->memory_bytes = given->gpu_memory_bytes.value > 0 ? (int64_t)given->gpu_memory_bytes.value
                      : q && q->memory_bytes > 0        ? q->memory_bytes
                                                        : a->gpu_memory_bytes;
}

static void find_net(const struct sw_machine_args *a, const struct sw_given_figures *given,
                     struct sw_machine_rates *r)
{
    struct sw_figure found = {.value = 0};

    if (a->host_rates) {
        found.value = a->host_rates->link_bytes_per_s;
        snprintf(found.source, sizeof found.source, "%.63s", a->host_rates->source);
    }

    r->net = first_of(given->net_bytes_per_s, found, assumed_net);
    r->net_latency_s = given->net_latency_s.value > 0 ? given->net_latency_s.value
                       : a->host_latency_s > 0        ? a->host_latency_s
                                                      : SW_USUAL_MESSAGE_S;
}

void sw_machine_rates_find(const struct sw_machine_args *args, const struct sw_driver *driver,
                           struct sw_machine_rates *out)
{
    static const struct sw_given_figures nothing;
    const struct sw_given_figures *given = args->given ? args->given : &nothing;

    *out = (struct sw_machine_rates){.socket = assumed_socket};
    find_cores(args, out);

    if (driver->caps.host_memory)
        find_workers(args, given, out);
    else
        find_devices(args, driver, given, out);

    find_net(args, given, out);
}

struct sw_figure sw_machine_rates_link(const struct sw_machine_rates *r, double gb_per_s)
{
    const struct sw_figure speed = {gb_per_s * 1e9, "speed of the PCIe link"};
    return first_of(r->link, speed, assumed_pcie);
}

struct sw_figure sw_machine_rates_switch(const struct sw_machine_rates *r, double gb_per_s)
{
    const struct sw_figure speed = {gb_per_s * 1e9, "speed of the PCIe link"};
    return first_of(r->switches, speed, sw_machine_rates_link(r, 0));
}
