/* What whole passes compute: gradients of branched nets against differences of the loss, a relu
 * that its source applies against a separate one, evaluation against training. */
#include "net_gradients.h"
#include "random_net.h"

static const struct plan_of_world reference = {
    .rows = 3, .channels = 4, .height = 6, .width = 5, .classes = 6, .reference = true};
static const struct plan_of_world library = {
    .rows = 3, .channels = 4, .height = 6, .width = 5, .classes = 6};

/* ---- Gradients ---- */

static void check_gradients(const char *text)
{
    struct world w = world_new(text, &reference);
    w.step.step = 5;
    check_world_gradients(&w);
    world_free(&w);
}

#define CONV(name, src)                                                                            \
    "[layer " name "]\ntype = convolution\noutputs = 5\nkernel = 3\npad = 1\nsrc = " src "\n"
#define TANH(name, src) "[layer " name "]\ntype = activation\nfunction = tanh\nsrc = " src "\n"
#define RELU(name, src) "[layer " name "]\ntype = activation\nfunction = relu\nsrc = " src "\n"
#define FC(name, src) "[layer " name "]\ntype = inner_product\noutputs = 6\nsrc = " src "\n"
#define LOSS(name, src) "[layer " name "]\ntype = softmax_loss\nsrc = " src ", label\n"
#define NORM(name, src) "[layer " name "]\ntype = batch_norm\nsrc = " src "\n"
#define MIX(name, src, operation)                                                                  \
    "[layer " name "]\ntype = eltwise\nsrc = " src "\noperation = " operation "\n"
#define CONCAT(name, src) "[layer " name "]\ntype = concat\nsrc = " src "\n"
#define SLICE(name, src, from, to)                                                                 \
    "[layer " name "]\ntype = slice\nsrc = " src "\nfrom = " from "\nto = " to "\n"
#define SPLIT(name, src) "[layer " name "]\ntype = split\nsrc = " src "\n"
#define DROP(name, src) "[layer " name "]\ntype = dropout\nratio = 0.4\nsrc = " src "\n"

static void gradients_of_several_readers_add_up(void **state)
{
    /* An image with three readers, one of them element-wise; a row of features with four. */
    check_gradients(WORLD_INPUTS CONV("conv", "image") TANH("tanh", "conv") CONV(
        "conv2", "conv") "[layer pool]\ntype = pooling\nmethod = avg\nkernel = 2\nstride = 2\n"
                         "src = conv\n" FC("fc", "tanh") FC("fc2", "conv2") FC("fc3", "pool")
                             LOSS("loss", "fc") LOSS("loss2", "fc2")
                                 LOSS("loss3", "fc3") "weight = 0.5\n");
    check_gradients(WORLD_INPUTS FC("a", "image") TANH("b", "a") DROP("c", "a") FC("d", "a") FC(
        "e", "b") FC("f", "c") LOSS("l1", "d") LOSS("l2", "e") LOSS("l3", "f") LOSS("l4", "a"));
}

static void gradients_of_chains_in_place_are_right(void **state)
{
    check_gradients(WORLD_INPUTS CONV("conv", "image") TANH("a", "conv") DROP("b", "a") DROP(
        "c", "b") "[layer lrn]\ntype = lrn\nsize = 3\nalpha = 0.5\nsrc = c\n" DROP("d", "lrn")
                        TANH("e", "d") FC("fc", "e") TANH("f", "fc") FC("fc2", "f")
                            LOSS("loss", "fc2"));
}

/* Two and three users; one reads it transposed; one above another in the graph, or side by side. */
static void gradients_of_tied_parameters_add_up(void **state)
{
    check_gradients(
        WORLD_INPUTS CONV("conv", "image") TANH("a", "conv") CONV("conv2", "a") TANH("b", "conv2")
            CONV("conv3", "b") "weight.share = conv2.weight\nbias.share = conv.bias\n" TANH(
                "c", "conv3") CONV("conv4", "c") "weight.share = conv3.weight\n" FC("fc", "conv4")
                LOSS("loss", "fc"));
    check_gradients(
        WORLD_INPUTS "[layer enc]\ntype = inner_product\noutputs = 9\nsrc = image\n" TANH(
            "code", "enc") "[layer dec]\ntype = inner_product\noutputs = 120\n"
                           "src = code\ntranspose = yes\nweight.share = enc.weight\n" TANH(
                               "out", "dec") FC("fc", "out") LOSS("loss", "fc"));
    check_gradients(WORLD_INPUTS TANH("a", "image") FC("left", "image") FC(
        "right", "a") "weight.share = left.weight\n" LOSS("l1", "left") LOSS("l2", "right"));
}

/* The library's layouts, and the layers' places, make no difference to what the users compute. */
static void tied_parameters_use_the_same_values(void **state)
{
    const char *text =
        WORLD_INPUTS "[layer enc]\ntype = inner_product\noutputs = 33\nsrc = image\n" TANH(
            "code",
            "enc") "[layer dec]\ntype = inner_product\noutputs = 120\nsrc = code\ntranspose = yes\n"
                   "weight.share = enc.weight\n" FC("fc", "dec") LOSS("loss", "fc");
    struct world a = world_new(text, &reference), b = world_new(text, &library);
    int64_t n;
    world_forward(&a);
    world_forward(&b);
    float *x = plain_output(&a, "dec", &n), *y = plain_output(&b, "dec", &n);
    assert_close("output of the decoder", y, x, n, 1e-5);
    free(x);
    free(y);
    float *scores = plain_output(&a, "fc", &n);
    world_backward(&a);
    world_backward(&b);
    int p = find_param(&a, "enc.weight");
    x = plain_gradient(&a, p);
    y = plain_gradient(&b, p);
    assert_close("enc.weight", y, x, 33 * 120, 1e-4);
    free(x);
    free(y);
    struct plan_of_world evaluation = library;
    evaluation.evaluation = true;
    evaluation.shares = &b;
    struct world e = world_new(text, &evaluation);
    world_forward(&e);
    y = plain_output(&e, "fc", &n);
    assert_close("evaluation", y, scores, n, 1e-5);
    free(scores);
    free(y);
    world_free(&e);
    world_free(&a);
    world_free(&b);
}

static void gradients_of_joining_branches_match_differences(void **state)
{
    /* Residual blocks, one after the other: a shortcut is read first and last. */
    check_gradients(WORLD_INPUTS CONV("a", "image") TANH("b", "a") CONV("c", "b")
                        MIX("sum", "c, b", "sum") TANH("t", "sum") CONV("d", "t")
                            MIX("sum2", "t, d", "sum") FC("fc", "sum2") LOSS("loss", "fc"));
    check_gradients(WORLD_INPUTS CONV("a", "image") CONV("b", "image") TANH("x", "a") TANH("y", "b")
                        MIX("p", "x, y", "product") MIX("twice", "p, p", "product")
                            MIX("m", "twice, y", "sum") FC("fc", "m") LOSS("loss", "fc"));
    /* Parts of one source, of which one is read twice, side by side again. */
    check_gradients(WORLD_INPUTS CONV("a", "image") TANH("b", "a") SLICE("s", "b", "0", "2")
                        SLICE("t", "b", "1", "5") CONCAT("c", "t, s, t") SPLIT("d", "c")
                            TANH("e", "d") MIX("f", "e, c", "sum") FC("fc", "f") LOSS("loss", "fc")
                                FC("fc2", "d") LOSS("loss2", "fc2"));
}

/* ---- The fused relu ---- */

static void check_fusion(const char *layer, const struct plan_of_world *plan)
{
    const char *tail = RELU("relu", "x") FC("fc", "relu") LOSS("loss", "fc");
    struct sw_bytes lone = {0}, beside = {0};
    sw_bytes_printf(&lone, "%s%s%s", WORLD_INPUTS, layer, tail);
    sw_bytes_printf(&beside, "%s%s", sw_bytes_text(&lone), TANH("reader", "x"));
    struct world a = world_new(sw_bytes_text(&lone), plan),
                 b = world_new(sw_bytes_text(&beside), plan);
    assert_true(sw_net_info(a.net, sw_net_find(a.net, "relu")).fused);
    assert_false(sw_net_info(b.net, sw_net_find(b.net, "relu")).fused);
    world_forward(&a);
    world_forward(&b);
    int64_t n;
    float *x = plain_output(&a, "relu", &n), *y = plain_output(&b, "relu", &n);
    assert_close("output of the fused relu", x, y, n, 1e-6);
    free(x);
    free(y);
    world_backward(&a);
    world_backward(&b);
    for (int p = 0; p < sw_net_param_count(a.net); p++) {
        x = plain_gradient(&a, p);
        y = plain_gradient(&b, find_param(&b, sw_net_param(a.net, p)->name));
        assert_close(sw_net_param(a.net, p)->name, x, y,
                     sw_desc_count(&world_layer_param(&a, p)->layout), 1e-6);
        free(x);
        free(y);
    }
    world_free(&a);
    world_free(&b);
    sw_bytes_fini(&lone);
    sw_bytes_fini(&beside);
}

static void fused_relu_matches_separate_relu(void **state)
{
    check_fusion(CONV("x", "image"), &reference);
    check_fusion(CONV("x", "image"), &library);
    check_fusion(CONV("x", "image") "bias = no\nstride = 2\n", &library);
    check_fusion(FC("x", "image"), &reference);
    check_fusion(FC("x", "image"), &library);
    check_fusion(CONV("a", "image") CONV("b", "image") MIX("x", "a, b", "sum"), &library);
    check_fusion(CONV("a", "image") CONV("b", "image") MIX("x", "a, b", "product"), &library);
    check_fusion(CONV("a", "image") CONV("b", "image") MIX("x", "a, b", "max"), &reference);
    check_fusion(CONV("a", "image") "bias = no\n" NORM("x", "a"), &library);
    check_fusion(CONV("a", "image") "bias = no\n" NORM("x", "a"), &reference);
    check_fusion(FC("a", "image") "bias = no\n" NORM("x", "a") "sync = no\n", &library);
}

/* ---- Evaluation ---- */

/* The text with dropout at ratio 0, which in training keeps everything. */
static char *without_dropout(const char *text)
{
    struct sw_bytes b = {0};
    for (const char *next; (next = strstr(text, "ratio = 0.3"));
         text = next + strlen("ratio = 0.3"))
        sw_bytes_printf(&b, "%.*sratio = 0", (int)(next - text), text);
    sw_bytes_add(&b, text);
    return sw_bytes_take(&b);
}

/* Batch normalisation has statistics of its own in evaluation, so nets with it are passed over. */
static void evaluation_is_training_without_dropout(void **state)
{
    for (uint64_t seed = 0, nets = 0; nets < 40; seed++) {
        char *text = random_net_text(seed), *plain_text = without_dropout(text);
        if (strstr(text, "batch_norm")) {
            sw_free(text);
            sw_free(plain_text);
            continue;
        }
        nets++;
        struct plan_of_world plan = {.rows = 3,
                                     .channels = 1 + (int64_t)(seed % 5) * 4,
                                     .height = 8,
                                     .width = 10,
                                     .classes = RANDOM_CLASSES,
                                     .reference = seed % 2};
        struct world train = world_new(plain_text, &plan);
        plan.evaluation = true;
        plan.shares = &train;
        struct world eval = world_new(text, &plan);
        world_forward(&train);
        world_forward(&eval);
        for (int r = 0; r < sw_net_result_count(train.net); r++) {
            struct sw_net_result at = sw_net_result(train.net, r);
            double x = sw_net_pairs(train.net)[at.first].sum;
            double y = sw_net_pairs(eval.net)[sw_net_result(eval.net, r).first].sum;
            if (!(fabs(x - y) <= 1e-5 * (1 + fabs(x))))
                fail_msg("%s: %.9g in evaluation, %.9g in training\n%s",
                         sw_net_layer(train.net, at.layer)->name, y, x, text);
        }
        world_free(&eval);
        world_free(&train);
        sw_free(text);
        sw_free(plain_text);
    }
}

/* A batch that is not full: the rows behind valid_rows change nothing. */
static void invalid_rows_do_not_change_results(void **state)
{
    const char *text = WORLD_INPUTS CONV("conv", "image") RELU("relu", "conv") FC("fc", "relu")
        LOSS("loss", "fc") "[layer accuracy]\ntype = accuracy\nsrc = fc, label\n";
    struct plan_of_world plan = library;
    plan.evaluation = true;
    struct world full = world_new(text, &plan);
    world_forward(&full);
    plan.rows = 5;
    struct world padded = world_new(text, &plan);
    memcpy(padded.image, full.image, 3 * 4 * 6 * 5 * sizeof(float));
    memcpy(padded.label, full.label, 3 * sizeof(int32_t));
    poison(padded.image + 3 * 4 * 6 * 5, 2 * 4 * 6 * 5 * sizeof(float));
    poison(padded.label + 3, 2 * sizeof(int32_t));
    padded.step.valid_rows = 3;
    world_forward(&padded);
    for (int r = 0; r < 2; r++) {
        struct sw_result x = sw_net_pairs(padded.net)[r], y = sw_net_pairs(full.net)[r];
        assert_true(fabs(x.sum - y.sum) <= 1e-5 * y.sum);
        assert_true(x.weight == 3 && y.weight == 3);
    }
    world_free(&padded);
    world_free(&full);
}

/* ---- Errors at run time ---- */

static void errors_of_a_pass_name_the_layer(void **state)
{
    struct world w = world_new(WORLD_INPUTS FC("fc", "image") LOSS("nll", "fc"), &library);
    struct sw_err err;
    world_forward(&w);
    w.label[1] = 6;
    assert_int_equal(sw_net_forward(w.net, sw_net_find(w.net, "nll"), &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "layer nll: "));
    assert_non_null(strstr(err.text, "row 1 is 6"));
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_several_readers_add_up),
        cmocka_unit_test(gradients_of_chains_in_place_are_right),
        cmocka_unit_test(gradients_of_joining_branches_match_differences),
        cmocka_unit_test(gradients_of_tied_parameters_add_up),
        cmocka_unit_test(tied_parameters_use_the_same_values),
        cmocka_unit_test(fused_relu_matches_separate_relu),
        cmocka_unit_test(evaluation_is_training_without_dropout),
        cmocka_unit_test(invalid_rows_do_not_change_results),
        cmocka_unit_test(errors_of_a_pass_name_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
