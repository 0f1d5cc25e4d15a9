/* A single layer without a net: its conf is read from a recipe text, sources have any layout, and
 * all memory is from malloc, so that the address sanitizer checks every element. Arrays that a pass
 * must write, or that the layer declared it does not read, are filled with NaN first. Tensors are
 * passed and returned in plain order, and padding must be zero. */
#pragma once

#include "unit/device/device_support.h"
#include "unit/layers/layer_recipe.h"

#include "base/hash.h"
#include "base/os.h"
#include "kernels/half.h"
#include "layers/layer.h"

enum { RIG_SRCS = 3, RIG_PAIRS = 64 };

/* ---- A layer and its environment ---- */

/* How to create a layer. */
struct how {
    struct sw_stream *stream;
    const char *name; /* NULL: "tested" */
    uint64_t seed;
    enum sw_dtype type; /* of sources and output: SW_F32, or 16 bits if the layer has halves */
    int block;          /* channels of 4-D sources in blocks of it; 0: plain */
    bool mixed;         /* every second source stays plain, from the first on */
    int64_t rows;       /* 0: the example's */
    bool evaluation;    /* no backward */
    bool no_data;       /* no source needs a gradient, as in the first layer of a net */
    bool in_place;      /* if the layer allows it */
    const struct rig *shares; /* rig whose parameter layouts it uses */
};

struct rig {
    struct how how;
    struct sw_recipe *recipe; /* owned */
    struct sw_layer layer;
    struct sw_layer_tensor src[RIG_SRCS];
    bool data_in_place, grad_in_place;
    struct sw_step step;
    struct sw_result result[RIG_PAIRS];
};

/* Plain tensors: inputs are random, outputs are filled by rig_pass. */
struct values {
    int src_count, param_count;
    int64_t src_n[RIG_SRCS], param_n[SW_LAYER_PARAMS], dst_n;
    float *src[RIG_SRCS], *param[SW_LAYER_PARAMS], *dst_grad;
    int32_t *label[RIG_SRCS];
    float *dst, *src_grad[RIG_SRCS], *param_grad[SW_LAYER_PARAMS];
    float *keeps[SW_LAYER_BUFFERS]; /* buffers after forward */
    int64_t keeps_n[SW_LAYER_BUFFERS];
    int keep_count;
    struct sw_result result; /* the first pair */
    struct sw_result pairs[RIG_PAIRS];
    int pair_count;
};

static inline const struct sw_desc *layout_of_other(void *user, const struct sw_layer *l,
                                                    const char *param)
{
    const struct rig *other = user;
    for (int i = 0; other && i < other->layer.param_count; i++)
        if (strcmp(other->layer.param[i].name, param) == 0)
            return &other->layer.param[i].layout;
    return NULL;
}

static inline int example_srcs(const struct sw_layer_example *ex)
{
    int n = 0;
    while (n < RIG_SRCS && ex->src[n].ndim)
        n++;
    return n;
}

static inline struct sw_desc source_layout(const struct sw_layer_example *ex, int k,
                                           const struct how *how)
{
    int64_t dim[SW_MAX_DIMS];
    memcpy(dim, ex->src[k].dim, sizeof dim);
    dim[0] = how->rows ? how->rows : dim[0];
    if (how->block && ex->src[k].ndim == 4 && !(how->mixed && k % 2 == 0))
        return sw_desc_blocked(how->type, 4, dim, 1, how->block);
    return sw_desc_plain(ex->src[k].labels ? SW_I32 : how->type, ex->src[k].ndim, dim);
}

/* Reads the conf; does not call the layer yet. */
static inline void rig_open(struct rig *g, const struct sw_layer_type *type,
                            const struct sw_layer_example *ex, const struct how *how)
{
    static const char *const names[] = {"a", "b", "c"};
    char text[4096] = "";
    size_t n = 0;
    *g = (struct rig){.how = *how};
    int srcs = example_srcs(ex);
    for (int k = 0; k < srcs; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "[layer %s]\ntype = input\nfield = %s\n",
                              names[k], names[k]);
    n +=
        (size_t)snprintf(text + n, sizeof text - n, "[layer tested]\ntype = %s\nsrc = a%s%s\n%s",
                         type->base.name, srcs > 1 ? ", b" : "", srcs > 2 ? ", c" : "", ex->recipe);
    assert_true(n < sizeof text);
    g->recipe = load_layers(text);
    const struct sw_section *section = sw_recipe_find(g->recipe, "layer", "tested");
    const char *name = how->name ? how->name : "tested";
    g->layer = (struct sw_layer){.name = name,
                                 .type = type,
                                 .conf = section->conf[0],
                                 .id = sw_hash_name(name),
                                 .src_count = srcs,
                                 .result = g->result};
    for (int k = 0; k < srcs; k++) {
        g->src[k].desc = source_layout(ex, k, how);
        g->layer.src[k] = &g->src[k];
    }
}

static inline uint32_t wanted(const struct rig *g)
{
    uint32_t mask = 0;
    if (!g->how.evaluation && !g->how.no_data && g->layer.type->backward)
        for (int k = 0; k < g->layer.src_count && k < RIG_SRCS; k++)
            mask |= (uint32_t)(g->src[k].desc.dtype != SW_I32) << k;
    return mask & ~g->layer.type->targets;
}

/* Runs the layer's setup and returns its result. Call rig_teardown in any case. */
static inline int rig_try_setup(struct rig *g, struct sw_err *err)
{
    struct sw_layer *l = &g->layer;
    struct sw_layer_setup setup = {.stream = g->how.stream,
                                   .seed = g->how.seed,
                                   .training = !g->how.evaluation,
                                   .dst_type = g->how.type,
                                   .wants_grad = wanted(g),
                                   .batch_rows = g->src[0].desc.dim[0],
                                   .layout = layout_of_other,
                                   .user = (void *)(uintptr_t)g->how.shares};
    if (l->type->state_bytes) {
        l->state = sw_calloc(1, l->type->state_bytes);
        if (!l->state)
            return sw_err_nomem(err, "a layer", l->type->state_bytes);
    }
    return sw_layer_set_up(l, &setup, err);
}

static inline void rig_teardown(struct rig *g)
{
    struct sw_layer *l = &g->layer;
    sw_layer_teardown(l);
    l->param_count = l->keep_count = l->phases.sums = 0;
    l->phases.forward = l->phases.backward = l->pair_count = 0;
}

/* Allocates all memory that the layer reads and writes. */
static inline void rig_allocate(struct rig *g)
{
    struct sw_layer *l = &g->layer;
    size_t dst_bytes = sw_desc_bytes(&l->dst.desc);
    bool read_again = !g->how.evaluation && (l->backward_reads_src & 1);
    g->data_in_place = g->how.in_place && l->in_place && !read_again;
    g->grad_in_place = g->how.in_place && l->in_place;
    l->dst.grad = get_bytes(dst_bytes);
    for (int k = 0; k < l->src_count; k++) {
        size_t bytes = sw_desc_bytes(&g->src[k].desc);
        g->src[k].data = get_bytes(bytes);
        if (wanted(g) >> k & 1)
            l->src_grad[k] = k == 0 && g->grad_in_place ? l->dst.grad : get_bytes(bytes);
    }
    l->dst.data = g->data_in_place ? g->src[0].data : get_bytes(dst_bytes);
    for (int i = 0; i < l->param_count; i++) {
        l->param[i].value = get_bytes(sw_desc_bytes(&l->param[i].layout));
        if (!g->how.evaluation)
            l->param[i].grad = get_bytes(sw_desc_bytes(&l->param[i].layout));
    }
    for (int i = 0; i < l->keep_count; i++) {
        l->keeps[i].value = get_bytes(sw_desc_bytes(&l->keeps[i].layout));
        l->keeps[i].update = g->how.evaluation ? NULL : (float *)(uintptr_t)l->keeps[i].value;
    }
    l->sums = get_bytes((size_t)l->phases.sums * sizeof(double));
    l->saved = get_bytes(l->saved_bytes);
    l->scratch = get_bytes(l->scratch_bytes);
    g->step = (struct sw_step){
        .step = 3, .first_row = 0, .valid_rows = g->src[0].desc.dim[0], .backward_scale = 0.375f};
}

static inline void rig_setup(struct rig *g, const struct sw_layer_type *type,
                             const struct sw_layer_example *ex, const struct how *how)
{
    struct sw_err err;
    rig_open(g, type, ex, how);
    ASSERT_OK(rig_try_setup(g, &err));
    rig_allocate(g);
}

static inline void rig_close(struct rig *g)
{
    struct sw_layer *l = &g->layer;
    for (int k = 0; k < l->src_count; k++) {
        if (!(k == 0 && g->grad_in_place))
            free(l->src_grad[k]);
        free(g->src[k].data);
    }
    if (!g->data_in_place)
        free(l->dst.data);
    free(l->dst.grad);
    for (int i = 0; i < l->param_count; i++) {
        free((float *)(uintptr_t)l->param[i].value);
        free(l->param[i].grad);
    }
    for (int i = 0; i < l->keep_count; i++)
        free((float *)(uintptr_t)l->keeps[i].value);
    free(l->sums);
    free(l->saved);
    free(l->scratch);
    rig_teardown(g);
    sw_recipe_free(g->recipe);
}

/* ---- Values ---- */

/* Returns values whose distance from zero and within any 33 adjacent elements is more than twice
 * 2^-6, so that no small step crosses a kink of a maximum or a rectifier; multiples of 2^-16, so
 * that the step is exact. Every run of 32 elements is a shuffle of the odd or of the even ones of
 * 64 strata of -2..2. */
static inline float *smooth_floats(struct rng *r, int64_t n)
{
    float *x = get_floats(n);
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i / 32 * 32, j = rng_int(r, first, i);
        int64_t stratum = 2 * (i % 32) + i / 32 % 2;
        double jitter =
            floor((double)rng_real(r, -512, 512)); /* in units of 2^-16: at most 1/128 */
        x[i] = x[j];
        x[j] = (float)(((double)stratum + 0.5) / 16 - 2 + jitter / 65536);
    }
    return x;
}

/* Rotates the runs of x until no element is within a small step of that of `other`, so that no
 * maximum over sources switches to another source. */
static inline void separate(float *x, const float *other, int64_t n)
{
    for (int64_t first = 0; first < n; first += 32) {
        int64_t run = n - first < 32 ? n - first : 32;
        for (int64_t turn = 0; turn < run; turn++) {
            bool apart = true;
            for (int64_t i = first; i < first + run; i++)
                apart = apart && fabsf(x[i] - other[i]) > 0.04f;
            if (apart)
                break;
            float begin = x[first];
            memmove(x + first, x + first + 1, (size_t)(run - 1) * sizeof *x);
            x[first + run - 1] = begin;
        }
    }
}

static inline float *step_floats(struct rng *r, int64_t n)
{
    float *x = get_floats(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_int(r, -65536, 65536) / 65536;
    return x;
}

/* Returns random inputs for the shapes of a layer after setup. */
static inline struct values values_new(const struct rig *g, const struct sw_layer_example *ex,
                                       uint64_t seed)
{
    struct rng r = rng_of(seed);
    const struct sw_layer *l = &g->layer;
    struct values v = {
        .src_count = l->src_count, .param_count = l->param_count, .keep_count = l->keep_count};
    for (int i = 0; i < l->keep_count; i++) {
        v.keeps_n[i] = sw_desc_count(&l->keeps[i].layout);
        v.keeps[i] = get_floats(v.keeps_n[i]);
    }
    for (int k = 0; k < l->src_count; k++) {
        int64_t n = v.src_n[k] = sw_desc_count(&g->src[k].desc);
        if (!ex->src[k].labels) {
            bool given = ex->range[k].to > ex->range[k].from;
            v.src[k] = given ? random_floats(&r, n, ex->range[k].from, ex->range[k].to)
                             : smooth_floats(&r, n);
            if (k > 0 && !given && v.src[0] && v.src_n[0] == n)
                separate(v.src[k], v.src[0], n);
            v.src_grad[k] = get_floats(n);
            continue;
        }
        v.label[k] = get_bytes((size_t)n * sizeof(int32_t));
        for (int64_t i = 0; i < n; i++)
            v.label[k][i] = (int32_t)rng_int(&r, 0, ex->src[k].labels - 1);
    }
    for (int i = 0; i < l->param_count; i++) {
        v.param_n[i] = sw_desc_count(&l->param[i].layout);
        v.param[i] = step_floats(&r, v.param_n[i]);
        v.param_grad[i] = get_floats(v.param_n[i]);
    }
    v.dst_n = sw_desc_count(&l->dst.desc);
    v.dst_grad = step_floats(&r, v.dst_n);
    v.dst = get_floats(v.dst_n);
    return v;
}

static inline void values_free(struct values *v)
{
    for (int k = 0; k < v->src_count; k++) {
        free(v->src[k]);
        free(v->src_grad[k]);
        free(v->label[k]);
    }
    for (int i = 0; i < v->param_count; i++) {
        free(v->param[i]);
        free(v->param_grad[i]);
    }
    for (int i = 0; i < v->keep_count; i++)
        free(v->keeps[i]);
    free(v->dst_grad);
    free(v->dst);
}

/* ---- Passes ---- */

static inline float half_value(enum sw_dtype type, uint16_t half)
{
    return type == SW_BF16 ? sw_bf16_value(half) : sw_fp16_value(half);
}

static inline uint16_t half_of(enum sw_dtype type, float x)
{
    return type == SW_BF16 ? sw_bf16_of(x) : sw_fp16_of(x);
}

/* Converts floats in plain order to a layout and its type. */
static inline void store_plain(const struct sw_desc *d, const float *plain, void *stored)
{
    if (!sw_dtype_is_half(d->dtype)) {
        sw_desc_from_plain(d, plain, stored);
        return;
    }
    uint16_t *halves = get_bytes((size_t)sw_desc_count(d) * sizeof *halves);
    for (int64_t i = 0; i < sw_desc_count(d); i++)
        halves[i] = half_of(d->dtype, plain[i]);
    sw_desc_from_plain(d, halves, stored);
    free(halves);
}

/* Converts to floats in plain order; padding must be zero. */
static inline void read_plain(const char *what, const struct sw_desc *d, const void *stored,
                              float *plain)
{
    const struct sw_desc f32 = sw_desc_as(d, SW_F32);
    float *floats = get_bytes(sw_desc_bytes(&f32)), *again = get_bytes(sw_desc_bytes(&f32));
    if (sw_dtype_is_half(d->dtype))
        for (int64_t i = 0; i < sw_desc_storage(d); i++)
            floats[i] = half_value(d->dtype, ((const uint16_t *)stored)[i]);
    else
        memcpy(floats, stored, sw_desc_bytes(d));
    sw_desc_to_plain(&f32, floats, plain);
    sw_desc_from_plain(&f32, plain, again);
    for (int64_t i = 0; i < sw_desc_storage(d); i++)
        if (!(floats[i] == again[i]) && !(isnan(floats[i]) && isnan(again[i])))
            fail_msg("%s: padding element %lld is %g", what, (long long)i, (double)floats[i]);
    free(floats);
    free(again);
}

static inline void set_inputs(struct rig *g, const struct values *v)
{
    struct sw_layer *l = &g->layer;
    for (int k = 0; k < l->src_count; k++)
        if (v->label[k])
            sw_desc_from_plain(&g->src[k].desc, v->label[k], g->src[k].data);
        else
            store_plain(&g->src[k].desc, v->src[k], g->src[k].data);
    for (int i = 0; i < l->param_count; i++)
        sw_desc_from_plain(&l->param[i].layout, v->param[i], (float *)(uintptr_t)l->param[i].value);
    for (int i = 0; i < l->keep_count; i++)
        for (int64_t j = 0; j < v->keeps_n[i]; j++)
            ((float *)(uintptr_t)l->keeps[i].value)[j] = (float)l->keeps[i].natural;
}

typedef int rig_phase(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err);

/* The group has one worker, so there is nothing to reduce between phases. */
static inline int rig_phases(struct rig *g, rig_phase *run, int phases, struct sw_err *err)
{
    struct sw_layer *l = &g->layer;
    struct sw_pass pass = {
        .stream = g->how.stream, .step = &g->step, .training = !g->how.evaluation};
    poison(l->sums, (size_t)l->phases.sums * sizeof(double));
    int rc = run(l, &pass, err);
    while (rc == SW_OK && ++pass.phase < phases)
        rc = run(l, &pass, err);
    return rc;
}

static inline int rig_try_forward(struct rig *g, const struct values *v, struct sw_err *err)
{
    struct sw_layer *l = &g->layer;
    set_inputs(g, v);
    if (!g->data_in_place)
        poison(l->dst.data, sw_desc_bytes(&l->dst.desc));
    poison(l->saved, l->saved_bytes);
    poison(l->scratch, l->scratch_bytes);
    for (int i = 0; i < RIG_PAIRS; i++)
        g->result[i] = (struct sw_result){NAN, NAN};
    return rig_phases(g, l->type->forward, l->phases.forward, err);
}

static inline bool has_output(const struct sw_layer_type *type)
{
    return type->role != SW_ROLE_METRIC && type->role != SW_ROLE_OUTPUT;
}

static inline void rig_forward(struct rig *g, struct values *v)
{
    struct sw_err err;
    ASSERT_OK(rig_try_forward(g, v, &err));
    v->result = g->result[0];
    v->pair_count = g->layer.pair_count > 0 ? g->layer.pair_count : 1;
    memcpy(v->pairs, g->result, sizeof v->pairs);
    if (has_output(g->layer.type))
        read_plain("output", &g->layer.dst.desc, g->layer.dst.data, v->dst);
    for (int i = 0; i < v->keep_count; i++)
        read_plain("state", &g->layer.keeps[i].layout, g->layer.keeps[i].value, v->keeps[i]);
}

/* Hides arrays that backward does not read, and fills those that it writes with NaN. */
static inline void hide_from_backward(struct rig *g)
{
    struct sw_layer *l = &g->layer;
    for (int k = 0; k < l->src_count; k++) {
        bool reads = l->backward_reads_src >> k & 1;
        if (!reads && !(k == 0 && g->data_in_place))
            poison(g->src[k].data, sw_desc_bytes(&g->src[k].desc));
        if (l->src_grad[k] && !(k == 0 && g->grad_in_place))
            poison(l->src_grad[k], sw_desc_bytes(&g->src[k].desc));
    }
    if (!l->backward_reads_dst)
        poison(l->dst.data, sw_desc_bytes(&l->dst.desc));
    for (int i = 0; i < l->param_count; i++)
        poison(l->param[i].grad, sw_desc_bytes(&l->param[i].layout));
    poison(l->scratch, l->scratch_bytes);
}

static inline void rig_backward(struct rig *g, struct values *v)
{
    struct sw_layer *l = &g->layer;
    struct sw_err err;
    hide_from_backward(g);
    if (l->type->role == SW_ROLE_LOSS)
        poison(l->dst.grad, sw_desc_bytes(&l->dst.desc));
    else
        store_plain(&l->dst.desc, v->dst_grad, l->dst.grad);
    ASSERT_OK(rig_phases(g, l->type->backward, l->phases.backward, &err));
    for (int k = 0; k < l->src_count; k++)
        if (l->src_grad[k])
            read_plain("source gradient", &g->src[k].desc, l->src_grad[k], v->src_grad[k]);
    for (int i = 0; i < l->param_count; i++)
        read_plain("parameter gradient", &l->param[i].layout, l->param[i].grad, v->param_grad[i]);
}

/* Runs forward, and backward if the layer has it. */
static inline void rig_pass(struct rig *g, struct values *v)
{
    rig_forward(g, v);
    if (!g->how.evaluation && g->layer.type->backward)
        rig_backward(g, v);
}
