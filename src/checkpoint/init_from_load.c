/* Loads what init_from names, after it was checked, and reports which parameters were loaded. The
 * contract is in checkpoint/init_from.h. */
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/carried_over.h"
#include "checkpoint/init_match.h"
#include "worker/events.h"
#include "worker/worker.h"
#include <string.h>

enum { SHOWN = 400 }; /* bytes of a list of names */

struct taking {
    struct sw_stream *stream;
    bool *has;             /* owned [targets]: set from some file */
    bool *used;            /* owned [tensors of the current file] */
    int count;             /* parameters set from the current file */
    struct sw_bytes line;  /* of the report, about the current file */
    struct sw_bytes names; /* "enc1.weight from rbm1.weight" */
};

/* Adds "A BETWEEN B TAIL" to a list of limited length. */
static void list(struct sw_bytes *out, const char *a, const char *between, const char *b,
                 const char *tail)
{
    if (out->length > SHOWN) {
        if (!sw_str_ends(out->text, "..."))
            sw_bytes_add(out, ", ...");
        return;
    }

    sw_bytes_add(out, out->length ? ", " : "");
    sw_bytes_add(out, a);
    sw_bytes_add(out, between);
    sw_bytes_add(out, b);
    sw_bytes_add(out, tail);
}

static int take_one(const struct sw_checkpoint_job *job, const struct sw_init_take *t, void *user,
                    struct sw_err *err)
{
    struct taking *taking = user;
    const struct sw_st_file *f = t->from->f;
    int params = sw_table_count(sw_init_table(job)), rc;

    for (size_t i = 0; i < sw_st_count(f); i++)
        taking->used[i] |= sw_st_entry_at(f, i) == t->entry;

    if (sw_init_target_is_buffer(job, t->target)) {
        rc = sw_buffer_read(&job->state->buffers.items[t->target - params], t->tensor, f,
                            t->from->path, err);
    } else {
        struct sw_table_source to = sw_init_source(job, t, taking->stream);
        const struct sw_param *p = sw_table_param(sw_init_table(job), t->target);

        rc = sw_table_read_tensor(&to, t->tensor, f, err);
        if (rc == SW_OK)
            rc = sw_checkpoint_check_finite(taking->stream, p->value, &p->layout, p->name,
                                            t->from->path, err);

        /* Shards of one parameter count once. */
        bool first = p->part_first == 0;
        taking->count += first;

        if (t->rule && first)
            list(&taking->names, sw_init_target_name(job, t->target), " from ", t->tensor,
                 t->rule->transposed ? "^T" : "");
    }

    taking->has[t->target] = true;
    return rc;
}

static int param_count(const struct sw_checkpoint_job *job)
{
    int n = 0;
    for (int i = 0; i < sw_table_count(sw_init_table(job)); i++)
        n += sw_table_param(sw_init_table(job), i)->part_first == 0;
    return n;
}

/* Lists unused tensors, except updater state. */
static void list_unused(const struct sw_st_file *f, const bool *used, struct sw_bytes *out)
{
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const char *name = sw_st_entry_at(f, i)->name;
        if (!used[i] && !sw_str_starts(name, "updater."))
            list(out, name, "", "", "");
    }
}

static void report_line(const struct sw_checkpoint_job *job, struct taking *t)
{
    if (t->line.length)
        sw_events_report(job->events, SW_LOG_INFO, job->workers[0].role, "%s",
                         sw_bytes_text(&t->line));
    sw_bytes_clear(&t->line);
}

static int take_file(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                     struct taking *t, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    struct sw_bytes unused = {0};
    struct sw_init_tensors from;

    t->count = 0;
    sw_bytes_clear(&t->names);

    int rc = sw_init_open(job, file, &from, &f, err);
    if (rc == SW_OK) {
        t->used = sw_calloc(sw_st_count(f) + 1, sizeof *t->used);
        rc = t->used ? sw_init_for_each(job, file, &from, take_one, t, err)
                     : sw_err_nomem(err, "init_from", sw_st_count(f));
    }

    if (rc == SW_OK && file->previous)
        rc = sw_carried_over_read(job->carried_over, f, sw_init_table(job), job->state, err);

    /* Do not report a stage with an entirely different net. */
    if (rc == SW_OK && (t->count > 0 || !file->previous || file->rule_count)) {
        if (!file->previous) /* tensors of a previous stage are carried over */
            list_unused(f, t->used, &unused);
        report_line(job, t);
        sw_bytes_printf(&t->line, "%d of %d parameters start from %s%s%s%s%s", t->count,
                        param_count(job), from.path, t->names.length ? ": " : "",
                        sw_bytes_text(&t->names), unused.length ? "; unused tensors: " : "",
                        sw_bytes_text(&unused));
    }

    sw_free(t->used);
    t->used = NULL;
    sw_bytes_fini(&unused);
    sw_st_close(f);

    return rc;
}

int sw_init_from_load(const struct sw_checkpoint_job *job, struct sw_err *err)
{
    struct taking t = {.stream = sw_worker_host_stream(&job->workers[0])};
    struct sw_bytes own = {0}, frozen_names = {0}, reset = {0};
    int rc = SW_OK, params = sw_table_count(sw_init_table(job));

    if (job->takes->file_count == 0) {
        if (job->takes->reset && job->takes->reset->count)
            sw_events_report(job->events, SW_LOG_WARN, job->workers[0].role,
                             "reset has no effect: all parameters start from initial values; use "
                             "--init-from RUN or init_from to start from trained ones");
        return SW_OK;
    }

    t.has = sw_calloc((size_t)sw_init_target_count(job) + 1, sizeof *t.has);
    if (!t.has)
        return sw_err_nomem(err, "init_from", (size_t)sw_init_target_count(job));

    for (int i = 0; i < job->takes->file_count && rc == SW_OK; i++)
        rc = take_file(job, &job->takes->files[i], &t, err);

    for (int i = 0; i < params && rc == SW_OK; i++) {
        const struct sw_param *p = sw_table_param(sw_init_table(job), i);
        if (sw_init_is_reset(job, i))
            sw_init_add_layer(job, i, &reset);
        else if (!t.has[i] && p->part_first == 0)
            list(p->frozen ? &frozen_names : &own, p->name, "", "", "");
    }

    if (rc == SW_OK && reset.length)
        sw_bytes_printf(&t.line, "%sreset: %s", t.line.length ? "; " : "", sw_bytes_text(&reset));
    if (rc == SW_OK && own.length)
        sw_bytes_printf(&t.line, "%swith the initial values of the recipe: %s",
                        t.line.length ? "; " : "", sw_bytes_text(&own));
    if (rc == SW_OK)
        report_line(job, &t);

    if (rc == SW_OK && frozen_names.length)
        sw_events_report(job->events, SW_LOG_WARN, job->workers[0].role,
                         "frozen with the initial values of the recipe, although no file provides "
                         "trained values: %s; is init_from the right file?",
                         sw_bytes_text(&frozen_names));

    sw_bytes_fini(&frozen_names);
    sw_bytes_fini(&own);
    sw_bytes_fini(&reset);
    sw_bytes_fini(&t.line);
    sw_bytes_fini(&t.names);
    sw_free(t.has);

    return rc;
}
