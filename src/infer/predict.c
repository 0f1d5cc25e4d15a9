/* Prediction: reads batches from a data section or from .npy arrays, runs them through the net, and
 * passes the rows of the layer's activation to the sink. */
#include "infer/predict.h"
#include "run/job_private.h"
#include "worker/worker.h"
#include "worker/worker_setup.h"

#include "base/str.h"
#include "infer/inference.h"
#include "tensor/npy.h"
#include <string.h>

enum { ALIGN = 64 };

/* An array used in place of a data field. */
struct input {
    const char *field; /* borrowed */
    struct sw_npy_file file;
    struct sw_net_field desc; /* with the rows of a pass */
    void *memory;             /* owned: one batch, aligned */
    size_t row_bytes;
};

struct predictor {
    struct sw_job *job;
    struct sw_worker *w;
    const struct sw_predict_args *args;
    const char *layer;
    struct input inputs[SW_MAX_FIELDS];
    int input_count;
    int64_t batch, records; /* rows of a pass, and in total */
    int64_t passes;         /* done */
    int64_t picture[3];     /* as in struct sw_predict_info */
    struct sw_inference net;
};

/* ---- data: arrays ---- */

static enum sw_dtype field_type(const char *field, const struct sw_npy_header *h)
{
    bool real = h->dtype == SW_NPY_F4 || h->dtype == SW_NPY_F8 || h->dtype == SW_NPY_B1;
    if (sw_str_eq(field, "label"))
        return sw_npy_row_elements(h) == 1 ? SW_I32 : SW_F32;
    return real || sw_str_eq(field, "image") ? SW_F32 : SW_I32;
}

/* Appends the keys of a section that transform pixels. */
static void name_changes(const struct sw_data_conf *c, struct sw_bytes *out)
{
    const struct {
        const char *key;
        bool is_set;
    } keys[] = {{"log1p", c->log1p},
                {"mean", c->mean.count > 0},
                {"mean_image", c->mean_image != NULL},
                {"std", c->std.count > 0},
                {"scale", c->scale != 1},
                {"whiten", c->whiten != NULL}};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].is_set)
            sw_bytes_printf(out, "%s%s", out->length ? ", " : "", keys[i].key);
}

/* Integers would be raw pixels, but arrays go to the net without transforms. */
static int check_pixels(const struct predictor *p, const char *path, const struct sw_npy_header *h,
                        struct sw_err *err)
{
    const struct sw_section *s = sw_job_find_split(p->job, SW_SPLIT_EVAL);
    struct sw_bytes keys = {0};
    int rc = SW_OK;

    if (h->dtype == SW_NPY_F4 || h->dtype == SW_NPY_F8)
        return SW_OK;

    s = s ? s : sw_job_find_split(p->job, SW_SPLIT_TRAIN);
    if (s)
        name_changes(s->common, &keys);

    if (keys.length)
        rc = sw_err_set(
            err, SW_ERR_INVALID,
            "--input %s: its values are integers (%s), but %s transforms pixels with %s, which is "
            "not applied to arrays: pass the transformed values as float32, or read the file in a "
            "data section (format = npy) and select that with --split",
            path, sw_npy_dtype_name(h->dtype), s->title, sw_bytes_text(&keys));

    sw_bytes_fini(&keys);
    return rc;
}

static int open_array(struct predictor *p, const char *field, const char *path, struct sw_err *err)
{
    struct input *in = &p->inputs[p->input_count];
    int64_t dim[SW_MAX_DIMS];

    int rc = sw_npy_open(&in->file, path, err);
    if (rc != SW_OK)
        return rc;

    p->input_count++;

    const struct sw_npy_header *h = &in->file.header;
    if (h->ndim < 1 || h->ndim > SW_MAX_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %d dimensions; expected rows and at most %d more", path, h->ndim,
                          SW_MAX_DIMS - 1);

    if (sw_str_eq(field, "image"))
        rc = check_pixels(p, path, h, err);
    if (rc != SW_OK)
        return rc;
    if (p->input_count > 1 && sw_npy_rows(h) != p->records)
        return sw_err_set(err, SW_ERR_FORMAT, "%s has %lld rows, but %s has %lld", path,
                          (long long)sw_npy_rows(h), p->inputs[0].file.path, (long long)p->records);
    if (sw_npy_rows(h) < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: the file has no rows", path);

    p->records = sw_npy_rows(h);
    p->batch = p->job->conf->eval_batch < p->records ? p->job->conf->eval_batch : p->records;

    enum sw_dtype type = field_type(field, h);
    int ndim = sw_str_eq(field, "label") && type == SW_I32 ? 1 : h->ndim;
    memcpy(dim, h->shape, sizeof dim);
    dim[0] = p->batch;
    in->field = field;
    in->desc = (struct sw_net_field){.name = field, .desc = sw_desc_plain(type, ndim, dim)};
    in->row_bytes = sw_desc_bytes(&in->desc.desc) / (size_t)p->batch;

    return sw_device_alloc(p->job->place.host, sw_desc_bytes(&in->desc.desc) + ALIGN, "a batch",
                           &in->memory, err);
}

/* The field of an --input without one. */
static int only_field(struct predictor *p, const char *path, const char **field, struct sw_err *err)
{
    const char *names[SW_MAX_FIELDS];
    struct sw_bytes list = {0};
    int count;

    int rc = sw_net_fields(p->job->recipe, false, p->layer, names, SW_MAX_FIELDS, &count, err);
    if (rc != SW_OK)
        return rc;

    *field = names[0];
    if (count == 1)
        return SW_OK;

    for (int i = 0; i < count; i++)
        sw_bytes_printf(&list, "%s%s", i ? ", " : "", names[i]);
    sw_err_set(err, SW_ERR_INVALID,
               "--input %s: layer %s needs several fields (%s): write "
               "--input FIELD=FILE for each",
               path, p->layer, sw_bytes_text(&list));
    sw_bytes_fini(&list);

    return SW_ERR_INVALID;
}

static int check_fields(struct predictor *p, struct sw_err *err)
{
    const char *names[SW_MAX_FIELDS];
    int count;
    int rc = sw_net_fields(p->job->recipe, false, p->layer, names, SW_MAX_FIELDS, &count, err);

    for (int i = 0; i < count && rc == SW_OK; i++) {
        bool given = false;

        for (int k = 0; k < p->input_count; k++)
            given |= sw_str_eq(p->inputs[k].field, names[i]);

        if (!given)
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "layer %s also needs the field %s: add --input %s=FILE", p->layer,
                            names[i], names[i]);
    }

    for (int k = 0; k < p->input_count && rc == SW_OK; k++) {
        bool wanted = false;

        for (int i = 0; i < count; i++)
            wanted |= sw_str_eq(p->inputs[k].field, names[i]);

        for (int i = 0; i < k; i++)
            if (sw_str_eq(p->inputs[k].field, p->inputs[i].field))
                rc = sw_err_set(err, SW_ERR_INVALID, "--input: %s is given twice",
                                p->inputs[k].field);

        if (rc == SW_OK && !wanted)
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "--input %s=...: nothing that leads to layer %s reads this field",
                            p->inputs[k].field, p->layer);
    }

    return rc;
}

static int open_arrays(struct predictor *p, struct sw_err *err)
{
    int rc = SW_OK;

    if (p->args->input_count > SW_MAX_FIELDS)
        return sw_err_set(err, SW_ERR_INVALID, "--input: at most %d fields", SW_MAX_FIELDS);

    for (int i = 0; i < p->args->input_count && rc == SW_OK; i++) {
        const struct sw_predict_input *in = &p->args->inputs[i];
        const char *field = in->field;

        if (!field)
            rc = only_field(p, in->path, &field, err);
        if (rc == SW_OK)
            rc = open_array(p, field, in->path, err);
    }

    return rc == SW_OK ? check_fields(p, err) : rc;
}

/* ---- data: a split ---- */

static int open_split(struct predictor *p, struct sw_err *err)
{
    struct sw_job *job = p->job;
    const struct sw_section *section = p->args->split
                                           ? sw_recipe_find(job->recipe, "data", p->args->split)
                                           : sw_job_find_split(job, SW_SPLIT_EVAL);
    if (!section)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "the recipe has no [data val] or [data test] section: select a split, or "
                          "use --input FILE");

    int rc = sw_job_open_split(job, SW_SPLIT_EVAL, section, err);
    if (rc != SW_OK)
        return rc;

    p->batch = job->conf->eval_batch;
    p->records = job->data.source[SW_SPLIT_EVAL]->records;
    return SW_OK;
}

/* ---- passes ---- */

/* Runs one pass; data[i] is for field i of the predictor. */
static int run(struct predictor *p, void *const *data, int64_t valid,
               const struct sw_predict_sink *sink, struct sw_err *err)
{
    const struct sw_source *source = p->job->data.source[SW_SPLIT_EVAL];
    const int count = p->input_count ? p->input_count : source->field_count;
    const char *names[SW_MAX_FIELDS];
    const float *rows;

    for (int f = 0; f < count; f++)
        names[f] = p->input_count ? p->inputs[f].field : source->field[f].name;

    /* With `streams`, sequences continue from the previous batch. */
    const bool begins = !source || !source->streams || p->passes == 0;
    p->passes++;

    const struct sw_inference_input input = {names, data, count, valid, begins};
    int rc = sw_inference_pass(&p->net, &input, &rows, err);
    return rc == SW_OK ? sink->rows(sink->user, valid * sw_inference_each(&p->net), rows, err) : rc;
}

static int pass_over_arrays(struct predictor *p, const struct sw_predict_sink *sink,
                            struct sw_err *err)
{
    void *data[SW_MAX_FIELDS] = {NULL};
    int rc = SW_OK;

    for (int64_t first = 0; first < p->records && rc == SW_OK; first += p->batch) {
        int64_t valid = p->records - first < p->batch ? p->records - first : p->batch;

        for (int k = 0; k < p->input_count && rc == SW_OK; k++) {
            struct input *in = &p->inputs[k];
            data[k] = in->memory;
            memset((char *)in->memory + (size_t)valid * in->row_bytes, 0,
                   (size_t)(p->batch - valid) * in->row_bytes);
            rc = sw_npy_read_rows(&in->file, first, valid, in->desc.desc.dtype, in->memory, err);
        }

        if (rc == SW_OK)
            rc = run(p, data, valid, sink, err);
    }

    return rc;
}

static int pass_over_split(struct predictor *p, const struct sw_predict_sink *sink,
                           struct sw_err *err)
{
    struct sw_worker *w = p->w;
    int64_t batches = sw_source_batches(p->job->data.source[SW_SPLIT_EVAL], p->batch);
    int rc = sw_worker_start_prefetch(w, SW_SPLIT_EVAL, err);

    for (int64_t n = 0; n < batches && rc == SW_OK; n++) {
        struct sw_batch batch;

        rc = sw_prefetch_next(w->batches.prefetch[SW_SPLIT_EVAL], &batch, err);
        if (rc != SW_OK)
            break;

        rc = run(p, batch.field, batch.valid_rows, sink, err);
        sw_prefetch_release(w->batches.prefetch[SW_SPLIT_EVAL], &batch);
    }

    if (rc == SW_ERR_CANCELLED && sw_fault_is_set(&p->job->fault))
        rc = sw_fault_get(&p->job->fault, err);
    return rc;
}

/* ---- the whole ---- */

static void fill_info(const struct predictor *p, struct sw_predict_info *info)
{
    const struct sw_layer *l = sw_inference_layer(&p->net);
    const struct sw_desc *d = &l->dst.desc;

    info->layer = p->layer;
    info->type = l->type->base.name;
    info->split = p->input_count ? NULL : p->job->data.section[SW_SPLIT_EVAL]->name;
    info->rows = p->records * sw_inference_each(&p->net);
    info->ndim = d->ndim - 1;
    for (int i = 0; i < info->ndim; i++)
        info->dim[i] = d->dim[i + 1];
    info->class_names = p->input_count ? NULL : p->job->data.source[SW_SPLIT_EVAL]->class_names;
    info->fallback = p->input_count ? "" : sw_bytes_text(&p->job->report.fallback);
    memcpy(info->picture, p->picture, sizeof info->picture);
}

static int begin(struct predictor *p, int64_t *step, struct sw_err *err)
{
    struct sw_net_field fields[SW_MAX_FIELDS];
    int count = p->input_count;

    for (int i = 0; i < p->input_count; i++)
        fields[i] = p->inputs[i].desc;
    if (p->input_count == 0)
        count = sw_worker_fields(p->job->data.source[SW_SPLIT_EVAL], p->batch, fields);

    for (int i = 0; i < count; i++)
        if (sw_str_eq(fields[i].name, "image") && fields[i].desc.ndim == 4)
            memcpy(p->picture, fields[i].desc.dim + 1, sizeof p->picture);

    const struct sw_inference_args args = {
        .layer = p->layer,
        .weights = p->args->weights,
        .rows = p->batch,
        .fields = fields,
        .field_count = count,
        .source = p->input_count ? "--input" : p->job->data.section[SW_SPLIT_EVAL]->name};
    return sw_inference_begin(&p->net, p->w, p->job->recipe, &args, step, err);
}

static void end(struct predictor *p)
{
    sw_inference_end(&p->net);

    for (int k = 0; k < p->input_count; k++) {
        struct input *in = &p->inputs[k];
        if (in->memory)
            sw_device_free(p->job->place.host, in->memory, sw_desc_bytes(&in->desc.desc) + ALIGN);
        sw_npy_close(&in->file);
    }
}

int sw_job_predict(struct sw_job *job, const struct sw_predict_args *args,
                   const struct sw_predict_sink *sink, struct sw_predict_info *info,
                   struct sw_err *err)
{
    struct predictor p = {.job = job, .w = &job->workers[0], .args = args};

    *info = (struct sw_predict_info){0};

    int rc = sw_inference_choose(job->recipe, args->layer, &p.layer, err);
    if (rc == SW_OK)
        rc = args->input_count ? open_arrays(&p, err) : open_split(&p, err);
    if (rc == SW_OK)
        rc = begin(&p, &info->step, err);

    if (rc == SW_OK) {
        fill_info(&p, info);
        rc = sink->begin(sink->user, info, err);
    }

    if (rc == SW_OK)
        rc = args->input_count ? pass_over_arrays(&p, sink, err) : pass_over_split(&p, sink, err);
    end(&p);

    return rc;
}
