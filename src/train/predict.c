#include "train/predict.h"

#include "base/os.h"
#include "base/str.h"
#include "tensor/npy.h"
#include "train/job_private.h"
#include <string.h>

enum { ALIGN = 64 };

/* An array that stands in for a data field. */
struct input {
    const char *field; /* borrowed */
    struct sw_npy_file file;
    struct sw_net_field desc; /* with the rows of the net */
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
    int64_t batch, records;     /* rows of a pass, and of all */
    struct sw_tensor **tensors; /* owned, each too: parameters, then states */
    int tensor_count;
    float *plain; /* owned: one batch of the layer */
};

/* ---- which layer ---- */

static const struct sw_layer_type *type_of(const struct sw_section *s)
{
    return (const struct sw_layer_type *)(const void *)s->type[0];
}

static bool in_evaluation(const struct sw_section *s)
{
    return ((const struct sw_layer_conf *)s->common)->include != SW_INCLUDE_TRAIN;
}

static bool has_output(const struct sw_section *s)
{
    return type_of(s)->role != SW_ROLE_METRIC && type_of(s)->role != SW_ROLE_OUTPUT;
}

/* What the last loss reads; auxiliary losses stand before the main one, or are not evaluated. */
static const char *default_layer(const struct sw_recipe *recipe)
{
    const char *found = NULL, *last = NULL;
    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s)) {
        const struct sw_layer_conf *conf = s->common;
        if (!in_evaluation(s))
            continue;
        if (type_of(s)->role == SW_ROLE_LOSS && conf->src.count > 0)
            found = conf->src.items[0];
        if (has_output(s) && type_of(s)->role != SW_ROLE_LOSS)
            last = s->name;
    }
    return found ? found : last;
}

static int unknown_layer(const struct sw_recipe *recipe, const char *name, struct sw_err *err)
{
    enum { MOST = 1024 };
    const char *names[MOST];
    size_t count = 0;
    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s && count < MOST;
         s = sw_section_next(s))
        if (in_evaluation(s) && has_output(s))
            names[count++] = s->name;
    const char *near = sw_str_nearest(name, names, count);
    return sw_err_set(err, SW_ERR_INVALID, "--layer %s: the recipe has no such layer%s%s%s", name,
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int choose_layer(struct predictor *p, struct sw_err *err)
{
    const struct sw_recipe *recipe = p->job->recipe;
    const char *name = p->args->layer ? p->args->layer : default_layer(recipe);
    const struct sw_section *s = name ? sw_recipe_find(recipe, "layer", name) : NULL;
    if (!s)
        return unknown_layer(recipe, name ? name : "", err);
    if (!has_output(s))
        return sw_err_set(err, SW_ERR_INVALID, "--layer %s: a layer of type %s has no output", name,
                          type_of(s)->base.name);
    if (!in_evaluation(s))
        return sw_err_set(err, SW_ERR_INVALID,
                          "--layer %s: the layer is not in the evaluation net (include = train)",
                          name);
    p->layer = s->name;
    return SW_OK;
}

/* ---- data: arrays ---- */

static enum sw_dtype field_type(const char *field, const struct sw_npy_header *h)
{
    bool real = h->dtype == SW_NPY_F4 || h->dtype == SW_NPY_F8 || h->dtype == SW_NPY_B1;
    if (sw_str_eq(field, "label"))
        return sw_npy_row_count(h) == 1 ? SW_I32 : SW_F32;
    return real || sw_str_eq(field, "image") ? SW_F32 : SW_I32;
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
                          "%s: %d dimensions; rows and at most %d more are "
                          "expected",
                          path, h->ndim, SW_MAX_DIMS - 1);
    if (p->input_count > 1 && sw_npy_rows(h) != p->records)
        return sw_err_set(err, SW_ERR_FORMAT, "%s has %lld rows, but %s has %lld", path,
                          (long long)sw_npy_rows(h), p->inputs[0].file.path, (long long)p->records);
    if (sw_npy_rows(h) < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: there are no rows", path);
    p->records = sw_npy_rows(h);
    p->batch = p->job->conf->eval_batch < p->records ? p->job->conf->eval_batch : p->records;
    enum sw_dtype type = field_type(field, h);
    int ndim = sw_str_eq(field, "label") && type == SW_I32 ? 1 : h->ndim;
    memcpy(dim, h->shape, sizeof dim);
    dim[0] = p->batch;
    in->field = field;
    in->desc = (struct sw_net_field){.name = field, .desc = sw_desc_plain(type, ndim, dim)};
    in->row_bytes = sw_desc_bytes(&in->desc.desc) / (size_t)p->batch;
    return sw_device_alloc(p->job->device, sw_desc_bytes(&in->desc.desc) + ALIGN, "a batch",
                           &in->memory, err);
}

/* The field of an --input without one. */
static int only_field(struct predictor *p, const char *path, const char **field, struct sw_err *err)
{
    const char *names[SW_MAX_FIELDS];
    struct sw_buf list = {0};
    int count;
    int rc = sw_net_fields(p->job->recipe, false, p->layer, names, SW_MAX_FIELDS, &count, err);
    if (rc != SW_OK)
        return rc;
    *field = names[0];
    if (count == 1)
        return SW_OK;
    for (int i = 0; i < count; i++)
        sw_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    sw_err_set(err, SW_ERR_INVALID,
               "--input %s: layer %s needs several fields (%s): write "
               "--input FIELD=FILE for each",
               path, p->layer, sw_buf_text(&list));
    sw_buf_fini(&list);
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
                            "layer %s needs the field %s, too: give --input %s=FILE", p->layer,
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
                          "there is neither a [data val] nor a [data test] section: name a split, "
                          "or give --input FILE");
    int rc = sw_job_open_split(job, SW_SPLIT_EVAL, section, err);
    if (rc != SW_OK)
        return rc;
    p->batch = job->conf->eval_batch;
    p->records = job->source[SW_SPLIT_EVAL]->records;
    p->w->rows[SW_SPLIT_EVAL] = p->batch;
    return SW_OK;
}

/* ---- the net ---- */

static int build_net(struct predictor *p, struct sw_err *err)
{
    struct sw_net_field fields[SW_MAX_FIELDS];
    struct sw_job *job = p->job;
    int count = p->input_count;
    for (int i = 0; i < p->input_count; i++)
        fields[i] = p->inputs[i].desc;
    if (p->input_count == 0)
        count = sw_worker_fields(job->source[SW_SPLIT_EVAL], p->batch, fields);
    struct sw_net_args args = {.recipe = job->recipe,
                               .stream = p->w->stream,
                               .seed = (uint64_t)job->conf->seed,
                               .rows = p->batch,
                               .fields = fields,
                               .field_count = count,
                               .source =
                                   p->input_count ? "--input" : job->data[SW_SPLIT_EVAL]->name,
                               .until = p->layer};
    int rc = sw_net_new(&args, &p->w->eval, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_layer *l = sw_net_layer(p->w->eval, sw_net_find(p->w->eval, p->layer));
    const struct sw_desc *d = &l->dst.desc;
    if (d->ndim == 0 || d->dim[0] % p->batch != 0)
        return sw_err_set(err, SW_ERR_INVALID, "--layer %s: its output has no rows", p->layer);
    return SW_OK;
}

/* A tensor on the worker's device with the values of the file. */
static int read_tensor(struct predictor *p, const struct sw_st_file *f, const char *name,
                       const struct sw_desc *layout, void **data, struct sw_err *err)
{
    struct sw_tensor **t = &p->tensors[p->tensor_count];
    int rc = sw_tensor_new(p->w->device, layout, name, t, err);
    if (rc != SW_OK)
        return rc;
    p->tensor_count++;
    *data = (*t)->data;
    if (!sw_st_find(f, name))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no tensor %s", p->args->weights, name);
    rc = sw_st_read_tensor(f, name, *t, p->w->stream, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "%s", p->args->weights);
}

static int read_params(struct predictor *p, const struct sw_st_file *f, struct sw_err *err)
{
    struct sw_net *net = p->w->eval;
    int params = sw_net_param_count(net), rc = SW_OK;
    for (int i = 0; i < params && rc == SW_OK; i++) {
        const struct sw_net_param *np = sw_net_param(net, i);
        const struct sw_layer_param *lp = &sw_net_layer(net, np->layer)->param[np->index];
        void *data = NULL;
        if (np->root >= 0) { /* it is an earlier one, whose place is fixed already */
            const struct sw_net_param *root = sw_net_param(net, np->root);
            data = (void *)(uintptr_t)sw_net_layer(net, root->layer)->param[root->index].value;
        } else {
            rc = read_tensor(p, f, np->name, &lp->layout, &data, err);
        }
        sw_net_bind_param(net, i, data, NULL);
    }
    return rc;
}

static int read_states(struct predictor *p, const struct sw_st_file *f, struct sw_err *err)
{
    struct sw_net *net = p->w->eval;
    int rc = SW_OK;
    for (int i = 0; i < sw_net_state_count(net) && rc == SW_OK; i++) {
        const struct sw_net_state *ns = sw_net_state(net, i);
        char *name = sw_format("state.%s", ns->name);
        void *data = NULL;
        rc = name ? read_tensor(p, f, name, &sw_net_layer(net, ns->layer)->keeps[ns->index].layout,
                                &data, err)
                  : sw_err_nomem(err, "a state's name", 0);
        sw_net_bind_state(net, i, data, NULL);
        sw_free(name);
    }
    return rc;
}

static int load(struct predictor *p, int64_t *step, struct sw_err *err)
{
    struct sw_net *net = p->w->eval;
    size_t most = (size_t)(sw_net_param_count(net) + sw_net_state_count(net)) + 1;
    struct sw_st_file *f = NULL;
    p->tensors = sw_calloc(most, sizeof *p->tensors);
    if (!p->tensors)
        return sw_err_nomem(err, "the parameters", most * sizeof *p->tensors);
    int rc = sw_checkpoint_open(p->args->weights, &f, err);
    if (rc == SW_OK)
        rc = read_params(p, f, err);
    if (rc == SW_OK)
        rc = read_states(p, f, err);
    const char *text = rc == SW_OK ? sw_st_metadata(f, "step") : NULL;
    if (!text || !sw_parse_int(text, step))
        *step = 0;
    sw_st_close(f);
    return rc;
}

static int allocate(struct predictor *p, struct sw_err *err)
{
    struct sw_worker *w = p->w;
    const struct sw_layer *l = sw_net_layer(w->eval, sw_net_find(w->eval, p->layer));
    size_t count = (size_t)sw_desc_count(&l->dst.desc);
    w->arena_bytes = sw_net_arena_bytes(w->eval);
    int rc = sw_device_alloc(w->device, w->arena_bytes, "features", &w->arena, err);
    if (rc != SW_OK)
        return rc;
    sw_net_bind(w->eval, w->arena, NULL);
    p->plain = sw_calloc(count + 1, sizeof *p->plain);
    return p->plain ? SW_OK : sw_err_nomem(err, "rows of a layer", count * sizeof *p->plain);
}

/* ---- passes ---- */

static int forward(struct predictor *p, void *const *data, int64_t valid, struct sw_err *err)
{
    struct sw_net *net = p->w->eval;
    const struct sw_source *source = p->job->source[SW_SPLIT_EVAL];
    int fields = p->input_count ? p->input_count : source->field_count;
    struct sw_step step = {.valid_rows = valid, .batch_valid_rows = valid};
    int rc = sw_net_set_step(net, &step, err);
    for (int f = 0; f < fields && rc == SW_OK; f++)
        rc = sw_net_set_field(net, p->input_count ? p->inputs[f].field : source->field[f].name,
                              data[f], err);
    for (int i = 0; i < sw_net_layer_count(net) && rc == SW_OK; i++)
        rc = sw_net_forward(net, i, err);
    return rc == SW_OK ? sw_worker_wait(p->w, err) : rc;
}

/* The valid rows, as floats in plain order. */
static int hand_over(struct predictor *p, int64_t valid, const struct sw_predict_sink *sink,
                     struct sw_err *err)
{
    const struct sw_layer *l = sw_net_layer(p->w->eval, sw_net_find(p->w->eval, p->layer));
    struct sw_tensor view = sw_tensor_view(p->w->device, &l->dst.desc, l->dst.data);
    int64_t count = sw_desc_count(&l->dst.desc), each = l->dst.desc.dim[0] / p->batch;
    int rc = sw_tensor_read(&view, p->w->stream, p->plain, err);
    if (rc != SW_OK)
        return rc;
    if (l->dst.desc.dtype == SW_I32)
        for (int64_t i = 0; i < count; i++) {
            int32_t whole;
            memcpy(&whole, &p->plain[i], sizeof whole);
            p->plain[i] = (float)whole;
        }
    return sink->rows(sink->user, valid * each, p->plain, err);
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
            rc = forward(p, data, valid, err);
        if (rc == SW_OK)
            rc = hand_over(p, valid, sink, err);
    }
    return rc;
}

static int pass_over_split(struct predictor *p, const struct sw_predict_sink *sink,
                           struct sw_err *err)
{
    struct sw_worker *w = p->w;
    int64_t batches = sw_source_batches(p->job->source[SW_SPLIT_EVAL], p->batch);
    int rc = sw_worker_start_prefetch(w, SW_SPLIT_EVAL, err);
    for (int64_t n = 0; n < batches && rc == SW_OK; n++) {
        struct sw_batch batch;
        rc = sw_prefetch_next(w->prefetch[SW_SPLIT_EVAL], &batch, err);
        if (rc != SW_OK)
            break;
        rc = forward(p, batch.field, batch.valid_rows, err);
        /* An input layer's output lies in the batch. */
        if (rc == SW_OK)
            rc = hand_over(p, batch.valid_rows, sink, err);
        sw_prefetch_release(w->prefetch[SW_SPLIT_EVAL], &batch);
    }
    return rc == SW_ERR_CANCELLED ? sw_fault_get(&p->job->fault, err) : rc;
}

/* ---- the whole ---- */

static void fill_info(const struct predictor *p, struct sw_predict_info *info)
{
    const struct sw_layer *l = sw_net_layer(p->w->eval, sw_net_find(p->w->eval, p->layer));
    const struct sw_desc *d = &l->dst.desc;
    info->layer = p->layer;
    info->type = l->type->base.name;
    info->split = p->input_count ? NULL : p->job->data[SW_SPLIT_EVAL]->name;
    info->rows = p->records * (d->dim[0] / p->batch);
    info->ndim = d->ndim - 1;
    for (int i = 0; i < info->ndim; i++)
        info->dim[i] = d->dim[i + 1];
    info->fallback = p->input_count ? "" : sw_buf_text(&p->job->fallback_text);
}

static void end(struct predictor *p)
{
    sw_net_free(p->w->eval);
    p->w->eval = NULL;
    for (int i = 0; i < p->tensor_count; i++)
        sw_tensor_free(p->tensors[i]);
    sw_free(p->tensors);
    sw_free(p->plain);
    for (int k = 0; k < p->input_count; k++) {
        struct input *in = &p->inputs[k];
        if (in->memory)
            sw_device_free(p->job->device, in->memory, sw_desc_bytes(&in->desc.desc) + ALIGN);
        sw_npy_close(&in->file);
    }
}

int sw_job_predict(struct sw_job *job, const struct sw_predict_args *args,
                   const struct sw_predict_sink *sink, struct sw_predict_info *info,
                   struct sw_err *err)
{
    struct predictor p = {.job = job, .w = &job->workers[0], .args = args};
    const struct sw_placement_row *row = sw_placement_worker(job->placement, &job->shape, 0, 0);
    *info = (struct sw_predict_info){0};
    int rc = choose_layer(&p, err);
    if (rc == SW_OK)
        rc = args->input_count ? open_arrays(&p, err) : open_split(&p, err);
    if (rc == SW_OK)
        rc = sw_stream_new(p.w->device, row->threads, &p.w->stream, err);
    if (rc == SW_OK)
        rc = build_net(&p, err);
    if (rc == SW_OK)
        rc = sw_worker_attach(p.w, err);
    if (rc == SW_OK)
        rc = allocate(&p, err);
    if (rc == SW_OK)
        rc = load(&p, &info->step, err);
    if (rc == SW_OK) {
        fill_info(&p, info);
        rc = sink->begin(sink->user, info, err);
    }
    if (rc == SW_OK)
        rc = args->input_count ? pass_over_arrays(&p, sink, err) : pass_over_split(&p, sink, err);
    end(&p);
    return rc;
}
