/* Converts the keys of a [data] section to a struct sw_transform, and checks them against the
 * images. */
#include "base/os.h"
#include "data/spec.h"
#include "data/statistics.h"
#include "data/transform.h"
#include <math.h>
#include <string.h>

void sw_transform_fini(struct sw_transform *t)
{
    sw_free(t->mean_image);
    sw_free(t->whiten_mean);
    sw_free(t->whiten);
    *t = (struct sw_transform){0};
}

/* Value c of a list with zero values, one, or one per channel. */
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
                      "%s: %d values, expected one value or one for each of the %lld channels", key,
                      list->count, (long long)channels);
}

static int set_values(struct sw_transform *t, const struct sw_data_conf *conf, struct sw_err *err)
{
    if (t->channels > SW_MAX_CHANNELS)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "images have %lld channels; the limit is %d",
                          (long long)t->channels, SW_MAX_CHANNELS);

    int rc = check_values(&conf->mean, "mean", t->channels, err);
    if (!rc)
        rc = check_values(&conf->std, "std", t->channels, err);
    if (!rc && conf->mean_image && conf->mean.count)
        rc = sw_err_set(err, SW_ERR_INVALID, "mean and mean_image are both set; remove one");

    for (int64_t c = 0; !rc && c < t->channels; c++) {
        t->mean[c] = (float)of_channel(&conf->mean, c, 0);
        t->gain[c] = (float)(conf->scale / of_channel(&conf->std, c, 1));
    }

    return rc;
}

static int set_resize(struct sw_transform *t, const struct sw_data_conf *conf, struct sw_err *err)
{
    const struct sw_reals *r = &conf->resize;
    if (r->count > 2)
        return sw_err_set(err, SW_ERR_INVALID,
                          "resize: %d values, expected the shorter side, or height and width",
                          r->count);

    for (int i = 0; i < r->count; i++) {
        if (r->items[i] != floor(r->items[i]))
            return sw_err_set(err, SW_ERR_INVALID, "resize: %g is not an integer number of pixels",
                              r->items[i]);
    }

    if (r->count == 1)
        t->resize_shorter = (int64_t)r->items[0];

    if (r->count == 2) {
        t->resize_height = (int64_t)r->items[0];
        t->resize_width = (int64_t)r->items[1];
    }

    return SW_OK;
}

/* The size of rows. With crop it is that of the crop. Else it is the size of the images after
 * resizing and padding; if sizes vary and are not resized to one size, it is that of the first
 * image, and the others must match. */
static int set_size(struct sw_transform *t, const struct sw_data_conf *conf,
                    const struct sw_transform_input *in, struct sw_err *err)
{
    t->differ = in->height == 0;
    t->height = t->differ ? in->first_height : in->height;
    t->width = t->differ ? in->first_width : in->width;
    t->crop = conf->crop;
    t->pad = conf->pad;

    int64_t height = t->height, width = t->width;
    sw_transform_resized(t, &height, &width);
    height += 2 * t->pad;
    width += 2 * t->pad;
    t->out_height = t->crop ? t->crop : height;

    t->out_width = t->crop ? t->crop : width;
    if (t->crop > height || t->crop > width)
        return sw_err_set(err, SW_ERR_INVALID,
                          "crop = %lld exceeds the image size %lldx%lld (height x width)",
                          (long long)t->crop, (long long)height, (long long)width);

    if (t->crop && t->pad >= t->crop)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "pad = %lld: a crop of %lld could contain only padding; pad must be less than crop",
            (long long)t->pad, (long long)t->crop);

    if (t->out_height * t->out_width > SW_PICTURE_MAX_PIXELS)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "rows of %lldx%lld (height x width) exceed the limit of %d million pixels",
            (long long)t->out_height, (long long)t->out_width, SW_PICTURE_MAX_PIXELS / 1000000);

    return SW_OK;
}

static void set_random(struct sw_transform *t, const struct sw_data_conf *conf, bool training)
{
    t->random_crop = t->crop && (conf->crop_method == SW_CROP_RANDOM ||
                                 (conf->crop_method == SW_CROP_AUTO && training));
    t->random_mirror = conf->mirror && training;
    if (!training)
        return;

    t->brightness = (float)conf->brightness;
    t->contrast = (float)conf->contrast;
    t->saturation = (float)conf->saturation;
    t->elastic_alpha = (float)conf->elastic_alpha;
    t->elastic_sigma = (float)conf->elastic_sigma;
}

/* Copies `count` values; NULL when memory is exhausted. */
static float *copy(const float *values, int64_t count)
{
    float *out = sw_calloc((size_t)count, sizeof *out);
    if (out)
        memcpy(out, values, (size_t)count * sizeof *out);
    return out;
}

/* Takes the mean image of a trained net, or reads the file. */
static int read_mean_image(struct sw_transform *t, const struct sw_data_conf *conf,
                           const struct sw_data_spec *spec, struct sw_err *err)
{
    if (!spec || !spec->mean_image || spec->raw[0] != t->channels) {
        int rc = sw_statistics_mean(conf->mean_image, t->channels, &t->mean_image, &t->mean_height,
                                    &t->mean_width, err);
        return rc ? sw_err_prefix(err, rc, "mean_image") : SW_OK;
    }

    t->mean_height = spec->mean_height;
    t->mean_width = spec->mean_width;
    t->mean_image = copy(spec->mean_image, t->channels * t->mean_height * t->mean_width);
    return t->mean_image ? SW_OK : sw_err_nomem(err, "the mean image", 0);
}

/* A mean image has the size of the row, or of all images before cropping. */
static int set_mean_image(struct sw_transform *t, const struct sw_data_conf *conf,
                          const struct sw_data_spec *spec, struct sw_err *err)
{
    int64_t height = t->height, width = t->width;

    if (!conf->mean_image)
        return SW_OK;

    int rc = read_mean_image(t, conf, spec, err);
    if (rc)
        return rc;

    const bool of_row = t->mean_height == t->out_height && t->mean_width == t->out_width;
    sw_transform_resized(t, &height, &width);

    const bool alike = (!t->differ || t->resize_height) && !t->pad;
    if (of_row || (alike && t->mean_height == height && t->mean_width == width))
        return SW_OK;

    return sw_err_set(
        err, SW_ERR_INVALID,
        "mean_image: %s is %lldx%lld (height x width), expected %lldx%lld, the size of rows",
        conf->mean_image, (long long)t->mean_height, (long long)t->mean_width,
        (long long)t->out_height, (long long)t->out_width);
}

/* A square matrix of this size has 1 GiB. */
enum { MOST_WHITENED = 16384 };

static int set_whitening(struct sw_transform *t, const struct sw_data_conf *conf,
                         const struct sw_data_spec *spec, struct sw_err *err)
{
    const int64_t count = t->channels * t->out_height * t->out_width;

    if (!conf->whiten)
        return SW_OK;
    if (count > MOST_WHITENED)
        return sw_err_set(err, SW_ERR_INVALID, "whiten: rows have %lld values; the limit is %d",
                          (long long)count, MOST_WHITENED);

    if (spec && spec->whiten && spec->whitened == count) {
        t->whiten_mean = copy(spec->whiten_mean, count);
        t->whiten = copy(spec->whiten, count * count);
        return t->whiten_mean && t->whiten ? SW_OK : sw_err_nomem(err, "a whitening matrix", 0);
    }

    int rc = sw_statistics_whiten(conf->whiten, count, &t->whiten_mean, &t->whiten, err);
    return rc ? sw_err_prefix(err, rc, "whiten") : SW_OK;
}

int sw_transform_init(struct sw_transform *t, const struct sw_data_conf *conf,
                      const struct sw_transform_input *in, struct sw_err *err)
{
    *t = (struct sw_transform){.channels = in->channels, .log1p = conf->log1p};

    int rc = set_values(t, conf, err);
    if (rc)
        return rc;
    rc = set_resize(t, conf, err);
    if (rc)
        return rc;
    rc = set_size(t, conf, in, err);
    if (rc)
        return rc;

    set_random(t, conf, in->training);
    rc = set_mean_image(t, conf, in->spec, err);
    return rc ? rc : set_whitening(t, conf, in->spec, err);
}
