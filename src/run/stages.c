/* Runs in stages: each stage is a job of its own, with the recipe as it is for that stage, and all
 * are one run: one history, one folder, continued step numbers. At its end a stage writes a
 * checkpoint that is marked as such, and the next one begins from that file, in the same process or
 * on resume: with the values of the same names, those that its init_from selects, and initial
 * values for the rest. Updater state, recurrent state and schedules start over. Its first
 * checkpoint then replaces the file, and also contains what earlier stages trained and this net
 * lacks (carried_over.c).
 *
 * When a run is opened all its stages are: their nets are built, and what each takes from earlier
 * ones is looked up among their names and shapes. This is done once; the next stage takes over the
 * machine map and the lengths of the later ones from the previous job. */
#include "run/stages.h"
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "run/job_private.h"
#include "run/patience.h"
#include "worker/worker.h"
#include <stdio.h>

/* ---- which stage ---- */

struct stage_mark {
    char name[128]; /* "": the checkpoint has no stage */
    int64_t step, from;
    bool over;
};

static int number_of(const struct sw_st_file *f, const char *path, const char *key, int64_t *value,
                     struct sw_err *err)
{
    const char *text = sw_st_metadata(f, key);
    if (text && sw_parse_int(text, value) && *value >= 0)
        return SW_OK;
    return sw_err_set(err, SW_ERR_FORMAT, "%s: its metadata has a stage, but no %s", path, key);
}

/* Reads the stage of a checkpoint; the name is empty if it has none. */
static int read_mark(const char *path, struct stage_mark *mark, struct sw_err *err)
{
    struct sw_st_file *f = NULL;

    *mark = (struct stage_mark){.step = 0};

    int rc = sw_checkpoint_open(path, &f, err);
    const char *name = rc == SW_OK ? sw_st_metadata(f, "stage") : NULL;
    if (name) {
        snprintf(mark->name, sizeof mark->name, "%s", name);
        mark->over = sw_st_metadata(f, "stage_over") != NULL;
        rc = number_of(f, path, "step", &mark->step, err);
    }

    if (rc == SW_OK && name)
        rc = number_of(f, path, "stage_from", &mark->from, err);
    sw_st_close(f);

    return rc;
}

static int find(const struct sw_recipe *recipe, const char *name)
{
    for (int i = 0; i < sw_recipe_stage_count(recipe); i++)
        if (sw_str_eq(sw_recipe_stage_name(recipe, i), name))
            return i;
    return -1;
}

/* Finds the stage to continue with after the checkpoint. */
static int follow(struct sw_job *job, const struct stage_mark *mark, const char *path,
                  struct sw_err *err)
{
    struct sw_job_stage *s = &job->stage;

    s->index = find(job->recipe, mark->name);
    job->span.stage_from = mark->from;
    if (s->index < 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: it is of stage '%s', which the recipe does not have", path,
                          mark->name);

    s->begins = mark->over && s->index + 1 < sw_recipe_stage_count(job->recipe);
    if (s->begins) {
        s->index++;
        job->span.stage_from = mark->step;
    }

    return SW_OK;
}

static int choose(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    struct sw_job_options again = *o;
    struct stage_mark mark = {.step = 0};
    const char *path = o->resume ? o->resume_checkpoint : o->weights;

    job->stage.index = -1;

    int rc = sw_job_read_recipe(o, &job->recipe, &job->conf, err);
    if (rc != SW_OK)
        return rc;

    const int stage = sw_recipe_stage(job->recipe);
    const bool marked = stage >= 0 && !o->stage && path;
    job->stage.index = stage;
    if (marked)
        rc = read_mark(path, &mark, err);
    if (rc != SW_OK)
        return rc;

    if (*mark.name && o->resume)
        rc = follow(job, &mark, path, err);
    else if (marked && !o->resume)
        job->stage.index = *mark.name && find(job->recipe, mark.name) >= 0
                               ? find(job->recipe, mark.name)
                               : sw_recipe_stage_count(job->recipe) - 1;

    if (rc != SW_OK || job->stage.index == stage)
        return rc;

    again.stage = sw_recipe_stage_name(job->recipe, job->stage.index);

    struct sw_recipe *first = job->recipe;
    rc = sw_job_read_recipe(&again, &job->recipe, &job->conf, err);
    sw_recipe_free(first);

    return rc;
}

int sw_stage_choose(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = choose(job, o, err);

    if (job->recipe) {
        job->stage.count = sw_recipe_stage_count(job->recipe);
        job->stage.name = sw_recipe_stage_name(job->recipe, sw_recipe_stage(job->recipe));
    }

    return rc;
}

/* The samples of a run are numbered in 63 bits; half of that leaves room for prefetching. */
static const int64_t samples_most = INT64_MAX / 2;

/* The largest number of samples of a step. */
static int64_t samples_of_step(const struct sw_job *job)
{
    return sw_topology_samples(job->topology, job->topology->warmup_steps + 1) -
           sw_topology_samples(job->topology, job->topology->warmup_steps);
}

int sw_stage_steps_end(struct sw_job *job, int64_t from, int64_t *end, struct sw_err *err)
{
    const int64_t each = samples_of_step(job), most = samples_most / each - from;

    *end = from;
    if (job->span.horizon <= most) {
        *end += job->span.horizon;
        return SW_OK;
    }

    sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL),
                    job->conf->steps > 0 ? "steps" : "epochs",
                    "%lld steps of %lld samples after step %lld are more samples than a run can "
                    "number; use at most %lld steps",
                    (long long)job->span.horizon, (long long)each, (long long)from,
                    (long long)(most > 0 ? most : 0));
    return sw_recipe_status(job->recipe, err);
}

/* ---- ends ---- */

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Checks --steps, which can exceed the length of the stages. */
static int check_option(const struct sw_job *job, struct sw_err *err)
{
    const int64_t each = samples_of_step(job), most = samples_most / each;
    if (job->span.run_steps <= most)
        return SW_OK;

    return sw_err_set(
        err, SW_ERR_INVALID,
        "--steps %lld: that many steps of %lld samples are more samples than a run can "
        "number; use at most %lld steps",
        (long long)job->span.run_steps, (long long)each, (long long)most);
}

int sw_stage_find_end(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int64_t own;

    int rc = sw_stage_steps_end(job, job->span.stage_from, &own, err);
    if (rc != SW_OK)
        return rc;

    const int64_t all = own + job->stage.later;
    const bool last = job->stage.index + 1 >= job->stage.count, longer = last && !o->steps_at_most;
    job->options.steps = o->steps;
    job->options.steps_at_most = o->steps_at_most;
    job->span.steps = job->span.run_steps = all;
    if (o->steps > 0)
        job->span.run_steps = o->steps_at_most ? lesser(o->steps, all) : o->steps;
    job->span.steps = longer ? job->span.run_steps : lesser(job->span.run_steps, own);

    return check_option(job, err);
}

void sw_stage_record_end(struct sw_job *job, int64_t t)
{
    /* A stage that ends before its last step was ended by a condition, which counts as its end. */
    job->stage.over = t < job->span.steps || t >= job->span.stage_from + job->span.horizon ||
                      sw_patience_is_over(job, t);
}

void sw_stage_report(struct sw_job *job)
{
    const struct sw_job_stage *s = &job->stage;
    char text[160];

    if (s->index < 0)
        return;

    snprintf(text, sizeof text, "%s (%d of %d)", s->name, s->index + 1, s->count);
    sw_history_tag(job->events.history, "stage", text);
    sw_events_report_at(&job->events, job->span.first_step, SW_LOG_INFO, "stage",
                        "%s: steps %lld to %lld", text, (long long)job->span.stage_from + 1,
                        (long long)(job->span.stage_from + job->span.horizon));
}

bool sw_job_has_next(const struct sw_job *job)
{
    const struct sw_job_stage *s = &job->stage;

    if (job->reserve.released || job->following.ended)
        return true;
    return s->index >= 0 && s->index + 1 < s->count && s->over && job->workers &&
           !job->workers[0].end.stopped &&
           (job->options.steps == 0 || job->workers[0].step < job->options.steps);
}
