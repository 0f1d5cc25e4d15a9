/* Gradients of several reduction leaves per worker: the sum has the same bits for every number of
 * workers and servers, in one phase and in two. */
#include "table_support.h"

enum { LEAVES = 7, STEPS = 3 };

static float *leaf_gradient(const struct sw_param *param, int p, int leaf, uint64_t v)
{
    struct rng r = rng_of(v * 1000 + (uint64_t)(p * 100 + leaf));
    float *plain = random_floats(&r, sw_desc_count(&param->layout), -1, 1);
    float *stored = get_floats(sw_desc_storage(&param->layout));
    sw_desc_from_plain(&param->layout, plain, stored);
    free(plain);
    return stored;
}

/* Writes a worker's partial sums: each is the sum of its own leaves. */
static void write_partials(const struct stand *s, int worker, int p, uint64_t v)
{
    const struct sw_param *param = sw_table_param(s->table, p);
    for (int i = 0; i < sw_table_partials(s->table, worker); i++) {
        struct sw_table_partial partial = sw_table_partial(s->table, worker, p, i);
        float *in[LEAVES];
        const float *of[LEAVES];
        int count = partial.to - partial.from;
        for (int k = 0; k < count; k++)
            of[k] = in[k] = leaf_gradient(param, p, partial.from + k, v);
        const struct sw_fold_inputs sum = {.in = of, .count = count};
        sw_kernel_fold(2, &sum, partial.gradient, sw_desc_storage(&param->layout));
        for (int k = 0; k < count; k++)
            free(in[k]);
    }
}

static void train(struct stand *s)
{
    struct sw_err err;
    int workers = s->table->args.workers;
    for (uint64_t v = 1; v <= STEPS; v++) {
        for (int p = 0; p < TABLE_PARAMS; p++)
            for (int w = workers - 1; w >= 0; w--) {
                write_partials(s, w, p, v);
                ASSERT_OK(deliver(s, w, p, v, &err));
            }
        ASSERT_OK(pump(s, &err));
    }
}

static void assert_same_values(const struct stand *a, const struct stand *b, const char *what)
{
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int slot = -1; slot < 1; slot++) {
            float *x = plain_of_table(a, p, slot), *y = plain_of_table(b, p, slot);
            assert_same_bits(what, x, y, sw_desc_count(&sw_table_param(a->table, p)->layout));
            free(x), free(y);
        }
}

static void run_all(struct plan_of_table plan)
{
    struct stand one, some;
    char what[64];
    plan.leaves = LEAVES;
    plan.workers = plan.servers = 1;
    stand_new(&one, &plan);
    assert_int_equal(sw_table_partials(one.table, 0), 1); /* all of the sum */
    train(&one);
    for (int workers = 2; workers <= LEAVES; workers++) {
        plan.workers = workers;
        plan.servers = 1 + workers % 4;
        snprintf(what, sizeof what, "%d workers", workers);
        stand_new(&some, &plan);
        train(&some);
        assert_same_values(&one, &some, what);
        stand_free(&some);
    }
    stand_free(&one);
}

static void every_number_of_workers_has_the_same_bits(void **state)
{
    run_all((struct plan_of_table){.slice_elements = 512, .lr = 0.1, .momentum = 0.9});
}

static void every_number_of_workers_has_the_same_bits_in_two_phases(void **state)
{
    run_all(
        (struct plan_of_table){.slice_elements = 1024, .lr = 0.1, .momentum = 0.9, .clip_norm = 3});
}

/* Three leaves of eight are two nodes. */
static void partial_sums_are_the_tree_nodes_of_a_worker(void **state)
{
    struct stand s;
    stand_new(&s, &(struct plan_of_table){
                      .workers = 3, .servers = 1, .slice_elements = 512, .leaves = 8});
    const int want[3][3] = {{0, 2, 3}, {3, 4, 6}, {6, 8, 8}};
    const int partials[3] = {2, 2, 1};
    for (int w = 0; w < 3; w++) {
        assert_int_equal(sw_table_partials(s.table, w), partials[w]);
        for (int i = 0; i < partials[w]; i++) {
            struct sw_table_partial t = sw_table_partial(s.table, w, 1, i);
            assert_int_equal(t.from, want[w][i]);
            assert_int_equal(t.to, want[w][i + 1]);
            assert_non_null(t.gradient);
        }
    }
    stand_free(&s);
}

/* A sum lists its terms in an array of SW_TREE_LEAVES. */
static void more_leaves_than_a_tree_has_are_refused(void **state)
{
    static const struct plan_of_table plans[] = {{.workers = SW_TREE_LEAVES + 1},
                                                 {.workers = 2, .leaves = SW_TREE_LEAVES + 1}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct plan_of_table plan = plans[i];
        struct stand s;
        struct sw_err err;
        plan.servers = 1;
        plan.slice_elements = 1024;
        assert_int_equal(try_stand(&s, &plan, &err), SW_ERR_INVALID);
        assert_non_null(strstr(err.text, "at most 1024 leaves"));
        stand_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_workers_has_the_same_bits),
        cmocka_unit_test(every_number_of_workers_has_the_same_bits_in_two_phases),
        cmocka_unit_test(partial_sums_are_the_tree_nodes_of_a_worker),
        cmocka_unit_test(more_leaves_than_a_tree_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
