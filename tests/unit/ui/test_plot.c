/* Where boxes stand in drawings, and what a picture refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ui/plot_boxes.h"
#include "ui/plot_pictures.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool inside(struct sw_plot_box in, struct sw_plot_box of)
{
    return in.x >= of.x && in.y >= of.y && in.x + in.w <= of.x + of.w && in.y + in.h <= of.y + of.h;
}

static bool overlap(struct sw_plot_box a, struct sw_plot_box b)
{
    return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void nested_boxes_lie_in_theirs_and_apart(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct sw_nested_box b[COUNT] = {0};
        uint32_t s = seed;
        for (int i = 0; i < COUNT; i++) {
            b[i].title = "box";
            b[i].parent = i == 0 ? -1 : (int)(next(&s) % (uint32_t)i) - (next(&s) % 8 == 0);
            b[i].down = next(&s) & 1;
        }
        struct sw_plot_size size = sw_nested_layout(b, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_true(inside(b[i].at, b[i].parent < 0 ? (struct sw_plot_box){0, 0, size.w, size.h}
                                                        : b[b[i].parent].at));
            for (int j = 0; j < i; j++)
                assert_false(b[i].parent == b[j].parent && overlap(b[i].at, b[j].at));
        }
    }
}

static void graph_boxes_stand_below_their_sources_and_apart(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct sw_graph_box b[COUNT] = {0};
        uint32_t s = seed;
        for (int i = 1; i < COUNT; i++) {
            b[i].source_count = (int)(next(&s) % 3);
            for (int k = 0; k < b[i].source_count; k++)
                b[i].sources[k] = (int)(next(&s) % (uint32_t)i);
        }
        struct sw_plot_size size = sw_graph_layout(b, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_true(inside(b[i].at, (struct sw_plot_box){0, 0, size.w, size.h}));
            for (int k = 0; k < b[i].source_count; k++)
                assert_true(b[b[i].sources[k]].at.y + b[b[i].sources[k]].at.h < b[i].at.y);
            for (int j = 0; j < i; j++)
                assert_false(overlap(b[i].at, b[j].at));
        }
    }
}

static void a_chain_of_layers_is_a_straight_column(void **state)
{
    (void)state;
    struct sw_graph_box b[5] = {0};
    for (int i = 1; i < 5; i++) {
        b[i].source_count = 1;
        b[i].sources[0] = i - 1;
    }
    sw_graph_layout(b, 5);
    for (int i = 1; i < 5; i++) {
        assert_true(b[i].at.x == b[0].at.x);
        assert_true(b[i].at.y > b[i - 1].at.y);
    }
}

static void first_colours_are_different(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(sw_plot_colour(i), sw_plot_colour(j));
    assert_int_not_equal(sw_plot_shade(0), sw_plot_shade(1));
    assert_int_equal(sw_plot_shade(-3), sw_plot_shade(0));
    assert_int_equal(sw_plot_shade(7), sw_plot_shade(1));
    assert_int_equal(sw_plot_shade(NAN), 0xcccccc);
}

/* Whatever is drawn, text that is not UTF-8 too, the file is whole or not there. */
static void picture_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    enum sw_plot_format format = SW_PLOT_PNG;
    struct sw_plot *p = NULL;
    struct sw_err err;
    char path[64];
    FILE *f;
    snprintf(path, sizeof path, "/tmp/singa-plot-%d.png", (int)getpid());
    int code = sw_plot_begin(&p, path, format, 300, 200, &err);
    if (code == SW_ERR_UNSUPPORTED) {
        assert_non_null(strstr(err.text, "without cairo"));
        format = SW_PLOT_SVG;
        code = sw_plot_begin(&p, path, format, 300, 200, &err);
    }
    assert_int_equal(code, SW_OK);
    sw_plot_text(p, 10, 10, SW_PLOT_LEFT, 12, false, 50, 0,
                 "\xff\xfe torn \x1b[31m caf\xc3\xa9 \xc3");
    int64_t counts[4] = {5, 1, 0, 0};
    sw_plot_confusion(p, (struct sw_plot_box){0, 0, 300, 200},
                      &(struct sw_plot_confusion){counts, 2, "two classes"});
    float xy[6] = {0, 1, NAN, 2, INFINITY, 3};
    sw_plot_scatter(p, (struct sw_plot_box){0, 0, 300, 200},
                    &(struct sw_plot_scatter){xy, NULL, 3, "a cloud"});
    float values[8] = {0, 1, NAN, 2, 3, 3, 3, 3};
    assert_int_equal(sw_plot_tiles(p, (struct sw_plot_box){0, 0, 300, 200},
                                   &(struct sw_plot_tiles){values, 2, 1, 2, 2, "tiles"}, &err),
                     SW_OK);
    assert_null(fopen(path, "r"));
    assert_int_equal(sw_plot_end(p, &err), SW_OK);
    unsigned char head[4];
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, 4, f), 4);
    fclose(f);
    remove(path);
    assert_memory_equal(head, format == SW_PLOT_PNG ? "\x89PNG" : "<svg", 4);
    assert_int_equal(sw_plot_begin(&p, path, SW_PLOT_SVG, 0, 200, &err), SW_ERR_INVALID);
    assert_int_equal(sw_plot_begin(&p, path, SW_PLOT_SVG, 20000, 200, &err), SW_ERR_INVALID);
    assert_int_equal(sw_plot_begin(&p, "/no/such/x.svg", SW_PLOT_SVG, 20, 20, &err), SW_OK);
    assert_int_not_equal(sw_plot_end(p, &err), SW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_boxes_lie_in_theirs_and_apart),
        cmocka_unit_test(graph_boxes_stand_below_their_sources_and_apart),
        cmocka_unit_test(a_chain_of_layers_is_a_straight_column),
        cmocka_unit_test(first_colours_are_different),
        cmocka_unit_test(picture_is_written_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
