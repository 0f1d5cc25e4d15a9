/* Carried-over parameters: tensors that earlier stages of the run trained and this stage's net does
 * not have are copied from checkpoint to checkpoint, so that a later stage finds them. Updater
 * state is not carried over. */
#include "checkpoint/carried_over.h"
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/standardized.h"
#include "data/spec.h"
#include "exchange/table/table.h"
#include "worker/buffers.h"

static bool is_in(const struct sw_buffers *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (sw_str_eq(s->items[i].name, name))
            return true;
    return false;
}

static bool is_own(const struct sw_table *t, const struct sw_job_state *state, const char *name)
{
    for (int i = 0; i < sw_table_count(t); i++)
        if (sw_str_eq(sw_table_param(t, i)->name, name))
            return true;
    return is_in(&state->buffers, name) || is_in(&state->recurrent, name);
}

static int take(struct sw_carried_over *l, const struct sw_st_file *f, const struct sw_st_entry *e,
                struct sw_err *err)
{
    struct sw_carried_tensor *t = &l->items[l->count];

    *t = (struct sw_carried_tensor){.entry = *e, .values = sw_calloc(1, (size_t)e->bytes + 1)};
    t->entry.name = sw_strdup(e->name);
    l->count++;
    if (!t->entry.name || !t->values)
        return sw_err_nomem(err, "values of earlier stages", (size_t)e->bytes);

    return sw_st_read(f, e, 0, (size_t)e->bytes, t->values, err);
}

int sw_carried_over_read(struct sw_carried_over *l, const struct sw_st_file *f,
                         const struct sw_table *t, const struct sw_job_state *state,
                         struct sw_err *err)
{
    int rc = SW_OK;

    if (l->items)
        return SW_OK;

    l->items = sw_calloc(sw_st_count(f) + 1, sizeof *l->items);
    if (!l->items)
        return sw_err_nomem(err, "values of earlier stages", sw_st_count(f));

    for (size_t i = 0; i < sw_st_count(f) && rc == SW_OK; i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        if (!sw_str_starts(e->name, "updater.") && !sw_data_spec_owns(e->name) &&
            !sw_standardized_owns(e->name) && !is_own(t, state, e->name))
            rc = take(l, f, e, err);
    }

    return rc;
}

static int emit(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sw_carried_tensor *t = user;
    return sw_st_emit(sink, t->values, (size_t)t->entry.bytes, err);
}

int sw_carried_over_write(struct sw_carried_over *l, struct sw_st_writer *w, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < l->count && rc == SW_OK; i++) {
        struct sw_carried_tensor *t = &l->items[i];
        rc = sw_st_writer_add(w, t->entry.name,
                              (struct sw_st_shape){t->entry.dtype, t->entry.ndim, t->entry.shape},
                              emit, t, err);
    }

    return rc;
}

void sw_carried_over_fini(struct sw_carried_over *l)
{
    for (int i = 0; i < l->count; i++) {
        sw_free((void *)(uintptr_t)l->items[i].entry.name);
        sw_free(l->items[i].values);
    }

    sw_free(l->items);
    *l = (struct sw_carried_over){0};
}
