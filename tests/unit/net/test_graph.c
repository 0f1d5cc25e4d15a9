/* From recipe sections to layers in order: sources, layers of training and evaluation nets, and
 * error messages for invalid graphs and shapes. */
#include "net_support.h"

#include "unit/faulty_os.h"

static const struct plan_of_world small = {
    .rows = 4, .channels = 3, .height = 8, .width = 6, .classes = 5, .reference = true};
static const struct plan_of_world small_eval = {.rows = 4,
                                                .channels = 3,
                                                .height = 8,
                                                .width = 6,
                                                .classes = 5,
                                                .reference = true,
                                                .evaluation = true};

#define FC(name, src) "[layer " name "]\ntype = inner_product\nsrc = " src "\noutputs = 5\n"
#define LOSS "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n"
#define ACCURACY "[layer accuracy]\ntype = accuracy\nsrc = fc, label\n"
#define RELU(name, src) "[layer " name "]\ntype = activation\nfunction = relu\nsrc = " src "\n"
#define CONV(name, src)                                                                            \
    "[layer " name "]\ntype = convolution\noutputs = 4\nkernel = 3\nsrc = " src "\n"

/* ---- Order ---- */

static void assert_order(const struct world *w, const char *names)
{
    struct sw_bytes b = {0};
    for (int i = 0; i < sw_net_layer_count(w->net); i++) {
        const struct sw_layer *l = sw_net_layer(w->net, i);
        sw_bytes_printf(&b, "%s%s", i ? " " : "", l->name);
        assert_int_equal(sw_net_find(w->net, l->name), i);
        assert_string_equal(sw_net_section(w->net, i)->name, l->name);
    }
    assert_string_equal(sw_bytes_text(&b), names);
    sw_bytes_fini(&b);
}

static void layers_come_after_their_sources_ties_in_file_order(void **state)
{
    struct world w = world_open(LOSS FC("fc", "relu") RELU("relu", "conv") CONV("conv", "image")
                                    WORLD_INPUTS "[layer b]\ntype = input\nfield = image\n",
                                &small);
    assert_order(&w, "image conv relu fc label loss b");
    assert_int_equal(sw_net_find(w.net, "other"), -1);
    assert_true(w.net->args.training);
    assert_int_equal(sw_net_rows(w.net), 4);
    world_free(&w);
}

static void parameters_are_numbered_across_layers(void **state)
{
    const char *names[] = {"conv.weight", "conv.bias", "fc.weight", "fc.bias"};
    struct world w = world_open(WORLD_INPUTS CONV("conv", "image") FC("fc", "conv") LOSS, &small);
    int first;
    assert_int_equal(sw_net_param_count(w.net), 4);
    for (int p = 0; p < 4; p++)
        assert_string_equal(sw_net_param(w.net, p)->name, names[p]);
    assert_int_equal(sw_net_layer_params(w.net, sw_net_find(w.net, "fc"), &first), 2);
    assert_int_equal(first, 2);
    assert_int_equal(sw_net_layer_params(w.net, sw_net_find(w.net, "image"), &first), 0);
    world_free(&w);
}

static void tied_parameter_has_name_and_index_of_its_first_user(void **state)
{
    const char *text = WORLD_INPUTS CONV("conv", "image") FC("a", "conv")
        FC("b", "conv") "weight.share = a.weight\n" FC(
            "fc", "conv") "weight.share = b.weight\n"
                          "bias.share = a.bias\n" LOSS "[layer loss2]\ntype = softmax_loss\n"
                          "src = a, label\n[layer loss3]\ntype = softmax_loss\nsrc = b, label\n";
    struct world w = world_open(text, &small);
    const struct {
        const char *name;
        int root;
    } want[] = {{"conv.weight", -1}, {"conv.bias", -1}, {"a.weight", -1}, {"a.bias", -1},
                {"a.weight", 2},     {"b.bias", -1},    {"a.weight", 2},  {"a.bias", 3}};
    assert_int_equal(sw_net_param_count(w.net), 8);
    for (int p = 0; p < 8; p++) {
        assert_string_equal(sw_net_param(w.net, p)->name, want[p].name);
        assert_int_equal(sw_net_param(w.net, p)->root, want[p].root);
    }
    world_free(&w);
}

static void include_chooses_the_net(void **state)
{
    const char *text = WORLD_INPUTS CONV("conv", "image") FC("fc", "conv") LOSS
        "include = train\n" ACCURACY "include = eval\n";
    struct world train = world_open(text, &small), eval = world_open(text, &small_eval);
    assert_order(&train, "image label conv fc loss");
    assert_order(&eval, "image label conv fc accuracy");
    assert_int_equal(sw_net_result_count(train.net), 1);
    assert_int_equal(sw_net_result_count(eval.net), 1);
    assert_true(sw_net_result(train.net, 0).loss);
    assert_false(sw_net_result(eval.net, 0).loss);
    assert_false(eval.net->args.training);
    for (int i = 0; i < sw_net_layer_count(eval.net); i++)
        assert_false(sw_net_has_backward(eval.net, i));
    world_free(&train);
    world_free(&eval);
}

static void backward_visits_layers_with_parameters_below_a_loss(void **state)
{
    struct world w = world_open(WORLD_INPUTS RELU("relu", "image") CONV("conv", "relu")
                                    FC("fc", "conv") LOSS ACCURACY RELU("dead", "fc"),
                                &small);
    const char *yes[] = {"conv", "fc", "loss"};
    const char *no[] = {"image", "label", "relu", "accuracy", "dead"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(sw_net_has_backward(w.net, sw_net_find(w.net, yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(sw_net_has_backward(w.net, sw_net_find(w.net, no[i])));
    world_free(&w);
}

static void relu_with_single_reader_source_is_fused(void **state)
{
    struct world lone = world_open(
        WORLD_INPUTS CONV("conv", "image") RELU("relu", "conv") FC("fc", "relu") LOSS, &small);
    struct world two = world_open(WORLD_INPUTS CONV("conv", "image") RELU("relu", "conv")
                                      FC("fc", "relu") LOSS RELU("other", "conv"),
                                  &small);
    struct world input =
        world_open(WORLD_INPUTS RELU("relu", "image") FC("fc", "relu") LOSS, &small);
    assert_true(sw_net_info(lone.net, sw_net_find(lone.net, "relu")).fused);
    assert_true(sw_net_info(lone.net, sw_net_find(lone.net, "relu")).in_place);
    assert_false(sw_net_info(two.net, sw_net_find(two.net, "relu")).fused);
    assert_false(sw_net_info(two.net, sw_net_find(two.net, "relu")).in_place);
    /* The batch belongs to the prefetch threads: nothing is computed in its memory. */
    assert_false(sw_net_info(input.net, sw_net_find(input.net, "relu")).in_place);
    world_free(&lone);
    world_free(&two);
    world_free(&input);
}

/* ---- Faults ---- */

/* The messages about a recipe, as they would be printed; owned. */
static char *messages_of(const char *text, const struct plan_of_world *plan,
                         const struct world *shares)
{
    struct world w = {.plan = *plan, .f = open_cpu(true, 1)};
    struct sw_err err;
    struct sw_bytes b = {0};
    w.plan.shares = shares;
    w.recipe = load_layers_with_faults(text);
    int rc = try_net(&w, &err);
    if (rc != SW_ERR_INVALID)
        fail_msg("the net is made: %d", rc);
    sw_diags_print(sw_recipe_diags(w.recipe), &b);
    sw_recipe_free(w.recipe);
    close_cpu(&w.f);
    return sw_bytes_take(&b);
}

/* says: parts of the messages, ending with NULL. */
static void assert_refused(const char *text, const struct plan_of_world *plan, int count,
                           const char *const *says)
{
    char *messages = messages_of(text, plan, NULL);
    int found = 0;
    for (const char *p = messages; (p = strstr(p, "test.ini")); p++)
        found++;
    for (int i = 0; says[i]; i++)
        if (!strstr(messages, says[i]))
            fail_msg("'%s' is not said:\n%s", says[i], messages);
    if (found != count)
        fail_msg("%d messages, not %d:\n%s", found, count, messages);
    sw_free(messages);
}

#define SAYS(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void a_cycle_is_named_once(void **state)
{
    assert_refused(WORLD_INPUTS RELU("a", "c") RELU("b", "a") RELU("c", "b") FC("fc", "image") LOSS,
                   &small, 1,
                   SAYS("test.ini:10:", "layer a",
                        "cycle: a reads c, c reads b, b reads a); change the src of"));
}

static void a_layer_that_reads_itself_is_named(void **state)
{
    assert_refused(WORLD_INPUTS RELU("a", "a") FC("fc", "image") LOSS, &small, 1,
                   SAYS("test.ini:10:7", "layer a: src = a: the layer reads itself"));
}

static void dangling_sources_come_with_a_hint(void **state)
{
    assert_refused(WORLD_INPUTS CONV("conv1", "image") FC("fc", "conv2") LOSS
                   "[layer x]\ntype = accuracy\nsrc = fc, zebra\n",
                   &small, 2,
                   SAYS("test.ini:14:7", "layer 'conv2' not found", "did you mean 'conv1'?",
                        "test.ini:21:11", "layer 'zebra' not found", "layers: image"));
}

static void source_excluded_by_include_is_reported(void **state)
{
    assert_refused(WORLD_INPUTS CONV("conv", "image") "include = eval\n" FC("fc", "conv") LOSS,
                   &small, 1, SAYS("layer fc", "layer conv is not in this net", "include"));
}

static void all_wrong_source_counts_are_reported(void **state)
{
    assert_refused("[layer image]\ntype = input\nfield = image\nsrc = fc\n"
                   "[layer a]\ntype = activation\nfunction = relu\n"
                   "[layer b]\ntype = activation\nfunction = relu\nsrc = a, image\n"
                   "[layer loss]\ntype = softmax_loss\nsrc = b\n",
                   &small, 4,
                   SAYS("layer image", "input reads the data and has no source layers",
                        "layer a: src is missing: activation reads 1 layer",
                        "layer b: src = a, image: activation reads 1 layer, not 2",
                        "layer loss: src = b: softmax_loss reads 2 layers, not 1"));
}

static void a_training_net_needs_a_loss(void **state)
{
    const char *text = WORLD_INPUTS RELU("a", "image");
    assert_refused(text, &small, 1, SAYS("the training net has no loss layer"));
    struct world eval = world_open(text, &small_eval);
    world_free(&eval);
}

static void parameters_that_no_loss_reaches_are_refused(void **state)
{
    const char *text = WORLD_INPUTS FC("fc", "image") LOSS CONV("lost", "image");
    assert_refused(text, &small, 1,
                   SAYS("test.ini:14:", "layer lost", "no loss depends on it", "include = eval"));
    struct world eval = world_open(text, &small_eval);
    world_free(&eval);
}

static void invalid_ties_are_refused(void **state)
{
    assert_refused(WORLD_INPUTS FC("fc", "image") "weight.share = conv\n" LOSS, &small, 1,
                   SAYS("layer fc: weight.share = conv", "LAYER.PARAM"));
    assert_refused(WORLD_INPUTS FC("fc", "image") "weight.share = fd.weight\n" LOSS, &small, 1,
                   SAYS("layer 'fd' not found in this net"));
    assert_refused(WORLD_INPUTS FC("fc", "image") "weight.share = fc.weight\n" LOSS, &small, 1,
                   SAYS("does not run before"));
    assert_refused(WORLD_INPUTS FC("a", "image") "weight.share = fc.weight\n" FC("fc", "a") LOSS,
                   &small, 1, SAYS("layer a:", "fc does not run before", "share a.weight"));
    assert_refused(WORLD_INPUTS FC("a", "image") FC("fc", "a") "weight.share = a.weights\n" LOSS,
                   &small, 1, SAYS("inner_product has no parameter 'weights'"));
    assert_refused(WORLD_INPUTS FC("a", "image")
                       FC("fc", "image") "weight.share = a.weight\nweight.init = msra\n" LOSS,
                   &small, 1, SAYS("layer fc: weight.init", "a.weight"));
    assert_refused(WORLD_INPUTS FC("a", "image") FC("fc", "a") "weight.share = a.weight\n" LOSS,
                   &small, 1, SAYS("layer fc", "5 x 5", "5x144"));
    assert_refused(WORLD_INPUTS FC("a", "image") "[layer fc]\ntype = inner_product\nsrc = a\n"
                                                 "outputs = 144\nweight.share = a.weight\n" LOSS,
                   &small, 1, SAYS("layer fc", "transpose = yes"));
    assert_refused(WORLD_INPUTS FC("a", "image") "bias = no\n" FC(
                       "fc", "image") "bias.share = a.bias\n" LOSS
                                      "[layer loss2]\ntype = softmax_loss\nsrc = a, label\n",
                   &small, 1, SAYS("layer a has no bias"));
}

static void a_metric_has_no_output_to_read(void **state)
{
    assert_refused(WORLD_INPUTS FC("fc", "image") LOSS ACCURACY RELU("a", "accuracy"), &small, 1,
                   SAYS("test.ini:20:7", "layer a", "accuracy is a metric"));
}

static void output_layers_are_in_the_evaluation_net_only(void **state)
{
    const char *text = WORLD_INPUTS FC("fc", "image") LOSS
        "[layer rows]\ntype = csv_output\nsrc = fc\npath = rows.csv\n";
    struct world train = world_open(text, &small), eval = world_open(text, &small_eval);
    assert_order(&train, "image label fc loss");
    assert_order(&eval, "image label fc loss rows");
    world_free(&train);
    world_free(&eval);
    char *messages = messages_of(WORLD_INPUTS FC("fc", "image") LOSS
                                 "[layer rows]\ntype = csv_output\nsrc = fc\npath = rows.csv\n"
                                 "[layer more]\ntype = csv_output\nsrc = rows\npath = more.csv\n",
                                 &small_eval, NULL);
    assert_non_null(strstr(messages, "layer rows writes a file"));
    sw_free(messages);
}

static void no_gradient_goes_through_a_loss(void **state)
{
    assert_refused(WORLD_INPUTS FC("fc", "image") LOSS FC(
                       "fc2", "loss") "[layer loss2]\ntype = softmax_loss\nsrc = fc2, label\n",
                   &small, 1, SAYS("layer fc2", "loss", "no gradient"));
    /* Its probabilities may be read where no gradient is wanted. */
    struct world w = world_open(WORLD_INPUTS FC("fc", "image") LOSS
                                "[layer best]\ntype = accuracy\nsrc = loss, label\n",
                                &small);
    world_free(&w);
}

static void shape_errors_name_line_and_layer(void **state)
{
    assert_refused(WORLD_INPUTS FC("fc", "image") CONV("conv", "fc") LOSS, &small, 1,
                   SAYS("test.ini:11:", "layer conv", "source 1 is 4x5", "2 dimensions, not 4"));
    assert_refused(WORLD_INPUTS "[layer conv]\ntype = convolution\noutputs = 4\nkernel = 9\n"
                                "src = image\n" FC("fc", "conv") LOSS,
                   &small, 1, SAYS("test.ini:7:", "layer conv", "9 x 9 does not fit", "8 x 6"));
    assert_refused(WORLD_INPUTS FC("fc", "label") LOSS, &small, 1,
                   SAYS("layer fc", "not features"));
    assert_refused(WORLD_INPUTS "[layer x]\ntype = input\nfield = depth\n" FC("fc", "image") LOSS,
                   &small, 1, SAYS("layer x", "field = depth: the data source has no such field"));
}

static void parameters_of_another_shape_in_evaluation_are_refused(void **state)
{
    const char *text = WORLD_INPUTS FC("fc", "image") LOSS;
    struct world train = world_open(text, &small);
    struct plan_of_world larger = small_eval;
    larger.width = 7;
    char *messages = messages_of(text, &larger, &train);
    assert_non_null(strstr(messages, "test.ini:7:"));
    assert_non_null(strstr(messages, "layer fc"));
    sw_free(messages);
    world_free(&train);
}

/* ---- Memory runs out ---- */

static int faulty_net(struct faulty_plan plan, bool reference, struct sw_err *err)
{
    struct world w = {.plan = small};
    w.recipe = load_layers(WORLD_INPUTS CONV("conv", "image") RELU("relu", "conv") FC("fc", "relu")
                               LOSS ACCURACY);
    faulty_begin(plan);
    int rc = sw_cpu_open(reference, &w.f.dev, err);
    if (rc == SW_OK)
        rc = sw_stream_new(w.f.dev, 1, &w.f.stream, err);
    if (rc == SW_OK)
        rc = try_net(&w, err);
    sw_net_free(w.net);
    close_cpu(&w.f);
    faulty_end();
    sw_recipe_free(w.recipe);
    if (faulty.live_allocations != 0)
        fail_msg("%d allocations leak when allocation %d fails", faulty.live_allocations, plan.at);
    return rc;
}

static void every_failing_allocation_is_an_error_without_leaks(void **state)
{
    struct sw_err err;
    for (int reference = 0; reference < 2; reference++) {
        struct faulty_plan plan = {.kinds = FAULTY_ALLOC};
        ASSERT_OK(faulty_net(plan, reference, &err));
        int calls = faulty.calls;
        assert_true(calls > 10);
        for (plan.at = 1; plan.at <= calls; plan.at++)
            for (int forever = 0; forever < 2; forever++) {
                plan.forever = forever;
                int rc = faulty_net(plan, reference, &err);
                if (rc != SW_ERR_NOMEM)
                    fail_msg("allocation %d of %d fails: %d: %s", plan.at, calls, rc, err.text);
                assert_non_null(strstr(err.text, "out of memory"));
            }
    }
}

/* ---- Teardown ---- */

static int setups, teardowns;

static int count_setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    l->dst.desc = l->src[0]->desc;
    setups++;
    return SW_OK;
}

static void count_teardown(struct sw_layer *l)
{
    teardowns++;
}

/* A type without private state, as which the layer stands in the recipe. */
static const struct sw_layer_type counted = {.base = {.name = "counted"},
                                             .role = SW_ROLE_NEURON,
                                             .sources.min = 1,
                                             .sources.max = 1,
                                             .setup = count_setup,
                                             .teardown = count_teardown};

static void make_counted(struct sw_recipe *recipe, const char *layer)
{
    const struct sw_section *s = sw_recipe_find(recipe, "layer", layer);
    ((struct sw_section *)(uintptr_t)s)->type[0] = &counted.base;
}

static void only_layers_that_were_set_up_are_torn_down(void **state)
{
    /* The image has 8 rows: the convolution between the two counted layers cannot be set up. */
    const char *text =
        WORLD_INPUTS RELU("below", "image") "[layer conv]\ntype = convolution\noutputs = 4\nkernel "
                                            "= 99\nsrc = below\n" RELU("above", "conv")
                                                FC("fc", "above") LOSS;
    struct world w = {.plan = small, .f = open_cpu(true, 1)};
    struct sw_err err;
    w.recipe = load_layers(text);
    make_counted(w.recipe, "below");
    make_counted(w.recipe, "above");

    setups = teardowns = 0;
    assert_int_equal(try_net(&w, &err), SW_ERR_INVALID);
    assert_int_equal(setups, 1);
    assert_int_equal(teardowns, 1);

    sw_recipe_free(w.recipe);
    close_cpu(&w.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_come_after_their_sources_ties_in_file_order),
        cmocka_unit_test(parameters_are_numbered_across_layers),
        cmocka_unit_test(tied_parameter_has_name_and_index_of_its_first_user),
        cmocka_unit_test(include_chooses_the_net),
        cmocka_unit_test(backward_visits_layers_with_parameters_below_a_loss),
        cmocka_unit_test(relu_with_single_reader_source_is_fused),
        cmocka_unit_test(a_cycle_is_named_once),
        cmocka_unit_test(a_layer_that_reads_itself_is_named),
        cmocka_unit_test(dangling_sources_come_with_a_hint),
        cmocka_unit_test(source_excluded_by_include_is_reported),
        cmocka_unit_test(all_wrong_source_counts_are_reported),
        cmocka_unit_test(a_training_net_needs_a_loss),
        cmocka_unit_test(parameters_that_no_loss_reaches_are_refused),
        cmocka_unit_test(invalid_ties_are_refused),
        cmocka_unit_test(a_metric_has_no_output_to_read),
        cmocka_unit_test(output_layers_are_in_the_evaluation_net_only),
        cmocka_unit_test(no_gradient_goes_through_a_loss),
        cmocka_unit_test(shape_errors_name_line_and_layer),
        cmocka_unit_test(parameters_of_another_shape_in_evaluation_are_refused),
        cmocka_unit_test(only_layers_that_were_set_up_are_torn_down),
        cmocka_unit_test(every_failing_allocation_is_an_error_without_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
