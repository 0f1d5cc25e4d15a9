/* The end of a step whose updates a device decides upon (replica_decide.c): when all gradients are
 * there, it measures them, decides and updates. With one worker that needs nobody's word this is
 * part of the step's own operations, and so of its graph. Else it comes behind the last backward:
 * gradients of others are waited for, and what only hosts know, sums of parts and whether losses
 * are finite, is added up over the workers in between.
 *
 * What was decided is learnt late, with the loss, and told to the table, where all who ask about
 * decisions look. Every step's decision is known on the host before the next step begins, since
 * it says how its gradients are scaled and which update it makes. */
#include "train/decision.h"
#include "train/job_private.h"
#include "train/pull.h"
#include "train/sums.h"
#include "train/worker.h"
#include <math.h>

static bool decides(const struct sw_worker *w)
{
    return w->replica && sw_replica_decides(w->replica);
}

bool sw_decision_is_inside(const struct sw_worker *w)
{
    return decides(w) && w->job->exchange.overlap == SW_OVERLAP_YES &&
           sw_replica_decides_alone(w->replica);
}

int sw_decision_queue(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = sw_replica_measure(w->replica, err);
    return rc == SW_OK ? sw_replica_decide(w->replica, (uint64_t)t, err) : rc;
}

/* Does the worker's part of the batch speak against the update? */
static int find_veto(struct sw_worker *w, bool *veto, struct sw_err *err)
{
    bool finite = true;
    *veto = false;
    if (w->job->conf->on_nan == SW_ON_NAN_STOP)
        return SW_OK; /* it ends the run */
    int rc = sw_states_finite(w, &finite, err);
    *veto = !finite || !isfinite(sw_results_step_loss(w->parts[SW_SPLIT_TRAIN],
                                                      &w->record.series[SW_SPLIT_TRAIN]));
    return rc;
}

/* The sums of all workers, in the order of the group. */
static int exchange(struct sw_worker *w, struct sw_err *err)
{
    bool veto;
    int count;
    int rc = sw_replica_fetch_totals(w->replica, err);
    if (rc == SW_OK)
        rc = sw_parts_fetch(w->parts[SW_SPLIT_TRAIN], err);
    if (rc == SW_OK)
        rc = sw_ledger_mark(w, SW_MARK_BACKWARD, err);
    if (rc == SW_OK)
        rc = sw_ledger_wait(w, err);
    if (rc == SW_OK)
        rc = find_veto(w, &veto, err);
    if (rc != SW_OK)
        return rc;
    double *sums = sw_replica_totals(w->replica, veto, &count);
    if (w->job->topology->workers > 1)
        rc = sw_worker_sum(w, sums, count, true, err);
    return rc == SW_OK ? sw_replica_send_totals(w->replica, err) : rc;
}

int sw_decision_make(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    if (!decides(w) || sw_decision_is_inside(w))
        return SW_OK;
    int rc = sw_pull_all(w, SW_SPLIT_TRAIN, (uint64_t)t, err);
    if (rc == SW_OK)
        rc = sw_replica_measure(w->replica, err);
    if (rc == SW_OK && sw_replica_exchanges(w->replica))
        rc = exchange(w, err);
    return rc == SW_OK ? sw_replica_decide(w->replica, (uint64_t)t, err) : rc;
}

int sw_decision_learn(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    return decides(w) ? sw_table_settle(w->table, sw_replica_decided(w->replica), (uint64_t)t, err)
                      : SW_OK;
}
