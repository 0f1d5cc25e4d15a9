/* singa-ws predict: computes the output of a layer for a split or for arrays, and writes it as an
 * array. */
#include "infer/predict.h"
#include "base/json.h"
#include "base/os.h"
#include "cli/checkpoint/weights.h"
#include "cli/history/runs.h"
#include "cli/plot/picture.h"
#include "cli/plot/predict_plot.h"
#include "cli/training/trainer.h"
#include "tensor/npy.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    const char *weights, *split, *layer, *output, *plot;
    struct sw_cli_list inputs;
};

static const struct sw_cli_option options_of_predict[] = {
    SW_CLI_WEIGHTS_OPTION(struct options),
    SW_CLI_SPLIT_OPTION(struct options),
    SW_CLI_LIST_OPTION(struct options, inputs, "input", "[FIELD=]X.npy",
                       "read a data field from an array, unchanged; may be repeated"),
    SW_CLI_TEXT_OPTION(struct options, layer, "layer", "LAYER",
                       "layer whose output is written; default: the input of the last loss"),
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

/* Splits "FIELD=X.npy". A field name has no '/' or '.', so that a path may contain '='. */
static int split_inputs(const struct options *o, struct sw_predict_input **out, char ***fields,
                        struct sw_err *err)
{
    size_t count = (size_t)o->inputs.count + 1;

    *out = sw_calloc(count, sizeof **out);
    *fields = sw_calloc(count, sizeof **fields);
    if (!*out || !*fields)
        return sw_err_nomem(err, "--input", count);

    for (int i = 0; i < o->inputs.count; i++) {
        const char *text = o->inputs.items[i], *equals = strchr(text, '=');
        size_t n = equals ? (size_t)(equals - text) : 0;

        (*out)[i].path = text;
        if (n == 0 || memchr(text, '/', n) || memchr(text, '.', n))
            continue;

        (*fields)[i] = sw_format("%.*s", (int)n, text);
        if (!(*fields)[i])
            return sw_err_nomem(err, "--input", n);

        (*out)[i] = (struct sw_predict_input){.field = (*fields)[i], .path = equals + 1};
    }

    return SW_OK;
}

/* The destination of the rows: an array file, a plot, or both. */
struct output {
    const char *path; /* NULL: no array */
    struct sw_npy_writer writer;
    struct sw_predict_plot plot; /* path NULL: no plot */
};

static int begin(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    struct output *out = user;

    int rc = out->plot.path ? sw_predict_plot_begin(&out->plot, info, err) : SW_OK;
    if (rc != SW_OK || !out->path)
        return rc;

    return sw_npy_writer_begin(&out->writer, out->path, SW_F32, info->ndim, info->dim, err);
}

static int append(void *user, int64_t count, const float *values, struct sw_err *err)
{
    struct output *out = user;
    if (out->plot.path)
        sw_predict_plot_rows(&out->plot, count, values);
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
    if (args->input_count)
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

/* ---- The verb ---------------------------------------------------------------------------------
 */

/* Computes the rows and writes the array and the plot that the options name. */
static int write_outputs(const struct options *o, struct sw_job *job,
                         const struct sw_predict_args *args, struct sw_predict_info *info,
                         struct sw_err *err)
{
    struct output file = {.path = o->output,
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
    int rc = sw_cli_check_split(sw_job_recipe(job), o->split, &err);

    if (rc == SW_OK)
        rc = write_outputs(o, job, &args, &info, &err);
    if (rc != SW_OK)
        return sw_cli_refuse(sw_job_recipe(job), rc, &err);

    if (o->common.json)
        print_json(out, o, &info, w);
    else if (!o->common.quiet)
        print_text(out, o, &info, w);

    return sw_cli_print(out);
}

static int check_options(const struct options *o)
{
    if (!o->output && !o->plot)
        return sw_cli_usage("predict", "--output or --plot is missing");
    if (o->plot && !sw_picture_is_named("predict", o->plot))
        return SW_EXIT_USAGE;
    if (o->split && o->inputs.count)
        return sw_cli_usage("predict", "--split and --input are mutually exclusive");

    return SW_EXIT_DONE;
}

static int open_job(const struct options *o, struct sw_trainer *t, struct sw_predict_input **inputs,
                    char ***fields, struct sw_weights *w, struct sw_err *err)
{
    struct sw_job_options job = job_options(o);

    int rc = split_inputs(o, inputs, fields, err);
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
    struct sw_predict_input *inputs = NULL;
    char **fields = NULL;
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = open_job(o, &t, &inputs, &fields, &w, &err);
    code = rc == SW_OK ? predict_with(o, t.job, &w, inputs, &out) : sw_trainer_refuse(&t, rc, &err);
    sw_weights_fini(&w);
    for (int i = 0; fields && i < o->inputs.count; i++)
        sw_free(fields[i]);
    sw_free(fields);
    sw_free(inputs);
    sw_bytes_fini(&out);
    sw_trainer_fini(&t);

    return code;
}

const struct sw_verb sw_verb_predict = {
    .name = "predict",
    .help = "write any layer's output as an array",
    .usage = "[OPTION]... RECIPE --output Y.npy\n[OPTION]... RECIPE --plot FILE",
    .about =
        "Writes the output of a layer of a trained net for a split, or for arrays: one pass in\n"
        "evaluation mode, every sample once. Only the layers that LAYER depends on are run, so\n"
        "only losses need labels. An --input without FIELD= replaces the only field that is\n"
        "read.",
    .takes = (SW_CLI_ALL | SW_CLI_STAGE) & ~(unsigned)(SW_CLI_FRAMEWORK | SW_CLI_OVERSUBSCRIBE),
    SW_CLI_OPTIONS(struct options, options_of_predict),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN or RECIPE",
    .run = predict,
    .stops = true,
};
