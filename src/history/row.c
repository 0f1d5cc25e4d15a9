/* The kinds of rows as a table of names, columns and types, and the conversion of a row to a line
 * of JSON and back. Pure functions; any thread may call. */
#include "history/row.h"
#include "base/json.h"
#include "base/os.h"
#include <math.h>
#include <string.h>

/* The column names are those of the tables and the keys of metrics.jsonl. The id of a run is its
 * number in an earlier database; the run gets the same id again if it is free. */
const struct sw_row_spec sw_row_specs[SW_ROW_KINDS] = {
    [SW_ROW_RUN] =
        {"run",
         "ittttttirtitiiittrtittttii",
         {"id",    "name",         "recipe",     "recipe_hash", "overrides",   "command",
          "host",  "pid",          "started_at", "framework",   "workers",     "device",
          "seed",  "batch",        "params",     "version",     "note",        "flops_per_sample",
          "uid",   "pid_start",    "boot_id",    "out_dir",     "recipe_text", "fallback",
          "steps", "epoch_records"}},
    [SW_ROW_SEGMENT] = {"segment",
                        "iriittttitit",
                        {"from_step", "started_at", "pid", "pid_start", "boot_id", "host",
                         "command", "framework", "workers", "device", "steps", "version"}},
    [SW_ROW_STAGE] = {"stage",
                      "itiiir",
                      {"from_step", "name", "batch", "epoch_records", "params",
                       "flops_per_sample"}},
    [SW_ROW_POINT] = {"point", "ttirr", {"split", "name", "step", "time", "value"}},
    [SW_ROW_STEP_TIME] = {"step_time",
                          "iirrrrrrrrrri",
                          {"step", "worker", "read_ms", "decode_ms", "h2d_ms", "forward_ms",
                           "backward_ms", "update_ms", "comm_exposed_ms", "comm_hidden_ms",
                           "wait_ms", "idle_ms", "staleness"}},
    [SW_ROW_LAYER_TIME] = {"layer_time",
                           "tirri",
                           {"layer", "worker", "forward_ms", "backward_ms", "samples"}},
    [SW_ROW_TRAFFIC] = {"link_traffic",
                        "itttir",
                        {"step", "from_unit", "to_unit", "kind", "bytes", "ms"}},
    [SW_ROW_PLACEMENT] = {"placement", "ttitt", {"unit", "device", "numa", "cores", "reason"}},
    [SW_ROW_PLACEMENT_REMOVED] = {"placement_removed", "t", {"host"}},
    [SW_ROW_CHECKPOINT] = {"checkpoint",
                           "ititri",
                           {"step", "path", "bytes", "checksum", "time", "is_best"}},
    [SW_ROW_CHECKPOINT_REMOVED] = {"checkpoint_removed", "i", {"step"}},
    [SW_ROW_CHECKPOINT_BEST] = {"checkpoint_best", "i", {"step"}},
    [SW_ROW_HARDWARE] = {"hardware",
                         "rtrirrr",
                         {"time", "device", "util", "mem_used", "power_w", "temp_c", "clock_mhz"}},
    [SW_ROW_EVENT] = {"event", "rttt", {"time", "level", "source", "text"}},
    [SW_ROW_TAG] = {"tag", "tt", {"key", "value"}},
    [SW_ROW_PLAN] = {"plan", "trt", {"json", "predicted_ms", "overrides"}},
    [SW_ROW_PLAN_MEASURED] = {"plan_measured", "r", {"measured_ms"}},
    [SW_ROW_CHANGED] = {"changed",
                        "irtit",
                        {"from_step", "time", "framework", "workers", "device"}},
    [SW_ROW_HOST] = {"host",
                     "itttttrrrrt",
                     {"host", "name", "address", "cpu", "gpus", "fabric", "clock_offset_ms",
                      "clock_error_ms", "joined_at", "left_at", "why"}},
    [SW_ROW_FINISH] = {"finish", "tr", {"status", "ended_at"}},
};

struct sw_row *sw_row_copy(const struct sw_row *row)
{
    struct sw_row *copy = sw_calloc(1, sizeof *copy);
    if (!copy)
        return NULL;

    *copy = *row;

    copy->next = NULL;
    for (int i = 0; i < SW_ROW_CELLS; i++)
        if (row->cells[i].type == SW_CELL_TEXT)
            copy->cells[i].t = NULL;

    for (int i = 0; i < SW_ROW_CELLS; i++) {
        if (row->cells[i].type != SW_CELL_TEXT)
            continue;

        copy->cells[i].t = sw_strdup(row->cells[i].t);
        if (!copy->cells[i].t) {
            sw_row_free(copy);
            return NULL;
        }
    }

    return copy;
}

void sw_row_free(struct sw_row *row)
{
    if (!row)
        return;

    for (int i = 0; i < SW_ROW_CELLS; i++)
        if (row->cells[i].type == SW_CELL_TEXT)
            sw_free((void *)row->cells[i].t);

    sw_free(row);
}

/* JSON has no infinity, so it is written as a string. NaN is written as null and is NULL in the
 * database. */
static void print_real(struct sw_json_writer *w, const char *key, double value)
{
    if (isinf(value))
        sw_json_string(w, key, value > 0 ? "inf" : "-inf");
    else
        sw_json_real(w, key, value);
}

void sw_row_print(const struct sw_row *row, const char *uid, struct sw_bytes *out)
{
    const struct sw_row_spec *spec = &sw_row_specs[row->kind];
    struct sw_json_writer w;

    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "run", uid);
    sw_json_string(&w, "row", spec->name);

    for (int i = 0; spec->types[i]; i++) {
        const struct sw_cell *c = &row->cells[i];
        const char *key = spec->columns[i];

        if (c->type == SW_CELL_INT)
            sw_json_int(&w, key, c->i);
        else if (c->type == SW_CELL_REAL)
            print_real(&w, key, c->r);
        else if (c->type == SW_CELL_TEXT)
            sw_json_string(&w, key, c->t);
    }

    sw_json_close_object(&w);
    sw_bytes_add(out, "\n");
}

static bool parse_cell(const struct sw_json *v, char type, struct sw_cell *cell)
{
    *cell = SW_NULL;
    if (!v || v->type == SW_JSON_NULL)
        return true;

    if (type == 't') {
        char *copy = v->type == SW_JSON_STRING ? sw_strdup(v->string) : NULL;
        if (copy)
            *cell = (struct sw_cell){SW_CELL_TEXT, {.t = copy}};
        return copy != NULL;
    }

    if (type == 'i') {
        int64_t i;
        if (v->type != SW_JSON_NUMBER || !sw_parse_int(v->string, &i))
            return false;

        *cell = SW_INT(i);
        return true;
    }

    if (v->type == SW_JSON_STRING &&
        (sw_str_eq(v->string, "inf") || sw_str_eq(v->string, "-inf"))) {
        *cell = SW_REAL(v->string[0] == '-' ? -INFINITY : INFINITY);
        return true;
    }

    if (v->type != SW_JSON_NUMBER)
        return false;

    *cell = SW_REAL(v->number);
    return true;
}

static const struct sw_row_spec *find_spec(const struct sw_json *name)
{
    if (name && name->type == SW_JSON_STRING)
        for (int k = 0; k < SW_ROW_KINDS; k++)
            if (sw_str_eq(sw_row_specs[k].name, name->string))
                return &sw_row_specs[k];

    return NULL;
}

int sw_row_parse(const char *line, size_t bytes, struct sw_row **row, char uid[SW_UID_TEXT],
                 struct sw_err *err)
{
    struct sw_json *root = NULL;
    struct sw_row *r = NULL;
    int code = sw_json_parse(line, bytes, &root, err);
    if (code)
        return code;

    const struct sw_row_spec *spec = find_spec(sw_json_get(root, "row"));
    const struct sw_json *run = sw_json_get(root, "run");
    if (!spec || !run || run->type != SW_JSON_STRING || strlen(run->string) != SW_UID_TEXT - 1) {
        code = sw_err_set(err, SW_ERR_FORMAT, "not a row of the history");
        goto out;
    }
    r = sw_calloc(1, sizeof *r);
    if (!r) {
        code = sw_err_nomem(err, "row of a spool", sizeof *r);
        goto out;
    }

    r->kind = (enum sw_row_kind)(spec - sw_row_specs);

    r->series = -1;
    for (int i = 0; !code && spec->types[i]; i++)
        if (!parse_cell(sw_json_get(root, spec->columns[i]), spec->types[i], &r->cells[i]))
            code = sw_err_set(err, SW_ERR_FORMAT, "invalid value of %s in a row of %s",
                              spec->columns[i], spec->name);

out:
    if (code) {
        sw_row_free(r);
    } else {
        memcpy(uid, run->string, SW_UID_TEXT);
        *row = r;
    }

    sw_json_free(root);
    return code;
}
