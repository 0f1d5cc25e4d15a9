/* Continues a series of frames: each predicted frame becomes the newest one of the past. */
#include "infer/sample_series.h"
#include "run/job_private.h"

#include "base/os.h"
#include "base/philox.h"
#include "checkpoint/checkpoint.h"
#include "data/scaling.h"
#include "data/source.h"
#include "infer/inference.h"
#include "run/job_data.h"
#include "run/standardize.h"
#include <string.h>

enum { PAST, LAST, FRAME, FIELDS };

static const char *const field_names[] = {"past", "last", "frame"};

/* A field that the net reads: the past, its last frame, or the frame to predict, which must not
 * matter: layers that read it may own parameters that the prediction shares. */
struct input {
    const char *name;
    float *row; /* owned: as the net reads it */
    int64_t count;
    struct sw_scaling scaling; /* count 0: none */
};

struct series {
    const struct sw_series_args *args;
    struct sw_inference net;
    struct input input[FIELDS];
    const char *names[FIELDS]; /* of the inputs */
    int inputs;
    float *past; /* owned [order, width], in the units of the data */
    int64_t order, width;
    struct sw_room room;
};

/* Which of field_names the name is, or -1. */
static int field_of(const char *name)
{
    for (int f = 0; f < FIELDS; f++)
        if (sw_str_eq(name, field_names[f]))
            return f;
    return -1;
}

static int find_fields(const struct sw_job *job, const char **layer, const char **names, int *count,
                       struct sw_err *err)
{
    int rc = sw_inference_choose(job->recipe, *layer, layer, err);
    if (rc != SW_OK)
        return rc;
    return sw_net_fields(job->recipe, false, *layer, names, SW_MAX_FIELDS, count, err);
}

bool sw_job_reads_series(const struct sw_job *job, const char *layer)
{
    const char *names[SW_MAX_FIELDS];
    struct sw_err ignored; /* whoever uses the net reports it */
    int count = 0;

    if (find_fields(job, &layer, names, &count, &ignored) != SW_OK)
        return false;
    for (int i = 0; i < count; i++)
        if (field_of(names[i]) < 0)
            return false;

    return sw_inference_depends_on(job->recipe, layer, "past") &&
           !sw_inference_depends_on(job->recipe, layer, "frame");
}

/* ---- The first past ---- */

static int copy_past(struct series *s, const struct sw_source *source, int f, struct sw_err *err)
{
    const struct sw_field *field = &source->field[f];
    const struct sw_records *raw = &source->raw;
    const void *row;

    if (s->args->start >= raw->count)
        return sw_err_set(err, SW_ERR_INVALID, "--start %lld: %s has %lld records",
                          (long long)s->args->start, raw->where, (long long)raw->count);

    s->order = field->dim[0];
    s->width = field->dim[1];
    s->past = sw_calloc((size_t)(s->order * s->width), sizeof *s->past);
    if (!s->past)
        return sw_err_nomem(err, "past frames", sw_field_bytes(field));

    int rc = sw_room_need(&s->room, sw_field_bytes(field), "past frames", err);
    if (rc != SW_OK)
        return rc;
    rc = raw->format->fetch(raw, s->args->start, f, s->room.memory, &row, err);
    if (rc == SW_OK)
        memcpy(s->past, row, sw_field_bytes(field));

    return rc;
}

static int open_data(struct series *s, struct sw_job *job, struct sw_err *err)
{
    const int split = sw_job_find_split(job, SW_SPLIT_EVAL) ? SW_SPLIT_EVAL : SW_SPLIT_TRAIN;
    const struct sw_section *section = sw_job_find_split(job, split);

    if (!section)
        return sw_err_set(err, SW_ERR_NOTFOUND, "the recipe has no section with a series");

    int rc = sw_job_read_spec(job, s->args->weights, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_open_split(job, split, section, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_source *source = job->data.source[split];
    const int f = sw_source_find(source, "past");
    if (f < 0 || source->field[f].ndim != 2 || source->field[f].dtype != SW_F32)
        return sw_err_set(err, SW_ERR_INVALID,
                          "data %s: not a series, so it has no past frames to continue "
                          "(format = series has them)",
                          source->name);

    return copy_past(s, source, f, err);
}

/* ---- The net ---- */

static int add_input(struct series *s, const struct sw_job *job, const struct sw_st_file *weights,
                     const char *name, struct sw_err *err)
{
    struct input *in = &s->input[s->inputs];

    s->names[s->inputs++] = in->name = name;
    in->count = field_of(name) == PAST ? s->order * s->width : s->width;
    in->row = sw_calloc((size_t)in->count, sizeof *in->row);
    if (!in->row)
        return sw_err_nomem(err, "frames", (size_t)in->count * sizeof *in->row);

    return sw_standardize_from(job->recipe, name, in->count, "the series", weights, &in->scaling,
                               err);
}

static int add_inputs(struct series *s, const struct sw_job *job, const char *const *names,
                      int count, struct sw_err *err)
{
    struct sw_st_file *weights = NULL;
    int rc = sw_checkpoint_open(s->args->weights, &weights, err);

    for (int i = 0; i < count && rc == SW_OK; i++) {
        if (field_of(names[i]) < 0)
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "the net reads the field %s: a series is continued by a net that reads "
                            "only past and last",
                            names[i]);
        else
            rc = add_input(s, job, weights, names[i], err);
    }

    sw_st_close(weights);
    return rc;
}

static int check_layer(const struct sw_job *job, const char *layer, struct sw_err *err)
{
    return sw_inference_depends_on(job->recipe, layer, "frame")
               ? sw_err_set(err, SW_ERR_INVALID,
                            "layer %s depends on frame, the one to predict: a series is continued "
                            "from past and last",
                            layer)
               : SW_OK;
}

static int open_net(struct series *s, struct sw_job *job, int64_t *step, struct sw_err *err)
{
    const char *names[SW_MAX_FIELDS], *layer = s->args->layer;
    struct sw_net_field fields[FIELDS];
    int count = 0;

    int rc = find_fields(job, &layer, names, &count, err);
    if (rc != SW_OK)
        return rc;
    rc = check_layer(job, layer, err);
    if (rc != SW_OK)
        return rc;
    rc = add_inputs(s, job, names, count, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < s->inputs; i++) {
        const bool past = field_of(s->names[i]) == PAST;
        const int64_t dim[] = {1, past ? s->order : s->width, s->width};
        fields[i] = (struct sw_net_field){.name = s->names[i],
                                          .desc = sw_desc_plain(SW_F32, past ? 3 : 2, dim)};
    }

    const struct sw_inference_args args = {.layer = layer,
                                           .weights = s->args->weights,
                                           .rows = 1,
                                           .fields = fields,
                                           .field_count = s->inputs,
                                           .source = "a series, frame by frame",
                                           .keep_state = true};
    rc = sw_inference_begin(&s->net, job->workers, job->recipe, &args, step, err);
    if (rc != SW_OK)
        return rc;

    const int64_t values = sw_desc_count(&sw_inference_layer(&s->net)->dst.desc);
    return values == s->width
               ? SW_OK
               : sw_err_set(err, SW_ERR_INVALID, "layer %s gives %lld values, but a frame has %lld",
                            layer, (long long)values, (long long)s->width);
}

/* ---- Frames ---- */

static int fill_inputs(struct series *s, struct sw_err *err)
{
    const int64_t all = s->order * s->width;
    int rc = SW_OK;

    for (int i = 0; i < s->inputs && rc == SW_OK; i++) {
        struct input *in = &s->input[i];

        memcpy(in->row, s->past + all - in->count, (size_t)in->count * sizeof *in->row);
        if (in->scaling.count)
            rc = sw_scaling_apply(&in->scaling, &s->room, in->row, err);
    }

    return rc;
}

/* Predicts frame t, and makes it the newest one of the past. */
static int next_frame(struct series *s, int64_t t, struct sw_err *err)
{
    const int64_t rest = (s->order - 1) * s->width;
    const float *frame;
    void *data[FIELDS];

    int rc = fill_inputs(s, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < s->inputs; i++)
        data[i] = s->input[i].row;
    /* Mixed, so that every bit of the seed counts, and passes of two seeds overlap only by chance.
     */
    const struct sw_inference_input input = {.names = s->names,
                                             .data = data,
                                             .count = s->inputs,
                                             .valid = 1,
                                             .sequences_begin = t == 0,
                                             .pass = sw_mix64(s->args->seed) + (uint64_t)t};
    rc = sw_inference_pass(&s->net, &input, &frame, err);
    if (rc != SW_OK)
        return rc;

    memmove(s->past, s->past + s->width, (size_t)rest * sizeof *s->past);
    memcpy(s->past + rest, frame, (size_t)s->width * sizeof *s->past);
    return SW_OK;
}

static void end(struct series *s)
{
    sw_inference_end(&s->net);
    for (int i = 0; i < s->inputs; i++) {
        sw_scaling_fini(&s->input[i].scaling);
        sw_free(s->input[i].row);
    }
    sw_room_fini(&s->room);
    sw_free(s->past);
}

int sw_job_sample_series(struct sw_job *job, const struct sw_series_args *args, sw_frame_sink *sink,
                         void *user, int64_t *step, struct sw_err *err)
{
    struct series s = {.args = args};
    int rc = open_data(&s, job, err);

    if (rc == SW_OK)
        rc = open_net(&s, job, step, err);
    for (int64_t t = 0; t < args->frames && rc == SW_OK; t++) {
        rc = next_frame(&s, t, err);
        if (rc == SW_OK)
            rc = sink(user, s.past + (s.order - 1) * s.width, s.width, err);
    }

    end(&s);
    return rc;
}
