/* Opening a job with all its stages: each is opened once to check that it can be, and what it takes
 * from earlier ones is looked up among their names and shapes. The next stage takes over the
 * machine map and the lengths of the later ones from the previous job. */
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "exchange/table/table.h"
#include "run/job_private.h"
#include "run/release.h"
#include <string.h>

/* Adds a name, or replaces its shape by the later one. */
static int add(struct sw_stage_names *n, const struct sw_st_entry *e, struct sw_err *err)
{
    for (int i = 0; i < n->count; i++)
        if (sw_str_eq(n->items[i].name, e->name)) {
            const char *name = n->items[i].name;
            n->items[i] = *e;
            n->items[i].name = name;
            return SW_OK;
        }

    struct sw_st_entry *items = sw_realloc_array(n->items, (size_t)n->count + 1, sizeof *items);
    if (!items)
        return sw_err_nomem(err, "the names of a stage", sizeof *items);

    n->items = items;
    items[n->count] = *e;
    items[n->count].name = sw_strdup(e->name);

    return items[n->count++].name ? SW_OK : sw_err_nomem(err, "the names of a stage", 0);
}

static int add_file(struct sw_stage_names *n, const char *path, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    int rc = sw_checkpoint_open(path, &f, err);

    for (size_t i = 0; rc == SW_OK && i < sw_st_count(f); i++)
        if (!sw_str_starts(sw_st_entry_at(f, i)->name, "updater."))
            rc = add(n, sw_st_entry_at(f, i), err);

    sw_st_close(f);
    return rc;
}

static int add_job(struct sw_stage_names *n, const struct sw_job *job, struct sw_err *err)
{
    for (int i = 0; i < sw_table_count(job->params.table); i++) {
        const struct sw_param *p = sw_table_param(job->params.table, i);
        struct sw_st_entry e = {.name = p->name, .dtype = SW_ST_F32};

        e.ndim = sw_param_whole(p, e.shape);

        int rc = add(n, &e, err);
        if (rc != SW_OK)
            return rc;
    }

    for (int i = 0; i < job->state.buffers.count; i++) {
        const struct sw_buffer *s = &job->state.buffers.items[i];
        struct sw_st_entry e = {.name = s->name, .dtype = SW_ST_F32, .ndim = s->layout.ndim};

        memcpy(e.shape, s->layout.dim, (size_t)s->layout.ndim * sizeof *e.shape);

        int rc = add(n, &e, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Opens a stage that begins after step *end, to check it and to learn its names and its length. */
static int check_stage(struct sw_job *job, const struct sw_job_options *o, int index,
                       struct sw_stage_names *names, int64_t *end, struct sw_err *err)
{
    struct sw_job *later = NULL;
    struct sw_job_options later_options = *o;

    later_options.stage = sw_recipe_stage_name(job->recipe, index);
    later_options.resume_checkpoint = NULL;
    later_options.previous.names = names;
    later_options.previous.job = job;
    later_options.previous.fallback = sw_recipe_fallback(job->recipe);

    int rc = sw_job_build(&later_options, job->events.log, &later, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_job_complete(later, &later_options, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_stage_steps_end(later, *end, end, err);
    if (rc != SW_OK)
        goto out;
    rc = add_job(names, later, err);
    if (rc != SW_OK)
        goto out;

    job->stage.steps[index] = later->span.horizon;
    sw_job_close(later);
    return SW_OK;

out:
    job->stage.failed = later;
    return rc;
}

static int check_later_stages(struct sw_job *job, const struct sw_job_options *o, int64_t end,
                              struct sw_err *err)
{
    struct sw_stage_names names = {0};

    int rc = job->options.resume_checkpoint ? add_file(&names, job->options.resume_checkpoint, err)
                                            : SW_OK;
    if (rc != SW_OK)
        goto out;
    rc = add_job(&names, job, err);
    if (rc != SW_OK)
        goto out;

    for (int i = job->stage.index + 1; i < job->stage.count; i++) {
        rc = check_stage(job, o, i, &names, &end, err);
        if (rc != SW_OK)
            goto out;
    }

out:
    sw_stage_names_fini(&names);
    return rc;
}

/* Lists this stage and the later ones: "pre (30 steps), fine (50 steps)". */
static void list(struct sw_job *job)
{
    struct sw_job_stage *s = &job->stage;
    for (int i = s->index; i < s->count; i++)
        sw_bytes_printf(&s->text, "%s%s (%lld steps)", i > s->index ? ", " : "",
                        sw_recipe_stage_name(job->recipe, i), (long long)s->steps[i]);
}

static int check_stages(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    struct sw_job_stage *s = &job->stage;
    const int64_t *known = o->previous.job ? o->previous.job->stage.steps : NULL;
    int64_t end;

    if (s->index < 0 || o->stage || o->one_worker || o->only_placement || o->predict)
        return SW_OK;

    s->steps = sw_calloc((size_t)s->count, sizeof *s->steps);
    if (!s->steps)
        return sw_err_nomem(err, "the lengths of stages", (size_t)s->count * sizeof *s->steps);

    int rc = sw_stage_steps_end(job, job->span.stage_from, &end, err);
    if (rc == SW_OK && known)
        memcpy(s->steps, known, (size_t)s->count * sizeof *s->steps);
    else if (rc == SW_OK)
        rc = check_later_stages(job, o, end, err);

    if (rc != SW_OK)
        return rc;

    s->steps[s->index] = job->span.horizon;
    for (int i = s->index + 1; i < s->count; i++)
        s->later += s->steps[i];
    list(job);

    return SW_OK;
}

int sw_job_open(const struct sw_job_options *options, struct sw_log *log, struct sw_job **out,
                struct sw_bytes *messages, struct sw_err *err)
{
    struct sw_job *job;

    int rc = sw_job_build(options, log, &job, err);
    if (rc != SW_OK)
        goto out;
    rc = check_stages(job, options, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_job_complete(job, options, err);
    if (rc != SW_OK)
        goto out;

    *out = job;
    return SW_OK;

out:
    for (const struct sw_job *j = job; j; j = j->stage.failed)
        if (j->recipe && sw_recipe_diags(j->recipe)->count > 0)
            sw_diags_print(sw_recipe_diags(j->recipe), messages);

    sw_job_close(job);
    return rc;
}

/* ---- from one stage to the next ---- */

/* Describes the run as a resume would find it in the history, which may not be readable now; with
 * the settings of its next plan, if it has one. */
static int describe(const struct sw_job *job, struct sw_run *run, struct sw_err *err)
{
    const char *overrides = job->following.next.overrides;

    *run = (struct sw_run){.id = sw_history_run_id(job->events.history),
                           .name = sw_strdup(job->options.name),
                           .recipe = sw_strdup(sw_recipe_file(job->recipe)),
                           .recipe_text = sw_strdup(sw_recipe_text(job->recipe)),
                           .overrides =
                               sw_strdup(overrides ? overrides : sw_recipe_overrides(job->recipe)),
                           .fallback = sw_strdup(sw_recipe_fallback(job->recipe))};
    if (run->name && run->recipe && run->recipe_text && run->overrides && run->fallback)
        return SW_OK;

    return sw_err_nomem(err, "the next stage", 0);
}

/* Moves what belongs to the run, not the stage, to the next job. */
static void hand_over(struct sw_job *from, struct sw_job *to)
{
    to->events.history = from->events.history;
    from->events.history = NULL;
    to->hosts.history = from->hosts.history;
    from->hosts.history = NULL;
    sw_reserve_hand_over(from, to);
    to->span.run_began_ns = from->span.run_began_ns;
    to->requests.bits = __atomic_load_n(&from->requests.bits, __ATOMIC_RELAXED);
    if (from->following.ended)
        to->requests.bits &= ~SW_JOB_REPLAN;
    sw_following_hand_over(from, to);
}

/* Opens the next job of the run, from its newest checkpoint. */
static int open_next(const struct sw_job *old, struct sw_job **next, struct sw_bytes *messages,
                     struct sw_err *err)
{
    struct sw_run run = {0};
    int64_t step = old->span.first_step;
    struct sw_job_options o = {
        .out_dir = old->options.out_dir,
        .db = old->options.db,
        .command = old->options.command,
        .steps = old->options.steps,
        .steps_at_most = old->options.steps_at_most,
        .display = old->options.display,
        .oversubscribe = old->options.oversubscribe,
        .hosts = old->options.hosts,
        .reserve = old->options.reserve,
        .trace_capacity = old->options.trace_capacity,
        .resume = &run,
        .resume_checkpoint = sw_retention_newest(&old->retention, &step),
        .previous.job =
            old->reserve.released ? NULL : old, /* other cores and GPUs may be free now */
    };
    struct sw_job_retained_checkpoint *kept =
        sw_calloc((size_t)old->retention.count + 1, sizeof *kept);

    int rc = kept ? describe(old, &run, err) : sw_err_nomem(err, "the list of checkpoints", 0);

    for (int i = 0; kept && i < old->retention.count; i++) {
        const struct sw_retained_checkpoint *k = &old->retention.items[i];
        kept[i] = (struct sw_job_retained_checkpoint){k->step, k->path,
                                                      *k->checksum ? k->checksum : NULL};
    }

    o.kept = kept;
    o.kept_count = old->retention.count;
    if (rc == SW_OK)
        rc = sw_job_open(&o, old->events.log, next, messages, err);

    sw_free(kept);
    sw_run_fini(&run);

    return rc;
}

int sw_job_next(struct sw_job **job, struct sw_bytes *messages, struct sw_err *err)
{
    struct sw_job *old = *job, *next = NULL;
    int rc = old->reserve.released ? sw_release_wait(old, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    if (old->following.ended) /* there may not be memory for two jobs */
        sw_job_drop(old);

    rc = open_next(old, &next, messages, err);
    if (rc != SW_OK && rc != SW_ERR_CANCELLED && sw_replan_give_up(old, err)) {
        sw_bytes_clear(messages);
        rc = open_next(old, &next, messages, err);
    }
    if (rc != SW_OK)
        return rc;

    hand_over(old, next);
    sw_job_close(old);
    *job = next;

    return SW_OK;
}
