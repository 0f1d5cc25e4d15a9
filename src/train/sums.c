/* The sums that a layer adds over the group between two phases, from the worker's side: the time
 * that it waits for the others goes into the ledger, and the live snapshot says what it waits for.
 *
 * No deadlock with the servers that workers run themselves: whoever waits at layer l does not look
 * into its inboxes, but nobody whom it waits for needs them. It has collected the parameters of all
 * layers up to l (in backward: of all layers) at this step's version, so they are complete for
 * everybody; the others come to layer l by collecting the same ones, which is over at once, and by
 * backward passes, which never wait for a version. */
#include "base/os.h"
#include "train/job_private.h"

int sw_worker_sum(void *worker, double *values, int count, struct sw_err *err)
{
    struct sw_worker *w = worker;
    sw_worker_lap(w, w->pass_ms, w->pass_total_ms);
    sw_slot_wait(w->slot, "the sums of the other workers", w->lap_ns);
    int rc = sw_group_sum(&w->job->group, w->index, values, count);
    sw_worker_lap(w, &w->ledger.comm_exposed_ms, NULL);
    sw_slot_wait(w->slot, NULL, w->lap_ns);
    return rc == SW_OK ? SW_OK : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

int sw_worker_meet(struct sw_worker *w, const char *what)
{
    sw_slot_wait(w->slot, what, sw_os()->monotonic_ns());
    int rc = sw_group_meet(&w->job->group, w->index);
    sw_slot_wait(w->slot, NULL, sw_os()->monotonic_ns());
    return rc;
}
