/* Which checkpoints of a run stay on disk, and which of them is the best one.
 *
 * The best is the one, of those written at a step that was evaluated, whose metric was best; equal
 * ones are no better than the first. With `checkpoint_best` an evaluation that beats all before
 * makes its own checkpoint. Where the best stands is in every checkpoint's metadata, so that a
 * resume goes on from what was known at its step.
 *
 * With `keep_checkpoints = N` the N newest stay, and the best, and the one that this segment went
 * on from; step 0 is a checkpoint like any other. The order of removal: the new file is durable,
 * its row and the removed rows are committed together, then the old files go. A kill in between
 * leaves files without rows, which a resume finds and hands in again. While the history cannot be
 * written nothing is removed, and a file that another run has put in the place of ours is left
 * alone.
 *
 * By the leader's thread, between steps. */
#include "base/os.h"
#include "base/str.h"
#include "train/job_private.h"
#include "train/results.h"
#include "train/saved.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FLUSH_MS = 500, FLUSH_LAST_MS = 5000 };

/* ---- the metric ---- */

/* Names that best_by may say, for a message. */
static int unknown_metric(struct sw_job *job, const struct sw_series *s, struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(job->recipe, "job", NULL);
    const char *names[SW_JOB_METRICS];
    for (int i = 0; i < s->count; i++)
        names[i] = s->name[i];
    sw_recipe_error(job->recipe, section, "best_by", "evaluation has no such value");
    sw_recipe_hint_near(job->recipe, job->conf->best_by, names, s->count, "it has");
    return sw_recipe_verdict(job->recipe, err);
}

static int find_metric(const struct sw_series *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (sw_str_eq(s->name[i], name))
            return i;
    return -1;
}

int sw_keep_init(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    struct sw_keeper *k = &job->keeper;
    const struct sw_series *s = &job->workers[0].series[SW_SPLIT_EVAL];
    const char *name = job->conf->best_by;
    k->metric = k->evaluated = k->from = k->best.step = -1;
    if (job->workers[0].eval)
        k->metric = find_metric(s, name ? name : "accuracy");
    if (k->metric < 0 && name)
        return unknown_metric(job, s, err);
    if (k->metric < 0 && job->workers[0].eval)
        k->metric = 0; /* the loss */
    if (k->metric >= 0)
        k->less_is_better = sw_series_less_is_better(job->workers[0].eval, s, k->metric);
    if (o->resume && !job->stage.begins) /* a stage writes its own in the place of that file */
        k->from = job->span.first_step;
    for (int i = 0; o->resume && i < o->kept_count; i++) {
        if (o->kept[i].step > job->span.first_step)
            continue; /* damaged, or it would have been the one to go on from */
        int rc = sw_keep_add(job, o->kept[i].step, o->kept[i].path, o->kept[i].checksum, err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

void sw_keep_fini(struct sw_keeper *k)
{
    for (int i = 0; i < k->count; i++)
        sw_free(k->items[i].path);
    sw_free(k->items);
    *k = (struct sw_keeper){0};
}

/* ---- the best ---- */

bool sw_keep_beats(const struct sw_job *job, int64_t step)
{
    const struct sw_keeper *k = &job->keeper;
    if (k->metric < 0 || k->evaluated != step)
        return false;
    double value = job->metrics.last[SW_SPLIT_EVAL][k->metric].value;
    if (k->best.step < 0)
        return value == value;
    return k->less_is_better ? value < k->best.value : value > k->best.value;
}

struct sw_best sw_keep_best_with(const struct sw_job *job, int64_t step)
{
    const struct sw_keeper *k = &job->keeper;
    if (!sw_keep_beats(job, step))
        return k->best;
    return (struct sw_best){.step = step,
                            .value = job->metrics.last[SW_SPLIT_EVAL][k->metric].value};
}

static const char *metric_name(const struct sw_job *job)
{
    return job->workers[0].series[SW_SPLIT_EVAL].name[job->keeper.metric];
}

int sw_keep_write(const struct sw_job *job, struct sw_best best, struct sw_st_writer *w,
                  struct sw_err *err)
{
    char step[32], value[40];
    if (best.step < 0)
        return SW_OK;
    snprintf(step, sizeof step, "%lld", (long long)best.step);
    snprintf(value, sizeof value, "%.17g", best.value);
    int rc = sw_st_writer_metadata(w, "best_step", step, err);
    if (rc == SW_OK)
        rc = sw_st_writer_metadata(w, "best_metric", metric_name(job), err);
    return rc == SW_OK ? sw_st_writer_metadata(w, "best_value", value, err) : rc;
}

/* A kill may have come between the file and its row: without it the best one might have none. */
static void record_again(struct sw_job *job)
{
    const struct sw_keeper *k = &job->keeper;
    for (int i = 0; i < k->count; i++) {
        const struct sw_kept *c = &k->items[i];
        struct stat st;
        if (c->step == k->from && sw_os()->stat(c->path, &st) == 0)
            sw_history_checkpoint(job->events.history, c->step, c->path, (int64_t)st.st_size,
                                  c->checksum, c->step == k->best.step);
    }
}

void sw_keep_read(struct sw_job *job, const struct sw_st_file *f)
{
    struct sw_keeper *k = &job->keeper;
    const char *step = sw_st_metadata(f, "best_step"), *metric = sw_st_metadata(f, "best_metric"),
               *value = sw_st_metadata(f, "best_value");
    struct sw_best best;
    if (step && metric && value && k->metric >= 0 && sw_str_eq(metric, metric_name(job)) &&
        sw_parse_int(step, &best.step) && best.step >= 0 && sw_parse_real(value, &best.value))
        k->best = best;
    record_again(job);
    /* A newer one that this resume supersedes may have had the mark. */
    sw_history_checkpoint_best(job->events.history, k->best.step);
}

/* ---- what stays ---- */

static struct sw_kept *find(struct sw_keeper *k, int64_t step)
{
    for (int i = 0; i < k->count; i++)
        if (k->items[i].step == step)
            return &k->items[i];
    return NULL;
}

int sw_keep_add(struct sw_job *job, int64_t step, const char *path, const char *checksum,
                struct sw_err *err)
{
    struct sw_keeper *k = &job->keeper;
    struct sw_kept *item = find(k, step);
    char *copy = sw_strdup(path);
    if (!copy)
        return sw_err_nomem(err, "the list of checkpoints", strlen(path));
    if (!item) {
        struct sw_kept *items = sw_realloc_array(k->items, (size_t)k->count + 1, sizeof *k->items);
        if (!items) {
            sw_free(copy);
            return sw_err_nomem(err, "the list of checkpoints", sizeof *items);
        }
        k->items = items;
        item = &items[k->count++];
        *item = (struct sw_kept){.step = step};
    }
    sw_free(item->path);
    item->path = copy;
    snprintf(item->checksum, sizeof item->checksum, "%s", checksum ? checksum : "");
    return SW_OK;
}

const char *sw_keep_newest(const struct sw_job *job, int64_t *step)
{
    const struct sw_keeper *k = &job->keeper;
    const char *path = job->options.resume_checkpoint;
    *step = job->span.first_step;
    for (int i = 0; i < k->count; i++)
        if (k->items[i].step >= *step) {
            *step = k->items[i].step;
            path = k->items[i].path;
        }
    return path;
}

/* How many newer ones there are. */
static int newer(const struct sw_keeper *k, int64_t step)
{
    int n = 0;
    for (int i = 0; i < k->count; i++)
        n += k->items[i].step > step;
    return n;
}

static bool stays(const struct sw_job *job, const struct sw_kept *c)
{
    const struct sw_keeper *k = &job->keeper;
    int64_t most = job->conf->keep_checkpoints;
    return most == 0 || newer(k, c->step) < most || c->step == k->best.step || c->step == k->from;
}

static void forget(struct sw_keeper *k, struct sw_kept *item)
{
    sw_free(item->path);
    *item = k->items[--k->count];
}

/* A file without our checksum was put there by somebody else. */
static bool is_ours(const struct sw_kept *c)
{
    char there[33];
    struct sw_err ignored;
    return sw_st_peek_checksum(c->path, there, &ignored) == SW_OK && sw_str_eq(there, c->checksum);
}

static void remove_file(struct sw_job *job, const struct sw_kept *c)
{
    if (is_ours(c) && sw_os()->unlink(c->path) != 0 && errno != ENOENT)
        sw_events_say(&job->events, SW_LOG_WARN, "checkpoint", "%s: not removed: %s", c->path,
                      strerror(errno));
}

void sw_keep_record(struct sw_worker *w, const char *path, uint64_t bytes, const char *checksum)
{
    struct sw_job *job = w->job;
    struct sw_keeper *k = &job->keeper;
    struct sw_err err;
    struct sw_best best = sw_keep_best_with(job, w->step);
    sw_history_checkpoint(job->events.history, w->step, path, (int64_t)bytes, checksum,
                          best.step == w->step);
    k->best = best;
    __atomic_store_n(&job->keeper.saved_step, w->step, __ATOMIC_RELAXED);
    if (sw_keep_add(job, w->step, path, checksum, &err) != SW_OK)
        sw_events_say(&job->events, SW_LOG_WARN, "checkpoint", "it will not be removed: %s",
                      err.text);
    for (int i = 0; i < k->count; i++)
        if (!stays(job, &k->items[i]))
            sw_history_checkpoint_removed(job->events.history, k->items[i].step);
    /* So that a kill from now on finds the row; a database that is busy does not stop training. */
    if (!sw_history_flush(job->events.history,
                          w->step < job->span.steps ? FLUSH_MS : FLUSH_LAST_MS))
        return; /* the next checkpoint removes what is left */
    for (int i = k->count; i-- > 0;)
        if (!stays(job, &k->items[i])) {
            remove_file(job, &k->items[i]);
            forget(k, &k->items[i]);
        }
}
