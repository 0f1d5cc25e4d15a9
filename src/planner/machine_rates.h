/* The figures of a machine model: given ones, else measured ones, else assumed ones, each with its
 * source. Internal to the building of models; pure. */
#pragma once

#include "planner/machine_build.h"

struct sw_machine_rates {
    struct sw_figure flops, memory; /* of a device; of workers on cores: of one core */
    struct sw_figure core_flops, core_memory;
    struct sw_figure link;     /* of a device, given, configured or measured; 0: by its PCIe link */
    struct sw_figure switches; /* of a PCIe switch, given; 0: by its PCIe link */
    struct sw_figure net, socket;
    double copy_latency_s, net_latency_s;
    double launch_s, wake_s;
    int64_t memory_bytes; /* of a device, or of the host for workers on cores; 0: unknown */
};

/* `driver` is that of the devices, of the host for workers on cores. */
void sw_machine_rates_find(const struct sw_machine_args *args, const struct sw_driver *driver,
                           struct sw_machine_rates *out);

/* Throughput of a device's link, and of the link of a switch above it, where PCIe links move
 * gb_per_s GB/s (0: unknown). */
struct sw_figure sw_machine_rates_link(const struct sw_machine_rates *r, double gb_per_s);
struct sw_figure sw_machine_rates_switch(const struct sw_machine_rates *r, double gb_per_s);
