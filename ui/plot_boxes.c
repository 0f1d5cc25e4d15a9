/* Layout and drawing of nested boxes (a machine) and of layered graphs (a net). A graph is placed
 * row by row, each box near the mean position of its sources. Call the layout function first, then
 * the draw function; the contract is in ui/plot_boxes.h. */
#include "ui/plot_boxes.h"
#include <math.h>

enum { TEXT = 11, SMALL = 9, GAP = 8, HEAD_H = 34, LEAF_W = 92, LEAF_H = 40, MOST_W = 1100 };

/* A color mixed with white, so that black text on it is readable. */
static uint32_t tint(int colour)
{
    if (colour < 0)
        return 0xffffff;

    uint32_t c = sw_plot_colour(colour), out = 0;
    for (int shift = 0; shift < 24; shift += 8)
        out |= (((c >> shift & 255) * 35 + 255 * 65) / 100) << shift;

    return out;
}

/* ---- Boxes within boxes -----------------------------------------------------------------------
 */

static bool has_children(const struct sw_nested_box *boxes, int count, int of)
{
    for (int i = of + 1; i < count; i++)
        if (boxes[i].parent == of)
            return true;
    return false;
}

/* Places the children of box `of` (-1: all top-level boxes) relative to its corner, in rows that
 * break at a maximum width; returns the size. Inner boxes are already placed, since they come later
 * in the array. */
static struct sw_plot_size place_children(struct sw_nested_box *boxes, int count, int of,
                                          double top)
{
    bool down = of < 0 || boxes[of].down;
    double x = GAP, y = top, row_h = 0, width = 0;

    for (int i = of + 1; i < count; i++) {
        if (boxes[i].parent != of)
            continue;

        if (x > GAP && (down || x + boxes[i].at.w > MOST_W)) {
            x = GAP;
            y += row_h + GAP;
            row_h = 0;
        }

        boxes[i].at.x = x;
        boxes[i].at.y = y;
        x += boxes[i].at.w + GAP;
        row_h = fmax(row_h, boxes[i].at.h);
        width = fmax(width, x);
    }

    return (struct sw_plot_size){width, y + row_h + GAP};
}

struct sw_plot_size sw_nested_layout(struct sw_nested_box *boxes, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        boxes[i].at = (struct sw_plot_box){0, 0, LEAF_W, LEAF_H};
        if (!has_children(boxes, count, i))
            continue;

        struct sw_plot_size s = place_children(boxes, count, i, HEAD_H);
        boxes[i].at.w = fmax(s.w, 3 * LEAF_W);
        boxes[i].at.h = s.h;
    }

    struct sw_plot_size all = place_children(boxes, count, -1, GAP);
    for (int i = 0; i < count; i++)
        if (boxes[i].parent >= 0) {
            boxes[i].at.x += boxes[boxes[i].parent].at.x;
            boxes[i].at.y += boxes[boxes[i].parent].at.y;
        }

    return all;
}

void sw_nested_draw(struct sw_plot *p, double x, double y, const struct sw_nested_box *boxes,
                    int count)
{
    for (int i = 0; i < count; i++) {
        struct sw_plot_box at = boxes[i].at;

        at.x += x;
        at.y += y;
        sw_plot_fill(p, at, tint(boxes[i].colour));
        sw_plot_frame(p, at, boxes[i].colour < 0 ? SW_PLOT_GREY : sw_plot_colour(boxes[i].colour),
                      1);

        bool note = boxes[i].note && *boxes[i].note;
        if (has_children(boxes, count, i)) {
            sw_plot_text(
                p, at.x + 8, at.y + (note ? 11 : 17),
                (struct sw_plot_font){SW_PLOT_LEFT, .size = TEXT, .bold = true, .most = at.w - 16},
                boxes[i].title);

            if (note)
                sw_plot_text(p, at.x + 8, at.y + 24,
                             (struct sw_plot_font){SW_PLOT_LEFT, .size = SMALL, .most = at.w - 16},
                             boxes[i].note);
        } else {
            double middle = at.y + at.h / 2;

            sw_plot_text(
                p, at.x + at.w / 2, note ? middle - 8 : middle,
                (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .bold = true, .most = at.w - 6},
                boxes[i].title);

            if (note)
                sw_plot_text(p, at.x + at.w / 2, middle + 8,
                             (struct sw_plot_font){SW_PLOT_CENTRE, .size = SMALL, .most = at.w - 6},
                             boxes[i].note);
        }
    }
}

/* ---- Graphs -----------------------------------------------------------------------------------
 */

enum { BOX_W = 170, BOX_H = 36, ROW_GAP = 22, COLUMN_GAP = 22, TOP = 10, SIDE = 10 };

/* Assigns each box to the row below the lowest of its sources; returns the last row. */
static int find_rows(struct sw_graph_box *boxes, int count)
{
    int last = 0;

    for (int i = 0; i < count; i++) {
        boxes[i].row = 0;
        for (int s = 0; s < boxes[i].source_count; s++) {
            int above = boxes[boxes[i].sources[s]].row;
            boxes[i].row = above >= boxes[i].row ? above + 1 : boxes[i].row;
        }

        last = boxes[i].row > last ? boxes[i].row : last;
    }

    return last;
}

/* Moves an input that is first used in a far row (such as a label) right above that row. */
static void lower_inputs(struct sw_graph_box *boxes, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        int nearest = -1;

        for (int j = i + 1; j < count; j++)
            for (int s = 0; s < boxes[j].source_count; s++)
                if (boxes[j].sources[s] == i && (nearest < 0 || boxes[j].row < nearest))
                    nearest = boxes[j].row;

        if (boxes[i].source_count == 0 && nearest > 0)
            boxes[i].row = nearest - 1;
    }
}

/* The preferred position: the mean of the sources, so that lines are short. */
static double preferred_x(const struct sw_graph_box *boxes, const struct sw_graph_box *b,
                          double otherwise)
{
    double sum = 0;
    for (int s = 0; s < b->source_count; s++)
        sum += boxes[b->sources[s]].at.x;
    return b->source_count ? sum / b->source_count : otherwise;
}

/* Places the boxes of a row from left to right by preferred position, without overlap; the row is
 * then shifted so that the mean deviation is 0. */
static void place_row(struct sw_graph_box *boxes, int count, int row)
{
    double preferred_sum = 0, actual_sum = 0, x = -INFINITY, last_x = -INFINITY;
    int n = 0, last = -1;

    for (;;) {
        int next = -1;
        double next_x = INFINITY;

        for (int i = 0; i < count; i++) {
            double w = boxes[i].row == row ? preferred_x(boxes, &boxes[i], INFINITY / 2) : INFINITY;

            if (boxes[i].source_count == 0 && boxes[i].row == row)
                w = 1e9; /* inputs go to the right */
            if (boxes[i].row != row || w < last_x || (w == last_x && i <= last))
                continue;

            if (next < 0 || w < next_x) {
                next = i;
                next_x = w;
            }
        }

        if (next < 0)
            break;

        double at = isfinite(x) ? x + BOX_W + COLUMN_GAP : next_x < 1e9 ? next_x : 0;
        if (next_x < 1e9 && next_x > at)
            at = next_x;
        boxes[next].at = (struct sw_plot_box){at, TOP + row * (BOX_H + ROW_GAP), BOX_W, BOX_H};

        if (next_x < 1e9) {
            preferred_sum += next_x;
            actual_sum += at;
            n++;
        }

        x = at;
        last = next;
        last_x = next_x;
    }

    double shift = n ? (preferred_sum - actual_sum) / n : 0;
    for (int i = 0; i < count; i++)
        if (boxes[i].row == row)
            boxes[i].at.x += shift;
}

struct sw_plot_size sw_graph_layout(struct sw_graph_box *boxes, int count)
{
    double from = INFINITY, to = -INFINITY;
    int rows = find_rows(boxes, count);

    lower_inputs(boxes, count);
    for (int r = 0; r <= rows; r++)
        place_row(boxes, count, r);

    for (int i = 0; i < count; i++) {
        from = fmin(from, boxes[i].at.x);
        to = fmax(to, boxes[i].at.x + boxes[i].at.w);
    }

    for (int i = 0; i < count; i++)
        boxes[i].at.x += SIDE - from;
    return (struct sw_plot_size){count ? to - from + 2 * SIDE : 2 * SIDE,
                                 2 * TOP + (rows + 1) * (BOX_H + ROW_GAP) - ROW_GAP};
}

/* Draws a line from the lower edge of a source to the upper edge of its reader; a line that passes
 * other rows goes around the side of the boxes. */
static void draw_edge(struct sw_plot *p, double x, double y, const struct sw_graph_box *from,
                      const struct sw_graph_box *to)
{
    double x0 = x + from->at.x + from->at.w / 2, y0 = y + from->at.y + from->at.h;
    double x1 = x + to->at.x + to->at.w / 2, y1 = y + to->at.y;

    sw_plot_path_begin(p);
    sw_plot_path_add(p, x0, y0);

    if (to->row > from->row + 1) {
        double side = x + fmax(from->at.x + from->at.w, to->at.x + to->at.w) + COLUMN_GAP / 2.0;
        sw_plot_path_add(p, side, y0 + ROW_GAP / 2.0);
        sw_plot_path_add(p, side, y1 - ROW_GAP / 2.0);
    }

    sw_plot_path_add(p, x1, y1);
    sw_plot_path_stroke(p, SW_PLOT_GREY, 1, to->dashed);
    sw_plot_dot(p, x1, y1, 2.5, SW_PLOT_GREY);
}

void sw_graph_draw(struct sw_plot *p, double x, double y, const struct sw_graph_box *boxes,
                   int count)
{
    for (int i = 0; i < count; i++)
        for (int s = 0; s < boxes[i].source_count; s++)
            draw_edge(p, x, y, &boxes[boxes[i].sources[s]], &boxes[i]);

    for (int i = 0; i < count; i++) {
        struct sw_plot_box at = boxes[i].at;

        at.x += x;
        at.y += y;
        sw_plot_fill(p, at, tint(boxes[i].colour));
        sw_plot_frame(p, at,
                      boxes[i].dashed || boxes[i].colour < 0 ? SW_PLOT_GREY
                                                             : sw_plot_colour(boxes[i].colour),
                      boxes[i].dashed ? 0.7 : 1.2);

        bool note = boxes[i].note[0] != 0;
        double middle = at.y + at.h / 2;
        sw_plot_text(p, at.x + at.w / 2, note ? middle - 8 : middle,
                     (struct sw_plot_font){SW_PLOT_CENTRE, .size = TEXT, .bold = !boxes[i].dashed,
                                           .most = at.w - 8},
                     boxes[i].title);

        if (note)
            sw_plot_text(p, at.x + at.w / 2, middle + 8,
                         (struct sw_plot_font){SW_PLOT_CENTRE, .size = SMALL, .most = at.w - 8},
                         boxes[i].note);
    }
}
