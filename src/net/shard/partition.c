/* The movement table of partitioning, and the rectangles that follow from it: a worker's shard of
 * an output, and what goes from one worker to another when an output changes its distribution. Pure
 * arithmetic; any thread. */
#include "net/partition.h"

#include <stddef.h>

static const char *const names[SW_DISTS] = {"rows", "columns", "full", "sums", "one"};

/* From the rows of this table to its columns. No connection starts from full, since an output is
 * computed once; none leads to sums, since no layer reads partial sums; and a reader of the full
 * output of sums converts them to rows first, which is cheaper than sending everything to all
 * workers. */
static const struct sw_movement_cell cells[SW_DISTS][SW_DISTS] = {
    [SW_DIST_ROWS] = {[SW_DIST_ROWS] = {"none", "none", 0, 0, 0},
                      [SW_DIST_COLUMNS] = {"all-to-all", "all-to-all", 0, 1, 0},
                      [SW_DIST_FULL] = {"all-gather", "reduce-scatter", 1, 0, 0},
                      [SW_DIST_ONE] = {"gather", "scatter", 0, 1, 0}},
    [SW_DIST_COLUMNS] = {[SW_DIST_ROWS] = {"all-to-all", "all-to-all", 0, 1, 0},
                         [SW_DIST_COLUMNS] = {"none", "none", 0, 0, 0},
                         [SW_DIST_FULL] = {"all-gather", "reduce-scatter", 1, 0, 0},
                         [SW_DIST_ONE] = {"gather", "scatter", 0, 1, 0}},
    [SW_DIST_SUMS] = {[SW_DIST_ROWS] = {"reduce-scatter", "all-gather", 1, 0, 0},
                      [SW_DIST_COLUMNS] = {"reduce-scatter", "all-gather", 1, 0, 0},
                      [SW_DIST_ONE] = {"reduce", "broadcast", 1, 0, 0}},
    [SW_DIST_ONE] = {[SW_DIST_ROWS] = {"scatter", "gather", 0, 1, 0},
                     [SW_DIST_COLUMNS] = {"scatter", "gather", 0, 1, 0},
                     [SW_DIST_FULL] = {"broadcast", "reduce", 1, 0, 0},
                     [SW_DIST_ONE] = {"none", "none", 0, 0, 0}},
};

/* From one worker to another. */
static const struct sw_movement_cell bridge = {"bridge", "bridge", 0, 0, 1};

/* Between differently partitioned columns: an upper bound, less if shards overlap. */
static const struct sw_movement_cell shift = {"all-to-all", "all-to-all", 0, 1, 0};

const char *sw_dist_name(enum sw_dist d)
{
    return names[d];
}

bool sw_distribution_equal(struct sw_distribution a, struct sw_distribution b)
{
    return a.dist == b.dist && a.at == b.at && a.groups == b.groups && a.first == b.first &&
           a.whole == b.whole;
}

bool sw_distribution_suits(struct sw_distribution s, int64_t columns, int workers)
{
    return s.dist != SW_DIST_COLUMNS || s.whole || columns >= workers;
}

const struct sw_movement_cell *sw_movement_cell(struct sw_distribution from,
                                                struct sw_distribution to)
{
    const struct sw_movement_cell *cell = &cells[from.dist][to.dist];

    if (from.dist == SW_DIST_ONE && to.dist == SW_DIST_ONE && from.at != to.at)
        return &bridge;
    if (from.dist == SW_DIST_COLUMNS && to.dist == SW_DIST_COLUMNS &&
        !sw_distribution_equal(from, to))
        return &shift;

    return cell->forward ? cell : NULL;
}

bool sw_rect_is_empty(const struct sw_rect *r)
{
    return r->rows <= 0 || r->columns <= 0;
}

static void intersect_ranges(int64_t a, int64_t a_count, int64_t b, int64_t b_count, int64_t *first,
                             int64_t *count)
{
    int64_t end = a + a_count < b + b_count ? a + a_count : b + b_count;
    *first = a > b ? a : b;
    *count = end > *first ? end - *first : 0;
}

struct sw_rect sw_rect_intersect(const struct sw_rect *a, const struct sw_rect *b)
{
    struct sw_rect r;
    intersect_ranges(a->row, a->rows, b->row, b->rows, &r.row, &r.rows);
    intersect_ranges(a->column, a->columns, b->column, b->columns, &r.column, &r.columns);
    return r;
}

static void part_of_others(int64_t columns, const struct sw_distribution *s, int workers, int i,
                           struct sw_rect *r)
{
    int64_t at, count;
    sw_part(s->whole, workers, i, &at, &count);
    intersect_ranges(0, columns, at - s->first, count, &r->column, &r->columns);
}

static void part_of_groups(int64_t columns, int64_t groups, int workers, int i, struct sw_rect *r)
{
    sw_part(groups, workers, i, &r->column, &r->columns);
    r->column *= columns / groups;
    r->columns *= columns / groups;
}

struct sw_rect sw_distribution_rect(struct sw_distribution s, int64_t rows, int64_t columns,
                                    int workers, int i)
{
    struct sw_rect r = {.rows = rows, .columns = columns};

    if (s.dist == SW_DIST_ROWS)
        sw_part(rows, workers, i, &r.row, &r.rows);
    else if (s.dist == SW_DIST_COLUMNS && s.whole)
        part_of_others(columns, &s, workers, i, &r);
    else if (s.dist == SW_DIST_COLUMNS && s.groups)
        part_of_groups(columns, s.groups, workers, i, &r);
    else if (s.dist == SW_DIST_COLUMNS)
        sw_part(columns, workers, i, &r.column, &r.columns);
    else if (s.dist == SW_DIST_ONE && i != s.at)
        r = (struct sw_rect){0};

    return r;
}

struct sw_rect sw_movement(const struct sw_move *m, bool backward, int workers, int from, int to)
{
    const struct sw_distribution *a = backward ? &m->to : &m->from,
                                 *b = backward ? &m->from : &m->to;
    struct sw_rect has = sw_distribution_rect(*a, m->rows, m->columns, workers, from);
    struct sw_rect wants = sw_distribution_rect(*b, m->rows, m->columns, workers, to);
    return sw_rect_intersect(&has, &wants);
}

bool sw_movement_adds(struct sw_distribution a, struct sw_distribution b, bool backward)
{
    return backward ? b.dist == SW_DIST_FULL : a.dist == SW_DIST_SUMS;
}
