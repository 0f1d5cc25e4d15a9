/* Times of layers in a planner's model are corrected for one number of workers and threads, and no
 * other. */
#include "planner/net_model.h"
#include "run/planning.h"
#include "workers_support.h"

struct model {
    struct sw_job *job;
    struct sw_net_model *net;
};

static struct model open_model(void)
{
    const struct sw_job_options o = {.recipe_path = write_recipe("m.ini", workers_recipe),
                                     .device = "cpu"};
    struct model m = {0};
    struct sw_bytes messages = {0};
    struct sw_err err;

    if (sw_planning_open(&o, NULL, &m.job, &messages, &err) != SW_OK ||
        sw_planning_net(m.job, &m.net, &err) != SW_OK)
        fail_msg("%s", err.text);
    sw_bytes_fini(&messages);
    return m;
}

static void close_model(struct model *m)
{
    sw_planning_net_free(m->net);
    sw_job_close(m->job);
}

static void correct(struct model *m, const struct sw_layer_sample *predicted, double compute,
                    double params, double rest_s)
{
    const struct sw_planning_correction c = {.workers = predicted[0].workers,
                                             .threads = predicted[0].threads,
                                             .compute = compute,
                                             .params = params,
                                             .rest_s = rest_s,
                                             .predicted = predicted};
    struct sw_err err;

    assert_int_equal(sw_planning_correct(m->net, &c, &err), SW_OK);
}

/* Predictions of every layer alike. */
static struct sw_layer_sample *predict(const struct model *m, int workers, int threads)
{
    struct sw_layer_sample *s = calloc((size_t)m->net->count, sizeof *s);

    assert_non_null(s);
    for (int i = 0; i < m->net->count; i++)
        s[i] = (struct sw_layer_sample){.rows = 8,
                                        .workers = workers,
                                        .threads = threads,
                                        .forward_s = 1,
                                        .backward_s = 2,
                                        .update_s = 4};
    return s;
}

static void only_the_number_of_workers_that_was_measured_changes(void **state)
{
    struct model m = open_model();
    struct sw_layer_sample *two = predict(&m, 2, 1), *one = predict(&m, 1, 2);

    correct(&m, two, 3, 0.5, 7);
    correct(&m, one, 10, 10, 9);
    correct(&m, two, 2, 1, 6); /* the times are there by now */

    for (int i = 0; i < m.net->count; i++) {
        const struct sw_layer_model *l = &m.net->layer[i];

        assert_int_equal(l->sample_count, 2);
        assert_int_equal(l->samples[0].workers, 2);
        assert_int_equal(l->samples[1].workers, 1);
        assert_true(l->samples[0].forward_s == 6 && l->samples[0].backward_s == 12);
        assert_true(l->samples[0].update_s == 2);
        assert_true(l->samples[1].forward_s == 10 && l->samples[1].backward_s == 20);
    }
    assert_int_equal(m.net->rest_count, 2);
    assert_true(m.net->rest[0].workers == 2 && m.net->rest[0].seconds == 13);
    assert_true(m.net->rest[1].workers == 1 && m.net->rest[1].seconds == 9);

    free(one);
    free(two);
    close_model(&m);
}

/* A GPU computes its rows in the same time, however many others there are. */
static void samples_of_devices_change_for_all_numbers_of_them(void **state)
{
    struct model m = open_model();
    struct sw_layer_sample *one = predict(&m, 1, 0), *two = predict(&m, 2, 0);
    const int last = m.net->count - 1;

    correct(&m, one, 3, 1, 0);
    correct(&m, two, 2, 1, 0);
    assert_int_equal(m.net->layer[last].sample_count, 1);
    assert_true(m.net->layer[last].samples[0].forward_s == 6);

    free(one);
    free(two);
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_number_of_workers_that_was_measured_changes),
        cmocka_unit_test(samples_of_devices_change_for_all_numbers_of_them),
    };
    return cmocka_run_group_tests_name("planning_correct", tests, home_begin, home_end);
}
