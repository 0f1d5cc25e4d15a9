/* Gradients that have only the rows that are not zero make the updates of gradients with all rows,
 * bit by bit, and leave other rows alone; where this would be wrong, there is no list. */
#include "table_support.h"

enum { ROWS = 50, WIDTH = 20, STEPS = 30 };

static void table_new(struct stand *s, const struct plan_of_table *plan)
{
    const int64_t dim[] = {ROWS, WIDTH};
    const struct sw_param_spec spec = {.name = "words.weight",
                                       .layout = sw_desc_plain(SW_F32, 2, dim),
                                       .owner = -1,
                                       .lists_rows = true,
                                       .init = {.init = SW_INIT_UNIFORM, .low = -1, .high = 1},
                                       .lr_mult = 1,
                                       .decay_mult = 1};
    struct sw_err err;
    int index;
    ASSERT_OK(begin_stand(s, plan, &err));
    ASSERT_OK(sw_table_add(s->table, &spec, &index, &err));
    ASSERT_OK(end_stand(s, &err));
}

static void push(struct stand *s, int worker, uint64_t version)
{
    struct sw_message m;
    struct sw_err err;
    ASSERT_OK(sw_table_update(s->table, worker, 0, version, &err));
    for (int k = 0; k < s->table->args.servers; k++)
        while (sw_queue_try_pop(sw_table_inbox(s->table, k), &m) == SW_OK)
            ASSERT_OK(sw_table_serve(s->table, k, &m, &err));
    ASSERT_OK(sw_table_wait(s->table, sw_table_update_group(s->table, worker), 0, version, NULL, 0,
                            1000));
}

/* Writes a gradient with a few rows, and their list, or all rows. */
static void write_rows(const struct stand *s, int worker, bool listed, struct rng *r)
{
    struct sw_row_list *list = listed ? sw_table_row_list(s->table, worker, 0) : NULL;
    float *gradient = sw_table_partial(s->table, worker, 0, 0).gradient;
    int32_t row[6];
    sw_row_list_begin(list);
    for (int i = 0; i < 6; i++) {
        row[i] = (int32_t)rng_int(r, 0, ROWS / 2 - 1);
        sw_row_list_add(list, row[i]);
    }
    for (int64_t i = 0; i < ROWS * WIDTH; i++) /* what is behind the listed rows is not read */
        gradient[i] = i < sw_row_list_count(list, ROWS) * WIDTH ? 0 : NAN;
    for (int i = 0; i < 6; i++)
        for (int c = 0; c < WIDTH; c++)
            gradient[sw_row_list_find(list, row[i]) * WIDTH + c] += rng_real(r, -1, 1);
}

/* Trains a table with lists and one whose worker writes none. */
static void compare(const struct plan_of_table *plan, int workers)
{
    struct stand listed, whole;
    table_new(&listed, plan);
    table_new(&whole, plan);
    float first[ROWS * WIDTH];
    memcpy(first, sw_table_param(listed.table, 0)->value, sizeof first);
    assert_memory_equal(first, sw_table_param(whole.table, 0)->value, sizeof first);

    struct rng a = rng_of(5), b = rng_of(5);
    for (uint64_t v = 1; v <= STEPS; v++)
        for (int w = 0; w < workers; w++) {
            assert_non_null(sw_table_row_list(listed.table, w, 0));
            write_rows(&listed, w, true, &a);
            write_rows(&whole, w, false, &b);
            push(&listed, w, v);
            push(&whole, w, v);
        }

    const struct sw_param *x = sw_table_param(listed.table, 0), *y = sw_table_param(whole.table, 0);
    assert_memory_equal(x->value, y->value, sizeof first);
    for (int k = 0; k < sw_table_slots(listed.table); k++)
        assert_memory_equal(x->slot[k], y->slot[k], sizeof first);
    assert_memory_not_equal(x->value, first, sizeof first / 2);
    assert_memory_equal(x->value + ROWS / 2 * WIDTH, first + ROWS / 2 * WIDTH, sizeof first / 2);
    stand_free(&listed);
    stand_free(&whole);
}

static void listed_rows_give_the_bits_of_all_rows(void **state)
{
    static const struct sw_table_rule *const rules[] = {&sw_table_bsp, &sw_table_async,
                                                        &sw_table_hogwild};
    for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++)
        for (int groups = 1; groups <= (rule ? 2 : 1); groups++)
            for (int kind = 0; kind < 2; kind++)
                for (int64_t slice = 48; slice <= 4096; slice *= 8) /* 48 cuts rows */
                    compare(&(struct plan_of_table){.workers = groups,
                                                    .groups = groups,
                                                    .servers = 2,
                                                    .slice_elements = slice,
                                                    .lr = 0.1,
                                                    .staleness = -1,
                                                    .clip_value = kind ? 0.5 : 0,
                                                    .updater = kind ? "adagrad" : NULL,
                                                    .rule = rules[rule]},
                            groups);
}

static void no_list(struct plan_of_table plan)
{
    struct stand s;
    plan.slice_elements = 4096;
    plan.servers = 1;
    plan.workers = plan.workers ? plan.workers : 1;
    table_new(&s, &plan);
    assert_null(sw_table_row_list(s.table, 0, 0));
    stand_free(&s);
}

static void updates_that_need_all_rows_have_no_list(void **state)
{
    no_list((struct plan_of_table){.momentum = 0.9});
    no_list((struct plan_of_table){.weight_decay = 0.1});
    no_list((struct plan_of_table){.updater = "adam"});
    no_list((struct plan_of_table){.clip_norm = 1});
    no_list((struct plan_of_table){.bad = SW_BAD_DROPS});
    no_list((struct plan_of_table){.loss_scale = 8, .loss_scale_every = 10, .bad = SW_BAD_DROPS});
    no_list((struct plan_of_table){.updates_on_device = true});
    no_list((struct plan_of_table){.workers = 2}); /* gradients are summed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listed_rows_give_the_bits_of_all_rows),
        cmocka_unit_test(updates_that_need_all_rows_have_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
