/* Updates without servers (Hogwild; Recht et al. 2011): the worker that completes its update
 * group's gradients of a parameter updates shared memory itself, while other update groups read it
 * and do the same. An update group sees its own writes; counters are exact, but elements may lose
 * updates. */
#include "exchange/table/table_private.h"

#include "base/os.h"

static int update_slice(struct sw_table *t, int group, int slice, uint64_t version,
                        const struct sw_table_control *d, struct sw_err *err)
{
    struct sw_slice *shared = &t->slices[slice];
    bool dropped = d && d->dropped;
    struct sw_slice s = {.param = shared->param,
                         .server = shared->server,
                         .from = shared->from,
                         .count = shared->count};
    int64_t begin_ns = sw_os()->monotonic_ns();

    /* The step for bias corrections; the order of two update groups does not matter. */
    s.version = __atomic_fetch_add(&shared->version, 1, __ATOMIC_RELAXED);
    s.dropped = __atomic_fetch_add(&shared->dropped, dropped, __ATOMIC_RELAXED);

    int rc = dropped ? SW_OK : sw_table_update_slice(t, &s, group, version, d, err);
    if (rc != SW_OK)
        return rc;

    if (t->observer && !dropped)
        t->observer(t->observer_user, s.server, s.param, s.version + 1, begin_ns,
                    sw_os()->monotonic_ns());

    return SW_OK;
}

/* Applies an update group's update of a parameter, then publishes the version. */
static int update(struct sw_table *t, int group, int param, uint64_t version,
                  const struct sw_table_control *d, struct sw_err *err)
{
    const struct sw_param *p = &t->params[param];
    int rc = SW_OK;

    for (int i = p->first_slice; i < p->first_slice + p->slice_count; i++) {
        rc = update_slice(t, group, i, version, d, err);
        if (rc != SW_OK)
            return rc;
    }

    __atomic_add_fetch(&p->view[group].ready, (uint64_t)p->slice_count, __ATOMIC_SEQ_CST);
    sw_table_wake(t);

    /* If several groups reach a step at the same time, the first request counts. */
    rc = sw_sync_request(t, group * t->update_group_size, param, sw_table_slowest(t, param));
    if (rc != SW_OK)
        return sw_err_set(err, rc, "the job is ending");

    return SW_OK;
}

/* The lowest layers first, which the next forward pass needs first. */
static int update_all(struct sw_table *t, int group, const struct sw_table_control *d,
                      struct sw_err *err)
{
    int rc = SW_OK;

    for (int p = 0; p < t->param_count; p++) {
        if (!t->params[p].frozen)
            rc = update(t, group, p, d->version, d, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* The first of two phases; the worker that completes it carries out the result. */
static int gather(struct sw_table *t, int group, int param, struct sw_err *err)
{
    const struct sw_param *p = &t->params[param];

    for (int i = p->first_slice; i < p->first_slice + p->slice_count; i++) {
        int rc = sw_table_gather(t, group, &t->slices[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_table_complete(t, group, p->slice_count, err);
}

/* The update group's last worker updates the parameter or, in two phases, the one that completes
 * its last gradient updates all, with the result of update control. */
static int push(struct sw_table *t, int worker, int param, uint64_t version, struct sw_err *err)
{
    int group = sw_table_update_group(t, worker);
    const struct sw_param *p = &t->params[param];
    struct sw_param_view *r = &p->view[group];
    /* Releases this worker's gradient; the last worker acquires all. */
    if (__atomic_add_fetch(&r->given, 1, __ATOMIC_ACQ_REL) < p->contributors)
        return SW_OK;

    __atomic_store_n(&r->given, 0, __ATOMIC_RELAXED);
    return t->two_phases ? gather(t, group, param, err)
                         : update(t, group, param, version, NULL, err);
}

const struct sw_table_rule sw_table_hogwild = {.name = "hogwild",
                                               .is_async = true,
                                               .in_place = true,
                                               .races = true,
                                               .push = push,
                                               .apply = update_all};
