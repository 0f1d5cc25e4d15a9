/* Times of layers as samples of the planner's model; those that a run recorded in the history. */
#include "base/os.h"
#include "device/driver.h"
#include "history/reader_rows.h"
#include "machine/core_set.h"
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

int sw_planning_times_use(const struct sw_planning_times *t, struct sw_net_model *m,
                          const struct sw_layer_sample *of, struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);

    for (int i = 0; i < m->count; i++) {
        struct sw_layer_model *l = &p->layer[i];
        struct sw_layer_sample *s =
            sw_array_add(&p->own[i].samples, &l->sample_count, sizeof *l->samples);
        if (!s)
            return sw_err_nomem(err, "times of layers", sizeof *s);

        l->samples = p->own[i].samples;
        *s = *of;
        s->forward_s = t->forward_ms[i] * 1e-3;
        s->backward_s = t->backward_ms[i] * 1e-3;
        s->update_s = t->update_ms[i] * 1e-3;
    }

    return SW_OK;
}

void sw_planning_add_rest(struct sw_net_model *m, double seconds)
{
    struct sw_planning_net *p = sw_planning_of(m);
    int input = 0;

    while (input < m->count - 1 && !m->layer[input].is_input)
        input++;
    if (m->count > 0 && m->layer[input].sample_count > 0)
        p->own[input].samples[m->layer[input].sample_count - 1].forward_s += seconds;
}

const char *sw_planning_date(double unix_time, char out[16])
{
    const time_t at = (time_t)unix_time;
    struct tm tm;

    if (!localtime_r(&at, &tm) || !strftime(out, 16, "%Y-%m-%d", &tm))
        out[0] = '\0';
    return out;
}

/* ---- Of a run ---- */

/* Were all layers of the run split by rows? Opens its recipe as it was stored. */
static int check_rows(const struct sw_run *run, struct sw_err *err)
{
    const struct sw_job_options o = {.resume = run};
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    bool rows = false;

    int rc = sw_job_read_recipe(&o, &recipe, &conf, err);
    if (rc == SW_OK)
        rows = conf->partition == SW_PARTITION_ROWS;

    for (const struct sw_section *s = recipe ? sw_recipe_first(recipe, "layer") : NULL; s;
         s = sw_section_next(s)) {
        const struct sw_layer_conf *c = s->common;
        rows = rows && !sw_section_is_set(s, "location") &&
               (!sw_section_is_set(s, "partition") || c->partition == SW_PARTITION_ROWS);
    }

    sw_recipe_free(recipe);
    if (rc == SW_OK && !rows)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "run %lld: its layers were not all split by rows, so their times do not "
                          "tell those of another plan",
                          (long long)run->id);
    return rc;
}

/* Math threads of a worker on cores, as far as the placement tells; 0: it had a device. */
static int threads_of_run(struct sw_history_reader *r, const struct sw_run *run, int *threads,
                          struct sw_err *err)
{
    struct sw_rows rows = sw_rows_begin(r, SW_ROWS_PLACEMENT, run->id, 0, 0, err);
    struct sw_run_placement row;
    struct sw_core_set cores;

    *threads = 0;
    while (sw_rows_next(&rows, &row))
        if (strncmp(row.unit, "worker", 6) == 0 && sw_str_eq(row.device, sw_driver_host()->name) &&
            sw_core_set_parse(row.cores, &cores) && *threads == 0)
            *threads = sw_core_set_count(&cores);

    return sw_rows_end(&rows);
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

int sw_planning_times_of_run(struct sw_net_model *m, struct sw_history_reader *r,
                             const struct sw_run *run, char source[64], struct sw_err *err)
{
    struct sw_planning_times t = {0};
    char date[16];

    int rc = check_rows(run, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_planning_times_init(&t, m->user, err);
    if (rc != SW_OK)
        return rc;

    const int workers = run->workers > 0 ? (int)run->workers : 1;
    struct sw_layer_sample of = {.rows = run->batch / workers, .workers = workers};
    rc = threads_of_run(r, run, &of.threads, err);
    if (rc == SW_OK)
        rc = sw_planning_times_read(&t, r, run, err);
    if (rc == SW_OK)
        rc = sw_planning_times_use(&t, m, &of, err);
    if (rc == SW_OK)
        snprintf(source, 64, "run %lld of %s", (long long)run->id,
                 sw_planning_date(run->started_at, date));
    sw_planning_times_fini(&t);

    return rc;
}
