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

#define AT(member) offsetof(struct sw_data_conf, member)

const struct sw_opt sw_data_opts[] = {
    {.key = "fallback",
     .help = "when none of `paths` exists: formats, each with a path that may exist, or synthetic, "
             "which makes data that look alike",
     .offset = AT(fallback),
     .type = SW_OPT_STRING},
    {.key = "scale",
     .help = "factor applied last: input = (x - mean) / std * scale",
     .offset = AT(scale),
     .type = SW_OPT_REAL,
     .def = "1",
     .min = -1e6,
     .max = 1e6},
    {.key = "mean",
     .help = "subtracted first, in raw units: one value, or one per channel",
     .offset = AT(mean),
     .type = SW_OPT_REALS,
     .min = -1e6,
     .max = 1e6},
    {.key = "std",
     .help = "divides after the mean, in raw units: one value, or one per channel",
     .offset = AT(std),
     .type = SW_OPT_REALS,
     .min = 1e-6,
     .max = 1e6},
    {.key = "mean_image",
     .help = "file with a mean picture (.npy, or the tensor `mean` of a .safetensors), subtracted "
             "instead of `mean`",
     .offset = AT(mean_image),
     .type = SW_OPT_STRING},
    {.key = "whiten",
     .help =
         "file with tensors whiten.mean and whiten.matrix (.safetensors, made by `data stats`): "
         "ZCA whitening of the finished row",
     .offset = AT(whiten),
     .type = SW_OPT_STRING},
    {.key = "log1p",
     .help = "log(x + 1) before mean, std and scale, for counts",
     .offset = AT(log1p),
     .type = SW_OPT_BOOL,
     .def = "no"},
    {.key = "channels",
     .help = "channels that pictures are converted to: 1 grey, 3 colour; 0: as they are",
     .offset = AT(channels),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = SW_MAX_CHANNELS},
    {.key = "resize",
     .help = "in pixels: one number for the shorter side, or height and width",
     .offset = AT(resize),
     .type = SW_OPT_REALS,
     .min = 1,
     .max = 65535},
    {.key = "pad",
     .help = "pixels added on every side before cutting, of the value `mean`",
     .offset = AT(pad),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 4096},
    {.key = "crop",
     .help = "side of the square cut out, in pixels; 0 takes the whole picture",
     .offset = AT(crop),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 65535},
    {.key = "crop_method",
     .help = "where to cut; auto is random in training and centre elsewhere",
     .offset = AT(crop_method),
     .type = SW_OPT_ENUM,
     .def = "auto",
     .choices = crop_methods},
    {.key = "mirror",
     .help = "in training, turn every second picture at random left to right",
     .offset = AT(mirror),
     .type = SW_OPT_BOOL,
     .def = "no"},
    {.key = "brightness",
     .help = "in training, pixels times a random factor of 1 - v to 1 + v",
     .offset = AT(brightness),
     .type = SW_OPT_REAL,
     .def = "0",
     .min = 0,
     .max = 1},
    {.key = "contrast",
     .help =
         "in training, the distance from the picture's mean grey times a factor of 1 - v to 1 + v",
     .offset = AT(contrast),
     .type = SW_OPT_REAL,
     .def = "0",
     .min = 0,
     .max = 1},
    {.key = "saturation",
     .help = "in training, the distance from each pixel's grey times a factor of 1 - v to 1 + v",
     .offset = AT(saturation),
     .type = SW_OPT_REAL,
     .def = "0",
     .min = 0,
     .max = 1},
    {.key = "elastic_alpha",
     .help = "in training, elastic distortion (Simard 2003): strength in pixels, e.g. 34 for MNIST",
     .offset = AT(elastic_alpha),
     .type = SW_OPT_REAL,
     .def = "0",
     .min = 0,
     .max = 1000},
    {.key = "elastic_sigma",
     .help = "standard deviation of the Gaussian that smoothes the distortion, in pixels",
     .offset = AT(elastic_sigma),
     .type = SW_OPT_REAL,
     .def = "4",
     .min = 0.5,
     .max = 64},
    {.key = "shuffle",
     .help = "in training, a new order of the records in every epoch",
     .offset = AT(shuffle),
     .type = SW_OPT_BOOL,
     .def = "no"},
    {.key = "part",
     .help = "which records: from and to, as shares (0, 0.8) or numbers (0, 1500); empty: all",
     .offset = AT(part),
     .type = SW_OPT_REALS,
     .min = 0,
     .max = 1e15},
    {.key = "part_seed",
     .help = "mixes the records before `part` cuts them, the same for the same number; 0: as they "
             "lie",
     .offset = AT(part_seed),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 1e15},
    {.key = "streams",
     .help = "rows of a batch, each of which reads on where its last record ended; 0: none",
     .offset = AT(streams),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 1e9},
    {.key = "workers",
     .help = "threads that read and transform records",
     .offset = AT(workers),
     .type = SW_OPT_INT,
     .def = "1",
     .min = 1,
     .max = 256},
    {.key = "max_bytes",
     .help = "most bytes of memory for the content of a file: of a .gz or .npz inflated, of a text "
             "or table, and for the different words in it",
     .offset = AT(max_bytes),
     .type = SW_OPT_BYTES,
     .def = SW_BLOB_MAX_BYTES_TEXT,
     .min = 1,
     .max = 1e15},
    {.key = "max_pixels",
     .help = "most pixels of a picture; of a progressive JPEG, 20 times that in all its scans",
     .offset = AT(max_pixels),
     .type = SW_OPT_INT,
     .def = "100000000",
     .min = 1,
     .max = 4294836225},
    {.key = "prefetch",
     .help = "batches made ready ahead of the one in use",
     .offset = AT(prefetch),
     .type = SW_OPT_INT,
     .def = "2",
     .min = 1,
     .max = 1024},
    {0},
};
