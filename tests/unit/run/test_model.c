/* A net of a program (run/model.h): it learns, is deterministic, evaluates only valid rows, and
 * explains errors in its input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/sim/sim.h"
#include "run/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            fail_msg("%s: %d: %s", #call, code_, err.text);                                        \
    } while (0)

enum { ROWS = 16, INPUTS = 6, BATCHES = 40 };

#define NET(middle)                                                                                \
    "[updater]\ntype = sgd\nlr = 0.2\nmomentum = 0.5\n"                                            \
    "[layer x]\ntype = input\nfield = x\n[layer y]\ntype = input\nfield = y\n" middle              \
    "[layer fc]\ntype = inner_product\nsrc = top\noutputs = 2\n"                                   \
    "[layer loss]\ntype = softmax_loss\nsrc = fc, y\n"                                             \
    "[layer accuracy]\ntype = accuracy\nsrc = fc, y\n"
static const char plain[] = NET("[layer top]\ntype = inner_product\nsrc = x\noutputs = 8\n");
static const char tied[] = NET("[layer enc]\ntype = inner_product\nsrc = x\noutputs = 8\n"
                               "[layer code]\ntype = activation\nsrc = enc\nfunction = tanh\n"
                               "[layer top]\ntype = inner_product\nsrc = code\noutputs = 6\n"
                               "transpose = yes\nweight.share = enc.weight\n");
static const char normed[] = NET("[layer hidden]\ntype = inner_product\nsrc = x\noutputs = 8\n"
                                 "[layer top]\ntype = batch_norm\nsrc = hidden\n");

static struct sw_device *open_cpu(void)
{
    struct sw_device *device;
    struct sw_err err;
    ASSERT_OK(sw_cpu_open(false, &device, &err));
    return device;
}

static int try_model(struct sw_device *device, const char *recipe, struct sw_model **m,
                     struct sw_bytes *messages, struct sw_err *err)
{
    const struct sw_net_field fields[] = {
        {.name = "x", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){ROWS, INPUTS})},
        {.name = "y", .desc = sw_desc_plain(SW_I32, 1, (const int64_t[]){ROWS})},
    };
    const struct sw_model_args args = {.recipe = recipe,
                                       .device = device,
                                       .threads = 1,
                                       .seed = 3,
                                       .fields = fields,
                                       .field_count = 2};
    return sw_model_new(&args, m, messages, err);
}

static struct sw_model *new_model(struct sw_device *device, const char *recipe)
{
    struct sw_model *m;
    struct sw_err err;
    ASSERT_OK(try_model(device, recipe, &m, NULL, &err));
    return m;
}

/* Batch b: the class is the sign of the first input. */
static void fill(int b, float *x, int32_t *y)
{
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < INPUTS; i++) {
            x[r * INPUTS + i] = (float)sin(1.7 * (b * ROWS + r) + 2.9 * i * i + 0.3);
            y[r] = x[r * INPUTS] > 0;
        }
}

static double train(struct sw_model *m, int batches)
{
    float x[ROWS * INPUTS];
    int32_t y[ROWS];
    struct sw_err err;
    double loss = 0;
    for (int b = 0; b < batches; b++) {
        fill(b, x, y);
        ASSERT_OK(sw_model_train(m, (void *[]){x, y}, &loss, &err));
        assert_true(sw_model_result(m, "loss") == loss);
    }
    return loss;
}

static void a_model_learns(void **state)
{
    struct sw_device *device = open_cpu();
    const char *const recipes[] = {plain, normed, tied};
    for (int i = 0; i < 3; i++) {
        struct sw_model *m = new_model(device, recipes[i]);
        float x[ROWS * INPUTS];
        int32_t y[ROWS];
        struct sw_err err;
        double loss;
        train(m, BATCHES);
        assert_int_equal(sw_model_step(m), BATCHES);
        fill(BATCHES, x, y);
        ASSERT_OK(sw_model_evaluate(m, (void *[]){x, y}, ROWS, &loss, &err));
        assert_true(loss < 0.3);
        assert_true(sw_model_result(m, "accuracy") > 0.9);
        assert_true(isnan(sw_model_result(m, "no such thing")));
        sw_model_free(m);
    }
    sw_device_close(device);
}

/* An update of which no parameter may be changed before all gradients are there. */
static void updates_in_two_phases_are_complete(void **state)
{
    static const char lars[] =
        NET("[layer top]\ntype = inner_product\nsrc = x\noutputs = 8\n") "[updater "
                                                                         "*.bias]\nlr_mult = 0.1\n";
    char recipe[sizeof lars + 64];
    struct sw_device *device = open_cpu();
    const char *rest = strstr(lars, "[layer x]");
    snprintf(recipe, sizeof recipe, "[updater]\ntype = lars\nlr = 2\ntrust = 0.01\n%s", rest);
    struct sw_model *m = new_model(device, recipe);
    double first = train(m, 1), last = train(m, BATCHES);
    assert_int_equal(sw_model_step(m), BATCHES + 1);
    if (!(last < 0.7 * first))
        fail_msg("the loss went from %g to %g", first, last);
    sw_model_free(m);
    sw_device_close(device);
}

static void equal_models_have_equal_bits(void **state)
{
    struct sw_device *device = open_cpu();
    float value[2][8 * INPUTS];
    for (int i = 0; i < 2; i++) {
        struct sw_model *m = new_model(device, plain);
        struct sw_tensor weight;
        struct sw_err err;
        train(m, 10);
        ASSERT_OK(sw_model_param(m, "top.weight", &weight, &err));
        ASSERT_OK(sw_tensor_read(&weight, NULL, value[i], &err));
        sw_model_free(m);
    }
    assert_memory_equal(value[0], value[1], sizeof value[0]);
    sw_device_close(device);
}

/* Rows that do not count may hold anything. */
static void only_valid_rows_count_in_an_evaluation(void **state)
{
    struct sw_device *device = open_cpu();
    struct sw_model *m = new_model(device, normed);
    float x[ROWS * INPUTS];
    int32_t y[ROWS];
    struct sw_err err;
    double five, again;
    train(m, 3);
    fill(7, x, y);
    ASSERT_OK(sw_model_evaluate(m, (void *[]){x, y}, 5, &five, &err));
    for (int i = 5 * INPUTS; i < ROWS * INPUTS; i++)
        x[i] = 100;
    for (int r = 5; r < ROWS; r++)
        y[r] = -1;
    ASSERT_OK(sw_model_evaluate(m, (void *[]){x, y}, 5, &again, &err));
    assert_true(five == again);
    assert_int_equal(sw_model_evaluate(m, (void *[]){x, y}, 0, NULL, &err), SW_ERR_INVALID);
    assert_int_equal(sw_model_evaluate(m, (void *[]){x, y}, ROWS + 1, NULL, &err), SW_ERR_INVALID);
    sw_model_free(m);
    sw_device_close(device);
}

static void a_wrong_recipe_is_explained(void **state)
{
    struct sw_device *device = open_cpu();
    const char *const wrong[][2] = {
        {NET("[layer top]\ntype = inner_produkt\nsrc = x\noutputs = 8\n"), "inner_product"},
        {NET("[layer top]\ntype = inner_product\nsrc = x\noutputs = -8\n"), "outputs = -8"},
        {NET("[layer top]\ntype = inner_product\nsrc = z\noutputs = 8\n"), "z"},
        {NET("[layer top]\ntype = input\nfield = w\n"), "field = w"},
        {"[job]\nbatch = 3\n", "job"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sw_model *m;
        struct sw_bytes messages = {0};
        struct sw_err err;
        assert_int_equal(try_model(device, wrong[i][0], &m, &messages, &err), SW_ERR_INVALID);
        if (!strstr(sw_bytes_text(&messages), wrong[i][1]))
            fail_msg("'%s' is not in: %s", wrong[i][1], sw_bytes_text(&messages));
        sw_bytes_fini(&messages);
    }
    sw_device_close(device);
}

static void a_layer_that_writes_files_is_refused(void **state)
{
    struct sw_device *device = open_cpu();
    struct sw_model *m;
    struct sw_err err;
    assert_int_equal(try_model(device,
                               NET("[layer top]\ntype = inner_product\nsrc = x\noutputs = 8\n"
                                   "[layer rows]\ntype = npy_output\nsrc = top\npath = r.npy\n"),
                               &m, NULL, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "layer rows"));
    sw_device_close(device);
}

static void a_device_out_of_reach_is_refused(void **state)
{
    struct sw_sim_conf conf = sw_sim_defaults();
    struct sw_device *sim;
    struct sw_model *m;
    struct sw_err err;
    conf.memory_bytes = 1 << 20;
    ASSERT_OK(sw_sim_open(&conf, 0, &sim, &err));
    assert_int_equal(try_model(sim, plain, &m, NULL, &err), SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "sim:0"));
    sw_device_close(sim);
}

static void a_loss_that_is_not_finite_ends_training(void **state)
{
    struct sw_device *device = open_cpu();
    struct sw_model *m = new_model(device, plain);
    float x[ROWS * INPUTS];
    int32_t y[ROWS];
    struct sw_err err;
    fill(0, x, y);
    x[3] = NAN;
    assert_int_equal(sw_model_train(m, (void *[]){x, y}, NULL, &err), SW_ERR_DIVERGED);
    assert_int_equal(sw_model_step(m), 0);
    sw_model_free(m);
    sw_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_learns),
        cmocka_unit_test(updates_in_two_phases_are_complete),
        cmocka_unit_test(equal_models_have_equal_bits),
        cmocka_unit_test(only_valid_rows_count_in_an_evaluation),
        cmocka_unit_test(a_wrong_recipe_is_explained),
        cmocka_unit_test(a_layer_that_writes_files_is_refused),
        cmocka_unit_test(a_device_out_of_reach_is_refused),
        cmocka_unit_test(a_loss_that_is_not_finite_ends_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
