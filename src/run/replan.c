/* Following a parallel plan, and changing it. The contract is in run/replan.h. */
#include "run/replan.h"

#include "base/os.h"
#include "run/hosts_history.h"
#include "run/job_private.h"
#include "worker/worker.h"

enum { QUEUED = 4096 }; /* steps of workers between two looks of the main thread */

void sw_replan_check(struct sw_job *job)
{
    if (job->conf->replan && (!sw_job_find_split(job, SW_SPLIT_EVAL) || job->conf->eval_every == 0))
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "replan",
                        "a plan is changed at evaluations during training, and there are none: "
                        "set job.eval_every, and add [data val] or [data test]");
}

/* ---- The plan ---- */

static void fini_plan(struct sw_following_plan *p)
{
    sw_free(p->json);
    sw_free(p->what);
    sw_free(p->overrides);
    *p = (struct sw_following_plan){.json = NULL};
}

void sw_following_fini(struct sw_job_following *f)
{
    fini_plan(&f->now);
    fini_plan(&f->next);
    if (f->ready)
        sw_queue_fini(&f->breakdowns);
    sw_plan_watch_fini(&f->watch);
    *f = (struct sw_job_following){.ready = false};
}

static bool copy(char **to, const char *text)
{
    *to = text ? sw_strdup(text) : NULL;
    return !text || *to;
}

static int set_plan(struct sw_following_plan *p, const char *overrides, const char *what,
                    const struct sw_job_followed_plan *plan, struct sw_err *err)
{
    fini_plan(p);
    p->plan = *plan;
    if (!copy(&p->json, plan->json) || !copy(&p->what, what) || !copy(&p->overrides, overrides)) {
        fini_plan(p);
        return sw_err_nomem(err, "a parallel plan", 0);
    }

    p->plan.json = p->json;
    return SW_OK;
}

int sw_job_follow_plan(struct sw_job *job, const struct sw_job_followed_plan *plan,
                       struct sw_err *err)
{
    return set_plan(&job->following.now, NULL, NULL, plan, err);
}

int sw_job_replan(struct sw_job *job, const char *overrides, const char *what,
                  const struct sw_job_followed_plan *plan, struct sw_err *err)
{
    return set_plan(&job->following.next, overrides, what, plan, err);
}

double sw_job_predicted_ms(const struct sw_job *job)
{
    return job->following.now.plan.predicted.step_ms;
}

int64_t sw_job_step(const struct sw_job *job)
{
    return job->workers[0].step;
}

void sw_following_record(struct sw_job *job)
{
    const struct sw_following_plan *p = &job->following.now;

    if (p->json && !sw_hosts_history_is_part(job))
        sw_history_plan(job->events.history, p->json, p->plan.predicted.step_ms,
                        sw_recipe_overrides(job->recipe));
}

void sw_following_report(struct sw_job *job)
{
    if (job->following.now.what)
        sw_events_report_at(&job->events, job->span.first_step, SW_LOG_INFO, "plan",
                            "after step %lld the run follows another plan: %s",
                            (long long)job->span.first_step, job->following.now.what);
}

/* ---- Its steps ---- */

int sw_following_open(struct sw_job *job, struct sw_err *err)
{
    struct sw_job_following *f = &job->following;
    const struct sw_plan_times *predicted = &f->now.plan.predicted;

    if (!(predicted->step_ms > 0) || job->options.hosts)
        return SW_OK;

    int rc = sw_plan_watch_init(&f->watch, predicted, job->topology->workers,
                                job->topology->is_async, err);
    if (rc == SW_OK)
        rc = sw_queue_init(&f->breakdowns, sizeof(struct sw_step_breakdown), QUEUED, err);
    if (rc != SW_OK)
        return rc;

    f->ready = true;
    for (int i = 0; i < job->topology->workers; i++)
        job->workers[i].shared.breakdowns = &f->breakdowns;
    return SW_OK;
}

/* Tells that the steps deviate from the plan, and what the planner would do about it. */
static void report_gap(struct sw_job *job, int64_t step)
{
    const struct sw_job_following *f = &job->following;
    struct sw_bytes more = {0};
    struct sw_plan_gap gap;
    char text[256];

    sw_plan_watch_gap(&f->watch, &gap);
    const bool replans =
        f->now.plan.deviates && f->now.plan.deviates(f->now.plan.user, job, &gap, &more);
    sw_events_report_at(&job->events, step, SW_LOG_WARN, "plan", "%s%s",
                        sw_plan_gap_text(&gap, text), sw_bytes_text(&more));
    sw_bytes_fini(&more);
    if (replans)
        sw_requests_set(&job->requests, SW_JOB_REPLAN);
}

static void report_agreement(struct sw_job *job, int64_t step)
{
    struct sw_plan_gap gap;
    char measured[32], predicted[32];

    sw_plan_watch_gap(&job->following.watch, &gap);
    sw_events_report_at(&job->events, step, SW_LOG_INFO, "plan",
                        "steps take as long as the plan predicts again: %s, %s predicted",
                        sw_human_seconds(measured, gap.measured.step_ms / 1000),
                        sw_human_seconds(predicted, gap.predicted.step_ms / 1000));
    __atomic_fetch_and(&job->requests.bits, ~SW_JOB_REPLAN, __ATOMIC_RELAXED);
}

/* A device also waits between its passes: for values of parameters, or where layers are split for
 * activations. After the last one it reduces and updates, if devices do that, while the worker is
 * idle. */
static void read_parts(const struct sw_job *job, const struct sw_step_breakdown *b,
                       double ms[SW_PLAN_PARTS])
{
    const struct sw_step_time *t = &b->time;
    struct sw_transfer *const *moves = job->groups.transfers[SW_SPLIT_TRAIN];
    const double passes_ms = (double)t->forward_ms + (double)t->backward_ms;
    const double waited_ms =
        b->computed_ms > 0 && b->computed_ms < passes_ms ? passes_ms - b->computed_ms : 0;

    ms[SW_PLAN_COMPUTE] = passes_ms - waited_ms;
    ms[SW_PLAN_PARAMS] = (double)t->update_ms + (double)t->comm_exposed_ms;
    ms[SW_PLAN_WAITS] = (double)t->wait_ms;
    ms[SW_PLAN_REST] = (double)t->read_ms + (double)t->decode_ms + (double)t->h2d_ms;
    ms[sw_devices_update(&job->exchange) ? SW_PLAN_PARAMS : SW_PLAN_REST] += (double)t->idle_ms;
    ms[moves && moves[0] ? SW_PLAN_WAITS : SW_PLAN_PARAMS] += waited_ms;
}

static void look_at(struct sw_job *job, const struct sw_step_breakdown *b)
{
    const struct sw_step_time *t = &b->time;
    double ms[SW_PLAN_PARTS];

    if (b->resumes || t->step <= job->topology->warmup_steps)
        return;

    read_parts(job, b, ms);
    switch (sw_plan_watch_add(&job->following.watch, t->worker, ms)) {
    case SW_PLAN_DEVIATES:
        report_gap(job, t->step);
        break;
    case SW_PLAN_AGREES:
        report_agreement(job, t->step);
        break;
    default:
        break;
    }
}

void sw_following_watch(struct sw_job *job)
{
    struct sw_step_breakdown b;

    while (job->following.ready && sw_queue_try_pop(&job->following.breakdowns, &b) == SW_OK)
        look_at(job, &b);
}

/* ---- Another plan ---- */

bool sw_replan_is_requested(const struct sw_job *job)
{
    return __atomic_load_n(&job->requests.replans, __ATOMIC_RELAXED) &&
           !(sw_requests_get(&job->requests) & SW_JOB_STOP);
}

bool sw_job_replans(const struct sw_job *job)
{
    return job->following.ended;
}

void sw_following_hand_over(struct sw_job *from, struct sw_job *to)
{
    struct sw_job_following *f = &from->following;
    const bool replaced = f->next.overrides != NULL;
    struct sw_following_plan *p = replaced ? &f->next : &f->now;

    if (!replaced && to->stage.index != from->stage.index)
        return; /* the plan is that of another net */

    to->following.now = *p;
    *p = (struct sw_following_plan){.json = NULL};
    if (replaced)
        return;

    sw_free(to->following.now.json); /* recorded */
    sw_free(to->following.now.what); /* reported */
    to->following.now.json = to->following.now.what = NULL;
    to->following.now.plan.json = NULL;
}

bool sw_replan_give_up(struct sw_job *job, const struct sw_err *why)
{
    if (!job->following.next.overrides)
        return false;

    sw_log_write(job->events.log, SW_LOG_WARN, "plan", "the run keeps its plan: %s", why->text);
    sw_history_event(job->events.history, SW_LOG_WARN, "plan", "the run keeps its plan: %s",
                     why->text);
    fini_plan(&job->following.next);
    return true;
}
