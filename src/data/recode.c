/* Re-encodes images before they are stored: decodes them, resizes them with the transform used in
 * training, and encodes them as pixels, JPEG or PNG. An image that needs no change is passed
 * through. One thread. */
#include "data/recode.h"
#include "base/os.h"
#include "data/picture_write.h"
#include "data/transform.h"
#include <math.h>

struct sw_recoder {
    struct sw_recode_args args;
    struct sw_decoder *decoder; /* owned */
    struct sw_transform_work work;
    struct sw_room floats, pixels;
    struct sw_picture_bytes encoded;
    double sides[2]; /* storage of conf.resize */
    struct sw_data_conf conf;
};

static bool resizes(const struct sw_recode_args *a)
{
    return a->shorter || a->height;
}

bool sw_recode_is_needed(const struct sw_recode_args *a)
{
    return resizes(a) || a->form != SW_RECODE_SAME;
}

int sw_recoder_new(const struct sw_recode_args *a, struct sw_recoder **out, struct sw_err *err)
{
    struct sw_recoder *r = sw_calloc(1, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "an image recoder", sizeof *r);

    r->args = *a;
    r->sides[0] = (double)(a->shorter ? a->shorter : a->height);
    r->sides[1] = (double)a->width;
    r->conf.scale = 1;
    r->conf.resize = (struct sw_reals){r->sides, a->shorter ? 1 : 2};

    int rc = sw_decoder_new(&r->decoder, err);
    if (rc) {
        sw_recoder_free(r);
        return rc;
    }

    if (a->max_pixels)
        sw_decoder_limit(r->decoder, a->max_pixels);
    *out = r;

    return SW_OK;
}

void sw_recoder_free(struct sw_recoder *r)
{
    if (!r)
        return;

    sw_decoder_free(r->decoder);
    sw_transform_work_fini(&r->work);
    sw_room_fini(&r->floats);
    sw_room_fini(&r->pixels);
    sw_picture_bytes_fini(&r->encoded);
    sw_free(r);
}

/* ---- pixels ---- */

/* Gray with alpha becomes one channel; color with alpha, and CMYK, become three. */
static int64_t channels_of(const struct sw_recoder *r, const struct sw_picture *in,
                           const struct sw_picture_head *head)
{
    if (r->args.channels)
        return r->args.channels;
    if (!in->encoded)
        return head->channels;

    return head->channels <= 2 ? 1 : 3;
}

/* Rounds and clips to bytes. */
static int take_bytes(struct sw_recoder *r, const struct sw_transform *t, struct sw_picture *out,
                      struct sw_err *err)
{
    const int64_t count = t->channels * t->out_height * t->out_width;
    const float *x = (const float *)(const void *)r->floats.memory;
    int rc = sw_room_need(&r->pixels, (size_t)count, "a resized image", err);

    for (int64_t i = 0; !rc && i < count; i++)
        r->pixels.memory[i] = (unsigned char)lrintf(fminf(fmaxf(x[i], 0), 255));
    *out = (struct sw_picture){.data = r->pixels.memory,
                               .bytes = (size_t)count,
                               .channels = t->channels,
                               .height = t->out_height,
                               .width = t->out_width};

    return rc;
}

static int resize(struct sw_recoder *r, const struct sw_picture *in, struct sw_picture *out,
                  struct sw_err *err)
{
    const struct sw_philox none = {0};
    struct sw_transform t = {0};
    struct sw_picture_head head;
    struct sw_picture_part part;
    struct sw_pixels pixels;
    struct sw_view v;
    int64_t height = 0, width = 0;

    int rc = sw_decoder_open(r->decoder, in, &head, err);
    if (rc)
        return rc;

    const struct sw_transform_input input = {.channels = channels_of(r, in, &head),
                                             .height = head.height,
                                             .width = head.width,
                                             .first_height = head.height,
                                             .first_width = head.width};
    rc = sw_transform_init(&t, &r->conf, &input, err);
    if (rc)
        goto out;
    rc = sw_transform_view(&t, none, 0, head.height, head.width, &v, err);
    if (rc)
        goto out;

    sw_decoder_shrink(r->decoder, v.height, v.width, &height, &width);
    rc = sw_transform_need(&v, &r->work, height, width, &part, err);
    if (rc)
        goto out;
    rc = sw_decoder_read(r->decoder, t.channels, part, &pixels, err);
    if (rc)
        goto out;
    rc = sw_room_need(&r->floats, (size_t)(t.channels * t.out_height * t.out_width) * sizeof(float),
                      "a resized image", err);
    if (rc)
        goto out;
    rc = sw_transform_run(&t, &r->work, &v, &pixels, (float *)(void *)r->floats.memory, err);
    if (rc)
        goto out;

    rc = take_bytes(r, &t, out, err);

out:
    sw_transform_fini(&t);
    return rc;
}

/* ---- form ---- */

static enum sw_recode_form form_of(const struct sw_picture *in)
{
    if (!in->encoded)
        return SW_RECODE_PIXELS;
    return in->bytes > 0 && ((const unsigned char *)in->data)[0] == 0xff ? SW_RECODE_JPEG
                                                                         : SW_RECODE_PNG;
}

int sw_recode(struct sw_recoder *r, const struct sw_picture *in, struct sw_picture *out,
              struct sw_err *err)
{
    const enum sw_recode_form is = form_of(in);
    const enum sw_recode_form form = r->args.form == SW_RECODE_SAME ? is : r->args.form;
    struct sw_picture pixels;

    if (form == is && !resizes(&r->args) && !r->args.channels) {
        *out = *in; /* re-encoding a JPEG would only lose quality */
        return SW_OK;
    }

    int rc = resizes(&r->args)
                 ? resize(r, in, &pixels, err)
                 : sw_picture_decode(r->decoder, in, r->args.channels, &r->pixels, &pixels, err);
    if (rc)
        return rc;

    *out = pixels;
    if (form == SW_RECODE_PIXELS)
        return SW_OK;

    rc = form == SW_RECODE_JPEG ? sw_picture_write_jpeg(&pixels, r->args.quality, &r->encoded, err)
                                : sw_picture_write_png(&pixels, &r->encoded, err);
    *out = (struct sw_picture){.encoded = true, .data = r->encoded.data, .bytes = r->encoded.count};

    return rc;
}
