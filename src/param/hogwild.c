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
    return SW_OK;
}
