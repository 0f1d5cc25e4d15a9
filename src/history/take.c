/* What host 0 accepts from the histories of other hosts. The lines come from another machine: each
 * row must be of a kind that a host records, name only things of that host, and have numbers that
 * the queries over the run can bear. Any thread may call. */
#include "base/os.h"
#include "history/part.h"
#include "history/writer.h"
#include <math.h>
#include <string.h>

enum { MOST_SAMPLES = 1 << 30, NAME_BYTES = 128, SHORT_TEXT = 64, LONG_TEXT = 4096 };

static bool is_text(const struct sw_cell *c, size_t most)
{
    return c->type == SW_CELL_TEXT && strlen(c->t) <= most;
}

static bool is_text_or_null(const struct sw_cell *c, size_t most)
{
    return c->type == SW_CELL_NULL || is_text(c, most);
}

static bool is_within(const struct sw_cell *c, int64_t least, int64_t most)
{
    return c->type == SW_CELL_INT && c->i >= least && c->i <= most;
}

/* "b/worker0.1" of host b. */
static bool is_own(const struct sw_history_source *from, const struct sw_cell *c)
{
    size_t n = strlen(from->host);

    return is_text(c, NAME_BYTES) && strncmp(c->t, from->host, n) == 0 && c->t[n] == '/';
}

static bool is_own_worker(const struct sw_history_source *from, const struct sw_cell *c)
{
    return is_within(c, from->first_worker, (int64_t)from->first_worker + from->workers - 1);
}

/* Sums and means over a run do not survive infinity. */
static bool has_finite_reals(const struct sw_row *row)
{
    for (int i = 0; sw_row_specs[row->kind].types[i]; i++)
        if (row->cells[i].type == SW_CELL_REAL && !isfinite(row->cells[i].r))
            return false;
    return true;
}

/* ---- Kinds ---- */

typedef bool check(const struct sw_history_source *from, const struct sw_cell *c);

static bool check_step_time(const struct sw_history_source *from, const struct sw_cell *c)
{
    return is_within(&c[0], 0, from->last_step) && is_own_worker(from, &c[1]) &&
           is_within(&c[12], 0, INT32_MAX);
}

static bool check_layer_time(const struct sw_history_source *from, const struct sw_cell *c)
{
    return is_text(&c[0], NAME_BYTES) && is_own_worker(from, &c[1]) &&
           is_within(&c[4], 0, MOST_SAMPLES);
}

/* Between its own roles, or from the host itself to another one. */
static bool check_traffic(const struct sw_history_source *from, const struct sw_cell *c)
{
    const bool is_net = is_text(&c[3], SHORT_TEXT) && strcmp(c[3].t, "net") == 0;
    const bool units = is_net ? is_text(&c[1], NAME_BYTES) && strcmp(c[1].t, from->host) == 0 &&
                                    is_text(&c[2], SHORT_TEXT)
                              : is_own(from, &c[1]) && is_own(from, &c[2]);

    return units && is_text(&c[3], SHORT_TEXT) && is_within(&c[0], 0, from->last_step) &&
           is_within(&c[4], 0, INT64_MAX >> 20);
}

static bool check_placement(const struct sw_history_source *from, const struct sw_cell *c)
{
    return is_own(from, &c[0]) && is_text_or_null(&c[1], SHORT_TEXT) &&
           is_text_or_null(&c[3], LONG_TEXT) && is_text_or_null(&c[4], LONG_TEXT);
}

static bool check_placement_removed(const struct sw_history_source *from, const struct sw_cell *c)
{
    return is_text(&c[0], NAME_BYTES) && strcmp(c[0].t, from->host) == 0;
}

static bool check_hardware(const struct sw_history_source *from, const struct sw_cell *c)
{
    return c[0].type == SW_CELL_REAL && c[0].r >= 0 && is_own(from, &c[1]);
}

static bool find_level(const char *name, enum sw_log_level *level)
{
    for (int l = SW_LOG_DEBUG; l <= SW_LOG_ERROR; l++)
        if (strcmp(sw_log_level_name((enum sw_log_level)l), name) == 0) {
            *level = (enum sw_log_level)l;
            return true;
        }
    return false;
}

static bool check_event(const struct sw_history_source *from, const struct sw_cell *c)
{
    enum sw_log_level level;

    return c[0].type == SW_CELL_REAL && c[0].r >= 0 && is_text(&c[1], SHORT_TEXT) &&
           find_level(c[1].t, &level) && is_own(from, &c[2]) && is_text(&c[3], LONG_TEXT);
}

static bool check_tag(const struct sw_history_source *from, const struct sw_cell *c)
{
    return is_own(from, &c[0]) && is_text_or_null(&c[1], LONG_TEXT);
}

/* A host tells only what its machine is. */
static bool check_host(const struct sw_history_source *from, const struct sw_cell *c)
{
    for (int i = 0; sw_row_specs[SW_ROW_HOST].types[i]; i++)
        if (i != SW_HOST_CELL_NUMBER && i != SW_HOST_CELL_CPU && i != SW_HOST_CELL_GPUS &&
            c[i].type != SW_CELL_NULL)
            return false;

    return is_within(&c[SW_HOST_CELL_NUMBER], from->number, from->number) &&
           is_text_or_null(&c[SW_HOST_CELL_CPU], LONG_TEXT) &&
           is_text_or_null(&c[SW_HOST_CELL_GPUS], LONG_TEXT);
}

/* The kinds that a host may send. */
static check *const checks[SW_ROW_KINDS] = {
    [SW_ROW_STEP_TIME] = check_step_time,
    [SW_ROW_LAYER_TIME] = check_layer_time,
    [SW_ROW_TRAFFIC] = check_traffic,
    [SW_ROW_PLACEMENT] = check_placement,
    [SW_ROW_PLACEMENT_REMOVED] = check_placement_removed,
    [SW_ROW_HARDWARE] = check_hardware,
    [SW_ROW_EVENT] = check_event,
    [SW_ROW_TAG] = check_tag,
    [SW_ROW_HOST] = check_host,
};

/* ---- Lines ---- */

static void tell_event(const struct sw_history_source *from, const struct sw_row *row)
{
    enum sw_log_level level;

    if (row->kind == SW_ROW_EVENT && find_level(row->cells[1].t, &level) && level >= SW_LOG_WARN &&
        from->event)
        from->event(from->user, level, row->cells[2].t, row->cells[3].t);
}

static int take_line(struct sw_history *h, const struct sw_history_source *from, const char *line,
                     size_t bytes, struct sw_err *err)
{
    char uid[SW_UID_TEXT];
    struct sw_row *row = NULL;

    int rc = sw_row_parse(line, bytes, &row, uid, err);
    if (rc == SW_ERR_NOMEM) {
        sw_history_count_lost(h, 1);
        return SW_OK;
    }
    if (rc != SW_OK)
        return rc;

    if (!checks[row->kind] || strcmp(uid, h->uid) != 0 || !has_finite_reals(row) ||
        !checks[row->kind](from, row->cells)) {
        rc = sw_err_set(err, SW_ERR_FORMAT, "it sent a row of %s that it may not record",
                        sw_row_specs[row->kind].name);
        sw_row_free(row);
        return rc;
    }

    tell_event(from, row);
    sw_history_queue_taken(h, row, bytes + sizeof *row);
    return SW_OK;
}

int sw_history_take(struct sw_history *h, const struct sw_history_source *from, const char *lines,
                    size_t bytes, struct sw_err *err)
{
    const char *const end = lines + bytes;
    bool any = false;

    for (const char *line = lines; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline)
            return sw_err_set(err, SW_ERR_FORMAT, "it sent an incomplete row");

        int rc = take_line(h, from, line, (size_t)(newline - line), err);
        if (rc != SW_OK)
            return rc;
        line = newline + 1;
        any = true;
    }

    return any ? SW_OK : sw_err_set(err, SW_ERR_FORMAT, "it sent no rows");
}
