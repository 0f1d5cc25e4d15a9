/* singa-ws history show: prints everything recorded for one run, as text or JSON. */
#include "cli/history/verb.h"

#include "base/text.h"
#include "cli/history/run_text.h"
#include "history/reader_rows.h"
#include "ui/ending.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct page {
    struct sw_history_view view;
    struct sw_columns table; /* of the current part */
};

/* ---- Parts: a table for people, an array of objects for programs ----

   A form says how the values of a column are printed: t text, i integer, b bytes, c count, r real,
   s milliseconds as a time, p fraction as a percentage, d date, f whether the checkpoint in the
   second column is the best. A capital letter is printed only as JSON, a dot not at all. */
static const struct {
    const char *key, *titles;
    enum sw_rows_kind rows;
    const char *forms, *keys;
    int least; /* with fewer rows there is no table */
} parts[] = {
    {"metrics", "SPLIT|METRIC|>STEP|>LAST|>MIN|>MAX", SW_ROWS_METRIC, "ttIirrr.",
     "split|name|points|last_step|last|min|max|mean", 1},
    {"time", "PART|>TIME|>SHARE", SW_ROWS_TIME, "tsp", "part|total_ms|share", 1},
    {"plan", "PLAN|>PREDICTED|>MEASURED", SW_ROWS_PLAN, "tss", "part|predicted_ms|measured_ms", 1},
    {"checkpoints", ">CHECKPOINT|>SIZE|FILE", SW_ROWS_CHECKPOINT, "iTbTDf",
     "step|path|bytes|checksum|time|is_best", 1},
    {"segments", ">FROM STEP|STARTED|ENDED|COMMAND", SW_ROWS_SEGMENT, ".iddt",
     "segment|from_step|started_at|ended_at|command", 2},
    {"stages", "STAGE|>FROM STEP|>BATCH|>PARAMETERS", SW_ROWS_STAGE, "tiiIcR.",
     "name|from_step|batch|epoch_records|params|flops_per_sample|epochs_before", 2},
    {"hosts", "HOST|CPU|GPUS|FABRIC|LEFT|WHY", SW_ROWS_HOST, "ItTtttRRDdt",
     "host|name|address|cpu|gpus|fabric|clock_offset_ms|clock_error_ms|joined_at|left_at|why", 1},
    {"tags", "TAG|VALUE", SW_ROWS_TAG, "tt", "key|value", 1},
    {"events", "EVENT|LEVEL|FROM|TEXT", SW_ROWS_LAST_EVENT, ".dttt", "row|time|level|source|text",
     1},
};
enum { MOST_COLUMNS = 11, EVENTS = 20 };

/* A column of a row of history/reader_rows.h: their fields have eight bytes each. */
union field {
    int64_t integer;
    double real;
    const char *text;
};

static void put_json(struct sw_json_writer *w, char form, const char *key, const union field *f)
{
    if (form == 't')
        sw_json_string(w, key, f->text);
    else if (form == 'f')
        sw_json_bool(w, key, f->integer);
    else if (form == 'd')
        sw_json_time(w, key, f->real);
    else if (strchr("rsp", form))
        sw_json_real(w, key, f->real);
    else
        sw_json_int(w, key, f->integer);
}

static void put_cell(struct sw_columns *t, char form, const union field *row, const union field *f)
{
    char text[SW_RUN_TEXT];

    if (form == 't')
        sw_columns_plain(t, f->text);
    else if (form == 'i')
        sw_columns_cell(t, "%lld", (long long)f->integer);
    else if (form == 'b')
        sw_columns_cell(t, "%s", sw_human_bytes(text, (double)f->integer));
    else if (form == 'c')
        sw_columns_cell(t, "%s", sw_human_count(text, (double)f->integer));
    else if (form == 'r')
        sw_columns_real(t, f->real);
    else if (form == 's')
        sw_columns_cell(t, "%s", sw_human_seconds(text, f->real / 1e3));
    else if (form == 'p')
        sw_columns_cell(t, isnan(f->real) ? "--" : "%.1f %%", 100 * f->real);
    else if (form == 'd')
        sw_columns_cell(t, "%s", sw_run_time_text(f->real, text));
    else if (form == 'f')
        sw_columns_cell(t, "%s%s", row[1].text, f->integer ? " (best)" : "");
}

static void show_row(struct page *v, int part, const union field *row)
{
    const char *keys = parts[part].keys, *forms = parts[part].forms;
    char key[32];

    if (v->view.as_json)
        sw_json_open_object(&v->view.json, NULL);

    for (int i = 0; forms[i]; i++) {
        size_t n = strcspn(keys, "|");

        snprintf(key, sizeof key, "%.*s", (int)n, keys);
        keys += n + (keys[n] == '|');
        if (v->view.as_json && forms[i] != '.')
            put_json(&v->view.json, (char)tolower((unsigned char)forms[i]), key, &row[i]);
        else if (!v->view.as_json)
            put_cell(&v->table, forms[i], row, &row[i]);
    }

    if (v->view.as_json)
        sw_json_close_object(&v->view.json);
}

static int show_part(struct page *v, int part, int64_t id)
{
    struct sw_rows rows =
        sw_rows_begin(v->view.reader, parts[part].rows, id, 0, EVENTS, &v->view.err);
    union field row[MOST_COLUMNS];
    int count = 0;

    if (v->view.as_json)
        sw_json_open_array(&v->view.json, parts[part].key);
    else
        sw_columns_begin(&v->table, parts[part].titles);

    /* Phases that took no time are not in the table. */
    while (sw_rows_fill(&rows, row, strlen(parts[part].forms) * sizeof *row))
        if (v->view.as_json || parts[part].forms[1] != 's' || row[1].real > 0) {
            show_row(v, part, row);
            count++;
        }

    if (v->view.as_json) {
        sw_json_close_array(&v->view.json);
    } else if (count >= parts[part].least) {
        sw_bytes_add(&v->view.out, "\n");
        sw_columns_print(&v->table, &v->view.out);
    }

    sw_columns_fini(&v->table);
    return sw_rows_end(&rows);
}

/* ---- Facts ---- */

static void line(struct page *v, const char *key, const char *value)
{
    if (!value || !*value)
        return;

    sw_bytes_printf(&v->view.out, "%-13s", key);
    sw_text_add(&v->view.out, value);
    sw_bytes_add(&v->view.out, "\n");
}

static void show_text(struct page *v, const struct sw_run *r)
{
    char text[64], hint[SW_RESUME_HINT];

    sw_bytes_printf(&v->view.out, "%-13s%lld%s", "run", (long long)r->id, r->name ? " " : "");
    sw_text_add(&v->view.out, r->name ? r->name : "");
    sw_bytes_add(&v->view.out, "\n");
    line(v, "status", sw_run_status_name(r->status));
    line(v, "recipe", r->recipe);
    line(v, "overrides", r->overrides);
    line(v, "fallback", r->fallback);
    line(v, "command", r->command);
    line(v, "host", r->host);
    line(v, "started", sw_run_time_text(r->started_at, text));
    if (r->ended_at > 0)
        sw_bytes_printf(&v->view.out, "%-13s%s%s\n", "ended", sw_run_time_text(r->ended_at, text),
                        r->status == SW_RUN_CRASHED ? " (its last record)" : "");
    line(v, "resume", sw_resume_hint(hint, r->id, r->status, r->checkpoint_step));
    if (!isnan(sw_run_seconds(r)))
        line(v, "time", sw_run_duration(r, text));
    line(v, "framework", r->framework);
    sw_bytes_printf(&v->view.out, "%-13s%lld\n", "workers", (long long)r->workers);
    line(v, "device", r->device);
    sw_bytes_printf(&v->view.out, "%-13s%lld of %lld steps, batch %lld, seed %lld\n", "progress",
                    (long long)(r->last_step < 0 ? 0 : r->last_step), (long long)r->steps,
                    (long long)r->batch, (long long)r->seed);
    if (r->params > 0)
        line(v, "parameters", sw_human_count(text, (double)r->params));
    line(v, "folder", r->out_dir);
    line(v, "version", r->version);
    line(v, "note", r->note);
}

static void show_json(struct page *v, const struct sw_run *r)
{
    sw_json_run(&v->view.json, r);
    sw_json_string(&v->view.json, "overrides", r->overrides);
    sw_json_string(&v->view.json, "fallback", r->fallback);
    sw_json_string(&v->view.json, "command", r->command);
    sw_json_string(&v->view.json, "host", r->host);
    sw_json_int(&v->view.json, "pid", r->pid);
    sw_json_int(&v->view.json, "epoch_records", r->epoch_records);
    sw_json_real(&v->view.json, "flops_per_sample", r->flops_per_sample);
    sw_json_string(&v->view.json, "version", r->version);
    sw_json_string(&v->view.json, "note", r->note);
}

static int show_run(struct page *v, const struct sw_run *run)
{
    int code = SW_OK;

    if (v->view.as_json) {
        sw_json_open_object(&v->view.json, NULL);
        show_json(v, run);
    } else {
        show_text(v, run);
    }

    for (int i = 0; !code && i < (int)(sizeof parts / sizeof *parts); i++)
        code = show_part(v, i, run->id);
    if (v->view.as_json)
        sw_cli_json_end(&v->view.json);

    return code;
}

static int show(void *options)
{
    struct page page = {0};
    int code = sw_history_view_open(&page.view, options, SW_VIEW_RUN);

    if (!code)
        code = show_run(&page, page.view.runs);
    return sw_history_view_close(&page.view, code);
}

const struct sw_verb sw_history_verb_show = {
    .name = "show",
    .help = "show one run and everything recorded for it",
    .typed = "history show",
    .usage = "[OPTION]... [RUN]",
    .about =
        "Shows one run: facts, curves, time breakdown, checkpoints and events. RUN is an id, a\n"
        "unique prefix, a name (its newest run), or @last (the default).",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    .max_args = 1,
    .arg_name = "RUN",
    .run = show,
};
