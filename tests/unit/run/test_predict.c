/* The output of a layer, from the part of the net that leads to it: rows, the fields that are
 * needed, and parameters that other layers own. */
#include "infer/predict.h"
#include "net/net.h"
#include "tensor/npy.h"
#include "train_support.h"

/* Two branches with one home of parameters, and a loss that needs what no test gives. */
static const char shared[] = "[job]\nbatch = 4\neval_batch = 4\nsteps = 1\n"
                             "[data train]\nformat = synthetic\n[updater]\nlr = 0.1\n"
                             "[layer a]\ntype = input\nfield = a\n"
                             "[layer b]\ntype = input\nfield = b\n"
                             "[layer label]\ntype = input\nfield = label\n"
                             "[layer home]\ntype = inner_product\nsrc = a\noutputs = 2\n"
                             "[layer tied]\ntype = inner_product\nsrc = b\noutputs = 2\n"
                             "weight.share = home.weight\nbias = no\n"
                             "[layer both]\ntype = eltwise\nsrc = home, tied\n"
                             "[layer loss]\ntype = softmax_loss\nsrc = both, label\n";

struct rows {
    struct sw_predict_info info;
    char layer[32]; /* the job's text does not outlive it */
    float values[64];
    int64_t rows;
};

static int begin(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    struct rows *r = user;
    r->info = *info;
    snprintf(r->layer, sizeof r->layer, "%s", info->layer);
    return SW_OK;
}

static int take(void *user, int64_t count, const float *values, struct sw_err *err)
{
    struct rows *r = user;
    int64_t width = 1;
    for (int i = 0; i < r->info.ndim; i++)
        width *= r->info.dim[i];
    assert_true((size_t)((r->rows + count) * width) <= sizeof r->values / sizeof *r->values);
    memcpy(r->values + r->rows * width, values, (size_t)(count * width) * sizeof *values);
    r->rows += count;
    return SW_OK;
}

static void write_array(const char *name, int64_t rows, int64_t width, const float *values)
{
    struct sw_err err;
    const int64_t shape[] = {rows, width};
    assert_int_equal(sw_npy_write(in_home("%s", name), SW_F32, 2, shape, values, &err), SW_OK);
}

static void write_weights(void)
{
    struct sw_err err;
    const int64_t weight_shape[] = {2, 3}, bias_shape[] = {2};
    float weight[] = {1, 2, 3, -1, 0, 1}, bias[] = {10, 20};
    struct sw_desc wd = sw_desc_plain(SW_F32, 2, weight_shape),
                   bd = sw_desc_plain(SW_F32, 1, bias_shape);
    struct sw_tensor w = sw_tensor_view(NULL, &wd, weight), b = sw_tensor_view(NULL, &bd, bias);
    struct sw_st_writer *writer = sw_st_writer_new();
    assert_non_null(writer);
    assert_int_equal(sw_st_writer_add_tensor(writer, "home.weight", &w, NULL, &err), SW_OK);
    assert_int_equal(sw_st_writer_add_tensor(writer, "home.bias", &b, NULL, &err), SW_OK);
    assert_int_equal(sw_st_writer_write(writer, in_home("w.safetensors"), 0600, NULL, NULL, &err),
                     SW_OK);
    sw_st_writer_free(writer);
}

static int predict(const char *layer, const char *a, const char *b, struct rows *out)
{
    struct trial t = {.recipe = shared, .predict = true};
    struct sw_predict_input inputs[2];
    struct sw_predict_args args = {
        .weights = in_home("w.safetensors"), .layer = layer, .inputs = inputs};
    struct sw_predict_sink sink = {begin, take, out};
    struct sw_predict_info info;
    if (a)
        inputs[args.input_count++] = (struct sw_predict_input){.field = "a", .path = a};
    if (b)
        inputs[args.input_count++] = (struct sw_predict_input){.field = "b", .path = b};
    *out = (struct rows){0};
    int rc = trial_open(&t);
    if (rc == SW_OK)
        rc = sw_job_predict(t.job, &args, &sink, &info, &t.err);
    trial_close(&t);
    return rc;
}

static const float a_rows[] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0};
static const float b_rows[] = {0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1};

static void write_arrays(void)
{
    write_weights();
    write_array("a.npy", 6, 3, a_rows);
    write_array("b.npy", 6, 3, b_rows);
}

static void predict_runs_only_ancestors_of_the_layer(void **state)
{
    struct rows r;
    char a[256], b[256];
    write_arrays();
    snprintf(a, sizeof a, "%s", in_home("a.npy"));
    snprintf(b, sizeof b, "%s", in_home("b.npy"));
    /* Six rows in batches of four; neither b nor labels are needed. */
    assert_int_equal(predict("home", a, NULL, &r), SW_OK);
    static const float home[] = {11, 19, 12, 20, 13, 21, 16, 20, 12, 18, 10, 20};
    assert_int_equal(r.info.rows, 6);
    assert_int_equal(r.rows, 6);
    assert_int_equal(r.info.dim[0], 2);
    for (int i = 0; i < 12; i++)
        assert_float_equal(r.values[i], home[i], 1e-5);
    /* The default is what the loss reads. */
    assert_int_equal(predict(NULL, a, b, &r), SW_OK);
    assert_string_equal(r.layer, "both");
    static const float tied[] = {3, 1, 0, 0, 1, -1, 0, 0, 0, 0, 6, 0};
    for (int i = 0; i < 12; i++)
        assert_float_equal(r.values[i], home[i] + tied[i], 1e-5);
    assert_int_equal(predict("both", a, NULL, &r), SW_ERR_INVALID);
    assert_int_equal(r.rows, 0);
}

/* A layer that uses another's parameter brings that layer's net along: it is at home there. */
static void predict_includes_the_owner_of_shared_parameters(void **state)
{
    struct rows r;
    char a[256], b[256];
    write_arrays();
    snprintf(a, sizeof a, "%s", in_home("a.npy"));
    snprintf(b, sizeof b, "%s", in_home("b.npy"));
    assert_int_equal(predict("tied", a, b, &r), SW_OK);
    assert_float_equal(r.values[0], 3, 1e-5);
    assert_float_equal(r.values[11], 0, 1e-5);
}

static void predict_refuses_arrays_that_do_not_fit(void **state)
{
    struct rows r;
    char a[256], b[256];
    write_arrays();
    write_array("short.npy", 5, 3, a_rows);
    write_array("wide.npy", 3, 6, a_rows);
    snprintf(a, sizeof a, "%s", in_home("a.npy"));
    snprintf(b, sizeof b, "%s", in_home("short.npy"));
    assert_int_equal(predict("both", a, b, &r), SW_ERR_FORMAT);
    snprintf(b, sizeof b, "%s", in_home("wide.npy"));
    assert_int_equal(predict("home", b, NULL, &r), SW_ERR_INVALID);
    assert_int_equal(predict("home", in_home("none.npy"), NULL, &r), SW_ERR_NOTFOUND);
    assert_int_equal(r.rows, 0);
}

static void fields_are_those_that_lead_to_the_layer(void **state)
{
    struct trial t = {.recipe = shared, .predict = true};
    const char *names[4];
    int count;
    assert_int_equal(trial_open(&t), SW_OK);
    struct sw_recipe *recipe = (struct sw_recipe *)(uintptr_t)sw_job_recipe(t.job);
    assert_int_equal(sw_net_fields(recipe, false, "home", names, 4, &count, &t.err), SW_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "a");
    assert_int_equal(sw_net_fields(recipe, false, "both", names, 4, &count, &t.err), SW_OK);
    assert_int_equal(count, 2);
    assert_int_equal(sw_net_fields(recipe, false, NULL, names, 4, &count, &t.err), SW_OK);
    assert_int_equal(count, 3);
    assert_int_equal(sw_net_fields(recipe, false, "nobody", names, 4, &count, &t.err),
                     SW_ERR_INVALID);
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predict_runs_only_ancestors_of_the_layer),
        cmocka_unit_test(predict_includes_the_owner_of_shared_parameters),
        cmocka_unit_test(predict_refuses_arrays_that_do_not_fit),
        cmocka_unit_test(fields_are_those_that_lead_to_the_layer),
    };
    return cmocka_run_group_tests_name("predict", tests, home_begin, home_end);
}
