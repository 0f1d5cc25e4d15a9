/* The layout of boxes in drawings, and which images are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "odd_values.h"
#include "ui/plot_boxes.h"
#include "ui/plot_chart.h"
#include "ui/plot_pictures.h"
#include "ui/plot_results.h"
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

static void nested_boxes_are_inside_parents_and_do_not_overlap(void **state)
{
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

static void graph_boxes_are_below_sources_and_do_not_overlap(void **state)
{
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

static void chain_of_layers_is_one_column(void **state)
{
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
    for (int i = 0; i < 24; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(sw_plot_colour(i), sw_plot_colour(j));
    assert_int_not_equal(sw_plot_shade(0), sw_plot_shade(1));
    assert_int_equal(sw_plot_shade(-3), sw_plot_shade(0));
    assert_int_equal(sw_plot_shade(7), sw_plot_shade(1));
    assert_int_equal(sw_plot_shade(NAN), 0xcccccc);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

/* The SVG of a drawing, in new memory. */
static char *drawn(void (*draw)(struct sw_plot *, const void *), const void *thing)
{
    struct sw_plot *p = NULL;
    struct sw_err err;
    char path[64], *text = NULL;
    size_t bytes;

    snprintf(path, sizeof path, "/tmp/singa-plot-%d.svg", (int)getpid());
    assert_int_equal(sw_plot_begin(&p, path, SW_PLOT_SVG, 1200, 900, &err), SW_OK);
    draw(p, thing);
    assert_int_equal(sw_plot_end(p, &err), SW_OK);
    assert_int_equal(sw_os_read_file(path, 1 << 20, &text, &bytes, &err), SW_OK);
    remove(path);
    return text;
}

/* Whatever is drawn, text that is not UTF-8 too, the file is whole or not there. */
static void image_is_written_completely_or_not_at_all(void **state)
{
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
    sw_plot_text(p, 10, 10, (struct sw_plot_font){SW_PLOT_LEFT, .size = 12, .most = 50},
                 "\xff\xfe torn \x1b[31m caf\xc3\xa9 \xc3");
    int64_t counts[4] = {5, 1, 0, 0};
    sw_plot_confusion(
        p, (struct sw_plot_box){0, 0, 300, 200},
        &(struct sw_plot_confusion){.counts = counts, .classes = 2, .title = "two classes"});
    float xy[6] = {0, 1, NAN, 2, INFINITY, 3};
    sw_plot_scatter(p, (struct sw_plot_box){0, 0, 300, 200},
                    &(struct sw_plot_scatter){.xy = xy, .count = 3, .title = "a cloud"});
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

static void draw_scatter(struct sw_plot *p, const void *s)
{
    sw_plot_scatter(p, (struct sw_plot_box){0, 0, 600, 400}, s);
}

/* Points of two sets with names and links; the file has all of them. */
static void scatter_has_names_squares_and_links(void **state)
{
    static const char *const names[] = {"sea", NULL, "a name that is much too long for a legend"};
    const float xy[] = {0, 0, 1, 2, 2, 1, 0, 1, NAN, 2, 3, 3};
    const int labels[] = {0, 1, 2, 0, 1, 3};
    const int64_t links[][2] = {{0, 3}, {1, 4}, {2, 5}};
    char *svg = drawn(draw_scatter, &(struct sw_plot_scatter){.xy = xy,
                                                              .labels = labels,
                                                              .count = 6,
                                                              .title = "two sets",
                                                              .names = names,
                                                              .name_count = 3,
                                                              .squares = 3,
                                                              .kinds = {"images", "texts"},
                                                              .links = links,
                                                              .link_count = 3});
    assert_non_null(strstr(svg, ">sea<"));
    assert_non_null(strstr(svg, ">1<"));
    assert_non_null(strstr(svg, ">texts<"));
    /* Three points of the first set, four labels and one kind; the link to no place is left out. */
    assert_int_equal(count_of(svg, "<circle"), 3 + 4 + 1);
    assert_int_equal(count_of(svg, "#cc3311"), 2);
    sw_free(svg);
}

static void draw_results(struct sw_plot *p, const void *r)
{
    const struct sw_plot_size size = sw_plot_results_size(r);
    sw_plot_results(p, (struct sw_plot_box){0, 0, size.w, size.h}, r);
}

static void sheet_shows_images_texts_and_verdicts(void **state)
{
    static uint8_t rgb[SW_PLOT_THUMBNAIL * 40 * 3];
    const struct sw_plot_cell cells[] = {
        {.text = "sky & <sea>", .note = "query 0"},
        {.rgb = rgb, .w = SW_PLOT_THUMBNAIL, .h = 40, .verdict = SW_PLOT_RELEVANT},
        {.rgb = rgb, .w = 1, .h = 40, .text = "one line below", .verdict = SW_PLOT_IRRELEVANT},
        {.text =
             "\xff torn \xc3 text with-a-word-that-is-wider-than-any-cell-of-a-sheet-can-ever-be-"
             "and-on-it-goes-until-it-is-longer-than-a-line caf\xc3\xa9",
         .verdict = SW_PLOT_IRRELEVANT},
        {.text = "", .note = ""},
        {.text = "   "},
    };
    char *svg = drawn(draw_results, &(struct sw_plot_results){cells, 2, 3, "2 of 9 queries"});
    assert_non_null(strstr(svg, ">2 of 9 queries<"));
    assert_non_null(strstr(svg, ">sky &amp; &lt;sea&gt;<"));
    assert_non_null(strstr(svg, ">one line below<"));
    assert_non_null(strstr(svg, ">query 0<"));
    assert_int_equal(count_of(svg, "<image"), 2);
    assert_int_equal(count_of(svg, "#009e73"), 1);
    assert_int_equal(count_of(svg, "#d55e00"), 2);
    sw_free(svg);
}

/* A text is divided at blanks, no line is wider than the cell, and what does not fit is cut. */
static void texts_are_wrapped(void **state)
{
    char text[4000] = "";
    for (int i = 0; i < 400; i++)
        strcat(text, i % 3 ? "sea " : "lighthouse ");
    const struct sw_plot_cell cells[] = {{.text = text}};
    char *svg = drawn(draw_results, &(struct sw_plot_results){cells, 1, 1, ""});
    const int lines = count_of(svg, "<text");
    assert_in_range(lines, 4, 8);
    assert_int_equal(count_of(svg, "..."), 1);
    for (const char *at = svg; (at = strstr(at, "<text"));) {
        char line[200] = "";
        at = strchr(at, '>') + 1;
        memcpy(line, at, strcspn(at, "<"));
        assert_true(sw_plot_text_width(10, false, line) <= SW_PLOT_THUMBNAIL - 4 + 12);
        assert_null(strstr(line, "lightho "));
    }
    sw_free(svg);
}

/* All curves that two odd values make, one above the other. */
static void plot_odd(struct sw_plot *p, double first, double second, bool odd_x, bool log_y)
{
    const struct sw_plot_box box = {0, 0, 400, 300};
    double a = odd_x ? 1 : first, b = odd_x ? 1 : second;
    struct sw_point points[3] = {{odd_x ? first : 0, a, a, a},
                                 {odd_x ? second : 1, b, fmin(a, b), fmax(a, b)},
                                 {2, a, a, a}};
    struct sw_chart_line lines[4];
    const char *names[4] = {"a"};
    int colours[4] = {0};
    for (int i = 0; i < 4; i++)
        lines[i] = (struct sw_chart_line){points, 3, SW_ROLE_LINE1, (enum sw_stroke)i, 0, 0};
    struct sw_chart chart = {.lines = lines,
                             .line_count = 4,
                             .x_from = odd_x ? first : 0,
                             .x_to = odd_x ? second : 2,
                             .log_y = log_y,
                             .cursor = NAN};
    sw_chart_fit(&chart);
    sw_plot_chart(p, box, &chart, &(struct sw_plot_labels){"t", "x", "y", names, colours});
}

static void plot_odd_pictures(struct sw_plot *p, float first, float second)
{
    const struct sw_plot_box box = {0, 0, 300, 200};
    struct sw_err err;
    float values[8] = {first, second, first, second, 0, 1, second, first};
    sw_plot_scatter(p, box,
                    &(struct sw_plot_scatter){.xy = values, .count = 4, .title = "a cloud"});
    assert_int_equal(
        sw_plot_tiles(p, box, &(struct sw_plot_tiles){values, 2, 1, 2, 2, "tiles"}, &err), SW_OK);
}

/* False where this build cannot draw the format. */
static bool begin_odd(struct sw_plot **p, const char *path, enum sw_plot_format format)
{
    struct sw_err err;
    int code = sw_plot_begin(p, path, format, 400, 300, &err);
    assert_true(code == SW_OK || (code == SW_ERR_UNSUPPORTED && format == SW_PLOT_PNG));
    return code == SW_OK;
}

/* Each value with each of its neighbors in the list; every place in the file is a number. */
static void plots_of_any_values_are_drawn(void **state)
{
    const char *path = "/tmp/singa-odd-plot";
    for (int format = SW_PLOT_PNG; format <= SW_PLOT_SVG; format++)
        for (int i = 0; i < ODD_VALUES * ODD_VALUES; i += format == SW_PLOT_PNG ? 29 : 5) {
            double first = odd_values[i / ODD_VALUES], second = odd_values[i % ODD_VALUES];
            char *text = NULL;
            size_t bytes;
            struct sw_err err;
            struct sw_plot *p = NULL;
            if (!begin_odd(&p, path, (enum sw_plot_format)format))
                break;
            for (int how = 0; how < 4; how++)
                plot_odd(p, first, second, how & 1, how & 2);
            plot_odd_pictures(p, (float)first, (float)second);
            assert_int_equal(sw_plot_end(p, &err), SW_OK);
            assert_int_equal(sw_os_read_file(path, 1 << 24, &text, &bytes, &err), SW_OK);
            if (format == SW_PLOT_SVG)
                assert_true(!strstr(text, "nan") && !strstr(text, "inf"));
            sw_free(text);
        }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_boxes_are_inside_parents_and_do_not_overlap),
        cmocka_unit_test(graph_boxes_are_below_sources_and_do_not_overlap),
        cmocka_unit_test(chain_of_layers_is_one_column),
        cmocka_unit_test(first_colours_are_different),
        cmocka_unit_test(image_is_written_completely_or_not_at_all),
        cmocka_unit_test(plots_of_any_values_are_drawn),
        cmocka_unit_test(scatter_has_names_squares_and_links),
        cmocka_unit_test(sheet_shows_images_texts_and_verdicts),
        cmocka_unit_test(texts_are_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
