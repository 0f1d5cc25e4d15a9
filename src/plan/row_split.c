/* The rows of microbatches: equal at first, then changed by rebalancing. */
#include "plan/row_split.h"

#include "base/os.h"
#include "base/tree.h"

/* With repeat_exact the larger microbatches are spread evenly over the workers that share them;
 * else each worker has one, and the larger ones come first. */
static int64_t even_end(const struct sw_topology *t, int64_t rows, int microbatch)
{
    int64_t first, count;

    if (t->leaves > 0)
        return rows * (microbatch + 1) / t->microbatches;

    sw_part(rows, t->microbatches, microbatch, &first, &count);
    return first + count;
}

/* Computes the first row of each microbatch from their sizes. */
static void place_rows(struct sw_row_split *s, const struct sw_topology *t, int split)
{
    for (int g = 0; g < t->worker_groups; g++) {
        int64_t at, group_rows;
        int from = g * s->microbatches;

        sw_topology_group_rows(t, g, split, &at, &group_rows);

        for (int m = from; m < from + s->microbatches; m++) {
            s->first[split][m] = at;
            at += s->rows[split][m];
        }
    }
}

static void split_evenly(struct sw_row_split *s, const struct sw_topology *t, int split)
{
    for (int g = 0; g < t->worker_groups; g++) {
        int64_t first, group_rows, end = 0;

        sw_topology_group_rows(t, g, split, &first, &group_rows);

        for (int m = 0; m < s->microbatches; m++) {
            int64_t begin = end;

            end = even_end(t, group_rows, m);
            s->rows[split][g * s->microbatches + m] = end - begin;
        }
    }

    place_rows(s, t, split);
}

int sw_row_split_init(struct sw_row_split *s, const struct sw_topology *t, struct sw_err *err)
{
    size_t count = (size_t)t->worker_groups * (size_t)t->microbatches;

    *s = (struct sw_row_split){.microbatches = t->microbatches};
    for (int split = 0; split < SW_SPLITS; split++) {
        s->rows[split] = sw_calloc(count, sizeof *s->rows[split]);
        s->first[split] = sw_calloc(count, sizeof *s->first[split]);
        if (!s->rows[split] || !s->first[split]) {
            sw_row_split_fini(s);
            return sw_err_nomem(err, "the microbatches", count * sizeof *s->rows[split]);
        }

        split_evenly(s, t, split);
    }

    return SW_OK;
}

void sw_row_split_fini(struct sw_row_split *s)
{
    for (int split = 0; split < SW_SPLITS; split++) {
        sw_free(s->rows[split]);
        sw_free(s->first[split]);
    }

    *s = (struct sw_row_split){0};
}

void sw_row_split_set(struct sw_row_split *s, const struct sw_topology *t, const int64_t *rows)
{
    double shares[SW_TREE_LEAVES];
    int64_t first, evaluated;

    sw_topology_host_rows(t, SW_SPLIT_EVAL, &first, &evaluated);

    for (int m = 0; m < s->microbatches; m++) {
        s->rows[SW_SPLIT_TRAIN][m] = rows[m];
        shares[m] = (double)rows[m];
    }

    sw_rows_distribute(evaluated, s->microbatches, shares, s->rows[SW_SPLIT_EVAL]);
    place_rows(s, t, SW_SPLIT_TRAIN);
    place_rows(s, t, SW_SPLIT_EVAL);
}

/* Index of the worker's first microbatch among those of all groups. */
static int first_of(const struct sw_row_split *s, const struct sw_rank *r)
{
    return r->group * s->microbatches + r->first_microbatch;
}

const int64_t *sw_row_split_microbatches(const struct sw_row_split *s, const struct sw_rank *r,
                                         int split)
{
    return &s->rows[split][first_of(s, r)];
}

int64_t sw_row_split_count(const struct sw_row_split *s, const struct sw_rank *r, int split)
{
    const int64_t *rows = sw_row_split_microbatches(s, r, split);
    int64_t sum = 0;

    for (int m = 0; m < r->microbatches; m++)
        sum += rows[m];
    return sum;
}

int64_t sw_row_split_first(const struct sw_row_split *s, const struct sw_rank *r, int split)
{
    return s->first[split][first_of(s, r)];
}

void sw_rows_distribute(int64_t total, int count, const double *shares, int64_t *out)
{
    double sum = 0, rest[SW_TREE_LEAVES];
    int64_t left = total;

    for (int i = 0; i < count; i++)
        sum += shares[i];

    for (int i = 0; i < count; i++) {
        double exact = (double)total * shares[i] / sum;
        out[i] = exact < 1 ? 1 : (int64_t)exact;
        rest[i] = exact - (double)out[i];
        left -= out[i];
    }

    /* Rows left by rounding go to the entries that lack most; rows in excess, due to the minimum of
     * one each, are taken from the largest. */
    for (; left != 0; left -= left > 0 ? 1 : -1) {
        int who = 0;

        for (int i = 1; i < count; i++)
            if (left > 0 ? rest[i] > rest[who] : out[i] > out[who])
                who = i;

        out[who] += left > 0 ? 1 : -1;
        rest[who] -= left > 0 ? 1 : -1;
    }
}
