/* The segments of a run: the first one, and one after each loss of hosts. The contract is in
 * cli/training/train.h. */
#include "cli/training/train.h"

#include "base/os.h"
#include "base/stop.h"
#include "cli/history/runs.h"
#include "cli/plan/replan.h"
#include "plan/conf.h"
#include "recipe/job.h"
#include "recipe/recipe.h"
#include <stdio.h>
#include <string.h>

struct training {
    const struct sw_train_args *args;
    struct sw_trainer trainer;
    struct sw_job_on_hosts hosts;
    struct sw_replanner replanner;
    /* Of the segment that has ended: */
    int64_t run_id, restarts; /* restarts: at most so many */
    char *db;                 /* owned: the history of the run */
    bool opened, goes_on;
    bool saved;                          /* with a checkpoint of its last complete step */
    uint64_t lost;                       /* bits of hosts */
    struct sw_bytes gone, left, targets; /* names of hosts; targets: those left, for ssh */
    int restart;                         /* restarts so far */
    int64_t from;                        /* step of the last one; -1: none */
};

/* ---- A segment ---- */

/* Chooses the newest undamaged checkpoint. *kept, borrowed by opening the job, is owned by the
 * caller. */
static int use_checkpoints(struct sw_job_options *job, const struct sw_checkpoints *checkpoints,
                           struct sw_job_retained_checkpoint **kept, struct sw_err *err)
{
    struct sw_job_retained_checkpoint *all = sw_calloc((size_t)checkpoints->count, sizeof *all);
    if (!all)
        return sw_err_nomem(err, "list of checkpoints", 0);

    for (int i = 0; i < checkpoints->count; i++)
        all[i] = (struct sw_job_retained_checkpoint){
            checkpoints->items[i].step, checkpoints->items[i].path, checkpoints->items[i].checksum};

    *kept = all;
    job->kept = all;
    job->kept_count = checkpoints->count;
    return sw_checkpoints_newest(checkpoints, &job->resume_checkpoint, err);
}

static void add_name(struct sw_bytes *list, const char *name)
{
    sw_bytes_printf(list, "%s%s", list->length ? ", " : "", name);
}

/* Whether the job that has ended with the loss of hosts may start again without them. */
static bool may_restart(void *user, const struct sw_job *job)
{
    struct training *s = user;
    const struct sw_cluster_conf *c = sw_recipe_find(sw_job_recipe(job), "cluster", NULL)->common;

    s->restarts = c->restarts;
    return s->hosts.launch && s->hosts.launch->by_ssh && s->hosts.run_id != 0 &&
           c->on_host_loss == SW_ON_HOST_LOSS_SAVE && s->restart < c->restarts &&
           sw_stop_requests() == 0;
}

/* Keeps what a restart needs, while the job and its hosts still exist. */
static void note_end(struct training *s)
{
    const struct sw_launch *l = s->hosts.launch;
    const struct sw_job *job = s->trainer.job;

    s->lost = s->opened ? sw_job_lost_hosts(job) : 0;
    s->goes_on = s->lost && may_restart(s, job);
    sw_bytes_clear(&s->gone);
    sw_bytes_clear(&s->left);
    sw_bytes_clear(&s->targets);
    for (int i = 0; s->lost && i < l->hosts.count; i++) {
        const bool is_lost = s->lost >> i & 1;

        add_name(is_lost ? &s->gone : &s->left, l->hosts.host[i].name);
        if (!is_lost && l->by_ssh)
            sw_bytes_printf(&s->targets, "%s%s", s->targets.length ? "," : "", l->targets[i]);
    }

    s->run_id = s->hosts.run_id;
    sw_free(s->db);
    s->db = s->hosts.db;
    s->hosts.db = NULL;
}

/* Tells a run its plan; after a restart the history has it already, and it is that of other
 * hosts. */
static int follow_plan(struct training *s, struct sw_err *err)
{
    const struct sw_plan_follow *plan = s->args->plan;
    const struct sw_recipe *recipe = sw_job_recipe(s->trainer.job);
    const struct sw_job_conf *conf = sw_recipe_find(recipe, "job", NULL)->common;
    int rc = SW_OK;

    if (plan && plan->json.length > 0 && s->restart == 0)
        rc = sw_replanner_begin(&s->replanner, plan, s->trainer.job, err);
    s->trainer.report.predicted_ms = sw_job_predicted_ms(s->trainer.job);
    if (rc == SW_OK && conf->replan && (!(s->trainer.report.predicted_ms > 0) || s->trainer.launch))
        sw_cli_message(
            "warning: job.replan has no effect: the run follows no plan on one host; use "
            "run --plan or job.partition = auto");
    return rc;
}

static void on_replan(void *user, struct sw_job *job)
{
    sw_replanner_switch(user, job);
}

/* Trains the job on the hosts of `o`; returns the exit code. */
static int train_segment(struct training *s, const struct sw_hosts_options *o,
                         struct sw_job_options *job, const struct sw_checkpoints *checkpoints)
{
    struct sw_trainer *t = &s->trainer;
    struct sw_job_retained_checkpoint *kept = NULL;
    struct sw_err err;

    int rc = checkpoints ? use_checkpoints(job, checkpoints, &kept, &err) : SW_OK;
    if (rc == SW_OK)
        rc = sw_job_on_hosts_begin(&s->hosts, o, job, &t->report, &err);
    t->launch = s->hosts.launch;
    if (rc == SW_OK)
        rc = sw_trainer_open(t, job, &err);
    if (rc == SW_OK)
        rc = follow_plan(s, &err);

    int code = rc == SW_OK ? sw_trainer_run(t) : sw_trainer_refuse(t, rc, &err);
    if (rc == SW_ERR_CANCELLED && job->resume) /* the run is unchanged, with its checkpoint */
        code = SW_EXIT_STOPPED;

    s->opened = rc == SW_OK;
    s->saved = code == SW_EXIT_STOPPED;
    note_end(s);
    sw_trainer_close(t);
    t->launch = NULL;
    sw_free(kept);
    return sw_job_on_hosts_end(&s->hosts, s->lost, code);
}

/* ---- Restarts ---- */

/* The options of the next segment: those of the first one, except for what the run has stored. */
static struct sw_job_options
options_of(const struct training *s, const struct sw_job_options *first, const struct sw_run *run)
{
    struct sw_job_options job = *first;

    if (!first->resume) {
        job.sets = NULL;
        job.set_count = 0;
        job.device = job.framework = job.cores = NULL;
        job.steps_at_most = first->steps == 0;
        job.steps = first->steps ? first->steps : run->steps;
    }

    job.recipe_path = job.init_from = job.reset = job.name = job.out_dir = NULL;
    job.told = NULL;
    job.hosts = NULL;
    job.overwrite = false;
    job.db = s->db;
    job.resume = run;
    return job;
}

/* Without a checkpoint of the last complete step the run goes back to an earlier one. */
static void tell(const struct training *s, int64_t step)
{
    const char *gone = sw_bytes_text(&s->gone);
    const bool several = strchr(gone, ',') != NULL;
    char how[64];

    if (s->saved)
        snprintf(how, sizeof how, " after step %lld; going on", (long long)step);
    else
        snprintf(how, sizeof how, "; going on from step %lld", (long long)step);
    sw_cli_message("host%s %s %s lost%s with %s (restart %d of %lld)", several ? "s" : "", gone,
                   several ? "are" : "is", how, sw_bytes_text(&s->left), s->restart,
                   (long long)s->restarts);
}

static int restart_from(struct training *s, const struct sw_job_options *first,
                        const struct sw_run *run, const struct sw_checkpoints *checkpoints)
{
    const int64_t step = checkpoints->items[0].step;
    char *targets = sw_strdup(sw_bytes_text(&s->targets)); /* the next segment changes the text */
    const struct sw_hosts_options o = {.hosts = targets,
                                       .share_machine = s->args->hosts->share_machine};
    struct sw_job_options job = options_of(s, first, run);
    int code = SW_EXIT_STOPPED;

    if (step == s->from) {
        sw_cli_message("hosts were lost twice after step %lld; `singa-ws resume %lld` continues "
                       "the run",
                       (long long)step, (long long)run->id);
    } else if (targets) {
        s->from = step;
        s->restart++;
        tell(s, step);
        code = train_segment(s, &o, &job, checkpoints);
        if (!s->opened) {
            sw_cli_message("`singa-ws resume %lld` continues the run", (long long)run->id);
            code = SW_EXIT_STOPPED;
        }
    }

    sw_free(targets);
    return code;
}

/* Starts again with the hosts that are left; returns the exit code. */
static int restart(struct training *s, const struct sw_job_options *first)
{
    struct sw_history_reader *reader = NULL;
    struct sw_checkpoints checkpoints = {0};
    struct sw_run run = {0};
    struct sw_err err;

    s->goes_on = false;
    int rc = sw_history_reader_open(&reader, s->db, &err);
    if (rc == SW_OK)
        rc = sw_history_find_id(reader, s->run_id, &run, &err);
    if (rc == SW_OK)
        rc = sw_checkpoints_find(reader, &run, &checkpoints, &err);
    sw_history_reader_close(reader);

    int code = rc == SW_OK ? restart_from(s, first, &run, &checkpoints) : sw_cli_fail(rc, &err);
    sw_checkpoints_fini(&checkpoints);
    sw_run_fini(&run);
    return code;
}

static void fini(struct training *s)
{
    sw_trainer_fini(&s->trainer);
    sw_replanner_fini(&s->replanner);
    sw_bytes_fini(&s->gone);
    sw_bytes_fini(&s->left);
    sw_bytes_fini(&s->targets);
    sw_free(s->db);
}

int sw_train(const struct sw_train_args *args, struct sw_job_options *job,
             const struct sw_checkpoints *checkpoints)
{
    struct training s = {.args = args, .from = -1};
    struct sw_err err;
    int code;

    int rc = sw_trainer_init(&s.trainer, args->common, &err);
    s.trainer.goes_on = may_restart;
    s.trainer.goes_on_user = &s;
    s.trainer.on_replan = on_replan;
    s.trainer.replan_user = &s.replanner;
    s.replanner.common = args->common;
    s.replanner.oversubscribe = job->oversubscribe;
    sw_live_view_report(args->live_view, &s.trainer.report);
    sw_trainer_reserve(&s.trainer, job, args->when_free);

    code = rc == SW_OK ? train_segment(&s, args->hosts, job, checkpoints) : sw_cli_fail(rc, &err);
    while (s.goes_on)
        code = restart(&s, job);

    fini(&s);
    return code;
}
