/* Early stopping. The contract is in run/patience.h.
 *
 * Nothing is stored for it: a run evaluates at multiples of eval_every from the beginning of its
 * stage, and every checkpoint has the step of the best evaluation, so the number of evaluations
 * since then is known wherever a run resumes. That requires that none is left out, which is why a
 * stop request waits for an evaluation that is due (worker/between.c). */
#include "run/patience.h"
#include "checkpoint/checkpoint.h"
#include "run/job_checkpoint.h"
#include "run/job_private.h"
#include "worker/worker.h"

void sw_patience_check(struct sw_job *job)
{
    const struct sw_section *section = sw_recipe_find(job->recipe, "job", NULL);

    if (job->conf->patience == 0)
        return;

    if (!sw_job_find_split(job, SW_SPLIT_EVAL))
        sw_recipe_error(
            job->recipe, section, "patience",
            "evaluations are counted, and there are no data for them: add [data val] or "
            "[data test]");
    if (job->topology->hosts > 1 && sw_recipe_stage_count(job->recipe) > 0)
        sw_recipe_error(job->recipe, section, "patience",
                        "on several hosts only the first has the best checkpoint, from which the "
                        "next stage begins: use one host, or a recipe without stages");
}

bool sw_patience_counts(const struct sw_job *job, int64_t t)
{
    const struct sw_job_span *s = &job->span;
    const bool interrupted = t == s->steps && t < s->stage_from + s->horizon;

    return job->conf->patience == 0 || !interrupted ||
           (t - s->stage_from) % job->conf->eval_every == 0;
}

bool sw_patience_is_over(const struct sw_job *job, int64_t t)
{
    const int64_t every = job->conf->eval_every, from = job->span.stage_from;
    const int64_t best = job->retention.best_seen.step, since = best < from ? from : best;

    return job->conf->patience > 0 && sw_patience_counts(job, t) &&
           (t - from) / every - (since - from) / every >= job->conf->patience;
}

void sw_patience_report(struct sw_job *job, int64_t t)
{
    const struct sw_retention *r = &job->retention;
    const long long patience = (long long)job->conf->patience;

    if (r->best_seen.step < 0)
        sw_events_report(&job->events, SW_LOG_INFO, "job",
                         "step %lld: patience = %lld is over: no evaluation has a finite %s",
                         (long long)t, patience, r->metric_name);
    else
        sw_events_report(
            &job->events, SW_LOG_INFO, "job",
            "step %lld: patience = %lld is over: the best %s is still %.6g, of step %lld",
            (long long)t, patience, r->metric_name, r->best_seen.value,
            (long long)r->best_seen.step);
}

/* Whether the best parameters have no checkpoint, because it could not be written. */
static bool report_lost(struct sw_job *job, int64_t t)
{
    const struct sw_retention *r = &job->retention;

    if (r->best_seen.step == sw_retention_best_with(r, t).step)
        return false;

    sw_events_report(&job->events, SW_LOG_WARN, "job",
                     "the best parameters, those of step %lld, cannot be restored: their "
                     "checkpoint was not written",
                     (long long)r->best_seen.step);
    return true;
}

int sw_patience_restore(struct sw_job *job, int64_t t, struct sw_err *err)
{
    const struct sw_checkpoint_job c = sw_job_checkpoint(job);
    struct sw_err why;
    int64_t step = -1, ignored;

    /* Other hosts write no checkpoints. */
    if (job->conf->patience == 0 || !job->stage.over || job->topology->host > 0)
        return SW_OK;

    /* Workers do not judge an evaluation with which the run ends anyway. */
    if (t >= job->span.steps && sw_patience_is_over(job, t))
        sw_patience_report(job, t);

    const char *path = sw_retention_better(&job->retention, t, &step);
    const bool lost = report_lost(job, t);
    if (step < 0)
        return SW_OK;

    int rc = path ? sw_checkpoint_check(&c, path, &ignored, &why)
                  : sw_err_set(&why, SW_ERR_NOTFOUND, "it is not on disk");
    if (rc != SW_OK) {
        sw_events_report(
            &job->events, SW_LOG_WARN, "job",
            "the best parameters, those of step %lld, cannot be restored; those of step "
            "%lld remain: %s",
            (long long)step, (long long)t, why.text);
        return SW_OK;
    }

    rc = sw_checkpoint_roll_back(&c, path, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "the best parameters, those of step %lld", (long long)step);

    sw_events_report(
        &job->events, SW_LOG_INFO, "job",
        "step %lld: ends with the parameters of step %lld, whose %s of %.6g is the best%s",
        (long long)t, (long long)step, job->retention.metric_name, job->retention.best.value,
        lost ? " of a checkpoint" : "");
    return SW_OK;
}
