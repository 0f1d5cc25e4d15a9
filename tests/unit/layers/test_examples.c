/* ctest-timeout: 120
 * Every example of every layer type, with all checks that need no knowledge of the layer: shape,
 * gradient, devices and layouts, memory and teardown. A new layer type is tested by its examples
 * alone. */
#include "layer_support.h"

#include "history/reader.h"
#include "unit/faulty_os.h"

enum { SAMPLES = 40, DIRECTIONS = 4 };

/* Two implementations in float, one of which may be Winograd. */
static const double device_limit = 1e-4;
static const double gradient_limit = 3e-4;

static char where[256]; /* the example under test, for messages */

typedef void check_fn(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                      struct fixture *f);

/* Runs a check for all examples, on the reference device, the default one, or both. */
static void for_examples(check_fn *check, bool on_reference, bool on_default, int threads)
{
    for (int reference = 0; reference < 2; reference++) {
        if (reference ? !on_reference : !on_default)
            continue;
        struct fixture f = open_cpu(reference, threads);
        for (int t = 0; sw_layer_types[t]; t++)
            for (int e = 0; sw_layer_types[t]->examples && sw_layer_types[t]->examples[e].recipe;
                 e++) {
                snprintf(where, sizeof where, "%s, example %d%s, %d thread(s)",
                         sw_layer_types[t]->base.name, e, reference ? ", reference" : "", threads);
                check(sw_layer_types[t], &sw_layer_types[t]->examples[e], &f);
            }
        close_cpu(&f);
    }
}

static bool has_backward(const struct sw_layer_type *type)
{
    return type->backward != NULL;
}

/* ---- Comparing two runs ---- */

static void compare(const char *what, const char *part, const float *a, const float *b, int64_t n,
                    double limit)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s: %s", where, what, part);
    if (limit == 0) {
        assert_same_bits(text, a, b, (size_t)n * sizeof *a);
        return;
    }
    double *want = get_doubles(n);
    for (int64_t i = 0; i < n; i++)
        want[i] = (double)b[i];
    assert_near(text, a, want, n, limit);
    free(want);
}

/* limit 0: the same bits. */
static void assert_alike(const char *what, const struct rig *g, const struct values *a,
                         const struct values *b, double limit)
{
    char part[64];
    enum sw_layer_role role = g->layer.type->role;
    for (int i = 0; i < b->pair_count && (role == SW_ROLE_LOSS || role == SW_ROLE_METRIC); i++)
        if (!(fabs(a->pairs[i].sum - b->pairs[i].sum) <= limit * (1 + fabs(b->pairs[i].sum))) ||
            !(a->pairs[i].weight == b->pairs[i].weight))
            fail_msg("%s: %s: pair %d is (%g, %g), should be (%g, %g)", where, what, i,
                     a->pairs[i].sum, a->pairs[i].weight, b->pairs[i].sum, b->pairs[i].weight);
    if (has_output(g->layer.type))
        compare(what, "output", a->dst, b->dst, b->dst_n, limit);
    for (int k = 0; k < b->src_count; k++) {
        snprintf(part, sizeof part, "gradient of source %d", k);
        if (g->layer.src_grad[k])
            compare(what, part, a->src_grad[k], b->src_grad[k], b->src_n[k], limit);
    }
    for (int i = 0; i < b->param_count && !g->how.evaluation && has_backward(g->layer.type); i++) {
        snprintf(part, sizeof part, "gradient of %s", g->layer.param[i].name);
        compare(what, part, a->param_grad[i], b->param_grad[i], b->param_n[i], limit);
    }
    for (int i = 0; i < b->keep_count; i++) {
        snprintf(part, sizeof part, "state %s", g->layer.keeps[i].name);
        compare(what, part, a->keeps[i], b->keeps[i], b->keeps_n[i], limit);
    }
}

/* Returns the values of a pass of a new layer with inputs of seed 1. */
static struct values pass_of(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                             const struct how *how)
{
    struct rig g;
    rig_setup(&g, type, ex, how);
    struct values v = values_new(&g, ex, 1);
    rig_pass(&g, &v);
    rig_close(&g);
    return v;
}

/* Checks that a layer created as `how` computes the same as one created as `other`. */
static void assert_same_as(const char *what, const struct sw_layer_type *type,
                           const struct sw_layer_example *ex, const struct how *how,
                           const struct how *other, double limit)
{
    struct rig g;
    rig_setup(&g, type, ex, how);
    struct values a = values_new(&g, ex, 1), b = pass_of(type, ex, other);
    rig_pass(&g, &a);
    assert_alike(what, &g, &a, &b, limit);
    values_free(&a);
    values_free(&b);
    rig_close(&g);
}

/* ---- Declarations ---- */

static void every_type_has_examples(void **state)
{
    for (int t = 0; sw_layer_types[t]; t++) {
        const struct sw_layer_type *type = sw_layer_types[t];
        if (type->role == SW_ROLE_INPUT)
            continue;
        if (!type->examples || !type->examples[0].recipe)
            fail_msg("layer type %s has no examples: nothing would test it", type->base.name);
        assert_true(example_srcs(&type->examples[0]) >= type->sources.min);
        assert_ptr_equal(sw_layer_type_find(type->base.name), type);
    }
    assert_null(sw_layer_type_find("no such type"));
}

static void check_shape(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                        struct fixture *f)
{
    struct rig g;
    rig_setup(&g, type, ex, &(struct how){.stream = f->stream});
    const struct sw_layer *l = &g.layer;
    char text[128];
    int ndim = 0;
    while (ndim < SW_MAX_DIMS && ex->dst[ndim])
        ndim++;
    bool same = ndim == 0 || l->dst.desc.ndim == ndim;
    for (int i = 0; i < ndim; i++)
        same = same && l->dst.desc.dim[i] == ex->dst[i];
    if (!same)
        fail_msg("%s: the output is %s", where, sw_desc_text(&l->dst.desc, text));
    assert_int_equal(l->dst.desc.dim[0], ex->src[0].dim[0]);
    assert_true(l->flops_forward > 0 || l->view || type->role == SW_ROLE_OUTPUT);
    assert_true(!has_backward(type) || l->flops_backward > 0 || l->view);
    for (int i = 0, named = 0; i < l->param_count; i++) {
        const char *name = l->param[i].name;
        assert_non_null(type->base.params);
        while (type->base.params[named] && strcmp(type->base.params[named], name) != 0)
            named++; /* a layer may omit some parameters, but keeps the order */
        assert_non_null(type->base.params[named]);
        /* Matrices need a fan-in; other parameters start with one value. */
        bool weight = strncmp(name, "weight", 6) == 0 || strncmp(name, "recurrent", 9) == 0;
        assert_true(weight ? l->param[i].fan_in > 0 : l->param[i].fan_in == 0);
    }
    rig_close(&g);
}

static void shapes_are_as_declared(void **state)
{
    for_examples(check_shape, true, true, 1);
}

/* ---- Gradients ---- */

/* Returns the scalar whose gradients a pass computes. */
static double loss_of(struct rig *g, struct values *v)
{
    rig_forward(g, v);
    const struct sw_layer_type *type = g->layer.type;
    double sum = 0;
    /* A loss is the mean over valid rows, while the gradient's scale assumes all rows. */
    if (type->role == SW_ROLE_LOSS || type->penalty)
        sum = v->result.sum / v->result.weight * (double)g->src[0].desc.dim[0] *
              (double)g->step.backward_scale;
    if (type->role == SW_ROLE_LOSS)
        return sum;
    for (int64_t i = 0; i < v->dst_n; i++)
        sum += (double)v->dst[i] * (double)v->dst_grad[i];
    return sum;
}

static double central_difference(struct rig *g, struct values *v, float *x, const float *direction,
                                 int64_t n, float h)
{
    float *origin = get_floats(n);
    double loss[2];
    memcpy(origin, x, (size_t)n * sizeof *x);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = origin[i] + (side ? h : -h) * direction[i];
        loss[side] = loss_of(g, v);
    }
    memcpy(x, origin, (size_t)n * sizeof *x);
    free(origin);
    return (loss[1] - loss[0]) / (2 * (double)h);
}

/* Combines two step sizes, so that the error is of fourth order (Richardson). */
static double derivative(struct rig *g, struct values *v, float *x, const float *direction,
                         int64_t n)
{
    const float h = 0x1p-6f;
    double wide = central_difference(g, v, x, direction, n, h);
    double narrow = central_difference(g, v, x, direction, n, h / 2);
    return (4 * narrow - wide) / 3;
}

/* Checks a sample of single elements relative to the largest of them, then the derivative along
 * random signs relative to the norm of the gradient. */
static void check_tensor(struct rig *g, struct values *v, const char *name, float *x,
                         const float *gradient, int64_t n, double limit)
{
    struct rng r = rng_of(77);
    float *direction = get_floats(n);
    double largest = 1e-6, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)gradient[i]));
        squares += (double)gradient[i] * (double)gradient[i];
    }
    for (int64_t s = 0; s < (n < SAMPLES ? n : SAMPLES); s++) {
        int64_t i = n <= SAMPLES ? s : rng_int(&r, 0, n - 1);
        memset(direction, 0, (size_t)n * sizeof *direction);
        direction[i] = 1;
        double want = derivative(g, v, x, direction, n);
        if (!(fabs((double)gradient[i] - want) <= limit * largest))
            fail_msg("%s: the gradient of %s at %lld is %.7g, should be %.7g (largest %.3g)", where,
                     name, (long long)i, (double)gradient[i], want, largest);
    }
    for (int d = 0; d < DIRECTIONS; d++) {
        double have = 0;
        for (int64_t i = 0; i < n; i++) {
            direction[i] = rng_word(&r) & 1 ? 1 : -1;
            have += (double)direction[i] * (double)gradient[i];
        }
        double want = derivative(g, v, x, direction, n);
        if (!(fabs(have - want) <= limit * (sqrt(squares) + 1e-6)))
            fail_msg("%s: the gradient of %s along a direction is %.7g, should be %.7g (length "
                     "%.3g)",
                     where, name, have, want, sqrt(squares));
    }
    free(direction);
}

static void check_gradient(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                           struct fixture *f)
{
    if (!has_backward(type))
        return;
    double limit = ex->tolerance > 0 ? ex->tolerance : gradient_limit;
    struct rig g;
    rig_setup(&g, type, ex, &(struct how){.stream = f->stream});
    struct values v = values_new(&g, ex, 2);
    rig_pass(&g, &v);
    for (int k = 0; k < v.src_count; k++)
        if (g.layer.src_grad[k])
            check_tensor(&g, &v, "a source", v.src[k], v.src_grad[k], v.src_n[k], limit);
    for (int i = 0; i < v.param_count; i++)
        check_tensor(&g, &v, g.layer.param[i].name, v.param[i], v.param_grad[i], v.param_n[i],
                     limit);
    values_free(&v);
    rig_close(&g);
}

static void gradients_match_central_differences(void **state)
{
    for_examples(check_gradient, true, false, 1);
}

static void check_without_data_gradient(const struct sw_layer_type *type,
                                        const struct sw_layer_example *ex, struct fixture *f)
{
    if (!has_backward(type) || !type->base.params)
        return;
    assert_same_as("as the first layer of a net", type, ex,
                   &(struct how){.stream = f->stream, .no_data = true},
                   &(struct how){.stream = f->stream}, device_limit);
}

static void parameter_gradients_do_not_need_a_source_gradient(void **state)
{
    for_examples(check_without_data_gradient, true, true, 1);
}

/* ---- Devices, layouts, memory, threads ---- */

static void check_device(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                         struct fixture *f)
{
    struct fixture reference = open_cpu(true, 1);
    double limit = ex->tolerance > device_limit ? ex->tolerance : device_limit;
    assert_same_as("against the reference device", type, ex, &(struct how){.stream = f->stream},
                   &(struct how){.stream = reference.stream}, limit);
    close_cpu(&reference);
}

static void default_device_matches_reference(void **state)
{
    for_examples(check_device, false, true, 1);
}

static void check_layouts(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                          struct fixture *f)
{
    bool several = example_srcs(ex) > 1;
    for (int block = 8; block <= 16 && ex->src[0].ndim == 4; block += 8)
        for (int mixed = 0; mixed <= several; mixed++) {
            char what[64];
            snprintf(what, sizeof what, "%ssources in blocks of %d", mixed ? "other " : "", block);
            assert_same_as(what, type, ex,
                           &(struct how){.stream = f->stream, .block = block, .mixed = mixed},
                           &(struct how){.stream = f->stream}, device_limit);
        }
}

static void every_source_layout_gives_the_same_values(void **state)
{
    for_examples(check_layouts, true, true, 1);
}

static void check_in_place(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                           struct fixture *f)
{
    for (int block = 0; block <= 16; block += 16)
        assert_same_as("in place", type, ex,
                       &(struct how){.stream = f->stream, .block = block, .in_place = true},
                       &(struct how){.stream = f->stream, .block = block}, 0);
}

static void in_place_gives_the_same_bits(void **state)
{
    for_examples(check_in_place, true, true, 1);
}

/* Runs a pass twice with the same layer, and once with another. */
static void check_repetition(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                             struct fixture *f)
{
    struct how how = {.stream = f->stream, .block = 8};
    struct rig g;
    rig_setup(&g, type, ex, &how);
    struct values a = values_new(&g, ex, 1), b = values_new(&g, ex, 1);
    rig_pass(&g, &a);
    rig_pass(&g, &b);
    assert_alike("a second pass", &g, &b, &a, 0);
    values_free(&a);
    values_free(&b);
    rig_close(&g);
    assert_same_as("another layer of the same kind", type, ex, &how, &how, 0);
}

static void repeated_passes_give_the_same_bits(void **state)
{
    for_examples(check_repetition, true, true, 1);
    for_examples(check_repetition, true, true, 2);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = get_bytes(bytes + 1);
    memcpy(to, from, bytes);
    return to;
}

/* A second forward pass, after its results were overwritten, gives the same results. */
static void check_second_forward(const struct sw_layer_type *type,
                                 const struct sw_layer_example *ex, struct fixture *f)
{
    struct how how = {.stream = f->stream, .block = 8};
    struct rig g;
    struct sw_err err;
    rig_setup(&g, type, ex, &how);
    struct sw_layer *l = &g.layer;
    struct values v = values_new(&g, ex, 1);
    rig_forward(&g, &v);
    size_t bytes = sw_desc_bytes(&l->dst.desc);
    if (sw_layer_can_recompute(l)) {
        char *dst = copy_of(l->dst.data, bytes), *saved = copy_of(l->saved, l->saved_bytes);
        poison(l->dst.data, bytes);
        poison(l->scratch, l->scratch_bytes);
        if (!l->recomputes_from_saved)
            poison(l->saved, l->saved_bytes);
        const struct sw_pass pass = {
            .stream = f->stream, .step = &g.step, .training = true, .again = true};
        ASSERT_OK(type->forward(l, &pass, &err));
        assert_memory_equal(l->dst.data, dst, bytes);
        assert_memory_equal(l->saved, saved, l->saved_bytes);
        for (int i = 0; i < v.keep_count; i++)
            assert_memory_equal(l->keeps[i].value, v.keeps[i],
                                (size_t)v.keeps_n[i] * sizeof(float));
        free(dst);
        free(saved);
    }
    values_free(&v);
    rig_close(&g);
}

static void recomputed_forward_gives_the_same_bits(void **state)
{
    for_examples(check_second_forward, true, true, 1);
}

static void check_threads(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                          struct fixture *f)
{
    struct sw_stream *two;
    struct sw_err err;
    ASSERT_OK(sw_stream_new(f->dev, 2, &two, &err));
    for (int block = 0; block <= 16; block += 16) {
        sw_stream_attach(two);
        struct values v = pass_of(type, ex, &(struct how){.stream = two, .block = block});
        struct rig g;
        sw_stream_attach(f->stream);
        rig_setup(&g, type, ex, &(struct how){.stream = f->stream, .block = block});
        struct values w = values_new(&g, ex, 1);
        rig_pass(&g, &w);
        assert_alike("two threads against one", &g, &v, &w, device_limit);
        values_free(&v);
        values_free(&w);
        rig_close(&g);
    }
    sw_stream_free(two);
}

static void two_threads_give_the_bits_of_one(void **state)
{
    for_examples(check_threads, true, true, 1);
}

/* ---- Evaluation ---- */

static bool differs_in_evaluation(const struct sw_layer_type *type)
{
    const char *name = type->base.name;
    return strcmp(name, "dropout") == 0 || strcmp(name, "noise") == 0 ||
           strcmp(name, "batch_norm") == 0;
}

/* An evaluation layer with two more rows reads the parameters in the layout of the training
 * layer. */
static void check_evaluation(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                             struct fixture *f)
{
    if (type->role != SW_ROLE_NEURON || differs_in_evaluation(type))
        return;
    struct rig train, eval;
    struct how how = {.stream = f->stream};
    rig_setup(&train, type, ex, &how);
    struct values v = values_new(&train, ex, 1);
    rig_forward(&train, &v);
    how.evaluation = true;
    how.rows = ex->src[0].dim[0] + 2;
    how.shares = &train;
    rig_setup(&eval, type, ex, &how);
    struct values w = values_new(&eval, ex, 5);
    for (int k = 0; k < v.src_count; k++)
        if (v.label[k])
            memcpy(w.label[k], v.label[k], (size_t)v.src_n[k] * sizeof(int32_t));
        else
            memcpy(w.src[k], v.src[k], (size_t)v.src_n[k] * sizeof(float));
    for (int i = 0; i < v.param_count; i++) {
        assert_true(sw_desc_equal(&eval.layer.param[i].layout, &train.layer.param[i].layout));
        memcpy(w.param[i], v.param[i], (size_t)v.param_n[i] * sizeof(float));
    }
    rig_forward(&eval, &w);
    compare("evaluation with more rows", "output", w.dst, v.dst, v.dst_n, device_limit);
    values_free(&v);
    values_free(&w);
    rig_close(&eval);
    rig_close(&train);
}

static void evaluation_gives_the_outputs_of_training(void **state)
{
    for_examples(check_evaluation, true, true, 1);
}

/* ---- Teardown ---- */

static void check_second_setup(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                               struct fixture *f)
{
    struct rig g;
    struct sw_err err;
    rig_open(&g, type, ex, &(struct how){.stream = f->stream});
    for (int life = 0; life < 2; life++) {
        ASSERT_OK(rig_try_setup(&g, &err));
        rig_teardown(&g);
    }
    sw_recipe_free(g.recipe);
}

static void a_layer_can_be_torn_down_and_set_up_again(void **state)
{
    for_examples(check_second_setup, true, true, 1);
}

/* Creates and frees device, stream and layer, which must not leak. Returns the result of setup. */
static int faulty_life(const struct sw_layer_type *type, const struct sw_layer_example *ex,
                       bool reference, struct faulty_plan plan, struct sw_err *err)
{
    struct fixture f = {NULL, NULL};
    struct rig g;
    rig_open(&g, type, ex, &(struct how){.block = 16});
    faulty_begin(plan);
    int rc = sw_cpu_open(reference, &f.dev, err);
    if (rc == SW_OK)
        rc = sw_stream_new(f.dev, 1, &f.stream, err);
    if (rc == SW_OK) {
        g.how.stream = f.stream;
        rc = rig_try_setup(&g, err);
        rig_teardown(&g);
    }
    close_cpu(&f);
    faulty_end();
    sw_recipe_free(g.recipe);
    if (faulty.live_allocations != 0)
        fail_msg("%s: %d allocations leak when allocation %d fails", where, faulty.live_allocations,
                 plan.at);
    return rc;
}

static void check_failing_allocations(const struct sw_layer_type *type,
                                      const struct sw_layer_example *ex, struct fixture *f)
{
    bool reference = strstr(where, "reference") != NULL;
    struct faulty_plan plan = {.kinds = FAULTY_ALLOC};
    struct sw_err err;
    ASSERT_OK(faulty_life(type, ex, reference, plan, &err));
    int calls = faulty.calls;
    assert_true(calls >= 2);
    for (plan.at = 1; plan.at <= calls; plan.at++)
        for (int forever = 0; forever < 2; forever++) {
            plan.forever = forever;
            int rc = faulty_life(type, ex, reference, plan, &err);
            if (rc != SW_ERR_NOMEM)
                fail_msg("%s: allocation %d fails, and setup says %d", where, plan.at, rc);
            assert_non_null(strstr(err.text, "out of memory"));
        }
}

static void failing_allocations_are_errors_without_leaks(void **state)
{
    for_examples(check_failing_allocations, true, true, 1);
}

/* ---- The history ---- */

/* The history knows metrics only by name: TYPE, TYPE.LAYER, and either with .VALUE behind it. */
static void history_knows_which_metrics_fall(void **state)
{
    static const char *const behind[] = {"", ".fc1", ".accuracy", ".my_loss", ".error.f1"};
    int falling = 0, rising = 0;

    for (int t = 0; sw_layer_types[t]; t++) {
        const struct sw_layer_type *type = sw_layer_types[t];
        const bool loss = type->role == SW_ROLE_LOSS || type->penalty;
        const bool falls = loss || type->less_is_better;

        if (!loss && type->role != SW_ROLE_METRIC)
            continue;
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            char name[128];
            snprintf(name, sizeof name, "%s%s", type->base.name, behind[i]);
            if (sw_metric_falls(name) != falls)
                fail_msg("%s: %s values should be better", name, falls ? "smaller" : "larger");
        }
        *(falls ? &falling : &rising) += 1;
    }
    assert_true(falling > 0 && rising > 0);
    assert_true(sw_metric_falls("loss"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_examples),
        cmocka_unit_test(shapes_are_as_declared),
        cmocka_unit_test(gradients_match_central_differences),
        cmocka_unit_test(parameter_gradients_do_not_need_a_source_gradient),
        cmocka_unit_test(default_device_matches_reference),
        cmocka_unit_test(every_source_layout_gives_the_same_values),
        cmocka_unit_test(in_place_gives_the_same_bits),
        cmocka_unit_test(repeated_passes_give_the_same_bits),
        cmocka_unit_test(recomputed_forward_gives_the_same_bits),
        cmocka_unit_test(two_threads_give_the_bits_of_one),
        cmocka_unit_test(evaluation_gives_the_outputs_of_training),
        cmocka_unit_test(a_layer_can_be_torn_down_and_set_up_again),
        cmocka_unit_test(failing_allocations_are_errors_without_leaks),
        cmocka_unit_test(history_knows_which_metrics_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
