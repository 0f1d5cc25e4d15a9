/* All updaters: steps computed by hand from the published formulas, and properties that all
 * updaters have. */
#include "updater_support.h"

enum { COUNT = 50003, WORKERS = 3 }; /* several blocks and an odd end */

/* ---- Worked steps ----
 *
 * w = 1, lr = 0.1, decay 0.01, gradients 1/2, -1/4, 1, in double, by the equations that the formula
 * headers cite; nesterov in Sutskever's form, with w where the gradient is taken. */

static const struct {
    const char *updater, *key; /* a key with another value than its default, or NULL */
    double value, lr, w[3];
} worked[] = {
    {"sgd", "momentum", 0, 0.1, {0.949, 0.973051, 0.872077949}},
    {"sgd", "momentum", 0.9, 0.1, {0.949, 0.927151, 0.806559749}},
    {"nesterov", NULL, 0, 0.1, {0.9031, 0.90757411, 0.698189208191}},
    {"adagrad", NULL, 0, 0.1, {0.900000019607839, 0.942724800489652, 0.855429857794258}},
    {"rmsprop", NULL, 0, 0.1, {0.683772253591004, 0.825776372823313, 0.544012574552055}},
    {"adadelta", NULL, 0, 1, {0.995528035974184, 0.998278155630651, 0.992255823564652}},
    {"adam", NULL, 0, 0.1, {0.900000001960784, 0.871229347623174, 0.804614334217386}},
    {"adamw", NULL, 0, 0.1, {0.899000002, 0.871467298705846, 0.804784672376384}},
    {"adamax", NULL, 0, 0.1, {0.9, 0.8774800600394, 0.83340281429948}},
};

static void updaters_match_steps_worked_by_hand(void **state)
{
    static const float gradient[3] = {0.5f, -0.25f, 1};
    for (size_t i = 0; i < sizeof worked / sizeof *worked; i++) {
        const struct sw_updater *u = find_updater(worked[i].updater);
        void *conf = updater_conf(u, worked[i].key, worked[i].value);
        float w = 1, s0 = 0, s1 = 0;
        bool bad = false;
        for (int t = 0; t < 3; t++) {
            struct sw_update_args a = {.value = &w,
                                       .slot = {&s0, &s1},
                                       .gradient = &gradient[t],
                                       .count = 1,
                                       .lr = (float)worked[i].lr,
                                       .weight_decay = 0.01f,
                                       .gradient_scale = 1,
                                       .step = (uint64_t)t,
                                       .non_finite = &bad};
            sw_updater_apply(u, conf, &a);
            if (fabs((double)w - worked[i].w[t]) > 5e-7)
                fail_msg("%s, update %d: %.9g, not %.9g", worked[i].updater, t + 1, (double)w,
                         worked[i].w[t]);
        }
        assert_false(bad);
        free(conf);
    }
}

/* A parameter of two elements at lr = 0.1 with decay 0.01, trust 0.02: algorithm 1 in double. */
static void lars_matches_steps_worked_by_hand(void **state)
{
    static const float gradient[3][2] = {{0.6f, 0.8f}, {-0.3f, 0.4f}, {5, 12}};
    static const double norm[3] = {1, 0.5, 13};
    static const double want[3][2] = {
        {2.994, 3.992}, {2.99350125259138, 3.976816}, {2.98921525506047, 3.95396576965421}};
    const struct sw_updater *u = find_updater("lars");
    void *conf = updater_conf(u, "trust", 0.02);
    float w[2] = {3, 4}, v[2] = {0};
    bool bad = false;
    assert_true(u->needs_norms);
    for (int t = 0; t < 3; t++) {
        struct sw_update_args a = {.value = w,
                                   .slot = {v},
                                   .gradient = gradient[t],
                                   .count = 2,
                                   .lr = 0.1f,
                                   .weight_decay = 0.01f,
                                   .gradient_scale = 1,
                                   .value_norm = hypot((double)w[0], (double)w[1]),
                                   .gradient_norm = norm[t],
                                   .step = (uint64_t)t,
                                   .non_finite = &bad};
        sw_updater_apply(u, conf, &a);
        for (int i = 0; i < 2; i++)
            if (fabs((double)w[i] - want[t][i]) > 1e-6)
                fail_msg("update %d: %.9g, not %.9g", t + 1, (double)w[i], want[t][i]);
    }
    free(conf);
}

static void every_updater_has_worked_steps(void **state)
{
    for (int u = 0; sw_updaters[u]; u++) {
        bool has = strcmp(sw_updaters[u]->base.name, "lars") == 0; /* the test above */
        for (size_t i = 0; i < sizeof worked / sizeof *worked; i++)
            has = has || strcmp(worked[i].updater, sw_updaters[u]->base.name) == 0;
        if (!has)
            fail_msg("%s has none", sw_updaters[u]->base.name);
    }
}

/* ---- Properties of all updaters ---- */

struct model {
    const struct sw_updater *u;
    void *conf;
    int slots;
    float clip_value;
    float *w, *s[SW_UPDATER_SLOTS], *g[WORKERS];
};

static struct model model_new(const struct sw_updater *u)
{
    struct model m = {.u = u, .conf = updater_conf(u, NULL, 0)};
    m.slots = sw_updater_slots(u, m.conf);
    m.w = noise(0, COUNT);
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        m.s[s] = calloc(COUNT, sizeof(float));
    for (int w = 0; w < WORKERS; w++)
        m.g[w] = noise(1 + (uint32_t)w, COUNT);
    return m;
}

static void model_free(struct model *m)
{
    free(m->conf), free(m->w);
    for (int s = 0; s < SW_UPDATER_SLOTS; s++)
        free(m->s[s]);
    for (int w = 0; w < WORKERS; w++)
        free(m->g[w]);
}

/* Runs update `step` + 1 of elements [from, to) with the gradients of `workers` workers. */
static bool update(struct model *m, uint64_t step, int workers, int64_t from, int64_t to)
{
    bool bad = false;
    const float *in[WORKERS];
    for (int w = 0; w < workers; w++)
        in[w] = m->g[w] + from;
    struct sw_update_args a = {.value = m->w + from,
                               .gradient = m->g[0] + from,
                               .sum = {.in = in, .count = workers},
                               .count = to - from,
                               .lr = 0.01f,
                               .weight_decay = 0.004f,
                               .clip_value = m->clip_value,
                               .gradient_scale = 0.25f,
                               .step = step,
                               .non_finite = &bad};
    for (int s = 0; s < m->slots; s++)
        a.slot[s] = m->s[s] + from;
    sw_updater_apply(m->u, m->conf, &a);
    return bad;
}

static void assert_same(const struct model *a, const struct model *b, const char *when)
{
    bool same = memcmp(a->w, b->w, COUNT * sizeof(float)) == 0;
    for (int s = 0; s < a->slots; s++)
        same = same && memcmp(a->s[s], b->s[s], COUNT * sizeof(float)) == 0;
    if (!same)
        fail_msg("%s: %s", a->u->base.name, when);
}

static void ranges_and_threads_change_no_bit(void **state)
{
    static const int64_t cut[] = {0, 1, 17, 4096, 16384, 16385, 40000, COUNT};
    for (int u = 0; sw_updaters[u]; u++) {
        struct model one = model_new(sw_updaters[u]), cuts = model_new(sw_updaters[u]);
        for (uint64_t t = 0; t < 3; t++) {
            set_threads(1);
            assert_false(update(&one, t, WORKERS, 0, COUNT));
#ifndef __SANITIZE_THREAD__ /* libgomp's synchronisation is invisible to it */
            set_threads(2 + (int)t);
#endif
            for (int i = 6; i >= 0; i--)
                assert_false(update(&cuts, t, WORKERS, cut[i], cut[i + 1]));
        }
        assert_same(&one, &cuts, "slices or threads change bits");
        model_free(&one), model_free(&cuts);
    }
    set_threads(1);
}

/* Gradients are added in worker order, and the gradients of the workers do not change. */
static void gradients_of_workers_are_added(void **state)
{
    for (int u = 0; sw_updaters[u]; u++)
        for (int workers = 1; workers <= WORKERS; workers++) {
            struct model many = model_new(sw_updaters[u]), one = model_new(sw_updaters[u]);
            for (int w = 1; w < workers; w++)
                for (int i = 0; i < COUNT; i++)
                    one.g[0][i] += one.g[w][i];
            float *before = noise(1, COUNT);
            update(&many, 0, workers, 0, COUNT);
            update(&one, 0, 1, 0, COUNT);
            assert_same(&many, &one, "the sum over workers is another");
            assert_memory_equal(many.g[0], before, COUNT * sizeof(float));
            free(before);
            model_free(&many), model_free(&one);
        }
}

/* The update uses the clipped sum, and gradients that are not finite are still reported. */
static void clipping_by_value_clips_the_sum(void **state)
{
    for (int u = 0; sw_updaters[u]; u++)
        for (int workers = 1; workers <= WORKERS; workers++) {
            struct model clipped = model_new(sw_updaters[u]), by_hand = model_new(sw_updaters[u]);
            clipped.clip_value = 0.3f;
            for (int i = 0; i < COUNT; i++) {
                for (int w = 1; w < workers; w++)
                    by_hand.g[0][i] += by_hand.g[w][i];
                by_hand.g[0][i] = fminf(fmaxf(by_hand.g[0][i], -0.3f), 0.3f);
            }
            assert_false(update(&clipped, 0, workers, 0, COUNT));
            update(&by_hand, 0, 1, 0, COUNT);
            assert_same(&clipped, &by_hand, "clipping by value");
            clipped.g[0][5] = INFINITY;
            assert_true(update(&clipped, 1, workers, 0, COUNT));
            model_free(&clipped), model_free(&by_hand);
        }
}

static void padding_stays_zero(void **state)
{
    for (int u = 0; sw_updaters[u]; u++) {
        struct model m = model_new(sw_updaters[u]);
        for (int i = 100; i < 116; i++)
            m.w[i] = m.g[0][i] = 0;
        for (uint64_t t = 0; t < 3; t++)
            assert_false(update(&m, t, 1, 0, COUNT));
        for (int i = 100; i < 116; i++)
            if (m.w[i] != 0 || m.s[0][i] != 0 || m.s[1][i] != 0)
                fail_msg("%s moves padding", m.u->base.name);
        assert_true(m.w[99] != 0 && m.w[116] != 0);
        model_free(&m);
    }
}

static void check_found(const struct sw_updater *u, int worker, float bad_value, int at)
{
    struct model m = model_new(u);
    m.g[worker][at] = bad_value;
    if (!update(&m, 0, WORKERS, 0, COUNT))
        fail_msg("%s: gradient %g at %d was not noticed", u->base.name, (double)bad_value, at);
    model_free(&m);
}

static void non_finite_gradients_are_reported(void **state)
{
    for (int u = 0; sw_updaters[u]; u++) {
        check_found(sw_updaters[u], 0, NAN, 0);
        check_found(sw_updaters[u], 2, INFINITY, 16384);
        check_found(sw_updaters[u], 1, -INFINITY, COUNT - 1);
    }
}

/* Squares overflow long before gradients do: an infinite state would stop the element forever. */
static void overflowing_state_is_reported(void **state)
{
    for (int u = 0; sw_updaters[u]; u++) {
        struct model m = model_new(sw_updaters[u]);
        m.g[0][7] = 3e38f;
        bool bad = update(&m, 0, 1, 0, COUNT), finite = isfinite(m.w[7]);
        for (int s = 0; s < m.slots; s++)
            finite = finite && isfinite(m.s[s][7]);
        if (bad == finite)
            fail_msg("%s: overflow %s", m.u->base.name, bad ? "where there is none" : "unnoticed");
        model_free(&m);
    }
}

static void state_has_names(void **state)
{
    for (int u = 0; sw_updaters[u]; u++) {
        const struct sw_updater *up = sw_updaters[u];
        void *conf = updater_conf(up, NULL, 0);
        int slots = sw_updater_slots(up, conf);
        assert_true(slots >= 0 && slots <= SW_UPDATER_SLOTS);
        for (int s = 0; s < slots; s++)
            assert_true(up->slot_names[s] && up->slot_names[s][0]);
        free(conf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updaters_match_steps_worked_by_hand),
        cmocka_unit_test(lars_matches_steps_worked_by_hand),
        cmocka_unit_test(every_updater_has_worked_steps),
        cmocka_unit_test(ranges_and_threads_change_no_bit),
        cmocka_unit_test(gradients_of_workers_are_added),
        cmocka_unit_test(clipping_by_value_clips_the_sum),
        cmocka_unit_test(padding_stays_zero),
        cmocka_unit_test(non_finite_gradients_are_reported),
        cmocka_unit_test(overflowing_state_is_reported),
        cmocka_unit_test(state_has_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
