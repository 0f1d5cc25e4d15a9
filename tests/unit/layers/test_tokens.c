/* Layers that read integers: one-hot vectors, word vectors and their means against sums in double,
 * in fixed order for any number of threads; padding tokens and invalid tokens. */
#include "device/op.h"
#include "formula_support.h"

#include "kernels/ops/embedding.h"

/* Lists of tokens, some of which are skipped, and all arrays of a pass over them. */
struct text {
    struct sw_token_lists lists;
    int64_t width, count, out; /* tokens, output elements */
    int32_t *token;
    float *weight, *y, *dy, *dweight;
    struct sw_step step;
};

static struct text text_new(int64_t rows, int64_t per_row, int64_t length, int64_t vocabulary,
                            int64_t width, int32_t skip)
{
    struct rng r = rng_of(31);
    struct text t = {.lists = {rows, per_row, length, vocabulary, skip},
                     .width = width,
                     .count = rows * per_row * length,
                     .out = rows * per_row * width,
                     .step = {.valid_rows = rows}};
    t.token = get_bytes((size_t)t.count * sizeof *t.token);
    for (int64_t i = 0; i < t.count; i++) {
        bool none = skip != SW_TOKEN_NO_SKIP && rng_int(&r, 0, 3) == 0;
        t.token[i] = none ? skip : (int32_t)rng_int(&r, 0, vocabulary - 1);
    }
    t.weight = random_floats(&r, vocabulary * width, -1, 1);
    t.dy = random_floats(&r, t.out, -1, 1);
    t.y = get_floats(t.out);
    t.dweight = get_floats(vocabulary * width);
    poison(t.y, (size_t)t.out * sizeof(float));
    poison(t.dweight, (size_t)(vocabulary * width) * sizeof(float));
    return t;
}

static void text_free(struct text *t)
{
    free(t->token);
    free(t->weight);
    free(t->dy);
    free(t->y);
    free(t->dweight);
}

static int64_t tokens_in(const struct text *t, int64_t list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->lists.length; i++)
        n += t->token[list * t->lists.length + i] != t->lists.skip;
    return n;
}

static void both_passes(struct text *t, int threads)
{
    struct fixture f = open_cpu(false, threads);
    struct sw_err err;
    ASSERT_OK(sw_op_run(f.stream, &sw_op_embedding,
                        &(const struct sw_embedding_args){.lists = t->lists,
                                                          .width = t->width,
                                                          .token = t->token,
                                                          .weight = t->weight,
                                                          .step = &t->step,
                                                          .y = t->y},
                        &err));
    ASSERT_OK(sw_op_run(f.stream, &sw_op_embedding_gradient,
                        &(const struct sw_embedding_gradient_args){.lists = t->lists,
                                                                   .width = t->width,
                                                                   .token = t->token,
                                                                   .dy = t->dy,
                                                                   .step = &t->step,
                                                                   .dweight = t->dweight},
                        &err));
    close_cpu(&f);
}

static void check_text(struct text *t)
{
    double *y = zeros(t->out), *dweight = zeros(t->lists.vocabulary * t->width);
    for (int64_t i = 0; i < t->count; i++) {
        int64_t list = i / t->lists.length, token = t->token[i];
        if (list >= t->step.valid_rows * t->lists.per_row || token == t->lists.skip)
            continue;
        double share = 1 / (double)tokens_in(t, list);
        for (int64_t c = 0; c < t->width; c++) {
            y[list * t->width + c] += share * (double)t->weight[token * t->width + c];
            dweight[token * t->width + c] += share * (double)t->dy[list * t->width + c];
        }
    }
    both_passes(t, 2);
    assert_near("vectors", t->y, y, t->out, 1e-6);
    assert_near("gradient", t->dweight, dweight, t->lists.vocabulary * t->width, 1e-5);
    free(y);
    free(dweight);
}

static void vectors_are_rows_of_the_table_and_gradients_are_summed(void **state)
{
    struct text all[] = {text_new(7, 5, 1, 4, 3, SW_TOKEN_NO_SKIP), text_new(30, 1, 1, 50, 64, 2),
                         text_new(3, 2, 1, 6, 1, -1)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_text(&all[i]);
        text_free(&all[i]);
    }
}

static void means_skip_padding_tokens(void **state)
{
    struct text t = text_new(9, 1, 4, 5, 17, -1);
    for (int i = 0; i < 4; i++)
        t.token[i] = -1; /* a row without tokens */
    check_text(&t);
    for (int c = 0; c < 17; c++)
        assert_true(t.y[c] == 0);
    text_free(&t);
}

static void thread_count_changes_no_bit(void **state)
{
    struct text t = text_new(40, 1, 30, 100, 333, -1), u = text_new(40, 1, 30, 100, 333, -1);
    both_passes(&t, 1);
    both_passes(&u, 5);
    assert_same_bits("vectors", t.y, u.y, (size_t)t.out * sizeof(float));
    assert_same_bits("gradient", t.dweight, u.dweight, 100 * 333 * sizeof(float));
    text_free(&t);
    text_free(&u);
}

static void invalid_rows_give_zeros(void **state)
{
    struct text t = text_new(4, 2, 1, 5, 3, SW_TOKEN_NO_SKIP);
    t.step.valid_rows = 3;
    t.token[6] = 1000;
    check_text(&t);
    for (int i = 18; i < 24; i++)
        assert_true(t.y[i] == 0);
    text_free(&t);
}

static void invalid_token_error_names_it_and_writes_nothing(void **state)
{
    struct fixture f = open_cpu(false, 1);
    struct text t = text_new(4, 3, 1, 5, 2, -1);
    struct sw_err err;
    for (int k = 0; k < 2; k++) {
        t.token[7] = k ? -2 : 5;
        assert_int_equal(sw_op_run(f.stream, &sw_op_embedding,
                                   &(const struct sw_embedding_args){.lists = t.lists,
                                                                     .width = 2,
                                                                     .token = t.token,
                                                                     .weight = t.weight,
                                                                     .step = &t.step,
                                                                     .y = t.y},
                                   &err),
                         SW_ERR_INVALID);
        assert_non_null(strstr(err.text, k ? "token 1 of row 2 is -2" : "token 1 of row 2 is 5"));
        assert_non_null(strstr(err.text, "the vocabulary has 5 (0..4)"));
        assert_int_equal(sw_op_run(f.stream, &sw_op_embedding_gradient,
                                   &(const struct sw_embedding_gradient_args){.lists = t.lists,
                                                                              .width = 2,
                                                                              .token = t.token,
                                                                              .dy = t.dy,
                                                                              .step = &t.step,
                                                                              .dweight = t.dweight},
                                   &err),
                         SW_ERR_INVALID);
        assert_int_equal(
            sw_op_run(f.stream, &sw_op_onehot,
                      &(const struct sw_onehot_args){
                          .lists = t.lists, .token = t.token, .step = &t.step, .y = t.y},
                      &err),
            SW_ERR_INVALID);
    }
    for (int i = 0; i < 24; i++)
        assert_true(isnan(t.y[i]));
    text_free(&t);
    close_cpu(&f);
}

static void one_hot_vector_is_one_at_the_token(void **state)
{
    struct fixture f = open_cpu(false, 2);
    const int32_t token[] = {3, 0, 2, 2, 9, 9};
    const struct sw_token_lists lists = {3, 2, 1, 4, SW_TOKEN_NO_SKIP};
    const struct sw_step step = {.valid_rows = 2};
    float y[24];
    struct sw_err err;
    poison(y, sizeof y);
    ASSERT_OK(sw_op_run(
        f.stream, &sw_op_onehot,
        &(const struct sw_onehot_args){.lists = lists, .token = token, .step = &step, .y = y},
        &err));
    for (int i = 0; i < 24; i++)
        assert_true(y[i] == (i < 16 && i % 4 == token[i / 4]));
    close_cpu(&f);
}

static void refuse(const char *type, const char *recipe, const struct sw_layer_example *source,
                   const char *says)
{
    struct fixture f = open_cpu(true, 1);
    struct sw_layer_example ex = *source;
    struct rig g;
    struct sw_err err;
    ex.recipe = recipe;
    rig_open(&g, sw_layer_type_find(type), &ex, &(struct how){.stream = f.stream});
    int rc = rig_try_setup(&g, &err);
    if (rc != SW_ERR_INVALID || !strstr(err.text, says))
        fail_msg("%s with %s: %d: %s", type, recipe, rc, rc ? err.text : "");
    rig_teardown(&g);
    sw_recipe_free(g.recipe);
    close_cpu(&f);
}

static void floats_and_single_labels_are_refused(void **state)
{
    const struct sw_layer_example features = {.src = {{2, {4, 3}, 0}}};
    const struct sw_layer_example labels = {.src = {{1, {4}, 3}}};
    refuse("onehot", "classes = 3\n", &features, "must be whole numbers");
    refuse("embedding", "vocabulary = 3\noutputs = 2\n", &features, "source 1 is 4x3 f32");
    refuse("embedding_mean", "vocabulary = 3\noutputs = 2\n", &labels, "a list per row");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_rows_of_the_table_and_gradients_are_summed),
        cmocka_unit_test(means_skip_padding_tokens),
        cmocka_unit_test(thread_count_changes_no_bit),
        cmocka_unit_test(invalid_rows_give_zeros),
        cmocka_unit_test(invalid_token_error_names_it_and_writes_nothing),
        cmocka_unit_test(one_hot_vector_is_one_at_the_token),
        cmocka_unit_test(floats_and_single_labels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
