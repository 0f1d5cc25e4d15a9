/* Assignment of a batch's rows to microbatches, and so to workers. Rebalancing changes it only
 * while all workers wait at a barrier; at other times any thread reads it. */
#pragma once

#include "plan/topology.h"

struct sw_row_split {
    int microbatches;          /* per worker group */
    int64_t *rows[SW_SPLITS];  /* owned [worker groups][microbatches] */
    int64_t *first[SW_SPLITS]; /* owned, same shape: first row of each in the batch */
};

/* Makes the microbatches as equal as possible. Errors: SW_ERR_NOMEM. */
int sw_row_split_init(struct sw_row_split *s, const struct sw_topology *t,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_row_split_fini(struct sw_row_split *s); /* a zeroed one is accepted */
/* Sets the rows of the microbatches of the only worker group: `rows` of a training batch, and
 * proportional numbers of an evaluation batch. */
void sw_row_split_set(struct sw_row_split *s, const struct sw_topology *t, const int64_t *rows);

/* A worker's rows: of each of its microbatches, their sum, and the first row. */
const int64_t *sw_row_split_microbatches(const struct sw_row_split *s, const struct sw_rank *r,
                                         int split);
int64_t sw_row_split_count(const struct sw_row_split *s, const struct sw_rank *r, int split);
int64_t sw_row_split_first(const struct sw_row_split *s, const struct sw_rank *r, int split);

/* Distributes `total` rows in proportion to `shares`, at least one each; ties go to the first. */
void sw_rows_distribute(int64_t total, int count, const double *shares, int64_t *out);
