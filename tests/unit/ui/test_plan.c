/* Plans as the history has them, complete and not, and what is measured of their times. */
#include "ui_support.h"

#include "ui/keys.h"
#include "ui/once.h"

static int read_plan(struct sw_ui_plan *p, const char *json, int most)
{
    const struct sw_run_plan_text row = {json, 98, 120};
    struct sw_err err;

    return sw_ui_plan_read(p, &row, most, &err);
}

static void plan_is_read(void **state)
{
    struct sw_ui_plan p = {0};

    assert_int_equal(read_plan(&p, STAGED_PLAN, 100), SW_OK);
    assert_string_equal(p.shape, "sandblaster, 1 group of 4 workers");
    assert_true(p.known && !p.is_async && p.step_ms == 98 && p.mean_ms == 120);
    assert_true(p.part_ms[SW_UI_PLAN_COMPUTE] == 94 && p.part_ms[SW_UI_PLAN_WAIT] == 1);
    assert_int_equal(p.layer_count, 5);
    assert_string_equal(p.layers[2].name, "conv2");
    assert_string_equal(p.layers[2].comm, "sfb");
    assert_string_equal(p.layers[3].partition, "1in");
    assert_string_equal(p.layers[3].comm, "");
    assert_string_equal(p.layers[4].partition, "none @3");
    assert_true(p.layers[4].compute_ms == 0.1);

    assert_int_equal(read_plan(&p, STAGED_PLAN, 2), SW_OK);
    assert_int_equal(p.layer_count, 2);
    sw_ui_plan_fini(&p);
}

static void rounding_errors_of_the_simulation_are_zero(void **state)
{
    struct sw_ui_plan p = {0};

    assert_int_equal(read_plan(&p, "{\"wait_ms\":1e-14,\"params_ms\":1e-5}", 9), SW_OK);
    assert_true(p.part_ms[SW_UI_PLAN_WAIT] == 0 && p.part_ms[SW_UI_PLAN_PARAMS] == 1e-5);
    sw_ui_plan_fini(&p);
}

/* Keys that not every plan has. */
static void rest_and_replaced_plans_are_read(void **state)
{
    static const char json[] =
        "{\"rest_ms\":2,\"replaced\":[{\"until_step\":200,\"predicted_ms\":70,\"measured_ms\":91},"
        "{\"until_step\":null,\"predicted_ms\":80}]}";
    struct sw_ui_plan p = {0};

    assert_int_equal(read_plan(&p, STAGED_PLAN, 9), SW_OK);
    assert_true(p.part_ms[SW_UI_PLAN_REST] == 0 && p.past_count == 0);
    assert_int_equal(read_plan(&p, json, 9), SW_OK);
    assert_true(p.part_ms[SW_UI_PLAN_REST] == 2 && p.past_count == 2);
    assert_string_equal(p.past[0].name, "until step 200");
    assert_true(p.past[0].predicted_ms == 70 && p.past[0].measured_ms == 91);
    assert_string_equal(p.past[1].name, "before");
    assert_true(p.past[1].predicted_ms == 80 && isnan(p.past[1].measured_ms));
    sw_ui_plan_fini(&p);
}

/* A plan without the key has the rest of a step in its inputs. */
static void inputs_are_the_rest_of_a_step(void **state)
{
    static const char layers[] =
        "\"compute_ms\":30,\"layers\":[{\"type\":\"input\",\"compute_ms\":4},"
        "{\"type\":\"lrn\",\"compute_ms\":26}]}";
    struct sw_ui_plan p = {0};
    char json[256];

    for (int has_rest = 0; has_rest < 2; has_rest++) {
        snprintf(json, sizeof json, "{%s%s", has_rest ? "\"rest_ms\":3," : "", layers);
        assert_int_equal(read_plan(&p, json, 9), SW_OK);
        assert_true(p.part_ms[SW_UI_PLAN_COMPUTE] == (has_rest ? 30 : 26));
        assert_true(p.part_ms[SW_UI_PLAN_REST] == (has_rest ? 3 : 4));
        assert_true(has_rest ? p.layers[0].compute_ms == 4 : isnan(p.layers[0].compute_ms));
        assert_true(p.layers[1].compute_ms == 26);
    }
    sw_ui_plan_fini(&p);
}

/* Whatever the column holds, the times of the row are shown. */
static void damaged_plan_keeps_its_times(void **state)
{
    static const char *const damaged[] = {"",
                                          "{",
                                          "[]",
                                          "7",
                                          "{\"layers\":{\"a\":1}}",
                                          "{\"layers\":[3,null,{}],\"framework\":[],"
                                          "\"worker_groups\":1e300,\"compute_ms\":\"x\"}"};
    struct sw_ui_plan p = {0};

    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        int rc = read_plan(&p, damaged[i], 9);

        assert_int_equal(rc, i < 2 ? SW_ERR_FORMAT : SW_OK);
        assert_true(p.known && p.step_ms == 98 && p.mean_ms == 120);
        assert_true(isnan(p.part_ms[SW_UI_PLAN_COMPUTE]));
        assert_int_equal(p.layer_count, i == 5 ? 3 : 0);
    }
    assert_string_equal(p.shape, "--, -- groups of -- workers");
    assert_string_equal(p.layers[2].name, "--");
    assert_true(isnan(p.layers[0].compute_ms));
    sw_ui_plan_fini(&p);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

/* Worker 3 has most work, the others wait for it. */
static void parts_are_those_of_the_busiest_worker(void **state)
{
    struct sw_ui_model *m = stage();
    stage_plan(m);
    struct sw_ui_plan_measured got =
        sw_ui_plan_measure(&m->plan, &m->ledger, m->layers, m->layer_count);

    assert_true(is_near(got.part_ms[SW_UI_PLAN_COMPUTE], 106));
    assert_true(is_near(got.part_ms[SW_UI_PLAN_PARAMS], 2.1));
    assert_true(got.part_ms[SW_UI_PLAN_ACTIVATIONS] == 0 && got.part_ms[SW_UI_PLAN_WAIT] == 0);
    assert_true(is_near(got.input_ms, 1.4) && is_near(got.part_ms[SW_UI_PLAN_REST], 1.8));
    assert_true(is_near(got.step_ms, 109.9));
    unstage(m);
}

/* Worker 0 takes longest, because it waits, but worker 1 works most. */
static void parts_of_asynchronous_groups_are_those_of_the_slowest(void **state)
{
    const struct sw_step_time rows[] = {
        {.step = 1, .worker = 0, .forward_ms = 10, .comm_exposed_ms = 90},
        {.step = 1, .worker = 1, .forward_ms = 50, .comm_exposed_ms = 5}};
    struct sw_ui_plan p = {0};
    struct sw_ledger l;

    sw_ledger_make(&l, rows, 2);
    for (int async = 0; async < 2; async++) {
        assert_int_equal(
            read_plan(&p, async ? "{\"consistency\":\"ssp\"}" : "{\"consistency\":\"bsp\"}", 9),
            SW_OK);
        struct sw_ui_plan_measured got = sw_ui_plan_measure(&p, &l, NULL, 0);

        assert_true(got.part_ms[SW_UI_PLAN_COMPUTE] == (async ? 10 : 50));
        assert_true(got.part_ms[SW_UI_PLAN_PARAMS] == (async ? 90 : 5));
        assert_true(isnan(got.part_ms[SW_UI_PLAN_ACTIVATIONS])); /* no layer has been measured */
    }
    assert_true(strstr(p.shape, ", ssp") != NULL);
    sw_ui_plan_fini(&p);
}

/* Names with a colon may be those of layers. */
static void connections_are_activations(void **state)
{
    static const char json[] = "{\"layers\":[{\"name\":\"fc1\"},{\"name\":\"a:b\"}]}";
    const struct sw_run_layer layers[] = {
        {"fc1", 1, 2, 3}, {"fc1>full", 0.5, 0.5, 2}, {"fc1:full", 0, 1, 2}, {"a:b", 2, 3, 6}};
    const struct sw_step_time row = {.step = 1, .forward_ms = 30, .backward_ms = 70};
    struct sw_ui_plan p = {0};
    struct sw_ledger l;

    sw_ledger_make(&l, &row, 1);
    assert_int_equal(read_plan(&p, json, 9), SW_OK);
    struct sw_ui_plan_measured got = sw_ui_plan_measure(&p, &l, layers, 4);
    assert_true(is_near(got.part_ms[SW_UI_PLAN_ACTIVATIONS], 20));
    assert_true(is_near(got.part_ms[SW_UI_PLAN_COMPUTE], 80));
    assert_true(sw_ui_plan_layer_ms("a:b", layers, 4) == 6);
    assert_true(isnan(sw_ui_plan_layer_ms("fc2", layers, 4)));
    sw_ui_plan_fini(&p);
}

static void verdict_names_direction_and_size(void **state)
{
    static const struct {
        double ms;
        const char *text;
    } cases[] = {{100, "as planned"},
                 {100.4, "as planned"},
                 {112, "12 % slower than planned"},
                 {75, "25 % faster than planned"},
                 {199, "99 % slower than planned"},
                 {340, "3.4 times as long as planned"},
                 {4200, "42 times as long as planned"},
                 {NAN, ""},
                 {INFINITY, ""}};
    struct sw_ui_plan p = {.known = true, .step_ms = 100};
    char text[48];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_ui_plan_verdict(text, &p, cases[i].ms);
        assert_string_equal(text, cases[i].text);
    }
    p.step_ms = 0;
    sw_ui_plan_verdict(text, &p, 5);
    assert_string_equal(text, "");

    p.step_ms = 100;
    assert_true(sw_ui_plan_differs(&p, 10, 12.1) && sw_ui_plan_differs(&p, 10, 7.9));
    assert_false(sw_ui_plan_differs(&p, 10, 11.9) || sw_ui_plan_differs(&p, 0.1, 0.9));
    assert_false(sw_ui_plan_differs(&p, NAN, 9) || sw_ui_plan_differs(&p, 9, NAN));
    assert_true(sw_ui_plan_differs(&p, 0, 1.1));
}

/* ---- The panel ---- */

static bool shows(const struct sw_ui_model *m, const struct sw_ui_view *v, int w, int h,
                  const char *what)
{
    struct sw_canvas c = {0};
    struct sw_bytes text = {0};
    struct sw_err err;

    assert_int_equal(sw_canvas_begin(&c, w, h, (struct sw_ui_caps){true, 256}, &err), SW_OK);
    sw_screen_draw(&c, m, v);
    sw_canvas_to_text(&c, &text);
    bool found = strstr(sw_bytes_text(&text), what) != NULL;
    sw_bytes_fini(&text);
    sw_canvas_fini(&c);
    return found;
}

static void run_without_a_plan_shows_how_to_make_one(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();

    assert_false(shows(m, &v, 200, 60, "9 plan"));
    v.focus = 9;
    v.maximized = true;
    assert_true(shows(m, &v, 80, 24, "no plan; singa-ws run --plan RECIPE makes one"));
    assert_true(shows(m, &v, 50, 12, "no plan; singa-ws run --plan RECIPE makes one"));
    unstage(m);
}

static void large_differences_are_marked_in_text(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();

    stage_plan(m);
    v.focus = 9;
    v.maximized = true;
    assert_true(shows(m, &v, 80, 24, "12 % slower than planned"));
    assert_true(shows(m, &v, 49, 30, "12 % slower than planned")); /* without frames */
    assert_true(shows(m, &v, 80, 24, "+12 %   │"));
    assert_true(shows(m, &v, 80, 24, "+200 % ! │")); /* fc6 */
    assert_true(shows(m, &v, 80, 24, "0.0 %") == false && shows(m, &v, 80, 24, "+0 %   │"));

    m->plan.step_ms = 2;
    assert_true(shows(m, &v, 80, 24, "x 55 ! │"));
    m->ledger = (struct sw_ledger){.p50_ms = NAN};
    m->layer_count = 0;
    assert_true(shows(m, &v, 80, 24, "step                     2 ms ▆▆▆▆▆▆▆▆▆▆▆▆        --"));
    unstage(m);
}

static void layers_of_the_plan_scroll_and_are_filtered(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    const struct sw_panel *p = sw_panel_named("plan");

    stage_plan(m);
    m->plan.mean_ms = 120;
    v.focus = 9;
    v.maximized = true;
    assert_int_equal(p->lines(m, &v), 1 + 7 + 1 + 1 + 5);
    assert_true(shows(m, &v, 50, 12, "sandblaster, 1 group") && !shows(m, &v, 50, 12, "conv2 "));
    for (int i = 0; i < 40; i++) {
        struct sw_ui_input in = {.key = 'j'};
        sw_ui_press(&v, m, &in, 50, 12);
    }
    assert_int_equal(v.scroll[9], p->lines(m, &v) - 6);
    assert_true(shows(m, &v, 50, 12, "predicted") && shows(m, &v, 50, 12, "data "));

    v.scroll[9] = 0;
    snprintf(v.filter, sizeof v.filter, "CONV");
    assert_true(shows(m, &v, 80, 24, "conv1 ") && !shows(m, &v, 80, 24, "fc6 "));
    unstage(m);
}

/* Names that differ in their last letters. */
static void long_names_take_columns_from_bars(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();

    stage_plan(m);
    v.focus = 9;
    v.maximized = true;
    snprintf(m->plan.layers[1].name, sizeof m->plan.layers[1].name, "inception_3b_3x3_reduce");
    assert_true(shows(m, &v, 80, 24, "inception_3b_3x3_reduce 0 ps"));
    assert_true(shows(m, &v, 80, 24, "▆▆▆▆▆     110 ms ▆▆▆▆▆▆"));
    assert_true(shows(m, &v, 50, 12, "98 ms   110 ms  +12 %"));
    unstage(m);
}

static void replaced_plans_follow_the_step(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();

    stage_plan(m);
    v.focus = 9;
    v.maximized = true;
    m->plan.past[m->plan.past_count++] = (struct sw_ui_plan_past){"until step 2000", 50, 60};
    m->plan.part_ms[SW_UI_PLAN_REST] = 1.8;
    assert_true(shows(m, &v, 50, 16, "until step 2000        50 ms    60 ms  +20 %   "));
    assert_true(shows(m, &v, 50, 16, "rest                  1.8 ms   1.8 ms   +0 %   "));
    unstage(m);
}

/* The numbers of `history show`, and those of the panel. */
static void json_has_the_plan(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_bytes out = {0};

    sw_once_json(m, &out);
    assert_non_null(strstr(sw_bytes_text(&out), "\"plan\":null"));
    sw_bytes_clear(&out);
    stage_plan(m);
    m->plan.mean_ms = 120;
    sw_once_json(m, &out);
    assert_non_null(strstr(sw_bytes_text(&out), "\"predicted_ms\":98,\"measured_ms\":120,"));
    assert_non_null(
        strstr(sw_bytes_text(&out), "{\"part\":\"wait\",\"predicted_ms\":1,\"recent_ms\":0}"));
    assert_non_null(
        strstr(sw_bytes_text(&out), "{\"name\":\"conv1\",\"predicted_ms\":10,\"measured_ms\":10}"));
    assert_non_null(strstr(sw_bytes_text(&out),
                           "{\"name\":\"loss\",\"predicted_ms\":0.1,\"measured_ms\":null}"));
    sw_bytes_fini(&out);
    unstage(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_is_read),
        cmocka_unit_test(rounding_errors_of_the_simulation_are_zero),
        cmocka_unit_test(rest_and_replaced_plans_are_read),
        cmocka_unit_test(inputs_are_the_rest_of_a_step),
        cmocka_unit_test(damaged_plan_keeps_its_times),
        cmocka_unit_test(parts_are_those_of_the_busiest_worker),
        cmocka_unit_test(parts_of_asynchronous_groups_are_those_of_the_slowest),
        cmocka_unit_test(connections_are_activations),
        cmocka_unit_test(verdict_names_direction_and_size),
        cmocka_unit_test(run_without_a_plan_shows_how_to_make_one),
        cmocka_unit_test(large_differences_are_marked_in_text),
        cmocka_unit_test(layers_of_the_plan_scroll_and_are_filtered),
        cmocka_unit_test(long_names_take_columns_from_bars),
        cmocka_unit_test(replaced_plans_follow_the_step),
        cmocka_unit_test(json_has_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
