/* Uploading the next batch to a device with its own memory: a buffer there, a stream that copies,
 * and two events, so that neither the host nor the compute stream waits for the other's work. A
 * batch is copied after the net has taken the previous one, and taken after it has arrived. */
#include "worker/input.h"
#include "worker/worker.h"

#include "base/os.h"
#include "kernels/ops/pixels.h"

struct sw_input {
    const struct sw_worker *w; /* borrowed */
    struct sw_stream *stream;  /* owned */
    struct sw_event *arrived;  /* owned: the batch is in `memory` */
    struct sw_event *taken;    /* owned: the net has it, and `memory` may be overwritten */
    void *memory;              /* owned device memory: a batch, then the mean image */
    size_t bytes, batch_bytes;
    struct sw_pixels_args finish; /* of the image field, with the mean image on the device */
};

static size_t mean_bytes(const struct sw_source *source)
{
    struct sw_pixels_args a;

    if (!source->pixels_bytes)
        return 0;

    sw_source_pixels(source, &a);
    return a.mean_image ? (size_t)(a.channels * a.mean_height * a.mean_width) * sizeof *a.mean_image
                        : 0;
}

size_t sw_input_bytes(const struct sw_worker *w)
{
    struct sw_prefetch_args args;

    if (w->device->host_memory || !w->shared.data->source[SW_SPLIT_TRAIN])
        return 0;

    sw_worker_prefetch_args(w, SW_SPLIT_TRAIN, &args);
    return sw_prefetch_batch_bytes(&args) + mean_bytes(args.source);
}

/* Prepares the operation that finishes images on the device. */
static int prepare_finish(struct sw_input *in, const struct sw_source *source, struct sw_err *err)
{
    const size_t bytes = mean_bytes(source);

    in->batch_bytes = in->bytes - bytes;
    if (!source->pixels_bytes)
        return SW_OK;

    sw_source_pixels(source, &in->finish);
    if (bytes == 0)
        return SW_OK;

    const float *mean = in->finish.mean_image;
    float *on_device = (float *)(void *)((char *)in->memory + in->batch_bytes);
    in->finish.mean_image = on_device;

    int rc = sw_copy(in->stream, on_device, mean, bytes, err);
    return rc == SW_OK ? sw_stream_wait(in->stream, err) : rc;
}

/* Makes the net's field f from the batch on the device, which begins at `at`. */
static int set_field(struct sw_input *in, const struct sw_source *source, int f, char *at,
                     struct sw_err *err)
{
    struct sw_microbatches *nets = in->w->microbatches[SW_SPLIT_TRAIN];
    const char *name = source->field[f].name;

    if (!source->pixels_bytes || f != sw_source_find(source, "image"))
        return sw_microbatches_set_field(nets, name, at, err);

    in->finish.x = (const unsigned char *)at;
    return sw_microbatches_set_pixels(nets, name, &in->finish, err);
}

int sw_input_new(const struct sw_worker *w, struct sw_input **out, struct sw_err *err)
{
    struct sw_device *dev = w->device;
    struct sw_input *in = sw_calloc(1, sizeof *in);

    if (!in)
        return sw_err_nomem(err, "the next batch", sizeof *in);

    in->w = w;
    in->bytes = sw_input_bytes(w);

    int rc = sw_device_alloc(dev, in->bytes, "the next batch", &in->memory, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_event_new(dev, &in->arrived, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_event_new(dev, &in->taken, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_stream_new(dev, 1, &in->stream, err);
    if (rc != SW_OK)
        goto out;

    rc = prepare_finish(in, w->shared.data->source[SW_SPLIT_TRAIN], err);
    if (rc != SW_OK)
        goto out;

    sw_stream_name(in->stream, "input");
    sw_device_name(dev, in->memory, in->bytes, "the next batch");
    *out = in;
    return SW_OK;

out:
    sw_input_free(in);
    return rc;
}

void sw_input_free(struct sw_input *in)
{
    if (!in)
        return;

    sw_stream_free(in->stream);
    sw_event_free(in->w->device, in->arrived);
    sw_event_free(in->w->device, in->taken);
    sw_device_free(in->w->device, in->memory, in->bytes);
    sw_free(in);
}

int sw_input_start(struct sw_input *in, const struct sw_batch *batch, struct sw_err *err)
{
    int rc = sw_event_wait(in->stream, in->taken, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_copy(in->stream, in->memory, batch->memory, in->batch_bytes, err);
    if (rc != SW_OK)
        return rc;

    return sw_event_record(in->stream, in->arrived, err);
}

int sw_input_take(struct sw_input *in, const struct sw_batch *batch, struct sw_err *err)
{
    const struct sw_worker *w = in->w;
    const struct sw_source *source = w->shared.data->source[SW_SPLIT_TRAIN];

    int rc = sw_event_wait(w->stream, in->arrived, err);
    if (rc != SW_OK)
        return rc;

    for (int f = 0; f < source->field_count; f++) {
        ptrdiff_t at = (char *)batch->field[f] - (char *)batch->memory;
        rc = set_field(in, source, f, (char *)in->memory + at, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_event_record(w->stream, in->taken, err);
}

/* Does not wait for the prefetch threads: a batch that is not ready yet is uploaded in its own
 * step. */
int sw_input_start_next(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    bool next = w->batches.input && t < w->shared.span->steps;

    if (!next || !sw_prefetch_is_ready(w->batches.prefetch[SW_SPLIT_TRAIN]))
        return SW_OK;

    int rc = sw_worker_next_batch(w, SW_SPLIT_TRAIN, &w->batches.ahead, err);
    if (rc == SW_OK)
        rc = sw_input_start(w->batches.input, &w->batches.ahead, err);
    w->batches.is_ahead = rc == SW_OK;

    return rc;
}
