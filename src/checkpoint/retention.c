/* Checkpoint retention: which checkpoints of a run stay on disk, and which one is the best.
 *
 * The best checkpoint is the one with the best metric of those written at an evaluated step; on
 * ties the first. With `checkpoint_best` an evaluation that is better than all before writes a
 * checkpoint. The best step is in every checkpoint's metadata, so that a resume continues from what
 * was known at its step.
 *
 * With `keep_checkpoints = N` the N newest stay, and the best, and the one that this segment
 * resumed from; step 0 is a checkpoint like any other. Removal order: the new file is durable, its
 * row and the removed rows are committed together, then the old files are deleted. A kill in
 * between leaves files without rows, which a resume finds and records again. While the history
 * cannot be written nothing is removed, and a file that another run has put in the same place is
 * not touched.
 *
 * By the leader's thread, between steps. */
#include "checkpoint/retention.h"

#include "base/os.h"
#include "base/str.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLUSH_MS = 500, FLUSH_LAST_MS = 5000 };

void sw_retention_init(struct sw_retention *r, struct sw_events *events)
{
    *r = (struct sw_retention){.events = events,
                               .evaluated = -1,
                               .from = -1,
                               .best = {.step = -1},
                               .best_seen = {.step = -1},
                               .saved_step = -1};
}

void sw_retention_fini(struct sw_retention *r)
{
    for (int i = 0; i < r->count; i++)
        sw_free(r->items[i].path);
    sw_free(r->items);
    *r = (struct sw_retention){0};
}

/* ---- the best ---- */

/* An infinite value is never the best: metadata of checkpoints cannot hold it. */
static bool beats(const struct sw_retention *r, const struct sw_best *best)
{
    const double value = r->metric->value;

    if (!isfinite(value))
        return false;
    if (best->step < 0)
        return true;
    return r->less_is_better ? value < best->value : value > best->value;
}

void sw_retention_evaluated(struct sw_retention *r, int64_t step)
{
    r->evaluated = step;
    if (r->metric && beats(r, &r->best_seen))
        r->best_seen = (struct sw_best){.step = step, .value = r->metric->value};
}

bool sw_retention_beats(const struct sw_retention *r, int64_t step)
{
    return r->metric && r->evaluated == step && beats(r, &r->best);
}

struct sw_best sw_retention_best_with(const struct sw_retention *r, int64_t step)
{
    if (!sw_retention_beats(r, step))
        return r->best;
    return (struct sw_best){.step = step, .value = r->metric->value};
}

int sw_retention_write(const struct sw_retention *r, struct sw_best best, struct sw_st_writer *w,
                       struct sw_err *err)
{
    char step[32], value[40];
    if (best.step < 0)
        return SW_OK;

    snprintf(step, sizeof step, "%lld", (long long)best.step);
    snprintf(value, sizeof value, "%.17g", best.value);

    int rc = sw_st_writer_metadata(w, "best_step", step, err);
    if (rc == SW_OK)
        rc = sw_st_writer_metadata(w, "best_metric", r->metric_name, err);

    return rc == SW_OK ? sw_st_writer_metadata(w, "best_value", value, err) : rc;
}

/* Records the best checkpoint again, because a kill may have come between its file and its row. */
static void record_again(struct sw_retention *r)
{
    for (int i = 0; i < r->count; i++) {
        const struct sw_retained_checkpoint *c = &r->items[i];
        struct stat st;
        if (c->step == r->from && sw_os()->stat(c->path, &st) == 0)
            sw_history_checkpoint(r->events->history, c->step, c->path, (int64_t)st.st_size,
                                  c->checksum, c->step == r->best.step);
    }
}

void sw_retention_read(struct sw_retention *r, const struct sw_st_file *f)
{
    const char *step = sw_st_metadata(f, "best_step"), *metric = sw_st_metadata(f, "best_metric"),
               *value = sw_st_metadata(f, "best_value");
    struct sw_best best;

    if (step && metric && value && r->metric && sw_str_eq(metric, r->metric_name) &&
        sw_parse_int(step, &best.step) && best.step >= 0 && sw_parse_real(value, &best.value))
        r->best = r->best_seen = best;

    record_again(r);

    /* A newer checkpoint that this resume supersedes may have been marked as the best. */
    sw_history_checkpoint_best(r->events->history, r->best.step);
}

/* ---- what stays ---- */

static struct sw_retained_checkpoint *find(struct sw_retention *r, int64_t step)
{
    for (int i = 0; i < r->count; i++)
        if (r->items[i].step == step)
            return &r->items[i];
    return NULL;
}

const char *sw_retention_better(const struct sw_retention *r, int64_t step, int64_t *best_step)
{
    *best_step = sw_retention_best_with(r, step).step;
    if (*best_step == step)
        *best_step = -1;

    for (int i = 0; i < r->count; i++)
        if (r->items[i].step == *best_step)
            return r->items[i].path;
    return NULL;
}

int sw_retention_add(struct sw_retention *r, int64_t step, const char *path, const char *checksum,
                     struct sw_err *err)
{
    struct sw_retained_checkpoint *item = find(r, step);
    char *copy = sw_strdup(path);
    if (!copy)
        return sw_err_nomem(err, "the list of checkpoints", strlen(path));

    if (!item) {
        struct sw_retained_checkpoint *items =
            sw_realloc_array(r->items, (size_t)r->count + 1, sizeof *r->items);
        if (!items) {
            sw_free(copy);
            return sw_err_nomem(err, "the list of checkpoints", sizeof *items);
        }

        r->items = items;
        item = &items[r->count++];
        *item = (struct sw_retained_checkpoint){.step = step};
    }

    sw_free(item->path);
    item->path = copy;
    snprintf(item->checksum, sizeof item->checksum, "%s", checksum ? checksum : "");

    return SW_OK;
}

const char *sw_retention_newest(const struct sw_retention *r, int64_t *step)
{
    const char *path = r->resumed;

    for (int i = 0; i < r->count; i++)
        if (r->items[i].step >= *step) {
            *step = r->items[i].step;
            path = r->items[i].path;
        }

    return path;
}

/* Number of newer checkpoints. */
static int newer(const struct sw_retention *r, int64_t step)
{
    int n = 0;
    for (int i = 0; i < r->count; i++)
        n += r->items[i].step > step;
    return n;
}

static bool stays(const struct sw_retention *r, const struct sw_retained_checkpoint *c)
{
    return r->most == 0 || newer(r, c->step) < r->most || c->step == r->best.step ||
           c->step == r->from;
}

static void forget(struct sw_retention *r, struct sw_retained_checkpoint *item)
{
    sw_free(item->path);
    *item = r->items[--r->count];
}

/* A file with another checksum was written by another run. */
static bool is_ours(const struct sw_retained_checkpoint *c)
{
    char there[33];
    struct sw_err ignored;
    return sw_st_peek_checksum(c->path, there, &ignored) == SW_OK && sw_str_eq(there, c->checksum);
}

static void remove_file(struct sw_retention *r, const struct sw_retained_checkpoint *c)
{
    if (is_ours(c) && sw_os()->unlink(c->path) != 0 && errno != ENOENT)
        sw_events_report(r->events, SW_LOG_WARN, "checkpoint", "%s: not removed: %s", c->path,
                         strerror(errno));
}

void sw_retention_skip(struct sw_retention *r, int64_t step)
{
    r->best = sw_retention_best_with(r, step);
    __atomic_store_n(&r->saved_step, step, __ATOMIC_RELAXED);
}

void sw_retention_keep(struct sw_retention *r, int64_t step, const char *path, const char *checksum)
{
    struct sw_err err;

    sw_retention_skip(r, step);
    if (sw_retention_add(r, step, path, checksum, &err) != SW_OK)
        sw_events_report(r->events, SW_LOG_ERROR, "checkpoint",
                         "the next stage does not find its checkpoint: %s", err.text);
}

void sw_retention_record(struct sw_retention *r, int64_t step, bool is_last, const char *path,
                         uint64_t bytes, const char *checksum)
{
    struct sw_err err;
    struct sw_best best = sw_retention_best_with(r, step);

    sw_history_checkpoint(r->events->history, step, path, (int64_t)bytes, checksum,
                          best.step == step);
    r->best = best;
    __atomic_store_n(&r->saved_step, step, __ATOMIC_RELAXED);

    if (sw_retention_add(r, step, path, checksum, &err) != SW_OK)
        sw_events_report(r->events, SW_LOG_WARN, "checkpoint",
                         "the checkpoint will not be removed: %s", err.text);

    for (int i = 0; i < r->count; i++)
        if (!stays(r, &r->items[i]))
            sw_history_checkpoint_removed(r->events->history, r->items[i].step);

    /* Commit the row before deleting files; a busy database does not stop training. */
    if (!sw_history_flush(r->events->history, is_last ? FLUSH_LAST_MS : FLUSH_MS))
        return; /* the next checkpoint removes the remaining files */

    for (int i = r->count; i-- > 0;)
        if (!stays(r, &r->items[i])) {
            remove_file(r, &r->items[i]);
            forget(r, &r->items[i]);
        }
}
