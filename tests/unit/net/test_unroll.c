/* Layers that are unrolled over steps: cells made of plain layers against those that run over all
 * steps in one operation, and against differences of the loss; what connects steps; messages. */
#include "net_gradients.h"

enum { ROWS = 3, STEPS = 5, INPUTS = 6, HIDDEN = 4 };

static const struct plan_of_world sequences = {.rows = ROWS,
                                               .channels = STEPS * INPUTS,
                                               .height = 1,
                                               .width = 1,
                                               .classes = 6,
                                               .reference = true};

#define SEQUENCE WORLD_INPUTS "[layer x]\ntype = reshape\nsrc = image\nshape = 5, 6\n"
#define UNROLL "unroll = 5\n"
#define FC(name, src, keys)                                                                        \
    "[layer " name "]\ntype = inner_product\noutputs = 4\nsrc = " src "\n" UNROLL keys
#define BEFORE "connections = previous\n"
#define F(name, src, function)                                                                     \
    "[layer " name "]\ntype = activation\nfunction = " function "\nsrc = " src "\n" UNROLL
#define MIX(name, src, keys) "[layer " name "]\ntype = eltwise\nsrc = " src "\n" UNROLL keys
#define TIMES "operation = product\n"
/* Two products, one with the input and one with the h before; their sum; a function of it. */
#define GATE(g, function)                                                                          \
    FC("w" g, "x", "")                                                                             \
    FC("u" g, "h", "bias = no\n" BEFORE) MIX("a" g, "w" g ", u" g, "") F(g, "a" g, function)
#define END                                                                                        \
    "[layer scores]\ntype = inner_product\noutputs = 6\nsrc = h\n"                                 \
    "[layer loss]\ntype = softmax_loss\nsrc = scores, label\n"

#define RNN                                                                                        \
    FC("wh", "x", "") FC("uh", "h", "bias = no\n" BEFORE) MIX("a", "wh, uh", "") F("h", "a", "tanh")
#define GRU                                                                                        \
    GATE("r", "sigmoid")                                                                           \
    GATE("z", "sigmoid")                                                                           \
    FC("wn", "x", "")                                                                              \
    FC("un", "h", BEFORE)                                                                          \
    MIX("rq", "r, un", TIMES)                                                                      \
    MIX("an", "wn, rq", "")                                                                        \
    F("n", "an", "tanh")                                                                           \
    MIX("d", "h, n", "connections = previous, one-to-one\ncoefficients = 1, -1\n")                 \
    MIX("zd", "z, d", TIMES) MIX("h", "n, zd", "")
#define LSTM                                                                                       \
    GATE("i", "sigmoid")                                                                           \
    GATE("f", "sigmoid")                                                                           \
    GATE("g", "tanh")                                                                              \
    GATE("o", "sigmoid")                                                                           \
    MIX("fc", "f, c", TIMES "connections = one-to-one, previous\n")                                \
    MIX("ig", "i, g", TIMES) MIX("c", "fc, ig", "") F("t", "c", "tanh") MIX("h", "o, t", TIMES)

#define CELL(type) "[layer h]\ntype = " type "\nsrc = x\nhidden = 4\n"

/* Which rows of a parameter of the whole cell a parameter of the unrolled one is. */
struct part {
    const char *name, *whole;
    int first; /* in units of HIDDEN rows */
};

static const struct part rnn_parts[] = {
    {"wh.weight", "h.weight", 0}, {"uh.weight", "h.recurrent", 0}, {"wh.bias", "h.bias", 0}, {0}};
static const struct part gru_parts[] = {{"wr.weight", "h.weight", 0},
                                        {"wz.weight", "h.weight", 1},
                                        {"wn.weight", "h.weight", 2},
                                        {"ur.weight", "h.recurrent", 0},
                                        {"uz.weight", "h.recurrent", 1},
                                        {"un.weight", "h.recurrent", 2},
                                        {"wr.bias", "h.bias", 0},
                                        {"wz.bias", "h.bias", 1},
                                        {"wn.bias", "h.bias", 2},
                                        {"un.bias", "h.bias", 3},
                                        {0}};
static const struct part lstm_parts[] = {{"wi.weight", "h.weight", 0},
                                         {"wf.weight", "h.weight", 1},
                                         {"wg.weight", "h.weight", 2},
                                         {"wo.weight", "h.weight", 3},
                                         {"ui.weight", "h.recurrent", 0},
                                         {"uf.weight", "h.recurrent", 1},
                                         {"ug.weight", "h.recurrent", 2},
                                         {"uo.weight", "h.recurrent", 3},
                                         {"wi.bias", "h.bias", 0},
                                         {"wf.bias", "h.bias", 1},
                                         {"wg.bias", "h.bias", 2},
                                         {"wo.bias", "h.bias", 3},
                                         {0}};

/* The part's floats among those of the whole. */
static int64_t offset_of(const struct world *whole, const struct part *part)
{
    const struct sw_desc *d = &world_layer_param(whole, find_param(whole, part->whole))->layout;
    return part->first * HIDDEN * (d->ndim > 1 ? d->dim[1] : 1);
}

static void set_param(struct world *w, const char *name, const float *plain)
{
    int p = find_param(w, name);
    sw_desc_from_plain(&world_layer_param(w, p)->layout, plain, w->value[p]);
}

/* Gives the unrolled cell the whole one's values. */
static void copy_values(const struct world *whole, struct world *steps, const struct part *parts)
{
    for (const struct part *part = parts; part->name; part++) {
        int p = find_param(whole, part->whole);
        const struct sw_desc *d = &world_layer_param(whole, p)->layout;
        float *plain = get_floats(sw_desc_count(d));
        sw_desc_to_plain(d, whole->value[p], plain);
        set_param(steps, part->name, plain + offset_of(whole, part));
        free(plain);
    }
}

static void assert_same_output(const struct world *a, const struct world *b, const char *layer)
{
    int64_t n, m;
    float *one = plain_output(a, layer, &n), *other = plain_output(b, layer, &m);
    assert_int_equal(n, m);
    assert_close(layer, one, other, n, 1e-5);
    free(one);
    free(other);
}

static void assert_same_gradients(const struct world *whole, const struct world *steps,
                                  const struct part *parts)
{
    for (const struct part *part = parts; part->name; part++) {
        int p = find_param(steps, part->name);
        float *own = plain_gradient(steps, p);
        float *all = plain_gradient(whole, find_param(whole, part->whole));
        assert_close(part->name, own, all + offset_of(whole, part),
                     sw_desc_count(&world_layer_param(steps, p)->layout), 2e-5);
        free(own);
        free(all);
    }
}

static void compare(const char *fused, const char *unrolled, const struct part *parts)
{
    struct world whole = world_new(fused, &sequences), steps = world_new(unrolled, &sequences);
    copy_values(&whole, &steps, parts);
    world_forward(&whole);
    world_forward(&steps);
    assert_true(fabs(world_loss(&whole) - world_loss(&steps)) < 1e-6);
    assert_same_output(&whole, &steps, "h");
    world_backward(&whole);
    world_backward(&steps);
    assert_same_gradients(&whole, &steps, parts);
    world_free(&whole);
    world_free(&steps);
}

static void unrolled_cells_match_recurrent_layers(void **state)
{
    compare(SEQUENCE CELL("rnn") END, SEQUENCE RNN END, rnn_parts);
    compare(SEQUENCE CELL("gru") END, SEQUENCE GRU END, gru_parts);
    compare(SEQUENCE CELL("lstm") END, SEQUENCE LSTM END, lstm_parts);
}

#define SAME(name)                                                                                 \
    {                                                                                              \
        "h." name, "h." name, 0                                                                    \
    }
static const struct part same[] = {SAME("weight"),  SAME("recurrent"),  SAME("bias"),
                                   SAME("weight2"), SAME("recurrent2"), SAME("bias2"),
                                   SAME("weight3"), SAME("recurrent3"), SAME("bias3")};

/* A cell of `layers` layers, over whole sequences or one node for every step. */
static void print_cell(struct sw_bytes *to, const char *type, int layers, bool unrolled)
{
    sw_bytes_printf(
        to, SEQUENCE "[layer h]\ntype = %s\nhidden = 4\nlayers = %d\n%s" END, type, layers,
        unrolled ? "src = x, h\n" UNROLL "connections = one-to-one, previous\n" : "src = x\n");
}

static const char *const types[] = {"rnn", "gru", "lstm"};

/* What it hands on to the next step is more than others see: h of every layer, c of lstm. */
static void unrolled_recurrent_steps_match_recurrent_layers(void **state)
{
    for (int i = 0; i < 9; i++) {
        const int layers = i / 3 + 1;
        struct sw_bytes fused = {0}, steps = {0};
        struct part parts[sizeof same / sizeof *same + 1] = {0};
        memcpy(parts, same, (size_t)(3 * layers) * sizeof *same);
        print_cell(&fused, types[i % 3], layers, false);
        print_cell(&steps, types[i % 3], layers, true);
        compare(sw_bytes_text(&fused), sw_bytes_text(&steps), parts);
        sw_bytes_fini(&fused);
        sw_bytes_fini(&steps);
    }
}

static void gradients_of_steps_with_extra_state_match_differences(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct sw_bytes steps = {0};
        print_cell(&steps, types[i], 2, true);
        struct world w = world_new(sw_bytes_text(&steps), &sequences);
        check_world_gradients(&w);
        world_free(&w);
        sw_bytes_fini(&steps);
    }
}

/* Only the cell itself reads c; who else reads the step before has h. */
static void other_layers_read_only_the_output_of_the_previous_step(void **state)
{
    struct world w = world_new(SEQUENCE "[layer c]\ntype = lstm\nsrc = x, c\nhidden = 3\n" UNROLL
                                        "connections = one-to-one, previous\n" FC("u", "c", BEFORE)
                                            FC("h", "c", "") "[layer both]\ntype = concat\n"
                                                             "src = u, h\naxis = 2\n"
                                                             "[layer scores]\noutputs = 6\n"
                                                             "type = inner_product\nsrc = both\n"
                                                             "[layer loss]\ntype = softmax_loss\n"
                                                             "src = scores, label\n",
                               &sequences);
    int64_t n;
    assert_int_equal(world_layer_param(&w, find_param(&w, "u.weight"))->layout.dim[1], 3);
    world_forward(&w);
    float *both = plain_output(&w, "both", &n);
    const float *bias = w.value[find_param(&w, "u.bias")];
    assert_int_equal(n, ROWS * STEPS * 2 * HIDDEN);
    for (int64_t row = 0; row < ROWS; row++) /* behind zeros there is the bias alone */
        for (int64_t k = 0; k < HIDDEN; k++)
            assert_true(both[row * STEPS * 2 * HIDDEN + k] == bias[k]);
    check_world_gradients(&w);
    free(both);
    world_free(&w);
}

static void gradients_through_time_match_differences(void **state)
{
    static const char *const nets[] = {SEQUENCE CELL("rnn") END,  SEQUENCE CELL("gru") END,
                                       SEQUENCE CELL("lstm") END, SEQUENCE RNN END,
                                       SEQUENCE GRU END,          SEQUENCE LSTM END};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        struct world w = world_new(nets[i], &sequences);
        check_world_gradients(&w);
        world_free(&w);
    }
}

/* ---- What connects steps ---- */

/* A decoder that begins where the encoder ends and reads the same in every step. */
#define ENCODER(keys) "[layer enc]\nhidden = 4\nsrc = x" keys
#define CONTEXT "[layer v]\ntype = inner_product\nsrc = image\noutputs = 7\n"

/* lstm, too, takes h alone from its encoder. */
#define WHOLE_DECODER(type)                                                                        \
    SEQUENCE ENCODER("\ntype = " type "\noutput = last\n") CONTEXT                                 \
        "[layer three]\ntype = concat\nsrc = v, v, v\n"                                            \
        "[layer y]\ntype = reshape\nsrc = three\nshape = 3, 7\n"                                   \
        "[layer h]\ntype = " type "\nhidden = 4\nsrc = y, enc\n" END
#define DECODER_OF_STEPS(type)                                                                     \
    SEQUENCE ENCODER(", enc\ntype = " type "\n" UNROLL "connections = one-to-one, previous\n")     \
        CONTEXT "[layer h]\ntype = " type "\nhidden = 4\nsrc = v, enc, h\nunroll = 3\n"            \
                "connections = one-to-all, first-to-last, previous\n" END

static void decoder_starts_from_the_encoder_state(void **state)
{
    static const struct part parts[] = {{"enc.weight", "enc.weight", 0},
                                        {"enc.recurrent", "enc.recurrent", 0},
                                        {"h.weight", "h.weight", 0},
                                        {"h.recurrent", "h.recurrent", 0},
                                        {"h.bias", "h.bias", 0},
                                        {"v.weight", "v.weight", 0},
                                        {0}};
    compare(WHOLE_DECODER("gru"), DECODER_OF_STEPS("gru"), parts);
    compare(WHOLE_DECODER("lstm"), DECODER_OF_STEPS("lstm"), parts);
}

/* The last step alone, and steps that read a whole sequence. */
static void plain_layers_read_a_sequence_or_the_last_step(void **state)
{
    struct world w = world_new(
        SEQUENCE FC("h", "x", "") "[layer last]\ntype = inner_product\nsrc = h\noutputs = 6\n"
                                  "connections = first-to-last\n"
                                  "[layer each]\ntype = inner_product\nsrc = h\noutputs = 6\n"
                                  "connections = one-to-all\nunroll = 2\n"
                                  "[layer loss]\ntype = softmax_loss\nsrc = last, label\n"
                                  "[layer sum]\ntype = inner_product\nsrc = each\noutputs = 6\n"
                                  "[layer loss2]\ntype = softmax_loss\nsrc = sum, label\n",
        &sequences);
    const struct sw_layer *last = sw_net_layer(w.net, sw_net_find(w.net, "last"));
    const struct sw_layer *each = sw_net_layer(w.net, sw_net_find(w.net, "each@1"));
    assert_ptr_equal(last->src[0], &sw_net_layer(w.net, sw_net_find(w.net, "h@4"))->dst);
    assert_ptr_equal(each->src[0], &sw_net_layer(w.net, sw_net_find(w.net, "h"))->dst);
    check_world_gradients(&w);
    world_free(&w);
}

/* Steps one after the other, each through all layers, with the parameters of the first. */
static void steps_run_one_after_the_other_and_share_parameters(void **state)
{
    static const char *const order[] = {"x",   "h@begin", "x@0",  "wh@0", "a@0",
                                        "h@0", "x@1",     "wh@1", "a@1",  "h@1"};
    struct world w = world_open(SEQUENCE RNN END, &sequences);
    int at = -1, own = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int next = sw_net_find(w.net, order[i]);
        if (!(next > at))
            fail_msg("%s comes at place %d, behind %d", order[i], next, at);
        at = next;
    }
    for (int p = 0; p < sw_net_param_count(w.net); p++) {
        const struct sw_net_param *np = sw_net_param(w.net, p);
        own += np->root < 0;
        assert_null(strchr(np->name, '@'));
    }
    assert_int_equal(own, 5); /* wh.weight, wh.bias, uh.weight, scores.weight, scores.bias */
    world_free(&w);
}

/* More steps than a layer has sources, and than two levels of joins hold. */
static void long_sequences_are_joined_in_order(void **state)
{
    static const int64_t lengths[] = {1, 16, 17, 256, 300};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct plan_of_world plan = sequences;
        struct sw_bytes text = {0};
        plan.channels = lengths[i] * 2;
        sw_bytes_printf(&text,
                        WORLD_INPUTS
                        "[layer x]\ntype = reshape\nsrc = image\nshape = %lld, 2\n"
                        "[layer h]\ntype = activation\nfunction = tanh\nsrc = x\n"
                        "unroll = %lld\n"
                        "[layer flat]\ntype = flatten\nsrc = h\n"
                        "[layer scores]\ntype = inner_product\nsrc = flat\noutputs = 6\n"
                        "[layer loss]\ntype = softmax_loss\nsrc = scores, label\n",
                        (long long)lengths[i], (long long)lengths[i]);
        struct world w = world_new(sw_bytes_text(&text), &plan);
        int64_t n;
        world_forward(&w);
        float *joined = plain_output(&w, "flat", &n), *want = get_floats(n);
        for (int64_t k = 0; k < n; k++)
            want[k] = (float)tanh((double)w.image[k]);
        assert_close("joined", joined, want, n, 1e-6);
        world_backward(&w);
        free(joined);
        free(want);
        world_free(&w);
        sw_bytes_fini(&text);
    }
}

/* ---- What a batch leaves for the next ---- */

/* Two batches of a stateful net are one of twice the length. states: that a step hands on. */
static void check_state(const char *cell, size_t states)
{
    struct plan_of_world twice = sequences;
    struct sw_bytes text = {0}, whole_text = {0};
    sw_bytes_printf(&text,
                    SEQUENCE "[layer h]\nsrc = x, h\nhidden = 4\n%s" UNROLL
                             "connections = one-to-one, stateful\n" END,
                    cell);
    sw_bytes_printf(&whole_text,
                    WORLD_INPUTS "[layer x]\ntype = reshape\nsrc = image\nshape = 10, 6\n"
                                 "[layer h]\nsrc = x\nhidden = 4\n%s" END,
                    cell);
    struct world half = world_new(sw_bytes_text(&text), &sequences);
    twice.channels *= 2;
    struct world whole = world_new(sw_bytes_text(&whole_text), &twice);
    sw_bytes_fini(&text);
    sw_bytes_fini(&whole_text);
    int64_t each = STEPS * INPUTS, n;
    float *memory = get_floats((int64_t)(sw_net_recurrent_state_bytes(half.net) / sizeof(float)));
    assert_true(sw_net_recurrent_state_bytes(half.net) >= ROWS * HIDDEN * states * sizeof(float));
    sw_net_bind_recurrent_state(half.net, memory);
    world_forward(&whole);
    float *all = plain_output(&whole, "h", &n);
    /* The third one begins again. */
    for (int batch = 0; batch < 3; batch++) {
        int part = batch % 2;
        for (int64_t row = 0; row < ROWS; row++)
            memcpy(half.image + row * each, whole.image + (2 * row + part) * each,
                   (size_t)each * sizeof(float));
        half.step.sequences_begin = part == 0;
        world_forward(&half);
        float *own = plain_output(&half, "h", &n);
        for (int64_t row = 0; row < ROWS; row++)
            assert_close("h", own + row * STEPS * HIDDEN, all + (2 * row + part) * STEPS * HIDDEN,
                         STEPS * HIDDEN, 1e-5);
        free(own);
    }
    free(all);
    free(memory);
    world_free(&half);
    world_free(&whole);
}

static void recurrent_state_is_carried_between_batches(void **state)
{
    check_state("type = gru\n", 1);
    check_state("type = lstm\n", 2);
    check_state("type = gru\nlayers = 3\n", 3);
    check_state("type = lstm\nlayers = 2\n", 4);
}

/* ---- Messages ---- */

static void assert_refused(const char *text, const char *want)
{
    struct world w = {.plan = sequences, .f = open_cpu(true, 1)};
    struct sw_err err;
    w.recipe = load_layers(text);
    assert_int_equal(try_net(&w, &err), SW_ERR_INVALID);
    if (!strstr(err.text, want))
        fail_msg("\"%s\" does not say \"%s\"", err.text, want);
    sw_recipe_free(w.recipe);
    close_cpu(&w.f);
}

static void invalid_unrolling_is_reported(void **state)
{
    assert_refused(SEQUENCE FC("h", "x", "connections = one-to-none\n") END, "unknown");
    assert_refused(SEQUENCE FC("h", "x", "connections = previous\n") END, "has no steps");
    assert_refused(SEQUENCE FC("h", "x", "connections = previous, previous\n") END,
                   "2 connections for 1 sources");
    assert_refused(SEQUENCE "[layer h]\ntype = inner_product\nsrc = x\noutputs = 4\n"
                            "connections = one-to-all\n" END,
                   "has no unroll");
    assert_refused(SEQUENCE "[layer h]\ntype = inner_product\nsrc = x\noutputs = 4\n"
                            "unroll = 7\n" END,
                   "layer x has 5 steps");
    assert_refused(SEQUENCE FC("a", "x", "") "[layer h]\ntype = inner_product\nsrc = a\n"
                                             "outputs = 4\nunroll = 4\n" END,
                   "a different number of steps");
    assert_refused(SEQUENCE FC("h", "image", "") END, "layer image has 30 steps");
    assert_refused(SEQUENCE FC("h", "label", "") END, "one-to-all reads all of it");
    assert_refused(SEQUENCE FC("a", "h", "") F("h", "a", "tanh") END, "cycle: a reads h");
    assert_refused(SEQUENCE MIX("h", "x, h", "connections = one-to-one, previous\n") END,
                   "defines the number of features");
    assert_refused(SEQUENCE "[layer h]\ntype = lstm\nsrc = x, h\nhidden = 4\n"
                            "bidirectional = yes\n" UNROLL END,
                   "does not know later steps");
    assert_refused(SEQUENCE FC("h", "x", "") "[layer b]\ntype = batch_norm\nsrc = h\n" UNROLL
                                             "[layer scores]\ntype = inner_product\noutputs = 6\n"
                                             "src = b\n[layer loss]\ntype = softmax_loss\n"
                                             "src = scores, label\n",
                   "running statistics");
    assert_refused(SEQUENCE FC("h", "x", "") "[layer scores]\ntype = inner_product\noutputs = 6\n"
                                             "src = h\n[layer loss]\ntype = softmax_loss\n"
                                             "src = scores, label\n" UNROLL,
                   "not rows x steps");
    assert_refused(SEQUENCE FC("a", "h", BEFORE) FC("b", "h", "connections = stateful\n")
                       MIX("h", "a, b", "") END,
                   "the other of previous and stateful");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unrolled_cells_match_recurrent_layers),
        cmocka_unit_test(unrolled_recurrent_steps_match_recurrent_layers),
        cmocka_unit_test(gradients_of_steps_with_extra_state_match_differences),
        cmocka_unit_test(other_layers_read_only_the_output_of_the_previous_step),
        cmocka_unit_test(gradients_through_time_match_differences),
        cmocka_unit_test(decoder_starts_from_the_encoder_state),
        cmocka_unit_test(plain_layers_read_a_sequence_or_the_last_step),
        cmocka_unit_test(steps_run_one_after_the_other_and_share_parameters),
        cmocka_unit_test(long_sequences_are_joined_in_order),
        cmocka_unit_test(recurrent_state_is_carried_between_batches),
        cmocka_unit_test(invalid_unrolling_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
