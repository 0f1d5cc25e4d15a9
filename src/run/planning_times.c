/* Times of layers as samples of the planner's model. */
#include "base/os.h"
#include "history/reader_rows.h"
#include "run/job_private.h"
#include "run/planning_private.h"
#include <math.h>
#include <string.h>
#include <time.h>

int sw_planning_times_init(struct sw_planning_times *t, const struct sw_planning_net *of,
                           struct sw_err *err)
{
    const size_t count = (size_t)of->model.count + 1;

    *t = (struct sw_planning_times){.forward_ms = sw_calloc(count, sizeof *t->forward_ms),
                                    .backward_ms = sw_calloc(count, sizeof *t->backward_ms),
                                    .update_ms = sw_calloc(count, sizeof *t->update_ms),
                                    .of = of};
    if (t->forward_ms && t->backward_ms && t->update_ms)
        return SW_OK;

    sw_planning_times_fini(t);
    return sw_err_nomem(err, "times of layers", count * sizeof *t->forward_ms);
}

void sw_planning_times_fini(struct sw_planning_times *t)
{
    sw_free(t->forward_ms);
    sw_free(t->backward_ms);
    sw_free(t->update_ms);
    *t = (struct sw_planning_times){0};
}

void sw_planning_times_clear(struct sw_planning_times *t)
{
    const size_t bytes = (size_t)t->of->model.count * sizeof *t->forward_ms;

    memset(t->forward_ms, 0, bytes);
    memset(t->backward_ms, 0, bytes);
    memset(t->update_ms, 0, bytes);
    t->step_ms = 0;
}

int sw_planning_times_row(const struct sw_planning_times *t, const char *name)
{
    const int i = sw_net_find(t->of->net, name);
    return i < 0 ? -1 : t->of->job->report.rows[i];
}

void sw_planning_times_add(struct sw_planning_times *t, const char *name, double forward_ms,
                           double backward_ms)
{
    const int row = sw_planning_times_row(t, name);
    if (row < 0)
        return;

    t->forward_ms[row] += isfinite(forward_ms) ? forward_ms : 0;
    t->backward_ms[row] += isfinite(backward_ms) ? backward_ms : 0;
}

/* Has the plan layers that are split by columns? */
static bool splits_columns(const struct sw_parallel_plan *plan)
{
    for (int i = 0; i < plan->layers; i++)
        if (plan->choice[i].partition == SW_PARTITION_COLUMNS)
            return true;
    return false;
}

int sw_planning_times_use(const struct sw_planning_times *t, struct sw_net_model *m,
                          const struct sw_layer_sample *of, const struct sw_parallel_plan *plan,
                          struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);
    const bool columns = splits_columns(plan);

    for (int i = 0; i < m->count; i++) {
        struct sw_layer_model *l = &p->layer[i];
        if (columns && plan->choice[i].partition != SW_PARTITION_COLUMNS)
            continue;

        struct sw_layer_sample *s =
            sw_array_add(&p->own[i].samples, &l->sample_count, sizeof *l->samples);
        if (!s)
            return sw_err_nomem(err, "times of layers", sizeof *s);

        l->samples = p->own[i].samples;
        *s = *of;
        s->rows = columns ? m->batch : m->batch / of->workers;
        s->part = columns ? ceil(l->columns / of->workers) / l->columns : 0;
        s->forward_s = t->forward_ms[i] * 1e-3;
        s->backward_s = t->backward_ms[i] * 1e-3;
        s->update_s = t->update_ms[i] * 1e-3;
    }

    return SW_OK;
}

const char *sw_planning_date(double unix_time, char out[16])
{
    const time_t at = (time_t)unix_time;
    struct tm tm;

    if (!localtime_r(&at, &tm) || !strftime(out, 16, "%Y-%m-%d", &tm))
        out[0] = '\0';
    return out;
}

int sw_planning_times_read(struct sw_planning_times *t, struct sw_history_reader *r,
                           const struct sw_run *run, struct sw_err *err)
{
    struct sw_rows rows = sw_rows_begin(r, SW_ROWS_LAYER, run->id, 0, 0, err);
    struct sw_run_layer row;
    int count = 0;

    for (; sw_rows_next(&rows, &row); count++)
        sw_planning_times_add(t, row.name, row.forward_ms, row.backward_ms);

    int rc = sw_rows_end(&rows);
    if (rc == SW_OK && count == 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "run %lld: it has no times of layers",
                          (long long)run->id);
    return rc;
}
