/* Without servers (Hogwild; Recht et al. 2011): the worker that completes its party's gradients of
 * a parameter updates shared memory itself, while other parties read it and do the same. What a
 * party wrote it sees; counters are exact, elements may lose updates. */
#include "param/table_private.h"

#include "base/os.h"

static int update(struct sw_table *t, int party, int param, uint64_t version, struct sw_err *err)
{
    const struct sw_param *p = &t->params[param];
    int rc = SW_OK;
    for (int i = p->first_slice; i < p->first_slice + p->slice_count && rc == SW_OK; i++) {
        struct sw_slice s = {.param = param,
                             .server = t->slices[i].server,
                             .from = t->slices[i].from,
                             .count = t->slices[i].count};
        int64_t begin_ns = sw_os()->monotonic_ns();
        /* Counts what bias corrections count: nothing hangs on the order of two parties. */
        s.version = __atomic_fetch_add(&t->slices[i].version, 1, __ATOMIC_RELAXED);
        rc = sw_table_update_slice(t, &s, party, version, NULL, err);
        if (rc == SW_OK && t->watch)
            t->watch(t->watch_user, s.server, param, s.version + 1, begin_ns,
                     sw_os()->monotonic_ns());
    }
    return rc;
}

/* How many updates of the parameter all parties have made. */
static uint64_t slowest(const struct sw_table *t, int param)
{
    const struct sw_param *p = &t->params[param];
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < t->parties; r++) {
        uint64_t ready = __atomic_load_n(&p->view[r].ready, __ATOMIC_SEQ_CST);
        least = ready < least ? ready : least;
    }
    return least / (uint64_t)p->slice_count;
}

int sw_table_race(struct sw_table *t, int worker, int param, uint64_t version, struct sw_err *err)
{
    const struct sw_param *p = &t->params[param];
    int party = sw_table_party(t, worker);
    struct sw_param_view *r = &p->view[party];
    /* Release this worker's gradient; the last one acquires all. */
    if (__atomic_add_fetch(&r->given, 1, __ATOMIC_ACQ_REL) < sw_table_threshold(t, param))
        return SW_OK;
    __atomic_store_n(&r->given, 0, __ATOMIC_RELAXED);
    int rc = update(t, party, param, version, err);
    if (rc != SW_OK)
        return rc;
    __atomic_add_fetch(&r->ready, (uint64_t)p->slice_count, __ATOMIC_SEQ_CST);
    sw_table_wake(t);
    /* Of several that come to the same step at once the servers hear the first. */
    rc = sw_sync_ask(t, worker, param, slowest(t, param));
    return rc == SW_OK ? rc : sw_err_set(err, rc, "the job is ending");
}
