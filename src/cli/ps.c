/* singa-ws ps: the runs of this machine that run or wait, with the cores and GPUs that they use. */
#include "base/os.h"
#include "base/text.h"
#include "cli/control/processes.h"
#include "cli/history/run_text.h"
#include "cli/history/runs.h"
#include <math.h>
#include <pwd.h>
#include <string.h>

static double percent(const struct sw_process_row *row)
{
    return row->steps > 0 && row->step >= 0 ? 100.0 * (double)row->step / (double)row->steps
                                            : (double)NAN;
}

/* ---- As a table ---- */

static const char *user_name(int64_t user, char *out, size_t bytes)
{
    const struct passwd *p = getpwuid((uid_t)user);

    if (p)
        sw_utf8_copy(out, bytes, p->pw_name);
    else
        snprintf(out, bytes, "%lld", (long long)user);
    return out;
}

static void add_gpus(struct sw_columns *t, const struct sw_reserved *r)
{
    struct sw_bytes text = {0};

    for (int i = 0; i < r->gpu_count; i++)
        sw_bytes_printf(&text, "%s%s", i ? "," : "",
                        sw_str_starts(r->gpus[i], "0000:") ? r->gpus[i] + 5 : r->gpus[i]);
    sw_columns_plain(t, sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

static void add_row(struct sw_columns *t, const struct sw_process_row *row)
{
    const struct sw_reserved *r = &row->reserved;
    char text[256];

    if (r->run_id > 0)
        sw_columns_cell(t, "%lld", (long long)r->run_id);
    else
        sw_columns_cell(t, "--");
    sw_columns_plain(t, r->name);
    sw_columns_cell(t, "%lld", (long long)r->pid);
    sw_columns_cell(t, "%s", user_name(r->user, text, sizeof text));
    sw_columns_cell(t, "%s", row->state);

    if (row->step < 0)
        sw_columns_cell(t, "--");
    else
        sw_columns_cell(t, "%lld", (long long)row->step);
    if (isnan(percent(row)))
        sw_columns_cell(t, "--");
    else
        sw_columns_cell(t, "%.0f", percent(row));

    sw_columns_plain(t, sw_core_set_text(&r->cores, text, sizeof text));
    add_gpus(t, r);
    sw_columns_cell(t, "%s", sw_run_time_text(r->since, text));
}

static void print_table(const struct sw_processes *p, struct sw_bytes *out)
{
    struct sw_columns t = {0};

    sw_columns_begin(&t, ">RUN|NAME|>PID|USER|STATE|>STEP|>%|CORES|GPUS|SINCE");
    for (int i = 0; i < p->count; i++)
        add_row(&t, &p->rows[i]);
    sw_columns_print(&t, out);
    sw_columns_fini(&t);

    for (int i = 0; i < p->count; i++) {
        const struct sw_reserved *r = &p->rows[i].reserved;
        if (r->state != SW_RESERVED_QUEUED)
            continue;

        sw_bytes_add(out, "\n");
        sw_text_add(out, r->name);
        sw_bytes_printf(out, " (pid %lld) waits for ", (long long)r->pid);
        sw_text_add(out, r->waits_for);
        sw_bytes_add(out, "\n");
    }
}

/* ---- As JSON ---- */

static void json_number(struct sw_json_writer *w, const char *key, int64_t value, bool known)
{
    if (known)
        sw_json_int(w, key, value);
    else
        sw_json_string(w, key, NULL);
}

static void json_row(struct sw_json_writer *w, const struct sw_process_row *row)
{
    const struct sw_reserved *r = &row->reserved;
    char user[64];

    sw_json_open_object(w, NULL);
    json_number(w, "run", r->run_id, r->run_id > 0);
    sw_json_string(w, "uid", *r->run_uid ? r->run_uid : NULL);
    sw_json_string(w, "name", r->name);
    sw_json_int(w, "pid", r->pid);
    sw_json_string(w, "user", user_name(r->user, user, sizeof user));
    sw_json_string(w, "state", row->state);
    json_number(w, "step", row->step, row->step >= 0);
    json_number(w, "steps", row->steps, row->steps >= 0);
    sw_json_real(w, "percent", percent(row));

    sw_json_open_array(w, "cores");
    for (int c = sw_core_set_next(&r->cores, -1); c >= 0; c = sw_core_set_next(&r->cores, c))
        sw_json_int(w, NULL, c);
    sw_json_close_array(w);
    sw_json_open_array(w, "gpus");
    for (int i = 0; i < r->gpu_count; i++)
        sw_json_string(w, NULL, r->gpus[i]);
    sw_json_close_array(w);

    sw_json_time(w, "since", r->since);
    sw_json_string(w, "waits_for", *r->waits_for ? r->waits_for : NULL);
    sw_json_string(w, "history", *r->history ? r->history : NULL);
    sw_json_close_object(w);
}

static void print_json(const struct sw_processes *p, struct sw_bytes *out)
{
    struct sw_json_writer w;

    sw_json_begin(&w, out);
    sw_json_open_array(&w, NULL);
    for (int i = 0; i < p->count; i++)
        json_row(&w, &p->rows[i]);
    sw_json_close_array(&w);
    sw_bytes_add(out, "\n");
}

static int ps(void *options)
{
    const struct sw_cli_common *common = options;
    struct sw_history_reader *reader = NULL;
    struct sw_processes p = {0};
    struct sw_bytes out = {0};
    struct sw_err err;
    char *db = NULL;

    int rc = sw_runs_open(common->db, NULL, &reader, &db, &err);
    if (rc == SW_OK || rc == SW_ERR_NOTFOUND) /* without a history there may be runs of others */
        rc = sw_processes_read(&p, reader, db, &err);

    if (rc == SW_OK && common->json)
        print_json(&p, &out);
    else if (rc == SW_OK)
        print_table(&p, &out);
    int code = rc == SW_OK ? sw_cli_print(&out) : sw_cli_fail(rc, &err);

    sw_bytes_fini(&out);
    sw_processes_fini(&p);
    sw_history_reader_close(reader);
    sw_free(db);

    return code;
}

const struct sw_verb sw_verb_ps = {
    .name = "ps",
    .help = "list the runs of this machine with their cores and GPUs",
    .usage = "[OPTION]...",
    .about =
        "Lists the runs of this machine that are running or wait in the queue (run --when-free),\n"
        "also those of other users: RUN is the number in your history, CORES are hwloc's logical\n"
        "numbers (lstopo), GPUS PCI addresses.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    .run = ps,
};
