/* Opens and closes a data source: the records of the format, the subset of them, and the transform
 * of the image field, for which the size of the first image is read. Rows are fetched in reader.c.
 */
#include "data/source.h"
#include "base/hash.h"
#include "base/os.h"
#include "kernels/ops/pixels.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The shape of a field as [C, H, W]; missing dimensions are 1. */
static void image_dims(const struct sw_field *f, int64_t dim[3])
{
    for (int i = 0; i < 3; i++)
        dim[i] = i < 3 - f->ndim ? 1 : f->dim[i - (3 - f->ndim)];
}

/* One gray channel can be repeated; three channels are converted to one by the decoder. */
static int check_channels(const struct sw_source *s, int64_t has, enum sw_dtype dtype,
                          struct sw_err *err)
{
    const int64_t wants = s->transform.channels;
    if (wants == has || has == 1 || (wants == 1 && has == 3 && dtype == SW_U8) ||
        s->raw.has_pictures)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "channels = %lld: images of %lld channels%s cannot be converted",
                      (long long)wants, (long long)has, dtype == SW_F32 ? " (floats)" : "");
}

/* Whether a few images, spread over the section, have the size of the first one. */
static bool same_sides(struct sw_reader *r, const struct sw_transform_input *in)
{
    enum { SAMPLES = 16 };

    const int64_t records = r->source->records;
    int64_t height = in->first_height, width = in->first_width;
    struct sw_err ignored; /* of a record that is not used now */

    for (int i = 1; i < SAMPLES && height == in->first_height && width == in->first_width; i++) {
        if (sw_reader_peek(r, i * records / SAMPLES, &height, &width, &ignored))
            return false;
    }

    return height == in->first_height && width == in->first_width;
}

/* Reads height and width of the first readable image. */
static int first_sides(struct sw_source *s, struct sw_transform_input *in, struct sw_err *err)
{
    struct sw_reader r;

    int rc = sw_reader_init(&r, s, err);
    if (rc)
        goto out;

    rc = sw_reader_peek(&r, 0, &in->first_height, &in->first_width, err);
    if (rc)
        goto out;

    if (same_sides(&r, in)) {
        s->raw_height = in->first_height;
        s->raw_width = in->first_width;
    }

out:
    sw_reader_fini(&r);
    return rc;
}

/* Creates the transform of the image field from the keys, and sets the finished shape and type of
 * the field. */
static int set_transform(struct sw_source *s, const struct sw_source_args *args, int image,
                         struct sw_err *err)
{
    const struct sw_data_conf *conf = args->conf;
    const struct sw_field *raw = &s->raw.field[image];
    struct sw_field *out = &s->field[image];
    struct sw_transform_input in = {.training = s->training, .spec = args->spec};
    int64_t dim[3];
    int rc = SW_OK;

    if (raw->ndim > 3)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "image has %d dimensions; the limit is 3",
                          raw->ndim);

    image_dims(raw, dim);
    in.channels = conf->channels ? conf->channels : dim[0];
    in.height = s->raw_height = dim[1];
    in.width = s->raw_width = dim[2];
    if (s->raw.has_pictures && !dim[1])
        rc = first_sides(s, &in, err);
    if (!rc)
        rc = sw_transform_init(&s->transform, conf, &in, err);
    if (!rc)
        rc = check_channels(s, dim[0], raw->dtype, err);
    if (rc)
        return rc;

    const struct sw_transform *t = &s->transform;
    const int64_t finished[3] = {t->channels, t->out_height, t->out_width};

    /* A vector stays a vector unless the transform changes its shape. */
    if (finished[0] != dim[0] || finished[1] != dim[1] || finished[2] != dim[2]) {
        out->ndim = 3;
        memcpy(out->dim, finished, sizeof finished);
    }

    out->dtype = SW_F32;
    if (raw->dtype == SW_U8 && sw_transform_keeps_pixels(t))
        s->pixels_bytes = sw_pixels_row_bytes(t->channels * t->out_height * t->out_width);
    return SW_OK;
}

/* Where groups take batches in turn, batch n of group g follows its batch n - 1 if there is a
 * stream for each row of all groups: the batches of one turn then read one record of every stream.
 */
static int choose_records(struct sw_source *s, const struct sw_source_args *args,
                          struct sw_err *err)
{
    const struct sw_data_conf *conf = args->conf;
    const int64_t groups = args->groups > 1 ? args->groups : 1;

    s->streams = conf->streams * groups;

    int rc =
        sw_subset_init(&s->subset, &conf->part, conf->part_seed, s->streams, s->raw.count, err);
    if (rc && groups > 1 && conf->streams)
        return sw_err_prefix(err, rc, "%lld streams for each of %lld worker groups",
                             (long long)conf->streams, (long long)groups);
    if (rc)
        return rc;

    if (conf->streams && s->shuffle)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "streams = %lld requires shuffle = no, because it reads the records in order",
            (long long)conf->streams);

    s->records = s->subset.count;
    return SW_OK;
}

/* The bitmap of bad records is needed only if they are skipped. */
static int make_bad(struct sw_source *s, const struct sw_source_args *args, struct sw_err *err)
{
    const size_t bytes = (size_t)(s->records + 7) / 8;

    s->bad = sw_calloc(1, sizeof *s->bad);
    if (!s->bad)
        return sw_err_nomem(err, "a list of damaged records", sizeof *s->bad);

    *s->bad = (struct sw_bad_records){
        .skip = args->skip_bad, .report = args->report_bad, .user = args->report_user};
    if (!args->skip_bad)
        return SW_OK;

    s->bad->bits = sw_calloc(bytes, 1);
    return s->bad->bits ? SW_OK : sw_err_nomem(err, "a list of damaged records", bytes);
}

static int open_records(struct sw_source *s, const struct sw_source_args *args, struct sw_err *err)
{
    struct sw_format_args how = {.conf = args->format_conf,
                                 .split = args->name,
                                 .channels = args->conf->channels,
                                 .max_bytes = args->conf->max_bytes,
                                 .spec = args->spec,
                                 .unlabeled = args->unlabeled,
                                 .max_pixels = args->conf->max_pixels,
                                 .class_names = args->conf->class_names};

    if (args->replaced)
        how.implied = args->replaced->implied;
    if (args->replaced && args->format->generated)
        how.class_names = NULL; /* a file of the data set that is missing */

    int rc = sw_records_open(&s->raw, args->format, &how, err);
    if (rc)
        return rc;
    if (s->raw.count < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no records", s->raw.where);

    rc = choose_records(s, args, err);
    if (rc)
        return rc;

    s->classes = s->raw.classes;
    s->classes_fixed = s->raw.classes_fixed || s->raw.naming;
    s->naming = s->raw.naming;
    s->class_names = &s->raw.class_names;
    s->vocabulary = s->raw.vocabulary;
    s->unit = s->raw.unit;
    s->field_count = s->raw.field_count;
    memcpy(s->field, s->raw.field, sizeof s->field);

    rc = make_bad(s, args, err);
    if (rc)
        return rc;

    int image = sw_source_find(s, "image");
    return image < 0 ? SW_OK : set_transform(s, args, image, err);
}

int sw_source_open(const struct sw_source_args *args, struct sw_source **out, struct sw_err *err)
{
    struct sw_source *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "a data source", sizeof *s);

    snprintf(s->name, sizeof s->name, "%s", args->name);
    s->training = args->training;
    s->shuffle = args->conf->shuffle && args->training;
    s->workers = args->conf->workers;
    s->prefetch = args->conf->prefetch;
    s->shuffle_key = sw_philox_stream(args->seed, SW_PURPOSE_SHUFFLE, sw_hash_name(args->name));
    s->augment_key = sw_philox_stream(args->seed, SW_PURPOSE_AUGMENT, sw_hash_name(args->name));

    int rc = open_records(s, args, err);
    if (rc) {
        sw_source_close(s);
        return sw_err_prefix(err, rc, "data %s", args->name);
    }

    *out = s;
    return SW_OK;
}

void sw_source_close(struct sw_source *s)
{
    if (!s)
        return;

    for (int f = 0; f < SW_MAX_FIELDS; f++)
        sw_scaling_fini(&s->scaling[f]);
    sw_transform_fini(&s->transform);
    sw_records_close(&s->raw);
    if (s->bad)
        sw_free(s->bad->bits);
    sw_free(s->bad);
    sw_free(s);
}

size_t sw_source_row_bytes(const struct sw_source *s, int f, bool pixels)
{
    if (pixels && s->pixels_bytes && f == sw_source_find(s, "image"))
        return s->pixels_bytes;
    return sw_field_bytes(&s->field[f]);
}

void sw_source_pixels(const struct sw_source *s, struct sw_pixels_args *out)
{
    const struct sw_transform *t = &s->transform;

    *out = (struct sw_pixels_args){
        .channels = t->channels,
        .height = t->out_height,
        .width = t->out_width,
        .row_bytes = (int64_t)s->pixels_bytes,
        .mean_image = t->mean_image,
        .mean_height = t->mean_height,
        .mean_width = t->mean_width,
    };
    memcpy(out->mean, t->mean, sizeof out->mean);
    memcpy(out->gain, t->gain, sizeof out->gain);
}

int64_t sw_source_batches(const struct sw_source *s, int64_t batch)
{
    return s->records / batch + (s->records % batch != 0);
}

int64_t sw_source_steps(const struct sw_source *s, double epochs, int64_t batch)
{
    const double steps = ceil(epochs * (double)s->records / (double)batch);
    return steps < 0x1p63 ? (int64_t)steps : INT64_MAX;
}
