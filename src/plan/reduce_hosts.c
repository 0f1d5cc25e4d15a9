/* Sums of gradients over the devices of several hosts: whether their library may make them, as far
 * as one host knows. Whether all hosts can is found out when they have met
 * (run/job_collective.c). */
#include "base/hash.h"
#include "device/driver.h"
#include "plan/choices.h"
#include <stdio.h>

int sw_reduce_may_cross_hosts(const struct sw_exchange_plan *p, struct sw_err *err)
{
    enum sw_all_reduce requested = (enum sw_all_reduce)p->cluster->all_reduce;

    if (requested == SW_ALL_REDUCE_COPIES)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "all_reduce = copies reaches only the devices of one host");
    if (requested == SW_ALL_REDUCE_AUTO && !p->args.request->driver->caps.own_processor)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "simulated GPUs use their library with all_reduce = library only");
    return SW_OK;
}

int sw_reduce_check_network(const struct sw_exchange_plan *p, struct sw_err *err)
{
    char name[64];

    if (p->sums.library->secure || p->cluster->network == SW_NETWORK_TRUSTED)
        return SW_OK;

    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s neither encrypts nor authenticates, and the network is private: set "
                      "network = trusted where nobody else can reach it",
                      p->sums.library->name(name, sizeof name));
}

void sw_reduce_through_hosts(struct sw_exchange_plan *p, const char *why)
{
    struct sw_sums *d = &p->sums;

    d->reducer = SW_REDUCER_SERVERS;
    d->count = 0;
    snprintf(d->refusal, sizeof d->refusal, "%s", why);
    snprintf(d->why, sizeof d->why, "servers, and sums over hosts in host memory: %s", d->refusal);
}

const char *sw_reduce_refusal(const struct sw_exchange_plan *p, char *out, size_t bytes)
{
    const struct sw_topology *t = p->args.topology;
    const char *servers = sw_reduce_why_servers(t);

    snprintf(out, bytes, "%s",
             p->sums.reducer == SW_REDUCER_LIBRARY ? ""
             : t->devices == 0                     ? "its workers compute in host memory"
             : *p->sums.refusal                    ? p->sums.refusal
             : servers                             ? servers
             : p->args.conf->repeat_exact ? "repeat_exact sums in one order, on the servers"
                                          : "values are updated on the host (copy is not none)");
    return out;
}

uint64_t sw_reduce_hash(const struct sw_sums *d)
{
    return sw_hash_bytes64(d->elements, (size_t)d->count * sizeof *d->elements);
}
