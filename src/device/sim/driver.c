/* The driver of simulated GPUs: its options set their number, speed and faults. */
#include "device/sim/sim_private.h"

#include "base/str.h"
#include <stdio.h>

_Static_assert((int)SW_DEVICE_REQUEST_MOST >= (int)SW_SIM_MAX_GPUS, "a request names all of them");

enum {
    PROBE_LINK_BYTES_PER_S = 500000000,
    PROBE_LATENCY_US = 100,
    PROBE_BYTES = 16 << 20, /* blocks of a probe are a fraction of the memory */
};

static int parse(const char *options, struct sw_device_request *out, struct sw_err *err)
{
    struct sw_sim_conf conf;

    int rc = sw_sim_parse(options ? options : "", &conf, err);
    if (rc != SW_OK)
        return rc;

    out->count = conf.gpus;
    for (int i = 0; i < conf.gpus; i++)
        out->index[i] = i;
    out->link_bytes_per_s = conf.link_bytes_per_s;
    out->link_latency_s = (double)conf.latency_us * 1e-6;
    out->memory_bytes = conf.memory_bytes;
    out->peers = conf.peer != SW_SIM_PEER_NO;

    return SW_OK;
}

static void format(int count, char *out, size_t bytes)
{
    snprintf(out, bytes, "sim:gpus=%d", count);
}

static int open_one(const struct sw_sim_conf *conf, int index, struct sw_device *sibling,
                    struct sw_device **out, struct sw_err *err)
{
    int rc = sw_sim_open(conf, index, out, err);
    if (rc != SW_OK)
        return rc;

    if (sibling)
        sw_sim_join(*out, sibling);
    return SW_OK;
}

static int open_device(const struct sw_device_args *args, struct sw_device **out,
                       struct sw_err *err)
{
    struct sw_sim_conf conf;

    int rc = sw_sim_parse(args->options, &conf, err);
    if (rc != SW_OK)
        return rc;

    conf.precision = args->precision;
    return open_one(&conf, args->index, args->sibling, out, err);
}

/* ---- Links ---- */

static int identify(const char *options, const char *const *bus, int count,
                    struct sw_probe_identity *out, struct sw_err *err)
{
    for (int i = 0; i < count; i++)
        out->device[i] = sw_format("sim:%d of %s", i, options);
    out->options = sw_format("%s", options);
    out->common = sw_format("%s", "");

    return SW_OK;
}

/* Opens the devices without the faults of the options, which are meant for a job, and without slow
 * links, over which a probe would take seconds. */
static int open_probe(const char *options, struct sw_device **out, int most, int *count,
                      struct sw_err *err)
{
    struct sw_sim_conf conf;

    int rc = sw_sim_parse(options, &conf, err);
    if (rc != SW_OK)
        return rc;

    conf.fault = SW_SIM_NO_FAULT;
    conf.slow = 1;

    const bool limited = conf.link_bytes_per_s > 0;
    if ((limited && conf.link_bytes_per_s < PROBE_LINK_BYTES_PER_S) ||
        conf.latency_us > PROBE_LATENCY_US)
        conf.link_bytes_per_s = conf.latency_us = 0;

    conf.memory_bytes = conf.memory_bytes < PROBE_BYTES ? conf.memory_bytes : PROBE_BYTES;

    for (; *count < conf.gpus && *count < most; ++*count) {
        rc = open_one(&conf, *count, *count > 0 ? out[0] : NULL, &out[*count], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

const struct sw_driver sw_driver_sim = {
    .name = "sim",
    .label = "simulated GPU",
    .forms = (const char *const[]){"sim:gpus=N", NULL},
    .caps = {.captures = true, .simulated = true},
    .gemm_side = 256,
    .parse = parse,
    .format = format,
    .open = open_device,
    .identify = identify,
    .open_probe = open_probe,
};
