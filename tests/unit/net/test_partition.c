/* The arithmetic of partitioning: the pieces that move between two distributions of an output cover
 * it exactly once; gradients mirror them; and the number of floats matches the movement table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/partition.h"
#include <string.h>

enum { MOST_WORKERS = 5, SIDE = 60 };

/* Nothing starts from full: an output is computed once. */
static const struct sw_distribution starts[] = {{.dist = SW_DIST_ROWS, .at = 0},
                                                {.dist = SW_DIST_COLUMNS, .at = 0},
                                                {.dist = SW_DIST_SUMS, .at = 0},
                                                {.dist = SW_DIST_ONE, .at = 0},
                                                {.dist = SW_DIST_ONE, .at = 2}};
static const struct sw_distribution ends[] = {{.dist = SW_DIST_ROWS, .at = 0},
                                              {.dist = SW_DIST_COLUMNS, .at = 0},
                                              {.dist = SW_DIST_FULL, .at = 0},
                                              {.dist = SW_DIST_ONE, .at = 0},
                                              {.dist = SW_DIST_ONE, .at = 1}};
enum { STARTS = sizeof starts / sizeof *starts, ENDS = sizeof ends / sizeof *ends };

/* 60 divides by 1 to 5; the others do not, or have fewer rows or columns than workers. */
static const struct {
    int rows, columns;
} sizes[] = {{60, 60}, {50, 3}, {7, 11}, {3, 60}, {1, 1}, {13, 2}, {60, 1}};

struct change {
    struct sw_distribution from, to;
    bool backward;
    int64_t rows, columns;
    int workers;
};

static struct sw_rect piece_of(const struct change *c, int from, int to)
{
    const struct sw_move move = {c->from, c->to, c->rows, c->columns};
    return sw_movement(&move, c->backward, c->workers, from, to);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* All cells of the table. */
static void each_change(void (*check)(const struct change *c))
{
    for (int a = 0; a < STARTS; a++)
        for (int b = 0; b < ENDS; b++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int workers = 1 + larger(starts[a].at, ends[b].at);
                     workers <= MOST_WORKERS && sw_movement_cell(starts[a], ends[b]); workers++)
                    for (int backward = 0; backward <= 1; backward++)
                        check(&(struct change){.from = starts[a],
                                               .to = ends[b],
                                               .backward = backward,
                                               .rows = sizes[s].rows,
                                               .columns = sizes[s].columns,
                                               .workers = workers});
}

/* ---- parts ---- */

static void shards_differ_by_one_at_most_larger_first(void **state)
{
    for (int64_t total = 0; total <= 70; total++)
        for (int parts = 1; parts <= 9; parts++) {
            int64_t next = 0, before = INT64_MAX;
            for (int i = 0; i < parts; i++) {
                int64_t first, count;
                sw_part(total, parts, i, &first, &count);
                assert_int_equal(first, next);
                assert_true(count <= before);
                assert_true(count == total / parts || count == total / parts + 1);
                next += count;
                before = count;
            }
            assert_int_equal(next, total);
        }
    static const int64_t fifty[] = {17, 17, 16}, hundred[] = {34, 33, 33};
    for (int i = 0; i < 3; i++) {
        int64_t first, count;
        sw_part(50, 3, i, &first, &count);
        assert_int_equal(count, fifty[i]);
        sw_part(100, 3, i, &first, &count);
        assert_int_equal(count, hundred[i]);
    }
}

/* ---- what moves ---- */

static void count_cells(int (*cells)[SIDE], const struct sw_rect *r)
{
    for (int64_t i = r->row; i < r->row + r->rows; i++)
        for (int64_t j = r->column; j < r->column + r->columns; j++) {
            assert_in_range(i, 0, SIDE - 1);
            assert_in_range(j, 0, SIDE - 1);
            cells[i][j]++;
        }
}

static bool lies_in(const struct sw_rect *r, int64_t i, int64_t j)
{
    return i >= r->row && i < r->row + r->rows && j >= r->column && j < r->column + r->columns;
}

/* What a worker gets from all (itself too) is what it is to have: each cell once, or where parts of
 * a sum come together, once from everybody. */
static void check_cover(const struct change *c)
{
    bool sum = sw_movement_adds(c->from, c->to, c->backward);
    for (int k = 0; k < c->workers; k++) {
        int cells[SIDE][SIDE] = {{0}};
        struct sw_rect want =
            sw_distribution_rect(c->backward ? c->from : c->to, c->rows, c->columns, c->workers, k);
        for (int j = 0; j < c->workers; j++) {
            struct sw_rect piece = piece_of(c, j, k);
            if (!sw_rect_is_empty(&piece))
                count_cells(cells, &piece);
        }
        for (int i = 0; i < c->rows; i++)
            for (int j = 0; j < c->columns; j++)
                assert_int_equal(cells[i][j], !lies_in(&want, i, j) ? 0 : sum ? c->workers : 1);
    }
}

static void every_worker_receives_each_element_once(void **state)
{
    each_change(check_cover);
}

/* Nobody sends what it has not got. */
static void check_senders(const struct change *c)
{
    for (int j = 0; j < c->workers; j++) {
        struct sw_rect has =
            sw_distribution_rect(c->backward ? c->to : c->from, c->rows, c->columns, c->workers, j);
        for (int k = 0; k < c->workers; k++) {
            struct sw_rect piece = piece_of(c, j, k), both = sw_rect_intersect(&piece, &has);
            if (!sw_rect_is_empty(&piece))
                assert_memory_equal(&piece, &both, sizeof piece);
        }
    }
}

static void workers_send_only_their_own_shards(void **state)
{
    each_change(check_senders);
}

/* The gradient of what j sends to k comes back from k to j. */
static void check_transpose(const struct change *c)
{
    struct change back = *c;
    back.backward = !c->backward;
    for (int j = 0; j < c->workers; j++)
        for (int k = 0; k < c->workers; k++) {
            struct sw_rect there = piece_of(c, j, k), again = piece_of(&back, k, j);
            assert_int_equal(sw_rect_is_empty(&there), sw_rect_is_empty(&again));
            if (!sw_rect_is_empty(&there))
                assert_memory_equal(&there, &again, sizeof there);
        }
}

static void gradient_movement_mirrors_forward(void **state)
{
    each_change(check_transpose);
}

/* Before and after, all outputs together are the whole. */
static void shards_cover_the_whole_output(void **state)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int workers = 2; workers <= MOST_WORKERS; workers++)
            for (int d = 0; d < ENDS; d++) {
                int cells[SIDE][SIDE] = {{0}};
                for (int i = 0; i < workers; i++) {
                    struct sw_rect r =
                        sw_distribution_rect(ends[d], sizes[s].rows, sizes[s].columns, workers, i);
                    if (!sw_rect_is_empty(&r))
                        count_cells(cells, &r);
                }
                for (int i = 0; i < sizes[s].rows; i++)
                    for (int j = 0; j < sizes[s].columns; j++)
                        assert_int_equal(cells[i][j], ends[d].dist == SW_DIST_FULL ? workers : 1);
            }
}

/* ---- the table ---- */

/* Bd(K-1), Bd(K-1)/K and Bd, written out once more. */
static int64_t floats_of(const struct change *c)
{
    int64_t all = c->rows * c->columns, others = c->workers - 1;
    if (c->to.dist == SW_DIST_FULL || c->from.dist == SW_DIST_SUMS)
        return all * others;
    if (c->to.dist == SW_DIST_ONE && c->from.dist == SW_DIST_ONE)
        return c->to.at == c->from.at ? 0 : all;
    return c->to.dist == c->from.dist ? 0 : all * others / c->workers;
}

static void check_floats(const struct change *c)
{
    const struct sw_movement_cell *cell = sw_movement_cell(c->from, c->to);
    int64_t moved = 0, all = c->rows * c->columns;
    bool divides = c->rows % c->workers == 0 && c->columns % c->workers == 0;
    for (int j = 0; j < c->workers; j++)
        for (int k = 0; k < c->workers; k++) {
            struct sw_rect piece = piece_of(c, j, k);
            if (j != k && !sw_rect_is_empty(&piece))
                moved += piece.rows * piece.columns;
        }
    if (divides) {
        assert_int_equal(moved, floats_of(c));
        assert_int_equal(moved, all * cell->k_minus_1 * (c->workers - 1) +
                                    all * cell->k_minus_1_over_k * (c->workers - 1) / c->workers +
                                    all * cell->whole);
    }
    /* Whoever needs everything gets it but for its own part, whether it divides or not. */
    if (c->to.dist == SW_DIST_FULL)
        assert_int_equal(moved, all * (c->workers - 1));
}

static void moved_floats_match_the_movement_table(void **state)
{
    each_change(check_floats);
}

static const char *transpose_of(const char *operation)
{
    static const char *const pairs[][2] = {
        {"all-gather", "reduce-scatter"}, {"gather", "scatter"}, {"broadcast", "reduce"},
        {"all-to-all", "all-to-all"},     {"bridge", "bridge"},  {"none", "none"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(pairs[i][k], operation) == 0)
                return pairs[i][!k];
    fail_msg("there is no operation %s", operation);
    return NULL;
}

static void backward_operations_are_transposes(void **state)
{
    for (int a = 0; a < STARTS; a++)
        for (int b = 0; b < ENDS; b++) {
            const struct sw_movement_cell *cell = sw_movement_cell(starts[a], ends[b]);
            if (!cell)
                continue;
            assert_string_equal(cell->backward, transpose_of(cell->forward));
            /* Where both ways start from something, the way back is the other cell. */
            if (ends[b].dist != SW_DIST_FULL && starts[a].dist != SW_DIST_SUMS)
                assert_string_equal(cell->backward, sw_movement_cell(ends[b], starts[a])->forward);
            assert_int_equal(strcmp(cell->forward, "none") == 0,
                             sw_distribution_equal(starts[a], ends[b]));
        }
}

/* Every output can be read in every way, in two connections at most: by rows from anywhere. */
/* Columns that are cut otherwise: whole groups, or as part of others, before and behind them. */
static void columns_partitioned_differently_move_once(void **state)
{
    static const struct sw_distribution cuts[] = {
        {.dist = SW_DIST_COLUMNS},
        {.dist = SW_DIST_COLUMNS, .groups = 6},
        {.dist = SW_DIST_COLUMNS, .first = 0, .whole = 31},
        {.dist = SW_DIST_COLUMNS, .first = 40, .whole = 58},
        {.dist = SW_DIST_COLUMNS, .first = -3, .whole = 9},
    };
    enum { CUTS = sizeof cuts / sizeof *cuts, COLUMNS = 18 };
    for (int a = 0; a < CUTS; a++)
        for (int b = 0; b < CUTS; b++)
            for (int workers = 1; workers <= MOST_WORKERS; workers++) {
                int taken[COLUMNS] = {0};
                assert_int_equal(sw_distribution_equal(cuts[a], cuts[b]), a == b);
                for (int j = 0; j < workers; j++)
                    for (int k = 0; k < workers; k++) {
                        struct sw_rect r = sw_movement(
                            &(struct sw_move){cuts[a], cuts[b], 2, COLUMNS}, false, workers, j, k);
                        for (int64_t c = 0; c < r.columns; c++)
                            taken[r.column + c]++;
                    }
                /* What a slice leaves out nobody has. */
                for (int c = 0; c < COLUMNS; c++)
                    assert_int_equal(taken[c],
                                     (a < CUTS - 1 && b < CUTS - 1) || (c >= 3 && c < 12));
            }
    /* 18 columns in 6 groups of 3 over 4 workers: 2, 2, 1 and 1 of them. */
    static const int64_t groups[] = {6, 6, 3, 3};
    for (int i = 0; i < 4; i++)
        assert_int_equal(sw_distribution_rect(cuts[1], 2, COLUMNS, 4, i).columns, groups[i]);
    assert_string_equal(sw_movement_cell(cuts[0], cuts[2])->forward, "all-to-all");
    assert_string_equal(sw_movement_cell(cuts[2], cuts[2])->forward, "none");
}

static void every_distribution_converts_to_rows(void **state)
{
    const struct sw_distribution rows = {.dist = SW_DIST_ROWS, .at = 0};
    for (int a = 0; a < STARTS; a++)
        assert_non_null(sw_movement_cell(starts[a], rows));
    for (int b = 0; b < ENDS; b++)
        assert_non_null(sw_movement_cell(rows, ends[b]));
}

static void distributions_have_names(void **state)
{
    static const char *const names[SW_DISTS] = {"rows", "columns", "full", "sums", "one"};
    for (int d = 0; d < SW_DISTS; d++)
        assert_string_equal(sw_dist_name((enum sw_dist)d), names[d]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_differ_by_one_at_most_larger_first),
        cmocka_unit_test(every_worker_receives_each_element_once),
        cmocka_unit_test(workers_send_only_their_own_shards),
        cmocka_unit_test(gradient_movement_mirrors_forward),
        cmocka_unit_test(shards_cover_the_whole_output),
        cmocka_unit_test(moved_floats_match_the_movement_table),
        cmocka_unit_test(backward_operations_are_transposes),
        cmocka_unit_test(columns_partitioned_differently_move_once),
        cmocka_unit_test(every_distribution_converts_to_rows),
        cmocka_unit_test(distributions_have_names),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
