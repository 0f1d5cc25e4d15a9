/* The option table of [data] sections, and the line with which `check` describes an open source. */
#include "data/data.h"
#include "data/blob.h"
#include "data/source.h"
#include <string.h>

static const char *const crop_methods[] = {"auto", "random", "centre", NULL};

static void describe_shape(const struct sw_field *f, struct sw_bytes *out)
{
    for (int i = 0; i < f->ndim; i++)
        sw_bytes_printf(out, "%s%lld", i ? "x" : "", (long long)f->dim[i]);
}

/* The shape of the stored images, and the height and width of rows if they differ from it. */
static void describe_image(const struct sw_source *s, int image, struct sw_bytes *out)
{
    const struct sw_field *raw = &s->raw.field[image];
    const struct sw_transform *t = &s->transform;
    const bool any = s->raw.has_pictures && raw->dim[1] == 0;
    int64_t height = t->height, width = t->width;

    sw_transform_resized(t, &height, &width);

    const bool resized =
        any ? t->resize_shorter || t->resize_height : height != t->height || width != t->width;
    sw_bytes_add(out, " of ");

    if (any)
        sw_bytes_printf(out, "%lldx any size", (long long)raw->dim[0]);
    else
        describe_shape(raw, out);

    if (any || t->out_height != t->height || t->out_width != t->width)
        sw_bytes_printf(out, "%s %lldx%lld",
                        resized && t->crop ? " resized and cropped to"
                        : t->crop          ? " cropped to"
                                           : " resized to",
                        (long long)t->out_height, (long long)t->out_width);
}

void sw_data_describe(const struct sw_source *s, struct sw_bytes *out)
{
    int image = sw_source_find(s, "image");

    sw_bytes_printf(out, "%s, %lld ", s->raw.format->base.name, (long long)s->records);
    if (s->records < s->raw.count)
        sw_bytes_printf(out, "of %lld ", (long long)s->raw.count);
    sw_bytes_add(out, "records");
    if (image >= 0)
        describe_image(s, image, out);
    if (s->classes)
        sw_bytes_printf(out, ", %lld classes", (long long)s->classes);

    for (int f = 0; f < s->field_count; f++) {
        const struct sw_field *field = &s->field[f];
        if (f == image || (!strcmp(field->name, "label") && field->ndim == 0))
            continue;

        sw_bytes_printf(out, ", %s", field->name);
        if (field->ndim)
            sw_bytes_add(out, " of ");
        describe_shape(field, out);
    }

    sw_bytes_printf(out, ", %s", s->raw.where);
}

#define OPT(kind, member, ...) SW_OPT(kind, struct sw_data_conf, member, __VA_ARGS__)

const struct sw_opt sw_data_opts[] = {
    OPT(STRING, fallback,
        "used if none of `paths` exists: formats, each with a path to try, or synthetic, which "
        "generates similar data"),
    OPT(REAL, scale, "factor applied last: input = (x - mean) / std * scale", .def = "1",
        .min = -1e6, .max = 1e6),
    OPT(REALS, mean, "subtracted first, in raw units: one value, or one per channel", .min = -1e6,
        .max = 1e6),
    OPT(REALS, std, "divides after the mean, in raw units: one value, or one per channel",
        .min = 1e-6, .max = 1e6),
    OPT(PATH, mean_image,
        "file with a mean image (.npy, or the tensor `mean` of a .safetensors), subtracted "
        "instead of `mean`"),
    OPT(PATH, whiten,
        "file with tensors whiten.mean and whiten.matrix (.safetensors, made by `data stats`): ZCA "
        "whitening of the finished row"),
    OPT(BOOL, log1p, "log(x + 1) before mean, std and scale, for counts", .def = "no"),
    OPT(INT, channels, "channels that images are converted to: 1 gray, 3 color; 0: as stored",
        .def = "0", .min = 0, .max = SW_MAX_CHANNELS),
    OPT(REALS, resize, "in pixels: one number for the shorter side, or height and width", .min = 1,
        .max = 65535),
    OPT(INT, pad, "pixels added on every side before cropping, with the value `mean`", .def = "0",
        .min = 0, .max = 4096),
    OPT(INT, crop, "side of the square crop in pixels; 0: the whole image", .def = "0", .min = 0,
        .max = 65535),
    OPT(ENUM, crop_method, "where to crop; auto: random in training, else centre", .def = "auto",
        .choices = crop_methods),
    OPT(BOOL, mirror, "in training, flip half of the images left to right, chosen at random",
        .def = "no"),
    OPT(REAL, brightness, "in training, pixels times a random factor from 1 - v to 1 + v",
        .def = "0", .min = 0, .max = 1),
    OPT(REAL, contrast,
        "in training, the distance from the mean gray of the image times a factor from 1 - v to "
        "1 + v",
        .def = "0", .min = 0, .max = 1),
    OPT(REAL, saturation,
        "in training, the distance from the gray of each pixel times a factor from 1 - v to 1 + v",
        .def = "0", .min = 0, .max = 1),
    OPT(REAL, elastic_alpha,
        "in training, elastic distortion (Simard 2003): strength in pixels, e.g. 34 for MNIST",
        .def = "0", .min = 0, .max = 1000),
    OPT(REAL, elastic_sigma,
        "standard deviation of the Gaussian that smoothes the distortion, in pixels", .def = "4",
        .min = 0.5, .max = 64),
    OPT(BOOL, shuffle, "in training, a new random order of the records in every epoch",
        .def = "no"),
    OPT(REALS, part,
        "records to use: first and end, as fractions (0, 0.8) or numbers (0, 1500); empty: all",
        .min = 0, .max = 1e15),
    OPT(INT, part_seed,
        "seed of the permutation of the records from which `part` takes a range; 0: file order",
        .def = "0", .min = 0, .max = 1e15),
    OPT(INT, streams, "contiguous runs of records, one for each row of a batch; 0: none",
        .def = "0", .min = 0, .max = 1e9),
    OPT(PATH, class_names,
        "file with the names of the classes, one per line, in the order of their numbers"),
    OPT(INT, workers, "threads that read and transform records", .def = "1", .min = 1, .max = 256),
    OPT(BYTES, max_bytes,
        "memory limit for the content of a file: an inflated .gz or .npz, a text or table, and its "
        "distinct words",
        .def = SW_BLOB_MAX_BYTES_TEXT, .min = 1, .max = 1e15),
    OPT(INT, max_pixels,
        "limit for the pixels of an image; for a progressive JPEG 20 times that over all scans",
        .def = "100000000", .min = 1, .max = 4294836225),
    OPT(INT, prefetch, "batches prepared ahead of the one in use", .def = "2", .min = 1,
        .max = 1024),
    {0},
};
