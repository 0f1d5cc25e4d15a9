/* ctest-labels: threads
 * Branches of a net on separate streams: assignment of layers to streams, waits, bit-identity with
 * one stream, and detection of a missing wait. All on simulated GPUs, which detect accesses to
 * memory that another stream may still use. */
#include "unit/device/sim_support.h"

#include "net_support.h"
#include "random_net.h"

static const struct plan_of_world small = {
    .rows = 3, .channels = 4, .height = 6, .width = 5, .classes = 6};

/* A net on a simulated GPU with the values and the batch of one on the CPU. */
struct on_gpu {
    const struct world *w; /* borrowed */
    struct sw_device *dev;
    struct sw_stream *stream;
    struct sw_net *net;
    void *arena, *value[WORLD_PARAMS], *grad[WORLD_PARAMS], *kept[WORLD_PARAMS];
};

static size_t param_bytes(const struct on_gpu *g, int p)
{
    const struct sw_net_param *np = sw_net_param(g->net, p);
    return sw_desc_bytes(&sw_net_layer(g->net, np->layer)->param[np->index].layout);
}

static size_t state_bytes(const struct on_gpu *g, int s)
{
    const struct sw_net_buffer *ns = sw_net_buffer(g->net, s);
    return sw_desc_bytes(&sw_net_layer(g->net, ns->layer)->keeps[ns->index].layout);
}

static void bind(struct on_gpu *g)
{
    const struct world *w = g->w;
    g->arena = device_bytes(g->dev, sw_net_arena_bytes(g->net) + 64);
    sw_net_bind(g->net, g->arena, NULL);
    for (int p = 0; p < sw_net_param_count(g->net); p++) {
        int root = sw_net_param(g->net, p)->root;
        size_t bytes = param_bytes(g, p);
        assert_int_equal(bytes, sw_desc_bytes(&world_layer_param(w, p)->layout));
        g->value[p] = root >= 0 ? g->value[root] : to_device(g->stream, w->value[p], bytes);
        g->grad[p] = root >= 0 ? g->grad[root] : device_bytes(g->dev, bytes);
        sw_net_bind_param(g->net, p, g->value[p], g->grad[p]);
    }
    for (int s = 0; s < sw_net_buffer_count(g->net); s++) {
        g->kept[s] = to_device(g->stream, w->kept[s], state_bytes(g, s));
        sw_net_bind_buffer(g->net, s, g->kept[s], g->kept[s]);
    }
}

static struct on_gpu gpu_open(const struct world *w, int streams)
{
    struct on_gpu g = {.w = w, .dev = open_sim(0)};
    const int64_t dim[4] = {w->plan.rows, w->plan.channels, w->plan.height, w->plan.width};
    const struct sw_net_field fields[2] = {
        {.name = "image", .desc = sw_desc_plain(SW_F32, 4, dim)},
        {.name = "label", .desc = sw_desc_plain(SW_I32, 1, dim)}};
    struct sw_err err;
    g.stream = new_stream(g.dev);
    sw_stream_name(g.stream, "control");
    const struct sw_net_args args = {.recipe = w->recipe,
                                     .stream = g.stream,
                                     .seed = 3,
                                     .training = true,
                                     .rows = w->plan.rows,
                                     .fields = fields,
                                     .field_count = 2,
                                     .source = "test",
                                     .streams = streams,
                                     .threads = 1};
    ASSERT_OK(sw_net_new(&args, &g.net, &err));
    bind(&g);
    return g;
}

static void gpu_close(struct on_gpu *g)
{
    int rc;
    sw_net_settle(g->net);
    rc = sw_stream_wait(g->stream, NULL); /* of a test in which it fails, too */
    (void)rc;
    for (int p = 0; p < sw_net_param_count(g->net); p++) {
        if (sw_net_param(g->net, p)->root >= 0)
            continue;
        sw_device_free(g->dev, g->value[p], param_bytes(g, p));
        sw_device_free(g->dev, g->grad[p], param_bytes(g, p));
    }
    for (int s = 0; s < sw_net_buffer_count(g->net); s++)
        sw_device_free(g->dev, g->kept[s], state_bytes(g, s));
    sw_device_free(g->dev, g->arena, sw_net_arena_bytes(g->net) + 64);
    sw_net_free(g->net);
    sw_stream_free(g->stream);
    sw_device_close(g->dev);
}

static int run_step(struct on_gpu *g, struct sw_err *err)
{
    int layers = sw_net_layer_count(g->net);
    int rc = sw_net_set_step(g->net, &g->w->step, err);
    if (rc == SW_OK)
        rc = sw_net_set_field(g->net, "image", g->w->image, err);
    if (rc == SW_OK)
        rc = sw_net_set_field(g->net, "label", g->w->label, err);
    for (int i = 0; i < layers && rc == SW_OK; i++)
        rc = sw_net_forward(g->net, i, err);
    for (int i = layers - 1; i >= 0 && rc == SW_OK; i--)
        if (sw_net_has_backward(g->net, i))
            rc = sw_net_backward(g->net, i, err);
    if (rc == SW_OK)
        rc = sw_net_fetch(g->net, err);
    return rc == SW_OK ? sw_stream_wait(g->stream, err) : rc;
}

static void assert_same_step(struct on_gpu *a, struct on_gpu *b)
{
    struct sw_err err;
    ASSERT_OK(run_step(a, &err));
    ASSERT_OK(run_step(b, &err));
    assert_memory_equal(sw_net_pairs(a->net), sw_net_pairs(b->net),
                        (size_t)sw_net_pair_count(a->net) * sizeof(struct sw_result));
    for (int p = 0; p < sw_net_param_count(a->net); p++) {
        size_t bytes = param_bytes(a, p);
        char *x = get_bytes(bytes), *y = get_bytes(bytes);
        to_host(a->stream, x, a->grad[p], bytes);
        to_host(b->stream, y, b->grad[p], bytes);
        if (memcmp(x, y, bytes) != 0)
            fail_msg("the gradient of %s differs", sw_net_param(a->net, p)->name);
        free(x);
        free(y);
    }
}

/* ---- Cases ---- */

#define CONV(name, src, kernel, pad)                                                               \
    "[layer " name "]\ntype = convolution\nsrc = " src "\noutputs = 4\nkernel = " kernel           \
    "\npad = " pad "\n"

static const char *const inception = WORLD_INPUTS CONV("stem", "image", "3", "1")
    CONV("a", "stem", "1", "0") CONV("b1", "stem", "1", "0") CONV("b2", "b1", "3", "1")
        CONV("c", "stem", "5", "2") "[layer cat]\ntype = concat\nsrc = a,b2,c\n"
                                    "[layer fc]\ntype = inner_product\nsrc = cat\noutputs = 6\n"
                                    "[layer loss]\ntype = softmax_loss\nsrc = fc,label\n";

static const char *const chain = WORLD_INPUTS CONV("one", "image", "3", "1")
    CONV("two", "one", "3", "1") "[layer fc]\ntype = inner_product\nsrc = two\noutputs = 6\n"
                                 "[layer loss]\ntype = softmax_loss\nsrc = fc,label\n"
                                 "[layer accuracy]\ntype = accuracy\nsrc = fc,label\n";

/* Whom a pass waits for, as ops; -1 behind the last. */
static int *waits_of(const struct sw_net *net, int node, bool back)
{
    const struct sw_branch_order *o = net->order;
    return &o->wait[sw_branch_order_op(o, node, back) * o->branches->count];
}

/* The k-th of them as its layer, or NULL. */
static const char *wait_of(const struct sw_net *net, int node, bool back, int k)
{
    const int *wait = waits_of(net, node, back);
    return k < net->order->branches->count && wait[k] >= 0
               ? sw_net_layer(net, net->exec.ops[wait[k]].node)->name
               : NULL;
}

static bool waits_for(const struct sw_net *net, const char *layer, bool back, const char *other)
{
    const char *name;
    for (int k = 0; (name = wait_of(net, sw_net_find(net, layer), back, k)); k++)
        if (strcmp(name, other) == 0)
            return true;
    return false;
}

static void branches_of_a_block_use_streams_and_join_after_it(void **state)
{
    struct world w = world_new(inception, &small);
    struct on_gpu g = gpu_open(&w, 4);
    assert_int_equal(sw_net_stream_count(g.net), 3);
    /* The first branch goes on behind the stem; the others wait for it. */
    assert_false(waits_for(g.net, "a", false, "stem"));
    assert_true(waits_for(g.net, "b1", false, "stem"));
    assert_true(waits_for(g.net, "c", false, "stem"));
    assert_false(waits_for(g.net, "c", false, "b2"));
    assert_true(waits_for(g.net, "cat", false, "b2"));
    /* Down again; those that add to the stem's gradient do so in one order. */
    assert_true(waits_for(g.net, "b2", true, "cat"));
    assert_true(waits_for(g.net, "b1", true, "c"));
    assert_true(waits_for(g.net, "a", true, "b1"));
    gpu_close(&g);
    world_free(&w);
}

static void streams_are_limited_to_the_requested_number(void **state)
{
    struct world w = world_new(inception, &small);
    for (int streams = 0; streams <= 3; streams++) {
        struct on_gpu g = gpu_open(&w, streams);
        assert_int_equal(sw_net_stream_count(g.net), streams > 1 ? streams : 1);
        gpu_close(&g);
    }
    world_free(&w);
}

static void a_chain_has_one_stream(void **state)
{
    struct world w = world_new(chain, &small);
    struct on_gpu g = gpu_open(&w, 4);
    assert_int_equal(sw_net_stream_count(g.net), 1);
    gpu_close(&g);
    world_free(&w);
}

static void step_is_bit_identical_to_one_stream(void **state)
{
    int branched = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        char *text = random_net_text(seed);
        struct world w = world_new(text, &small);
        struct on_gpu one = gpu_open(&w, 1), four = gpu_open(&w, 4);
        branched += sw_net_stream_count(four.net) > 1;
        assert_same_step(&one, &four);
        assert_same_step(&one, &four); /* what the first left behind is in nobody's way */
        gpu_close(&one);
        gpu_close(&four);
        world_free(&w);
        free(text);
    }
    assert_true(branched > 20);
}

/* Every wait is needed: without it the device sees two streams at one place. */
static void missing_wait_is_detected(void **state)
{
    struct world w = world_new(inception, &small);
    int layers = sw_net_layer_count(w.net), dropped = 0;
    for (int pass = 0; pass < 2 * layers; pass++)
        for (int k = 0; k < 3; k++) {
            struct on_gpu g = gpu_open(&w, 4);
            struct sw_err err;
            int i = pass / 2;
            bool back = pass % 2;
            if ((back && !sw_net_has_backward(g.net, i)) || !wait_of(g.net, i, back, k)) {
                gpu_close(&g);
                break;
            }
            print_message("%s of %s without its wait for %s\n", back ? "backward" : "forward",
                          sw_net_layer(g.net, i)->name, wait_of(g.net, i, back, k));
            int *wait = waits_of(g.net, i, back), count = g.net->order->branches->count;
            memmove(&wait[k], &wait[k + 1], (size_t)(count - k - 1) * sizeof *wait);
            wait[count - 1] = -1;
            dropped++;
            assert_int_equal(run_step(&g, &err), SW_ERR_INVALID);
            assert_says(&err, "no event between");
            assert_says(&err, "branch ");
            gpu_close(&g);
        }
    assert_true(dropped >= 8);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_of_a_block_use_streams_and_join_after_it),
        cmocka_unit_test(streams_are_limited_to_the_requested_number),
        cmocka_unit_test(a_chain_has_one_stream),
        cmocka_unit_test(step_is_bit_identical_to_one_stream),
        cmocka_unit_test(missing_wait_is_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
