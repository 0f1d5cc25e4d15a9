#include "data/source.h"
#include "base/hash.h"
#include "base/os.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Value c of a list of none, one, or one per channel. */
static double of_channel(const struct sw_reals *list, int64_t c, double otherwise)
{
    if (list->count == 0)
        return otherwise;
    return list->items[list->count == 1 ? 0 : c];
}

static int check_values(const struct sw_reals *list, const char *key, int64_t channels,
                        struct sw_err *err)
{
    if (list->count <= 1 || list->count == channels)
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID,
                      "%s: %d values, expected one, or one for each of the %lld channels", key,
                      list->count, (long long)channels);
}

static int set_crop(struct sw_source *s, const struct sw_data_conf *conf, struct sw_field *image,
                    struct sw_err *err)
{
    struct sw_transform *t = &s->transform;
    t->out_height = t->height;
    t->out_width = t->width;
    if (conf->crop == 0)
        return SW_OK;
    if (conf->crop > t->height || conf->crop > t->width)
        return sw_err_set(err, SW_ERR_INVALID,
                          "crop = %lld is larger than the pictures of %lldx%lld",
                          (long long)conf->crop, (long long)t->height, (long long)t->width);
    t->out_height = t->out_width = image->dim[1] = image->dim[2] = conf->crop;
    t->random_crop =
        conf->crop_method == SW_CROP_RANDOM || (conf->crop_method == SW_CROP_AUTO && s->training);
    return SW_OK;
}

/* Turns the conf into the transform of the image field, whose shape and type become the finished
 * ones. */
static int set_transform(struct sw_source *s, const struct sw_data_conf *conf,
                         struct sw_field *image, struct sw_err *err)
{
    struct sw_transform *t = &s->transform;
    t->dtype = image->dtype;
    t->channels = image->dim[0];
    t->height = image->dim[1];
    t->width = image->dim[2];
    if (t->channels > SW_MAX_CHANNELS)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "pictures of %lld channels; at most %d are handled",
                          (long long)t->channels, SW_MAX_CHANNELS);
    int rc = check_values(&conf->mean, "mean", t->channels, err);
    if (!rc)
        rc = check_values(&conf->std, "std", t->channels, err);
    if (!rc)
        rc = set_crop(s, conf, image, err);
    if (rc)
        return rc;
    for (int64_t c = 0; c < t->channels; c++) {
        t->mean[c] = (float)of_channel(&conf->mean, c, 0);
        t->gain[c] = (float)(conf->scale / of_channel(&conf->std, c, 1));
    }
    t->random_mirror = conf->mirror && s->training;
    image->dtype = SW_F32;
    return SW_OK;
}

static int choose_records(struct sw_source *s, const struct sw_data_conf *conf, struct sw_err *err)
{
    int rc =
        sw_subset_init(&s->subset, &conf->part, conf->part_seed, conf->streams, s->raw.count, err);
    if (!rc && conf->streams && s->shuffle)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "streams = %lld reads the records in their order, so shuffle must be no",
                        (long long)conf->streams);
    s->records = s->subset.count;
    s->streams = conf->streams;
    return rc;
}

static int open_records(struct sw_source *s, const struct sw_source_args *args, struct sw_err *err)
{
    struct sw_format_args how = {.conf = args->format_conf, .split = args->name};
    if (args->replaced)
        how.implied = args->replaced->implied;
    int rc = sw_records_open(&s->raw, args->format, &how, err);
    if (rc)
        return rc;
    if (s->raw.count < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: there are no records", s->raw.where);
    rc = choose_records(s, args->conf, err);
    if (rc)
        return rc;
    s->classes = s->raw.classes;
    s->field_count = s->raw.field_count;
    memcpy(s->field, s->raw.field, sizeof s->field);
    int image = sw_source_find(s, "image");
    return image < 0 ? SW_OK : set_transform(s, args->conf, &s->field[image], err);
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
    sw_records_close(&s->raw);
    sw_free(s);
}

int sw_source_find(const struct sw_source *s, const char *field)
{
    for (int f = 0; f < s->field_count; f++) {
        if (!strcmp(s->field[f].name, field))
            return f;
    }
    return -1;
}

int64_t sw_source_batches(const struct sw_source *s, int64_t batch)
{
    return s->records / batch + (s->records % batch != 0);
}

int64_t sw_source_steps(const struct sw_source *s, double epochs, int64_t batch)
{
    return (int64_t)ceil(epochs * (double)s->records / (double)batch);
}
