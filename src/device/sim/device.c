/* Creates and frees a simulated GPU, counts references to it, and injects faults. */
#include "base/os.h"
#include "device/sim/memory.h"
#include <stdio.h>

/* ---- Faults ---- */

void sw_sim_inject(struct sw_device *dev, enum sw_sim_fault fault, int64_t after)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    sw_mutex_lock(&d->lock);
    d->fault = fault;
    d->fault_at = after + (fault == SW_SIM_NOMEM ? d->allocations : d->operations);
    sw_mutex_unlock(&d->lock);
}

int64_t sw_sim_operations(struct sw_device *dev)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    sw_mutex_lock(&d->lock);

    int64_t n = d->operations;
    sw_mutex_unlock(&d->lock);
    return n;
}

enum sw_sim_fault sw_sim_begin(struct sw_sim_device *d)
{
    enum sw_sim_fault met = SW_SIM_NO_FAULT;

    sw_mutex_lock(&d->lock);

    if (d->operations++ >= d->fault_at && d->fault != SW_SIM_NOMEM) {
        met = d->fault;
        d->fault = SW_SIM_NO_FAULT; /* one operation hangs, and its stream with it */
    }

    d->lost = d->lost || met == SW_SIM_LOST;
    if (d->lost)
        met = SW_SIM_LOST;
    sw_mutex_unlock(&d->lock);

    return met;
}

/* ---- Life ---- */

static struct sw_sim_host *new_host(void)
{
    struct sw_sim_host *h = sw_calloc(1, sizeof *h);
    if (!h)
        return NULL;

    h->owners = 1;
    sw_sim_uses_init(&h->uses);
    sw_sim_names_init(&h->names);

    return h;
}

static void drop_host(struct sw_sim_host *h)
{
    if (!h || __atomic_sub_fetch(&h->owners, 1, __ATOMIC_ACQ_REL) > 0)
        return;

    sw_sim_uses_fini(&h->uses);
    sw_sim_names_fini(&h->names);
    sw_free(h);
}

void sw_sim_join(struct sw_device *dev, struct sw_device *with)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);
    struct sw_sim_host *old = d->host;

    d->host = sw_sim_device_of(with)->host;
    __atomic_add_fetch(&d->host->owners, 1, __ATOMIC_RELAXED);
    drop_host(old);
}

static void free_device(struct sw_sim_device *d)
{
    sw_device_close(d->cpu);
    sw_sim_memory_fini(d);
    sw_sim_uses_fini(&d->uses);
    sw_sim_names_fini(&d->names);
    drop_host(d->host);
    sw_mutex_fini(&d->link_lock);
    sw_mutex_fini(&d->lock);
    sw_free(d);
}

void sw_sim_release(struct sw_sim_device *d)
{
    sw_mutex_lock(&d->lock);

    bool last = --d->owners == 0;
    sw_mutex_unlock(&d->lock);
    if (last)
        free_device(d);
}

int sw_sim_device_new(const struct sw_sim_conf *conf, int index, struct sw_sim_device **out,
                      struct sw_err *err)
{
    struct sw_sim_device *d = sw_calloc(1, sizeof *d);
    if (!d)
        return sw_err_nomem(err, "sim device", sizeof *d);

    sw_mutex_init(&d->lock);
    sw_mutex_init(&d->link_lock);
    sw_sim_uses_init(&d->uses);
    sw_sim_names_init(&d->names);
    d->conf = *conf;
    d->owners = 1;
    d->slow = 1;
    d->probe_fd = -1;
    d->base.index = index;
    d->base.precision = conf->precision;
    snprintf(d->base.name, sizeof d->base.name, "sim:%d", index);
    d->host = new_host();

    int rc = d->host ? sw_cpu_open_as(conf->reference, conf->precision, &d->cpu, err)
                     : sw_err_nomem(err, "sim device", sizeof *d->host);
    if (rc != SW_OK)
        goto fail;
    rc = sw_sim_memory_init(d, err);
    if (rc != SW_OK)
        goto fail;

    *out = d;
    return SW_OK;

fail:
    free_device(d);
    return rc;
}
