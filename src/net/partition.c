#include "net/partition.h"

#include <stddef.h>

static const char *const names[SW_DISTS] = {"rows", "columns", "full", "one"};

/* From the rows of this table to its columns. Nothing starts from full but the local part of it: an
 * output is computed once. */
static const struct sw_movement_cell cells[SW_DISTS][SW_DISTS] = {
    [SW_DIST_ROWS] = {[SW_DIST_ROWS] = {"none", "none", 0, 0},
                      [SW_DIST_COLUMNS] = {"all-to-all", "all-to-all", 0, 1},
                      [SW_DIST_FULL] = {"all-gather", "reduce-scatter", 1, 0},
                      [SW_DIST_ONE] = {"gather", "scatter", 0, 1}},
    [SW_DIST_COLUMNS] = {[SW_DIST_ROWS] = {"all-to-all", "all-to-all", 0, 1},
                         [SW_DIST_COLUMNS] = {"none", "none", 0, 0},
                         [SW_DIST_FULL] = {"all-gather", "reduce-scatter", 1, 0},
                         [SW_DIST_ONE] = {"gather", "scatter", 0, 1}},
    [SW_DIST_ONE] = {[SW_DIST_ROWS] = {"scatter", "gather", 0, 1},
                     [SW_DIST_COLUMNS] = {"scatter", "gather", 0, 1},
                     [SW_DIST_FULL] = {"broadcast", "reduce", 1, 0},
                     [SW_DIST_ONE] = {"none", "none", 0, 0}},
};

const char *sw_dist_name(enum sw_dist d)
{
    return names[d];
}

const struct sw_movement_cell *sw_movement_cell(enum sw_dist from, enum sw_dist to)
{
    return &cells[from][to];
}

bool sw_rect_is_empty(const struct sw_rect *r)
{
    return r->rows <= 0 || r->columns <= 0;
}

static void meet(int64_t a, int64_t a_count, int64_t b, int64_t b_count, int64_t *first,
                 int64_t *count)
{
    int64_t end = a + a_count < b + b_count ? a + a_count : b + b_count;
    *first = a > b ? a : b;
    *count = end > *first ? end - *first : 0;
}

struct sw_rect sw_rect_meet(const struct sw_rect *a, const struct sw_rect *b)
{
    struct sw_rect r;
    meet(a->row, a->rows, b->row, b->rows, &r.row, &r.rows);
    meet(a->column, a->columns, b->column, b->columns, &r.column, &r.columns);
    return r;
}

struct sw_rect sw_dist_rect(enum sw_dist d, int64_t rows, int64_t columns, int workers, int i)
{
    struct sw_rect r = {.rows = rows, .columns = columns};
    if (d == SW_DIST_ROWS)
        sw_part(rows, workers, i, &r.row, &r.rows);
    else if (d == SW_DIST_COLUMNS)
        sw_part(columns, workers, i, &r.column, &r.columns);
    else if (d == SW_DIST_ONE && i != 0)
        r = (struct sw_rect){0};
    return r;
}

struct sw_rect sw_movement(enum sw_dist a, enum sw_dist b, bool backward, int64_t rows,
                           int64_t columns, int workers, int from, int to)
{
    struct sw_rect has = sw_dist_rect(backward ? b : a, rows, columns, workers, from);
    struct sw_rect wants = sw_dist_rect(backward ? a : b, rows, columns, workers, to);
    return sw_rect_meet(&has, &wants);
}
