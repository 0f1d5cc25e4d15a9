/* singa_probe DEVICES PROBE...: runs probes of devices and their links (device/probe.h) in a
 * separate process, which may hang and be killed. Only plan/peer_links.c starts it. DEVICES are the
 * name of a driver, a colon, and the output of its identify function (device/driver.h). A PROBE is
 * staged:A:B or direct:A:B (copies from the A-th device to the B-th, through the host or not), or
 * sum:N (over the first N), or self:A (does the A-th device compute correctly?). Staged probes come
 * first, since enabling peer access cannot be undone. It prints "ready" and then one line per
 * probe: "ok GB/s us", "none" (no such path), "damaged TEXT" or "fails TEXT". */
#include "device/driver.h"
#include "device/probe.h"

#include <stdio.h>
#include <string.h>

enum { ALL_REDUCE_TIMEOUT_MS = 60000 };

struct devices {
    struct sw_device *items[SW_COLLECTIVE_RANKS]; /* owned */
    int count;
};

/* "NAME:OPTIONS", as the driver's identify wrote the options. */
static int open_devices(const char *text, struct devices *d, struct sw_err *err)
{
    const struct sw_driver *driver = sw_driver_find(text);
    const char *colon = strchr(text, ':');
    if (!driver || !driver->open_probe || !colon)
        return sw_err_set(err, SW_ERR_INVALID, "invalid device list '%s'", text);

    return driver->open_probe(colon + 1, d->items, SW_COLLECTIVE_RANKS, &d->count, err);
}

static void print_result(int rc, const struct sw_probe_result *t, const struct sw_err *err)
{
    if (rc == SW_OK)
        printf("ok %.9g %.9g\n", t->gb_per_s, t->latency_us);
    else
        printf("%s %s\n", rc == SW_ERR_FORMAT ? "damaged" : "fails", err->text);
}

static void probe_direct(struct sw_device *from, struct sw_device *to)
{
    struct sw_probe_result t = {0};
    struct sw_err err;

    if (!sw_device_reaches(from, to) || !sw_device_reaches(to, from)) {
        puts("none");
        return;
    }

    int rc = sw_device_reach(from, to, &err);
    if (rc != SW_OK)
        goto out;
    rc = sw_device_reach(to, from, &err);
    if (rc != SW_OK)
        goto out;

    rc = sw_probe_copies(from, to, &t, &err);

out:
    print_result(rc, &t, &err);
}

static void run_probe(const struct devices *d, const char *probe)
{
    struct sw_probe_result t = {0};
    struct sw_err err;
    char kind[8];
    int a, b, rc;

    if (sscanf(probe, "sum:%d", &a) == 1 && a >= 1 && a <= d->count) {
        rc = sw_probe_allreduce(d->items, a, ALL_REDUCE_TIMEOUT_MS, &t, &err);
        print_result(rc, &t, &err);
    } else if (sscanf(probe, "self:%d", &a) == 1 && a >= 0 && a < d->count) {
        rc = sw_probe_compute(d->items[a], &err);
        print_result(rc, &t, &err);
    } else if (sscanf(probe, "%7[a-z]:%d:%d", kind, &a, &b) != 3 || a < 0 || b < 0 ||
               a >= d->count || b >= d->count) {
        printf("fails '%s' is not a probe of %d devices\n", probe, d->count);
    } else if (strcmp(kind, "direct") == 0) {
        probe_direct(d->items[a], d->items[b]);
    } else {
        rc = sw_probe_copies(d->items[a], d->items[b], &t, &err);
        print_result(rc, &t, &err);
    }
}

int main(int argc, char **argv)
{
    struct devices d = {.count = 0};
    struct sw_err err;

    setvbuf(stdout, NULL, _IOLBF, 0);

    int rc = argc < 2 ? sw_err_set(&err, SW_ERR_INVALID, "no devices given")
                      : open_devices(argv[1], &d, &err);
    if (rc == SW_OK)
        puts("ready");
    else
        printf("fails %s\n", err.text);

    for (int i = 2; i < argc && rc == SW_OK; i++)
        run_probe(&d, argv[i]);
    for (int i = 0; i < d.count; i++)
        sw_device_close(d.items[i]);

    return rc == SW_OK ? 0 : 1;
}
