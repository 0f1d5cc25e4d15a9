/* singa-ws sample: prints text that a trained language model generates, or frames with which a net
 * continues a series. */
#include "infer/sample.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/checkpoint/weights.h"
#include "cli/training/trainer.h"
#include "infer/sample_series.h"
#include "tensor/npy.h"
#include <errno.h>
#include <string.h>

struct options {
    struct sw_cli_common common;
    const char *weights, *prime, *temperature, *output;
    int64_t length, seed, start;
};

static const struct sw_cli_option options_of_sample[] = {
    SW_CLI_WEIGHTS_OPTION(struct options),
    SW_CLI_TEXT_OPTION(struct options, prime, "prime", "TEXT",
                       "text to continue; default: none, as after a newline"),
    SW_CLI_INT_OPTION(struct options, length, "length", "N", 1,
                      "number of tokens or frames to generate; default: 500"),
    SW_CLI_INT_OPTION(struct options, start, "start", "N", 0,
                      "of a series: the record of the test data whose past frames are continued; "
                      "default: 0"),
    SW_CLI_TEXT_OPTION(struct options, output, "output", "FILE.npy",
                       "of a series: write the frames to an array instead of printing them"),
    SW_CLI_TEXT_OPTION(struct options, temperature, "temperature", "T",
                       "sampling temperature; 0: always the most likely token; default: 1"),
    SW_CLI_INT_OPTION(struct options, seed, "seed", "N", 0,
                      "seed of the random numbers; default: 0"),
    {0},
};

/* The generated text: collected for --json, else printed as it arrives. */
struct writing {
    bool keep;
    struct sw_bytes text; /* all of it, or the first bytes of an incomplete character */
};

/* Prints and removes all but the last `rest` bytes. */
static int show(struct sw_bytes *text, size_t rest, struct sw_err *err)
{
    struct sw_bytes left = {0};
    size_t whole = text->length - rest;
    int problem = text->failed ? ENOMEM : sw_cli_write(sw_bytes_text(text), whole);

    sw_bytes_append(&left, sw_bytes_text(text) + whole, rest);
    sw_bytes_fini(text);
    *text = left;

    return problem ? sw_err_set(err, SW_ERR_IO, "standard output: %s", strerror(problem)) : SW_OK;
}

static int take(void *user, const char *text, size_t n, struct sw_err *err)
{
    struct writing *w = user;

    sw_bytes_append(&w->text, text, n);
    if (w->keep)
        return SW_OK;

    return show(&w->text, w->text.length - sw_utf8_whole(sw_bytes_text(&w->text), w->text.length),
                err);
}

static int end_of_text(struct writing *w, struct sw_err *err)
{
    sw_bytes_add(&w->text, "\n");
    return show(&w->text, 0, err);
}

static int print_json(const struct options *o, const struct sw_bytes *text, int64_t step,
                      const struct sw_weights *w)
{
    struct sw_bytes out = {0};
    struct sw_json_writer j;

    sw_cli_json_begin(&j, &out);
    sw_json_string(&j, "text", sw_bytes_text(text));
    sw_json_string(&j, "prime", o->prime);
    sw_json_int(&j, "step", step);
    sw_json_string(&j, "weights", w->path);
    sw_cli_json_end(&j);

    int code = sw_cli_print(&out);
    sw_bytes_fini(&out);
    return code;
}

static int write_with(const struct options *o, struct sw_sample_args *args, struct sw_job *job,
                      const struct sw_weights *w)
{
    struct writing writing = {.keep = o->common.json};
    struct sw_err err;
    int64_t step = 0;
    int code = SW_EXIT_DONE;

    args->weights = w->path;

    int rc = sw_job_sample(job, args, take, &writing, &step, &err);
    if (rc != SW_OK)
        goto out;

    if (o->common.json)
        code = print_json(o, &writing.text, step, w);
    else
        rc = end_of_text(&writing, &err);

out:
    if (rc != SW_OK)
        code = sw_cli_refuse(sw_job_recipe(job), rc, &err);
    sw_bytes_fini(&writing.text);

    return code;
}

/* ---- Series ---- */

/* The generated frames: written to an array, collected for --json, or printed as a table. */
struct frames {
    struct sw_npy_writer *array; /* NULL: text */
    const char *path;
    int64_t count;
    struct sw_json_writer *json; /* NULL: a table */
};

static int print_row(const float *frame, int64_t width, struct sw_err *err)
{
    struct sw_bytes row = {0};

    for (int64_t i = 0; i < width; i++)
        sw_bytes_printf(&row, "%s%.7g", i ? "," : "", (double)frame[i]);
    sw_bytes_add(&row, "\n");

    int rc = show(&row, 0, err);
    sw_bytes_fini(&row);
    return rc;
}

static int take_frame(void *user, const float *frame, int64_t width, struct sw_err *err)
{
    struct frames *f = user;
    const bool first = f->count++ == 0;

    if (f->json) {
        sw_json_open_array(f->json, NULL);
        for (int64_t i = 0; i < width; i++)
            sw_json_real(f->json, NULL, (double)frame[i]);
        sw_json_close_array(f->json);
        return SW_OK;
    }

    if (!f->array)
        return print_row(frame, width, err);

    int rc = first ? sw_npy_writer_begin(f->array, f->path, SW_F32, 1, &width, err) : SW_OK;
    return rc == SW_OK ? sw_npy_append(f->array, 1, frame, err) : rc;
}

static int continue_series(const struct options *o, struct sw_job *job, const struct sw_weights *w)
{
    const struct sw_series_args args = {.weights = w->path,
                                        .start = o->start > 0 ? o->start : 0,
                                        .frames = o->length > 0 ? o->length : 500,
                                        .seed = (uint64_t)o->seed};
    struct sw_npy_writer array = {.file.fd = -1};
    struct sw_json_writer json;
    struct sw_bytes out = {0};
    struct sw_err err;
    struct frames f = {.array = o->output ? &array : NULL, .path = o->output};
    int64_t step = 0;
    int code = SW_EXIT_DONE;

    if (o->common.json)
        sw_cli_json_begin(&json, &out);
    if (o->common.json && !o->output) {
        f.json = &json;
        sw_json_open_array(&json, "frames");
    }

    int rc = sw_job_sample_series(job, &args, take_frame, &f, &step, &err);
    if (rc == SW_OK && f.array)
        rc = sw_npy_writer_commit(&array, &err);
    sw_npy_writer_abandon(&array);

    if (rc != SW_OK) {
        code = sw_cli_refuse(sw_job_recipe(job), rc, &err);
    } else if (o->common.json) {
        if (f.json)
            sw_json_close_array(&json);
        else
            sw_json_string(&json, "output", o->output);
        sw_json_int(&json, "step", step);
        sw_json_string(&json, "weights", w->path);
        sw_cli_json_end(&json);
        code = sw_cli_print(&out);
    }

    sw_bytes_fini(&out);
    return code;
}

/* Options of texts and of series do not mix. NULL: they do not here. */
static const char *misplaced(const struct options *o, bool series)
{
    if (series)
        return o->prime ? "--prime" : o->temperature ? "--temperature" : NULL;
    return o->output ? "--output" : o->start > 0 ? "--start" : NULL;
}

static int sample_with(const struct options *o, struct sw_sample_args *args, struct sw_job *job,
                       const struct sw_weights *w)
{
    const bool series = sw_job_reads_series(job, NULL);
    const char *option = misplaced(o, series);

    if (option)
        return sw_cli_usage("sample", "%s: only for %s, but the net reads %s", option,
                            series ? "texts" : "series", series ? "a series" : "other data");
    return series ? continue_series(o, job, w) : write_with(o, args, job, w);
}

static int sample(void *options)
{
    const struct options *o = options;
    struct sw_trainer t = {0};
    struct sw_weights w = {0};
    struct sw_err err;
    struct sw_sample_args args = {.prime = o->prime,
                                  .length = o->length > 0 ? o->length : 500,
                                  .temperature = 1,
                                  .seed = (uint64_t)o->seed};
    struct sw_job_options job = sw_trainer_job_of(&o->common);

    job.one_worker = true;
    job.predict = true;
    if (o->temperature &&
        (!sw_parse_real(o->temperature, &args.temperature) || args.temperature < 0))
        return sw_cli_usage("sample", "--temperature %s: must be a number, 0 or more",
                            o->temperature);

    int rc = sw_trainer_init(&t, &o->common, &err);
    if (rc == SW_OK)
        rc = sw_trainer_open_with(&t, &job, o->weights, &o->common, &w, &err);

    int code = rc == SW_OK ? sample_with(o, &args, t.job, &w) : sw_trainer_refuse(&t, rc, &err);
    sw_weights_fini(&w);
    sw_trainer_fini(&t);

    return code;
}

const struct sw_verb sw_verb_sample = {
    .name = "sample",
    .help = "generate text with a trained language model, or continue a series",
    .usage = "[OPTION]... RUN|RECIPE",
    .about =
        "Generates text with a trained language model: a run, its folder, a checkpoint file, or a\n"
        "recipe, whose net maps the tokens of a text (format = text) to scores of the next token.\n"
        "Recurrent layers keep their state from\n"
        "token to token. Control characters are printed as escapes: \\x1b, \\u202e.\n"
        "A net that predicts the next frame of a series (format = series) from the past frames\n"
        "continues the series: each prediction becomes the newest frame of the past.",
    .takes = (SW_CLI_ALL | SW_CLI_STAGE) &
             ~(unsigned)(SW_CLI_FRAMEWORK | SW_CLI_OVERSUBSCRIBE | SW_CLI_VERBOSE),
    SW_CLI_OPTIONS(struct options, options_of_sample),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN or RECIPE",
    .run = sample,
    .stops = true,
};
