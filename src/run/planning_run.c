/* What a run recorded: times of its layers, updates and steps. */
#include "base/os.h"
#include "device/driver.h"
#include "history/reader_rows.h"
#include "machine/core_set.h"
#include "run/job_private.h"
#include "run/planning_private.h"
#include <stdlib.h>
#include <string.h>

/* Do all workers train in step, so that a step of one is a step of all? */
static bool is_in_step(const struct sw_recipe *recipe)
{
    const struct sw_cluster_conf *c = sw_recipe_find(recipe, "cluster", NULL)->common;
    struct sw_cluster_sync sync;
    struct sw_err ignored;
    const char *key;

    return sw_cluster_sync(c, &sync, &key, &ignored) == SW_OK &&
           sync.consistency == SW_CONSISTENCY_BSP;
}

/* Were all layers of the run split by rows? Opens its recipe as it was stored. */
static int check_rows(const struct sw_run *run, bool *in_step, struct sw_err *err)
{
    const struct sw_job_options o = {.resume = run};
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    bool rows = false;

    int rc = sw_job_read_recipe(&o, &recipe, &conf, err);
    if (rc == SW_OK)
        rows = conf->partition == SW_PARTITION_ROWS;
    *in_step = rc == SW_OK && is_in_step(recipe);

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

/* ---- Steps ---- */

enum { NEWEST = 1024 }; /* rows of the history that count */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The mean without the least and the largest quarter: steps of devices take turns, and some wait
 * for other programs. */
static double middle_mean(double *values, int count)
{
    double sum = 0;
    const int first = count / 4, last = count - count / 4;

    qsort(values, (size_t)count, sizeof *values, compare);
    for (int i = first; i < last; i++)
        sum += values[i];
    return last > first ? sum / (last - first) : 0;
}

static double whole_ms(const struct sw_step_time *s)
{
    return (double)s->read_ms + (double)s->decode_ms + (double)s->h2d_ms + (double)s->forward_ms +
           (double)s->backward_ms + (double)s->update_ms + (double)s->comm_exposed_ms +
           (double)s->wait_ms + (double)s->idle_ms;
}

/* A step, and the part of it in which a worker makes updates, of the newest steps. */
static int read_steps(struct sw_history_reader *r, const struct sw_run *run, double *step_ms,
                      double *update_ms, struct sw_err *err)
{
    double *whole = sw_calloc(2 * NEWEST, sizeof *whole), *updates = whole + NEWEST;
    struct sw_step_time row;
    int64_t count = 0;

    if (!whole)
        return sw_err_nomem(err, "times of steps", 2 * NEWEST * sizeof *whole);

    struct sw_rows rows = sw_rows_begin(r, SW_ROWS_STEP_TIME, run->id, 1, 0, err);
    for (; sw_rows_next(&rows, &row); count++) {
        whole[count % NEWEST] = whole_ms(&row);
        updates[count % NEWEST] = (double)row.update_ms;
    }

    int rc = sw_rows_end(&rows);
    const int kept = count < NEWEST ? (int)count : NEWEST;
    *step_ms = rc == SW_OK ? middle_mean(whole, kept) : 0;
    *update_ms = rc == SW_OK ? middle_mean(updates, kept) : 0;
    sw_free(whole);

    return rc;
}

/* Divides the time that a worker's servers take for all updates among the layers by parameters. */
static void add_updates(struct sw_planning_times *t, double update_ms)
{
    const struct sw_net_model *m = &t->of->model;
    double params = 0;

    for (int i = 0; i < m->count; i++)
        params += (double)m->layer[i].params;
    for (int i = 0; i < m->count && params > 0; i++)
        t->update_ms[i] += update_ms * (double)m->layer[i].params / params;
}

/* ---- The whole ---- */

static int read_run(struct sw_planning_times *t, struct sw_history_reader *r,
                    const struct sw_run *run, bool in_step, struct sw_err *err)
{
    double update_ms = 0;

    int rc = sw_planning_times_read(t, r, run, err);
    if (rc != SW_OK || !in_step)
        return rc;
    rc = read_steps(r, run, &t->step_ms, &update_ms, err);
    if (rc == SW_OK)
        add_updates(t, update_ms);
    return rc;
}

int sw_planning_times_of_run(struct sw_net_model *m, struct sw_history_reader *r,
                             const struct sw_run *run, char source[64], int *workers,
                             double *step_s, struct sw_err *err)
{
    const struct sw_planning_measurement how = {.workers =
                                                    run->workers > 0 ? (int)run->workers : 1};
    struct sw_layer_sample of = {.workers = how.workers};
    struct sw_planning_times t = {0};
    struct sw_parallel_plan rows = {0};
    char date[16];
    bool in_step;

    int rc = check_rows(run, &in_step, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_planning_times_init(&t, m->user, err);
    if (rc != SW_OK)
        return rc;

    rc = threads_of_run(r, run, &of.threads, err);
    if (rc == SW_OK)
        rc = read_run(&t, r, run, in_step, err);
    if (rc == SW_OK)
        rc = sw_planning_plan(m, &how, &rows, err);
    if (rc == SW_OK)
        rc = sw_planning_times_use(&t, m, &of, &rows, err);
    if (rc == SW_OK) {
        snprintf(source, 64, "run %lld of %s", (long long)run->id,
                 sw_planning_date(run->started_at, date));
        *workers = how.workers;
        *step_s = t.step_ms * 1e-3;
    }

    sw_parallel_plan_fini(&rows);
    sw_planning_times_fini(&t);
    return rc;
}
