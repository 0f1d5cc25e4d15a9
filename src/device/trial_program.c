/* singa_trial DEVICES TRIAL...: tries what devices do for one another (device/trial.h), in a
 * process of its own that may hang and be killed. Nobody calls it but train/ways.c.
 *
 * DEVICES are "cuda:BUS,BUS" (PCI addresses) or the option text of simulated GPUs, "sim:gpus=2". A
 * TRIAL is staged:A:B or direct:A:B (copies from the A-th device to the B-th, by way of the host or
 * not), or sum:N (over the first N). Staged ones come first: devices that were told to reach each
 * other do so for ever. It says "ready", and then a line for each trial: "ok GB/s us", "none"
 * (there is no such way), "damaged TEXT" or "fails TEXT". */
#include "device/cuda/cuda_module.h"
#include "device/sim/sim.h"
#include "device/trial.h"

#include <stdio.h>
#include <string.h>

enum { SLOW_LINK = 500000000 /* bytes a second */, SLOW_US = 100 };
enum { TOGETHER_MS = 60000, SIM_BYTES = 16 << 20 /* blocks are a share of it */ };

struct devices {
    struct sw_device *items[SW_COLLECTIVE_RANKS]; /* owned */
    int count;
};

/* What a job is to meet at one of its operations is not ours; nor are links on which a trial would
 * take seconds. */
static int open_sims(const char *text, struct devices *d, struct sw_err *err)
{
    struct sw_sim_conf conf;
    int rc = sw_sim_parse(text, &conf, err);
    if (rc != SW_OK)
        return rc;
    conf.fault = SW_SIM_NO_FAULT;
    conf.slow = 1;
    const bool limited = conf.link_bytes_per_s > 0;
    if ((limited && conf.link_bytes_per_s < SLOW_LINK) || conf.latency_us > SLOW_US)
        conf.link_bytes_per_s = conf.latency_us = 0;
    conf.memory_bytes = conf.memory_bytes < SIM_BYTES ? conf.memory_bytes : SIM_BYTES;
    for (; d->count < conf.gpus && rc == SW_OK; d->count += rc == SW_OK) {
        rc = sw_sim_open(&conf, d->count, &d->items[d->count], err);
        if (rc == SW_OK && d->count > 0)
            sw_sim_join(d->items[d->count], d->items[0]);
    }
    return rc;
}

static int open_gpus(const char *text, struct devices *d, struct sw_err *err)
{
    int rc = SW_OK;
    while (*text && d->count < SW_COLLECTIVE_RANKS && rc == SW_OK) {
        char bus[20];
        size_t n = strcspn(text, ",");
        snprintf(bus, sizeof bus, "%.*s", (int)n, text);
        rc = sw_cuda_open(bus, d->count, SW_PRECISION_FP32, &d->items[d->count], err);
        d->count += rc == SW_OK;
        text += n + (text[n] == ',');
    }
    return rc;
}

static int open_devices(const char *text, struct devices *d, struct sw_err *err)
{
    if (strncmp(text, "sim:", 4) == 0)
        return open_sims(text + 4, d, err);
    if (strncmp(text, "cuda:", 5) == 0)
        return open_gpus(text + 5, d, err);
    return sw_err_set(err, SW_ERR_INVALID, "'%s' are no devices", text);
}

static void say(int rc, const struct sw_trial *t, const struct sw_err *err)
{
    if (rc == SW_OK)
        printf("ok %.9g %.9g\n", t->gb_per_s, t->latency_us);
    else
        printf("%s %s\n", rc == SW_ERR_FORMAT ? "damaged" : "fails", err->text);
}

static void try_direct(struct sw_device *from, struct sw_device *to)
{
    struct sw_trial t = {0};
    struct sw_err err;
    if (!sw_device_reaches(from, to) || !sw_device_reaches(to, from)) {
        puts("none");
        return;
    }
    int rc = sw_device_reach(from, to, &err);
    if (rc == SW_OK)
        rc = sw_device_reach(to, from, &err);
    if (rc == SW_OK)
        rc = sw_trial_copies(from, to, &t, &err);
    say(rc, &t, &err);
}

static void try_one(const struct devices *d, const char *trial)
{
    struct sw_trial t = {0};
    struct sw_err err;
    char kind[8];
    int a, b, rc;
    if (sscanf(trial, "sum:%d", &a) == 1 && a >= 1 && a <= d->count) {
        rc = sw_trial_sums(d->items, a, TOGETHER_MS, &t, &err);
        say(rc, &t, &err);
    } else if (sscanf(trial, "%7[a-z]:%d:%d", kind, &a, &b) != 3 || a < 0 || b < 0 ||
               a >= d->count || b >= d->count) {
        printf("fails '%s' is no trial of %d devices\n", trial, d->count);
    } else if (strcmp(kind, "direct") == 0) {
        try_direct(d->items[a], d->items[b]);
    } else {
        rc = sw_trial_copies(d->items[a], d->items[b], &t, &err);
        say(rc, &t, &err);
    }
}

int main(int argc, char **argv)
{
    struct devices d = {.count = 0};
    struct sw_err err;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int rc = argc < 2 ? sw_err_set(&err, SW_ERR_INVALID, "no devices are named")
                      : open_devices(argv[1], &d, &err);
    if (rc == SW_OK)
        puts("ready");
    else
        printf("fails %s\n", err.text);
    for (int i = 2; i < argc && rc == SW_OK; i++)
        try_one(&d, argv[i]);
    for (int i = 0; i < d.count; i++)
        sw_device_close(d.items[i]);
    return rc == SW_OK ? 0 : 1;
}
