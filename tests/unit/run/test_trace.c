/* Wait-free backpropagation in the trace of a run: updates are sent while lower layers still
 * compute, and no layer computes with values that have not arrived. */
/* ctest-labels: threads */
#include "train_support.h"
#include "worker/server.h"

enum { STEPS = 12, CAPACITY = 4096 };

static const struct sw_trace_event *find(const struct sw_trace *t, enum sw_trace_what what,
                                         int64_t step, int index)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->events[i].what == what && t->events[i].step == step && t->events[i].index == index)
            return &t->events[i];
    return NULL;
}

static size_t count(const struct sw_trace *t, enum sw_trace_what what)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += t->events[i].what == what;
    return n;
}

/* The parameters of a layer of the training net as indices in the table; how many there are. */
static int params_of(const struct sw_job *job, int layer, const int **first)
{
    int from, n = sw_net_layer_params(job->workers[0].train, layer, &from);
    *first = &job->workers[0].param_of[SW_SPLIT_TRAIN][from];
    return n;
}

static int layer_of(const struct sw_job *job, const char *name)
{
    int layer = sw_net_find(job->workers[0].train, name);
    assert_true(layer >= 0);
    return layer;
}

/* Every layer forward once a step, those with a backward backward, every parameter updated. */
static void assert_complete(const struct sw_job *job)
{
    const struct sw_trace *t = sw_job_trace(job);
    const struct sw_net *net = job->workers[0].train;
    size_t backwards = 0;
    assert_non_null(t);
    assert_true(t->count < t->capacity);
    for (int i = 0; i < sw_net_layer_count(net); i++)
        backwards += sw_net_has_backward(net, i);
    assert_int_equal(count(t, SW_TRACE_FORWARD), STEPS * (size_t)sw_net_layer_count(net));
    assert_int_equal(count(t, SW_TRACE_BACKWARD), STEPS * backwards);
    assert_int_equal(count(t, SW_TRACE_UPDATE), STEPS * (size_t)sw_net_param_count(net));
    for (size_t i = 0; i < t->count; i++)
        assert_true(t->events[i].begin_ns > 0 && t->events[i].begin_ns <= t->events[i].end_ns);
}

/* An update needs its gradient, and a forward the versions that the step before made. */
static void assert_order(const struct sw_job *job)
{
    const struct sw_trace *t = sw_job_trace(job);
    for (int64_t step = 1; step <= STEPS; step++)
        for (int i = 0; i < sw_net_layer_count(job->workers[0].train); i++) {
            const int *param;
            int n = params_of(job, i, &param);
            const struct sw_trace_event *forward = find(t, SW_TRACE_FORWARD, step, i),
                                        *backward = find(t, SW_TRACE_BACKWARD, step, i);
            assert_non_null(forward);
            for (int p = 0; p < n; p++) {
                const struct sw_trace_event *update = find(t, SW_TRACE_UPDATE, step, param[p]),
                                            *before = find(t, SW_TRACE_UPDATE, step - 1, param[p]);
                assert_true(update->begin_ns >= backward->end_ns);
                if (step > 1)
                    assert_true(forward->begin_ns >= before->end_ns);
            }
        }
}

static void run_traced(struct trial *t)
{
    t->steps = STEPS;
    t->trace_capacity = CAPACITY;
    t->sets[0] = "job.eval_every=5";
    if (trial_run(t) != SW_OK)
        fail_msg("%s", t->err.text);
}

static void top_update_is_applied_before_the_bottom_backward(void **state)
{
    struct trial t = {.steps = STEPS, .trace_capacity = CAPACITY};
    assert_int_equal(trial_open(&t), SW_OK);
    run_traced(&t);
    assert_true(t.job->servers[0].hosted);
    assert_complete(t.job);
    assert_order(t.job);
    /* Each layer's updates are applied before the next layer below begins its backward. */
    const struct sw_trace *trace = sw_job_trace(t.job);
    static const char *const from_the_top[] = {"fc2", "fc1", "conv1"};
    for (int64_t step = 1; step <= STEPS; step++)
        for (int i = 0; i + 1 < 3; i++) {
            const int *param;
            int upper = layer_of(t.job, from_the_top[i]),
                lower = layer_of(t.job, from_the_top[i + 1]);
            int n = params_of(t.job, upper, &param);
            assert_int_equal(n, 2);
            for (int p = 0; p < n; p++)
                assert_true(find(trace, SW_TRACE_UPDATE, step, param[p])->end_ns <=
                            find(trace, SW_TRACE_BACKWARD, step, lower)->begin_ns);
        }
    trial_close(&t);
}

/* With a thread of its own the server is as early as the machine lets it be; what must hold is that
 * nobody computes with old values, and that the bits are those of the other arrangement. */
static void server_thread_keeps_the_order_and_the_bits(void **state)
{
    struct trial t = {.name = "apart", .steps = STEPS, .trace_capacity = CAPACITY};
    assert_int_equal(trial_open(&t), SW_OK);
    if (!give_server_a_core(t.job)) {
        trial_close(&t);
        print_message("skipped: this machine has one core\n");
        skip();
    }
    run_traced(&t);
    assert_false(t.job->servers[0].hosted);
    assert_complete(t.job);
    assert_order(t.job);
    trial_close(&t);
    train(.name = "together", .steps = STEPS);
    assert_same_tensors(checkpoint_path("together", STEPS), checkpoint_path("apart", STEPS));
}

/* A trace that is full counts on and keeps what it has. */
static void a_full_trace_keeps_its_first_events(void **state)
{
    struct trial t = {.steps = 3, .trace_capacity = 5};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_OK);
    const struct sw_trace *trace = sw_job_trace(t.job);
    assert_int_equal(trace->capacity, 5);
    assert_true(trace->count > 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(trace->events[i].what, SW_TRACE_FORWARD);
        assert_int_equal(trace->events[i].index, i);
        assert_int_equal(trace->events[i].step, 1);
    }
    trial_close(&t);
    struct trial none = {.steps = 1};
    assert_int_equal(trial_open(&none), SW_OK);
    assert_int_equal(trial_run(&none), SW_OK);
    assert_null(sw_job_trace(none.job));
    trial_close(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_update_is_applied_before_the_bottom_backward),
        cmocka_unit_test(server_thread_keeps_the_order_and_the_bits),
        cmocka_unit_test(a_full_trace_keeps_its_first_events),
    };
    return cmocka_run_group_tests_name("trace", tests, home_begin, home_end);
}
