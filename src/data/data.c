/* The keys that every [data] section has, and the line by which `check` describes an open source.
 */
#include "data/data.h"
#include "data/blob.h"
#include "data/source.h"
#include <string.h>

static const char *const crop_methods[] = {"auto", "random", "centre", NULL};

static void describe_shape(const struct sw_field *f, struct sw_buf *out)
{
    for (int i = 0; i < f->ndim; i++)
        sw_buf_printf(out, "%s%lld", i ? "x" : "", (long long)f->dim[i]);
}

/* Pictures as they come, and the sides of rows where those are others. */
static void describe_image(const struct sw_source *s, int image, struct sw_buf *out)
{
    const struct sw_field *raw = &s->raw.field[image];
    const struct sw_transform *t = &s->transform;
    const bool any = s->raw.has_pictures && raw->dim[1] == 0;
    int64_t height = t->height, width = t->width;
    sw_transform_resized(t, &height, &width);
    const bool resized =
        any ? t->resize_shorter || t->resize_height : height != t->height || width != t->width;
    sw_buf_add(out, " of ");
    if (any)
        sw_buf_printf(out, "%lldx any size", (long long)raw->dim[0]);
    else
        describe_shape(raw, out);
    if (any || t->out_height != t->height || t->out_width != t->width)
        sw_buf_printf(out, "%s %lldx%lld",
                      resized && t->crop ? " resized and cut to"
                      : t->crop          ? " cut to"
                                         : " made",
                      (long long)t->out_height, (long long)t->out_width);
}

void sw_data_describe(const struct sw_source *s, struct sw_buf *out)
{
    int image = sw_source_find(s, "image");
    sw_buf_printf(out, "%s, %lld ", s->raw.format->base.name, (long long)s->records);
    if (s->records < s->raw.count)
        sw_buf_printf(out, "of %lld ", (long long)s->raw.count);
    sw_buf_add(out, "records");
    if (image >= 0)
        describe_image(s, image, out);
    if (s->classes)
        sw_buf_printf(out, ", %lld classes", (long long)s->classes);
    for (int f = 0; f < s->field_count; f++) {
        const struct sw_field *field = &s->field[f];
        if (f == image || (!strcmp(field->name, "label") && field->ndim == 0))
            continue;
        sw_buf_printf(out, ", %s", field->name);
        if (field->ndim)
            sw_buf_add(out, " of ");
        describe_shape(field, out);
    }
    sw_buf_printf(out, ", %s", s->raw.where);
}

#define OPT(kind, member, ...) SW_OPT(kind, struct sw_data_conf, member, __VA_ARGS__)

const struct sw_opt sw_data_opts[] = {
    OPT(STRING, fallback,
        "when none of `paths` exists: formats, each with a path that may exist, or synthetic, "
        "which makes data that look alike"),
    OPT(REAL, scale, "factor applied last: input = (x - mean) / std * scale", .def = "1",
        .min = -1e6, .max = 1e6),
    OPT(REALS, mean, "subtracted first, in raw units: one value, or one per channel", .min = -1e6,
        .max = 1e6),
    OPT(REALS, std, "divides after the mean, in raw units: one value, or one per channel",
        .min = 1e-6, .max = 1e6),
    OPT(STRING, mean_image,
        "file with a mean picture (.npy, or the tensor `mean` of a .safetensors), subtracted "
        "instead of `mean`"),
    OPT(STRING, whiten,
        "file with tensors whiten.mean and whiten.matrix (.safetensors, made by `data stats`): ZCA "
        "whitening of the finished row"),
    OPT(BOOL, log1p, "log(x + 1) before mean, std and scale, for counts", .def = "no"),
    OPT(INT, channels, "channels that pictures are converted to: 1 grey, 3 colour; 0: as they are",
        .def = "0", .min = 0, .max = SW_MAX_CHANNELS),
    OPT(REALS, resize, "in pixels: one number for the shorter side, or height and width", .min = 1,
        .max = 65535),
    OPT(INT, pad, "pixels added on every side before cutting, of the value `mean`", .def = "0",
        .min = 0, .max = 4096),
    OPT(INT, crop, "side of the square cut out, in pixels; 0 takes the whole picture", .def = "0",
        .min = 0, .max = 65535),
    OPT(ENUM, crop_method, "where to cut; auto is random in training and centre elsewhere",
        .def = "auto", .choices = crop_methods),
    OPT(BOOL, mirror, "in training, turn every second picture at random left to right",
        .def = "no"),
    OPT(REAL, brightness, "in training, pixels times a random factor of 1 - v to 1 + v", .def = "0",
        .min = 0, .max = 1),
    OPT(REAL, contrast,
        "in training, the distance from the picture's mean grey times a factor of 1 - v to 1 + v",
        .def = "0", .min = 0, .max = 1),
    OPT(REAL, saturation,
        "in training, the distance from each pixel's grey times a factor of 1 - v to 1 + v",
        .def = "0", .min = 0, .max = 1),
    OPT(REAL, elastic_alpha,
        "in training, elastic distortion (Simard 2003): strength in pixels, e.g. 34 for MNIST",
        .def = "0", .min = 0, .max = 1000),
    OPT(REAL, elastic_sigma,
        "standard deviation of the Gaussian that smoothes the distortion, in pixels", .def = "4",
        .min = 0.5, .max = 64),
    OPT(BOOL, shuffle, "in training, a new order of the records in every epoch", .def = "no"),
    OPT(REALS, part,
        "which records: from and to, as shares (0, 0.8) or numbers (0, 1500); empty: all", .min = 0,
        .max = 1e15),
    OPT(INT, part_seed,
        "mixes the records before `part` cuts them, the same for the same number; 0: as they lie",
        .def = "0", .min = 0, .max = 1e15),
    OPT(INT, streams,
        "rows of a batch, each of which reads on where its last record ended; 0: none", .def = "0",
        .min = 0, .max = 1e9),
    OPT(INT, workers, "threads that read and transform records", .def = "1", .min = 1, .max = 256),
    OPT(BYTES, max_bytes,
        "most bytes of memory for the content of a file: of a .gz or .npz inflated, of a text or "
        "table, and for the different words in it",
        .def = SW_BLOB_MAX_BYTES_TEXT, .min = 1, .max = 1e15),
    OPT(INT, max_pixels,
        "most pixels of a picture; of a progressive JPEG, 20 times that in all its scans",
        .def = "100000000", .min = 1, .max = 4294836225),
    OPT(INT, prefetch, "batches made ready ahead of the one in use", .def = "2", .min = 1,
        .max = 1024),
    {0},
};
