/* Golden screens: the whole screen as text, in several sizes and kinds of terminals. After an
 * intended change, SW_GOLDEN=write in the environment rewrites the files; review the difference. */
#include "ui_support.h"

#include "odd_values.h"
#include "ui/theme.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void golden_path(char *out, size_t bytes, const char *name)
{
    snprintf(out, bytes, "%s/tests/unit/ui/golden/%s.txt", SW_SOURCE_DIR, name);
}

/* Appends the attributes of every cell below the text, one letter each: the only distinction on a
 * terminal without colors. */
static void add_attributes(const struct sw_canvas *c, struct sw_bytes *out)
{
    const struct sw_theme *t = sw_theme_find(NULL);
    static const char letters[16] = " bdBrRxXuUvVwWyY";
    for (int y = 0; y < c->h; y++) {
        int last = -1;
        char line[512];
        for (int x = 0; x < c->w; x++) {
            const struct sw_ui_cell *cell = &c->cells[y * c->w + x];
            unsigned a = sw_theme_attributes(t, (enum sw_role)cell->role, c->caps.colours);
            line[x] = cell->rune == ' ' ? ' ' : letters[a & 15];
            last = line[x] == ' ' ? last : x;
        }
        sw_bytes_append(out, line, (size_t)(last + 1));
        sw_bytes_add(out, "\n");
    }
}

static void check(const char *name, const struct sw_bytes *frame)
{
    char path[512], *expected = NULL;
    size_t bytes;
    struct sw_err err;
    golden_path(path, sizeof path, name);
    const char *write = getenv("SW_GOLDEN");
    if (write && strcmp(write, "write") == 0) {
        assert_int_equal(sw_os_replace_file(path, sw_bytes_text(frame), frame->length, 0644, &err),
                         SW_OK);
        return;
    }
    if (sw_os_read_file(path, 1 << 20, &expected, &bytes, &err) != SW_OK)
        fail_msg("%s", err.text);
    if (strcmp(expected, sw_bytes_text(frame)) != 0)
        fail_msg("%s differs; now it is\n%s", path, sw_bytes_text(frame));
    sw_free(expected);
}

static void draw(struct sw_canvas *c, const struct sw_ui_model *m, const struct sw_ui_view *v,
                 int w, int h, struct sw_ui_caps caps)
{
    struct sw_err err;
    *c = (struct sw_canvas){0};
    assert_int_equal(sw_canvas_begin(c, w, h, caps, &err), SW_OK);
    sw_screen_draw(c, m, v);
}

static const struct sw_ui_caps utf8 = {true, 256}, ascii = {false, 8}, mono = {true, 0};

static void golden(const char *name, const struct sw_ui_model *m, const struct sw_ui_view *v, int w,
                   int h, struct sw_ui_caps caps)
{
    struct sw_canvas c;
    struct sw_bytes text = {0};
    draw(&c, m, v, w, h, caps);
    sw_canvas_to_text(&c, &text);
    if (caps.colours == 0)
        add_attributes(&c, &text);
    assert_false(text.failed);
    check(name, &text);
    sw_bytes_fini(&text);
    sw_canvas_fini(&c);
}

static void every_size_and_terminal_matches_its_golden_file(void **state)
{
    static const int sizes[][2] = {{40, 10}, {60, 15}, {80, 24}, {120, 40}, {200, 60}};
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[64];
        int w = sizes[i][0], h = sizes[i][1];
        snprintf(name, sizeof name, "%dx%d-utf8", w, h);
        golden(name, m, &v, w, h, utf8);
        snprintf(name, sizeof name, "%dx%d-ascii", w, h);
        golden(name, m, &v, w, h, ascii);
        snprintf(name, sizeof name, "%dx%d-mono", w, h);
        golden(name, m, &v, w, h, mono);
    }
    unstage(m);
}

static void each_maximized_panel_matches_its_golden_file(void **state)
{
    struct sw_ui_model *m = stage();
    for (int number = 1; sw_panel_numbered(number); number++) {
        struct sw_ui_view v = view_of_a_beginner();
        char name[64];
        v.focus = number;
        v.maximized = true;
        snprintf(name, sizeof name, "maximized-%s", sw_panel_numbered(number)->name);
        golden(name, m, &v, 100, 30, utf8);
    }
    unstage(m);
}

/* The only panel that the overview has for some runs alone. */
static void plan_matches_golden_files(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    stage_plan(m);
    golden("plan-120x40", m, &v, 120, 40, utf8);
    v.focus = 9;
    v.maximized = true;
    golden("plan-80x24", m, &v, 80, 24, utf8);
    golden("plan-80x24-mono", m, &v, 80, 24, mono);
    golden("plan-50x12", m, &v, 50, 12, ascii);
    unstage(m);
}

static void help_confirmation_and_filter_match_golden_files(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    v.mode = SW_UI_HELP;
    golden("help", m, &v, 100, 36, utf8);
    golden("help-80x24", m, &v, 80, 24, utf8);
    v.mode = SW_UI_CONFIRMING;
    snprintf(v.message, sizeof v.message, "stop training? (y/n)");
    golden("confirming", m, &v, 80, 24, utf8);
    v = view_of_a_beginner();
    v.mode = SW_UI_FILTERING;
    snprintf(v.filter, sizeof v.filter, "WORKER");
    golden("filtering", m, &v, 80, 24, utf8);
    unstage(m);
}

static void zoom_cursor_and_log_scale_match_a_golden_file(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    v.maximized = true;
    v.zoom = 2;
    v.log_y = true;
    v.cursor = 0.5;
    golden("zoomed", m, &v, 100, 30, utf8);
    unstage(m);
}

static bool shows(const struct sw_ui_model *m, const struct sw_ui_view *v, int w, int h,
                  const char *what)
{
    struct sw_canvas c;
    struct sw_bytes text = {0};
    draw(&c, m, v, w, h, utf8);
    sw_canvas_to_text(&c, &text);
    bool found = strstr(sw_bytes_text(&text), what) != NULL;
    sw_bytes_fini(&text);
    sw_canvas_fini(&c);
    return found;
}

static void one_line_screen_shows_the_essentials(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    assert_true(shows(m, &v, 60, 1, "#128 4812/35100 loss 0.3"));
    assert_true(shows(m, &v, 100, 1, "ETA 00:"));
    assert_true(shows(m, &v, 100, 1, "alexnet-cifar"));
    unstage(m);
}

static void overlay_of_another_run_is_dashed(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    struct sw_ui_series *s = sw_ui_series_add(m->overlay, &m->overlay_count, 4, 9, "train", "loss");
    for (int i = 1; i <= 3000; i++)
        sw_ui_series_point(s, i, 2.5 - i / 3000.0);
    m->overlay_run = 127;
    v.maximized = true;
    golden("overlay", m, &v, 100, 30, utf8);
    assert_true(shows(m, &v, 100, 30, "C #127 1.5"));
    assert_true(shows(m, &v, 100, 30, "overlay #127"));
    unstage(m);
}

static void non_finite_values_are_counted(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    assert_false(shows(m, &v, 100, 30, "non-finite"));
    sw_ui_series_point(&m->series[0], STAGED_STEP + 1, NAN);
    sw_ui_series_point(&m->series[0], STAGED_STEP + 2, INFINITY);
    assert_true(shows(m, &v, 100, 30, "2 non-finite"));
    unstage(m);
}

/* Curves in the order of their titles on the screen. */
static void constant_learning_rate_comes_last(void **state)
{
    struct sw_ui_view v = view_of_a_beginner();
    for (int varies = 0; varies < 2; varies++) {
        struct sw_ui_model *m = stage();
        sw_ui_series_fini(m->series, &m->series_count);
        for (int i = 0; i < 3; i++) {
            static const char *const names[] = {"loss", "lr", "samples_per_s"};
            struct sw_ui_series *s = sw_ui_series_add(m->series, &m->series_count, SW_UI_SERIES,
                                                      i + 1, "train", names[i]);
            for (int step = 1; step < 50; step++)
                sw_ui_series_point(s, step, i == 1 && !varies ? 0.05 : 1.0 / step);
        }
        assert_true(shows(m, &v, 80, 24, "samples_per_s") == !varies);
        assert_true(shows(m, &v, 80, 24, "lr train") == varies);
        unstage(m);
    }
}

static void every_evaluation_has_its_curve_and_letter(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    struct sw_ui_series *s =
        sw_ui_series_add(m->series, &m->series_count, SW_UI_SERIES, 9, "val", "loss");
    for (int i = 400; i < STAGED_STEP; i += 400)
        sw_ui_series_point(s, i, 1.9);
    v.maximized = true;
    assert_true(shows(m, &v, 200, 60, "A train 0.354  B test 0.494  "));
    assert_true(shows(m, &v, 200, 60, "C val 1.9"));
    assert_true(shows(m, &v, 200, 60, "\u2824C\u2824") || shows(m, &v, 200, 60, "\u2812C\u2812") ||
                shows(m, &v, 200, 60, "\u2809C\u2809") || shows(m, &v, 200, 60, "\u28c0C\u28c0"));
    unstage(m);
}

/* At 80 x 24 the advice has a line, and no other panel is lost for it. */
static void advice_is_on_a_standard_terminal(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    assert_true(shows(m, &v, 80, 24, "set rebalance = yes in [cluster]; check its cores"));
    for (int number = 1; number <= 7; number += number == 3 ? 4 : 1)
        assert_true(shows(m, &v, 80, 24, sw_panel_numbered(number)->title));
    assert_true(shows(m, &v, 40, 10, "set rebalance = yes"));
    unstage(m);
}

/* When it died and how to go on, from the standard terminal down. */
static void crashed_run_shows_when_it_died(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    m->live = false;
    m->run.status = SW_RUN_CRASHED;
    m->run.ended_at = 1700000355; /* 22:19:15 */
    assert_true(shows(m, &v, 80, 24, "crashed 22:19:15, took 00:05:55"));
    assert_true(shows(m, &v, 40, 10, "crashed 22:19:15"));
    assert_true(shows(m, &v, 50, 10, "singa-ws resume 128 continues from step 4800"));
    m->now += 2 * 86400;
    assert_true(shows(m, &v, 80, 24, "crashed 2023-11-14 22:19:15"));
    m->checkpoint_step = -1;
    assert_true(shows(m, &v, 60, 10, "no checkpoint was written"));
    m->run.status = SW_RUN_DONE;
    assert_false(shows(m, &v, 60, 10, "no checkpoint was written"));
    unstage(m);
}

static void rename_thread(struct sw_ui_model *m, int i, const char *name)
{
    snprintf(m->threads[i].slot.name, sizeof m->threads[i].slot.name, "%s", name);
    snprintf(m->placements[i].unit, sizeof m->placements[i].unit, "%s", name);
}

/* Two hosts with two workers each; what is known of the second one is older. */
static void hosts_of_a_run_have_a_line_each(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();

    v.focus = 3;
    v.maximized = true;
    rename_thread(m, 2, "b/worker0.0");
    rename_thread(m, 3, "b/worker0.1");
    rename_thread(m, 5, "b/server0.0");
    m->threads[2].slot.done_step = m->threads[3].slot.done_step = 4802;
    m->links[0] = (struct sw_run_traffic){"a", "b", "net", 5e6, 200, 1e8};
    m->links[1] = (struct sw_run_traffic){"b", "a", "net", 3e6, 200, NAN};
    m->host_count = 2;
    m->hosts[0] = (struct sw_ui_host){.name = "a"};
    m->hosts[1] = (struct sw_ui_host){.name = "b"};
    sw_ui_update_hosts(m);

    assert_int_equal(sw_ui_step(m), 4812);
    assert_int_equal(sw_ui_host_of(m, "b/worker0.1"), 1);
    assert_int_equal(sw_ui_host_of(m, "worker0.1"), 0);
    assert_int_equal(sw_ui_thread_kind_of("b/server0.0"), SW_UI_SERVER);
    assert_int_equal(sw_ui_thread_kind_of("b/prefetch0.0 worker/x 0"), SW_UI_READER);
    assert_int_equal(sw_ui_bottleneck(m).worker, 3);
    assert_non_null(strstr(sw_ui_bottleneck(m).text, "b/worker0.1 is slow"));
    assert_true(shows(m, &v, 100, 24, "host a  running  step 4812  sends 25.0 MB/s"));
    assert_true(shows(m, &v, 100, 24, "host b  running  step 4802  sends 15.0 MB/s"));
    assert_true(shows(m, &v, 100, 24, "b/worker0.1 backward"));
    assert_false(shows(m, &v, 100, 24, "-10"));
    v.focus = 4;
    assert_true(shows(m, &v, 100, 40, "a > b  net  25.0 MB/s, 25 % of 100.0 MB/s"));
    assert_true(shows(m, &v, 100, 40, "b > a  net  15.0 MB/s"));
    assert_false(shows(m, &v, 100, 40, "15.0 MB/s,"));

    v.focus = 3;
    snprintf(m->hosts[1].why, sizeof m->hosts[1].why, "the connection is closed");
    assert_true(shows(m, &v, 80, 24, "host b  lost: the connection is closed"));
    m->run.status = SW_RUN_DONE;
    m->live = false;
    sw_ui_update_hosts(m);
    assert_true(shows(m, &v, 80, 24, "host a  left  step --  sends --"));
    unstage(m);
}

static void tiny_screen_answers_the_help_key(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    v.mode = SW_UI_HELP;
    assert_true(shows(m, &v, 60, 2, "q quit"));
    v.mode = SW_UI_CONFIRMING;
    snprintf(v.message, sizeof v.message, "stop training? (y/n)");
    assert_true(shows(m, &v, 60, 1, "stop training? (y/n)"));
    unstage(m);
}

static void paused_is_shown_at_every_size(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    for (int i = 0; i < 4; i++)
        m->threads[i].slot.phase = SW_PHASE_PAUSED;
    assert_true(shows(m, &v, 50, 1, "paused"));
    assert_true(shows(m, &v, 40, 10, "paused"));
    assert_true(shows(m, &v, 80, 24, "paused"));
    unstage(m);
}

static void unknown_is_never_zero(void **state)
{
    struct sw_ui_model *m = sw_calloc(1, sizeof *m);
    struct sw_ui_view v = view_of_a_beginner();
    sw_ui_model_clear(m);
    m->found = true;
    m->run = (struct sw_ui_run){.id = 1, .name = "young", .steps = 10, .batch = 4};
    assert_true(shows(m, &v, 80, 24, "-- samples/s"));
    assert_true(shows(m, &v, 80, 24, "step --"));
    assert_true(shows(m, &v, 80, 24, "no step has been measured yet"));
    assert_true(shows(m, &v, 40, 1, "loss --"));
    m->found = false;
    snprintf(m->problem, sizeof m->problem, "no run yet");
    assert_true(shows(m, &v, 80, 24, "no run yet"));
    sw_ui_model_fini(m);
    sw_free(m);
}

/* Draws screens of many sizes; sanitizer builds check the accesses. */
static void any_screen_size_is_drawn(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    stage_plan(m);
    for (int w = 0; w < 210; w += w < 60 ? 3 : 29)
        for (int h = 0; h < 60; h += h < 20 ? 1 : 7)
            for (int number = 0; number <= 9; number += number == 8 ? 1 : 4) {
                struct sw_canvas c;
                v.focus = number;
                v.maximized = number > 0;
                v.mode = number == 4 ? SW_UI_HELP : SW_UI_NORMAL;
                draw(&c, m, &v, w, h, number ? utf8 : ascii);
                for (int i = 0; i < c.w * c.h; i++)
                    assert_true(c.cells[i].role < SW_ROLES && (c.cells[i].rune < 128 || number));
                sw_canvas_fini(&c);
            }
    unstage(m);
}

/* Sets all numbers of a run alternately to two values. */
static void make_odd(struct sw_ui_model *m, double a, double b)
{
    for (int i = 0; i < m->series_count; i++) {
        sw_trail_clear(&m->series[i].trail);
        for (int k = 0; k < 700; k++)
            sw_ui_series_point(&m->series[i], k, k % 2 ? a : b);
    }
    for (int i = 0; i < m->layer_count; i++) {
        m->layers[i].forward_ms = a;
        m->layers[i].backward_ms = b;
        m->layers[i].slowest_ms = a;
    }
    for (int i = 0; i < m->device_count; i++)
        m->devices[i] = (struct sw_run_hardware){"gpu", a, b, a, b, a, b};
    for (int i = 0; i < m->link_count; i++)
        m->links[i].bytes_per_step = m->links[i].ms_per_step = a;
    for (int i = 0; i < m->ledger.worker_count; i++)
        for (int p = 0; p < SW_STEP_PHASES; p++)
            m->ledger.worker[i].ms[p] = m->ledger.worker[i].median_ms[p] = p % 2 ? a : b;
    for (int i = 0; i < m->plan.layer_count; i++)
        m->plan.layers[i].compute_ms = i % 2 ? a : b;
    m->plan.step_ms = m->plan.part_ms[SW_UI_PLAN_WAIT] = b;
    m->plan.mean_ms = m->plan.part_ms[SW_UI_PLAN_COMPUTE] = a;
    m->ledger.step_ms = m->ledger.p50_ms = m->ledger.p99_ms = a;
    m->rows[1].loss = m->rows[1].started_at = m->rows[0].loss = a;
    m->rows[1].ended_at = m->rows[1].accuracy = m->rows[0].started_at = b;
    m->run.flops_per_sample = a;
    m->machine.load = m->machine.process_cpus = m->machine.process_memory = b;
    sw_ui_event_eval(m, a, "test", 7, "loss", b);
}

static void numbers_of_any_size_are_shown(void **state)
{
    static const int sizes[][2] = {{100, 44}, {31, 5}, {200, 60}};
    struct sw_ui_view v = view_of_a_beginner();
    for (int i = 0; i < ODD_VALUES * ODD_VALUES; i += 5)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct sw_ui_model *m = stage();
            struct sw_canvas c;
            stage_plan(m);
            make_odd(m, odd_values[i / ODD_VALUES], odd_values[i % ODD_VALUES]);
            v.log_y = i & 1;
            v.maximized = k == 2;
            v.focus = v.maximized ? 1 + i % 9 : 1;
            draw(&c, m, &v, sizes[k][0], sizes[k][1], i & 2 ? utf8 : ascii);
            sw_canvas_fini(&c);
            unstage(m);
        }
}

static void clicks_hit_panels_and_keys(void **state)
{
    struct sw_ui_model *m = stage();
    struct sw_ui_view v = view_of_a_beginner();
    struct sw_layout l;
    sw_layout_make(&l, 80, 24, m, &v);
    assert_string_equal(sw_layout_at(&l, 5, 4)->panel->name, "curves");
    assert_null(sw_layout_at(&l, 5, 0));
    for (int i = 0; i + 1 < l.count; i++)
        assert_int_equal(l.place[i].area.y + l.place[i].area.h, l.place[i + 1].area.y);
    assert_int_equal(sw_screen_key_at(80, &v, 1), 'q');
    assert_int_equal(sw_screen_key_at(80, &v, 8), 0);
    assert_int_equal(sw_screen_key_at(80, &v, 9), '?');
    assert_int_equal(sw_screen_key_at(80, &v, 79), 0);
    unstage(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_and_terminal_matches_its_golden_file),
        cmocka_unit_test(each_maximized_panel_matches_its_golden_file),
        cmocka_unit_test(plan_matches_golden_files),
        cmocka_unit_test(help_confirmation_and_filter_match_golden_files),
        cmocka_unit_test(zoom_cursor_and_log_scale_match_a_golden_file),
        cmocka_unit_test(one_line_screen_shows_the_essentials),
        cmocka_unit_test(overlay_of_another_run_is_dashed),
        cmocka_unit_test(non_finite_values_are_counted),
        cmocka_unit_test(constant_learning_rate_comes_last),
        cmocka_unit_test(every_evaluation_has_its_curve_and_letter),
        cmocka_unit_test(advice_is_on_a_standard_terminal),
        cmocka_unit_test(crashed_run_shows_when_it_died),
        cmocka_unit_test(hosts_of_a_run_have_a_line_each),
        cmocka_unit_test(tiny_screen_answers_the_help_key),
        cmocka_unit_test(paused_is_shown_at_every_size),
        cmocka_unit_test(unknown_is_never_zero),
        cmocka_unit_test(any_screen_size_is_drawn),
        cmocka_unit_test(numbers_of_any_size_are_shown),
        cmocka_unit_test(clicks_hit_panels_and_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
