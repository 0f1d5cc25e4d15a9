/* Initializes and frees an exchange plan; other files make its choices (choices.h). */
#include "base/os.h"
#include "exchange/reduce/factors.h"
#include "plan/choices.h"
#include "plan/peer_links.h"
#include "thread/fault.h"

int sw_exchange_plan_init(struct sw_exchange_plan *p, const struct sw_exchange_plan_args *args,
                          struct sw_err *err)
{
    size_t workers = (size_t)args->topology->workers;

    p->args = *args;
    p->cluster = sw_recipe_find(args->recipe, "cluster", NULL)->common;

    p->devices = sw_calloc(workers, sizeof(void *));
    if (!p->devices)
        return sw_err_nomem(err, "the devices of workers", workers * sizeof(void *));

    sw_copy_choose(p);
    return SW_OK;
}

void sw_exchange_plan_fini(struct sw_exchange_plan *p)
{
    struct sw_sums *d = &p->sums;

    if (d->all_reduce)
        sw_fault_detach(p->args.fault, d->all_reduce);
    if (d->members)
        sw_fault_detach(p->args.fault, d->members);
    sw_allreduce_free(d->all_reduce);
    sw_collective_close(d->members);
    sw_free(d->buckets);
    sw_free(d->elements);
    sw_free(d->order);
    sw_free(d->bucket_of);
    sw_free(d->at_of);
    if (p->comm.factors)
        sw_fault_detach(p->args.fault, p->comm.factors);
    sw_factors_free(p->comm.factors);
    sw_free(p->comm.choices);
    sw_json_free(p->comm.kept);
    sw_peer_links_free(p->peer_links);
    sw_free(p->devices);
}
