/* Opens files as a data source for prediction. Reading order: the kind of the files, their
 * transforms, the options of their format, the shape of rows, names of records. */
#include "infer/inputs.h"
#include "base/os.h"
#include "data/image_files.h"
#include "data/spec.h"
#include "net/net.h"
#include "run/job_private.h"
#include "tensor/npy.h"
#include <stdio.h>
#include <string.h>

enum kind { IMAGES, TABLES, ARRAYS };

static const char *const kind_names[] = {"an image", "a table", "an array"};

/* ---- kinds ---- */

static enum kind kind_of(const char *path)
{
    static const char *const tables[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz"};

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (sw_str_ends(path, tables[i]))
            return TABLES;
    return sw_str_ends(path, ".npy") || sw_str_ends(path, ".npy.gz") ? ARRAYS : IMAGES;
}

static void describe_field(const struct sw_field *f, struct sw_bytes *out)
{
    sw_bytes_printf(out, "%s of ", f->name);
    for (int d = 0; d < f->ndim; d++)
        sw_bytes_printf(out, "%s%lld", d ? "x" : "", (long long)f->dim[d]);
    if (f->ndim == 0)
        sw_bytes_add(out, "1 value");
}

/* Appends what the net reads: "image of 3x56x56". */
static void describe_reads(const struct sw_job *job, const char *const *fields, int count,
                           struct sw_bytes *out)
{
    for (int i = 0; i < count; i++) {
        const struct sw_field *f =
            job->data.spec ? sw_data_spec_field(job->data.spec, fields[i]) : NULL;

        sw_bytes_add(out, i ? ", " : "");
        if (f)
            describe_field(f, out);
        else
            sw_bytes_add(out, fields[i]);
    }
}

/* Files take the place of the field `image`. */
static int check_reads(struct sw_job *job, const struct sw_inputs_args *a, struct sw_err *err)
{
    const char *fields[SW_MAX_FIELDS];
    struct sw_bytes reads = {0};
    int count;

    int rc = sw_net_fields(job->recipe, false, a->layer, fields, SW_MAX_FIELDS, &count, err);
    if (rc != SW_OK || (count == 1 && sw_str_eq(fields[0], "image")))
        return rc;

    describe_reads(job, fields, count, &reads);
    rc = sw_err_set(err, SW_ERR_INVALID,
                    "%s: %s, but layer %s reads %s: use --input FIELD=FILE.npy for each field",
                    a->files[0], kind_names[kind_of(a->files[0])], a->layer, sw_bytes_text(&reads));
    sw_bytes_fini(&reads);
    return rc;
}

static int check_kinds(const struct sw_inputs_args *a, struct sw_err *err)
{
    for (int i = 1; i < a->count; i++)
        if (kind_of(a->files[i]) != kind_of(a->files[0]))
            return sw_err_set(err, SW_ERR_INVALID,
                              "%s is %s and %s is %s: predict one kind of files at a time",
                              a->files[0], kind_names[kind_of(a->files[0])], a->files[i],
                              kind_names[kind_of(a->files[i])]);
    return SW_OK;
}

/* ---- transforms ---- */

static const struct sw_section *section_of(const struct sw_job *job)
{
    const struct sw_section *s = sw_job_find_split(job, SW_SPLIT_EVAL);
    return s ? s : sw_job_find_split(job, SW_SPLIT_TRAIN);
}

/* Images of another size than all training images had are resized to theirs, if the recipe does not
 * resize; a square is cut from the center, as far as the recipe does not crop. */
static void resize_images(struct sw_inputs *in, const struct sw_data_spec *spec)
{
    const int64_t height = spec->raw[1], width = spec->raw[2];

    if (in->conf.resize.count || height == 0 || width == 0)
        return;

    in->resize[0] = (double)height;
    in->resize[1] = (double)width;
    in->conf.resize = (struct sw_reals){in->resize, 2};

    if (!in->conf.mean_image && (in->conf.crop || height == width)) {
        in->resize[0] = (double)(height < width ? height : width); /* the shorter side */
        in->conf.resize.count = 1;
        in->conf.crop = in->conf.crop ? in->conf.crop : height;
    }
}

/* The keys of the section, except for those that choose its records. */
static void set_transforms(struct sw_inputs *in, const struct sw_job *job, enum kind kind)
{
    const struct sw_section *s = section_of(job);
    const struct sw_data_spec *spec = job->data.spec;

    in->conf = s ? *(const struct sw_data_conf *)s->common
                 : (struct sw_data_conf){.scale = 1, .workers = 1, .prefetch = 2};
    in->conf.part = (struct sw_reals){0};
    in->conf.part_seed = 0;
    in->conf.streams = 0;
    in->conf.shuffle = false;
    if (kind != IMAGES || !spec)
        return;

    if (!in->conf.channels)
        in->conf.channels = spec->raw[0];
    resize_images(in, spec);
}

/* Leaves the values as they are. */
static void clear_transforms(struct sw_inputs *in)
{
    in->conf = (struct sw_data_conf){.scale = 1,
                                     .workers = in->conf.workers,
                                     .prefetch = in->conf.prefetch,
                                     .max_bytes = in->conf.max_bytes,
                                     .max_pixels = in->conf.max_pixels};
}

/* ---- options of the format ---- */

/* The format reads the files with the section's options, if it is the section's format, else with
 * its defaults, which are zeros. The option struct of a format begins with the list of files. */
static int set_options(struct sw_inputs *in, const struct sw_job *job,
                       const struct sw_format *format, bool of_section, struct sw_err *err)
{
    const struct sw_section *s = section_of(job);
    struct sw_strings *paths = in->format_conf = sw_calloc(1, format->base.conf_bytes);
    if (!paths)
        return sw_err_nomem(err, "the options of a format", format->base.conf_bytes);

    if (of_section && s && s->type[0] == &format->base)
        memcpy(paths, s->conf[0], format->base.conf_bytes);
    *paths = (struct sw_strings){in->path, in->count};
    return SW_OK;
}

static void set_shape(struct sw_inputs *in, const struct sw_format *format)
{
    for (const struct sw_opt *o = format->base.opts; o->key; o++)
        if (sw_str_eq(o->key, "shape"))
            *(const char **)(void *)((char *)in->format_conf + o->offset) = in->shape;
}

/* Rows of numbers as many as the net reads get the shape that it reads: `dim`. */
static void match_shape(struct sw_inputs *in, const struct sw_npy_header *h, const int64_t dim[3])
{
    if (dim[0] * dim[1] * dim[2] == sw_npy_row_elements(h))
        snprintf(in->shape, sizeof in->shape, "%lldx%lldx%lld", (long long)dim[0],
                 (long long)dim[1], (long long)dim[2]);
}

/* Counts the rows of the arrays, and chooses transforms and shape by the first one. */
static int read_headers(struct sw_inputs *in, const struct sw_data_spec *spec, struct sw_err *err)
{
    const struct sw_field *image = spec ? sw_data_spec_field(spec, "image") : NULL;
    int rc = SW_OK;

    for (int i = 0; i < in->count && rc == SW_OK; i++) {
        struct sw_npy_file f = {0};

        if (sw_str_ends(in->path[i], ".gz"))
            return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s: unpack it first", in->path[i]);
        rc = sw_npy_open(&f, in->path[i], err);
        if (rc == SW_OK) {
            const bool real = f.header.dtype == SW_NPY_F4 || f.header.dtype == SW_NPY_F8;

            in->begin[i + 1] = in->begin[i] + sw_npy_rows(&f.header);
            if (i == 0 && real)
                clear_transforms(in);
            if (i == 0 && real && image && image->ndim == 3)
                match_shape(in, &f.header, image->dim);
            else if (i == 0 && !real && spec)
                match_shape(in, &f.header, spec->raw);
        }

        sw_npy_close(&f);
    }

    return rc;
}

/* ---- opening ---- */

/* The first record of each table; the format counted them. */
static void count_rows(struct sw_inputs *in)
{
    const struct sw_records *r = &in->source->raw;

    for (int i = 0; i < in->count && i < r->parts; i++) {
        const struct sw_part *part =
            (const void *)((const char *)r->part + (size_t)i * r->format->part_bytes);
        in->begin[i + 1] = part->first + part->count;
    }
}

static int check_shape(const struct sw_inputs *in, const struct sw_data_spec *spec,
                       struct sw_err *err)
{
    const struct sw_field *has = &in->source->field[0];
    const struct sw_field *reads = spec ? sw_data_spec_field(spec, "image") : NULL;
    struct sw_bytes text = {0};

    if (!reads || sw_field_same(has, reads) ||
        (reads->ndim != 3 && sw_field_count(has) == sw_field_count(reads)))
        return SW_OK;

    sw_bytes_printf(&text, "%s: ", in->path[0]);
    describe_field(has, &text);
    sw_bytes_add(&text, " after the transforms of the recipe, but the net reads ");
    describe_field(reads, &text);
    int rc = sw_err_set(err, SW_ERR_FORMAT, "%s", sw_bytes_text(&text));
    sw_bytes_fini(&text);
    return rc;
}

static int prepare(struct sw_inputs *in, const struct sw_job *job, const struct sw_inputs_args *a,
                   enum kind kind, const struct sw_format **format, struct sw_err *err)
{
    *format = kind == IMAGES ? &sw_image_files : sw_format_find(kind == TABLES ? "csv" : "npy");

    in->count = a->count;
    in->path = sw_calloc((size_t)a->count, sizeof *in->path);
    if (!in->path)
        return sw_err_nomem(err, "the list of inputs", (size_t)a->count * sizeof *in->path);
    memcpy(in->path, a->files, (size_t)a->count * sizeof *in->path);
    if (kind != IMAGES) {
        in->begin = sw_calloc((size_t)a->count + 1, sizeof *in->begin);
        if (!in->begin)
            return sw_err_nomem(err, "the list of inputs", (size_t)a->count * sizeof *in->begin);
    }

    set_transforms(in, job, kind);

    int rc = set_options(in, job, *format, kind == TABLES, err);
    if (rc != SW_OK || kind != ARRAYS)
        return rc;

    rc = read_headers(in, job->data.spec, err);
    set_shape(in, *format);
    return rc;
}

int sw_inputs_open(struct sw_inputs *in, struct sw_job *job, const struct sw_inputs_args *a,
                   struct sw_err *err)
{
    const enum kind kind = a->arrays ? ARRAYS : kind_of(a->files[0]);
    const struct sw_format *format = NULL;

    int rc = check_kinds(a, err);
    if (rc != SW_OK)
        return rc;
    rc = a->layer ? check_reads(job, a, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = prepare(in, job, a, kind, &format, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_source_args args = {.name = "input",
                                        .conf = &in->conf,
                                        .format = format,
                                        .format_conf = in->format_conf,
                                        .spec = job->data.spec,
                                        .unlabeled = true,
                                        .skip_bad = kind == IMAGES,
                                        .report_bad = a->report,
                                        .report_user = a->user};
    rc = sw_source_open(&args, &in->source, err);
    if (rc != SW_OK)
        return rc;

    if (kind == TABLES)
        count_rows(in);
    return check_shape(in, job->data.spec, err);
}

void sw_inputs_close(struct sw_inputs *in)
{
    sw_source_close(in->source);
    sw_free(in->format_conf);
    sw_free(in->path);
    sw_free(in->begin);
    *in = (struct sw_inputs){0};
}

/* ---- records ---- */

bool sw_inputs_unreadable(const struct sw_inputs *in, int64_t record)
{
    return sw_source_is_bad(in->source, record);
}

void sw_inputs_name(const struct sw_inputs *in, int64_t record, struct sw_bytes *out)
{
    int file = 0;

    if (!in->begin) {
        in->source->raw.format->locate(&in->source->raw, record, out);
        return;
    }

    while (file + 1 < in->count && in->begin[file + 1] <= record)
        file++;
    sw_bytes_printf(out, "%s[%lld]", in->path[file], (long long)(record - in->begin[file]));
}
