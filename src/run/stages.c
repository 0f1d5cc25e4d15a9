/* Runs in stages: each stage is a job of its own, with the recipe as the stage has it, and all are
 * one run: one history, one folder, steps that count on. Where one ends it leaves a checkpoint that
 * says so, and the next one begins from that file, whether in the same process or on resume: with
 * the values of the same names, with what its init_from says, with initial values for the rest.
 * The state of updaters, recurrent state and schedules start over. Its first checkpoint then
 * takes the place of the file, and has in it what earlier stages trained and this net has not
 * (carried_over.c).
 *
 * When a run is opened all its stages are: their nets are built, and what each takes from those
 * before is looked for among the names and shapes that those have. That is done once; a stage that
 * begins takes over the machine map and the lengths of the later ones from the job before it. */
#include "run/stages.h"
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "run/job_private.h"
#include "worker/worker.h"
#include <stdio.h>

/* ---- which stage ---- */

struct told {
    char name[128];
    int64_t step, from;
    bool over;
};

static int number_of(const struct sw_st_file *f, const char *path, const char *key, int64_t *value,
                     struct sw_err *err)
{
    const char *text = sw_st_metadata(f, key);
    if (text && sw_parse_int(text, value) && *value >= 0)
        return SW_OK;
    return sw_err_set(err, SW_ERR_FORMAT, "%s: its metadata have a stage, but no %s", path, key);
}

/* What a checkpoint says of its stage; no name where it says nothing. */
static int read_told(const char *path, struct told *told, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    *told = (struct told){.step = 0};
    int rc = sw_checkpoint_open(path, &f, err);
    const char *name = rc == SW_OK ? sw_st_metadata(f, "stage") : NULL;
    if (name) {
        snprintf(told->name, sizeof told->name, "%s", name);
        told->over = sw_st_metadata(f, "stage_over") != NULL;
        rc = number_of(f, path, "step", &told->step, err);
    }
    if (rc == SW_OK && name)
        rc = number_of(f, path, "stage_from", &told->from, err);
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

/* The stage to go on with after what the checkpoint tells of. */
static int follow(struct sw_job *job, const struct told *told, const char *path, struct sw_err *err)
{
    struct sw_job_stage *s = &job->stage;
    s->index = find(job->recipe, told->name);
    job->span.stage_from = told->from;
    if (s->index < 0)
        return sw_err_set(err, SW_ERR_INVALID, "%s: it is of stage '%s', which the recipe has not",
                          path, told->name);
    s->begins = told->over && s->index + 1 < sw_recipe_stage_count(job->recipe);
    if (s->begins) {
        s->index++;
        job->span.stage_from = told->step;
    }
    return SW_OK;
}

int sw_stage_choose(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    struct sw_job_options again = *o;
    struct told told = {.step = 0};
    const char *path = o->resume ? o->resume_checkpoint : o->weights;
    int rc = sw_job_read_recipe(o, &job->recipe, &job->conf, err), stage = -1;
    if (rc == SW_OK)
        stage = sw_recipe_stage(job->recipe);
    job->stage.index = stage;
    if (rc == SW_OK && stage >= 0 && !o->stage && path)
        rc = read_told(path, &told, err);
    if (rc == SW_OK && *told.name && o->resume)
        rc = follow(job, &told, path, err);
    else if (rc == SW_OK && stage >= 0 && !o->stage && path && !o->resume)
        job->stage.index = *told.name && find(job->recipe, told.name) >= 0
                               ? find(job->recipe, told.name)
                               : sw_recipe_stage_count(job->recipe) - 1;
    if (rc == SW_OK && job->stage.index != stage) {
        again.stage = sw_recipe_stage_name(job->recipe, job->stage.index);
        struct sw_recipe *first = job->recipe;
        rc = sw_job_read_recipe(&again, &job->recipe, &job->conf, err);
        sw_recipe_free(first);
    }
    if (job->recipe) {
        job->stage.count = sw_recipe_stage_count(job->recipe);
        job->stage.name = sw_recipe_stage_name(job->recipe, sw_recipe_stage(job->recipe));
    }
    return rc;
}

/* The samples of a run are numbered in 63 bits; half of that leaves room for what is read ahead. */
static const int64_t samples_most = INT64_MAX / 2;

/* Samples of a step, at most. */
static int64_t samples_of_step(const struct sw_job *job)
{
    return sw_topology_samples(job->topology, job->topology->warmup_steps + 1) -
           sw_topology_samples(job->topology, job->topology->warmup_steps);
}

/* Where the stage ends that begins behind step `from`, if its samples can be numbered. */
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
                    "%lld steps of %lld samples behind step %lld are more samples than a run can "
                    "number; it may have %lld steps at most",
                    (long long)job->span.horizon, (long long)each, (long long)from,
                    (long long)(most > 0 ? most : 0));
    return sw_recipe_verdict(job->recipe, err);
}

/* ---- ends ---- */

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Steps by --steps, which no stage has. */
static int check_option(const struct sw_job *job, struct sw_err *err)
{
    const int64_t each = samples_of_step(job), most = samples_most / each;
    if (job->span.run_steps <= most)
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID,
                      "--steps %lld: so many steps of %lld samples are more samples than a run can "
                      "number; it may have %lld steps at most",
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

void sw_stage_note_end(struct sw_job *job, int64_t t)
{
    /* Before its last step only a condition ends it, and that is its end, too. */
    job->stage.over = t < job->span.steps || t >= job->span.stage_from + job->span.horizon;
}

void sw_stage_tell(struct sw_job *job)
{
    const struct sw_job_stage *s = &job->stage;
    char text[160];
    if (s->index < 0)
        return;
    snprintf(text, sizeof text, "%s (%d of %d)", s->name, s->index + 1, s->count);
    sw_history_tag(job->events.history, "stage", text);
    sw_events_say_at(&job->events, job->span.first_step, SW_LOG_INFO, "stage",
                     "%s: steps %lld to %lld", text, (long long)job->span.stage_from + 1,
                     (long long)(job->span.stage_from + job->span.horizon));
}

bool sw_job_has_next(const struct sw_job *job)
{
    const struct sw_job_stage *s = &job->stage;
    return s->index >= 0 && s->index + 1 < s->count && s->over && job->workers &&
           !job->workers[0].end.stopped &&
           (job->options.steps == 0 || job->workers[0].step < job->options.steps);
}
