/* The callbacks of a job's workers behind worker_hooks.h, implemented with the checkpoints, the
 * stage and the memory plan of the job, which workers do not know. */
#include "run/job_hooks.h"
#include "exchange/table/sync.h"
#include "run/job_checkpoint.h"
#include "run/job_private.h"
#include "run/memory.h"
#include "run/patience.h"
#include "run/rebalance.h"

/* ---- checkpoints ---- */

static int write_checkpoint(void *run, struct sw_err *err)
{
    const enum sw_checkpoint_home home = sw_job_hosts_home(run);
    struct sw_checkpoint_job c = sw_job_checkpoint(run);

    c.unrecorded = home == SW_CHECKPOINT_OF_HOST;
    return home == SW_CHECKPOINT_ELSEWHERE ? SW_OK : sw_checkpoint_write(&c, err);
}

/* Values come from the initializers, from another run's file or the previous stage, or from the
 * resumed checkpoint. A new run writes checkpoint 0 unless checkpoint_ends = no, so that there
 * always is one; a new stage replaces the file that it begins from. */
static int read_first_values(struct sw_job *job, struct sw_err *err)
{
    const bool begins = job->stage.begins;
    const struct sw_checkpoint_job c = sw_job_checkpoint(job);

    for (int i = 0; i < job->topology->server_groups; i++)
        sw_job_put_step(job, i, begins ? job->span.first_step : 0, 0, 0);
    if (c.resumed && !begins)
        return sw_checkpoint_load(&c, c.resumed, err);

    if (begins)
        job->state.reset_after = job->span.first_step;

    int rc = sw_table_init_values(job->params.table, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_init_from_load(&c, err);
    if (rc != SW_OK)
        return rc;

    return job->conf->checkpoint_ends && !job->span.times_only ? write_checkpoint(job, err) : SW_OK;
}

static int load_first_values(void *run, struct sw_err *err)
{
    struct sw_job *job = run;

    int rc = read_first_values(job, err);
    if (rc == SW_OK)
        sw_job_hosts_compare(job, job->span.first_step);
    return rc;
}

static bool has_checkpoint(void *run, int64_t step)
{
    const struct sw_job *job = run;
    return __atomic_load_n(&job->retention.saved_step, __ATOMIC_RELAXED) == step;
}

static const char *newest(const struct sw_job *job, int64_t *step)
{
    *step = job->span.first_step;
    return sw_retention_newest(&job->retention, step);
}

static int64_t newest_checkpoint(void *run)
{
    int64_t step;
    (void)newest(run, &step);
    return step;
}

static int roll_back(void *run, struct sw_err *err)
{
    const struct sw_checkpoint_job c = sw_job_checkpoint(run);
    int64_t step;
    return sw_checkpoint_roll_back(&c, newest(run, &step), err);
}

static void note_evaluation(void *run, int64_t step)
{
    struct sw_job *job = run;
    if (sw_patience_counts(job, step))
        sw_retention_evaluated(&job->retention, step);
    sw_job_hosts_compare(job, step);
}

static bool is_best(void *run, int64_t step)
{
    const struct sw_job *job = run;
    return sw_retention_beats(&job->retention, step);
}

static bool is_out_of_patience(void *run, int64_t step, bool report)
{
    const bool over = sw_patience_is_over(run, step);

    if (over && report)
        sw_patience_report(run, step);
    return over;
}

static int restore_best(void *run, int64_t step, struct sw_err *err)
{
    return sw_patience_restore(run, step, err);
}

/* ---- what concerns all workers ---- */

static bool is_quiet(void *run)
{
    const struct sw_job *job = run;

    return job->topology->hosts > 1 ? sw_job_hosts_are_quiet(run)
                                    : sw_sync_is_quiet(job->params.sync);
}

static int merge(void *run, int64_t step, struct sw_err *err)
{
    const struct sw_job *job = run;

    if (job->topology->hosts > 1)
        return sw_job_hosts_merge(run, step, err);
    sw_sync_merge_all(job->params.sync, (uint64_t)step);
    return SW_OK;
}

static int resume(void *run, struct sw_err *err)
{
    return sw_job_hosts_resume(run, err);
}

static int share_state(void *run, struct sw_err *err)
{
    return sw_job_hosts_share_state(run, err);
}

static void end_warmup(void *run)
{
    sw_job_join(run);
}

static void end_job(void *run, int64_t step)
{
    sw_stage_record_end(run, step);
}

static int rebalance(void *run, struct sw_worker *w, struct sw_err *err)
{
    return sw_rebalance(run, w, err);
}

static int fit(void *run, const struct sw_worker *w, struct sw_microbatches *fresh,
               struct sw_err *err)
{
    return sw_job_refit(run, w, fresh, err);
}

const struct sw_worker_hooks sw_job_hooks = {
    .load_first_values = load_first_values,
    .write_checkpoint = write_checkpoint,
    .has_checkpoint = has_checkpoint,
    .newest_checkpoint = newest_checkpoint,
    .roll_back = roll_back,
    .note_evaluation = note_evaluation,
    .is_best = is_best,
    .is_out_of_patience = is_out_of_patience,
    .is_quiet = is_quiet,
    .merge = merge,
    .resume = resume,
    .share_state = share_state,
    .end_warmup = end_warmup,
    .end_job = end_job,
    .restore_best = restore_best,
    .rebalance = rebalance,
    .fit = fit,
};
