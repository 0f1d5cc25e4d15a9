/* Inference: makes the evaluation net of a worker ready, reads its parameters and states out of a
 * file, and copies a layer's activation to the host. */
#include "infer/inference.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/standardized.h"
#include "checkpoint/tokens.h"
#include "kernels/half.h"
#include "run/job_data.h"
#include "worker/worker.h"
#include "worker/worker_place.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include <string.h>

/* ---- choosing the layer ---- */

enum { MAX_LAYERS = 1024 };

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

/* Does the layer compute scores with the parameters of a loss, which is one of its sources? */
static bool scores_of_loss(const struct sw_recipe *recipe, const struct sw_section *s)
{
    const struct sw_layer_conf *conf = s->common;

    for (const struct sw_layer_borrow *b = type_of(s)->borrows; b && b->param; b++) {
        const struct sw_section *from =
            b->sources == conf->src.count ? sw_recipe_find(recipe, "layer", conf->src.items[b->src])
                                          : NULL;
        if (from && type_of(from)->role == SW_ROLE_LOSS)
            return has_output(s);
    }

    return false;
}

/* The source of the last loss, or the layer that computes the scores of a loss; auxiliary losses
 * come before the main one, or are not evaluated. */
static const char *default_layer(const struct sw_recipe *recipe)
{
    const char *found = NULL, *last = NULL;

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s)) {
        const struct sw_layer_conf *conf = s->common;

        if (!in_evaluation(s))
            continue;

        if (type_of(s)->role == SW_ROLE_LOSS && conf->src.count > 0)
            found = conf->src.items[0];
        if (scores_of_loss(recipe, s))
            found = s->name;
        if (has_output(s) && type_of(s)->role != SW_ROLE_LOSS)
            last = s->name;
    }

    return found ? found : last;
}

/* Adds a layer to those on which the output depends, if it is new. */
static void add_layer(const struct sw_recipe *recipe, const char *name,
                      const struct sw_section **found, int *count)
{
    const struct sw_section *s = sw_recipe_find(recipe, "layer", name);

    for (int i = 0; i < *count; i++)
        if (found[i] == s)
            return;
    if (s && *count < MAX_LAYERS)
        found[(*count)++] = s;
}

bool sw_inference_depends_on(const struct sw_recipe *recipe, const char *layer, const char *field)
{
    const struct sw_section *found[MAX_LAYERS];
    int count = 0;

    add_layer(recipe, layer, found, &count);
    for (int i = 0; i < count; i++) {
        const struct sw_strings *src = &((const struct sw_layer_conf *)found[i]->common)->src;
        const struct sw_layer as_input = {.conf = found[i]->conf[0]};

        if (sw_str_eq(type_of(found[i])->base.name, "input") &&
            sw_str_eq(sw_layer_input_field(&as_input), field))
            return true;
        for (int k = 0; k < src->count && type_of(found[i])->role != SW_ROLE_LOSS; k++)
            add_layer(recipe, src->items[k], found, &count);
    }

    return false;
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
    const char *stage = sw_recipe_stage_name(recipe, sw_recipe_stage(recipe));
    return sw_err_set(err, SW_ERR_INVALID, "--layer %s: %s%s has no such layer%s%s%s%s", name,
                      stage ? "stage " : "the recipe", stage ? stage : "",
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                      stage ? "; use --stage NAME for the net of another stage" : "");
}

int sw_inference_choose(const struct sw_recipe *recipe, const char *name, const char **layer,
                        struct sw_err *err)
{
    name = name ? name : default_layer(recipe);

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

    *layer = s->name;
    return SW_OK;
}

/* ---- the net ---- */

static int build_net(struct sw_inference *f, struct sw_recipe *recipe,
                     const struct sw_inference_args *a, struct sw_err *err)
{
    struct sw_net_args args = {.recipe = recipe,
                               .algorithm = (enum sw_algorithm)f->w->shared.conf->algorithm,
                               .stream = f->w->stream,
                               .seed = (uint64_t)f->w->shared.conf->seed,
                               .rows = a->rows,
                               .fields = a->fields,
                               .field_count = a->field_count,
                               .source = a->source,
                               .keep_state = a->keep_state,
                               .steps = a->steps,
                               .until = a->layer};

    int rc = sw_net_new(&args, &f->w->eval, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_desc *d = &sw_inference_layer(f)->dst.desc;
    if (d->ndim == 0 || d->dim[0] % a->rows != 0)
        return sw_err_set(err, SW_ERR_INVALID, "--layer %s: its output has no rows", a->layer);

    return SW_OK;
}

/* A tensor on the worker's device with the values of the file. */
static int read_tensor(struct sw_inference *inf, const char *weights, const struct sw_st_file *f,
                       const char *name, const struct sw_desc *layout, void **data,
                       struct sw_err *err)
{
    struct sw_tensor **t = &inf->tensors[inf->tensor_count];

    int rc = sw_tensor_new(inf->w->device, layout, name, t, err);
    if (rc != SW_OK)
        return rc;

    inf->tensor_count++;
    *data = (*t)->data;
    if (!sw_st_find(f, name))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no tensor %s", weights, name);

    rc = sw_st_read_tensor(f, name, *t, inf->w->stream, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "%s", weights);

    return layout->dtype == SW_F32
               ? sw_checkpoint_check_finite(inf->w->stream, *data, layout, name, weights, err)
               : SW_OK;
}

static int read_params(struct sw_inference *inf, const char *weights, const struct sw_st_file *f,
                       struct sw_err *err)
{
    struct sw_net *net = inf->w->eval;
    int params = sw_net_param_count(net), rc = SW_OK;

    for (int i = 0; i < params && rc == SW_OK; i++) {
        const struct sw_net_param *np = sw_net_param(net, i);
        const struct sw_layer_param *lp = &sw_net_layer(net, np->layer)->param[np->index];
        void *data = NULL;

        if (np->root >= 0) { /* tied to an earlier one, which is bound already */
            const struct sw_net_param *root = sw_net_param(net, np->root);
            data = (void *)(uintptr_t)sw_net_layer(net, root->layer)->param[root->index].value;
        } else {
            rc = read_tensor(inf, weights, f, np->name, &lp->layout, &data, err);
        }

        sw_net_bind_param(net, i, data, NULL);
    }

    return rc;
}

static int read_states(struct sw_inference *inf, const char *weights, const struct sw_st_file *f,
                       struct sw_err *err)
{
    struct sw_net *net = inf->w->eval;
    int rc = SW_OK;

    for (int i = 0; i < sw_net_buffer_count(net) && rc == SW_OK; i++) {
        const struct sw_net_buffer *ns = sw_net_buffer(net, i);
        char *name = sw_format("state.%s", ns->name);
        void *data = NULL;

        rc = name ? read_tensor(inf, weights, f, name,
                                &sw_net_layer(net, ns->layer)->keeps[ns->index].layout, &data, err)
                  : sw_err_nomem(err, "a buffer's name", 0);
        sw_net_bind_buffer(net, i, data, NULL);
        sw_free(name);
    }

    return rc;
}

static const struct sw_input_conf *input_of(const struct sw_section *s)
{
    return s && sw_str_eq(type_of(s)->base.name, "input") ? s->conf[0] : NULL;
}

/* The input whose field has the units of the layer's output: the layer itself, or the one that a
 * loss or metric compares it with. NULL: none. */
static const struct sw_input_conf *input_of_units(const struct sw_recipe *recipe, const char *layer)
{
    const struct sw_input_conf *input = input_of(sw_recipe_find(recipe, "layer", layer));
    if (input)
        return input;

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s)) {
        const struct sw_strings *src = &((const struct sw_layer_conf *)s->common)->src;

        if ((type_of(s)->role != SW_ROLE_LOSS && type_of(s)->role != SW_ROLE_METRIC) ||
            src->count < 2 || !sw_str_eq(src->items[0], layer))
            continue;

        input = input_of(sw_recipe_find(recipe, "layer", src->items[1]));
        if (input)
            return input;
    }

    return NULL;
}

static int load_units(struct sw_inference *inf, const struct sw_st_file *f, struct sw_err *err)
{
    const struct sw_desc *d = &sw_inference_layer(inf)->dst.desc;
    const struct sw_input_conf *input = input_of_units(inf->w->shared.recipe, inf->layer);
    int rc = input ? sw_standardized_find(f, input->field, &inf->units, err) : SW_OK;

    if (rc != SW_OK || !input)
        return rc;

    inf->units.power = input->power;
    inf->units.log1p = input->log1p;
    inf->units.whitens = input->whiten;
    inf->units.factor = input->scale;
    if (inf->units.count != sw_desc_features(d) || !sw_scaling_has_units(&inf->units))
        sw_scaling_fini(&inf->units);
    return SW_OK;
}

static int load(struct sw_inference *inf, const char *weights, int64_t *step, struct sw_err *err)
{
    struct sw_net *net = inf->w->eval;
    size_t most = (size_t)(sw_net_param_count(net) + sw_net_buffer_count(net)) + 1;
    struct sw_st_file *f = NULL;
    const char *text = NULL;

    inf->tensors = sw_calloc(most, sizeof *inf->tensors);
    if (!inf->tensors)
        return sw_err_nomem(err, "the parameters", most * sizeof *inf->tensors);

    int rc = sw_checkpoint_open(weights, &f, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_tokens_check(inf->w->shared.data->source, f, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_standardized_read(inf->w->shared.data->source, f, err);
    if (rc != SW_OK)
        goto out;
    rc = load_units(inf, f, err);
    if (rc != SW_OK)
        goto out;
    rc = read_params(inf, weights, f, err);
    if (rc != SW_OK)
        goto out;
    rc = read_states(inf, weights, f, err);
    if (rc == SW_OK)
        text = sw_st_metadata(f, "step");

out:
    if (!text || !sw_parse_int(text, step))
        *step = 0;
    sw_st_close(f);

    return rc;
}

static int allocate(struct sw_inference *inf, struct sw_err *err)
{
    struct sw_worker *w = inf->w;
    size_t count = (size_t)sw_desc_count(&sw_inference_layer(inf)->dst.desc);

    w->arena.bytes = sw_net_arena_bytes(w->eval);

    int rc = sw_device_alloc(w->device, w->arena.bytes, "features", &w->arena.memory, err);
    if (rc != SW_OK)
        return rc;

    sw_net_bind(w->eval, w->arena.memory, NULL);

    inf->recurrent_bytes = sw_net_recurrent_state_bytes(w->eval);
    if (inf->recurrent_bytes > 0) {
        rc = sw_device_alloc(w->device, inf->recurrent_bytes, "recurrent state", &inf->recurrent,
                             err);
        if (rc != SW_OK)
            return rc;
        sw_net_bind_recurrent_state(w->eval, inf->recurrent);
    }

    inf->plain = sw_calloc(count + 1, sizeof *inf->plain);
    return inf->plain ? SW_OK : sw_err_nomem(err, "rows of a layer", count * sizeof *inf->plain);
}

int sw_inference_begin(struct sw_inference *f, struct sw_worker *w, struct sw_recipe *recipe,
                       const struct sw_inference_args *args, int64_t *step, struct sw_err *err)
{
    *f = (struct sw_inference){.w = w, .layer = args->layer, .rows = args->rows};

    int rc = sw_stream_new(w->device, sw_worker_placement(w)->threads, &w->stream, err);
    if (rc != SW_OK)
        return rc;
    rc = build_net(f, recipe, args, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_attach(f->w, err);
    if (rc != SW_OK)
        return rc;
    rc = allocate(f, err);
    if (rc != SW_OK)
        return rc;

    return load(f, args->weights, step, err);
}

void sw_inference_end(struct sw_inference *f)
{
    if (f->w) {
        sw_net_free(f->w->eval);
        f->w->eval = NULL;
    }

    for (int i = 0; i < f->tensor_count; i++)
        sw_tensor_free(f->tensors[i]);
    sw_free(f->tensors);
    sw_free(f->plain);
    sw_scaling_fini(&f->units);
    if (f->recurrent)
        sw_device_free(f->w->device, f->recurrent, f->recurrent_bytes);
    *f = (struct sw_inference){0};
}

const struct sw_layer *sw_inference_layer(const struct sw_inference *f)
{
    return sw_net_layer(f->w->eval, sw_net_find(f->w->eval, f->layer));
}

int64_t sw_inference_each(const struct sw_inference *f)
{
    return sw_inference_layer(f)->dst.desc.dim[0] / f->rows;
}

/* ---- passes ---- */

static int read_output(struct sw_inference *f, struct sw_err *err)
{
    const struct sw_layer *l = sw_inference_layer(f);
    struct sw_tensor view = sw_tensor_view(f->w->device, &l->dst.desc, l->dst.data);
    int64_t count = sw_desc_count(&l->dst.desc);
    int rc = sw_tensor_read(&view, f->w->stream, f->plain, err);

    if (rc == SW_OK && l->dst.desc.dtype == SW_I32)
        for (int64_t i = 0; i < count; i++) {
            int32_t whole;
            memcpy(&whole, &f->plain[i], sizeof whole);
            f->plain[i] = (float)whole;
        }

    /* The floats take the place of the 16-bit values, the last ones first. */
    if (rc == SW_OK && sw_dtype_is_half(l->dst.desc.dtype))
        for (int64_t i = count - 1; i >= 0; i--) {
            uint16_t half;
            memcpy(&half, (const uint16_t *)(const void *)f->plain + i, sizeof half);
            f->plain[i] = l->dst.desc.dtype == SW_BF16 ? sw_bf16_value(half) : sw_fp16_value(half);
        }

    for (int64_t i = 0; rc == SW_OK && f->units.count && i < count; i += f->units.count)
        sw_scaling_undo(&f->units, f->plain + i);

    return rc;
}

int sw_inference_pass(struct sw_inference *f, const struct sw_inference_input *input,
                      const float **out, struct sw_err *err)
{
    struct sw_net *net = f->w->eval;
    struct sw_step step = {.valid_rows = input->valid,
                           .batch_valid_rows = input->valid,
                           .sequences_begin = input->sequences_begin,
                           .step = input->pass};
    int rc = sw_stop_check(err);

    if (rc == SW_OK)
        rc = sw_net_set_step(net, &step, err);
    for (int i = 0; i < input->count && rc == SW_OK; i++)
        rc = sw_net_set_field(net, input->names[i], input->data[i], err);
    for (int i = 0; i < sw_net_layer_count(net) && rc == SW_OK; i++)
        rc = sw_net_forward(net, i, err);
    if (rc == SW_OK)
        rc = sw_worker_wait(f->w, err);

    /* An input layer's output is its field. */
    if (rc == SW_OK)
        rc = read_output(f, err);
    *out = f->plain;

    return rc;
}
