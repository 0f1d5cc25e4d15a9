/* singa-ws weights: lists the contents of a checkpoint, verifies it, compares two, and exports its
 * parameters. */
#include "cli/checkpoint/weights.h"
#include "base/json.h"
#include "base/os.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/checkpoint/checkpoints.h"
#include "cli/checkpoint/values.h"
#include "cli/checkpoint/weights_verb.h"
#include "cli/history/runs.h"
#include "cli/plot/picture.h"
#include "cli/terminal/columns.h"
#include <math.h>
#include <string.h>

static const struct sw_cli_option options_of_weights[] = {
    SW_CLI_TEXT_OPTION(struct sw_weights_options, output, "output", "PATH",
                       "export: file X.safetensors, or a folder for NAME.npy files"),
    SW_CLI_FLAG_OPTION(struct sw_weights_options, all, "all", "export: include the updater state"),
    SW_CLI_TEXT_OPTION(
        struct sw_weights_options, tolerance, "tolerance", "R",
        "diff: ignore differences up to R times the tensor's largest element; default: 0"),
    SW_CLI_TEXT_OPTION(struct sw_weights_options, plot, "plot", "FILE",
                       "draw the filters of the first layer to FILE.png or FILE.svg"),
    SW_CLI_TEXT_OPTION(struct sw_weights_options, tensor, "tensor", "NAME",
                       "--plot: draw this tensor, for example conv2.weight"),
    {0},
};

/* ---- list -------------------------------------------------------------------------------------
 */

static const char *const shown_metadata[] = {"name", "step", "recipe_path", "best_step"};

static int list_row(struct sw_columns *t, const struct sw_st_entry *e,
                    const struct sw_value_stats *s)
{
    struct sw_bytes shape = {0};
    char bytes[32];

    sw_entry_shape(e, &shape);
    sw_columns_cell(t, "%s", e->name);
    sw_columns_cell(t, "%s", sw_st_dtype_name(e->dtype));
    sw_columns_cell(t, "%s", sw_bytes_text(&shape));
    sw_columns_cell(t, "%s", sw_human_bytes(bytes, (double)e->bytes));

    const double numbers[] = {s->min, s->max, s->mean, s->norm};
    for (int i = 0; i < 4; i++)
        sw_columns_cell(t, isnan(numbers[i]) ? "--" : "%.4g", numbers[i]);

    if (s->not_finite)
        sw_columns_cell(t, "%llu not finite", (unsigned long long)s->not_finite);
    else
        sw_columns_cell(t, "%s", "");

    bool lost = shape.failed;
    sw_bytes_fini(&shape);
    return lost ? SW_ERR_NOMEM : SW_OK;
}

static void list_json(struct sw_json_writer *w, const struct sw_st_entry *e,
                      const struct sw_value_stats *s)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", e->name);
    sw_json_string(w, "dtype", sw_st_dtype_name(e->dtype));
    sw_json_open_array(w, "shape");
    for (int i = 0; i < e->ndim; i++)
        sw_json_int(w, NULL, e->shape[i]);
    sw_json_close_array(w);
    sw_json_int(w, "bytes", (int64_t)e->bytes);
    sw_json_real(w, "min", s->min);
    sw_json_real(w, "max", s->max);
    sw_json_real(w, "mean", s->mean);
    sw_json_real(w, "norm", s->norm);
    sw_json_int(w, "not_finite", (int64_t)s->not_finite);
    sw_json_close_object(w);
}

static void head_line(struct sw_bytes *out, const char *key, const char *value)
{
    sw_bytes_printf(out, "%-13s", key);
    sw_text_add(out, value);
    sw_bytes_add(out, "\n");
}

static void head_text(struct sw_bytes *out, const struct sw_weights_file *file)
{
    const char *checksum = sw_st_checksum_hex(file->f);

    head_line(out, "file", file->path);
    head_line(out, "checksum", checksum ? checksum : "none");

    for (size_t i = 0; i < sizeof shown_metadata / sizeof *shown_metadata; i++)
        if (sw_st_metadata(file->f, shown_metadata[i]))
            head_line(out, shown_metadata[i], sw_st_metadata(file->f, shown_metadata[i]));

    sw_bytes_add(out, "\n");
}

static void head_json(struct sw_json_writer *w, const struct sw_weights_file *file)
{
    const char *key, *value;

    sw_json_string(w, "file", file->path);
    sw_json_string(w, "checksum", sw_st_checksum_hex(file->f));
    sw_json_open_object(w, "metadata");
    for (size_t i = 0; sw_st_metadata_at(file->f, i, &key, &value); i++)
        sw_json_string(w, key, value);
    sw_json_close_object(w);
    sw_json_open_array(w, "tensors");
}

static int list(const struct sw_weights_options *o, const struct sw_weights_file *file,
                struct sw_bytes *out)
{
    struct sw_columns t = {0};
    struct sw_json_writer w;
    struct sw_err err;
    int rc = SW_OK;

    sw_json_begin(&w, out);
    sw_columns_begin(&t, "tensor|type|shape|>bytes|>min|>max|>mean|>norm|");

    if (o->common.json) {
        sw_json_open_object(&w, NULL);
        head_json(&w, file);
    } else if (!o->common.quiet) {
        head_text(out, file);
    }

    for (size_t i = 0; i < sw_st_count(file->f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(file->f, i);
        struct sw_value_stats s;

        rc = sw_value_stats(file->f, e, &s, &err);
        if (rc != SW_OK)
            goto out;

        if (o->common.json)
            list_json(&w, e, &s);
        else
            out->failed |= list_row(&t, e, &s) != SW_OK;
    }

    if (o->common.json) {
        sw_json_close_array(&w);
        sw_cli_json_end(&w);
    } else {
        sw_columns_print(&t, out);
    }

out:
    sw_columns_fini(&t);
    return rc == SW_OK ? sw_cli_print(out) : sw_cli_fail(rc, &err);
}

/* ---- verify -----------------------------------------------------------------------------------
 */

struct verification {
    const struct sw_weights_options *o;
    struct sw_bytes *out;
    struct sw_json_writer w;
    int code; /* the first nonzero exit code */
};

static void verify_one(struct verification *v, const char *path, const char *stored)
{
    struct sw_checkpoint_file c = {.path = (char *)path, .checksum = (char *)stored};
    struct sw_err err = {0};
    struct sw_st_file *f = NULL;
    int rc = sw_checkpoint_check_file(&c, &err);

    if (rc == SW_OK)
        rc = sw_st_open(path, true, &f, &err);
    if (rc != SW_OK && v->code == SW_EXIT_DONE)
        v->code = sw_cli_exit_code(rc);

    if (v->o->common.json) {
        sw_json_open_object(&v->w, NULL);
        sw_json_string(&v->w, "file", path);
        sw_json_bool(&v->w, "whole", rc == SW_OK);
        sw_json_string(&v->w, "checksum", f ? sw_st_checksum_hex(f) : NULL);
        sw_json_string(&v->w, "problem", rc == SW_OK ? NULL : err.text);
        sw_json_close_object(&v->w);
    } else if (rc != SW_OK) {
        sw_cli_message("%s", err.text);
    } else if (!v->o->common.quiet) {
        sw_bytes_printf(v->out, "%s: intact, checksum %s\n", path, sw_st_checksum_hex(f));
    }

    sw_st_close(f);
}

static bool is_file(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0;
}

/* Verifies all checkpoints of a run. */
static int verify_run(struct verification *v, const char *name, struct sw_err *err)
{
    struct sw_history_reader *reader = NULL;
    struct sw_checkpoints list = {0};
    struct sw_run run = {0};
    char *db = NULL;

    int rc = sw_runs_open(v->o->common.db, NULL, &reader, &db, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_history_find(reader, name, &run, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_checkpoints_find(reader, &run, &list, err);
    if (rc != SW_OK)
        goto out;

    for (int i = 0; i < list.count; i++) {
        rc = sw_stop_check(err);
        if (rc != SW_OK)
            goto out;
        verify_one(v, list.items[i].path, list.items[i].checksum);
    }

out:
    sw_checkpoints_fini(&list);
    sw_run_fini(&run);
    sw_history_reader_close(reader);
    sw_free(db);

    return rc;
}

static int verify(const struct sw_weights_options *o, struct sw_bytes *out)
{
    struct verification v = {.o = o, .out = out};
    struct sw_err err;
    const char *what = o->common.args[0];
    int rc = SW_OK;

    sw_json_begin(&v.w, out);

    if (o->common.json) {
        sw_json_open_object(&v.w, NULL);
        sw_json_open_array(&v.w, "files");
    }

    if (is_file(what) || strchr(what, '/') || sw_str_ends(what, ".safetensors"))
        verify_one(&v, what, NULL);
    else
        rc = verify_run(&v, what, &err);

    if (o->common.json) {
        sw_json_close_array(&v.w);
        sw_json_bool(&v.w, "whole", v.code == SW_EXIT_DONE);
        sw_cli_json_end(&v.w);
    }

    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    int code = sw_cli_print(out);
    return code != SW_EXIT_DONE ? code : v.code;
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

static int open_file(const struct sw_weights_options *o, const char *what, struct sw_weights *w,
                     struct sw_weights_file *file, struct sw_err *err)
{
    struct sw_weights_args args = {.what = what, .db = o->common.db};

    int rc = sw_weights_find(&args, w, err);
    if (rc != SW_OK)
        return rc;

    file->path = w->path;
    return sw_st_open(w->path, false, &file->f, err);
}

static int run_action(const struct sw_weights_options *o, const char *action, struct sw_bytes *out)
{
    struct sw_weights first = {0}, second = {0};
    struct sw_weights_file a = {0}, b = {0};
    struct sw_err err;
    int code;
    bool two = sw_str_eq(action, "diff");

    int rc = open_file(o, o->common.args[0], &first, &a, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto out;
    }

    if (two)
        rc = open_file(o, o->common.args[2], &second, &b, &err);

    if (rc != SW_OK)
        code = sw_cli_fail(rc, &err);
    else if (two)
        code = sw_weights_diff(o, &a, &b, out);
    else if (o->plot)
        code = sw_weights_plot(o, &a, out);
    else if (sw_str_eq(action, "export"))
        code = sw_weights_export(o, &a, out);
    else
        code = list(o, &a, out);

out:
    sw_st_close(a.f);
    sw_st_close(b.f);
    sw_weights_fini(&first);
    sw_weights_fini(&second);

    return code;
}

static const char *const actions[] = {"list", "verify", "diff", "export"};
enum { ACTIONS = sizeof actions / sizeof *actions };

static bool is_action(const char *word)
{
    for (int i = 0; i < ACTIONS; i++)
        if (sw_str_eq(word, actions[i]))
            return true;
    return false;
}

/* Checks the arguments before any file is opened. */
static int check_arguments(struct sw_weights_options *o, const char *action)
{
    int words = o->common.arg_count;
    const char *first = o->common.args[0];

    if (!is_action(action)) {
        const char *near = sw_str_nearest(action, actions, ACTIONS);

        if (is_action(first))
            return sw_cli_usage("weights", "the file or run comes first: singa-ws weights %s %s",
                                action, first);
        return near ? sw_cli_usage("weights", "unknown action '%s'; did you mean '%s'?", action,
                                   near)
                    : sw_cli_usage("weights",
                                   "unknown action '%s'; must be list, verify, diff or export",
                                   action);
    }

    if (sw_str_eq(action, "diff") && words < 3)
        return sw_cli_usage("weights", "OTHER is missing");
    if (!sw_str_eq(action, "diff") && words > 2)
        return sw_cli_usage("weights", "unexpected argument '%s'", o->common.args[2]);
    if (sw_str_eq(action, "export") != (o->output != NULL))
        return sw_cli_usage("weights", o->output ? "--output is only for export"
                                                 : "export needs --output PATH");
    if (o->plot && words > 1)
        return sw_cli_usage("weights", "--plot cannot be combined with %s", action);
    if (o->tensor && !o->plot)
        return sw_cli_usage("weights", "--tensor is only for --plot");
    if (o->plot && !sw_picture_is_named("weights", o->plot))
        return SW_EXIT_USAGE;
    if (o->all && !o->output)
        return sw_cli_usage("weights", "--all is only for export");
    if (o->tolerance && !sw_str_eq(action, "diff"))
        return sw_cli_usage("weights", "--tolerance is only for diff");
    if (o->tolerance && (!sw_parse_real(o->tolerance, &o->relative) || !(o->relative >= 0)))
        return sw_cli_usage("weights", "--tolerance=%s: R must be a number, 0 or more",
                            o->tolerance);

    return SW_EXIT_DONE;
}

static int weights(void *options)
{
    struct sw_weights_options *o = options;
    struct sw_bytes out = {0};
    const char *action = o->common.arg_count > 1 ? o->common.args[1] : "list";

    int code = check_arguments(o, action);
    if (code != SW_EXIT_DONE)
        return code;

    code = sw_str_eq(action, "verify") ? verify(o, &out) : run_action(o, action, &out);
    sw_bytes_fini(&out);
    return code;
}

const struct sw_verb sw_verb_weights = {
    .name = "weights",
    .help = "list, verify, compare and export checkpoints",
    .usage = "[OPTION]... FILE|RUN [list]\n"
             "[OPTION]... FILE|RUN verify\n"
             "[OPTION]... FILE|RUN diff OTHER\n"
             "[OPTION]... FILE|RUN export --output PATH\n"
             "[OPTION]... FILE|RUN --plot FILE",
    .about =
        "Opens a safetensors file, or a run's newest checkpoint (RUN), its best (RUN:best) or\n"
        "that of a step (RUN:STEP): lists its tensors, verifies its checksum (of a RUN: those of\n"
        "all its checkpoints), compares it with another file, exports parameters and running\n"
        "statistics, or draws filters.",
    .more =
        "diff prints the tensors that differ (-v: all tensors) and exits with 1 if any differ,\n"
        "else with 0. verify exits with 3 if a file is damaged or has no checksum.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET | SW_CLI_VERBOSE,
    SW_CLI_OPTIONS(struct sw_weights_options, options_of_weights),
    .min_args = 1,
    .max_args = 3,
    .arg_name = "FILE|RUN",
    .run = weights,
    .stops = true,
};
