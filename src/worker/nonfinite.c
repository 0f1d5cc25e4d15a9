/* Handling of updates that are not finite (job.on_nan). `stop` is not handled here: the run ends
 * where the value is found. With `skip` and `rollback` updates have two phases
 * (exchange/table/update_control.c): a loss or gradient that is not finite drops the update of all
 * parameters. After every step each worker waits for the result of update control, so all know the
 * same before the next step.
 *
 * skip: running statistics, which the forward pass has already changed, are restored as well, and
 * training continues with the next batch as if this one had not existed. New values that overflow
 * are an error: there is nothing to continue from.
 *
 * rollback: values, updater state and running statistics are restored from the newest checkpoint,
 * also when new values have overflowed. Steps, learning rate and data continue: the bad batch is
 * not read again, and later records have new steps.
 *
 * Both end the run as `stop` does when they do not help: after MAX_SKIPS in a row, or MAX_ROLLBACKS
 * to one checkpoint. The leader counts, logs and loads; the others wait at a barrier.
 *
 * An update that is dropped because the loss scale was too large (optim/loss_scale.h) is none of
 * these.
 *
 * Asynchronous groups make their own updates: each drops and counts its own. A group requests a
 * rollback, as a user requests a checkpoint: all do it together after the next step that no group
 * has passed. Until then values may be inconsistent, and updates that show it are dropped. */
#include "worker/nonfinite.h"
#include "recipe/job.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include <stdio.h>

enum { MAX_SKIPS = 100, MAX_ROLLBACKS = 3 };

/* "the gradient of conv1.weight", "the loss". */
static void name_cause(const struct sw_table *t, const struct sw_table_control *d, int torn,
                       char *out, size_t bytes)
{
    if (!d->dropped)
        snprintf(out, bytes, "the new value of %s", sw_table_param(t, torn)->name);
    else if (d->bad_param >= 0)
        snprintf(out, bytes, "the gradient of %s", sw_table_param(t, d->bad_param)->name);
    else
        snprintf(out, bytes, "the loss or a running statistic");
}

static int give_up(struct sw_worker *w, const char *cause, int times, const char *what,
                   struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_DIVERGED,
                      "step %lld: %s is not finite (NaN or Inf), and %d %s did not help: training "
                      "has diverged (try a smaller lr, or grad_clip)",
                      (long long)w->step, cause, times, what);
}

static int skip(struct sw_worker *w, const char *cause, struct sw_err *err)
{
    if (++w->failures.skips > MAX_SKIPS)
        return give_up(w, cause, MAX_SKIPS, "skipped updates in a row", err);

    sw_events_report_at(w->shared.events, w->step, SW_LOG_WARN, w->role,
                        "update %lld is skipped (%llu so far): %s is not finite (NaN or Inf)",
                        (long long)w->step, (unsigned long long)sw_table_dropped(w->table), cause);
    return SW_OK;
}

static int load_newest(struct sw_worker *w, const char *cause, struct sw_err *err)
{
    const struct sw_worker_hooks *hooks = w->shared.hooks;
    struct sw_nonfinite *m = w->shared.nonfinite;
    int64_t step = hooks->newest_checkpoint(w->shared.run);

    if (step != m->rolled_to)
        m->rollbacks = 0;
    m->rolled_to = step;
    if (++m->rollbacks > MAX_ROLLBACKS)
        return give_up(w, cause, MAX_ROLLBACKS, "rollbacks to the same checkpoint", err);

    int rc = hooks->roll_back(w->shared.run, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "rollback after step %lld", (long long)w->step);

    __atomic_store_n(&m->rolled_at, w->step, __ATOMIC_RELAXED);
    sw_events_report(
        w->shared.events, SW_LOG_WARN, w->role,
        "update %lld: %s is not finite (NaN or Inf): rolled back to the values of step %lld; data "
        "and learning rate continue",
        (long long)w->step, cause, (long long)step);

    return SW_OK;
}

/* Between the two barriers only the leader reads or writes parameters. */
static int roll_back(struct sw_worker *w, const char *cause, struct sw_err *err)
{
    static const char what[] = "the values of the last checkpoint";

    int rc = sw_worker_barrier(w, what, err);
    if (rc != SW_OK)
        return rc;

    if (w->rank->global_rank == 0)
        rc = load_newest(w, cause, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_worker_barrier(w, what, err);
    if (rc != SW_OK)
        return rc;

    w->state.reset_after = w->step;
    return sw_buffers_scatter(w, err);
}

/* Requests a rollback. Other groups are at other steps and see the request at their next decision.
 */
static void request_rollback(struct sw_worker *w, const char *cause)
{
    struct sw_nonfinite *m = w->shared.nonfinite;
    int64_t requested = __atomic_load_n(&m->requested_at, __ATOMIC_RELAXED);

    if (!sw_worker_leads(w))
        return;

    if (requested <= __atomic_load_n(&m->rolled_at, __ATOMIC_RELAXED))
        sw_events_report_at(
            w->shared.events, w->step, SW_LOG_WARN, w->role,
            "update %lld: %s is not finite (NaN or Inf): all groups will roll back together",
            (long long)w->step, cause);

    while (requested < w->step &&
           !__atomic_compare_exchange_n(&m->requested_at, &requested, w->step, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

bool sw_nonfinite_requests_rollback(const struct sw_nonfinite *m)
{
    return __atomic_load_n(&m->requested_at, __ATOMIC_RELAXED) >
           __atomic_load_n(&m->rolled_at, __ATOMIC_RELAXED);
}

int sw_nonfinite_roll_back(struct sw_worker *w, struct sw_err *err)
{
    return sw_nonfinite_requests_rollback(w->shared.nonfinite)
               ? roll_back(w, "an update of a worker group", err)
               : SW_OK;
}

int sw_nonfinite_before_step(struct sw_worker *w, struct sw_err *err)
{
    return sw_buffers_save(w, err);
}

/* Nothing needs to be done after a good update, or one that the loss scale dropped. */
static bool was_good(const struct sw_table_control *d, int torn)
{
    return (!d->dropped || d->overflow) && torn < 0;
}

/* Skips the update: restores what the forward pass has changed, and counts. */
static int go_on_without(struct sw_worker *w, const char *cause, struct sw_err *err)
{
    w->state.reset_after = w->step; /* the recurrent state may not be finite either */

    int rc = sw_buffers_restore(w, err);
    if (rc != SW_OK || !sw_worker_leads(w))
        return rc;

    return skip(w, cause, err);
}

/* The next step overwrites what this one could be undone with. */
static int wait_to_return(struct sw_worker *w, struct sw_err *err)
{
    return w->state.before ? sw_exchange_wait_own(w->exchange, (uint64_t)w->step, err) : SW_OK;
}

int sw_nonfinite_after_step(struct sw_worker *w, struct sw_err *err)
{
    const enum sw_on_nan on_nan = (enum sw_on_nan)w->shared.conf->on_nan;
    struct sw_table_control d;
    char cause[128];

    if (on_nan == SW_ON_NAN_STOP || sw_table_count(w->table) == 0)
        return wait_to_return(w, err);

    int rc = sw_exchange_wait_own(w->exchange, (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;
    if (!sw_table_control(w->table, sw_table_update_group(w->table, w->rank->table_rank),
                          (uint64_t)w->step, &d))
        return sw_err_set(err, SW_ERR_INVALID, "update %lld has no result of update control",
                          (long long)w->step);

    int torn = sw_table_nonfinite_param(w->table);
    if (was_good(&d, torn)) {
        w->failures.skips = 0;
        return SW_OK;
    }

    name_cause(w->table, &d, torn, cause, sizeof cause);
    if (on_nan == SW_ON_NAN_SKIP)
        return go_on_without(w, cause, err);
    if (!w->topology->is_async)
        return roll_back(w, cause, err);

    request_rollback(w, cause);
    return SW_OK;
}
