/* Update controllers. `each`: every parameter is updated without regard to the others, as soon as
 * its gradients and those of its list are complete. `whole`: likewise, but devices make all updates
 * of a step together, when its sums have been verified. `host`: the table decides about all updates
 * of a step together, in two phases (exchange/table/update_control.c), because clipping by norm, a
 * loss scale, or skipping a non-finite update needs all gradients. `device`: the same where devices
 * update (control_device.c). */
#include "exchange/exchange_private.h"

static int own_group(const struct sw_exchange *x)
{
    return sw_table_update_group(x->args.table, x->args.worker);
}

static int wait_own(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    return sw_exchange_wait_params(x, own_group(x), version, err);
}

/* ---- Controller `whole`: all updates of a step, when its sums were verified ---- */

static bool takes_whole(const struct sw_exchange_args *a)
{
    return a->whole_steps && !sw_table_has_phases(a->table);
}

static int begin_each(struct sw_exchange *x, uint64_t version, double *scale, struct sw_err *err)
{
    *scale = 1;
    return sw_device_update_begin(x, version, err);
}

static bool updates_on_device(const struct sw_exchange *x, const struct sw_update_list *list)
{
    return sw_exchange_listed(x, list, 0)->route->updates_on_device;
}

static int end_whole(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    int rc = sw_exchange_gather(x, version, err);
    if (rc != SW_OK)
        return rc;

    sw_exchange_begin_updates(x);
    for (int i = 0; i < x->list_count; i++) {
        rc = updates_on_device(x, &x->lists[i]) ? sw_device_update_queue(x, &x->lists[i], err)
                                                : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return sw_exchange_end_updates(x, version, err);
}

/* The host waits for the sums of each step. */
static bool waits_for_sums(const struct sw_exchange *x)
{
    return true;
}

const struct sw_update_controller sw_control_whole = {.name = "whole",
                                                      .takes = takes_whole,
                                                      .two_phase = true,
                                                      .at_end = true,
                                                      .waits = waits_for_sums,
                                                      .begin = begin_each,
                                                      .end = end_whole};

/* ---- Controller `each`: parameters are updated one by one ---- */

static bool takes_all(const struct sw_exchange_args *a)
{
    return !sw_table_has_phases(a->table);
}

/* Does the device update the list at the end of the step, without the host? */
static bool is_local(const struct sw_exchange *x, const struct sw_update_list *list)
{
    const struct sw_route *route = sw_exchange_listed(x, list, 0)->route;

    return route->updates_on_device && route->device_only;
}

static bool is_queued_each(const struct sw_exchange *x)
{
    return x->args.overlap;
}

static int queue_each(struct sw_exchange *x, struct sw_err *err)
{
    for (int i = 0; i < x->list_count; i++) {
        int rc = is_local(x, &x->lists[i]) ? sw_device_update_queue(x, &x->lists[i], err) : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int end_each(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    (void)version; /* pushes have counted it */
    return is_queued_each(x) ? SW_OK : queue_each(x, err);
}

const struct sw_update_controller sw_control_each = {.name = "each",
                                                     .takes = takes_all,
                                                     .begin = begin_each,
                                                     .is_queued = is_queued_each,
                                                     .queue = queue_each,
                                                     .end = end_each,
                                                     .wait_own = wait_own};

/* ---- host ---- */

static bool takes_host(const struct sw_exchange_args *a)
{
    return !sw_table_is_controlled_on_device(a->table);
}

/* The scale of a step's gradients is known once the previous update is decided. One parameter at
 * that version suffices; the first layer waits for it anyway, because servers apply the lowest
 * layers first. */
static int begin_host(struct sw_exchange *x, uint64_t version, double *scale, struct sw_err *err)
{
    const struct sw_table *t = x->args.table;

    if (sw_table_scales(t))
        for (int p = 0; p < sw_table_count(t); p++) {
            if (sw_table_param(t, p)->frozen)
                continue;

            int rc = sw_exchange_wait_table(x, own_group(x), p, version - 1, err);
            if (rc != SW_OK)
                return rc;

            break;
        }

    *scale = sw_table_loss_scale(t, own_group(x));
    return sw_device_update_begin(x, version, err);
}

/* Servers decide, and a step begins with their last decision. */
static bool waits_for_host(const struct sw_exchange *x)
{
    return true;
}

static int learn_host(struct sw_exchange *x, uint64_t version, int behind, struct sw_err *err)
{
    bool finite;

    int rc = x->args.hooks.finite(x->args.hooks.user, &finite, err);
    if (rc != SW_OK)
        return rc;

    return sw_table_report_loss(x->args.table, x->args.worker, finite, err);
}

const struct sw_update_controller sw_control_host = {.name = "host",
                                                     .takes = takes_host,
                                                     .two_phase = true,
                                                     .waits = waits_for_host,
                                                     .begin = begin_host,
                                                     .finish = learn_host,
                                                     .wait_own = wait_own};
