/* Rows by measured speed (`rebalance`): workers that share a batch wait for the slowest, so each
 * gets as many rows as it computes in the same time. At an evaluation all workers wait for each
 * other anyway; the leader compares their computing times since the last one and, if the gain is
 * large enough, partitions the batches again and rebuilds nets, memory and batches of all, while
 * they wait. Losses are sums over rows and their backward scale is that of the whole batch, so
 * every sample keeps its weight; a checkpoint stores the rows for a resume. */
#include "run/rebalance.h"
#include "base/os.h"
#include "base/str.h"
#include "plan/choices.h"
#include "run/job_private.h"
#include "run/microbatches.h"
#include "worker/recurrent_state.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_setup.h"
#include <stdlib.h>
#include <string.h>

/* Required relative gain of a step: every change costs new plans. */
static const double min_gain = 0.05;

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The median, so that a disturbed step, or the first one in new memory, does not count. */
static double typical_ms(const struct sw_pace *p)
{
    float sorted[SW_PACE_STEPS];
    int64_t n = p->steps < SW_PACE_STEPS ? p->steps : SW_PACE_STEPS;
    if (n == 0)
        return 0;

    memcpy(sorted, p->ms, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return (double)sorted[n / 2];
}

bool sw_rebalance_split(int64_t total, int count, const int64_t *rows, const double *ms,
                        int64_t *out)
{
    double speed[SW_TREE_LEAVES] = {0}, now_ms = 0, then_ms = 0;

    for (int i = 0; i < count; i++) {
        if (!(ms[i] > 0))
            return false;
        speed[i] = (double)rows[i] / ms[i];
    }

    sw_rows_distribute(total, count, speed, out);

    for (int i = 0; i < count; i++) {
        double then = (double)out[i] / speed[i];
        now_ms = ms[i] > now_ms ? ms[i] : now_ms;
        then_ms = then > then_ms ? then : then_ms;
    }

    return then_ms < now_ms * (1 - min_gain);
}

static int rebuild_workers(struct sw_job *job, struct sw_err *err)
{
    for (int i = 0; i < job->topology->workers; i++) {
        struct sw_worker *w = &job->workers[i];

        sw_slot_heartbeat(job->workers[0].slot, sw_os()->monotonic_ns());

        int rc = sw_worker_rebuild(w, err);
        if (rc != SW_OK)
            return sw_err_prefix(err, rc, "%s", w->role);
    }

    return SW_OK;
}

/* Rebuilds all workers for their current rows, and the outputs. */
static int rebuild_all(struct sw_job *job, struct sw_err *err)
{
    int rc = rebuild_workers(job, err);

    sw_exchange_modes_set_rows(&job->exchange, &job->rows);
    sw_stream_attach(job->workers[0].stream); /* plans were made for the threads of other workers */
    if (rc != SW_OK)
        return rc;

    if (job->outputs.count > 0)
        rc = sw_outputs_plan(&job->outputs, job->workers, err);
    if (rc != SW_OK)
        return rc;

    return sw_outputs_allocate(&job->outputs, job->place.host, err);
}

static void report_split(struct sw_job *job, const int64_t *before, const double *ms)
{
    struct sw_bytes rows = {0}, text = {0};

    sw_microbatches_write(job, &rows);

    for (int i = 0; i < job->topology->microbatches; i++)
        sw_bytes_printf(&text, "%s%s %lld (%.3g ms with %lld)", i ? ", " : "", job->workers[i].role,
                        (long long)sw_worker_rows(&job->workers[i], SW_SPLIT_TRAIN), ms[i],
                        (long long)before[i]);

    sw_events_report(&job->events, SW_LOG_INFO, "rebalance", "rows of a batch by speed: %s",
                     sw_bytes_text(&text));
    sw_history_tag(job->events.history, "rows", sw_bytes_text(&rows));
    sw_bytes_fini(&rows);
    sw_bytes_fini(&text);
}

/* Redistributes the rows; if a device has no room for more rows, restores the old ones. */
static int move_rows(struct sw_job *job, struct sw_err *err)
{
    int64_t before[SW_TREE_LEAVES], after[SW_TREE_LEAVES];
    double ms[SW_TREE_LEAVES];
    int64_t total = 0;

    for (int i = 0; i < job->topology->microbatches; i++) {
        before[i] = sw_worker_rows(&job->workers[i], SW_SPLIT_TRAIN);
        total += before[i];
        ms[i] = job->workers[i].pace.typical_ms;
    }

    if (!sw_rebalance_split(total, job->topology->microbatches, before, ms, after))
        return SW_OK;

    sw_row_split_set(&job->rows, job->topology, after);

    int rc = rebuild_all(job, err);
    if (rc == SW_ERR_NOMEM) {
        sw_events_report(&job->events, SW_LOG_WARN, "rebalance",
                         "the rows of the batch are not redistributed: %s", err->text);
        sw_row_split_set(&job->rows, job->topology, before);
        rc = rebuild_all(job, err);
    } else if (rc == SW_OK) {
        report_split(job, before, ms);
    }

    if (rc != SW_OK)
        return rc;

    return sw_job_write_choices(job, err);
}

int sw_rebalance(struct sw_job *job, struct sw_worker *w, struct sw_err *err)
{
    if (!job->speed.rebalances || job->topology->microbatches == 1)
        return SW_OK;

    w->pace.typical_ms = job->speed.row_ms ? job->speed.row_ms(w->rank->global_rank) *
                                                 (double)sw_worker_rows(w, SW_SPLIT_TRAIN)
                                           : typical_ms(&w->pace);
    w->pace.steps = 0;

    int rc = sw_worker_barrier(w, "the speed of the other workers", err);
    if (rc != SW_OK)
        return rc;

    if (w->rank->global_rank == 0)
        rc = move_rows(job, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_worker_barrier(w, "the rows assigned by the first worker", err);
    if (rc != SW_OK)
        return rc;

    return sw_recurrent_state_scatter(w, err); /* rows keep their recurrent state */
}
