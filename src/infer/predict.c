/* Prediction: reads batches from a data section or from .npy arrays, runs them through the net, and
 * passes the rows of the layer's activation to the sink. */
#include "infer/predict.h"
#include "run/job_private.h"
#include "run/standardize.h"
#include "worker/worker.h"
#include "worker/worker_setup.h"

#include "base/os.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "data/room.h"
#include "data/spec.h"
#include "infer/inference.h"
#include "infer/section.h"
#include "infer/words.h"
#include "tensor/npy.h"
#include <math.h>
#include <string.h>

enum { ALIGN = 64 };

/* An array used in place of a data field. */
struct input {
    const char *field; /* borrowed */
    struct sw_npy_file file;
    struct sw_net_field desc; /* with the rows of a pass */
    void *memory;             /* owned: one batch, aligned */
    size_t row_bytes;
    struct sw_inputs pixels; /* an image of integers, read with transforms; source NULL: none */
    struct sw_reader reader;
    struct sw_scaling scaling; /* by the input layer; count 0: none */
    struct sw_room scratch;
    struct sw_word_ids words; /* in place of a file */
};

struct predictor {
    struct sw_job *job;
    struct sw_worker *w;
    const struct sw_predict_args *args;
    const char *layer;
    struct input inputs[SW_MAX_FIELDS];
    int input_count;
    struct sw_inputs files;
    struct sw_prefetch *prefetch; /* owned: of files */
    int64_t batch, records;       /* rows of a pass, and in total */
    int64_t passes;               /* done */
    int64_t picture[3];           /* as in struct sw_predict_info */
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

/* Opens an image of integers, which are pixels, as a data source that transforms them. */
static int open_pixels(struct predictor *p, struct input *in, const char *path, struct sw_err *err)
{
    const struct sw_inputs_args args = {.arrays = true, .files = &path, .count = 1};
    struct sw_net_field fields[SW_MAX_FIELDS];

    int rc = sw_inputs_open(&in->pixels, p->job, &args, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_reader_init(&in->reader, in->pixels.source, err);
    if (rc != SW_OK)
        return rc;

    sw_worker_fields(in->pixels.source, p->batch, fields);
    in->desc.desc = fields[0].desc;
    return SW_OK;
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
    if (sw_str_eq(field, "image") && h->dtype != SW_NPY_F4 && h->dtype != SW_NPY_F8)
        rc = open_pixels(p, in, path, err);
    if (rc != SW_OK)
        return rc;

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

/* ---- data: texts ---- */

static int open_texts(struct predictor *p, struct sw_err *err)
{
    const struct sw_predict_args *a = p->args;
    const char *names[SW_MAX_FIELDS];
    struct input *in = &p->inputs[0];
    int count;

    int rc = sw_net_fields(p->job->recipe, false, p->layer, names, SW_MAX_FIELDS, &count, err);
    if (rc != SW_OK)
        return rc;
    if (count != 1 || !sw_str_eq(names[0], "tags"))
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s reads the field %s, but words are values of the field tags "
                          "alone: use --input FIELD=FILE.npy",
                          p->layer, names[0]);

    rc = sw_word_ids_read(&in->words, p->job->data.spec, a->texts, a->text_count, a->report,
                          a->report_user, err);
    if (rc != SW_OK)
        return rc;

    p->input_count = 1;
    p->records = in->words.count;
    p->batch = p->job->conf->eval_batch < p->records ? p->job->conf->eval_batch : p->records;
    in->field = "tags";
    in->desc = (struct sw_net_field){
        .name = "tags",
        .desc = sw_desc_plain(SW_I32, 2, (const int64_t[]){p->batch, in->words.width})};
    in->row_bytes = (size_t)in->words.width * sizeof *in->words.ids;
    return sw_device_alloc(p->job->place.host, sw_desc_bytes(&in->desc.desc) + ALIGN, "a batch",
                           &in->memory, err);
}

/* ---- data: files ---- */

static int open_files(struct predictor *p, struct sw_err *err)
{
    const struct sw_predict_args *a = p->args;
    const struct sw_inputs_args args = {.layer = p->layer,
                                        .files = a->files,
                                        .count = a->file_count,
                                        .report = a->report,
                                        .user = a->report_user};

    int rc = sw_inputs_open(&p->files, p->job, &args, err);
    if (rc != SW_OK)
        return rc;

    p->records = p->files.source->records;
    p->batch = p->job->conf->eval_batch < p->records ? p->job->conf->eval_batch : p->records;
    return SW_OK;
}

/* ---- data: a split ---- */

static int open_split(struct predictor *p, struct sw_err *err)
{
    struct sw_job *job = p->job;

    int rc = sw_job_open_section(job, p->args->split, err);
    if (rc != SW_OK)
        return rc;

    p->batch = job->conf->eval_batch;
    p->records = job->data.source[SW_SPLIT_EVAL]->records;
    return SW_OK;
}

/* ---- passes ---- */

/* The source of rows; NULL: arrays. */
static const struct sw_source *source_of(const struct predictor *p)
{
    return p->files.source ? p->files.source : p->job->data.source[SW_SPLIT_EVAL];
}

/* The rows of images that could not be read are those of other images. */
static void blank_unreadable(struct predictor *p, int64_t first, int64_t valid)
{
    const struct sw_desc *d = &sw_inference_layer(&p->net)->dst.desc;
    const int64_t width = sw_desc_count(d) / p->batch;

    for (int64_t i = 0; i < valid * width; i++)
        if (sw_inputs_unreadable(&p->files, first + i / width))
            p->net.plain[i] = NAN;
}

/* Runs one pass; data[i] is for field i of the predictor. */
static int run(struct predictor *p, void *const *data, int64_t valid,
               const struct sw_predict_sink *sink, struct sw_err *err)
{
    const struct sw_source *source = source_of(p);
    const int count = p->input_count ? p->input_count : source->field_count;
    const char *names[SW_MAX_FIELDS];
    const float *rows;

    for (int f = 0; f < count; f++)
        names[f] = p->input_count ? p->inputs[f].field : source->field[f].name;

    /* With `streams`, sequences continue from the previous batch. */
    const bool begins = !source || !source->streams || p->passes == 0;
    p->passes++;

    const struct sw_inference_input input = {names, data, count, valid, begins, 0};
    int rc = sw_inference_pass(&p->net, &input, &rows, err);
    if (rc == SW_OK && p->files.source)
        blank_unreadable(p, (p->passes - 1) * p->batch, valid);
    return rc == SW_OK ? sink->rows(sink->user, valid * sw_inference_each(&p->net), rows, err) : rc;
}

static int read_array(struct input *in, int64_t first, int64_t rows, struct sw_err *err)
{
    void *const fields[SW_MAX_FIELDS] = {in->memory};
    if (in->pixels.source)
        return sw_source_fetch(&in->reader, first, rows, fields, err);
    if (in->words.ids) {
        memcpy(in->memory, in->words.ids + first * in->words.width, (size_t)rows * in->row_bytes);
        return SW_OK;
    }

    int rc = sw_npy_read_rows(&in->file, first, rows, in->desc.desc.dtype, in->memory, err);
    for (int64_t i = 0; i < rows && rc == SW_OK && in->scaling.count; i++) {
        float *row = (float *)in->memory + i * in->scaling.count;
        rc = sw_scaling_apply(&in->scaling, &in->scratch, row, err);
        if (rc != SW_OK)
            rc = sw_err_prefix(err, rc, "%s: row %lld", in->file.path, (long long)(first + i));
    }

    return rc;
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
            rc = read_array(in, first, valid, err);
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

static int pass_over_files(struct predictor *p, const struct sw_predict_sink *sink,
                           struct sw_err *err)
{
    const struct sw_source *s = p->files.source;
    const int64_t batches = sw_source_batches(s, p->batch);
    const struct sw_prefetch_args args = {.source = s,
                                          .batch_rows = p->batch,
                                          .row_count = p->batch,
                                          .batch_stride = 1,
                                          .batch_limit = batches,
                                          .slots = (int)s->prefetch + 1,
                                          .threads = (int)s->workers,
                                          .fields = 1};
    int rc = sw_prefetch_start(&args, &p->prefetch, err);

    for (int64_t n = 0; n < batches && rc == SW_OK; n++) {
        struct sw_batch batch;

        rc = sw_prefetch_next(p->prefetch, &batch, err);
        if (rc != SW_OK)
            break;

        rc = run(p, batch.field, batch.valid_rows, sink, err);
        sw_prefetch_release(p->prefetch, &batch);
    }

    return rc;
}

/* ---- what the rows are ---- */

/* Whether the loss compares its scores with labels, rather than with data or targets. */
static bool reads_label(const struct sw_recipe *recipe, const struct sw_layer_conf *loss)
{
    const struct sw_section *s =
        loss->src.count > 1 ? sw_recipe_find(recipe, "layer", loss->src.items[1]) : NULL;
    if (!s || !sw_str_eq(s->type[0]->name, "input"))
        return false;

    const struct sw_layer input = {.conf = s->conf[0]};
    return sw_str_eq(sw_layer_input_field(&input), "label");
}

/* What the layer's rows are to the loss that reads them, else by themselves. */
static void find_scores(const struct sw_recipe *recipe, const char *layer,
                        const struct sw_layer_type *type, struct sw_predict_info *info)
{
    info->scores = type->role == SW_ROLE_LOSS ? SW_SCORES_NONE : type->scores;

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s)) {
        const struct sw_layer_type *t = (const void *)s->type[0];
        const struct sw_layer_conf *conf = s->common;

        if (t->role != SW_ROLE_LOSS || !conf->src.count || !sw_str_eq(conf->src.items[0], layer))
            continue;

        info->scores = t->scores;
        info->classes = t->scores != SW_SCORES_SIGMOID || reads_label(recipe, conf);
    }

    info->classes =
        info->scores == SW_SCORES_READY || (info->classes && info->scores != SW_SCORES_NONE);
}

void sw_predict_probabilities(enum sw_layer_scores scores, float *values, int64_t count)
{
    double sum = 0;
    float most = -INFINITY;

    for (int64_t i = 0; i < count; i++)
        most = fmaxf(most, values[i]);

    for (int64_t i = 0; i < count; i++) {
        if (scores == SW_SCORES_SIGMOID)
            values[i] = (float)(1 / (1 + exp(-(double)values[i])));
        else if (scores == SW_SCORES_SOFTMAX)
            sum += values[i] = expf(values[i] - most);
    }

    for (int64_t i = 0; i < count && scores == SW_SCORES_SOFTMAX; i++)
        values[i] = (float)(values[i] / sum);
}

/* ---- the whole ---- */

static void fill_info(const struct predictor *p, struct sw_predict_info *info)
{
    const struct sw_layer *l = sw_inference_layer(&p->net);
    const struct sw_desc *d = &l->dst.desc;

    info->layer = p->layer;
    info->type = l->type->base.name;
    info->split =
        p->input_count || p->files.source ? NULL : p->job->data.section[SW_SPLIT_EVAL]->name;
    info->rows = p->records * sw_inference_each(&p->net);
    info->ndim = d->ndim - 1;
    for (int i = 0; i < info->ndim; i++)
        info->dim[i] = d->dim[i + 1];
    info->fallback = info->split ? sw_bytes_text(&p->job->report.fallback) : "";
    info->class_names = &p->job->data.spec->classes;
    info->files = p->files.source ? &p->files : NULL;
    find_scores(p->job->recipe, p->layer, l->type, info);
    memcpy(info->picture, p->picture, sizeof info->picture);
}

/* Input layers transform the rows of a source as they do those of a section. */
static int transform_source(const struct predictor *p, struct sw_source *s,
                            const struct sw_st_file *f, struct sw_err *err)
{
    struct sw_scaling scaling;
    int rc = sw_standardize_from(p->job->recipe, s->field[0].name, sw_field_count(&s->field[0]),
                                 "the file", f, &scaling, err);

    if (rc == SW_OK && scaling.count)
        rc = sw_source_scale(s, 0, err);
    if (rc == SW_OK && scaling.count) {
        sw_scaling_fini(&s->scaling[0]);
        s->scaling[0] = scaling;
        return SW_OK;
    }

    sw_scaling_fini(&scaling);
    return rc;
}

static int transform_array(const struct predictor *p, struct input *in, const struct sw_st_file *f,
                           struct sw_err *err)
{
    const int64_t count = sw_npy_row_elements(&in->file.header);
    int rc =
        sw_standardize_from(p->job->recipe, in->field, count, in->file.path, f, &in->scaling, err);

    if (rc == SW_OK && in->scaling.count)
        in->desc.desc.dtype = SW_F32; /* integers are as large */
    return rc;
}

/* Sets what input layers do with values that are not from a section, with the numbers of the
 * checkpoint. */
static int set_transforms(struct predictor *p, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    int rc = sw_checkpoint_open(p->args->weights, &f, err);

    if (rc == SW_OK && p->files.source)
        rc = transform_source(p, p->files.source, f, err);
    for (int k = 0; k < p->input_count && rc == SW_OK; k++) {
        struct input *in = &p->inputs[k];
        rc = in->words.ids       ? SW_OK
             : in->pixels.source ? transform_source(p, in->pixels.source, f, err)
                                 : transform_array(p, in, f, err);
    }

    sw_st_close(f);
    return rc;
}

static int begin(struct predictor *p, int64_t *step, struct sw_err *err)
{
    struct sw_net_field fields[SW_MAX_FIELDS];
    int count = p->input_count;

    int rc = p->files.source || p->input_count ? set_transforms(p, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < p->input_count; i++)
        fields[i] = p->inputs[i].desc;
    if (p->input_count == 0)
        count = sw_worker_fields(source_of(p), p->batch, fields);

    for (int i = 0; i < count; i++)
        if (sw_str_eq(fields[i].name, "image") && fields[i].desc.ndim == 4)
            memcpy(p->picture, fields[i].desc.dim + 1, sizeof p->picture);

    const struct sw_inference_args args = {
        .layer = p->layer,
        .weights = p->args->weights,
        .rows = p->batch,
        .fields = fields,
        .field_count = count,
        .source = p->args->text_count   ? "of the texts"
                  : p->input_count      ? "--input"
                  : p->args->file_count ? "of the files"
                                        : p->job->data.section[SW_SPLIT_EVAL]->name};
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
        sw_reader_fini(&in->reader);
        sw_scaling_fini(&in->scaling);
        sw_room_fini(&in->scratch);
        sw_inputs_close(&in->pixels);
        sw_word_ids_fini(&in->words);
    }

    sw_prefetch_free(p->prefetch);
    sw_inputs_close(&p->files);
}

static int open_data(struct predictor *p, struct sw_err *err)
{
    if (p->args->file_count)
        return open_files(p, err);
    if (p->args->text_count)
        return open_texts(p, err);
    return p->args->input_count ? open_arrays(p, err) : open_split(p, err);
}

static int pass(struct predictor *p, const struct sw_predict_sink *sink, struct sw_err *err)
{
    if (p->files.source)
        return pass_over_files(p, sink, err);
    return p->input_count ? pass_over_arrays(p, sink, err) : pass_over_split(p, sink, err);
}

int sw_job_predict(struct sw_job *job, const struct sw_predict_args *args,
                   const struct sw_predict_sink *sink, struct sw_predict_info *info,
                   struct sw_err *err)
{
    struct predictor p = {.job = job, .w = &job->workers[0], .args = args};

    *info = (struct sw_predict_info){0};

    int rc = sw_inference_choose(job->recipe, args->layer, &p.layer, err);
    if (rc == SW_OK)
        rc = sw_job_read_spec(job, args->weights, err);
    if (rc == SW_OK)
        rc = open_data(&p, err);
    if (rc == SW_OK)
        rc = begin(&p, &info->step, err);

    if (rc == SW_OK) {
        fill_info(&p, info);
        rc = sink->begin(sink->user, info, err);
    }

    if (rc == SW_OK)
        rc = pass(&p, sink, err);
    end(&p);
    info->files = NULL;

    return rc;
}
