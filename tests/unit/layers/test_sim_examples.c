/* ctest-labels: threads
 * Every example of every layer type on a simulated GPU: the same bits as on the CPU. What a layer
 * gets lies in the device's memory, each array in an allocation of its own and of its exact size,
 * so that an operation which forgets a pointer or claims more than there is behind it is found. */
#include "layer_support.h"

#include "unit/device/sim_support.h"

enum { SLOTS = 64 };

static char where[256]; /* what a failure is about */

/* ---- Moving a layer to the device and back ---- */

/* A pointer of the layer, and the host's array that stands there before and after. */
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
    add_slot(m, &l->sums, (size_t)l->sum_count * sizeof(double));
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
        /* As in a net, where there is nothing there is no pointer. */
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

/* All phases of a pass; one worker has nothing to add in between. */
static void run_there(struct rig *g, rig_phase *run, int phases, struct sw_stream *stream)
{
    struct move m = {.stream = stream};
    struct sw_err err;
    struct sw_step *step = to_device(stream, &g->step, sizeof g->step);
    move_out(&m, g);
    struct sw_pass pass = {stream, step, true, 0};
    do
        if (run(&g->layer, &pass, &err) != SW_OK)
            fail_msg("%s: %s", where, err.text);
    while (++pass.phase < phases);
    if (sw_stream_wait(stream, &err) != SW_OK)
        fail_msg("%s: %s", where, err.text);
    move_back(&m, g);
    sw_device_free(stream->dev, step, sizeof g->step);
}

/* ---- The comparison ---- */

static void prepare(struct rig *g, const struct values *v)
{
    struct sw_layer *l = &g->layer;
    put_inputs(g, v);
    poison(l->dst.data, sw_desc_bytes(&l->dst.desc));
    poison(l->saved, l->saved_bytes);
    poison(l->scratch, l->scratch_bytes);
    if (l->type->role != SW_ROLE_LOSS)
        sw_desc_from_plain(&l->dst.desc, v->dst_grad, l->dst.grad);
    else
        poison(l->dst.grad, sw_desc_bytes(&l->dst.desc));
}

static void compare(const char *what, const void *a, const void *b, size_t bytes)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", where, what);
    if (a && b)
        assert_same_bits(text, a, b, bytes);
}

static void compare_layers(const struct rig *a, const struct rig *b)
{
    const struct sw_layer *x = &a->layer, *y = &b->layer;
    enum sw_layer_role role = x->type->role;
    int pairs = x->pair_count > 0 ? x->pair_count : 1;
    if (role == SW_ROLE_LOSS || role == SW_ROLE_METRIC)
        compare("result", a->result, b->result, (size_t)pairs * sizeof *a->result);
    if (role != SW_ROLE_METRIC)
        compare("output", x->dst.data, y->dst.data, sw_desc_bytes(&x->dst.desc));
    for (int k = 0; k < x->src_count; k++)
        compare("source gradient", x->src_grad[k], y->src_grad[k], sw_desc_bytes(&a->src[k].desc));
    for (int i = 0; i < x->param_count; i++)
        compare("parameter gradient", x->param[i].grad, y->param[i].grad,
                sw_desc_bytes(&x->param[i].layout));
    for (int i = 0; i < x->keep_count; i++)
        compare("state", x->keeps[i].value, y->keeps[i].value, sw_desc_bytes(&x->keeps[i].layout));
}

static void check_example(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                          struct sw_stream *cpu, struct sw_stream *sim, int block)
{
    struct rig a, b;
    rig_setup(&a, type, ex, &(struct how){.stream = cpu, .block = block});
    rig_setup(&b, type, ex, &(struct how){.stream = sim, .block = block});
    for (int k = 0; k < a.layer.src_count; k++) {
        a.layer.src[k] = &a.src[k];
        b.layer.src[k] = &b.src[k];
    }
    struct values v = values_new(&a, ex, 1);
    struct sw_err err;
    prepare(&a, &v);
    prepare(&b, &v);
    ASSERT_OK(rig_phases(&a, type->forward, a.layer.forward_phases, &err));
    if (type->backward)
        ASSERT_OK(rig_phases(&a, type->backward, a.layer.backward_phases, &err));
    run_there(&b, type->forward, b.layer.forward_phases, sim);
    if (type->backward)
        run_there(&b, type->backward, b.layer.backward_phases, sim);
    compare_layers(&b, &a);
    values_free(&v);
    rig_close(&a);
    rig_close(&b);
}

static void examples_have_the_bits_of_the_cpu(void **state)
{
    struct fixture cpu = open_cpu(false, 1);
    struct sw_device *dev = open_sim(0);
    struct sw_stream *sim = new_stream(dev);
    (void)state;
    for (int t = 0; sw_layer_types[t]; t++) {
        const struct sw_layer_type *type = sw_layer_types[t];
        for (int e = 0; type->examples && type->examples[e].recipe; e++)
            for (int block = 0; block <= 16; block += 16) {
                snprintf(where, sizeof where, "%s, example %d, block %d", type->base.name, e,
                         block);
                check_example(type, &type->examples[e], cpu.stream, sim, block);
            }
    }
    sw_stream_free(sim);
    sw_device_close(dev);
    close_cpu(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_have_the_bits_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
