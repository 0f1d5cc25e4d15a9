/* Waiting for the group, from the worker's side: barriers, and the sums of layers over all workers.
 * The time is charged to the time breakdown, and the live snapshot shows the reason of the wait.
 * Servers that a worker runs itself are served meanwhile (group.c). */
#include "worker/sums.h"
#include "base/os.h"
#include "history/snapshot.h"
#include "plan/choices.h"
#include "worker/layer_sums.h"
#include "worker/worker.h"

/* Charges time within a pass. Outside of passes, in an evaluation, only the wait is shown. */
static void charge(struct sw_worker *w, float *part_ms, double *total_ms)
{
    if (w->timer.pass_ms)
        sw_step_timer_charge(w, part_ms, total_ms);
    else
        w->timer.charged_ns = sw_os()->monotonic_ns();
}

static void begin_wait(struct sw_worker *w, const char *what)
{
    charge(w, w->timer.pass_ms, w->timer.pass_total_ms);
    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_GROUP}, what, w->timer.charged_ns);
}

static void end_wait(struct sw_worker *w)
{
    charge(w, &w->timer.ledger.wait_ms, NULL);
    sw_slot_wait(w->slot, NULL, w->timer.charged_ns);
}

/* A wait ends early only when the job ends. */
static int end_of(int rc, struct sw_err *err)
{
    return rc == SW_OK ? SW_OK : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

static int sum(struct sw_worker *w, struct sw_group *g, int rank, double *values, int count,
               struct sw_err *err)
{
    begin_wait(w, "the sums of the other workers");
    int rc = sw_group_sum(g, rank, values, count);
    end_wait(w);
    return end_of(rc, err);
}

int sw_worker_total(struct sw_worker *w, int64_t t, struct sw_result *totals, int count,
                    struct sw_err *err)
{
    struct sw_group *all = &w->shared.groups->all;

    if (!all->outer.sum)
        return sw_group_total(all, t, totals, count, err);

    begin_wait(w, "the results of the other hosts");
    int rc = sw_group_total(all, t, totals, count, err);
    end_wait(w);
    return rc;
}

int sw_worker_requests(const struct sw_worker *w, int64_t step)
{
    struct sw_requests *r = w->shared.requests;

    if (!r->agree)
        return sw_requests_take(r, step);

    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_GROUP},
                    "the requests of the other hosts", sw_os()->monotonic_ns());
    int requested = sw_requests_take(r, step);
    sw_slot_wait(w->slot, NULL, sw_os()->monotonic_ns());
    return requested;
}

int sw_worker_sum_in_group(void *worker, double *values, int count, bool in_rows,
                           struct sw_err *err)
{
    struct sw_worker *w = worker;
    (void)in_rows; /* the values of other groups are not added */
    return sum(w, w->group, w->rank->rank, values, count, err);
}

int sw_worker_sum(void *worker, double *values, int count, bool in_rows, struct sw_err *err)
{
    struct sw_worker *w = worker;

    if (!w->topology->splits_layers)
        return sw_worker_sum_in_group(w, values, count, in_rows, err);

    return in_rows ? sum(w, &w->shared.groups->all, w->rank->global_rank, values, count, err)
                   : sum(w, &w->shared.groups->peers[w->rank->rank], w->rank->group, values, count,
                         err);
}

static int meet(struct sw_worker *w, struct sw_group *g, int rank, const char *what,
                struct sw_err *err)
{
    begin_wait(w, what);
    int rc = sw_group_barrier(g, rank);
    end_wait(w);
    return end_of(rc, err);
}

bool sw_worker_sums_on_device(const struct sw_worker *w)
{
    return sw_reduces(w->shared.exchange_plan) && w->topology->group_size > 1 &&
           w->topology->hosts == 1;
}

int sw_worker_longest_sum(const struct sw_worker *w)
{
    int most = 0;

    for (int i = 0; i < w->topology->group_size && sw_worker_sums_on_device(w); i++) {
        int count = sw_net_sum_count(w->shared.workers[i].train);
        most = count > most ? count : most;
    }

    return most;
}

int sw_worker_queue_sum(void *worker, double *values, int count, struct sw_err *err)
{
    struct sw_worker *w = worker;
    struct sw_layer_sums *s = w->shared.groups->layer_sums[w->rank->group];

    int rc = sw_layer_sums_put(s, w->rank->rank, values, count, err);
    if (rc != SW_OK)
        return rc;
    rc = meet(w, w->group, w->rank->rank, "the sums of the other workers", err);
    if (rc != SW_OK)
        return rc;

    return sw_layer_sums_take(s, w->rank->rank, values, count, err);
}

int sw_worker_barrier(struct sw_worker *w, const char *what, struct sw_err *err)
{
    return meet(w, &w->shared.groups->all, w->rank->global_rank, what, err);
}

int sw_worker_barrier_active(struct sw_worker *w, const char *what, struct sw_err *err)
{
    /* While other workers sleep, the active ones are one group. */
    return w->step <= w->topology->warmup_steps ? meet(w, w->group, w->rank->rank, what, err)
                                                : sw_worker_barrier(w, what, err);
}

int sw_worker_wait_in_group(struct sw_worker *w, const char *what, bool (*over)(const void *state),
                            const void *state)
{
    begin_wait(w, what);
    int rc = sw_group_wait(w->group, w->rank->rank, over, state);
    end_wait(w);
    return rc;
}

int sw_worker_sleep_in_warmup(struct sw_worker *w, struct sw_err *err)
{
    w->timer.charged_ns = sw_os()->monotonic_ns();
    sw_slot_phase(w->slot, SW_PHASE_IDLE, w->step, -1, NULL, w->timer.charged_ns);
    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_TURN}, "the first group's warm-up",
                    w->timer.charged_ns);

    int rc = sw_group_sleep(&w->shared.groups->all, &w->step);
    w->record.first_step = w->record.curves.norms_step = w->step;
    w->timer.charged_ns = sw_os()->monotonic_ns();
    sw_slot_wait(w->slot, NULL, w->timer.charged_ns);

    return end_of(rc, err);
}

int sw_worker_keep_pace(struct sw_worker *w, int64_t most, struct sw_err *err)
{
    if (sw_group_keeps_pace(&w->shared.groups->all, w->rank->global_rank, w->step, most))
        return SW_OK;

    sw_step_timer_charge(w, &w->timer.ledger.idle_ms, NULL);
    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_GROUP}, "the slowest group",
                    w->timer.charged_ns);

    int rc = sw_group_keep_pace(&w->shared.groups->all, w->rank->global_rank, w->step, most);
    sw_step_timer_charge(w, &w->timer.ledger.wait_ms, NULL);
    sw_slot_wait(w->slot, NULL, w->timer.charged_ns);

    return end_of(rc, err);
}
