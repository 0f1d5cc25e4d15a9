/* A net with everything that a worker provides: device, batch, parameters, arena. Parameter values
 * are drawn by name in plain order, so that nets with the same names compute the same function with
 * any layouts. The arena is initially full of NaN. */
#pragma once

#include "unit/layers/layer_recipe.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/str.h"
#include "unit/net/inspect.h"

enum { WORLD_PARAMS = 1024 };

/* How a net is made. */
struct plan_of_world {
    int64_t rows, channels, height, width, classes;
    bool reference, evaluation;
    enum sw_precision precision;
    bool apart; /* the device's memory is treated as one that the host cannot reach */
    const struct world *shares; /* its parameters: values, layouts */
};

struct world {
    struct plan_of_world plan;
    struct fixture f;
    struct sw_recipe *recipe; /* owned */
    struct sw_net *net;
    char *arena; /* owned */
    float *value[WORLD_PARAMS], *grad[WORLD_PARAMS];
    float *kept[WORLD_PARAMS]; /* state without gradient */
    float *image;              /* owned; plain */
    int32_t *label;
    struct sw_step step;
};

/* An input layer for each field of the batch. */
#define WORLD_INPUTS                                                                               \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"

static inline int try_net(struct world *w, struct sw_err *err)
{
    const struct plan_of_world *p = &w->plan;
    const int64_t dim[4] = {p->rows, p->channels, p->height, p->width};
    const struct sw_net_field fields[2] = {
        {.name = "image", .desc = sw_desc_plain(SW_F32, 4, dim)},
        {.name = "label", .desc = sw_desc_plain(SW_I32, 1, dim)}};
    struct sw_net_args args = {.recipe = w->recipe,
                               .stream = w->f.stream,
                               .seed = 3,
                               .training = !p->evaluation,
                               .rows = p->rows,
                               .fields = fields,
                               .field_count = 2,
                               .source = "test",
                               .sharing = p->shares ? p->shares->net : NULL};
    return sw_net_new(&args, &w->net, err);
}

static inline const struct sw_layer_param *world_layer_param(const struct world *w, int p)
{
    const struct sw_net_param *np = sw_net_param(w->net, p);
    return &sw_net_layer(w->net, np->layer)->param[np->index];
}

static inline int find_param(const struct world *w, const char *name)
{
    for (int p = 0; p < sw_net_param_count(w->net); p++)
        if (strcmp(sw_net_param(w->net, p)->name, name) == 0)
            return p;
    fail_msg("there is no parameter %s", name);
    return -1;
}

/* Such that features keep a size of about 1. */
static inline void draw_param(struct world *w, int p)
{
    const struct sw_layer_param *lp = world_layer_param(w, p);
    struct rng r = rng_of(sw_hash_name(sw_net_param(w->net, p)->name));
    int64_t n = sw_desc_count(&lp->layout);
    float *plain = get_floats(n);
    double size = lp->fan_in ? 2 / sqrt((double)lp->fan_in) : 0.3;
    for (int64_t i = 0; i < n; i++)
        plain[i] = (float)(floor((double)rng_real(&r, -size, size) * 65536) / 65536);
    w->value[p] = get_bytes(sw_desc_bytes(&lp->layout));
    sw_desc_from_plain(&lp->layout, plain, w->value[p]);
    free(plain);
}

static inline void bind_params(struct world *w)
{
    assert_true(sw_net_param_count(w->net) <= WORLD_PARAMS);
    for (int p = 0; p < sw_net_param_count(w->net); p++) {
        int root = sw_net_param(w->net, p)->root;
        if (root >= 0) {
            w->value[p] = w->value[root];
            w->grad[p] = w->grad[root];
            sw_net_bind_param(w->net, p, w->value[p], w->grad[p]);
            continue;
        }
        if (w->plan.shares)
            w->value[p] =
                w->plan.shares->value[find_param(w->plan.shares, sw_net_param(w->net, p)->name)];
        else
            draw_param(w, p);
        if (!w->plan.evaluation)
            w->grad[p] = get_bytes(sw_desc_bytes(&world_layer_param(w, p)->layout));
        sw_net_bind_param(w->net, p, w->value[p], w->grad[p]);
    }
}

static inline void bind_states(struct world *w)
{
    assert_true(sw_net_buffer_count(w->net) <= WORLD_PARAMS);
    for (int s = 0; s < sw_net_buffer_count(w->net); s++) {
        const struct sw_net_buffer *ns = sw_net_buffer(w->net, s);
        const struct sw_layer_buffer *ls = &sw_net_layer(w->net, ns->layer)->keeps[ns->index];
        int64_t n = sw_desc_count(&ls->layout);
        if (w->plan.shares) {
            w->kept[s] = w->plan.shares->kept[s];
        } else {
            w->kept[s] = get_floats(n);
            for (int64_t i = 0; i < n; i++)
                w->kept[s][i] = (float)ls->natural;
        }
        sw_net_bind_buffer(w->net, s, w->kept[s], w->plan.evaluation ? NULL : w->kept[s]);
    }
}

static inline void give_batch(struct world *w)
{
    struct sw_err err;
    ASSERT_OK(sw_net_set_field(w->net, "image", w->image, &err));
    ASSERT_OK(sw_net_set_field(w->net, "label", w->label, &err));
}

static inline void draw_batch(struct world *w)
{
    struct rng r = rng_of(99);
    const struct plan_of_world *p = &w->plan;
    w->image = random_floats(&r, p->rows * p->channels * p->height * p->width, -1, 1);
    w->label = get_bytes((size_t)p->rows * sizeof *w->label);
    for (int64_t i = 0; i < p->rows; i++)
        w->label[i] = (int32_t)(i % p->classes);
    give_batch(w);
}

/* Memory for a net that exists. */
static inline void world_bind(struct world *w)
{
    w->arena = aligned_alloc(4096, sw_net_arena_bytes(w->net) / 4096 * 4096 + 4096);
    assert_non_null(w->arena);
    poison(w->arena, sw_net_arena_bytes(w->net));
    sw_net_bind(w->net, w->arena, NULL);
    bind_params(w);
    bind_states(w);
    draw_batch(w);
    w->step = (struct sw_step){
        .step = 0, .valid_rows = w->plan.rows, .backward_scale = 1.0f / (float)w->plan.rows};
}

/* The net alone, without memory. */
static inline struct world world_open(const char *text, const struct plan_of_world *plan)
{
    struct world w = {.plan = *plan, .f = open_cpu_as(plan->reference, plan->precision, 1)};
    w.f.dev->avoid_winograd = true; /* its scratch depends on the processor */
    struct sw_err err;
    w.f.dev->host_memory = !plan->apart;
    w.recipe = load_layers(text);
    ASSERT_OK(try_net(&w, &err));
    return w;
}

static inline struct world world_new(const char *text, const struct plan_of_world *plan)
{
    struct world w = world_open(text, plan);
    world_bind(&w);
    return w;
}

static inline void world_free(struct world *w)
{
    for (int p = 0; p < sw_net_param_count(w->net); p++) {
        if (sw_net_param(w->net, p)->root >= 0)
            continue;
        if (!w->plan.shares)
            free(w->value[p]);
        free(w->grad[p]);
    }
    for (int s = 0; s < sw_net_buffer_count(w->net); s++)
        if (!w->plan.shares)
            free(w->kept[s]);
    sw_net_free(w->net);
    free(w->arena);
    free(w->image);
    free(w->label);
    sw_recipe_free(w->recipe);
    close_cpu(&w->f);
}

static inline void world_forward(struct world *w)
{
    struct sw_err err;
    if (w->plan.apart) /* the copy of the last pass is over */
        give_batch(w);
    ASSERT_OK(sw_net_set_step(w->net, &w->step, &err));
    for (int i = 0; i < sw_net_layer_count(w->net); i++)
        ASSERT_OK(sw_net_forward(w->net, i, &err));
    ASSERT_OK(sw_net_fetch(w->net, &err));
}

static inline void world_backward(struct world *w)
{
    struct sw_err err;
    for (int p = 0; p < sw_net_param_count(w->net); p++)
        poison(w->grad[p], sw_desc_bytes(&world_layer_param(w, p)->layout));
    for (int i = sw_net_layer_count(w->net) - 1; i >= 0; i--)
        if (sw_net_has_backward(w->net, i))
            ASSERT_OK(sw_net_backward(w->net, i, &err));
}

/* The scalar that the gradients are of, after a forward pass. */
static inline double world_loss(const struct world *w)
{
    double loss = 0;
    for (int r = 0; r < sw_net_result_count(w->net); r++)
        if (sw_net_result(w->net, r).loss)
            loss += sw_net_pairs(w->net)[sw_net_result(w->net, r).first].sum;
    return loss * (double)w->step.backward_scale;
}

/* A parameter's gradient, or a layer's output, in plain order; owned by the caller. */
static inline float *plain_gradient(const struct world *w, int p)
{
    const struct sw_desc *d = &world_layer_param(w, p)->layout;
    float *plain = get_floats(sw_desc_count(d));
    sw_desc_to_plain(d, w->grad[p], plain);
    return plain;
}

static inline float *plain_output(const struct world *w, const char *layer, int64_t *n)
{
    const struct sw_layer *l = sw_net_layer(w->net, sw_net_find(w->net, layer));
    float *plain = get_floats(sw_desc_count(&l->dst.desc));
    sw_desc_to_plain(&l->dst.desc, l->dst.data, plain);
    *n = sw_desc_count(&l->dst.desc);
    return plain;
}

static inline void assert_close(const char *what, const float *a, const float *b, int64_t n,
                                double limit)
{
    double *want = get_doubles(n);
    for (int64_t i = 0; i < n; i++)
        want[i] = (double)b[i];
    assert_near(what, a, want, n, limit);
    free(want);
}
