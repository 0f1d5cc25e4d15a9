/* singa-ws predict: prints what a trained net says about files, or computes the output of a layer
 * for a split or for arrays, and writes it as an array. */
#include "infer/predict.h"
#include "base/json.h"
#include "base/os.h"
#include "cli/checkpoint/weights.h"
#include "cli/history/runs.h"
#include "cli/options/field_inputs.h"
#include "cli/plot/picture.h"
#include "cli/plot/predict_plot.h"
#include "cli/report/predictions.h"
#include "cli/training/trainer.h"
#include "infer/sample.h"
#include "tensor/npy.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    const char *weights, *split, *layer, *output, *plot;
    struct sw_cli_list inputs;
    int64_t top;
};

static const struct sw_cli_option options_of_predict[] = {
    SW_CLI_WEIGHTS_OPTION(struct options),
    SW_CLI_SPLIT_OPTION(struct options),
    SW_CLI_FIELD_INPUTS_OPTION(struct options, inputs),
    SW_CLI_TEXT_OPTION(struct options, layer, "layer", "LAYER",
                       "layer whose output is written; default: the input of the last loss"),
    SW_CLI_INT_OPTION(struct options, top, "top", "N", 1,
                      "number of classes that are printed for an input; default: 5"),
    SW_CLI_TEXT_OPTION(struct options, output, "output", "Y.npy",
                       "output file: float32, one row for each sample, in the order of the data"),
    SW_CLI_TEXT_OPTION(
        struct options, plot, "plot", "FILE",
        "draw to FILE.png or FILE.svg: class scores as a confusion matrix, codes of two elements "
        "as a scatter plot, rows of an image's size as images"),
    {0},
};

/* ---- Input and output -------------------------------------------------------------------------
 */

/* The destination of the rows: an array file, a plot, predictions to print, or several. */
struct output {
    struct sw_predictions *predictions; /* NULL: none are printed */
    const char *path;                   /* NULL: no array */
    struct sw_npy_writer writer;
    struct sw_predict_plot plot; /* path NULL: no plot */
};

static int begin(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    struct output *out = user;

    int rc = out->plot.path ? sw_predict_plot_begin(&out->plot, info, err) : SW_OK;
    if (rc == SW_OK && out->predictions)
        rc = sw_predictions_begin(out->predictions, info, err);
    if (rc != SW_OK || !out->path)
        return rc;

    return sw_npy_writer_begin(&out->writer, out->path, SW_F32, info->ndim, info->dim, err);
}

static int append(void *user, int64_t count, const float *values, struct sw_err *err)
{
    struct output *out = user;
    if (out->plot.path)
        sw_predict_plot_rows(&out->plot, count, values);
    if (out->predictions)
        sw_predictions_rows(out->predictions, count, values);
    return out->path ? sw_npy_append(&out->writer, count, values, err) : SW_OK;
}

static int begin_labels(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    return sw_predict_plot_labels(user, info, err);
}

static int append_labels(void *user, int64_t count, const float *values, struct sw_err *err)
{
    sw_predict_plot_add_labels(user, count, values);
    return SW_OK;
}

static struct sw_job_options job_options(const struct options *o)
{
    struct sw_job_options job = sw_trainer_job_of(&o->common);
    job.one_worker = true;
    job.predict = true;
    return job;
}

/* Reads the labels of the rows, for a plot: the output of the label input layer, computed by a
 * second job, since a job predicts only once. Arrays have no labels. */
static int read_labels(const struct options *o, const struct sw_predict_args *args,
                       struct sw_predict_plot *plot, struct sw_err *err)
{
    struct sw_predict_sink sink = {begin_labels, append_labels, plot};
    struct sw_job_options options = job_options(o);

    options.weights = args->weights;

    struct sw_bytes messages = {0};
    struct sw_predict_info info;
    struct sw_predict_args labels = *args;
    struct sw_job *job = NULL;
    if (args->input_count || args->file_count)
        return SW_OK;

    int rc = sw_job_open(&options, NULL, &job, &messages, err);
    if (rc != SW_OK)
        goto out;

    labels.layer = sw_predict_label_layer(sw_job_recipe(job));
    if (labels.layer)
        rc = sw_job_predict(job, &labels, &sink, &info, err);

out:
    sw_job_close(job);
    sw_bytes_fini(&messages);

    return rc;
}

/* ---- The report -----------------------------------------------------------------------------
 */

static void print_json(struct sw_bytes *out, const struct options *o,
                       const struct sw_predict_info *info, const struct sw_weights *w)
{
    struct sw_json_writer j;

    sw_cli_json_begin(&j, out);
    sw_json_string(&j, "layer", info->layer);
    sw_json_string(&j, "type", info->type);
    sw_json_int(&j, "rows", info->rows);
    sw_json_open_array(&j, "shape");
    sw_json_int(&j, NULL, info->rows);
    for (int i = 0; i < info->ndim; i++)
        sw_json_int(&j, NULL, info->dim[i]);
    sw_json_close_array(&j);
    sw_json_string(&j, "split", info->split);
    sw_json_string(&j, "output", o->output);
    sw_json_string(&j, "plot", o->plot);
    sw_json_int(&j, "step", info->step);
    sw_weights_describe_json(w, &j);
    sw_cli_json_end(&j);
}

static void print_text(struct sw_bytes *out, const struct options *o,
                       const struct sw_predict_info *info, const struct sw_weights *w)
{
    sw_bytes_add(out, "weights    ");
    sw_weights_describe(w, out);
    sw_bytes_printf(out, "\nlayer      %s (%s)%s\n", info->layer, info->type,
                    o->layer ? "" : ", the input of the loss");
    if (info->split)
        sw_bytes_printf(out, "split      %s\n", info->split);

    if (*info->fallback) {
        sw_bytes_add(out, "fallback   ");
        sw_print_lines(out, info->fallback, "           ");
    }

    if (o->plot)
        sw_bytes_printf(out, "plot       %s\n", o->plot);
    sw_bytes_printf(out, "output     %s: %lld", o->output ? o->output : "not written",
                    (long long)info->rows);
    for (int i = 0; i < info->ndim; i++)
        sw_bytes_printf(out, "x%lld", (long long)info->dim[i]);
    sw_bytes_add(out, "\n");
}

/* ---- The rows ---------------------------------------------------------------------------------
 */

/* Computes the rows and writes the array and the plot that the options name. */
static int write_outputs(const struct options *o, struct sw_job *job,
                         const struct sw_predict_args *args, struct sw_predictions *predictions,
                         struct sw_predict_info *info, struct sw_err *err)
{
    struct output file = {.predictions = predictions,
                          .path = o->output,
                          .writer = {.file.fd = -1},
                          .plot = {.path = o->plot, .codes = o->layer != NULL}};
    struct sw_predict_sink sink = {begin, append, &file};

    int rc = o->plot ? read_labels(o, args, &file.plot, err) : SW_OK;
    if (rc != SW_OK)
        goto abandon;
    rc = sw_job_predict(job, args, &sink, info, err);
    if (rc != SW_OK)
        goto abandon;

    if (o->plot)
        rc = sw_predict_plot_draw(&file.plot, info, err);
    if (rc != SW_OK || !o->output)
        goto abandon;

    rc = sw_npy_writer_commit(&file.writer, err);
    goto out;

abandon:
    sw_npy_writer_abandon(&file.writer);

out:
    sw_predict_plot_fini(&file.plot);
    return rc;
}

static int predict_with(const struct options *o, struct sw_job *job, const struct sw_weights *w,
                        const struct sw_predict_input *inputs, struct sw_bytes *out)
{
    struct sw_predict_info info;
    struct sw_err err;
    struct sw_predict_args args = {.weights = w->path,
                                   .layer = o->layer,
                                   .split = o->split,
                                   .inputs = inputs,
                                   .input_count = o->inputs.count};
    int rc = sw_job_check_split(sw_job_recipe(job), o->split, &err);

    if (rc == SW_OK)
        rc = write_outputs(o, job, &args, NULL, &info, &err);
    if (rc != SW_OK)
        return sw_cli_refuse(sw_job_recipe(job), rc, &err);

    if (o->common.json)
        print_json(out, o, &info, w);
    else if (!o->common.quiet)
        print_text(out, o, &info, w);

    return sw_cli_print(out);
}

/* ---- Files and texts ---------------------------------------------------------------------------
 */

static bool is_there(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0;
}

/* Reports inputs that are missing. *out gets the others, *count their number. */
static int find_files(const struct options *o, const char ***out, int *count, struct sw_err *err)
{
    const char **found = sw_calloc((size_t)o->common.arg_count, sizeof *found);
    if (!found)
        return sw_err_nomem(err, "the list of inputs", (size_t)o->common.arg_count);

    *out = found;
    for (int i = 1; i < o->common.arg_count; i++)
        if (is_there(o->common.args[i]))
            found[(*count)++] = o->common.args[i];
        else
            sw_cli_message("%s: no such file", o->common.args[i]);

    return SW_OK;
}

static void report_unreadable(void *user, const char *text)
{
    sw_cli_message("%s", text);
}

/* Adds the lines of a text file, or the argument itself. *text is owned by the caller. */
static int add_texts(const char *argument, char **text, struct sw_cli_list *lines,
                     struct sw_err *err)
{
    enum { MOST = 64 << 20 };

    size_t bytes;
    char *at = NULL;
    int rc = SW_OK;

    if (is_there(argument))
        rc = sw_os_read_file(argument, MOST, text, &bytes, err);
    if (rc != SW_OK)
        return rc;

    for (at = *text ? *text : (char *)(uintptr_t)argument; at && *at;) {
        const char **line = sw_array_add(&lines->items, &lines->count, sizeof *line);
        char *end = *text ? strchr(at, '\n') : NULL;
        if (!line)
            return sw_err_nomem(err, "the list of inputs", sizeof *line);

        *line = at;
        at = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        if (**line == '\0')
            lines->count--; /* an empty line */
    }

    return SW_OK;
}

static int predict_texts(const struct options *o, struct sw_job *job, const struct sw_weights *w,
                         struct sw_predictions *p, struct sw_err *err)
{
    const int arguments = o->common.arg_count;
    struct sw_cli_list lines = {0};
    char **text = sw_calloc((size_t)arguments, sizeof *text);
    int rc = text ? SW_OK : sw_err_nomem(err, "the list of inputs", (size_t)arguments);

    for (int i = 1; i < arguments && rc == SW_OK; i++)
        rc = add_texts(o->common.args[i], &text[i], &lines, err);
    if (rc == SW_OK)
        rc = sw_job_predict_next(job, w->path, lines.items, lines.count, sw_predictions_next, p,
                                 err);

    for (int i = 0; text && i < arguments; i++)
        sw_free(text[i]);
    sw_free(text);
    sw_free(lines.items);
    return rc;
}

/* *count gets the number of inputs that were predicted. */
static int predict_existing(const struct options *o, struct sw_job *job, const struct sw_weights *w,
                            struct sw_predictions *p, int *count, struct sw_err *err)
{
    struct sw_predict_info info;
    struct sw_predict_args args = {
        .weights = w->path, .layer = o->layer, .report = report_unreadable};
    const char **files = NULL;

    int rc = find_files(o, &files, count, err);
    if (rc == SW_OK && *count > 0) {
        args.files = files;
        args.file_count = *count;
        rc = write_outputs(o, job, &args, p, &info, err);
    }

    sw_free(files);
    return rc;
}

static int predict_inputs(const struct options *o, struct sw_job *job, const struct sw_weights *w,
                          struct sw_bytes *out)
{
    struct sw_predictions p = {.json = o->common.json, .top = o->top ? o->top : 5};
    const bool text = sw_job_reads_text(job, o->layer);
    int found = 0, code = SW_EXIT_DONE;
    struct sw_err err;

    int rc =
        text ? predict_texts(o, job, w, &p, &err) : predict_existing(o, job, w, &p, &found, &err);
    if (rc != SW_OK) {
        code = sw_cli_refuse(sw_job_recipe(job), rc, &err);
        goto out;
    }

    sw_predictions_print(&p, out);
    code = sw_cli_print(out);
    if (code == SW_EXIT_DONE && !text && (found < o->common.arg_count - 1 || p.unreadable))
        code = SW_EXIT_MISSING;

out:
    sw_predictions_fini(&p);
    return code;
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

static int check_options(const struct options *o)
{
    const bool files = o->common.arg_count > 1;

    if (!o->output && !o->plot && !files)
        return sw_cli_usage("predict", "name files to predict; without files --output or --plot is "
                                       "missing");
    if (files && (o->split || o->inputs.count))
        return sw_cli_usage("predict", "files and %s are mutually exclusive",
                            o->split ? "--split" : "--input");
    if (o->top && !files)
        return sw_cli_usage("predict", "--top is for files to predict, and none are named");
    if (o->plot && !sw_picture_is_named("predict", o->plot))
        return SW_EXIT_USAGE;
    if (o->split && o->inputs.count)
        return sw_cli_usage("predict", "--split and --input are mutually exclusive");

    return SW_EXIT_DONE;
}

static int open_job(const struct options *o, struct sw_trainer *t,
                    struct sw_cli_field_inputs *inputs, struct sw_weights *w, struct sw_err *err)
{
    struct sw_job_options job = job_options(o);

    int rc = sw_cli_field_inputs_split(inputs, &o->inputs, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_trainer_init(t, &o->common, err);
    if (rc != SW_OK)
        return rc;

    return sw_trainer_open_with(t, &job, o->weights, &o->common, w, err);
}

static int predict(void *options)
{
    const struct options *o = options;
    struct sw_trainer t = {0};
    struct sw_weights w = {0};
    struct sw_cli_field_inputs inputs = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = open_job(o, &t, &inputs, &w, &err);
    if (rc != SW_OK)
        code = sw_trainer_refuse(&t, rc, &err);
    else if (o->common.arg_count > 1)
        code = predict_inputs(o, t.job, &w, &out);
    else
        code = predict_with(o, t.job, &w, inputs.input, &out);

    sw_weights_fini(&w);
    sw_cli_field_inputs_fini(&inputs);
    sw_bytes_fini(&out);
    sw_trainer_fini(&t);

    return code;
}

const struct sw_verb sw_verb_predict = {
    .name = "predict",
    .help = "apply a trained net to files, or write any layer's output as an array",
    .usage = "[OPTION]... RUN FILE|DIR|TEXT...\n[OPTION]... RUN|RECIPE --output Y.npy\n"
             "[OPTION]... RUN|RECIPE --plot FILE",
    .about =
        "Prints the best classes of each input with their probabilities, or for a regression its\n"
        "values. RUN is a run (an id, a unique prefix, a name, @last, RUN:best, RUN:STEP), its\n"
        "folder, or a checkpoint file. A net of images takes JPEG and PNG files, folders of them,\n"
        "rows of .csv files and arrays (.npy); a net of text takes lines of text, as arguments or\n"
        "in files. Images and integers are transformed like the evaluation data; arrays of floats\n"
        "only as input layers do. With --json each input is one object on one line.\n"
        "Without files, writes the output of a layer for a split, or for arrays: one pass in\n"
        "evaluation mode, every sample once. Only the layers that LAYER depends on are run, so\n"
        "only losses need labels. An --input without FIELD= replaces the only field that is\n"
        "read.",
    .takes = (SW_CLI_ALL | SW_CLI_STAGE) & ~(unsigned)(SW_CLI_FRAMEWORK | SW_CLI_OVERSUBSCRIBE),
    SW_CLI_OPTIONS(struct options, options_of_predict),
    .min_args = 1,
    .max_args = -1,
    .arg_name = "RUN or RECIPE",
    .run = predict,
    .stops = true,
};
