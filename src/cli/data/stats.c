/* singa-ws data stats: measures a data source, and writes the files that transforms read. */
#include "data/stats.h"
#include "base/json.h"
#include "base/os.h"
#include "cli/data/input.h"
#include "cli/data/progress.h"

static const char verb[] = "data stats";

enum { CHANNELS_SHOWN = 16, CLASSES_SHOWN = 40 };

struct options {
    struct sw_data_options data;
    const char *out, *epsilon;
    bool zca;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(
        struct options, out, "out", "FILE",
        "write the mean image to FILE.npy or FILE.safetensors, for the key mean_image"),
    SW_CLI_FLAG_OPTION(
        struct options, zca, "zca",
        "also write the ZCA whitening matrix, for the key whiten (--out=FILE.safetensors)"),
    SW_CLI_TEXT_OPTION(struct options, epsilon, "epsilon", "E",
                       "constant that --zca adds to variances before the division; default: 0.01"),
    SW_DATA_OPTIONS,
    {0},
};

/* The results, and the data source that they are for. */
struct result {
    struct sw_source *source; /* owned; of raw units */
    struct sw_stats stats;
    int64_t row_shape[3];
    float *whiten_mean, *whiten_matrix; /* owned, or NULL */
};

/* ---- Print ------------------------------------------------------------------------------------
 */

static void add_values(struct sw_bytes *out, const char *key, const struct sw_stats_field *f,
                       bool std)
{
    sw_bytes_printf(out, "%s = ", key);
    for (int64_t c = 0; c < f->parts; c++)
        sw_bytes_printf(out, "%s%.6g", c ? ", " : "", std ? f->part[c].std : f->part[c].mean);
    sw_bytes_add(out, "\n");
}

static void print_field(struct sw_bytes *out, const struct sw_stats_field *f)
{
    for (int64_t c = 0; c < f->parts && c < CHANNELS_SHOWN; c++) {
        const struct sw_stats_range *r = &f->part[c];

        sw_bytes_printf(out, "%-13s", c ? "" : f->name);
        if (f->parts > 1)
            sw_bytes_printf(out, "channel %lld: ", (long long)c);
        sw_bytes_printf(out, "mean %.6g, std %.6g, %.6g to %.6g\n", r->mean, r->std, r->least,
                        r->most);
    }

    if (f->parts > CHANNELS_SHOWN)
        sw_bytes_printf(out, "%13s... %lld channels, all with --json\n", "", (long long)f->parts);
}

static void print_classes(struct sw_bytes *out, const struct sw_stats *s)
{
    int64_t least = INT64_MAX, most = 0;

    if (!s->class_count)
        return;

    for (int64_t i = 0; i < s->classes; i++) {
        least = s->class_count[i] < least ? s->class_count[i] : least;
        most = s->class_count[i] > most ? s->class_count[i] : most;
    }

    sw_bytes_printf(out, "classes      %lld, of %lld to %lld records\n", (long long)s->classes,
                    (long long)least, (long long)most);

    for (int64_t i = 0; i < s->classes && i < CLASSES_SHOWN; i++)
        sw_bytes_printf(out, "%12lld  %lld (%.2f %%)\n", (long long)i, (long long)s->class_count[i],
                        100 * (double)s->class_count[i] / (double)s->records);

    if (s->classes > CLASSES_SHOWN)
        sw_bytes_add(out, "             ... all with --json\n");
}

static void print_text(struct sw_bytes *out, const struct result *r, const struct options *o)
{
    const struct sw_stats *s = &r->stats;

    sw_bytes_printf(out, "records      %lld\n", (long long)s->records);

    for (int f = 0; f < s->field_count; f++)
        if (!sw_str_eq(s->field[f].name, "label"))
            print_field(out, &s->field[f]);

    print_classes(out, s);

    for (int f = 0; f < s->field_count; f++) {
        if (!sw_str_eq(s->field[f].name, "image") || s->field[f].parts > CHANNELS_SHOWN)
            continue;

        sw_bytes_add(out, "\n");
        add_values(out, "mean", &s->field[f], false);
        add_values(out, "std", &s->field[f], true);
    }

    if (!o->out)
        return;

    if (s->mean)
        sw_bytes_printf(out, "\nmean_image = %s\n", o->out);
    if (r->whiten_matrix)
        sw_bytes_printf(out, "%swhiten = %s\n", s->mean ? "" : "\n", o->out);
}

static void json_field(struct sw_json_writer *w, const struct sw_stats_field *f)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", f->name);

    for (int which = 0; which < 4; which++) {
        static const char *const names[] = {"mean", "std", "min", "max"};

        sw_json_open_array(w, names[which]);

        for (int64_t c = 0; c < f->parts; c++) {
            const struct sw_stats_range *r = &f->part[c];
            const double x[] = {r->mean, r->std, r->least, r->most};
            sw_json_real(w, NULL, x[which]);
        }

        sw_json_close_array(w);
    }

    sw_json_close_object(w);
}

static void print_json(struct sw_bytes *out, const struct result *r, const struct options *o)
{
    const struct sw_stats *s = &r->stats;
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_int(&w, "records", s->records);
    sw_json_int(&w, "classes", s->classes);
    sw_json_open_array(&w, "class_counts");
    for (int64_t i = 0; s->class_count && i < s->classes; i++)
        sw_json_int(&w, NULL, s->class_count[i]);
    sw_json_close_array(&w);
    sw_json_open_array(&w, "fields");
    for (int f = 0; f < s->field_count; f++)
        json_field(&w, &s->field[f]);
    sw_json_close_array(&w);
    sw_json_string(&w, "out", o->out);
    sw_cli_json_end(&w);
}

/* ---- Measure ----------------------------------------------------------------------------------
 */

static bool on_progress(void *user, int64_t done, int64_t records)
{
    sw_data_progress_show(user, done, records, "");
    return true;
}

/* The keys for measuring raw units; cut: images are cropped as in the section. */
static struct sw_data_conf raw_units(const struct sw_data_conf *of, bool cut)
{
    struct sw_data_conf c = *of;

    c.scale = 1;
    c.mean = c.std = (struct sw_reals){0};
    c.mean_image = c.whiten = NULL;
    c.crop_method = SW_CROP_CENTRE;
    if (!cut)
        c.crop = c.pad = 0;

    return c;
}

/* Opens the source without cropping, since a mean image before the crop serves every crop position;
 * that needs images of one size and no padding. */
static int open_raw(const struct sw_data_input *in, struct sw_source **out, struct sw_err *err)
{
    const struct sw_data_conf *of = in->section->common;
    struct sw_data_conf conf = raw_units(of, of->pad != 0);

    int rc = sw_data_input_source(in, &conf, out, err);
    if (rc || !of->crop || of->pad || !(*out)->transform.differ || (*out)->transform.resize_height)
        return rc;

    sw_source_close(*out);
    *out = NULL;
    conf = raw_units(of, true);

    return sw_data_input_source(in, &conf, out, err);
}

static int whiten(const struct sw_data_input *in, double epsilon,
                  const struct sw_stats_watch *watch, struct result *r, struct sw_err *err)
{
    struct sw_data_conf conf = *(const struct sw_data_conf *)in->section->common;
    struct sw_source *s = NULL;

    conf.whiten = NULL;

    int rc = sw_data_input_source(in, &conf, &s, err);
    if (rc)
        return rc;

    rc = sw_stats_whiten(s, epsilon, watch, &r->whiten_mean, &r->whiten_matrix, err);
    if (!rc) {
        const struct sw_transform *t = &s->transform;
        r->row_shape[0] = t->channels;
        r->row_shape[1] = t->out_height;
        r->row_shape[2] = t->out_width;
    }

    sw_source_close(s);
    return rc;
}

static int write_file(const struct options *o, const struct result *r, struct sw_err *err)
{
    struct sw_stats_file f = {
        .mean = r->stats.mean, .whiten_mean = r->whiten_mean, .whiten_matrix = r->whiten_matrix};
    if (!f.mean && !f.whiten_matrix)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: the data have no images, so there is no mean image", o->out);

    for (int i = 0; i < 3; i++) {
        f.mean_shape[i] = r->stats.shape[i];
        f.row_shape[i] = r->row_shape[i];
    }

    return sw_stats_write(&f, o->out, err);
}

static int make(const struct options *o, double epsilon, const struct sw_data_input *in,
                struct result *r, struct sw_err *err)
{
    struct sw_data_progress progress;
    const struct sw_stats_watch watch = {on_progress, &progress};

    sw_data_progress_begin(&progress, o->data.common.quiet);

    int rc = open_raw(in, &r->source, err);
    if (rc)
        goto out;
    rc = sw_stats_measure(r->source, &watch, &r->stats, err);
    if (rc)
        goto out;

    if (o->zca)
        rc = whiten(in, epsilon, &watch, r, err);
    if (rc)
        goto out;

    if (o->out)
        rc = write_file(o, r, err);

out:
    sw_data_progress_wipe(&progress);
    return rc;
}

/* ---- The sub-verb -----------------------------------------------------------------------------
 */

static int stats(const struct options *o, double epsilon, const struct sw_data_input *in)
{
    struct result r = {0};
    struct sw_bytes out = {0};
    struct sw_err err;
    int code, rc = make(o, epsilon, in, &r, &err);

    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
    } else {
        if (o->data.common.json)
            print_json(&out, &r, o);
        else
            print_text(&out, &r, o);

        code = sw_cli_print(&out);
    }

    sw_stats_fini(&r.stats);
    sw_source_close(r.source);
    sw_free(r.whiten_mean);
    sw_free(r.whiten_matrix);
    sw_bytes_fini(&out);

    return code;
}

static int check_options(const struct options *o, double *epsilon)
{
    struct sw_err err;

    if (o->epsilon && (!sw_parse_real(o->epsilon, epsilon) || !(*epsilon > 0 && *epsilon <= 1e6)))
        return sw_cli_usage(verb, "--epsilon=%s: E must be above 0 and at most 1e6", o->epsilon);
    if (o->zca && !o->out)
        return sw_cli_usage(verb, "--zca writes a file: --out=FILE.safetensors is missing");
    if (o->out && sw_stats_check_name(o->out, o->zca, &err) != SW_OK)
        return sw_cli_usage(verb, "--out=%s", err.text);

    return SW_EXIT_DONE;
}

static int run(void *options)
{
    const struct options *o = options;
    struct sw_data_input in;
    double epsilon = 0.01;

    int code = check_options(o, &epsilon);

    if (code == SW_EXIT_DONE)
        code = sw_data_input_open(&in, verb, &o->data);
    if (code != SW_EXIT_DONE)
        return code;

    code = stats(o, epsilon, &in);
    sw_data_input_close(&in);
    return code;
}

const struct sw_verb sw_data_stats = {
    .name = "stats",
    .help = "measure data; write mean images and whitening matrices",
    .typed = verb,
    .usage = "[OPTION]... RECIPE\n[OPTION]... FILE...",
    .about =
        "Measures data: mean, standard deviation and range of each field (of images for each\n"
        "channel), the number of records of each class, and the mean image. Figures are in raw\n"
        "units: after channels, resize and log1p of the section, before mean, std and scale;\n"
        "images of different sizes are also cropped at the center. Only --zca reads rows after\n"
        "all transforms of an evaluation but whiten.\n\n" SW_DATA_ABOUT,
    .more =
        "The lines mean = ... and std = ... can be pasted into the section. Its key workers is\n"
        "the number of decoding threads.",
    .takes = SW_CLI_SET | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = -1,
    .arg_name = "RECIPE",
    .run = run,
};
