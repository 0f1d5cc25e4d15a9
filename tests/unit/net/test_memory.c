/* ctest-timeout: 120
 * The memory plan over random nets: what a pass computes in the planned arena, full of old values,
 * is bit-identical to what it computes when every block has separate memory and nothing is in
 * place; and by the layers' own declarations no two blocks that live at the same time overlap. */
#include "net_support.h"
#include "random_net.h"

enum { NETS = 120, STEPS = 2, PAGE = 4096 };

static struct plan_of_world plan_for(uint64_t seed)
{
    return (struct plan_of_world){.rows = 2 + (int64_t)(seed % 3),
                                  .channels = 1 + (int64_t)(seed % 7) * 3,
                                  .height = 8,
                                  .width = 10,
                                  .classes = RANDOM_CLASSES,
                                  .reference = seed % 2,
                                  .precision = seed / 8 % 4,
                                  .apart = seed % 4 > 1};
}

/* ---- Against private memory ---- */

static int64_t own_block(size_t *end, size_t bytes)
{
    int64_t at = (int64_t)*end;
    *end += (bytes + PAGE) / PAGE * PAGE; /* at least one byte more than it needs */
    return at;
}

/* Gives every value of the plan a place of its own, before the net is bound. */
static void spread(struct sw_net *net)
{
    size_t end = 0;
    for (int i = 0; i < net->graph.count; i++) {
        const struct sw_net_shape *shape = &net->shapes.node[i];
        struct sw_net_alias *alias = &net->aliases.node[i];
        struct sw_net_places *places = &net->memory.node[i];
        const struct sw_layer *l = &shape->layer;
        size_t bytes = sw_desc_bytes(&l->dst.desc);
        alias->in_place = shape->fused; /* its source has computed it */
        alias->root = alias->in_place ? net->aliases.node[net->graph.node[i].src[0]].root : i;
        alias->grad_in_place = false;
        places->data = own_block(&end, bytes);
        if (shape->needs_grad)
            places->grad = own_block(&end, bytes);
        places->saved = own_block(&end, l->saved_bytes);
        places->forward_scratch = own_block(&end, l->scratch_bytes);
        places->backward_scratch = own_block(&end, l->scratch_bytes);
        places->forward_sums = own_block(&end, (size_t)l->phases.sums * sizeof(double));
        places->backward_sums = own_block(&end, (size_t)l->phases.sums * sizeof(double));
        for (int k = 0; k < l->src_count; k++)
            if (alias->adds_grad[k])
                places->aside[k] = own_block(&end, sw_desc_bytes(&l->src[k]->desc));
    }
    net->memory.pairs_at =
        own_block(&end, (size_t)net->shapes.pair_count * sizeof(struct sw_result));
    net->memory.step_at = own_block(&end, sizeof net->staging->step);
    net->memory.arena_bytes = end;
}

static void assert_same_results(const char *text, const struct world *a, const struct world *b)
{
    for (int r = 0; r < sw_net_result_count(a->net); r++) {
        int first = sw_net_result(a->net, r).first;
        struct sw_result x = sw_net_pairs(a->net)[first], y = sw_net_pairs(b->net)[first];
        if (!(x.sum == y.sum && x.weight == y.weight && isfinite(x.sum)))
            fail_msg("result of %s: %.17g, should be %.17g\n%s",
                     sw_net_layer(a->net, sw_net_result(a->net, r).layer)->name, x.sum, y.sum,
                     text);
    }
}

static void assert_same_gradients(const char *text, const struct world *a, const struct world *b)
{
    for (int p = 0; p < sw_net_param_count(a->net); p++) {
        const struct sw_desc *d = &world_layer_param(a, p)->layout;
        if (memcmp(a->grad[p], b->grad[p], sw_desc_bytes(d)) != 0)
            fail_msg("the gradient of %s differs\n%s", sw_net_param(a->net, p)->name, text);
        for (int64_t i = 0; i < sw_desc_storage(d); i++)
            assert_true(isfinite(a->grad[p][i]));
    }
}

static void planned_memory_computes_what_private_memory_does(void **state)
{
    for (uint64_t seed = 0; seed < NETS; seed++) {
        char *text = random_net_text(seed);
        struct plan_of_world plan = plan_for(seed);
        struct world planned = world_new(text, &plan), apart = world_open(text, &plan);
        spread(apart.net);
        world_bind(&apart);
        for (uint64_t t = 0; t < STEPS; t++) {
            planned.step.step = apart.step.step = t;
            world_forward(&planned);
            world_forward(&apart);
            assert_same_results(text, &planned, &apart);
            world_backward(&planned);
            world_backward(&apart);
            assert_same_gradients(text, &planned, &apart);
        }
        world_free(&planned);
        world_free(&apart);
        sw_free(text);
    }
}

/* Nothing of a step is alive at its end: an evaluation in the same arena changes nothing. */
static void an_evaluation_net_shares_the_arena(void **state)
{
    for (uint64_t seed = 0; seed < NETS / 4; seed++) {
        char *text = random_net_text(seed);
        struct plan_of_world plan = plan_for(seed);
        struct world train = world_new(text, &plan), alone = world_new(text, &plan);
        plan.evaluation = true;
        plan.rows += 2;
        plan.shares = &train;
        struct world eval = world_new(text, &plan);
        size_t train_bytes = sw_net_arena_bytes(train.net);
        size_t eval_bytes = sw_net_arena_bytes(eval.net);
        char *arena = aligned_alloc(PAGE, train_bytes > eval_bytes ? train_bytes : eval_bytes);
        assert_non_null(arena);
        sw_net_bind(train.net, arena, NULL);
        sw_net_bind(eval.net, arena, NULL);
        for (uint64_t t = 0; t < STEPS; t++) {
            train.step.step = alone.step.step = t;
            world_forward(&train);
            world_backward(&train);
            world_forward(&eval);
            world_forward(&alone);
            world_backward(&alone);
            assert_same_results(text, &train, &alone);
            assert_same_gradients(text, &train, &alone);
        }
        world_free(&eval);
        world_free(&train);
        world_free(&alone);
        free(arena);
        sw_free(text);
    }
}

/* ---- Lives ---- */

/* A block by what layers say they write and read. */
struct life {
    const char *layer, *what;
    const char *from;
    size_t bytes;
    int first, last;
    int taken_over; /* the moment at which its writer runs in place of another block, or -1 */
};

struct lives {
    struct life at[RANDOM_LAYERS * 3 * 8];
    int count;
};

static void add_life(struct lives *s, const struct sw_net_graph_node *node, const char *what,
                     const void *from, size_t bytes, int first, int last, int taken_over)
{
    if (from && bytes)
        s->at[s->count++] = (struct life){node->name, what, from, bytes, first, last, taken_over};
}

static int backward_moment(const struct sw_net *net, int i)
{
    return 2 * net->graph.count - 1 - i;
}

/* Has the node no output of its own? */
static bool is_view(const struct sw_net *net, int i)
{
    return net->aliases.node[i].in_place && net->shapes.node[i].layer.view;
}

static int last_reading(const struct sw_net *net, int i)
{
    const struct sw_layer *l = &net->shapes.node[i].layer;
    int last =
        net->shapes.node[i].has_backward && l->backward_reads_dst ? backward_moment(net, i) : i;
    for (int j = 0; j < net->graph.count; j++)
        for (int k = 0; k < net->graph.node[j].src_count; k++) {
            const struct sw_net_graph_node *reader = &net->graph.node[j];
            const struct sw_net_shape *shape = &net->shapes.node[j];
            bool again = shape->has_backward && shape->layer.backward_reads_src >> k & 1;
            int moment = again ? backward_moment(net, j) : j;
            if (reader->src[k] == i && moment > last)
                last = moment;
            if (reader->src[0] == i && is_view(net, j) && last_reading(net, j) > last)
                last = last_reading(net, j);
        }
    return last;
}

/* The backward moment at which the output's gradient is first written. */
static int first_gradient(const struct sw_net *net, int i)
{
    int first = -1;
    for (int j = 0; j < net->graph.count; j++)
        for (int k = 0; k < net->graph.node[j].src_count; k++)
            if (net->graph.node[j].src[k] == i && net->shapes.node[j].layer.src_grad[k])
                first = backward_moment(net, j);
    return first;
}

static bool writes_gradient_in_place(const struct sw_net *net, int i)
{
    return sw_net_shares_grad(&net->aliases, i);
}

static void find_lives(const struct sw_net *net, struct lives *s)
{
    s->count = 0;
    for (int i = 0; i < net->graph.count; i++) {
        const struct sw_net_graph_node *node = &net->graph.node[i];
        const struct sw_net_places *places = &net->memory.node[i];
        const struct sw_layer *l = &net->shapes.node[i].layer;
        bool has_backward = net->shapes.node[i].has_backward;
        size_t bytes = sw_desc_bytes(&l->dst.desc);
        int back = backward_moment(net, i), first = first_gradient(net, i);
        bool input = l->type->role == SW_ROLE_INPUT;
        /* An input is the batch itself, or a copy that is made before the first layer runs. */
        if (input ? !net->args.stream->dev->host_memory : !is_view(net, i))
            add_life(s, node, "output", l->dst.data, bytes, input ? 0 : i, last_reading(net, i),
                     net->aliases.node[i].in_place ? i : -1);
        if (first >= 0)
            add_life(s, node, "gradient", l->dst.grad, bytes, first, back,
                     writes_gradient_in_place(net, i) ? first : -1);
        add_life(s, node, "saved", l->saved, l->saved_bytes, i, has_backward ? back : i, -1);
        if (l->scratch_bytes)
            add_life(s, node, "scratch", net->arena + places->forward_scratch, l->scratch_bytes, i,
                     i, -1);
        if (l->scratch_bytes && has_backward)
            add_life(s, node, "backward scratch", net->arena + places->backward_scratch,
                     l->scratch_bytes, back, back, -1);
        size_t sums_bytes = (size_t)l->phases.sums * sizeof(double);
        if (sums_bytes)
            add_life(s, node, "sums", net->arena + places->forward_sums, sums_bytes, i, i, -1);
        if (sums_bytes && has_backward)
            add_life(s, node, "backward sums", net->arena + places->backward_sums, sums_bytes, back,
                     back, -1);
        for (int k = 0; k < l->src_count; k++)
            if (net->aliases.node[i].adds_grad[k])
                add_life(s, node, "gradient aside", l->src_grad[k], sw_desc_bytes(&l->src[k]->desc),
                         back, back, -1);
    }
}

/* A block that is taken over ends at the moment at which its successor, at the same place, begins.
 */
static bool hands_over(const struct life *a, const struct life *b)
{
    return b->taken_over >= 0 && a->last == b->taken_over && b->first == b->taken_over &&
           a->from == b->from;
}

static void check_lives(const struct sw_net *net, const char *text)
{
    struct lives s;
    find_lives(net, &s);
    for (int i = 0; i < s.count; i++) {
        const struct life *a = &s.at[i];
        assert_true(a->from >= net->arena);
        assert_true(a->from + a->bytes <= net->arena + net->memory.arena_bytes);
        assert_int_equal((uintptr_t)a->from % 64, 0);
        for (int j = i + 1; j < s.count; j++) {
            const struct life *b = &s.at[j];
            bool meet = a->first <= b->last && b->first <= a->last;
            bool overlap = a->from < b->from + b->bytes && b->from < a->from + a->bytes;
            if (meet && overlap && !hands_over(a, b) && !hands_over(b, a))
                fail_msg("%s of %s and %s of %s overlap\n%s", a->what, a->layer, b->what, b->layer,
                         text);
        }
    }
}

/* Bytes alive at a moment; a block that is just taken over counts once. */
static size_t bytes_alive(const struct lives *s, int moment)
{
    size_t bytes = 0;
    for (int i = 0; i < s->count; i++)
        if (s->at[i].first <= moment && moment <= s->at[i].last && s->at[i].taken_over != moment)
            bytes += s->at[i].bytes;
    return bytes;
}

static void live_blocks_do_not_overlap(void **state)
{
    size_t planned = 0, needed = 0;
    for (uint64_t seed = 0; seed < NETS; seed++) {
        char *text = random_net_text(seed);
        struct plan_of_world plan = plan_for(seed);
        struct world w = world_new(text, &plan);
        struct lives s;
        /* The step's scalars and the results lie there all the time. */
        size_t most = 0, sum = 0, pages = 2 * PAGE;
        check_lives(w.net, text);
        find_lives(w.net, &s);
        for (int m = 0; m < 2 * w.net->graph.count; m++)
            most = bytes_alive(&s, m) > most ? bytes_alive(&s, m) : most;
        for (int i = 0; i < s.count; i++) {
            sum += s.at[i].bytes;
            pages += (s.at[i].bytes + PAGE - 1) / PAGE * PAGE;
        }
        assert_true(sw_net_arena_bytes(w.net) >= most);
        assert_true(sw_net_arena_bytes(w.net) <= pages);
        assert_true(sum > 0);
        planned += sw_net_arena_bytes(w.net);
        needed += pages;
        world_free(&w);
        sw_free(text);
    }
    /* Sharing is what the plan is for. */
    print_message("all nets: %zu KiB planned of %zu KiB\n", planned / 1024, needed / 1024);
    assert_true(planned < needed * 3 / 4);
}

static void memory_plan_is_deterministic(void **state)
{
    for (uint64_t seed = 0; seed < NETS / 4; seed++) {
        char *text = random_net_text(seed);
        struct plan_of_world plan = plan_for(seed);
        struct world a = world_open(text, &plan), b = world_open(text, &plan);
        assert_int_equal(sw_net_arena_bytes(a.net), sw_net_arena_bytes(b.net));
        for (int i = 0; i < a.net->graph.count; i++) {
            assert_int_equal(a.net->memory.node[i].data, b.net->memory.node[i].data);
            assert_int_equal(a.net->memory.node[i].grad, b.net->memory.node[i].grad);
        }
        world_free(&a);
        world_free(&b);
        sw_free(text);
    }
}

/* ---- What is stored in 16 bits ---- */

static enum sw_dtype stored(const struct world *w, const char *layer)
{
    return sw_net_layer(w->net, sw_net_find(w->net, layer))->dst.desc.dtype;
}

static void activations_have_16_bits_if_all_their_readers_can(void **state)
{
    static const char text[] =
        WORLD_INPUTS "[layer a]\ntype = convolution\noutputs = 8\nkernel = 3\nsrc = image\n"
                     "[layer act]\ntype = activation\nfunction = relu\nsrc = a\n"
                     "[layer both]\ntype = inner_product\noutputs = 6\nsrc = act\n"
                     "[layer thin]\ntype = sparsity\nsrc = both\n"
                     "[layer wide]\ntype = inner_product\noutputs = 20\nsrc = both\n"
                     "[layer drop]\ntype = dropout\nsrc = wide\n"
                     "[layer fc]\ntype = inner_product\noutputs = 6\nsrc = drop\n"
                     "[layer tail]\ntype = activation\nfunction = tanh\nsrc = fc\n"
                     "[layer loss]\ntype = softmax_loss\nsrc = tail, label\n";
    static const char *const halves[] = {"a", "act", "wide", "drop"};
    static const char *const floats[] = {"image", "both", "thin", "fc", "tail", "loss"};

    for (enum sw_precision p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++) {
        struct plan_of_world plan = plan_for(0);
        plan.precision = p;
        struct world w = world_new(text, &plan);
        for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
            assert_int_equal(stored(&w, halves[i]), p == SW_PRECISION_BF16   ? SW_BF16
                                                    : p == SW_PRECISION_FP16 ? SW_F16
                                                                             : SW_F32);
        for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
            assert_int_equal(stored(&w, floats[i]), SW_F32);
        world_free(&w);
    }
}

/* ---- Who may lie in whose memory ---- */

#define CONV(name, src)                                                                            \
    "[layer " name "]\ntype = convolution\noutputs = 8\nkernel = 3\npad = 1\nsrc = " src "\n"
#define LAYER(name, type, src) "[layer " name "]\ntype = " type "\nsrc = " src "\n"
#define END(src)                                                                                   \
    LAYER("fc", "inner_product", src) "outputs = 6\n" LAYER("loss", "softmax_loss", "fc, label")

static void assert_places(const char *text, const char *in_place, const char *apart)
{
    struct plan_of_world plan = plan_for(0);
    struct world w = world_new(text, &plan);
    assert_true(sw_net_info(w.net, sw_net_find(w.net, in_place)).in_place);
    assert_false(sw_net_info(w.net, sw_net_find(w.net, apart)).in_place);
    check_lives(w.net, text);
    world_free(&w);
}

static void sum_overwrites_only_sources_without_other_readers(void **state)
{
    /* The branch is read by the sum alone; the shortcut by a convolution too. */
    assert_places(WORLD_INPUTS CONV("a", "image") CONV("b", "a") LAYER("sum", "eltwise", "b, a")
                      LAYER("sum2", "eltwise", "a, sum") END("sum2"),
                  "sum", "sum2");
    /* A view gives it a second name, through which somebody reads. */
    assert_places(WORLD_INPUTS CONV("a", "image") CONV("b", "image") LAYER("view", "split", "a")
                      LAYER("sum", "eltwise", "view, b") CONV("c", "a")
                          LAYER("sum2", "eltwise", "sum, c") END("sum2"),
                  "sum2", "sum");
    /* The same through a view that is the only reader. */
    assert_places(WORLD_INPUTS CONV("a", "image") CONV("b", "image") LAYER("view", "split", "a")
                      LAYER("sum", "eltwise", "view, b") LAYER("twice", "eltwise", "sum, sum")
                          END("twice"),
                  "sum", "twice");
    /* A product reads its sources again. */
    assert_places(WORLD_INPUTS CONV("a", "image") CONV("b", "image") LAYER("sum", "eltwise", "a, b")
                      CONV("c", "image") LAYER("product", "eltwise",
                                               "sum, c") "operation = product\n" END("product"),
                  "sum", "product");
}

/* The batch is where the prefetcher has it, and so are views of it. */
static void views_of_the_data_follow_the_batch(void **state)
{
    const char *text =
        WORLD_INPUTS LAYER("view", "split", "image") LAYER("flat", "flatten", "view") END("flat");
    struct plan_of_world plan = plan_for(1);
    struct world w = world_new(text, &plan);
    const struct sw_layer *flat = sw_net_layer(w.net, sw_net_find(w.net, "flat"));
    struct sw_err err;
    assert_ptr_equal(flat->dst.data, w.image);
    world_forward(&w);
    float *other = get_floats(plan.rows * plan.channels * plan.height * plan.width);
    memcpy(other, w.image, sw_desc_bytes(&flat->dst.desc));
    ASSERT_OK(sw_net_set_field(w.net, "image", other, &err));
    assert_ptr_equal(flat->dst.data, other);
    world_forward(&w);
    world_free(&w);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_memory_computes_what_private_memory_does),
        cmocka_unit_test(an_evaluation_net_shares_the_arena),
        cmocka_unit_test(live_blocks_do_not_overlap),
        cmocka_unit_test(memory_plan_is_deterministic),
        cmocka_unit_test(activations_have_16_bits_if_all_their_readers_can),
        cmocka_unit_test(sum_overwrites_only_sources_without_other_readers),
        cmocka_unit_test(views_of_the_data_follow_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
