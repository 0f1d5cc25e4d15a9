/* Runs the examples of layers on a device whose memory the host cannot access, and on the CPU.
 * Every array of a layer is a separate device allocation of its exact size, so that an operation
 * that omits a pointer or declares too many bytes is detected. Include once per program. */
#pragma once

#include "layer_support.h"

#include "unit/device/sim_support.h" /* streams, copies to and from the device */

enum { SLOTS = 64 };

static char where[256]; /* the example under test, for messages */

/* ---- Moving a layer to the device and back ---- */

/* A pointer of the layer, and the host array that it points to before and after. */
struct slot {
    void **at;
    void *host, *device;
    size_t bytes;
};

struct move {
    struct sw_stream *stream;
    struct slot slot[SLOTS];
    int count;
};

static void add_slot(struct move *m, void *at, size_t bytes)
{
    void **pointer = at;
    if (!*pointer)
        return;
    assert_true(m->count < SLOTS);
    m->slot[m->count++] = (struct slot){.at = pointer, .host = *pointer, .bytes = bytes};
}

static void list_slots(struct move *m, struct rig *g)
{
    struct sw_layer *l = &g->layer;
    for (int k = 0; k < l->src_count; k++) {
        add_slot(m, &g->src[k].data, sw_desc_bytes(&g->src[k].desc));
        add_slot(m, &l->src_grad[k], sw_desc_bytes(&g->src[k].desc));
    }
    add_slot(m, &l->dst.data, sw_desc_bytes(&l->dst.desc));
    add_slot(m, &l->dst.grad, sw_desc_bytes(&l->dst.desc));
    for (int i = 0; i < l->param_count; i++) {
        size_t bytes = sw_desc_bytes(&l->param[i].layout);
        add_slot(m, &l->param[i].value, bytes);
        add_slot(m, &l->param[i].grad, bytes);
    }
    for (int i = 0; i < l->keep_count; i++)
        add_slot(m, &l->keeps[i].value, sw_desc_bytes(&l->keeps[i].layout));
    add_slot(m, &l->sums, (size_t)l->phases.sums * sizeof(double));
    add_slot(m, &l->saved, l->saved_bytes);
    add_slot(m, &l->scratch, l->scratch_bytes);
    size_t pairs = l->pair_count > 0 ? (size_t)l->pair_count : 1;
    add_slot(m, &l->result, pairs * sizeof *l->result);
}

static void move_out(struct move *m, struct rig *g)
{
    list_slots(m, g);
    for (int i = 0; i < m->count; i++) {
        struct slot *s = &m->slot[i];
        /* As in a net, an empty array has a NULL pointer. */
        *s->at = s->device = s->bytes ? to_device(m->stream, s->host, s->bytes) : NULL;
    }
    for (int i = 0; i < g->layer.keep_count; i++)
        g->layer.keeps[i].update = (float *)(uintptr_t)g->layer.keeps[i].value;
}

static void move_back(struct move *m, struct rig *g)
{
    for (int i = 0; i < m->count; i++) {
        struct slot *s = &m->slot[i];
        if (s->bytes)
            to_host(m->stream, s->host, s->device, s->bytes);
        sw_device_free(m->stream->dev, s->device, s->bytes);
        *s->at = s->host;
    }
    for (int i = 0; i < g->layer.keep_count; i++)
        g->layer.keeps[i].update = (float *)(uintptr_t)g->layer.keeps[i].value;
    m->count = 0;
}

/* Like a net, hides the memory that backward does not read, which may be reused by then. */
static void hide_unread(struct rig *g)
{
    struct sw_layer *l = &g->layer;
    for (int k = 0; k < l->src_count; k++)
        if (!(l->backward_reads_src >> k & 1))
            g->src[k].data = NULL;
    if (!l->backward_reads_dst)
        l->dst.data = NULL;
}

/* Gradients have no memory before backward, so forward must not access them. */
static void hide_gradients(struct rig *g)
{
    static float elsewhere[16]; /* not device memory */
    struct sw_layer *l = &g->layer;
    for (int k = 0; k < l->src_count; k++)
        l->src_grad[k] = l->src_grad[k] ? elsewhere : NULL;
    l->dst.grad = l->dst.grad ? elsewhere : NULL;
    for (int i = 0; i < l->param_count; i++)
        l->param[i].grad = l->param[i].grad ? elsewhere : NULL;
}

/* Runs all phases of a pass; with one worker there is nothing to reduce in between. */
static void run_on_device(struct rig *g, bool backward, struct sw_stream *stream)
{
    struct move m = {.stream = stream};
    struct sw_err err;
    struct sw_step *step = to_device(stream, &g->step, sizeof g->step);
    rig_phase *run = backward ? g->layer.type->backward : g->layer.type->forward;
    int phases = backward ? g->layer.phases.backward : g->layer.phases.forward;
    move_out(&m, g);
    if (backward)
        hide_unread(g);
    else
        hide_gradients(g);
    struct sw_pass pass = {.stream = stream, .step = step, .training = true};
    do
        if (run(&g->layer, &pass, &err) != SW_OK)
            fail_msg("%s: %s", where, err.text);
    while (++pass.phase < phases);
    if (sw_stream_wait(stream, &err) != SW_OK)
        fail_msg("%s: %s", where, err.text);
    move_back(&m, g);
    sw_device_free(stream->dev, step, sizeof g->step);
}

static void prepare(struct rig *g, const struct values *v)
{
    struct sw_layer *l = &g->layer;
    set_inputs(g, v);
    poison(l->dst.data, sw_desc_bytes(&l->dst.desc));
    poison(l->saved, l->saved_bytes);
    poison(l->scratch, l->scratch_bytes);
    if (l->type->role != SW_ROLE_LOSS)
        store_plain(&l->dst.desc, v->dst_grad, l->dst.grad);
    else
        poison(l->dst.grad, sw_desc_bytes(&l->dst.desc));
}

/* Runs forward and backward of an example on the CPU and on the device; `compare` gets both. how:
 * its block, no_data and type are used. */
typedef void compare_fn(const struct rig *there, const struct rig *cpu);

static void check_example(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                          struct sw_stream *cpu, struct sw_stream *there, struct how how,
                          compare_fn *compare)
{
    struct rig a, b;
    how.stream = cpu;
    rig_setup(&a, type, ex, &how);
    how.stream = there;
    rig_setup(&b, type, ex, &how);
    for (int k = 0; k < a.layer.src_count; k++) {
        a.layer.src[k] = &a.src[k];
        b.layer.src[k] = &b.src[k];
    }
    struct values v = values_new(&a, ex, 1);
    struct sw_err err;
    prepare(&a, &v);
    prepare(&b, &v);
    ASSERT_OK(rig_phases(&a, type->forward, a.layer.phases.forward, &err));
    if (type->backward)
        ASSERT_OK(rig_phases(&a, type->backward, a.layer.phases.backward, &err));
    run_on_device(&b, false, there);
    if (type->backward)
        run_on_device(&b, true, there);
    compare(&b, &a);
    values_free(&v);
    rig_close(&a);
    rig_close(&b);
}

static void check_examples_in(enum sw_dtype element, const struct sw_layer_type *type,
                              struct sw_stream *cpu, struct sw_stream *there, compare_fn *compare)
{
    for (int e = 0; type->examples && type->examples[e].recipe; e++)
        for (int block = 0; block <= 16; block += 16) {
            struct how how = {.block = block, .type = element};
            snprintf(where, sizeof where, "%s, example %d, block %d, %s", type->base.name, e, block,
                     sw_dtype_name(element));
            check_example(type, &type->examples[e], cpu, there, how, compare);
            how.no_data = true;
            if (type->base.params && type->backward)
                check_example(type, &type->examples[e], cpu, there, how, compare);
        }
}

static void check_examples(const struct sw_layer_type *type, struct sw_stream *cpu,
                           struct sw_stream *there, compare_fn *compare)
{
    check_examples_in(SW_F32, type, cpu, there, compare);
}

/* The same with sources and outputs of 16 bits, for the layers that support them. */
static inline void check_half_examples(enum sw_dtype halves, struct sw_stream *cpu,
                                       struct sw_stream *there, compare_fn *compare)
{
    for (int t = 0; sw_layer_types[t]; t++)
        if (sw_layer_types[t]->halves)
            check_examples_in(halves, sw_layer_types[t], cpu, there, compare);
}

/* Runs all examples of all layers with plain and with blocked sources, and those with parameters
 * also as the first layer of a net. */
static inline void check_all_examples(struct sw_stream *cpu, struct sw_stream *there,
                                      compare_fn *compare)
{
    for (int t = 0; sw_layer_types[t]; t++)
        check_examples(sw_layer_types[t], cpu, there, compare);
}

/* The same for layers with parameters, which include all layers with products: other layers round
 * nothing. */
static inline void check_learning_examples(struct sw_stream *cpu, struct sw_stream *there,
                                           compare_fn *compare)
{
    for (int t = 0; sw_layer_types[t]; t++)
        if (sw_layer_types[t]->base.params && sw_layer_types[t]->backward)
            check_examples(sw_layer_types[t], cpu, there, compare);
}
